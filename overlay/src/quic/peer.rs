//! One peer: its claim, its queue, its dial, and which connection is *the* link.
//!
//! A connection that loses against another one to the same process drains, unless it counts as
//! gone: its frames in flight still arrive. Frames that wait go over the winner, which starts to
//! write after the peer has read the loser to its end, so that each class stays in order. Another
//! process of the peer, once it is admitted (`admission`), wins at once.
//!
//! The host, or a look at this node's addresses, can put a link in doubt: they take it for dead
//! though QUIC has not given it up. Such a link is dialled beside until another connection takes
//! its place, it ends, or the peer is heard over it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use quinn::Connection;
use rustls_pki_types::CertificateDer;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admission::AdmissionDecision;
use super::budget::Share;
use super::choice::{BothGone, Choice, Dial, Direction, Ends, choose};
use super::close::{CloseCode, DownReason};
use super::events::LinkEvents;
use super::frame::{Frame, PlainClass};
use super::greeting::{Farewell, Fingerprint};
use super::handshake::seen;
use super::life::Entered;
use super::link::Question;
use super::queue::{Full, Queue, QueueLimits};
use crate::PeerId;
use crate::lives::Greeter;

/// The frames and bytes that passed over one link.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) frames_in: AtomicU64,
    pub(super) frames_out: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
}

impl Traffic {
    /// A number that changes whenever a frame passes.
    pub(super) fn frames(&self) -> u64 {
        self.frames_in.load(Ordering::Relaxed) + self.frames_out.load(Ordering::Relaxed)
    }
}

/// One greeted connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: PeerId,
    pub(super) name: String,
    pub(super) boot: u64,
    /// Whether the peer has signed its boot.
    pub(super) is_proven: bool,
    /// Whether the peer has said that it was counted with other nodes.
    pub(super) is_member: AtomicBool,
    /// Questions that the link's task has to ask the peer.
    pub(super) questions: mpsc::Sender<Question>,
    /// The entry of this connection among those of the process.
    pub(super) entered: Entered,
    /// The peer's connections to this node, by its greeting; this one may be among them.
    pub(super) others: Vec<Fingerprint>,
    /// The number of the dial, by its dialler's count.
    pub(super) attempt: u64,
    pub(super) direction: Direction,
    pub(super) connection: Connection,
    pub(super) up: Instant,
    /// When the peer's certificate expires.
    pub(super) expires: Instant,
    /// Cancelled when the peer's certificate is no longer accepted.
    pub(super) distrusted: CancellationToken,
    /// The peer's certificate chain.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) traffic: Traffic,
    /// Wakes the writer of a class that waits for frames, or for the link to drain.
    pub(super) ready: [AtomicWaker; 3],
    /// Persistent streams that the peer opened, one bit per class.
    pub(super) persistent: AtomicU8,
    /// Set once, when the drain begins: a writer ends as soon as it finds no frame to take.
    pub(super) drain: watch::Sender<Option<Farewell>>,
    /// Cancelled when the peer has read all that this side wrote, or when the link is lost.
    pub(super) settled: CancellationToken,
    /// Permits for the streams of large packets that may be written at once.
    pub(super) large: Arc<Semaphore>,
    /// Whether the peer advertises no address and is known only by the address where it is seen.
    pub(super) is_seen_only: bool,
    /// Whether this connection counted as gone when another one took its place. The host is told of
    /// that, so the end of this connection is no news to it.
    pub(super) is_given_up: AtomicBool,
    /// Makes the link's task send a message that the peer acknowledges.
    pub(super) probe: Notify,
}

impl Link {
    /// Start to drain, unless the drain has begun already.
    pub(super) fn start_drain(&self, farewell: Farewell) {
        self.drain.send_if_modified(|drain| {
            let first = drain.is_none();
            drain.get_or_insert(farewell);
            first
        });
        self.ready.iter().for_each(AtomicWaker::wake);
    }

    fn dial(&self) -> Dial {
        Dial {
            direction: self.direction,
            attempt: self.attempt,
        }
    }

    /// The facts that the peer has stated about itself so far.
    pub(super) fn greeter(&self) -> Greeter {
        Greeter {
            boot: self.boot,
            is_proven: self.is_proven,
            is_member: self.is_member.load(Ordering::Relaxed),
        }
    }

