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
//! Suppression of duplicates applies to delivery, never to duty. Duties go only
//! clockwise as seen from the origin, and routed steps never return to a rank in
//! their transit list, so waiting is acyclic; and nobody waits for room (`docs/relay.md`,
//! *Why waiting ends*).
//!
//! Not here: connections, chunks of large payloads.

mod answers;
mod budget;
mod config;
mod custody;
mod delegate;
mod delivery;
mod departures;
mod duties;
mod duty;
mod epochs;
mod exceptions;
mod flood;
mod flow;
mod held;
mod hops;
mod kept;
mod late;
mod links;
mod memory;
mod offers;
mod origin;
mod pace;
mod publish;
mod receipt;
mod resign;
mod send;
mod slow;
mod stats;
mod uplink;
mod verdicts;
mod views;
mod waiting;
mod window;

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Outbox, Placement};

pub use config::Config;
pub use delivery::Delivery;
pub use memory::Memory;
pub use receipt::{RankRun, Receipt, Unreached};
pub use slow::SlowPeer;
pub use stats::RelayStats;

use crate::order::Numbering;
use crate::packet::{Confirmation, Errand, Message, Payloads, Refusal, Topic};
use crate::roster::Roster;
use crate::strategy::Strategy;
use budget::Budget;

/// What the relay asks of its host.
pub type Effects<I> = Outbox<I, Message<I>, Timer, Event<I>>;

/// This node's place and tables in one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View<I> {
    /// Epoch, population and own rank.
    pub placement: Placement<I>,
    /// The peer at my rank + 2^i, if known; level 0 is the successor.
    pub clockwise: Vec<Option<I>>,
    /// The peer at my rank − 2^i, if known; level 0 is the predecessor.
    pub counterclockwise: Vec<Option<I>>,
}

/// What a relay is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<I> {
    /// A new placement, or new tables in the newest one.
    View(View<I>),
    /// A message from an authenticated peer.
    Message {
        /// Who sent it.
        from: I,
        /// What it says.
        message: Message<I>,
    },
    /// A copy from an authenticated peer that is not signed by its origin as it ought to
    /// be. Of its content the relay hears nothing.
    Unproven {
        /// Who sent it.
        from: I,
        /// What it asked.
        errand: Errand<I>,
        /// What is wrong: [`Refusal::Unsigned`] or [`Refusal::Signature`].
        reason: Refusal,
    },
    /// An armed timer fired.
    Timer {
        /// Which.
        timer: Timer,
        /// How much later than asked: large after this process was paused.
        late: Duration,
    },
    /// A verdict says that this peer is down. Who expires or cancels a verdict
    /// sends [`Input::PeerUp`]; a message from the peer cancels it too.
    PeerDown(I),
    /// This peer has left, as it has signed. What is accepted from now on is not meant for it,
    /// and nobody waits for it, until [`Input::PeerUp`].
    PeerLeft(I),
    /// The verdict is withdrawn: there was contact, or it expired. Also when a
    /// link to the peer is up: it may run as another process by now, which knows
    /// nothing of the parts that its former one answered for.
    PeerUp(I),
    /// The link to this peer is up or writable again: what was sent without an
    /// answer is sent again now instead of at its timer.
    Writable(I),
    /// How long the transport says that a packet to this peer and its acknowledgement
    /// take, smoothed. Who is never told knows less, and waits from a floor up.
    RoundTrip {
        /// To whom.
        peer: I,
        /// The time.
        time: Duration,
    },
}

/// A timer of the relay; arming an equal one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A part was handed out: custody is late, or done is.
    Delegation {
        /// Within which duty.
        duty: u64,
        /// Which of its delegations.
        delegation: u64,
    },
    /// A packet of an unknown epoch was held long enough.
    Held(u64),
    /// Custody of short messages that are not done yet is due.
    Custody,
    /// The roster asks again.
    Roster,
    /// Own broadcasts have waited for a complete roster long enough.
    Waiting,
    /// The verdict with this number has stood for `down_pressed`, then for `down_patience`.
    Patience(u64),
    /// The member with this number has been draining for `down_pressed`, then for
    /// `down_patience`.
    Drain(u64),
    /// What is left of the own message with this sequence is issued again.
    Reissue(u64),
    /// The own message with this sequence has run out of time.
    Deadline(u64),
}

