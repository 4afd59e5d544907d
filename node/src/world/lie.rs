//! Authenticated liars: processes that run the real machine but alter the messages that it sends.
//!
//! A lie is one kind of untruth, told whenever there is occasion. Nothing is promised about the
//! liar's own place and messages; what it can do to other peers is limited.

use std::time::Duration;

use binomesh_overlay::clique::{self, Body};
use binomesh_overlay::lives::BOOT_MAX;
use binomesh_overlay::noise::Noise;
use binomesh_overlay::tree::{Ancestor, Claim, Lead, Message as Tree, RootKey, SiblingOrder};
use binomesh_overlay::{self as overlay, Epoch, Placement, Population, Rank};
use binomesh_overlay::{census, detector, fingers, relayed, ring, spanning, stamp::Mark};
use binomesh_routing::{self as routing, packet};
use serde::{Deserialize, Serialize};

use super::Id;
use crate::peer::Message;

/// A liar that adds messages adds one to about every fourth that it sends. With [`Lie::Goodbyes`]
/// it also replaces about every fourth claim in the search for a root.
const BETWEEN: u64 = 4;
/// The greatest weight (⌊log2⌋ of the members) that a tree can have: `MAX_LEVELS`.
const GREATEST: u8 = 24;

/// A kind of untruth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lie {
    /// Claims the greatest possible weight for its tree.
    Weight,
    /// Gives a wrong path to the root, and wrong heirs.
    Path,
    /// Reports a wrong size of its subtree.
    Sizes,
    /// Reports the greatest possible size of its subtree.
    Multitudes,
    /// Gives its children wrong ranks.
    Ranks,
    /// Hands on the epoch with the greatest possible numbers.
    Epochs,
    /// Claims a wrong rank.
    Marks,
    /// Introduces peers that are not its fingers, and denies its real fingers.
    Fingers,
    /// Names wrong leaves, successors, distances and counts in the messages that form the ring, and
    /// wrong senders of messages that it passes on.
    Ring,
    /// Sends goodbyes and refusals to arbitrary peers.
    Goodbyes,
    /// Tells arbitrary peers, unasked, that others are alive.
    Alive,
    /// Calls arbitrary peers down or up.
    Verdicts,
    /// Claims the greatest possible number of its process's life.
    Boots,
    /// Names wrong holders of the ranks that it is asked about.
    Rosters,
    /// Reports parts of messages as done, and does nothing for them.
    Done,
    /// Takes custody of messages, and never reports them done.
    Custody,
    /// Refuses messages, with all kinds of reasons.
    Refusals,
    /// Reports receivers that it has reached as unconfirmed, and under wrong names.
    Exceptions,
    /// Alters the recorded way of routed messages that it sends or hands on.
    Transit,
    /// Gives messages the greatest possible round, and claims that all earlier messages of their
    /// origin are closed.
    Rounds,
}

impl Lie {
    /// All kinds of lies.
    pub const ALL: [Self; 20] = [
        Self::Weight,
        Self::Path,
        Self::Sizes,
        Self::Multitudes,
        Self::Ranks,
        Self::Epochs,
        Self::Marks,
        Self::Fingers,
        Self::Ring,
        Self::Goodbyes,
        Self::Alive,
        Self::Verdicts,
        Self::Boots,
        Self::Rosters,
        Self::Done,
        Self::Custody,
        Self::Refusals,
        Self::Exceptions,
        Self::Transit,
        Self::Rounds,
    ];

    /// Whether this lie can make receipts wrong: it concerns user messages, or the names of their
    /// receivers.
    pub const fn is_of_relay(self) -> bool {
        matches!(
            self,
            Self::Rosters
                | Self::Done
                | Self::Custody
                | Self::Refusals
                | Self::Exceptions
                | Self::Transit
                | Self::Rounds
        )
    }
}

/// A process that lies.
#[derive(Debug, Clone)]
pub(super) struct Liar {
    lie: Lie,
    peers: Vec<Id>,
    until: Duration,
    noise: Noise,
}

impl Liar {
    pub(super) const fn new(lie: Lie, peers: Vec<Id>, until: Duration, seed: u64) -> Self {
        Self {
            lie,
            peers,
            until,
            noise: Noise::new(seed),
        }
    }

    pub(super) fn is_lying(&self, now: Duration) -> bool {
        self.until > now
    }

