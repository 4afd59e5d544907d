//! Which of two connections to the same process of a peer is kept.
//!
//! Two nodes may dial each other at once; both then see both connections and
//! must keep the same one. So the choice depends only on what both know: of two
//! dials in one direction the later wins; of opposite dials the one made by the
//! greater id, unless its maker is told that it ended.

use super::book::EndedDial;
use crate::PeerId;

/// Who dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This node.
    Outgoing,
    /// The peer.
    Incoming,
}

/// A dial as both ends know it: who dialled, and the number it gave the dial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dial {
    pub(super) direction: Direction,
    pub(super) attempt: u64,
}

/// The two ends of a link, and the boot of this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) me: PeerId,
    pub(super) boot: u64,
    pub(super) peer: PeerId,
}

/// Whether a new connection of the same boot takes the place of the current one.
/// `ended` is which of this node's dials the peer saw end.
pub(super) fn wins(ends: Ends, new: Dial, current: Dial, ended: Option<EndedDial>) -> bool {
    use Direction::{Incoming, Outgoing};
    match (new.direction, current.direction) {
        (Outgoing, Outgoing) | (Incoming, Incoming) => new.attempt > current.attempt,
        // My dial stands here, and the peer says that it is gone.
        (Incoming, Outgoing) if ended >= Some((ends.boot, current.attempt)) => true,
        (Outgoing, Incoming) => ends.me > ends.peer,
        (Incoming, Outgoing) => ends.peer > ends.me,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Incoming, Outgoing};

    fn ends(me: u8, peer: u8) -> Ends {
        Ends {
            me: PeerId::from_bytes([me; 16]),
            boot: 7,
            peer: PeerId::from_bytes([peer; 16]),
        }
    }

    fn dial(direction: Direction, attempt: u64) -> Dial {
        Dial { direction, attempt }
    }

    /// Whatever order the two see the connections in, both keep the same one.
    #[test]
    fn both_ends_keep_the_dial_by_the_greater_id() {
        for (me, mine_wins) in [(1, false), (3, true)] {
            let (mine, theirs) = (dial(Outgoing, 5), dial(Incoming, 9));
            assert_eq!(wins(ends(me, 2), mine, theirs, None), mine_wins);
            assert_eq!(wins(ends(me, 2), theirs, mine, None), !mine_wins);
        }
    }

    #[test]
    fn of_two_dials_in_one_direction_the_later_wins() {
        for direction in [Incoming, Outgoing] {
            let (early, late) = (dial(direction, 5), dial(direction, 6));
            assert!(wins(ends(1, 2), late, early, None));
            assert!(!wins(ends(1, 2), early, late, None));
        }
    }

    #[test]
    fn a_dial_that_the_peer_saw_end_does_not_stand() {
        let (mine, theirs) = (dial(Outgoing, 5), dial(Incoming, 1));
        for (ended, expected) in [
            (None, false),
            (Some((7, 4)), false),
            (Some((7, 5)), true),
            (Some((7, 6)), true),
            // Of an earlier process of mine.
            (Some((6, 9)), false),
        ] {
            let won = wins(ends(3, 2), theirs, mine, ended);
            assert_eq!(won, expected, "{ended:?}");
        }
    }
}