/// What a relay tells its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<I> {
    /// Messages of one packet for the local subscribers, each once per boot.
    Deliver(Box<Delivery<I>>),
    /// What became of an own message, or of all in one packet, once for each packet
    /// that was accepted.
    Receipt(Box<Receipt<I>>),
    /// Every rank of this epoch has a known peer.
    RosterComplete(Epoch<I>),
    /// After [`Relay::withdraw`]: no duty and no own message is open any more.
    Drained,
}

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination<I> {
    /// Every member but the origin, in the epoch in which it is issued. That is
    /// the newest one once its roster is complete, so that all members have
    /// names by which later epochs find them; `roster_wait` bounds the wait.
    All,
    /// The same, but for these, who are not waited for and have no line in the receipt.
    /// They stand where they stand in the order: those that are well get the message and
    /// pass it on. At most `roster_max`; further ones are waited for.
    AllBut(Vec<I>),
    /// These members and no others, by name: whoever else stands at the rank of one
    /// does not take the message in its place. Duplicates count once.
    Peers(Vec<I>),
}

impl<I> Destination<I> {
    /// Whether it goes to all members.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All | Self::AllBut(_))
    }
}

/// A message to be sent, or several in one packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Publish<I> {
    /// What it is about.
    pub topic: Topic,
    /// The user's bytes.
    pub payloads: Payloads,
    /// To whom.
    pub destination: Destination<I>,
    /// In which order it goes to all members; what is left after that goes round by
    /// [`Strategy::Binomial`], and so does what is for some members.
    pub strategy: Strategy,
    /// When the receipt is wanted.
    pub due: Due<I>,
    /// What is asked of each member.
    pub confirmation: Confirmation,
    /// Whether receivers may sort it: it is numbered among what is published in order on
    /// its topic and to the same destinations.
    pub is_ordered: bool,
}

/// When a message's receipt is wanted at the latest, and for whom it waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Due<I> {
    /// As long as an unreached member stays a member that is not called down for
    /// longer than `down_patience`; than `down_pressed` while own messages find no room.
    #[default]
    Settled,
    /// The same, and after this time at the latest.
    Within(Duration),
    /// As `Within`, but whoever is called down is given up after `down_pressed`. For messages
    /// that hold up others.
    Soon(Duration),
    /// After this time at the latest, and until then it is kept for members that are
    /// called down or have left, and for these peers, which are away already: who
    /// comes back gets it. What was published before its return reaches it one by one, in
    /// that order. At most `max_kept` messages.
    Kept {
        /// How long.
        time: Duration,
        /// For whom as well; members among them are members and nothing else. At
        /// most `roster_max`.
        awaited: Vec<I>,
    },
}

impl<I> From<Option<Duration>> for Due<I> {
    fn from(time: Option<Duration>) -> Self {
        time.map_or(Self::Settled, Self::Within)
    }
}

impl<I> Due<I> {
    /// After how long the receipt comes at the latest.
    pub const fn time(&self) -> Option<Duration> {
        match self {
            Self::Settled => None,
            Self::Within(time) | Self::Soon(time) | Self::Kept { time, .. } => Some(*time),
        }
    }
}

/// Why a message was not accepted; nothing was sent and no sequence was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError<I> {
    /// This node has no place in an epoch yet.
    #[error("this node has no rank yet")]
    Unplaced,
    /// This node is leaving.
    #[error("this node is leaving")]
    Draining,
    /// As many packets are open as may be, or as many messages as the receivers'
    /// windows hold.
    #[error("{0} packets with messages are open, and one more does not fit; wait for a receipt")]
    WindowFull(usize),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes; at most {max} are taken")]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// The payloads of the open messages fill their memory bound.
    #[error("open messages hold {bytes} bytes, the bound is {max}; wait for a receipt")]
    MemoryFull {
        /// What they hold.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// As many messages are kept for members that are away as may be, by their number or
    /// their bytes.
    #[error("{0} messages are kept for members that are away, and one more does not fit")]
    KeptFull(usize),
    /// More peers are awaited than a roster holds.
    #[error("{0} peers are awaited; at most {1} can be")]
    TooManyAwaited(usize, u32),
    /// The strategy has a fanout that no tree has.
    #[error("{0:?} is not possible: the fanout of a tree is 2 ..= {max}", max = Strategy::MAX_FANOUT)]
    ImpossibleStrategy(Strategy),
    /// The list of destinations is empty.
    #[error("the list of destinations is empty")]
    NoDestination,
    /// A destination is this node itself.
    #[error("a destination is this node itself")]
    OwnId,
    /// A destination is no member of the current epoch.
    #[error("{0:?} is not a member of the current epoch")]
    UnknownPeer(I),
    /// A destination has said goodbye, and the message is not to be kept for its return.
    #[error("{0:?} has left")]
    HasLeft(I),
    /// A destination's rank is not known, because not all ranks are (yet).
    #[error("the rank of {0:?} is not known yet")]
    RosterIncomplete(I),
    /// It was to be signed, and the key has failed.
    #[error("the key does not sign")]
    NotSigned,
    /// A destination's rank is not known and never will be: the epoch has more
    /// members than rosters are kept for.
    #[error("the rank of {0:?} is not known: {1} members are more than a roster holds")]
    RosterTooLarge(I, u32),
}

