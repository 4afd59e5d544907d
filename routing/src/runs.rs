//! Sets of distances as sorted, disjoint, non-adjacent intervals.

use crate::span::Span;

/// A set of distances. It has at most as many intervals as distances were put
/// in, and at most half of the population.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Runs(Vec<Span>);

impl Runs {
    /// An empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Add a span to the set.
    pub fn insert(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let from = self.0.partition_point(|run| run.end < span.start);
        let to = self.0.partition_point(|run| run.start <= span.end);
        let touched = self.0.get(from..to).unwrap_or_default();
        let start = touched.first().map_or(span.start, |run| run.start);
        let end = touched.last().map_or(span.end, |run| run.end);
        let merged = Span::new(start.min(span.start), end.max(span.end));
        self.0.splice(from..to.max(from), [merged]);
    }

    /// Take a span out of the set.
    pub fn remove(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let from = self.0.partition_point(|run| run.end <= span.start);
        let to = self.0.partition_point(|run| run.start < span.end);
        if from >= to {
            return;
        }
        let touched = self.0.get(from..to).unwrap_or_default();
        let left = touched
            .first()
            .map(|run| Span::new(run.start, span.start.min(run.end)));
        let right = touched
            .last()
            .map(|run| Span::new(span.end.max(run.start), run.end));
        let kept: Vec<Span> = left
            .into_iter()
            .chain(right)
            .filter(|run| !run.is_empty())
            .collect();
        self.0.splice(from..to, kept);
    }

    /// Close the smallest gaps until at most `max` intervals are left.
    pub fn coarsen(&mut self, max: usize) {
        while self.0.len() > max.max(1) {
            let gap = |pair: &[Span]| pair[1].start - pair[0].end;
            let narrowest = self.0.windows(2).min_by_key(|pair| gap(pair));
            let Some(filler) = narrowest.map(|pair| Span::new(pair[0].end, pair[1].start)) else {
                return;
            };
            self.insert(filler);
        }
    }

    /// Whether `at` is in the set.
    pub fn contains(&self, at: u32) -> bool {
        let index = self.0.partition_point(|run| run.end <= at);
        self.0.get(index).is_some_and(|run| run.start <= at)
    }

    /// The least distance in the set that is not below `at`.
    pub fn first_from(&self, at: u32) -> Option<u32> {
        let index = self.0.partition_point(|run| run.end <= at);
        self.0.get(index).map(|run| run.start.max(at))
    }

    /// The intervals in ascending order.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// The distances in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|run| run.start..run.end)
    }

    /// How many distances the set has.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|run| run.len()).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Span> for Runs {
    fn from_iter<T: IntoIterator<Item = Span>>(spans: T) -> Self {
        let mut runs = Self::new();
        spans.into_iter().for_each(|span| runs.insert(span));
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_behave_like_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..12), 0..60)) {
            let mut runs = Runs::new();
            let mut set = BTreeSet::new();
            for (add, start, length) in steps {
                let span = Span::new(start, start + length);
                if add {
                    runs.insert(span);
                    set.extend(span.start..span.end);
                } else {
                    runs.remove(span);
                    set.retain(|at| !(span.start..span.end).contains(at));
                }
                prop_assert_eq!(runs.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert!(runs.spans().windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!((0..60).all(|at| runs.contains(at) == set.contains(&at)));
                prop_assert!((0..60).all(|at| runs.first_from(at) == set.range(at..).next().copied()));
                prop_assert_eq!(runs.len() as usize, set.len());
            }
        }
    }
}
