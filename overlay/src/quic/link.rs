//! The life of one greeted connection, from HelloAck to close.
//!
//! One task watches over the connection: it accepts the peer's streams, keeps a reader per stream
//! and a writer per class, and drains. Draining loses nothing that was written. Writers finish,
//! both sides tell how many streams there were, and neither closes before both have read all
//! streams, or time is up.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::beat;
use super::close::{CloseCode, DownReason};
use super::events::EventPriority;
use super::frame::{PlainClass, RefusedFrame};
use super::greeting::{self, Farewell, Fingerprint, Greeting, GreetingError};
use super::handshake;
use super::identity::valid_for;
use super::life::Own;
use super::peer::{Link, Peer};
use super::stream::{ReadFailure, Reader, Writer};
use super::{Shared, TransportEvent};

/// How many questions to a peer may be open at once. With more the peer counts as living. A guess:
/// usually one process greets at a time.
pub(super) const MAX_QUESTIONS: usize = 8;

/// How long links outlive this node's own certificate.
const OWN_GRACE: Duration = Duration::from_secs(1);

/// A question for the peer: whether the connection with this fingerprint is its own.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) about: Fingerprint,
    pub(super) reply: oneshot::Sender<bool>,
}

/// A connection whose greeting is done.
pub(super) struct Greeted {
    pub(super) peer: Arc<Peer>,
    pub(super) link: Arc<Link>,
    pub(super) say: SendStream,
    pub(super) hear: RecvStream,
    /// The HelloAck, if this side has accepted and still has to send it.
    pub(super) ack: Option<Greeting>,
    /// A token to wait for before the first frame is written.
    pub(super) after: Option<CancellationToken>,
    /// Questions for the peer.
    pub(super) questions: mpsc::Receiver<Question>,
    /// This process's life, as its greeting told it.
    pub(super) own: watch::Receiver<Own>,
}

/// Run a link to its end.
pub(super) async fn run(shared: Arc<Shared>, greeted: Greeted) {
    let Greeted {
        peer,
        link,
        say,
        hear,
        ack,
        after,
        questions,
        own,
    } = greeted;
    shared.links.fetch_add(1, Ordering::Relaxed);
    let (heard, hearing) = mpsc::channel(4);
    let mut helpers = JoinSet::new();
    helpers.spawn(listen(hear, heard));
    let mut watch = Watch {
        shared: shared.clone(),
        peer: peer.clone(),
        link: link.clone(),
        say,
        hearing,
        questions,
        asked: BTreeMap::new(),
        own,
        readers: JoinSet::new(),
        writers: JoinSet::new(),
        farewell: Parting::default(),
        refused: None,
        drain: None,
        need: LinkDemand::default(),
    };
    if let Some(ack) = ack {
        watch.say(ack).await;
    }
    report(&shared, &peer).await;
    helpers.spawn(beat::read(shared.clone(), peer.clone(), link.clone()));
    for class in PlainClass::ALL {
        let writer = Writer {
            shared: shared.clone(),
            peer: peer.clone(),
            link: link.clone(),
            class,
        };
        watch.writers.spawn(writer.run(after.clone()));
    }
    let clean = watch.run().await;

    // Received frames are still delivered before the host learns of the end.
    let reason = watch.reason();
    watch.writers.shutdown().await;
    link.settled.cancel();
    shared.end(&peer, &link, clean, reason);
    while watch.readers.join_next().await.is_some() {}
    helpers.shutdown().await;
    if clean && *link.drain.borrow() == Some(Farewell::Replaced) {
        let limit = shared.limits.handshake_timeout;
        let _ = tokio::time::timeout(limit, peer.successor()).await;
    }
    shared.links.fetch_sub(1, Ordering::Relaxed);
    peer.end_link(&link);
    report(&shared, &peer).await;
}

/// Tell the host the state of a peer's link if it changed. Level-triggered: each task that changes
/// something calls this, and the newest state is reported once.
pub(super) async fn report(shared: &Arc<Shared>, peer: &Arc<Peer>) {
    let mut reported = peer.reported.lock().await;
    let (linked, reason) = peer.linked();
    let id = peer.id;
    if *reported != linked {
        if reported.take().is_some() {
            shared.metrics.links.decrement(1);
            shared.metrics.links_down.increment(1);
            let event = TransportEvent::LinkDown { peer: id, reason };
            shared
                .emit_with(EventPriority::Link(&peer.link_events), event, 0)
                .await;
        }
        if let Some((boot, _)) = linked {
            shared.metrics.links.increment(1);
            shared.metrics.links_up.increment(1);
            let event = TransportEvent::LinkUp { peer: id, boot };
            shared
                .emit_with(EventPriority::Link(&peer.link_events), event, 0)
                .await;
        }
        *reported = linked;
    }
    drop(reported);
    shared.table.collect(peer);
}

