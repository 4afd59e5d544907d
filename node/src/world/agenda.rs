//! The agenda of a world: future events in the order of their time; at one time, in the order in
//! which they were inserted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A queue of future events. Entries of the heap are small and cheap to move; the events lie in
/// slots, which are used again.
pub(super) struct Agenda<T> {
    heap: BinaryHeap<Reverse<(Duration, u64, u32)>>,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<T> Agenda<T> {
    pub(super) const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            sequence: 0,
        }
    }

    /// Insert `what`, which happens at `at`.
    pub(super) fn insert(&mut self, at: Duration, what: T) {
        self.sequence += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Some(what),
            None => self.slots.push(Some(what)),
        }
        self.heap.push(Reverse((at, self.sequence, slot)));
    }

    /// Take the next event, unless it is later than `end`.
    pub(super) fn pop(&mut self, end: Duration) -> Option<(Duration, T)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > end {
            return None;
        }
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        let what = self.slots.get_mut(slot as usize)?.take()?;
        Some((at, what))
    }

    /// The number of future events.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_the_order_of_time_and_then_of_notice() {
        let (mut agenda, second) = (Agenda::new(), Duration::from_secs(1));
        for (at, what) in [(2, 'c'), (1, 'a'), (1, 'b'), (3, 'd')] {
            agenda.insert(second * at, what);
        }
        let mut order = String::new();
        while let Some((_, what)) = agenda.pop(second * 2) {
            order.push(what);
        }
        assert_eq!((order.as_str(), agenda.len()), ("abc", 1));
        agenda.insert(second, 'e');
        assert_eq!(agenda.pop(second * 9), Some((second, 'e')));
        assert_eq!(agenda.pop(second * 9), Some((second * 3, 'd')));
        assert_eq!(agenda.pop(second * 9), None);
    }
}