/// One node's relay: a pure machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relay<I> {
    me: I,
    boot: u64,
    config: Config,
    /// The last two epochs and the names of a few older ones.
    epochs: epochs::Epochs<I>,
    /// To whom I hold a link of the sibling tree.
    greeted: BTreeSet<I>,
    verdicts: verdicts::Verdicts<I>,
    departures: departures::Departures<I>,
    /// Peers that left many copies or questions unanswered and under no verdict:
    /// others may reach them. Ends with an answer, a link or new tables. At most
    /// `config.max_peers`; of further ones each part finds out anew.
    silent: BTreeSet<I>,
    windows: window::Windows<I>,
    duties: duties::Duties<I>,
    open: origin::OpenMessages<I>,
    numbering: Numbering<I>,
    held: held::Held<I>,
    pace: pace::Pace<I>,
    flow: flow::Flow<I>,
    /// Duties whose delegators have not been told yet that they are taken; at most
    /// `config.max_duties`.
    owed: Vec<u64>,
    /// For late parts.
    budget: Budget,
    /// For parts that a hop had no way to.
    searches: Budget,
    /// For parts behind a rank that nobody finds.
    skips: Budget,
    /// Broadcasts do not wait for the newest roster any more.
    is_impatient: bool,
    draining: bool,
    /// An own message found no room, and more than half of it is taken since.
    is_pressed: bool,
    /// [`Event::Drained`] was emitted.
    drained: bool,
    stats: RelayStats,
}

impl<I: Id> Relay<I> {
    /// The relay of peer `me` in the life `boot` of its process.
    pub fn new(me: I, boot: u64, config: Config) -> Self {
        Self {
            me,
            boot,
            epochs: epochs::Epochs::new(),
            greeted: BTreeSet::new(),
            verdicts: verdicts::Verdicts::new(),
            departures: departures::Departures::new(),
            silent: BTreeSet::new(),
            windows: window::Windows::new(),
            duties: duties::Duties::new(),
            open: origin::OpenMessages::new(),
            numbering: Numbering::new(),
            held: held::Held::new(),
            pace: pace::Pace::new(),
            flow: flow::Flow::new(),
            owed: Vec::new(),
            budget: Budget::full(config.redelegation_burst, config.redelegation_percent),
            searches: Budget::full(config.search_burst, config.search_percent),
            skips: Budget::full(config.search_burst, config.search_percent),
            is_impatient: false,
            draining: false,
            is_pressed: false,
            drained: false,
            stats: RelayStats::default(),
            config,
        }
    }