async fn listen(mut hear: RecvStream, heard: mpsc::Sender<Result<Greeting, GreetingError>>) {
    loop {
        let greeting = greeting::hear(&mut hear).await;
        let ended = greeting.is_err();
        if heard.send(greeting).await.is_err() || ended {
            return;
        }
    }
}

/// The progress of both sides with their goodbyes.
#[derive(Debug, Default)]
struct Parting {
    streams_written: u64,
    streams_read: u64,
    goodbye_said: bool,
    /// The number of the peer's streams, by its goodbye.
    goodbye_heard: Option<u64>,
    read_said: bool,
    read_heard: bool,
}

impl Parting {
    fn has_read_all(&self) -> bool {
        self.goodbye_heard
            .is_some_and(|streams| self.streams_read >= streams)
    }

    fn is_done(&self) -> bool {
        self.read_said && self.read_heard
    }
}

/// Which sides need the link, as far as they have said.
#[derive(Debug)]
struct LinkDemand {
    frames: u64,
    quiet: bool,
    said: bool,
    heard: bool,
}

impl Default for LinkDemand {
    fn default() -> Self {
        Self {
            frames: 0,
            quiet: false,
            said: true,
            heard: true,
        }
    }
}

/// A drain in progress.
struct Drain {
    /// The time at which the drain is overdue.
    until: Instant,
    /// The next time to check whether the peer has been heard.
    look: Instant,
    /// The number of the peer's packets at the last check.
    heard: u64,
}

struct Watch {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    link: Arc<Link>,
    say: SendStream,
    hearing: mpsc::Receiver<Result<Greeting, GreetingError>>,
    questions: mpsc::Receiver<Question>,
    /// The questions that wait for the peer's answer; at most [`MAX_QUESTIONS`].
    asked: BTreeMap<Fingerprint, oneshot::Sender<bool>>,
    own: watch::Receiver<Own>,
    readers: JoinSet<Result<(), ReadFailure>>,
    writers: JoinSet<u64>,
    farewell: Parting,
    refused: Option<RefusedFrame>,
    drain: Option<Drain>,
    need: LinkDemand,
}

impl Watch {
    /// Watch over the link until its end. Returns whether it ended drained.
    async fn run(&mut self) -> bool {
        let link = self.link.clone();
        let connection = link.connection.clone();
        let mut drain = self.link.drain.subscribe();
        if drain.borrow().is_some() {
            // The link drains from the start.
            drain.mark_changed();
        }
        let mut expiry = pin!(sleep_until(self.link.expires));
        let mut own_expiry = pin!(self.own_expiry());
        let mut round = pin!(self.shared.next_round());
        loop {
            let overdue = overdue(self.drain.as_ref());
            tokio::select! {
                biased;
                _ = connection.closed() => return self.is_closed_done(),
                () = &mut expiry => {
                    let address = handshake::seen(&connection);
                    tracing::warn!(peer = %self.link.name, %address, "the certificate of a peer has expired; its link is closed");
                    CloseCode::Certificate.close(&connection);
                    return false;
                }
                // After a renewal the peer knows only the former certificate, which may end later.
                // The next handshake shows the present one.
                () = &mut own_expiry => {
                    CloseCode::Certificate.close(&connection);
                    return false;
                }
                () = overdue => {
                    if self.has_waited_enough() {
                        self.shared.metrics.drains_overdue.increment(1);
                        CloseCode::TooSlow.close(&connection);
                        return false;
                    }
                }
                Ok(()) = drain.changed(), if self.drain.is_none() => self.on_drain(),
                Some(greeting) = self.hearing.recv() => self.on_greeting(greeting).await,
                Some(question) = self.questions.recv() => self.on_question(question).await,
                Ok(()) = self.own.changed() => {
                    self.on_own_change().await;
                    own_expiry.set(self.own_expiry());
                }
                Some(end) = self.readers.join_next() => self.on_stream_read(end),
                Some(written) = self.writers.join_next() => {
                    match written {
                        Ok(streams) => self.farewell.streams_written += streams,
                        Err(_) => self.on_panic(),
                    }
                }
                Ok(stream) = connection.accept_uni() => {
                    let reader = Reader {
                        shared: self.shared.clone(),
                        peer: self.peer.clone(),
                        link: self.link.clone(),
                    };
                    self.readers.spawn(reader.run(stream));
                }
                // The peer knows this already: the message is sent for its acknowledgement.
                () = link.probe.notified() => self.say(Greeting::Needed(self.need.said)).await,
                () = &mut round => {
                    self.on_round().await;
                    round.set(self.shared.next_round());
                }
            }
            if self.part().await {
                CloseCode::Done.close(&connection);
                return true;
            }
        }
    }

