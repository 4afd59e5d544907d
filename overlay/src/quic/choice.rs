//! Which of two connections to the same process of a peer stays.
//!
//! Two nodes may dial each other at once. Each then sees two connections, and both nodes must keep
//! the same one. So the choice depends only on facts that are known at both ends. Of two dials in
//! one direction the later wins; of opposite dials the one by the greater id wins. A connection
//! that either side takes for gone loses against any other.

use serde::{Deserialize, Serialize};

use super::book::EndedDial;
use crate::PeerId;

/// The side that dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This node dialled.
    Outgoing,
    /// The peer dialled.
    Incoming,
}

/// A dial as both ends know it: the side that dialled, and its number of the dial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dial {
    pub(super) direction: Direction,
    pub(super) attempt: u64,
}

impl Dial {
    /// The same dial from the other end.
    const fn seen_by_peer(self) -> Self {
        let direction = match self.direction {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
        };
        let attempt = self.attempt;
        Self { direction, attempt }
    }
}

/// The two ends of a link, and the boot of this node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) me: PeerId,
    pub(super) boot: u64,
    pub(super) peer: PeerId,
}

/// The connections that one side takes for gone; the other side then takes them for gone, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct GoneConnections {
    /// The newest connection dialled by the *other* side that has ended at this side, or
    /// that this side doubts.
    pub(super) ended: Option<EndedDial>,
    /// The newest connection dialled by this side that this side doubts; 0 if there is none.
    pub(super) given_up: u64,
}

impl GoneConnections {
    /// Whether these connections include `dial`, as the side that is told of them sees that dial.
    /// `boot` is the boot of that side.
    const fn covers(self, boot: u64, dial: Dial) -> bool {
        match (dial.direction, self.ended) {
            (Direction::Incoming, _) => dial.attempt <= self.given_up,
            (Direction::Outgoing, Some((of, newest))) => of == boot && dial.attempt <= newest,
            (Direction::Outgoing, None) => false,
        }
    }
}

/// The outcome for two connections to the same process of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// The current connection stays.
    Stays,
    /// The new connection takes the place of the current one, which drains.
    Drains,
    /// The new connection takes the place of the current one, which is gone: nothing on it would
    /// drain.
    IsGone,
}

/// The connections that either side takes for gone, by the greetings over a new connection. So both
/// ends decide by the same facts.
#[derive(Debug, Clone, Copy)]
pub(super) struct BothGone {
    /// By the word of this side.
    pub(super) said: GoneConnections,
    /// By the word of the peer.
    pub(super) heard: GoneConnections,
}

/// Choose between a new connection and the current one, which lead to the same life of the peer,
/// with this `boot`. `gone`: the connections that either side takes for gone.
pub(super) fn choose(ends: Ends, boot: u64, new: Dial, current: Dial, gone: BothGone) -> Choice {
    let BothGone { said, heard } = gone;
    use Direction::{Incoming, Outgoing};
    if heard.covers(ends.boot, current) || said.covers(boot, current.seen_by_peer()) {
        return Choice::IsGone;
    }
    let wins = match (new.direction, current.direction) {
        (Outgoing, Outgoing) | (Incoming, Incoming) => new.attempt > current.attempt,
        (Outgoing, Incoming) => ends.me > ends.peer,
        (Incoming, Outgoing) => ends.peer > ends.me,
    };
    match wins {
        true => Choice::Drains,
        false => Choice::Stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Incoming, Outgoing};

    const NOTHING: GoneConnections = GoneConnections {
        ended: None,
        given_up: 0,
    };

    fn gone(said: GoneConnections, heard: GoneConnections) -> BothGone {
        BothGone { said, heard }
    }

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

    fn chosen(ends: Ends, new: Dial, current: Dial) -> Choice {
        choose(ends, 8, new, current, gone(NOTHING, NOTHING))
    }

    /// Both ends keep the same connection, in whatever order they see the two.
    #[test]
    fn both_ends_keep_the_dial_by_the_greater_id() {
        for (me, mine, theirs) in [
            (1, Choice::Stays, Choice::Drains),
            (3, Choice::Drains, Choice::Stays),
        ] {
            let (own, other) = (dial(Outgoing, 5), dial(Incoming, 9));
            assert_eq!(chosen(ends(me, 2), own, other), mine);
            assert_eq!(chosen(ends(me, 2), other, own), theirs);
        }
    }

    #[test]
    fn of_two_dials_in_one_direction_the_later_wins() {
        for direction in [Incoming, Outgoing] {
            let (early, late) = (dial(direction, 5), dial(direction, 6));
            assert_eq!(chosen(ends(1, 2), late, early), Choice::Drains);
            assert_eq!(chosen(ends(1, 2), early, late), Choice::Stays);
        }
    }

    #[test]
    fn a_dial_that_the_peer_saw_end_does_not_stand() {
        let (mine, theirs) = (dial(Outgoing, 5), dial(Incoming, 1));
        for (ended, expected) in [
            (None, Choice::Stays),
            (Some((7, 4)), Choice::Stays),
            (Some((7, 5)), Choice::IsGone),
            (Some((7, 6)), Choice::IsGone),
            // These are dials of other lives of this node, whose numbers may be greater.
            (Some((6, 9)), Choice::Stays),
            (Some((8, 9)), Choice::Stays),
        ] {
            let heard = GoneConnections { ended, ..NOTHING };
            let chosen = choose(ends(3, 2), 8, theirs, mine, gone(NOTHING, heard));
            assert_eq!(chosen, expected, "{ended:?}");
        }
    }

    /// One side doubts the link, whichever side dialled it, and either side dials beside it.
    #[test]
    fn both_ends_take_a_link_for_gone_if_either_doubts_it() {
        let (low, high) = (PeerId::from_bytes([1; 16]), PeerId::from_bytes([2; 16]));
        for (me, peer) in [(low, high), (high, low)] {
            let here = Ends { me, boot: 7, peer };
            let there = Ends {
                me: peer,
                boot: 8,
                peer: me,
            };
            for current in [Outgoing, Incoming] {
                for new in [Outgoing, Incoming] {
                    let (current, new) = (dial(current, 5), dial(new, 6));
                    let doubt = match current.direction {
                        Outgoing => GoneConnections {
                            given_up: 5,
                            ..NOTHING
                        },
                        Incoming => GoneConnections {
                            ended: Some((8, 5)),
                            ..NOTHING
                        },
                    };
                    let here = choose(here, 8, new, current, gone(doubt, NOTHING));
                    let [new, current] = [new, current].map(Dial::seen_by_peer);
                    let there = choose(there, 7, new, current, gone(NOTHING, doubt));
                    assert_eq!((here, there), (Choice::IsGone, Choice::IsGone));
                }
            }
        }
    }

    /// Both doubt the link, and both dial: the doubts do not concern the new connections.
    #[test]
    fn of_two_dials_beside_a_link_in_doubt_both_ends_keep_the_same_one() {
        let doubt = GoneConnections {
            ended: None,
            given_up: 5,
        };
        let same = GoneConnections {
            ended: Some((8, 5)),
            given_up: 0,
        };
        let (mine, theirs) = (dial(Outgoing, 6), dial(Incoming, 3));
        for (me, kept) in [(1, Choice::Stays), (3, Choice::Drains)] {
            let chosen = choose(ends(me, 2), 8, mine, theirs, gone(doubt, same));
            assert_eq!(chosen, kept);
        }
    }
}
