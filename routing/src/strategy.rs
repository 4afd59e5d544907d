//! Strategies: which member gets which part of a broadcast. Strategies are pure functions, which
//! know neither peers nor which of them are down. This file has `binomial`, `layout.rs` has
//! `chain`, and the others have files of their own. In `binomial`:
//!
//! ```text
//!   0 ──▶ 4 ──▶ 6 ──▶ 7        a node at distance a that answers for [a, e)
//!   │     └──▶ 5               delivers and hands [a + 2^i, …) to its
//!   ├──▶ 2 ──▶ 3               clockwise finger i; every part is the stretch
//!   └──▶ 1                     up to the next finger
//! ```
//!
//! So a broadcast takes N − 1 copies and is at most ⌈log2 N⌉ deep, over links that exist anyway.

mod circulant;
mod flood;
mod layout;
mod sibling_tree;

use crate::span::Span;

pub use flood::flood;
pub use layout::{Choice, Layout, Lost, Strategy, UnknownStrategy};
pub use sibling_tree::{Encapsulation, Handover, ROOT, heirs, sibling_tree};

/// Cut `span` into the parts that the node at distance `from` hands to its clockwise fingers. The
/// farthest part comes first: if the span ends at a power of two behind the node, that part is the
/// largest and has the longest way.
///
/// A part begins at the start of `span`, and at every `from + 2^i` inside it.
pub fn binomial(from: u32, span: Span) -> impl Iterator<Item = Span> {
    let mut end = span.end;
    (0..u32::BITS)
        .rev()
        .filter_map(move |level| from.checked_add(1 << level))
        .filter(move |&start| span.start < start && start < span.end)
        .chain((!span.is_empty()).then_some(span.start))
        .map(move |start| {
            let part = Span::new(start, end);
            end = start;
            part
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_the_span_and_begin_at_fingers() {
        for from in 0..20u32 {
            for start in from + 1..40 {
                for end in start..40 {
                    let parts: Vec<_> = binomial(from, Span::new(start, end)).collect();
                    let mut expected = end;
                    for part in &parts {
                        assert_eq!(part.end, expected);
                        assert!(!part.is_empty());
                        assert!(part.start == start || (part.start - from).is_power_of_two());
                        expected = part.start;
                    }
                    assert_eq!(expected, start, "{from} {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn a_broadcast_takes_one_message_per_member_and_logarithmic_depth() {
        for n in 1..=1100u32 {
            let mut depth = vec![None; n as usize];
            let mut open = vec![(Span::new(0, n), 0u32)];
            while let Some((span, level)) = open.pop() {
                assert_eq!(depth[span.start as usize].replace(level), None);
                let rest = Span::new(span.start + 1, span.end);
                open.extend(binomial(span.start, rest).map(|part| (part, level + 1)));
            }
            let bound = u32::BITS - (n - 1).leading_zeros();
            assert!(depth.iter().all(|d| d.is_some_and(|d| d <= bound)), "N={n}");
        }
    }
}
