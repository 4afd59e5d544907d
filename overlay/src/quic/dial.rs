//! Dialling a peer: its addresses, the pauses between dials, the greeting of the dialler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use quinn::Connection;
use rustls_pki_types::CertificateDer;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::choice::Direction;
use super::close::{CloseCode, DialError};
use super::greeting::{self, Greeting, GreetingError};
use super::handshake::{GREETING_PRIORITY, Handshake, Unfinished, subject_of};
use super::identity::Subject;
use super::peer::Peer;
use super::{Shared, TransportEvent, tls};

/// How often a dialler looks whether a link in doubt is heard again, and how many times at least. A
/// guess: together ten times as long as an acknowledgement may wait. If the looks end sooner, a
/// good link may be replaced.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 10;
/// How long an address may be silent before the next one is dialled beside it. RFC 8305: 250 ms.
const STAGGER: Duration = Duration::from_millis(250);

/// Dial a peer until a link stands that is not in doubt, no link is wanted any more, or the
/// transport stops.
pub(super) async fn dial(shared: Arc<Shared>, peer: Arc<Peer>) {
    let mut failures = peer.failures();
    while peer.goes_on_dialling(shared.is_stopping()) {
        if failures > 0 {
            failures = 0;
            pause(&shared, &peer).await;
            continue;
        }
        let dialled = tokio::select! {
            dialled = dial_once(&shared, &peer) => dialled,
            () = shared.stop.cancelled() => continue,
        };
        let Err(Failed { reason, address }) = dialled else {
            continue;
        };
        shared.metrics.handshake_failed(reason.label());
        tracing::debug!(peer = %peer.id, %reason, "dial failed");
        // No warning if a dial beside a doubted link is not answered.
        if !peer.is_linked() || reason.is_answer() {
            shared.warn_of_dial(peer.id, address, &reason);
        }
        let dropped = peer.fail_dial();
        failures = peer.failures();
        let Some((dropped, writable)) = dropped else {
            continue;
        };
        shared.metrics.dropped_frames.increment(dropped as u64);
        let id = peer.id;
        let failed = TransportEvent::DialFailed { peer: id, reason };
        shared.emit(failed).await;
        if writable {
            shared.emit(TransportEvent::Writable { peer: id }).await;
        }
    }
    shared.table.collect(&peer);
}

/// Pause after failures. The pause doubles up to the maximum, and news of the peer ends it. The
/// jitter is fixed for each pair of dialler and peer, which is enough to keep two nodes from
/// dialling each other in step.
async fn pause(shared: &Shared, peer: &Peer) {
    let limits = &shared.limits;
    let doubled = limits
        .redial_first
        .saturating_mul(1 << peer.failures().saturating_sub(1).min(16))
        .min(limits.redial_max);
    let jitter = shared.me.as_bytes()[0] ^ peer.id.as_bytes()[1];
    let pause = doubled.mul_f64(0.75 + f64::from(jitter) / 1024.0);
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = peer.retry.notified() => {}
        () = shared.stop.cancelled() => {}
    }
}

/// The failure of a dial: no address of the peer has led to a link.
struct Failed {
    /// The first answer; without an answer, the failure at the last address.
    reason: DialError,
    /// The address of that answer or failure.
    address: Option<SocketAddr>,
}

impl From<DialError> for Failed {
    fn from(reason: DialError) -> Self {
        let address = None;
        Self { reason, address }
    }
}

/// Try the peer's addresses, the best known first, until one leads to a link or no dial is useful
/// any more. The next address is tried when the one before has failed or has been silent for
/// [`STAGGER`]. The connections that stand are greeted one after the other.
async fn dial_once(shared: &Arc<Shared>, peer: &Arc<Peer>) -> Result<(), Failed> {
    if shared.has_no_room(peer.is_linked()) {
        return Err(DialError::NoRoom.into());
    }
    let resolved = shared.refresh(peer.id).await;
    let mut untried = shared.book().addresses(peer.id).into_iter();
    let mut failure = Failed::from(resolved.err().unwrap_or(DialError::NoContact));
    let mut trying = FuturesUnordered::new();
    let mut is_due = true;
    loop {
        if (is_due || trying.is_empty())
            && let Some(address) = untried.next()
        {
            trying.push(reach(shared, peer, address));
        }
        is_due = true;
        let reached = tokio::select! {
            biased;
            reached = trying.next() => reached,
            () = tokio::time::sleep(STAGGER), if untried.len() > 0 => continue,
        };
        let Some((address, reached)) = reached else {
            return Err(failure);
        };
        let linked = match reached {
            Ok(reached) => reached.greet(shared, peer).await,
            Err(reason) => Err(reason),
        };
        match linked {
            Ok(()) => return Ok(()),
            Err(reason) if !failure.reason.is_answer() => {
                let address = Some(address);
                failure = Failed { reason, address };
            }
            Err(_) => {}
        }
        if !peer.wants_dial() {
            return Ok(());
        }
    }
}

/// The peer, at the other end of a connection without a greeting so far.
struct Reached<'a> {
    connection: Connection,
    /// Closes the connection if it is dropped half-way, also by a timeout.
    guard: Unfinished,
    subject: Subject,
    chain: Vec<CertificateDer<'static>>,
    trust: u64,
    is_beside: bool,
    /// The time by which the greeting must be done.
    until: Instant,
    _permit: SemaphorePermit<'a>,
}

