//! The relay: custody, done, duplicates and receipts for every strategy.
//!
//! Like a relay of couriers: who takes a parcel signs for it (*custody*), hands
//! parts of it on, and reports back (*done*) when everybody in its part has it,
//! naming those for whom that is not known. Whoever handed a part on keeps the
//! parcel until then, and hands it to somebody else if nobody signs.
//!
//! ```text
//!   origin ──packet [4,8)──▶ 4 ──packet [6,8)──▶ 6 ──packet [7,8)──▶ 7
//!          ◀──custody──────    ◀──custody──────    ◀──done [7,8)────
//!          ◀──done [4,8)────   ◀──done [6,8)────
//! ```
//!
//! [`Relay`] has the one match over its inputs. The work is done by parts, each with its own
//! state, inputs and rules. A part uses those below it and knows nothing of those above:
//!
//! ```text
//!   origin     own messages: acceptance, rounds, receipts
//!   receiver   duplicates and delivery
//!   custody    duties of this node, and answers to those who wait for them
//!     delegator  hands parts on: to whom, and what when they are late, lost or refused
//!       sender     copies on their way: room, turns, offers, waits
//!   epochs, peers  what is known of members: read by all
//! ```
//!
//! Not here: connections, chunks of large payloads.

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
pub use publication::{Destination, Due, Publish, PublishError};
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
    /// The last two epochs and the names of a few older ones.
    epochs: Epochs<I>,
    peers: Peers<I>,
    parts: Parts<I>,
    draining: bool,
    /// [`Event::Drained`] was emitted.
    drained: bool,
    stats: RelayStats,
}

/// The parts that do the work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Parts<I> {
    links: TreeLinks<I>,
    receiver: Receiver<I>,
    custody: Custody<I>,
    origin: Origin<I>,
}

impl<I: Id> Relay<I> {
    /// The relay of peer `me` in the life `boot` of its process.
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

    /// The relay of the same process in its next life. It has no message and no place yet; it
    /// remembers what was delivered here, so that its subscribers get nothing twice.
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

    /// There is a link to this life of `peer`: greater boots of it do not count any more.
    /// [`Input::PeerUp`] follows.
    pub fn meet(&mut self, peer: I, boot: u64) {
        self.parts.receiver.meet(peer, boot);
    }

    /// Accept a message, or several that go in one packet under consecutive sequences.
    /// The receipt of all follows as [`Event::Receipt`], exactly once while this
    /// process lives. After an error nothing was sent.
    pub fn publish(
        &mut self,
        publish: Publish<I>,
        out: &mut Effects<I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        self.publish_signed(publish, |_| Ok(None), out)
    }

    /// As [`Relay::publish`], with the signature that `sign` makes, if any. It is asked
    /// once the name of the message is certain, and only if all but the signature has
    /// room: so what has to wait is not signed at every try.
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

    /// Sign all open messages anew: all copies that are still sent go with the new
    /// signature, and what is left is issued again soon. What `sign` has none for keeps
    /// what it has.
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

    /// Take no new message, own or to deliver; what is open is still served.
    /// [`Event::Drained`] follows when nothing is open.
    pub fn withdraw(&mut self, out: &mut Effects<I>) {
        if !self.draining {
            self.draining = true;
            self.work(out, |parts, cx| {
                parts.origin.conclude_kept(&mut parts.custody, cx);
                parts.origin.conclude_the_lost(&mut parts.custody, cx);
            });
        }
    }

    /// Give up what own messages still wait for: their receipts come now, with
    /// the rest unconfirmed.
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
            Timer::Roster => self.epochs.on_roster_timer(&self.config, out),
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

    /// Answers have made room on the way to some peers: send what waits for that.
    fn release(&mut self, out: &mut Effects<I>) {
        self.work(out, |parts, cx| parts.custody.release(cx));
    }

    /// Have a part do something, and let the origin know what came of it.
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
