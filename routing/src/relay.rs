//! The relay brings a message to its members and tells its origin who has delivered it.
//!
//! It works like a relay of couriers. A courier signs for its parcels (*custody*), hands some of
//! them on, and reports back (*done*) when all are delivered. The report names the addressees for
//! whom that is not known (*exceptions*). The giver of a parcel keeps a duplicate until then, and
//! hands it to another courier if nobody signs, or if the one that signed is lost. In the code a
//! parcel is a *copy* of a message with a *part*: the interval of members that it is for. The node
//! that gives it is the *delegator*, the receiver is the *delegate*, and one handed-out part is a
//! *delegation*. A part that a node has signed for is its *duty*.
//!
//! ```text
//!   origin ──packet [4,8)──▶ 4 ──packet [6,8)──▶ 6 ──packet [7,8)──▶ 7
//!          ◀──custody──────    ◀──custody──────    ◀──done [7,8)────
//!          ◀──done [4,8)────   ◀──done [6,8)────
//! ```
//!
//! [`Relay`] has the one match over its inputs. Its components (`Parts`) do the work. Each has its
//! own state, inputs and rules, and knows nothing of those above it. `origin` and `receiver` use
//! `custody`, and each indented component serves the one above it:
//!
//! ```text
//!   origin     own messages: acceptance, rounds, receipts
//!   receiver   duplicates and delivery
//!   custody    duties of this node, and answers to their delegators
//!     delegator  hands parts of messages on, also when they are late, lost or refused
//!       sender     copies on their way: room, turns, offers, waits
//!   links      the links of the sibling tree, if the router uses it
//!   epochs, peers  tables and states of members, shared by all
//! ```
//!
//! Connections and the chunks of large payloads are not handled here.

mod config;
mod context;
mod custody;
mod epochs;
#[cfg(test)]
mod fixture;
mod input;
mod inspection;
mod membership;
mod origin;
mod peers;
mod publication;
mod receiver;
mod stats;
mod tree_links;

use std::time::Duration;

use binomesh_overlay::Id;

pub use config::Config;
pub use custody::SlowPeer;
pub use input::{Effects, Event, Input, Timer, View};
pub use inspection::Memory;
pub use origin::{RankRun, Receipt, Unreached};
pub use publication::{Due, Publish, PublishError};
pub use receiver::Delivery;
pub use stats::RelayStats;

use crate::packet::{Content, Message, PacketId, Signature, SigningFailed};
use context::Context;
use custody::{Custody, Done};
use epochs::Epochs;
use origin::Origin;
use peers::Peers;
use receiver::Receiver;
use tree_links::TreeLinks;

/// One node's relay: a pure machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relay<I> {
    me: I,
    config: Config,
    /// The last two epochs, with this node's place in a few older ones.
    epochs: Epochs<I>,
    peers: Peers<I>,
    parts: Parts<I>,
    draining: bool,
    /// [`Event::Drained`] was emitted already.
    drained: bool,
    stats: RelayStats,
}

/// The components of a relay, which do its work. This type has nothing to do with the parts of
/// messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Parts<I> {
    links: TreeLinks<I>,
    receiver: Receiver<I>,
    custody: Custody<I>,
    origin: Origin<I>,
}

impl<I: Id> Relay<I> {
    /// A relay of the peer `me`, in its life `boot`. A life of a peer begins when its process
    /// starts, or when the running process begins anew; `boot` is the number of the life.
    pub fn new(me: I, boot: u64, config: Config) -> Self {
        Self {
            me,
            epochs: Epochs::new(),
            peers: Peers::new(),
            parts: Parts {
                links: TreeLinks::new(),
                receiver: Receiver::new(),
                custody: Custody::new(&config),
                origin: Origin::new(boot),
            },
            draining: false,
            drained: false,
            stats: RelayStats::default(),
            config,
        }
    }

    /// The relay of the same process in its next life. It has no message and no place yet. It
    /// remembers which messages were delivered here, so that its subscribers get none twice.
    pub fn next_life(&mut self, boot: u64, config: Config) -> Self {
        let mut next = Self::new(self.me, boot, config);
        next.parts.receiver = self.parts.receiver.next_life();
        next
    }

