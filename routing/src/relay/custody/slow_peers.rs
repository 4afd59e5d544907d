//! The peers that keep a node waiting.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

use super::Custody;
use super::delegation::Copies;

/// A peer that keeps parts or copies waiting, at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPeer<I> {
    /// The slow peer.
    pub peer: I,
    /// Parts of messages for which custody, or the answer to a question, is late.
    pub late: usize,
    /// Copies that wait here until the peer has answered others, or until their turn.
    pub held_back: usize,
    /// Bytes of the copies on their way to the peer.
    pub bytes: u64,
}

impl<I: Id> Custody<I> {
    /// At most `most` peers that keep parts or copies waiting, the slowest first.
    pub(in crate::relay) fn slow_peers(&self, most: usize) -> Vec<SlowPeer<I>> {
        let mut slow: BTreeMap<I, SlowPeer<I>> = BTreeMap::new();
        let zero = |peer| SlowPeer {
            peer,
            late: 0,
            held_back: 0,
            bytes: 0,
        };
        let open = self.duties.open_numbers().into_iter();
        for duty in open.filter_map(|number| self.duties.get(number)) {
            for handed in duty.delegations.values() {
                let is_held = handed.copies == Copies::Held;
                let is_late = match handed.phase.has_custody() {
                    true => handed.unanswered > 1,
                    false => handed.attempts > 0 && !is_held,
                };
                if is_late || is_held {
                    let one = slow.entry(handed.to).or_insert_with(|| zero(handed.to));
                    one.late += usize::from(is_late);
                    one.held_back += usize::from(is_held);
                }
            }
        }
        let mut slow: Vec<SlowPeer<I>> = slow.into_values().collect();
        for one in &mut slow {
            one.bytes = self.delegator.sender().bytes(one.peer);
        }
        slow.sort_by_key(|one| std::cmp::Reverse((one.late + one.held_back, one.bytes)));
        slow.truncate(most);
        slow
    }
}
