//! The loop of a node: it feeds one [`Peer`] with the events of the transport, the timers and the
//! user's commands, and performs the effects that the peer asks for.
//!
//! ```text
//!   transport events ─┐                 ┌─▶ frames, connect, disconnect
//!   timers ───────────┼─▶ Peer::handle ─┼─▶ timers
//!   commands ─────────┘                 └─▶ deliveries, receipts
//! ```
//!
//! The loop never waits for a peer's queue, so a slow peer slows nobody else.

mod answer;
mod callers;
mod collections;
mod event_loop;
mod incoming;
mod inventory;
mod life;
mod liveness;
mod outage;
mod outgoing;
mod perform;
mod proof;
mod queue;
mod readiness;
mod receipts;
mod refusals;
mod report;
mod startup;
mod targets;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use binomesh_overlay::quic::{
    DialError, DownReason, Events, ListId, ListIssuer, Notary, PlainClass, Transport,
    TransportEvent,
};
use binomesh_overlay::{self as overlay, PeerId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::catalogue;
use crate::command::Command;
use crate::expiry::Expiry;
use crate::peer::{Input, Out, Peer, Timer};
use crate::report::PlacementView;
use crate::settings::NodeConfig;
use crate::spiffe::id_of;
use crate::state::NodeState;
use crate::subscription::{OrderMetrics, Subscribers, Unclaimed};
use crate::timers::TimerQueue;
use crate::votes::Votes;
use crate::wire;
use answer::Answers;
use callers::Callers;
use collections::Collections;
pub use event_loop::{Ended, StartError};
pub(crate) use event_loop::{LoopContext, ReadyLoop};
use inventory::Inventory;
use life::LifeInPlace;
use outage::Outages;
use queue::OpenMessages;
use readiness::Unreadiness;
use receipts::LastNames;
use refusals::Refusals;
use targets::LostMembers;

/// The most transport events that are handled before timers and commands get their turn.
const EVENTS_PER_TURN: usize = 64;
/// The most commands that are handled before the transport gets its turn.
const COMMANDS_PER_TURN: usize = 64;
/// The loop yields to the other tasks of its thread after this many turns, even if it has more to
/// do: commands come from other threads and may never cease. With a lower number, the tasks of all
/// other nodes on this thread would go first too often.
const TURNS: u32 = 16;
/// The relay is told a round-trip time below this only if the time told before was not below it:
/// the relay waits for longer anyway.
const NEAR: Duration = Duration::from_millis(10);
/// The shortest time between two turns in which the relay is told the round-trip times to all
/// linked peers.
const ROUND_TRIPS_PERIOD: Duration = Duration::from_secs(2);
/// The machines' counters are copied to the metrics once per this time. A report and a scrape copy
/// them as well. The copy waits for the first event after this time; a beat is never far.
const STATS_PERIOD: Duration = Duration::from_secs(15);

/// Bind the transport and prepare the loop.
pub(crate) fn open(context: LoopContext) -> Result<ReadyLoop, StartError> {
    startup::open(context)
}

/// The state of a running node.
struct Host {
    config: NodeConfig,
    trust_domain: String,
    address: std::net::SocketAddr,
    id: PeerId,
    /// Secret and boot. Holds the lock on the state folder.
    state: NodeState,
    /// The boot, for the handles to read.
    boot: Arc<AtomicU64>,
    /// The state of the current life.
    life: LifeInPlace,
    peer: Peer<PeerId>,
    out: Out<PeerId>,
    transport: Transport,
    /// Watches when the node's credentials expire.
    expiry: Expiry,
    /// The revocation lists that are in force.
    lists: BTreeMap<ListId, ListIssuer>,
    /// Signs for this node, and verifies the signatures of others.
    notary: Notary,
    /// The boot of each linked peer's process.
    boots: BTreeMap<PeerId, u64>,
    /// The length of the beat (the period of the heartbeats) that was armed last.
    beat: Duration,
    /// Whether the next look for silent neighbours may be late (see `liveness`), as last set in the
    /// timers.
    may_look_wait: Option<bool>,
    /// The transport's count of acknowledgements from each silent neighbour, when the host last
    /// asked.
    acknowledged: BTreeMap<PeerId, u64>,
    /// The round-trip times that the relay was told last, if at least [`NEAR`].
    round_trips: BTreeMap<PeerId, Duration>,
    /// The earliest time at which the relay is told the round-trip times of all linked peers again.
    round_trips_due: Instant,
    /// Why configured peers could not be dialled, as logged last.
    dial_failures: BTreeMap<PeerId, DialError>,
    /// The last peer that could not be dialled, and why.
    last_refusal: Option<(PeerId, DialError)>,
    unreadiness: Unreadiness,
    outages: Outages,
    refusals: Refusals,
    timers: TimerQueue<Timer>,
    subscribers: Subscribers,
    unclaimed: Unclaimed,
    messages: OpenMessages,
    collections: Collections,
    callers: Callers,
    /// The votes in which this node has taken part.
    votes: Votes,
    answers: Answers,
    inventory: Inventory,
    lost_members: LostMembers,
    last_names: LastNames,
    placement: watch::Sender<Option<PlacementView>>,
    /// The values from which the last `placement` was made.
    shown: Option<Shown>,
    /// Whether the overlay may have changed since the placement was last shown.
    is_placement_stale: bool,
    leaving: Option<Leaving>,
    /// Set when the loop has to end at once: the reason.
    ends: Option<Ended>,
}

/// A placement, whether the node is settled in it, and whether its overlay is the cluster's.
type Shown = (overlay::Placement<PeerId>, bool, bool);

/// A graceful leave in progress.
struct Leaving {
    until: Instant,
    is_drained: bool,
    replies: Vec<oneshot::Sender<()>>,
}

impl Host {
    async fn run(
        mut self,
        mut events: Events,
        mut commands: mpsc::Receiver<Command>,
        stop: CancellationToken,
    ) -> Ended {
        self.feed(Input::Start);
        let mut stats_due = now() + STATS_PERIOD;
        let mut commands_open = true;
        let mut stopped = pin!(stop.cancelled());
        let mut alarm = pin!(sleep_until(stats_due));
        let mut turns = 0_u32;
        let ended = loop {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS) {
                tokio::task::yield_now().await;
                if stop.is_cancelled() {
                    break Ended::Asked;
                }
            }
            // A busy network must not starve the users, nor a busy user the network.
            for count in 0..COMMANDS_PER_TURN {
                let Ok(command) = commands.try_recv() else {
                    break;
                };
                if count == 0 {
                    self.fire_waiting();
                }
                self.on_command(command);
            }
            let now = now();
            self.fire_timers(now);
            if std::mem::take(&mut self.is_placement_stale) {
                self.show_placement();
            }
            self.attend_waiting();
            self.attend_collections(now);
            self.unclaimed.end_if_due(now);
            if let Some(ended) = self.ends {
                break ended;
            }
            if now >= stats_due {
                stats_due = now + STATS_PERIOD;
                self.record_stats();
            }
            if self.has_drained() {
                self.say_goodbye().await;
                break Ended::Asked;
            }
            self.attend_look();
            let wake = self.next_wake(stats_due);
            if alarm.deadline() != wake {
                alarm.as_mut().reset(wake);
            }
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    None => break Ended::Asked,
                    Some(event) => {
                        self.fire_waiting();
                        self.on_event(event);
                        for _ in 1..EVENTS_PER_TURN {
                            let Some(event) = events.try_recv() else { break };
                            self.on_event(event);
                        }
                    }
                },
                command = commands.recv(), if commands_open => match command {
                    // Every handle is gone; the node lives as long as its task.
                    None => commands_open = false,
                    Some(command) => {
                        self.fire_waiting();
                        self.on_command(command);
                    }
                },
                // A busy loop checks `stop` above.
                () = stopped.as_mut() => break Ended::Asked,
                // Timers that are due have fired above.
                () = &mut alarm => {}
            }
        };
        // Record the last values, which no scrape has asked for yet.
        self.record_stats();
        ended
    }

    fn next_wake(&self, stats_due: Instant) -> Instant {
        let leave = self.leaving.as_ref().map(|leaving| leaving.until);
        let timers = self.timers.next();
        let waiting = self.messages.next_deadline();
        let collections = self.collections.next_deadline();
        let unclaimed = self.unclaimed.deadline();
        [timers, leave, waiting, collections, unclaimed]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(stats_due)
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some((timer, late)) = self.timers.pop(now) {
            self.fire(timer, late, now);
        }
    }

    fn fire(&mut self, timer: Timer, late: Duration, now: Instant) {
        if timer.is_look() {
            self.transport.look_at_addresses();
            self.outages.watch(self.peer.overlay().watched(), now);
            self.tell_acknowledged();
            self.tell_round_trips(now);
            self.attend_callers();
        }
        self.feed(Input::Timer { timer, late });
    }

    fn tell_round_trips(&mut self, now: Instant) {
        if now < self.round_trips_due {
            return;
        }
        self.round_trips_due = now + ROUND_TRIPS_PERIOD;
        let linked: Vec<PeerId> = self.boots.keys().copied().collect();
        for peer in linked {
            self.tell_round_trip(peer);
        }
    }

    /// Tell the relay the round-trip time to `peer`. Not told: a time below [`NEAR`] if the one
    /// told before was below it, too; and a time that differs from the one told before by less than
    /// a quarter of that.
    fn tell_round_trip(&mut self, peer: PeerId) {
        let time = self.transport.round_trip(peer).unwrap_or_default();
        let told = self.round_trips.get(&peer).copied().unwrap_or_default();
        if time.max(told) < NEAR || time.abs_diff(told) < told / 4 {
            return;
        }
        match time < NEAR {
            true => self.round_trips.remove(&peer),
            false => self.round_trips.insert(peer, time),
        };
        self.feed(Input::RoundTrip { peer, time });
    }

    fn on_event(&mut self, event: TransportEvent) {
        let is_frame = matches!(event, TransportEvent::Received { .. });
        self.is_placement_stale |= !is_frame;
        match event {
            TransportEvent::LinkUp { peer, boot } => {
                tracing::debug!(peer = %self.name_of(peer), boot, "link up");
                self.life.former_links.remove(&peer);
                self.boots.insert(peer, boot);
                self.dial_failures.remove(&peer);
                self.feed(Input::LinkUp { peer, boot });
                self.tell_round_trip(peer);
            }
            TransportEvent::LinkDown { peer, reason } => {
                tracing::debug!(peer = %self.name_of(peer), ?reason, "link down");
                if self.life.former_links.remove(&peer) {
                    return;
                }
                self.boots.remove(&peer);
                if self.round_trips.remove(&peer).is_some() {
                    let time = Duration::ZERO;
                    self.feed(Input::RoundTrip { peer, time });
                }
                if reason != DownReason::Idle {
                    self.feed(Input::LinkDown { peer });
                }
            }
            TransportEvent::Received {
                peer,
                boot,
                class,
                body,
            } => {
                // This message was for the former life of this process.
                if self.life.former_links.contains(&peer) {
                    return;
                }
                // A frame of the peer's former process no longer counts.
                if self
                    .boots
                    .get(&peer)
                    .is_some_and(|current| *current != boot)
                {
                    return;
                }
                // Beats are in this class: a neighbour whose maintenance frames stop is called
                // down.
                if class == PlainClass::Maintenance {
                    self.outages.on_heard(peer, now());
                }
                match wire::message(class, &body) {
                    Ok(message) => self.take(peer, message),
                    Err(refused) => self.count_refused(peer, refused.name(), &refused),
                }
            }
            TransportEvent::Writable { peer } => self.feed(Input::Writable { peer }),
            TransportEvent::DialFailed { peer, reason } => self.on_dial_failed(peer, reason),
            TransportEvent::Outlived { newest } => self.on_outlived(newest),
            TransportEvent::Superseded { address } => self.on_superseded(address),
            TransportEvent::Failed { .. } => self.ends = Some(Ended::TransportFailed),
        }
    }

    /// Note a failed dial. If `parent` or `seeds` names the peer, warn in the log, unless the last
    /// warning about this peer since its last link gave the same reason.
    fn on_dial_failed(&mut self, peer: PeerId, reason: DialError) {
        self.note_refusal(peer, &reason);
        let mut named = self.config.parent.iter().chain(&self.config.seeds);
        let named = named.find(|seed| id_of(&self.trust_domain, &seed.name) == peer);
        let Some(seed) = named else {
            tracing::debug!(peer = %self.name_of(peer), %reason, "dial failed");
            return;
        };
        if self.dial_failures.get(&peer) == Some(&reason) {
            return;
        }
        let remedy = reason.remedy();
        tracing::warn!(peer = %seed, %reason, remedy, "a peer cannot be reached; the node keeps \
                                                       trying");
        self.dial_failures.insert(peer, reason);
    }

    /// Count a message that is not accepted, and log it once per peer and reason.
    fn count_refused(&mut self, peer: PeerId, reason: &'static str, refused: &dyn Display) {
        catalogue::MESSAGES_REFUSED.with([reason]).increment(1);
        if self.refusals.is_news(peer, reason) {
            tracing::warn!(peer = %self.name_of(peer), %refused, "a message of a peer was refused; this line comes once per peer and reason");
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Report { reply } => {
                self.record_stats();
                let _ = reply.send(self.report());
            }
            Command::Scrape { reply } => {
                self.record_stats();
                let _ = reply.send(self.scrape());
            }
            Command::Targets { reply } => {
                let _ = reply.send(self.targets());
            }
            Command::Subscribe { subscriber, reply } => {
                if self.subscribers.admit(subscriber, &mut self.unclaimed) {
                    let _ = reply.send(OrderMetrics::of_this_node());
                }
            }
            Command::Send { to, outgoing } => self.submit(Some(to), outgoing),
            Command::Publish(outgoing) => self.submit(None, outgoing),
            Command::Reply { to, answer, reply } => {
                let _ = reply.send(self.reply(to, answer));
            }
            Command::Call(request) => self.call(*request),
            Command::Collectives { reply } => {
                let _ = reply.send(self.collective_views());
            }
            Command::Renew { credentials, reply } => {
                let _ = reply.send(self.renew(&credentials.identity));
            }
            Command::Leave { drain, reply } => self.leave(drain, reply),
        }
    }

    fn leave(&mut self, drain: Duration, reply: oneshot::Sender<()>) {
        let until = after(drain);
        if let Some(leaving) = &mut self.leaving {
            leaving.until = leaving.until.min(until);
            leaving.replies.push(reply);
            return;
        }
        tracing::info!(drain_seconds = drain.as_secs_f64(), "leaving");
        // Messages that were submitted before go out first.
        self.send_all_waiting();
        self.leaving = Some(Leaving {
            until,
            is_drained: false,
            replies: vec![reply],
        });
        self.feed(Input::Drain);
    }

    fn has_drained(&self) -> bool {
        let leaving = self.leaving.as_ref();
        leaving.is_some_and(|leaving| leaving.is_drained || now() >= leaving.until)
    }

    async fn say_goodbye(&mut self) {
        self.feed_goodbye();
        // A node that has left gets no more answers.
        for collected in self.collections.take_all() {
            self.tell_collected(collected);
        }
        self.transport.close().await;
        let leaving = self.leaving.take();
        for reply in leaving.into_iter().flat_map(|leaving| leaving.replies) {
            let _ = reply.send(());
        }
    }

    fn feed(&mut self, input: Input<PeerId>) {
        self.is_placement_stale |= !input.is_of_relay();
        self.peer.handle(input, &mut self.out);
        self.perform();
        self.post();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the host is where the machines' timers meet the clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// The instant `length` from now, or a year from now if that is sooner.
fn after(length: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now() + length.min(FAR)
}