    /// The relay of the same process in its next life. It has no message and no place yet; it
    /// remembers what was delivered here, so that its subscribers get nothing twice.
    pub fn next_life(&mut self, boot: u64, config: Config) -> Self {
        let windows = std::mem::replace(&mut self.windows, window::Windows::new());
        Self {
            windows,
            ..Self::new(self.me, boot, config)
        }
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
            } => self.on_unproven(from, errand, reason, out),
            Input::Timer { timer, late } => self.on_timer(timer, late, out),
            Input::PeerDown(peer) => self.on_verdict(peer, out),
            Input::PeerLeft(peer) => self.on_peer_left(peer, out),
            Input::PeerUp(peer) => self.on_peer_up(peer, out),
            Input::RoundTrip { peer, time } => self.pace.on_round_trip(peer, time, &self.config),
            Input::Writable(peer) => self.on_writable(peer, out),
        }
        self.release(out);
    }

    /// There is a link to this life of `peer`: greater boots of it do not count any more.
    /// [`Input::PeerUp`] follows.
    pub fn meet(&mut self, peer: I, boot: u64) {
        self.windows.meet(peer, boot);
    }

    /// Take no new message, own or to deliver; what is open is still served.
    /// [`Event::Drained`] follows when nothing is open.
    pub fn withdraw(&mut self, out: &mut Effects<I>) {
        if !self.draining {
            self.draining = true;
            self.conclude_kept(out);
            self.conclude_the_lost(out);
            self.check_drained(out);
        }
    }

    /// Give up what own messages still wait for: their receipts come now, with
    /// the rest unconfirmed.
    pub fn conclude_all(&mut self, out: &mut Effects<I>) {
        for sequence in self.open.sequences() {
            self.on_deadline(sequence, out);
        }
        self.release(out);
    }

    /// The peers under a verdict, as this relay was told.
    pub fn down(&self) -> impl Iterator<Item = I> + '_ {
        self.verdicts.peers()
    }

    /// The peers that have said goodbye, as this relay was told.
    pub fn departed(&self) -> impl Iterator<Item = I> + '_ {
        self.departures.gone()
    }

    /// Whether `peer` has left and no message that is accepted now is meant for it.
    pub fn is_absent(&self, peer: I) -> bool {
        self.departures.is_gone(peer) && self.verdicts.is_down(peer)
    }

    /// Whether a verdict says that `peer` is down.
    pub fn is_down(&self, peer: I) -> bool {
        self.verdicts.has(peer)
    }

    /// Whether no duty and no own message is open.
    pub fn is_idle(&self) -> bool {
        self.duties.open_count() == 0 && self.open.is_empty()
    }

    /// The roster of the newest epoch, once there is one.
    pub fn roster(&self) -> Option<&Roster<I>> {
        self.epochs.newest().map(|view| view.roster())
    }

    /// The newest placement.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.epochs.newest().map(|view| view.placement())
    }

    /// How many packets of own messages are open, of which `config.max_open` may be, those
    /// aside that are kept for members that are away.
    pub fn open_packets(&self) -> usize {
        self.open.len() - self.open.kept_count()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> RelayStats {
        RelayStats {
            open_duties: self.duties.relayed_count(),
            delegations: self.duties.delegations(),
            duty_bytes: self.duties.bytes(),
            open_messages: self.open.len(),
            kept_messages: self.open.kept_count(),
            waiting_messages: self.open.waiting().len(),
            message_bytes: self.open.bytes(),
            held_packets: self.held.len(),
            held_bytes: self.held.bytes(),
            ..self.stats
        }
    }

    /// Count from zero again. Nothing that a relay does depends on what it counted, so who
    /// searches all that it can do need not tell apart what differs in that alone.
    pub fn reset_counters(&mut self) {
        self.stats = RelayStats::default();
    }

    fn on_message(&mut self, from: I, message: Message<I>, out: &mut Effects<I>) {
        self.on_contact(from, out);
        if message.is_answer() {
            self.on_answer(from, out);
        }
        match message {
            Message::Packet(packet) => self.on_packet(from, packet, out),
            Message::Custody { errand, pending } => {
                self.on_custody(from, &errand, &pending, out);
            }
            Message::Done {
                errand,
                exceptions,
                redelegated,
                replaced,
            } => self.on_done(from, &errand, &exceptions, (redelegated, &replaced), out),
            Message::Refused { errand, reason } => self.on_refused(from, &errand, reason, out),
            Message::Inquire { errand, name } => self.on_inquire(from, errand, name, out),
            Message::Hello {
                epoch,
                rank,
                fanout,
            } => self.on_hello(from, epoch, rank, fanout),
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
            Timer::Held(number) => self.on_held_timer(number, out),
            Timer::Custody => self.on_custody_timer(out),
            Timer::Roster => self.epochs.on_roster_timer(&self.config, out),
            Timer::Waiting => self.on_waiting_timer(out),
            Timer::Patience(number) => self.on_patience_timer(number, out),
            Timer::Drain(number) => self.on_drain_timer(number, out),
            Timer::Reissue(sequence) => self.reissue(sequence, out),
            Timer::Deadline(sequence) => self.on_deadline(sequence, out),
        }
    }

    fn on_contact(&mut self, peer: I, out: &mut Effects<I>) {
        // This was sent before the goodbye. The overlay tells if the peer is back.
        if self.departures.is_gone(peer) {
            return;
        }
        if let Some(number) = self.verdicts.withdraw(peer) {
            out.disarm(Timer::Patience(number));
            self.on_writable(peer, out);
            self.hasten_reissues(out);
        }
    }

    /// A peer answers: what is sent to it arrives.
    fn on_answer(&mut self, peer: I, out: &mut Effects<I>) {
        if self.silent.remove(&peer) {
            self.hasten_reissues(out);
        }
    }

    fn check_drained(&mut self, out: &mut Effects<I>) {
        if self.draining && !self.drained && self.is_idle() {
            self.drained = true;
            out.event(Event::Drained);
        }
    }

    fn refuse(&mut self, to: I, errand: Errand<I>, reason: Refusal, out: &mut Effects<I>) {
        self.stats.count_refusal(reason);
        out.send(to, Message::Refused { errand, reason });
    }
}