    /// The boot that the liar claims, if it lies about that: the greatest that is accepted.
    pub(super) fn boot(&self) -> Option<u64> {
        (self.lie == Lie::Boots).then_some(BOOT_MAX)
    }

    /// The messages that go out in place of `message`, with their receivers.
    pub(super) fn twist(
        &mut self,
        from: Id,
        to: Id,
        message: Message<Id>,
    ) -> Vec<(Id, Message<Id>)> {
        let mut said = Vec::new();
        if matches!(self.lie, Lie::Goodbyes | Lie::Alive | Lie::Verdicts) {
            said.extend(self.addition());
        }
        let twisted = match message {
            Message::Overlay(message) => self.overlay(from, message).map(Message::Overlay),
            Message::Relay(message) => self.relay(from, message).map(Message::Relay),
            Message::Collective(frame) => Some(Message::Collective(frame)),
        };
        said.extend(twisted.map(|message| (to, message)));
        said.retain(|(to, _)| *to != from);
        said
    }

    fn anybody(&mut self) -> Id {
        self.noise.pick(&self.peers).unwrap_or_default()
    }

    /// An additional message, which no peer has asked for.
    fn addition(&mut self) -> Option<(Id, Message<Id>)> {
        if !self.noise.one_in(BETWEEN) {
            return None;
        }
        let (to, other) = (self.anybody(), self.anybody());
        let message: overlay::Message<Id> = match (self.lie, self.noise.next() % 4) {
            (Lie::Alive, _) => detector::Message::Alive(other).into(),
            (Lie::Verdicts, word) => detector::Message::Rumours(vec![detector::Rumour {
                peer: other,
                boot: [0, 1, 2, u64::MAX][word as usize],
                incarnation: self.noise.pick(&[0, 1, 2, 8, 9, u32::MAX]).unwrap_or(0),
                mark: None,
                is_up: self.noise.one_in(2),
            }])
            .into(),
            (Lie::Goodbyes, 0) => Tree::Detach.into(),
            (Lie::Goodbyes, 1) if self.noise.one_in(2) => Tree::Leave.into(),
            (Lie::Goodbyes, 1) => detector::Message::Goodbye(detector::Goodbye {
                peer: other,
                boot: self.noise.pick(&[0, 1, 2, u64::MAX]).unwrap_or(0),
                proof: b"goodbye".to_vec(),
            })
            .into(),
            (Lie::Goodbyes, 2) => Tree::Redirect(other).into(),
            (Lie::Goodbyes, _) => Tree::Refuse(overlay::tree::AttachRefusal::Unanchored).into(),
            _ => return None,
        };
        Some((to, Message::Overlay(message)))
    }

    fn overlay(&mut self, me: Id, message: overlay::Message<Id>) -> Option<overlay::Message<Id>> {
        use overlay::Message as M;
        Some(match message {
            M::Tree(message) => M::Tree(self.tree(me, message)),
            M::Ring(ring::Message::Info(_)) if self.lie == Lie::Ring => {
                ring::Message::Info(self.anybody()).into()
            }
            M::Ring(ring::Message::AskConnect(_)) if self.lie == Lie::Ring => {
                ring::Message::AskConnect(self.anybody()).into()
            }
            M::Census(message) => M::Census(self.census(message)),
            M::Fingers(message) => M::Fingers(self.fingers(message)),
            M::Detector(message) => M::Detector(self.detector(message)),
            M::Relayed(relayed::Message::From { carried, .. }) if self.lie == Lie::Ring => {
                let from = self.anybody();
                relayed::Message::From { from, carried }.into()
            }
            M::Clique(message) if self.lie == Lie::Ring => self.clique(message).into(),
            M::Spanning(spanning::Message::Claim(claim)) => self.spanning(me, claim).into(),
            other @ (M::Spanning(_) | M::Ring(_) | M::Relayed(_) | M::Clique(_)) => other,
        })
    }

    /// The claim in the search for a root, falsified by five lies. In the order of the code: itself
    /// as root with the greatest degree; a wrong way to the root; as root, a peer that claims no
    /// such thing; itself as root with the degree 0; now and then, a place for the receiver.
    fn spanning(&mut self, me: Id, claim: spanning::Claim<Id>) -> spanning::Message<Id> {
        match self.lie {
            Lie::Weight => spanning::Message::Claim(spanning::Claim {
                degree: u32::MAX,
                path: vec![me],
                is_complete: true,
            }),
            Lie::Path => spanning::Message::Claim(spanning::Claim {
                path: vec![self.anybody(), self.anybody(), me],
                ..claim
            }),
            Lie::Fingers => spanning::Message::Claim(spanning::Claim {
                degree: u32::MAX,
                path: vec![self.anybody(), me],
                is_complete: true,
            }),
            Lie::Alive => spanning::Message::Claim(spanning::Claim {
                degree: 0,
                path: vec![me],
                is_complete: false,
            }),
            Lie::Goodbyes if self.noise.one_in(BETWEEN) => spanning::Message::Placed,
            _ => spanning::Message::Claim(claim),
        }
    }