    /// A timer for [`OWN_GRACE`] after the end of this node's certificate. A peer that knows this
    /// certificate has cut the link by then.
    fn own_expiry(&self) -> Sleep {
        let left = valid_for(&self.own.borrow().chain);
        let until = self.shared.now() + left + OWN_GRACE;
        sleep_until(until)
    }

    fn on_drain(&mut self) {
        let farewell = *self.link.drain.borrow();
        if farewell.is_some_and(|farewell| farewell != Farewell::Stopping) {
            self.peer.set_aside(&self.link);
            self.shared.dial(&self.peer);
        }
        let (now, limits) = (self.shared.now(), &self.shared.limits);
        let until = now + limits.drain_timeout;
        // Only a node that stops is in a hurry. Otherwise a short outage would lose frames.
        let look = match farewell {
            Some(Farewell::Stopping) => until.min(now + limits.drain_silence),
            _ => until,
        };
        let heard = self.heard();
        self.drain = Some(Drain { until, look, heard });
    }

    /// The number of packets that came from the peer, whatever their content.
    fn heard(&self) -> u64 {
        self.link.connection.stats().udp_rx.datagrams
    }

    /// Whether the time of the drain is over, or the peer is silent.
    fn has_waited_enough(&mut self) -> bool {
        let (now, heard) = (self.shared.now(), self.heard());
        let Some(drain) = &mut self.drain else {
            return false;
        };
        let silent = heard == drain.heard;
        drain.heard = heard;
        drain.look = drain.until.min(now + self.shared.limits.drain_silence);
        silent || now >= drain.until
    }

    /// Another task has a question for the peer.
    async fn on_question(&mut self, question: Question) {
        let Question { about, reply } = question;
        self.asked.retain(|_, reply| !reply.is_closed());
        if self.asked.len() < MAX_QUESTIONS {
            self.asked.insert(about, reply);
            self.say(Greeting::Question(about)).await;
        } else {
            // Too many at once: the process at the other end counts as living.
            let _ = reply.send(false);
        }
    }

    /// This process has become a member, begins another life, or has a new certificate.
    async fn on_own_change(&mut self) {
        if self.own.borrow_and_update().is_member {
            self.say(Greeting::Member).await;
        }
    }

    async fn on_greeting(&mut self, greeting: Result<Greeting, GreetingError>) {
        match greeting {
            Ok(Greeting::Member) => self.link.is_member.store(true, Ordering::Relaxed),
            Ok(Greeting::Question(about)) => {
                let is_own = self.shared.life.connections.has(self.link.peer, &about);
                self.say(Greeting::Answer(about, is_own)).await;
            }
            Ok(Greeting::Answer(about, is_own)) => {
                if let Some(reply) = self.asked.remove(&about) {
                    let _ = reply.send(is_own);
                }
            }
            Ok(Greeting::Refusal(refusal)) => {
                let error = self.shared.on_refusal(self.link.peer, refusal).await;
                tracing::debug!(peer = %self.link.name, %error, "a link was refused");
                CloseCode::Done.close(&self.link.connection);
            }
            Ok(Greeting::Needed(needed)) => self.need.heard = needed,
            Ok(Greeting::Goodbye { streams, farewell }) => {
                self.farewell.goodbye_heard.get_or_insert(streams);
                self.link.start_drain(farewell);
            }
            Ok(Greeting::Read) => {
                self.farewell.read_heard = self.farewell.goodbye_said;
                self.link.settled.cancel();
            }
            // The reason for the end of the connection says more than the end of this stream.
            Err(GreetingError::Ended) => {}
            Ok(Greeting::Hello(_) | Greeting::Probe(_) | Greeting::Present(..))
            | Err(GreetingError::Malformed) => self.refuse(RefusedFrame::Malformed),
            Err(GreetingError::Version) => self.refuse(RefusedFrame::Version),
        }
    }

