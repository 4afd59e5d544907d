//! What will happen, in the order of time; at one time in the order of notice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A queue of things to come. Entries are small, so that the heap moves little;
/// what they stand for lies in slots that are used again.
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

    /// Note that `what` happens at `at`.
    pub(super) fn insert(&mut self, at: Duration, what: T) {
        self.sequence += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Some(what),
            None => self.slots.push(Some(what)),
        }
        self.heap.push(Reverse((at, self.sequence, slot)));
    }

    /// Take what happens next, if that is not after `end`.
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

    /// How many things are noted.
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