    /// False bodies of the clique's bootstrap: wrong successors, wrong distances, wrong counts.
    fn clique(&mut self, message: clique::Message<Id>) -> clique::Message<Id> {
        let body = match message.body {
            Body::Exchange { .. } => Body::Exchange {
                successor: self.anybody(),
            },
            Body::Exchanged { root, .. } => Body::Exchanged {
                successor: self.anybody(),
                root,
            },
            Body::AheadIs { distance, .. } => Body::AheadIs {
                peer: self.anybody(),
                distance: distance.wrapping_mul(3),
            },
            Body::Joined { .. } => Body::Joined { nodes: u32::MAX },
            Body::Complete { members } => Body::Complete {
                members: members / 2,
            },
            honest => honest,
        };
        clique::Message { body, ..message }
    }

    fn tree(&mut self, me: Id, message: Tree<Id>) -> Tree<Id> {
        let greatest = |root: RootKey<Id>| RootKey {
            weight: GREATEST,
            priority: 0,
            ..root
        };
        match (self.lie, message) {
            (Lie::Weight, Tree::Lead(lead)) => Tree::Lead(Lead {
                root: greatest(lead.root),
                ..lead
            }),
            (Lie::Weight, Tree::Probe(root)) => Tree::Probe(greatest(root)),
            (Lie::Weight, Tree::Together) => Tree::Offer {
                root: greatest(RootKey {
                    weight: 0,
                    priority: 0,
                    id: me,
                }),
                via: me,
            },
            (Lie::Weight, Tree::Attach { order, .. }) => Tree::Attach {
                claim: Claim::Orphan,
                order,
            },
            (Lie::Weight, Tree::Offer { root, via }) => Tree::Offer {
                root: greatest(root),
                via,
            },
            (Lie::Path, Tree::Lead(lead)) => {
                let steps = (0..self.noise.next() % 5).map(|_| self.anybody());
                let steps: Vec<Id> = steps.collect();
                let heirs = lead.heirs.iter().map(|_| self.anybody()).collect();
                let path = steps.into_iter().map(|id| Ancestor {
                    id,
                    order: SiblingOrder::default(),
                });
                Tree::Lead(Lead {
                    path: path.collect(),
                    heirs,
                    ..lead
                })
            }
            (_, honest) => honest,
        }
    }

    fn census(&mut self, message: census::Message<Id>) -> census::Message<Id> {
        use census::Message::Size;
        match (self.lie, message) {
            (
                Lie::Sizes,
                Size {
                    version,
                    standing,
                    returning,
                    evidence,
                    ..
                },
            ) => {
                let size = self.noise.pick(&[1, 2, 7, 100]);
                let size = size.and_then(Population::new);
                let size = size.unwrap_or(Population::ONE);
                Size {
                    version,
                    size,
                    standing,
                    returning,
                    evidence,
                }
            }
            (
                Lie::Multitudes,
                Size {
                    version,
                    standing,
                    returning,
                    evidence,
                    ..
                },
            ) => {
                let size = Population::new(Population::MAX);
                let size = size.unwrap_or(Population::ONE);
                Size {
                    version,
                    size,
                    standing,
                    returning,
                    evidence,
                }
            }
            (
                Lie::Ranks,
                census::Message::Place {
                    placement,
                    version,
                    belongs,
                },
            ) => {
                let n = placement.population.get();
                let rank = Rank(self.noise.next() as u32 % n);
                let placement = Placement { rank, ..placement };
                census::Message::Place {
                    placement,
                    version,
                    belongs,
                }
            }
            (
                Lie::Epochs,
                census::Message::Place {
                    placement,
                    version,
                    belongs,
                },
            ) => {
                let epoch = greatest_epoch(placement.epoch);
                let placement = Placement { epoch, ..placement };
                census::Message::Place {
                    placement,
                    version,
                    belongs,
                }
            }
            (_, honest) => honest,
        }
    }

