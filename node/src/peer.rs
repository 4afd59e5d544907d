//! One whole peer, pure: the overlay, the relay that rides on it, and the collectives that
//! ride on both.
//!
//! Not here: connections, clocks, encodings. The QUIC node (`host`) and the
//! simulated world (`world`) run this same machine.

pub(crate) mod mail;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::detector::{self, Goodbye};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::overlay::MAX_ACQUAINTANCES;
use binomesh_overlay::{self as overlay, Effect, Health, Id, Outbox, Overlay};
use binomesh_routing::collective::lives::Record;
use binomesh_routing::collective::{self, CallError, Collectives, Outcome};
use binomesh_routing::packet::{Content, Errand, Refusal, Signature, SigningFailed};
use binomesh_routing::{self as routing, Publish, PublishError, Relay, View};
use mail::Mail;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message between two peers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Message<I> {
    /// Maintenance of the overlay.
    Overlay(overlay::Message<I>),
    /// User messages and what acknowledges them.
    Relay(routing::Message<I>),
    /// What collectives say to each other from neighbour to neighbour.
    Collective(collective::Frame<I>),
}

/// A timer of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// One of the overlay's.
    Overlay(overlay::Timer),
    /// One of the relay's.
    Relay(routing::Timer),
    /// One of the collectives'.
    Collective(collective::Timer),
}

impl Timer {
    /// Shorter timers have no slack. Guess: between the beats of the profiles `fast`
    /// and `default`.
    const FAST: Duration = Duration::from_millis(250);

    /// Whether silence is looked at when it fires: [`Input::Acknowledged`] comes
    /// before it.
    pub(crate) const fn is_look(self) -> bool {
        matches!(
            self,
            Self::Overlay(overlay::Timer::Beat | overlay::Timer::Watch)
        )
    }

    /// By how much this timer may be late, armed to fire `after` so long, so that an
    /// idle host need not wake for it alone: what is done by the clock again and again
    /// is spread by half as much in any case. Whoever beats fast wants to be in time.
    pub(crate) fn slack(self, after: Duration) -> Duration {
        match self {
            Self::Overlay(
                overlay::Timer::Beat
                | overlay::Timer::Refresh
                | overlay::Timer::Confirm
                | overlay::Timer::Probe,
            ) if after >= Self::FAST => after / 8,
            _ => Duration::ZERO,
        }
    }

    /// The same of a look in the middle of such a beat, when it can wait: until the beat.
    pub(crate) fn slack_of_look(beat: Duration) -> Duration {
        beat / detector::HALVES + Self::Overlay(overlay::Timer::Beat).slack(beat)
    }
}

/// What happens to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// The process has started.
    Start,
    /// A message came from an authenticated peer.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A copy of a message came that is not signed by its origin as it ought to be: see
    /// [`routing::Input::Unproven`].
    Unproven {
        /// Who sent it.
        from: I,
        /// What it asked.
        errand: Errand<I>,
        /// What is wrong.
        reason: Refusal,
    },
    /// The transport of a linked peer has acknowledged something since it was
    /// looked at last.
    Acknowledged {
        /// Whose.
        peer: I,
    },
    /// The transport's round-trip time to a linked peer has changed.
    RoundTrip {
        /// To whom.
        peer: I,
        /// The time, smoothed.
        time: Duration,
    },
    /// A timer has fired.
    Timer {
        /// Which.
        timer: Timer,
        /// How much later than asked for.
        late: Duration,
    },
    /// A link is up.
    LinkUp {
        /// To whom.
        peer: I,
        /// The life of that peer's process.
        boot: u64,
    },
    /// A link broke.
    LinkDown {
        /// To whom.
        peer: I,
    },
    /// A caller of a collective operation.
    Call(Box<collective::Call<I>>),
    /// The caller with this number waits no more.
    CancelCall(u64),
    /// A peer's queue was full and has room again.
    Writable {
        /// Whose.
        peer: I,
    },
    /// Leave gracefully: accept no more messages and tell
    /// [`routing::Event::Drained`] when none is open.
    Drain,
    /// Conclude what is open and say goodbye.
    Leave {
        /// The goodbye of this life, signed; without, others take it for down.
        proof: Option<Vec<u8>>,
    },
}

impl<I: Id> Message<I> {
    /// The goodbye in it, if it brings one: whoever hands it to a peer verifies it first.
    pub const fn goodbye(&self) -> Option<&Goodbye<I>> {
        match self {
            Self::Overlay(overlay::Message::Detector(detector::Message::Goodbye(goodbye))) => {
                Some(goodbye)
            }
            _ => None,
        }
    }

