//! One whole peer, pure: the overlay, the relay that rides on it, and the collectives that
//! ride on both.
//!
//! Not here: connections, clocks, encodings. The QUIC node (`host`) and the
//! simulated world (`world`) run this same machine.

mod effects;
pub(crate) mod mail;
mod seam;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binomesh_overlay::noise::Noise;
use binomesh_overlay::{self as overlay, Health, Id, Outbox, Overlay};
use binomesh_routing::collective::lives::Record;
use binomesh_routing::collective::{self, Collectives};
use binomesh_routing::packet::{Content, Signature, SigningFailed};
use binomesh_routing::{self as routing, Publish, PublishError, Relay};
use mail::Mail;
pub use seam::{Event, Input, Message, Out, Timer};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One whole peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer<I: Id> {
    overlay: Overlay<I>,
    relay: Relay<I>,
    /// The links that the relay wants; the overlay has its own.
    relay_links: BTreeSet<I>,
    /// The members of the last epoch for which the roster was complete.
    members: Arc<Vec<Option<I>>>,
    collectives: Collectives<I>,
    mail: Mail<I>,
}

impl<I: Id + Serialize + DeserializeOwned> Peer<I> {
    /// A peer that has not started yet, with an empty record of votes.
    pub fn new(overlay: overlay::Config<I>, relay: routing::Config) -> Self {
        let record = Record::Kept(BTreeMap::new());
        Self::remembering(overlay, relay, record)
    }

    /// A peer that has not started yet, with the votes that its former lives have recorded.
    pub fn remembering(
        overlay: overlay::Config<I>,
        relay: routing::Config,
        record: Record,
    ) -> Self {
        let bounds = collective::Config::default();
        Self {
            collectives: Collectives::new(overlay.me, overlay.boot, record, bounds),
            mail: Mail::new(relay.payload_max),
            relay: Relay::new(overlay.me, overlay.boot, relay),
            overlay: Overlay::new(overlay),
            relay_links: BTreeSet::new(),
            members: Arc::default(),
        }
    }

    /// Make collectives send nothing in the name of another member. Members that sign need this,
    /// since nobody can sign for another.
    pub fn without_quick_ways(mut self) -> Self {
        self.collectives.leave_quick_ways();
        self
    }

    /// Begin another life of the same process, with a new overlay and relay that have not started
    /// yet. The collectives keep all their state, so the host keeps their timers.
    pub fn begin_life(&mut self, overlay: overlay::Config<I>, relay: routing::Config) {
        let relay_of_next = self.relay.next_life(overlay.boot, relay);
        let mut collectives = self.collectives.clone();
        collectives.begin_life(overlay.boot);
        let mut mail = self.mail.clone();
        mail.close_all();
        *self = Self {
            relay: relay_of_next,
            collectives,
            mail,
            ..Self::new(overlay, relay)
        };
    }

    /// The overlay machine.
    pub const fn overlay(&self) -> &Overlay<I> {
        &self.overlay
    }

    /// The relay machine.
    pub const fn relay(&self) -> &Relay<I> {
        &self.relay
    }

    /// The machine of the collectives.
    pub const fn collectives(&self) -> &Collectives<I> {
        &self.collectives
    }

    /// The number of messages about collectives that were dropped for want of room.
    pub const fn mail_dropped(&self) -> u64 {
        self.mail.dropped()
    }

    /// Take part in no more votes of collectives, because votes cannot be recorded any more.
    pub fn stop_voting(&mut self) {
        self.collectives.stop_voting();
        self.mail.clear();
    }

    /// Whether this node's tables are complete, and its overlay is the cluster's rather than an
    /// island.
    pub fn is_ready(&self) -> bool {
        self.overlay.health() == Health::Healthy && self.overlay.island().is_none()
    }

    /// The number of lost members: former members that went without a goodbye and are not back.
    /// They are called down, or the epoch counts them no more. In a cluster that is too large for a
    /// roster, only neighbours are counted.
    pub fn lost_count(&self) -> usize {
        self.lost().len()
    }

    /// The lost members, as [`Peer::lost_count`] counts them.
    pub fn lost(&self) -> BTreeSet<I> {
        let mut lost: BTreeSet<I> = self.overlay.lost_members().collect();
        if let Some(roster) = self.relay.roster() {
            let is_vacant =
                |peer: &I| roster.rank_of(*peer).is_some() && !self.overlay.has_left(*peer);
            lost.extend(self.overlay.down().filter(is_vacant));
        }
        lost
    }