/// Connect to an address, and check that it is the peer's.
async fn reach<'a>(
    shared: &'a Arc<Shared>,
    peer: &Peer,
    address: SocketAddr,
) -> (SocketAddr, Result<Reached<'a>, DialError>) {
    let reached = async {
        let permit = shared.dials.acquire().await;
        let _permit = permit.map_err(|_| DialError::NoRoom)?;
        shared.metrics.dials.increment(1);
        let is_beside = peer.is_linked();
        let limit = match is_beside {
            // The next retransmission of a first packet would come so late that a new dial is
            // sooner.
            true => shared.limits.handshake_timeout / 2,
            false => shared.limits.handshake_timeout,
        };
        let until = shared.now() + limit;
        let trust = shared.trust();
        let connecting = shared
            .endpoint_for(address)
            .and_then(|endpoint| {
                let config = shared.client();
                endpoint
                    .connect_with(config, address, tls::SERVER_NAME)
                    .ok()
            })
            .ok_or(DialError::NoRoute)?;
        let connected = tokio::time::timeout_at(until, connecting).await;
        let connected = connected.map_err(|_| DialError::TimedOut)?;
        let connection = connected.map_err(|e| DialError::of(&e))?;
        let mut guard = Unfinished(Some(connection.clone()));
        let known = subject_of(&connection);
        let (subject, chain) = known.ok_or(DialError::Certificate("not_a_peer"))?;
        if subject.id != peer.id {
            guard.close(CloseCode::WrongPeer);
            let Subject {
                id: found, name, ..
            } = subject;
            return Err(DialError::WrongPeer { found, name });
        }
        Ok(Reached {
            connection,
            guard,
            subject,
            chain,
            trust,
            is_beside,
            until,
            _permit,
        })
    };
    (address, reached.await)
}

impl Reached<'_> {
    /// Greet the peer, and make the connection a link. A connection beside a link in doubt is
    /// closed instead if the dial is not useful any more.
    async fn greet(self, shared: &Arc<Shared>, peer: &Arc<Peer>) -> Result<(), DialError> {
        let until = self.until;
        let greeted = tokio::time::timeout_at(until, self.greet_in_time(shared, peer)).await;
        greeted.unwrap_or(Err(DialError::TimedOut))
    }

    async fn greet_in_time(
        mut self,
        shared: &Arc<Shared>,
        peer: &Arc<Peer>,
    ) -> Result<(), DialError> {
        let connection = self.connection;
        if self.is_beside && !stays_in_doubt(peer, &connection).await {
            self.guard.close(CloseCode::Done);
            return Ok(());
        }
        let most = shared.limits.peer_connections;
        let entered = shared.life.connections.enter(peer.id, &connection, most);
        let Some(entered) = entered else {
            self.guard.close(CloseCode::Busy);
            return Err(DialError::NoRoom);
        };
        let (mut say, mut hear) = connection.open_bi().await.map_err(|e| DialError::of(&e))?;
        let _ = say.set_priority(GREETING_PRIORITY);
        let attempt = shared.attempts.fetch_add(1, Ordering::Relaxed);
        let hello = shared.hello(peer.id, attempt);
        let said = hello.gone;
        let own_boot = hello.boot;
        let answer = match greeting::say(&mut say, &Greeting::Hello(hello)).await {
            Ok(()) => greeting::hear(&mut hear).await,
            Err(error) => Err(error),
        };
        let ack = match answer {
            Ok(Greeting::Hello(ack)) => ack,
            Ok(Greeting::Refusal(refusal)) => {
                self.guard.close(CloseCode::Done);
                return Err(shared.on_refusal(peer.id, refusal).await);
            }
            Err(GreetingError::Ended) => return Err(DialError::of(&connection.closed().await)),
            Err(GreetingError::Version) => {
                self.guard.close(CloseCode::Version);
                return Err(DialError::Version);
            }
            Ok(_) | Err(GreetingError::Malformed) => {
                self.guard.close(CloseCode::Protocol);
                return Err(DialError::Greeting);
            }
        };
        let greeted = Handshake {
            connection,
            chain: self.chain,
            subject: self.subject,
            say,
            hear,
            direction: Direction::Outgoing,
            attempt,
            said,
            trust: self.trust,
            own_boot,
            entered,
        };
        // The guard closes a connection that is dropped before it is a link.
        let registered = greeted.register(shared, ack, None).await;
        self.guard.disarm();
        registered
    }
}

/// Give the peer a moment to answer over the link in doubt, since it has answered this dial. After
/// a pause of the peer, or once a route is back, the old link is as good as before. Returns whether
/// the dial is still wanted.
async fn stays_in_doubt(peer: &Peer, beside: &Connection) -> bool {
    if let Some(link) = peer.doubted() {
        link.probe.notify_one();
    }
    let looks = LOOKS + (beside.rtt() * 3).as_millis() as u32 / LOOK.as_millis() as u32;
    for _ in 0..looks {
        if peer.doubted().is_none() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    peer.wants_dial()
}