    /// Whether this connection leads to the place of `other`: to its address, or to a process that
    /// has both connections.
    pub(super) fn is_in_place_of(&self, other: &Self) -> bool {
        seen(&self.connection) == seen(&other.connection)
            || self.others.contains(&other.entered.fingerprint)
            || other.others.contains(&self.entered.fingerprint)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    /// A number that rises with the QUIC frames that only the peer's process can send:
    /// acknowledgements, pings, datagrams and stream data.
    fn heard(&self) -> u64 {
        let heard = self.connection.stats().frame_rx;
        heard.acks + heard.ping + heard.datagram + heard.stream
    }
}

/// The role of a new connection.
#[derive(Debug)]
pub(super) enum ConnectionRole {
    /// The connection is the link. It writes no frame before the token, if any, is cancelled, or
    /// the time of a drain is over.
    Current(Option<CancellationToken>),
    /// The connection is superfluous: it drains at once.
    Superfluous,
}

/// Why the decision about a greeted connection no longer holds.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// The peer left the table meanwhile.
    Removed,
    /// Another link stands than the one that the decision was about: judge again.
    Changed,
}

/// The whole state of one peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    state: Mutex<State>,
    /// The last state that the host was told: boot and generation.
    pub(super) reported: tokio::sync::Mutex<Option<(u64, u64)>>,
    /// The link events of `report` that the host has not taken yet.
    pub(super) link_events: LinkEvents,
    /// The room in which the peer's large bodies are assembled.
    pub(super) assembly: Share,
    /// Ends the pause before the next dial.
    pub(super) retry: Notify,
    /// Notified when a peer without a link gets one, or a dial to it fails.
    decided: Notify,
}

#[derive(Debug)]
struct State {
    claimed: bool,
    dialling: bool,
    /// Dials that failed and links that broke early, since the last good one.
    failures: u32,
    /// Whether the peer was taken out of the table; a task that still holds it looks it up again.
    removed: bool,
    current: Option<Arc<Link>>,
    /// The value of [`Link::heard`] when the current link was last put in doubt.
    doubt: Option<u64>,
    /// The token `settled` of the link that was last set aside, until the next link takes it.
    settled: Option<CancellationToken>,
    /// Rises whenever frames may have been lost with a link.
    generation: u64,
    /// The links that run, draining ones too. At most `peer_connections`.
    running: Vec<Arc<Link>>,
    down: DownReason,
    queue: Queue,
}

impl State {
    fn is_wanted(&self) -> bool {
        self.claimed || !self.queue.is_empty()
    }

    fn is_current(&self, link: &Arc<Link>) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| Arc::ptr_eq(current, link))
    }

    /// The current link, if it is in doubt and nothing has been heard over it since.
    fn doubted(&self) -> Option<&Arc<Link>> {
        let current = self.current.as_ref()?;
        let is_silent = |heard: u64| current.heard() == heard;
        self.doubt.is_some_and(is_silent).then_some(current)
    }

    /// Whether a dial would be useful.
    fn wants_dial(&self) -> bool {
        match self.current {
            None => self.is_wanted(),
            Some(_) => self.doubted().is_some(),
        }
    }

    /// This link counts as gone, and another takes its place: frames in flight on it may be lost.
    fn give_up(&mut self, link: &Link) {
        self.generation += 1;
        self.down = DownReason::TimedOut;
        link.is_given_up.store(true, Ordering::Relaxed);
        CloseCode::Silent.close(&link.connection);
    }

    fn set_current(&mut self, link: Option<Arc<Link>>) {
        self.current = link;
        self.doubt = None;
    }
}

/// The error when the peer has left the table meanwhile.
#[derive(Debug)]
pub(super) struct Removed;

impl Peer {
    pub(super) fn new(id: PeerId, limits: QueueLimits, assembly: Share) -> Self {
        let state = State {
            claimed: false,
            dialling: false,
            failures: 0,
            removed: false,
            current: None,
            doubt: None,
            settled: None,
            generation: 0,
            running: Vec::new(),
            down: DownReason::Broken,
            queue: Queue::new(limits),
        };
        Self {
            id,
            state: Mutex::new(state),
            reported: tokio::sync::Mutex::new(None),
            link_events: LinkEvents::default(),
            assembly,
            retry: Notify::new(),
            decided: Notify::new(),
        }
    }

    /// Queue a frame and wake its writer; without a link only if `may_wait`. Returns the frame if
    /// this entry cannot take it.
    pub(super) fn push(&self, frame: Frame, may_wait: bool) -> Result<Result<(), Full>, Frame> {
        let mut state = self.lock();
        if state.removed || state.current.is_none() && !may_wait {
            return Err(frame);
        }
        let class = frame.class.plain();
        let pushed = state.queue.push(frame);
        if let (Ok(()), Some(link)) = (&pushed, &state.current) {
            link.ready[class.index()].wake();
        }
        Ok(pushed)
    }