    /// What a goodbye comes to that is not proven: a rumour that a peer is down.
    pub fn unproven(goodbye: &Goodbye<I>) -> Self {
        Self::Overlay(detector::Message::Rumours(vec![goodbye.rumour()]).into())
    }
}

impl<I> Input<I> {
    /// Whether it is for the relay: by it the overlay changes with an event, or in
    /// nothing that cannot wait for the next beat.
    pub(crate) const fn is_of_relay(&self) -> bool {
        matches!(
            self,
            Self::Writable { .. }
                | Self::RoundTrip { .. }
                | Self::Call(_)
                | Self::CancelCall(_)
                | Self::Unproven { .. }
                | Self::Message {
                    message: Message::Relay(_) | Message::Collective(_),
                    ..
                }
                | Self::Timer {
                    timer: Timer::Relay(_) | Timer::Collective(_),
                    ..
                }
        )
    }
}

/// What a peer tells its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Something of the overlay.
    Overlay(overlay::Event<I>),
    /// A delivery, a receipt.
    Relay(routing::Event<I>),
    /// To be recorded before anything that is asked for later, see
    /// [`collective::Effect::Record`].
    Record(collective::Key),
    /// The answer to a caller of a collective operation.
    Answer {
        /// Which caller.
        call: u64,
        /// The outcome, or why there is none.
        outcome: Result<Box<Outcome<I>>, CallError>,
    },
}

/// The outbox of a peer.
pub type Out<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// One whole peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer<I: Id> {
    overlay: Overlay<I>,
    relay: Relay<I>,
    /// The links that the relay wants; the overlay has its own.
    relay_links: BTreeSet<I>,
    /// The members of the last epoch whose roster was complete.
    members: Arc<Vec<Option<I>>>,
    collectives: Collectives<I>,
    mail: Mail<I>,
}

impl<I: Id + Serialize + DeserializeOwned> Peer<I> {
    /// A peer that has not started yet, of an identity that has no record of votes.
    pub fn new(overlay: overlay::Config<I>, relay: routing::Config) -> Self {
        let record = Record::Kept(BTreeMap::new());
        Self::remembering(overlay, relay, record)
    }

    /// A peer that has not started yet, with what its former lives have recorded.
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

    /// Collectives say nothing in the names of others: for members that sign.
    pub fn without_quick_ways(mut self) -> Self {
        self.collectives.leave_quick_ways();
        self
    }

    /// Begin another life of the same process, with new machines that have not started yet.
    /// Of collectives it remembers all, so the host keeps their timers.
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

    /// The overlay half.
    pub const fn overlay(&self) -> &Overlay<I> {
        &self.overlay
    }

    /// The relay half.
    pub const fn relay(&self) -> &Relay<I> {
        &self.relay
    }

    /// The collectives.
    pub const fn collectives(&self) -> &Collectives<I> {
        &self.collectives
    }

    /// How many messages about collectives were dropped for want of room.
    pub const fn mail_dropped(&self) -> u64 {
        self.mail.dropped()
    }

    /// Take part in no vote of a collective any more: it cannot be recorded.
    pub fn stop_voting(&mut self) {
        self.collectives.stop_voting();
        self.mail.clear();
    }

    /// Whether this node's tables are as they should be, in the cluster's overlay rather
    /// than on an island.
    pub fn is_ready(&self) -> bool {
        self.overlay.health() == Health::Healthy && self.overlay.island().is_none()
    }

    /// How many former members went without a goodbye and are not back: those that are
    /// called down and those that the epoch does not count any more. Above the members
    /// that a roster names, only neighbours are counted.
    pub fn lost_count(&self) -> usize {
        self.lost().len()
    }

    /// Who they are.
    pub fn lost(&self) -> BTreeSet<I> {
        let mut lost: BTreeSet<I> = self.overlay.lost_members().collect();
        if let Some(roster) = self.relay.roster() {
            let is_vacant =
                |peer: &I| roster.rank_of(*peer).is_some() && !self.overlay.has_left(*peer);
            lost.extend(self.overlay.down().filter(is_vacant));
        }
        lost
    }