    fn mark(&mut self, mark: Mark<Id>) -> Mark<Id> {
        let rank = Rank(self.noise.next() as u32 % (2 * self.peers.len() as u32).max(1));
        Mark { rank, ..mark }
    }

    fn fingers(
        &mut self,
        message: fingers::Message<Id, Mark<Id>>,
    ) -> fingers::Message<Id, Mark<Id>> {
        use fingers::Message as F;
        let other = self.anybody();
        match (self.lie, message) {
            (Lie::Fingers, F::Up { level, mark, .. }) => F::Up {
                level,
                subject: other,
                mark,
            },
            (Lie::Fingers, F::Down { level, mark, .. }) => F::Down {
                level,
                subject: other,
                mark,
            },
            (
                Lie::Fingers,
                F::Confirmed {
                    level,
                    direction,
                    mark,
                },
            ) => F::Deny {
                level,
                direction,
                mark,
            },
            (
                Lie::Marks,
                F::Confirm {
                    level,
                    direction,
                    mark,
                },
            ) => F::Confirm {
                level,
                direction,
                mark: self.mark(mark),
            },
            (
                Lie::Marks,
                F::Confirmed {
                    level,
                    direction,
                    mark,
                },
            ) => F::Confirmed {
                level,
                direction,
                mark: self.mark(mark),
            },
            (_, honest) => honest,
        }
    }

    fn detector(&mut self, message: detector::Message<Id>) -> detector::Message<Id> {
        match (self.lie, message) {
            (Lie::Marks, detector::Message::Beat { mark, reply }) => detector::Message::Beat {
                mark: mark.map(|mark| self.mark(mark)),
                reply,
            },
            (_, honest) => honest,
        }
    }

    fn relay(&mut self, me: Id, message: routing::Message<Id>) -> Option<routing::Message<Id>> {
        use routing::Message as R;
        match (self.lie, message) {
            (
                Lie::Rosters,
                R::RosterTell {
                    epoch,
                    start,
                    peers,
                },
            ) => {
                let peers = peers.iter().map(|_| self.anybody()).collect();
                Some(R::RosterTell {
                    epoch,
                    start,
                    peers,
                })
            }
            (Lie::Done, R::Custody { errand, .. }) => Some(R::Done {
                errand,
                exceptions: Vec::new(),
                redelegated: 0,
                replaced: Vec::new(),
            }),
            (Lie::Done | Lie::Custody, R::Packet(packet)) => {
                (packet.header.errand.id.origin == me).then_some(R::Packet(packet))
            }
            (Lie::Custody, R::Done { errand, .. }) => Some(R::Custody {
                errand,
                pending: Vec::new(),
            }),
            (Lie::Refusals, R::Custody { errand, .. } | R::Done { errand, .. }) => {
                let reason = self.noise.pick(&packet::CustodyRefusal::ALL)?;
                Some(R::Refused { errand, reason })
            }
            (Lie::Exceptions, R::Done { errand, .. }) => {
                let spans = errand.part.spans().to_vec();
                let exceptions = spans.into_iter().map(|span| packet::Exception {
                    span,
                    peer: Some(self.anybody()),
                    state: packet::State::Unconfirmed,
                    reason: packet::Reason::TooLarge,
                });
                let exceptions = exceptions.collect();
                Some(R::Done {
                    errand,
                    exceptions,
                    redelegated: u32::MAX,
                    replaced: self.peers.clone(),
                })
            }
            (Lie::Transit, R::Packet(mut packet)) => {
                if let packet::Part::Routed { visited, dead, .. } = &mut packet.header.errand.part {
                    let n = 2 * self.peers.len() as u64;
                    for list in [visited, dead] {
                        let count = self.noise.next() % 9;
                        *list = (0..count)
                            .map(|_| Rank((self.noise.next() % n.max(1)) as u32))
                            .collect();
                    }
                }
                Some(R::Packet(packet))
            }
            (Lie::Rounds, R::Packet(mut packet)) => {
                packet.header.errand.round = u32::MAX;
                packet.header.closed_below = packet.header.errand.id.sequence;
                Some(R::Packet(packet))
            }
            (_, honest) => Some(honest),
        }
    }
}

const fn greatest_epoch(epoch: Epoch<Id>) -> Epoch<Id> {
    Epoch {
        root: epoch.root,
        boot: u64::MAX,
        counter: u64::MAX,
        nonce: epoch.nonce,
    }
}