    /// Claim the peer or give the claim up.
    pub(super) fn claim(&self, claimed: bool) -> Result<(), Removed> {
        let mut state = self.lock();
        match state.removed {
            true => Err(Removed),
            false => {
                state.claimed = claimed;
                Ok(())
            }
        }
    }

    /// Take the next frames for `link` to write. Also returns whether its writer has to tell the
    /// host of room; writers of maintenance never do, as no sender waits for them. Only the current
    /// link takes frames; a link that drains because a process stops is still the current one.
    pub(super) fn take(
        &self,
        link: &Arc<Link>,
        class: PlainClass,
        frames: usize,
        bytes: usize,
    ) -> (Vec<Frame>, bool) {
        let mut state = self.lock();
        if !state.is_current(link) {
            return (Vec::new(), false);
        }
        let batch = state.queue.take(class, frames, bytes);
        let is_data = class != PlainClass::Maintenance;
        (batch, is_data && state.queue.take_writable())
    }

    /// Whether [`Self::take`] would return a frame now.
    pub(super) fn has_frames(&self, link: &Arc<Link>, class: PlainClass) -> bool {
        let state = self.lock();
        state.is_current(link) && state.queue.depths()[class.index()] > 0
    }

    /// Begin a dial, if one is wanted and none is under way.
    pub(super) fn start_dial(&self) -> bool {
        let mut state = self.lock();
        let start = !state.dialling && state.wants_dial();
        state.dialling |= start;
        start
    }

    /// Put the current link in doubt. Returns whether the doubt is new: the link was not in doubt,
    /// or the peer was heard over it since.
    pub(super) fn doubt(&self) -> bool {
        let mut state = self.lock();
        let Some(heard) = state.current.as_ref().map(|link| link.heard()) else {
            return false;
        };
        let is_new = state.doubt.replace(heard) != Some(heard);
        if is_new {
            // The pauses between dials start again at the shortest.
            state.failures = 0;
        }
        is_new
    }

    /// The current link, if it is in doubt.
    pub(super) fn doubted(&self) -> Option<Arc<Link>> {
        self.lock().doubted().cloned()
    }

    /// Whether the dial goes on. If not, it is marked as ended.
    pub(super) fn goes_on_dialling(&self, stopped: bool) -> bool {
        let mut state = self.lock();
        state.dialling = !stopped && state.wants_dial();
        state.dialling
    }

    /// Whether a dial is still useful.
    pub(super) fn wants_dial(&self) -> bool {
        self.lock().wants_dial()
    }

    /// How many times in a row no lasting link was made.
    pub(super) fn failures(&self) -> u32 {
        self.lock().failures
    }

    /// A dial failed: without a link, drop the waiting frames. Returns how many frames were
    /// dropped, and whether the sender has to be told of room; none if there is a link.
    pub(super) fn fail_dial(&self) -> Option<(usize, bool)> {
        let mut state = self.lock();
        if state.wants_dial() {
            state.failures = state.failures.saturating_add(1);
        }
        if state.current.is_some() {
            return None;
        }
        self.decided.notify_waiters();
        let dropped = state.queue.clear();
        Some((dropped, state.queue.take_writable()))
    }

    /// Decide the role of an admitted process's connection, which runs until [`Self::end_link`].
    /// `me` is this node and `boot` its own boot. `gone` has the connections that the two greetings
    /// call gone.
    pub(super) fn register(
        &self,
        me: PeerId,
        boot: u64,
        link: &Arc<Link>,
        gone: BothGone,
        decision: &AdmissionDecision,
    ) -> Result<ConnectionRole, Unsettled> {
        let mut state = self.lock();
        if state.removed {
            return Err(Unsettled::Removed);
        }
        let current = state.current.clone().filter(|current| current.is_alive());
        let Some(current) = current else {
            let after = state.settled.take();
            state.set_current(Some(link.clone()));
            state.running.push(link.clone());
            self.decided.notify_waiters();
            return Ok(ConnectionRole::Current(after));
        };
        let holder = decision.holder.as_ref();
        let was_judged = holder.is_some_and(|holder| Arc::ptr_eq(holder, &current));
        let is_same = link.boot == current.boot && (was_judged || link.is_in_place_of(&current));
        let after = match (was_judged && decision.replaces, is_same) {
            (true, _) => {
                // The process behind the current link is gone, or has to end and is told so when it
                // dials again. Nothing has to drain.
                state.down = DownReason::Restarted;
                CloseCode::OldBoot.close(&current.connection);
                None
            }
            (false, true) => {
                let ends = Ends {
                    me,
                    boot,
                    peer: self.id,
                };
                match choose(ends, link.boot, link.dial(), current.dial(), gone) {
                    Choice::Stays => {
                        state.running.push(link.clone());
                        return Ok(ConnectionRole::Superfluous);
                    }
                    Choice::Drains => current.start_drain(Farewell::Replaced),
                    Choice::IsGone => state.give_up(&current),
                }
                Some(current.settled.clone())
            }
            (false, false) => return Err(Unsettled::Changed),
        };
        state.set_current(Some(link.clone()));
        state.running.push(link.clone());
        Ok(ConnectionRole::Current(after))
    }