    /// Leave the overlay half in an arbitrary state, as a transient fault would.
    pub fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        self.overlay.scramble(noise, peers);
    }

    /// Publish a message. Its receipt comes as an event, perhaps at once.
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

    /// Hand the relay the messages about collectives that it has room for: after each
    /// input, once what that asked for is done.
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

    /// Sign what is open anew: see [`Relay::resign`].
    pub fn resign(
        &mut self,
        sign: impl FnMut(Content<'_, I>) -> Option<Signature>,
        out: &mut Out<I>,
    ) {
        let mut effects = Outbox::new();
        self.relay.resign(sign, &mut effects);
        self.pass_on(effects, out);
    }

    /// Conclude the messages that are open: this life is over, and the next knows nothing of
    /// them. Collectives go on.
    pub fn conclude(&mut self, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.relay.conclude_all(&mut effects);
        self.pass_on(effects, out);
    }

    /// Handle one input; what the host is to do goes to `out`.
    pub fn handle(&mut self, input: Input<I>, out: &mut Out<I>) {
        match input {
            Input::Start => {
                self.on_overlay(overlay::Input::Start, out);
                self.on_collective(collective::Input::Start, out);
            }
            Input::Message { from, message } => match message {
                Message::Overlay(message) => {
                    // Direct contact cancels a verdict.
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

    fn on_overlay(&mut self, input: overlay::Input<I>, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.overlay.handle(input, &mut effects);
        let mut is_view_new = false;
        for effect in effects {
            match effect {
                Effect::Send { to, message } => out.send(to, Message::Overlay(message)),
                Effect::Arm { timer, after } => out.arm(Timer::Overlay(timer), after),
                Effect::Disarm { timer } => out.disarm(Timer::Overlay(timer)),
                Effect::Connect(peer) => out.connect(peer),
                // The relay may still want it.
                Effect::Disconnect(peer) if self.relay_links.contains(&peer) => {}
                Effect::Disconnect(peer) => out.disconnect(peer),
                Effect::Doubt(peer) => out.doubt(peer),
                Effect::Event(event) => {
                    match event {
                        overlay::Event::View => is_view_new = true,
                        overlay::Event::Down(peer) => {
                            self.on_relay(routing::Input::PeerDown(peer), out);
                            self.on_collective(collective::Input::Down(peer), out);
                        }
                        overlay::Event::Left { peer, .. } => {
                            self.on_relay(routing::Input::PeerLeft(peer), out);
                            self.on_collective(collective::Input::Left(peer), out);
                        }
                        overlay::Event::Up(peer) => {
                            self.on_relay(routing::Input::PeerUp(peer), out);
                            self.on_collective(collective::Input::Up(peer), out);
                        }
                        overlay::Event::Expired(peer) => {
                            self.on_relay(routing::Input::PeerUp(peer), out);
                        }
                        overlay::Event::Seeking { .. }
                        | overlay::Event::Relinked
                        | overlay::Event::Renumbered { .. } => {}
                    }
                    out.event(Event::Overlay(event));
                }
            }
        }
        if is_view_new && let Some(view) = self.view() {
            self.on_relay(routing::Input::View(view.clone()), out);
            self.tell_collectives(view, out);
        }
    }

    fn view(&self) -> Option<View<I>> {
        let fingers = self.overlay.fingers()?;
        Some(View {
            placement: *fingers.stamp(),
            clockwise: fingers.clockwise().to_vec(),
            counterclockwise: fingers.counterclockwise().to_vec(),
        })
    }

    /// The overlay alone knows who is down or has left: what the relay remembers besides is
    /// undone.
    fn recall_the_lost(&mut self, out: &mut Out<I>) {
        let down: BTreeSet<I> = self.overlay.down().collect();
        let verdicts = self.relay.down().filter(|peer| !down.contains(peer));
        let goodbyes = self.relay.departed();
        let goodbyes = goodbyes.filter(|peer| !self.overlay.has_left(*peer));
        let back: BTreeSet<I> = verdicts.chain(goodbyes).collect();
        for peer in back {
            self.on_relay(routing::Input::PeerUp(peer), out);
        }
        self.recall_members(out);
    }

    /// The collectives hear the tables of the newest epoch, and whose ranks are known.
    fn tell_collectives(&mut self, view: View<I>, out: &mut Out<I>) {
        let roster = self.relay.roster().filter(|roster| roster.is_complete());
        let members = roster.map(|roster| roster.peers()).unwrap_or_default();
        if !members.is_empty() {
            let present = members.iter().copied().flatten().collect();
            let input = collective::Input::Members(Arc::new(present));
            self.on_collective(input, out);
        }
        self.on_collective(collective::Input::View { view, members }, out);
    }

    /// Who is a member and not called down is there, whatever was said of it before: its
    /// verdict may have expired without a word from it.
    fn recall_members(&mut self, out: &mut Out<I>) {
        let Some(roster) = self.relay.roster().filter(|roster| roster.is_complete()) else {
            return;
        };
        let is_there = |peer: &I| {
            let is_called_down = self.overlay.down().any(|down| down == *peer);
            roster.rank_of(*peer).is_some() && !is_called_down && !self.overlay.has_left(*peer)
        };
        let back: Vec<I> = self.collectives.gone().filter(is_there).collect();
        for peer in back {
            self.on_collective(collective::Input::Up(peer), out);
        }
    }

    fn on_collective(&mut self, input: collective::Input<I>, out: &mut Out<I>) {
        use collective::Effect;
        let mut effects = Vec::new();
        self.collectives.handle(input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.mail.push(to, &message),
                Effect::Frame { to, frame } => out.send(to, Message::Collective(frame)),
                Effect::Arm { timer, after } => out.arm(Timer::Collective(timer), after),
                Effect::Disarm(timer) => out.disarm(Timer::Collective(timer)),
                Effect::Record(key) => out.event(Event::Record(key)),
                Effect::Answer { call, outcome } => out.event(Event::Answer { call, outcome }),
            }
        }
    }

    fn on_relay(&mut self, input: routing::Input<I>, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.relay.handle(input, &mut effects);
        self.pass_on(effects, out);
    }

    /// What the relay asks for.
    fn pass_on(&mut self, effects: routing::Effects<I>, out: &mut Out<I>) {
        let mut is_roster_new = false;
        for effect in effects {
            match effect {
                Effect::Send { to, message } => out.send(to, Message::Relay(message)),
                Effect::Arm { timer, after } => out.arm(Timer::Relay(timer), after),
                Effect::Disarm { timer } => out.disarm(Timer::Relay(timer)),
                Effect::Connect(peer) => {
                    self.relay_links.insert(peer);
                    out.connect(peer);
                }
                Effect::Disconnect(peer) => {
                    self.relay_links.remove(&peer);
                    if !self.overlay.claims(peer) {
                        out.disconnect(peer);
                    }
                }
                Effect::Doubt(peer) => out.doubt(peer),
                Effect::Event(routing::Event::Deliver(delivery))
                    if mail::is_of_collectives(&delivery.topic) =>
                {
                    let from = delivery.first.origin;
                    for message in mail::messages_of(&delivery) {
                        self.on_collective(collective::Input::Message { from, message }, out);
                    }
                }
                Effect::Event(routing::Event::Receipt(receipt)) if self.mail.close(&receipt) => {}
                Effect::Event(event) => {
                    is_roster_new |= matches!(event, routing::Event::RosterComplete(_));
                    out.event(Event::Relay(event));
                }
            }
        }
        if is_roster_new {
            self.meet_members();
            self.note_members();
            self.recall_members(out);
            if let Some(view) = self.view() {
                self.tell_collectives(view, out);
            }
        }
    }

    /// The overlay hears who is a member now and was one before.
    fn note_members(&mut self) {
        let Some(roster) = self.relay.roster().filter(|roster| roster.is_complete()) else {
            return;
        };
        let before = std::mem::replace(&mut self.members, roster.peers());
        let before = before.iter().copied().flatten();
        let is_member = |peer| roster.rank_of(peer).is_some();
        self.overlay.note_members(before, is_member);
    }

    /// The overlay gets to know members from all over the ring, at equal
    /// distances, while they can still be asked for.
    fn meet_members(&mut self) {
        let Some(placement) = self.overlay.placement() else {
            return;
        };
        let names = self.relay.roster().map(|roster| roster.peers());
        let is_of = |names: &Arc<Vec<_>>| names.len() == placement.population.get() as usize;
        let Some(names) = names.filter(is_of) else {
            return;
        };
        let steps = (names.len() as u64).min(MAX_ACQUAINTANCES as u64 + 1);
        let at = |step: u64| {
            let ahead = (step * names.len() as u64 / steps) as u32;
            let rank = placement.rank.ahead(ahead, placement.population);
            names.get(rank.0 as usize).copied().flatten()
        };
        let is_member = |id| names.contains(&Some(id));
        self.overlay.meet((1..steps).filter_map(at), is_member);
    }
}
