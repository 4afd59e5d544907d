//! Which peers keep a node waiting.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

use super::Custody;
use super::delegation::Copies;

/// What a peer keeps waiting, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPeer<I> {
    /// Who.
    pub peer: I,
    /// Parts of messages that it has not answered in time: custody, or how they are.
    pub late: usize,
    /// Copies that wait here until it has answered others.
    pub held_back: usize,
    /// Bytes of the copies that are on their way to it.
    pub bytes: u64,
}

impl<I: Id> Custody<I> {
    /// The peers that keep something waiting, who keeps most first; at most so many.
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