    /// Give up the claim and the waiting frames: this process begins another life. Returns the
    /// current link, which has to be closed.
    pub(super) fn forget(&self) -> Option<Arc<Link>> {
        let mut state = self.lock();
        state.claimed = false;
        state.failures = 0;
        state.doubt = None;
        state.queue.clear();
        state.current.clone()
    }

    /// Wait until a connection in its greeting becomes a link or fails: the peer has taken that
    /// connection for the link already.
    pub(super) async fn successor(&self) {
        let mut decided = std::pin::pin!(self.decided.notified());
        decided.as_mut().enable();
        if !self.is_linked() {
            decided.await;
        }
    }

    /// Whether `link` is the current one.
    pub(super) fn is_current(&self, link: &Arc<Link>) -> bool {
        self.lock().is_current(link)
    }

    /// Whether the peer has a link.
    pub(super) fn is_linked(&self) -> bool {
        self.lock().current.is_some()
    }

    /// All links that run: the current one and draining ones.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        self.lock().running.clone()
    }

    /// The current link.
    pub(super) fn current(&self) -> Option<Arc<Link>> {
        self.lock().current.clone()
    }

    /// `link` drains without the waiting frames, which go over the next link.
    pub(super) fn set_aside(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        if state.is_current(link) {
            state.set_current(None);
            state.settled = Some(link.settled.clone());
            state.down = DownReason::Idle;
        }
    }

    /// `link` is over: `clean` if it drained, `early` if it did not last. Returns whether no
    /// current link is left.
    pub(super) fn unregister(
        &self,
        link: &Arc<Link>,
        clean: bool,
        early: bool,
        reason: DownReason,
    ) -> bool {
        let mut state = self.lock();
        state.failures = match early && !clean {
            true => state.failures.saturating_add(1),
            false => 0,
        };
        if state.is_current(link) {
            state.set_current(None);
            state.generation += 1;
            state.down = reason;
        } else if !clean
            && !link.is_given_up.load(Ordering::Relaxed)
            && link.traffic.frames() > 0
            && state
                .current
                .as_ref()
                .is_none_or(|current| current.boot == link.boot)
        {
            // The link should have drained and did not. The host must know that frames may be
            // missing, although the link was no longer the current one.
            state.generation += 1;
            state.down = reason;
        }
        state.current.is_none()
    }

    /// No task of the link runs any more.
    pub(super) fn end_link(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        state.running.retain(|other| !Arc::ptr_eq(other, link));
    }

    /// The state for the host: the linked boot and the generation, and why the last link ended.
    pub(super) fn linked(&self) -> (Option<(u64, u64)>, DownReason) {
        let state = self.lock();
        let current = state.current.as_ref();
        let linked = current.map(|link| (link.boot, state.generation));
        (linked, state.down)
    }

    /// Whether this node needs a link: the peer is claimed, or frames wait for it.
    pub(super) fn is_needed(&self) -> bool {
        self.lock().is_wanted()
    }

    /// The number of waiting frames by class, and their bytes.
    pub(super) fn depths(&self) -> ([usize; 3], usize) {
        let state = self.lock();
        (state.queue.depths(), state.queue.bytes())
    }

    /// Mark the peer as removed if no part of the node needs it any more.
    pub(super) fn retire(&self) -> bool {
        let mut state = self.lock();
        let is_linked = state.current.is_some() || !state.running.is_empty();
        let needed = state.is_wanted() || state.dialling || is_linked;
        let retires = !needed && !state.removed;
        state.removed |= retires;
        retires
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