    /// Put the overlay into an arbitrary state, as a transient fault would.
    pub fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        self.overlay.scramble(noise, peers);
    }

    /// Publish a message. Its receipt comes as an event, possibly during this call.
    pub fn publish(
        &mut self,
        publish: Publish<I>,
        out: &mut Out<I>,
    ) -> Result<routing::PacketId<I>, PublishError<I>> {
        self.publish_signed(publish, |_| Ok(None), out)
    }

    /// As [`Peer::publish`], with a signature: see [`Relay::publish_signed`].
    pub fn publish_signed(
        &mut self,
        publish: Publish<I>,
        sign: impl FnOnce(Content<'_, I>) -> Result<Option<Signature>, SigningFailed>,
        out: &mut Out<I>,
    ) -> Result<routing::PacketId<I>, PublishError<I>> {
        let mut effects = Outbox::new();
        let published = self.relay.publish_signed(publish, sign, &mut effects);
        self.pass_on(effects, out);
        published
    }

    /// Hand the relay the messages about collectives that it has room for. The host calls this
    /// after each input, once it has performed the effects of that input.
    pub fn post(
        &mut self,
        mut sign: impl FnMut(Content<'_, I>) -> Result<Option<Signature>, SigningFailed>,
        out: &mut Out<I>,
    ) {
        let me = self.collectives.me();
        while let Some((publish, sent)) = self.mail.next(me, &self.relay) {
            let published = self.publish_signed(publish, &mut sign, out);
            if !self.mail.on_published(sent, &published) {
                break;
            }
        }
    }

    /// Sign the open messages again: see [`Relay::resign`].
    pub fn resign(
        &mut self,
        sign: impl FnMut(Content<'_, I>) -> Option<Signature>,
        out: &mut Out<I>,
    ) {
        let mut effects = Outbox::new();
        self.relay.resign(sign, &mut effects);
        self.pass_on(effects, out);
    }

    /// Conclude the open messages, since this life is over. The next life, if there is one, knows
    /// nothing of them. Collectives go on.
    pub fn conclude(&mut self, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.relay.conclude_all(&mut effects);
        self.pass_on(effects, out);
    }

    /// Handle one input; the effects for the host go to `out`.
    pub fn handle(&mut self, input: Input<I>, out: &mut Out<I>) {
        match input {
            Input::Start => {
                self.on_overlay(overlay::Input::Start, out);
                self.on_collective(collective::Input::Start, out);
            }
            Input::Message { from, message } => match message {
                Message::Overlay(message) => {
                    // A message from the peer itself cancels the verdict that it is down.
                    if self.relay.is_down(from) && !self.overlay.has_left(from) {
                        self.on_relay(routing::Input::PeerUp(from), out);
                    }
                    self.on_overlay(overlay::Input::Message { from, message }, out);
                }
                Message::Relay(message) => {
                    self.on_overlay(overlay::Input::Heard { peer: from }, out);
                    self.on_relay(routing::Input::Message { from, message }, out);
                }
                Message::Collective(frame) => {
                    self.on_overlay(overlay::Input::Heard { peer: from }, out);
                    self.on_collective(collective::Input::Frame(frame), out);
                }
            },
            Input::Unproven {
                from,
                errand,
                reason,
            } => {
                self.on_overlay(overlay::Input::Heard { peer: from }, out);
                let input = routing::Input::Unproven {
                    from,
                    errand,
                    reason,
                };
                self.on_relay(input, out);
            }
            Input::Timer { timer, late } => match timer {
                Timer::Overlay(timer) => {
                    if timer == overlay::Timer::Beat {
                        self.recall_the_lost(out);
                    }
                    self.on_overlay(overlay::Input::Timer { timer, late }, out);
                }
                Timer::Relay(timer) => self.on_relay(routing::Input::Timer { timer, late }, out),
                Timer::Collective(timer) => {
                    self.on_collective(collective::Input::Timer(timer), out);
                }
            },
            Input::Acknowledged { peer } => {
                self.on_overlay(overlay::Input::Acknowledged { peer }, out);
            }
            Input::LinkUp { peer, boot } => {
                self.on_collective(collective::Input::LinkUp(peer), out);
                self.on_overlay(overlay::Input::LinkUp { peer, boot }, out);
                self.relay.meet(peer, boot);
                if !self.overlay.has_left(peer) {
                    self.on_relay(routing::Input::PeerUp(peer), out);
                    self.on_collective(collective::Input::Up(peer), out);
                }
            }
            Input::LinkDown { peer } => {
                self.on_collective(collective::Input::LinkDown(peer), out);
                self.on_overlay(overlay::Input::LinkDown { peer }, out);
            }
            Input::RoundTrip { peer, time } => {
                self.on_relay(routing::Input::RoundTrip { peer, time }, out);
            }
            Input::Call(call) => self.on_collective(collective::Input::Call(*call), out),
            Input::CancelCall(call) => self.on_collective(collective::Input::Cancel(call), out),
            Input::Writable { peer } => self.on_relay(routing::Input::Writable(peer), out),
            Input::Drain => {
                let mut effects = Outbox::new();
                self.relay.withdraw(&mut effects);
                self.pass_on(effects, out);
            }
            Input::Leave { proof } => {
                self.conclude(out);
                self.on_overlay(overlay::Input::Leave { proof }, out);
            }
        }
    }
}