    /// Handle one input.
    pub fn handle(&mut self, input: Input<I>, out: &mut Effects<I>) {
        match input {
            Input::View(view) => self.on_view(view, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Unproven {
                from,
                errand,
                reason,
            } => {
                self.on_contact(from, out);
                self.work(out, |parts, cx| {
                    parts.receiver.on_unproven(from, errand, reason, cx);
                });
            }
            Input::Timer { timer, late } => self.on_timer(timer, late, out),
            Input::PeerDown(peer) => {
                self.peers.on_verdict(peer);
                self.on_peer_down(peer, out);
            }
            Input::PeerLeft(peer) => self.on_peer_left(peer, out),
            Input::PeerUp(peer) => self.on_peer_up(peer, out),
            Input::RoundTrip { peer, time } => {
                let custody = &mut self.parts.custody;
                custody.on_round_trip(peer, time, &self.config);
            }
            Input::Writable(peer) => self.on_writable(peer, out),
        }
        self.release(out);
    }

    /// A link connects this node to the life `boot` of `peer`. Greater boots of that peer that were
    /// noted before are forgotten; a copy from another node may bring one again. The host gives
    /// [`Input::PeerUp`] after this call.
    pub fn meet(&mut self, peer: I, boot: u64) {
        self.parts.receiver.meet(peer, boot);
    }

    /// Accept a message, or several that go in one packet under consecutive sequences. One receipt
    /// for all of them follows as [`Event::Receipt`], exactly once while this process lives. After
    /// an error nothing of the message was sent. Older messages that wait only for lost members may
    /// have ended to make room.
    pub fn publish(
        &mut self,
        publish: Publish<I>,
        out: &mut Effects<I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        self.publish_signed(publish, |_| Ok(None), out)
    }

    /// As [`Relay::publish`], with a signature if `sign` makes one. `sign` is called once the id of
    /// the message is certain, and only if there is room for all but the signature. So a message
    /// that has to wait for room is not signed at every try.
    pub fn publish_signed(
        &mut self,
        publish: Publish<I>,
        sign: impl FnOnce(Content<'_, I>) -> Result<Option<Signature>, SigningFailed>,
        out: &mut Effects<I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        let id = self.work(out, |parts, cx| {
            parts.origin.publish(publish, sign, &mut parts.custody, cx)
        })?;
        self.release(out);
        Ok(id)
    }

    /// Replace the signatures of all open own messages. Copies that are sent later carry the new
    /// signature, and the messages are issued again soon to their outstanding members. A message
    /// for which `sign` returns none keeps its signature.
    pub fn resign(
        &mut self,
        sign: impl FnMut(Content<'_, I>) -> Option<Signature>,
        out: &mut Effects<I>,
    ) {
        self.work(out, |parts, cx| {
            parts.origin.resign(sign, &mut parts.custody, cx);
        });
        self.release(out);
    }

    /// Take no new message, neither an own one nor one to deliver. Messages that are kept for
    /// absent members end now, and so do messages that wait only for lost or draining members.
    /// Other open messages and duties are still served. [`Event::Drained`] follows when none is
    /// open.
    pub fn withdraw(&mut self, out: &mut Effects<I>) {
        if !self.draining {
            self.draining = true;
            self.work(out, |parts, cx| {
                parts.origin.conclude_kept(&mut parts.custody, cx);
                parts.origin.conclude_the_lost(&mut parts.custody, cx);
            });
            self.release(out);
        }
    }

    /// End all own messages now: their receipts say *unconfirmed* for all outstanding members.
    pub fn conclude_all(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| {
            parts.origin.conclude_all(&mut parts.custody, cx);
        });
        self.release(out);
    }

    fn on_message(&mut self, from: I, message: Message<I>, out: &mut Effects<I>) {
        self.on_contact(from, out);
        if message.is_answer() {
            self.on_answer(from, out);
        }
        match message {
            Message::Packet(packet) => self.work(out, |parts, cx| {
                let custody = &mut parts.custody;
                parts.receiver.on_packet(from, packet, custody, cx);
            }),
            Message::Custody { errand, pending } => self.work(out, |parts, cx| {
                parts.custody.on_custody(from, &errand, &pending, cx);
            }),
            Message::Done {
                errand,
                exceptions,
                redelegated,
                replaced,
            } => self.work(out, |parts, cx| {
                let done = Done {
                    exceptions: &exceptions,
                    redelegated,
                    replaced: &replaced,
                };
                parts.custody.on_done(from, &errand, done, cx);
            }),
            Message::Refused { errand, reason } => self.work(out, |parts, cx| {
                parts.custody.on_refused(from, &errand, reason, cx);
            }),
            Message::Inquire { errand, name } => self.work(out, |parts, cx| {
                parts.custody.on_inquire(from, errand, name, cx);
            }),
            Message::Hello {
                epoch,
                rank,
                fanout,
            } => self.work(out, |parts, cx| {
                parts.links.on_hello(from, epoch, rank, fanout, cx);
            }),
            Message::RosterAsk {
                epoch,
                start,
                count,
            } => self.epochs.on_roster_ask(from, epoch, start, count, out),
            Message::RosterTell {
                epoch,
                start,
                peers,
            } => self.on_roster_tell(from, epoch, start, &peers, out),
        }
    }

    fn on_timer(&mut self, timer: Timer, late: Duration, out: &mut Effects<I>) {
        match timer {
            Timer::Delegation { duty, delegation } => {
                self.on_delegation_timer(duty, delegation, late, out);
            }
            Timer::Patience(number) => {
                if self.peers.on_patience_timer(number, &self.config, out) {
                    self.stats.losses += 1;
                    self.conclude_the_lost(out);
                }
            }
            Timer::Drain(number) => {
                if self.peers.on_drain_timer(number, &self.config, out) {
                    self.conclude_the_lost(out);
                }
            }
            Timer::Held(number) => self.work(out, |parts, cx| {
                parts.receiver.on_held_timer(number, cx);
            }),
            Timer::Custody => self.work(out, |parts, cx| parts.custody.on_custody_timer(cx)),
            Timer::Roster => self.epochs.on_roster_timer(out),
            Timer::Waiting => self.work(out, |parts, cx| {
                parts.origin.on_waiting_timer(&mut parts.custody, cx);
            }),
            Timer::Reissue(sequence) => self.work(out, |parts, cx| {
                parts.origin.reissue(sequence, &mut parts.custody, cx);
            }),
            Timer::Deadline(sequence) => self.work(out, |parts, cx| {
                parts.origin.on_deadline(sequence, &mut parts.custody, cx);
            }),
        }
    }

    fn conclude_the_lost(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| {
            parts.origin.conclude_the_lost(&mut parts.custody, cx);
        });
    }

    fn hasten_reissues(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| {
            parts.origin.hasten_reissues(&parts.custody, cx);
        });
    }

    /// Send the held copies whose turn has come, or for which answers have made room on the way to
    /// their peers.
    fn release(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| parts.custody.release(cx));
    }

    /// Let the components act, and then let the origin take in what custody found out about own
    /// messages.
    fn work<R>(
        &mut self,
        out: &mut Effects<I>,
        act: impl FnOnce(&mut Parts<I>, &mut Context<'_, I>) -> R,
    ) -> R {
        let mut cx = Context {
            me: self.me,
            config: &self.config,
            epochs: &mut self.epochs,
            peers: &mut self.peers,
            stats: &mut self.stats,
            out,
            progress: Vec::new(),
            is_draining: self.draining,
        };
        let result = act(&mut self.parts, &mut cx);
        self.parts.origin.heed(&mut self.parts.custody, &mut cx);
        self.check_drained(out);
        result
    }

    fn check_drained(&mut self, out: &mut Effects<I>) {
        if self.draining && !self.drained && self.is_idle() {
            self.drained = true;
            out.event(Event::Drained);
        }
    }
}