    fn on_stream_read(&mut self, end: Result<Result<(), ReadFailure>, JoinError>) {
        match end {
            Ok(Ok(())) => self.farewell.streams_read += 1,
            Ok(Err(ReadFailure::Refused(refused))) => self.refuse(refused),
            Ok(Err(ReadFailure::Gone)) => {}
            Err(_) => self.on_panic(),
        }
    }

    /// A bug stopped the task of a reader or writer: the link cannot be trusted any more.
    fn on_panic(&self) {
        tracing::error!(peer = %self.link.name, "a task that reads or writes a stream has panicked; its link is closed");
        CloseCode::Protocol.close(&self.link.connection);
    }

    fn refuse(&mut self, refused: RefusedFrame) {
        self.shared.metrics.frame_refused(refused);
        tracing::warn!(peer = %self.link.name, %refused, "a frame of a peer was refused; its link is closed");
        self.refused.get_or_insert(refused);
        let code = match refused {
            RefusedFrame::Overdue => CloseCode::TooSlow,
            _ => CloseCode::Protocol,
        };
        code.close(&self.link.connection);
    }

    /// Check, twice per idle period, whether either side needs this link.
    async fn on_round(&mut self) {
        let frames = self.link.traffic.frames();
        let quiet = frames == self.need.frames;
        let needed = self.peer.is_needed() || !(quiet && self.need.quiet);
        (self.need.frames, self.need.quiet) = (frames, quiet);
        if quiet {
            self.shared.buffers.clear();
        }
        if needed != self.need.said {
            self.need.said = needed;
            self.say(Greeting::Needed(needed)).await;
        }
        if !needed && !self.need.heard {
            self.link.start_drain(Farewell::Idle);
        }
        if self.peer.is_current(&self.link) {
            self.shared.note_address(&self.link);
        }
    }

    /// Take the next steps of the goodbye. Returns whether all are done.
    async fn part(&mut self) -> bool {
        let farewell = *self.link.drain.borrow();
        if let Some(farewell) = farewell
            && !self.farewell.goodbye_said
            && self.writers.is_empty()
        {
            self.farewell.goodbye_said = true;
            let streams = self.farewell.streams_written;
            self.say(Greeting::Goodbye { streams, farewell }).await;
        }
        if self.farewell.has_read_all() && !self.farewell.read_said {
            self.farewell.read_said = true;
            self.say(Greeting::Read).await;
        }
        self.farewell.is_done()
    }

    /// Send a greeting. A peer that does not take a few bytes for the time of a whole drain counts
    /// as gone.
    async fn say(&mut self, greeting: Greeting) {
        let said = greeting::say(&mut self.say, &greeting);
        let said = tokio::time::timeout(self.shared.limits.drain_timeout, said).await;
        if said.is_err() {
            CloseCode::TooSlow.close(&self.link.connection);
        }
    }

    /// Whether the peer closed because both sides had read everything.
    fn is_closed_done(&self) -> bool {
        let reason = self.link.connection.close_reason();
        matches!(reason, Some(quinn::ConnectionError::ApplicationClosed(close))
            if close.error_code.into_inner() == CloseCode::Done as u64)
    }

    fn reason(&self) -> DownReason {
        let has_own_ended = valid_for(&self.own.borrow().chain).is_zero();
        let has_ended = has_own_ended || self.link.expires <= self.shared.now();
        if has_ended || self.link.distrusted.is_cancelled() {
            return DownReason::Certificate;
        }
        let farewell = *self.link.drain.borrow();
        match (self.refused, farewell, self.link.connection.close_reason()) {
            (Some(refused), _, _) => DownReason::RefusedFrame(refused),
            (None, Some(Farewell::Stopping), _) => DownReason::PeerStopping,
            (None, Some(Farewell::Idle), _) => DownReason::Idle,
            (None, _, Some(error)) => DownReason::of(&error),
            (None, _, None) => DownReason::Broken,
        }
    }
}

async fn overdue(drain: Option<&Drain>) {
    match drain {
        Some(drain) => sleep_until(drain.look).await,
        None => std::future::pending().await,
    }
}
