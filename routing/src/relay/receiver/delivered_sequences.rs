//! The messages of one origin that were delivered here.

use std::collections::BTreeMap;
use std::ops::Range;

/// Delivered sequences, as intervals: from a boot and a sequence to an end. Their owner bounds them
/// ([`Self::shrink`]): an interval of another life is forgotten first, or else the lowest one. With
/// as many intervals as a window has sequences there is room for two full windows of which every
/// other message is for other members. So, unless a node lies, the mark has passed a forgotten
/// interval, and its messages are not taken again. With fewer intervals they may be taken again.
/// Kept messages below the end of a forgotten interval are not taken any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct DeliveredSequences {
    intervals: BTreeMap<(u64, u64), u64>,
    /// The boot and the highest end of the forgotten intervals. A life that forgets an interval of
    /// its own replaces the former boot.
    forgotten: (u64, u64),
}

impl DeliveredSequences {
    /// The interval of this boot that begins last at or before a sequence: its start and end.
    fn before(&self, boot: u64, sequence: u64) -> Option<(u64, u64)> {
        let mut before = self.intervals.range((boot, 0)..=(boot, sequence));
        before.next_back().map(|((_, start), end)| (*start, *end))
    }

    /// Whether this message was delivered.
    pub(super) fn has(&self, boot: u64, sequence: u64) -> bool {
        self.before(boot, sequence)
            .is_some_and(|(_, end)| sequence < end)
    }

    /// The number of intervals.
    pub(super) fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Note these sequence numbers, of one boot of the origin, as delivered. Returns those that had
    /// been noted before.
    pub(super) fn insert(&mut self, boot: u64, new: Range<u64>) -> Vec<u64> {
        let last = self.before(boot, new.end.saturating_sub(1));
        if last.is_none_or(|(_, end)| end <= new.start) {
            self.add(boot, new);
            return Vec::new();
        }
        let (known, new): (Vec<u64>, Vec<u64>) = new.partition(|at| self.has(boot, *at));
        for sequence in new {
            self.add(boot, sequence..sequence.saturating_add(1));
        }
        known
    }

    /// Note sequences of which none was noted before.
    fn add(&mut self, boot: u64, new: Range<u64>) {
        let Range { mut start, mut end } = new;
        if let Some((first, last)) = self.before(boot, start)
            && last == start
        {
            start = first;
        }
        if let Some(last) = self.intervals.remove(&(boot, end)) {
            end = last;
        }
        self.intervals.insert((boot, start), end);
    }

    /// Forget intervals until there are at most `most`, while this boot is the present one. Returns
    /// how many were forgotten.
    pub(super) fn shrink(&mut self, boot: u64, most: usize) -> usize {
        let many = self.intervals.len().saturating_sub(most);
        (0..many).for_each(|_| self.forget(boot));
        many
    }

    /// Forget one interval: the highest if it is of another life than `boot`, else the lowest,
    /// which may be of another life, too. A life that has lost its state may have the smaller boot.
    fn forget(&mut self, boot: u64) {
        let is_of_other = |((of, _), _): &(&(u64, u64), &u64)| *of != boot;
        let highest = self.intervals.last_key_value().filter(is_of_other);
        let forgotten = match highest.is_some() {
            true => self.intervals.pop_last(),
            false => self.intervals.pop_first(),
        };
        let Some(((of, _), end)) = forgotten else {
            return;
        };
        if of == self.forgotten.0 {
            self.forgotten.1 = self.forgotten.1.max(end);
        } else if of == boot {
            self.forgotten = (of, end);
        }
    }

    /// Whether a delivery of this message would still be remembered.
    pub(super) const fn remembers(&self, boot: u64, sequence: u64) -> bool {
        self.forgotten.0 != boot || self.forgotten.1 <= sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_in_a_row_are_one_interval_and_of_many_the_lowest_go() {
        let mut delivered = DeliveredSequences::default();
        let one = |delivered: &mut DeliveredSequences, at| {
            let known = delivered.insert(1, at..at + 1);
            delivered.shrink(1, 4);
            known.is_empty()
        };
        for sequence in [3, 1, 2, 4] {
            assert!(one(&mut delivered, sequence));
            assert!(!one(&mut delivered, sequence));
        }
        assert_eq!(delivered.intervals, [((1, 1), 5)].into());
        for sequence in [8, 6, 10] {
            assert!(one(&mut delivered, sequence));
        }
        assert_eq!(delivered.intervals.len(), 4);
        assert!(one(&mut delivered, 12));
        assert_eq!(delivered.intervals.len(), 4);
        let has = |sequence| delivered.has(1, sequence);
        assert!(![1, 4, 5, 7, 13].into_iter().any(has));
        assert!([6, 8, 10, 12].into_iter().all(has));
        assert!(!delivered.has(2, 6), "another boot");
    }

    #[test]
    fn a_life_with_a_smaller_boot_is_remembered_in_the_place_of_the_former() {
        let mut delivered = DeliveredSequences::default();
        for sequence in [1, 3, 5, 7] {
            delivered.insert(9, sequence..sequence + 1);
        }
        for sequence in [1, 3, 5, 7, 9] {
            assert_eq!(delivered.insert(2, sequence..sequence + 1), [0u64; 0]);
            assert_eq!(delivered.shrink(2, 4), 1);
        }
        let has = |sequence| delivered.has(2, sequence);
        assert!([3, 5, 7, 9].into_iter().all(has));
        assert!(!delivered.remembers(2, 1) && delivered.remembers(2, 2));
        assert!(!delivered.has(9, 7));
    }

    #[test]
    fn noting_several_sequences_returns_the_known_ones() {
        let mut delivered = DeliveredSequences::default();
        assert_eq!(delivered.insert(1, 10..20), [0u64; 0]);
        assert_eq!(delivered.insert(1, 20..25), [0u64; 0]);
        assert_eq!(delivered.insert(1, 5..10), [0u64; 0]);
        assert_eq!(delivered.intervals, [((1, 5), 25)].into());
        assert_eq!(delivered.insert(1, 30..32), [0u64; 0]);
        let known: Vec<u64> = (22..25).chain([30, 31]).collect();
        assert_eq!(delivered.insert(1, 22..34), known);
        assert_eq!(delivered.intervals, [((1, 5), 34)].into());
        assert_eq!(delivered.insert(1, 5..34).len(), 29);
        assert_eq!(delivered.insert(2, 5..34), [0u64; 0], "another boot");
    }
}
