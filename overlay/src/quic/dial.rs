//! How connections come to be: dialling, accepting, and the greeting of both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quinn::{Connection, ConnectionError, Endpoint, Incoming, RecvStream, SendStream};
use rustls_pki_types::CertificateDer;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::book::{ADDRESSES_MAX, Contact, is_dialable};
use super::choice::{Direction, Gone};
use super::close::{CloseCode, DialError, handshake_label};
use super::frame::RefusedFrame;
use super::greeting::{self, Farewell, Greeting, GreetingError, Hello, Refusal};
use super::identity::{Subject, valid_for};
use super::life::Entered;
use super::link::{self, Greeted, MAX_QUESTIONS};
use super::peer::{Link, Peer, Standing, Unsettled};
use super::warnings;
use super::{Shared, TransportEvent, tls};
use crate::PeerId;

/// The priority of the greeting stream: above all classes.
pub(super) const GREETING_PRIORITY: i32 = 4;
/// How often it is looked whether a link in doubt is heard again, and how many times at
/// least. Guess: ten times as long as an acknowledgement may wait.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 10;
/// How often a greeting is judged again because another link came up meanwhile.
const JUDGEMENTS: usize = 4;

/// Dial a peer until there is a link that is not in doubt, or nobody wants one.
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
        // No warnings of unanswered dials beside a doubted link.
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

/// The pause after failures, doubling up to the maximum. News of the peer ends
/// it; the jitter is fixed per pair, which is enough to keep two nodes from
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

/// No address of a peer has led to a link.
struct Failed {
    /// The first answer; without any, what came of the last address.
    reason: DialError,
    /// The address that it is about.
    address: Option<SocketAddr>,
}

impl From<DialError> for Failed {
    fn from(reason: DialError) -> Self {
        let address = None;
        Self { reason, address }
    }
}

/// Try the peer's addresses, the best known first, until one leads to a link.
async fn dial_once(shared: &Arc<Shared>, peer: &Arc<Peer>) -> Result<(), Failed> {
    if shared.has_no_room() && !peer.is_linked() {
        return Err(DialError::NoRoom.into());
    }
    let resolved = shared.refresh(peer.id).await;
    let addresses = shared.book().addresses(peer.id);
    let mut failure = Failed::from(resolved.err().unwrap_or(DialError::NoContact));
    for address in addresses {
        let permit = shared.dials.acquire().await;
        let _permit = permit.map_err(|_| DialError::NoRoom)?;
        shared.metrics.dials.increment(1);
        let is_beside = peer.is_linked();
        let limit = match is_beside {
            // The next of its first packets would come so late that a new dial is sooner.
            true => shared.limits.handshake_timeout / 2,
            false => shared.limits.handshake_timeout,
        };
        let dialling = dial_address(shared, peer, address, is_beside);
        let dialled = tokio::time::timeout(limit, dialling).await;
        match dialled.unwrap_or(Err(DialError::TimedOut)) {
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
    Err(failure)
}

async fn dial_address(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    address: SocketAddr,
    is_beside: bool,
) -> Result<(), DialError> {
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
    let connection = connecting.await.map_err(|e| DialError::of(&e))?;
    // Dropped half-way by a timeout, the connection closes with the guard.
    let mut guard = Unfinished(Some(connection.clone()));
    let (subject, chain) = subject_of(&connection).ok_or(DialError::Certificate("not_a_peer"))?;
    if subject.id != peer.id {
        guard.close(CloseCode::WrongPeer);
        let Subject {
            id: found, name, ..
        } = subject;
        return Err(DialError::WrongPeer { found, name });
    }
    if is_beside && !stays_in_doubt(peer, &connection).await {
        guard.close(CloseCode::Done);
        return Ok(());
    }
    let entered = shared.life.connections.enter(peer.id, &connection);
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
            guard.close(CloseCode::Done);
            return Err(shared.on_refusal(peer.id, refusal).await);
        }
        Err(GreetingError::Ended) => return Err(DialError::of(&connection.closed().await)),
        Err(GreetingError::Version) => {
            guard.close(CloseCode::Version);
            return Err(DialError::Version);
        }
        Ok(_) | Err(GreetingError::Malformed) => {
            guard.close(CloseCode::Protocol);
            return Err(DialError::Greeting);
        }
    };
    let greeted = Handshake {
        connection,
        chain,
        subject,
        say,
        hear,
        direction: Direction::Outgoing,
        attempt,
        said,
        trust,
        own_boot,
        entered,
    };
    // The guard closes what is dropped before it is a link.
    let registered = greeted.register(shared, ack, None).await;
    guard.disarm();
    registered
}

/// The peer answers at all, so it has a moment to answer over the link in doubt, too: after
/// a pause, or once a route is back, that link is as good as it was.
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

/// Accept connections until the endpoint is closed; while the transport stops, only to tell
/// the diallers so. No handshake is waited for
/// here. Once half of the places are taken, the others are for those who show
/// that they receive at the address from which they seem to send: whoever makes
/// addresses up cannot take all.
pub(super) async fn accept(shared: Arc<Shared>, endpoint: Endpoint) {
    let handshakes = Arc::new(Semaphore::new(shared.limits.handshakes));
    while let Some(incoming) = endpoint.accept().await {
        let is_crowded = handshakes.available_permits() <= shared.limits.handshakes / 2;
        if is_crowded && !incoming.remote_address_validated() {
            shared.metrics.retried.increment(1);
            // Fails only for addresses that are validated.
            let _ = incoming.retry();
            continue;
        }
        let address = incoming.remote_address();
        let Ok(permit) = handshakes.clone().try_acquire_owned() else {
            shared.note_refusal(address, "busy".into());
            incoming.refuse();
            continue;
        };
        let accepting = shared.clone();
        // Not tracked: whoever stops does not wait for strangers.
        shared.executor.spawn(async move {
            let limit = accepting.limits.handshake_timeout;
            let accepted = tokio::time::timeout(limit, accept_one(&accepting, incoming)).await;
            drop(permit);
            if let Err(refusal) = accepted.unwrap_or(Err("timed_out".into())) {
                accepting.note_refusal(address, refusal);
            }
        });
    }
    if !shared.is_stopping() {
        let address = endpoint.local_addr().ok();
        tracing::error!(?address, "the socket has failed");
        shared.emit(TransportEvent::Failed { address }).await;
    }
}

/// Judge and greet one incoming connection.
async fn accept_one(shared: &Arc<Shared>, incoming: Incoming) -> Result<(), warnings::Refusal> {
    let label = |error: ConnectionError| warnings::Refusal::from(handshake_label(&error));
    let trust = shared.trust();
    let connection = incoming.accept().map_err(label)?.await.map_err(label)?;
    let mut guard = Unfinished(Some(connection.clone()));
    let (subject, chain) = subject_of(&connection).ok_or("not_a_peer")?;
    let (id, name) = (subject.id, subject.name.clone());
    let refused = |label| warnings::Refusal {
        label,
        peer: Some((id, name.clone())),
    };
    let is_self = id == shared.me;
    let entered = shared.life.connections.enter(id, &connection);
    let (mut say, mut hear) = connection.accept_bi().await.map_err(label)?;
    let _ = say.set_priority(GREETING_PRIORITY);
    let hello = match greeting::hear(&mut hear).await {
        // Whoever stops makes room for the next process of its identity.
        Ok(Greeting::Probe(about)) if !shared.is_stopping() => {
            shared.present((&mut say, &connection), id, &about).await;
            guard.close(CloseCode::Done);
            return Ok(());
        }
        Ok(Greeting::Probe(_)) => {
            guard.close(CloseCode::Stopping);
            return Err(refused("stopping"));
        }
        Ok(Greeting::Hello(_)) if is_self => {
            guard.close(CloseCode::WrongPeer);
            return Err(refused("self"));
        }
        Ok(Greeting::Hello(hello)) => hello,
        Err(GreetingError::Version) => {
            guard.close(CloseCode::Version);
            return Err(refused("version"));
        }
        Ok(_) | Err(GreetingError::Malformed) => {
            guard.close(CloseCode::Protocol);
            shared.metrics.frame_refused(RefusedFrame::Malformed);
            return Err(refused("greeting"));
        }
        Err(GreetingError::Ended) => return Err(refused("closed_by_peer")),
    };
    if shared.is_stopping() {
        guard.close(CloseCode::Stopping);
        return Err(refused("stopping"));
    }
    let known = shared.table.find(subject.id);
    if shared.has_no_room() && !known.is_some_and(|peer| peer.is_linked()) {
        guard.close(CloseCode::Busy);
        return Err(refused("busy"));
    }
    shared.metrics.accepted.increment(1);
    let ack = shared.hello(id, 0);
    let greeted = Handshake {
        connection,
        chain,
        subject,
        say,
        hear,
        direction: Direction::Incoming,
        attempt: hello.attempt,
        said: ack.gone,
        trust,
        own_boot: ack.boot,
        entered,
    };
    // Registered before the HelloAck is written: when the peer, having it, says
    // goodbye on another connection, this one is known here.
    let ack = Greeting::Hello(ack);
    let registered = greeted.register(shared, hello, Some(ack)).await;
    guard.disarm();
    registered.map_err(|error| refused(error.label()))
}

/// A connection over which both have greeted.
struct Handshake {
    connection: Connection,
    chain: Vec<CertificateDer<'static>>,
    subject: Subject,
    say: SendStream,
    hear: RecvStream,
    direction: Direction,
    attempt: u64,
    /// What this node has said of other connections.
    said: Gone,
    /// Whom this node believed when TLS began.
    trust: u64,
    /// The life of this process that greets.
    own_boot: u64,
    entered: Entered,
}

impl Handshake {
    /// Make it a link if its process is admitted, or let it drain if another one stands.
    /// The link says `ack` before all else.
    async fn register(
        self,
        shared: &Arc<Shared>,
        hello: Hello,
        ack: Option<Greeting>,
    ) -> Result<(), DialError> {
        let (mut say, hear, own_boot, trust) = (self.say, self.hear, self.own_boot, self.trust);
        let id = self.subject.id;
        let said = said_addresses(&hello);
        let is_seen_only = said.is_empty();
        let contact = Contact {
            id,
            name: self.subject.name.clone(),
            addresses: match is_seen_only {
                true => vec![seen(&self.connection)],
                false => said,
            },
        };
        let limits = &shared.limits;
        let greeter = shared.life.greeter(id, &hello);
        let (ask, questions) = mpsc::channel(MAX_QUESTIONS);
        let link = Arc::new(Link {
            peer: id,
            name: self.subject.name,
            boot: hello.boot,
            is_proven: greeter.is_proven,
            is_member: AtomicBool::new(greeter.is_member),
            questions: ask,
            entered: self.entered,
            others: hello.others.clone(),
            attempt: self.attempt,
            direction: self.direction,
            connection: self.connection,
            up: shared.now(),
            expires: shared.now() + valid_for(&self.chain),
            distrusted: CancellationToken::new(),
            chain: self.chain,
            traffic: Default::default(),
            last_packet: Default::default(),
            ready: Default::default(),
            persistent: Default::default(),
            drain: watch::Sender::new(None),
            settled: CancellationToken::new(),
            large: Arc::new(Semaphore::new(limits.large_streams)),
            is_seen_only,
            is_given_up: AtomicBool::new(false),
            probe: Notify::new(),
        });
        let (peer, after) = match settle(shared, &link, self.said, &hello).await {
            Ok(settled) => settled,
            Err(Unadmitted::NoRoom) => {
                CloseCode::Busy.close(&link.connection);
                return Err(DialError::NoRoom);
            }
            Err(Unadmitted::Refused(refusal)) => {
                shared.refuse(&mut say, &link.connection, refusal).await;
                return Err(DialError::NotAdmitted);
            }
        };
        shared.book().authenticate(contact);
        // A renewal since TLS began may have looked at the links before this one
        // was among them.
        shared.judge_since(trust, &link);
        if own_boot != shared.life.boot() {
            CloseCode::NewLife.close(&link.connection);
        }
        if shared.is_stopping() {
            link.start_drain(Farewell::Stopping);
        }
        let greeted = Greeted {
            peer,
            link,
            say,
            hear,
            ack,
            after,
            questions,
            own: shared.life.changes(),
        };
        shared.spawn(link::run(shared.clone(), greeted));
        Ok(())
    }
}

/// Why a greeted connection is no link.
enum Unadmitted {
    NoRoom,
    Refused(Refusal),
}

/// Judge the process of a connection, and give the connection its place. `said` is what this
/// node has said of other connections. Returns after what it may write.
async fn settle(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    said: Gone,
    hello: &Hello,
) -> Result<(Arc<Peer>, Option<CancellationToken>), Unadmitted> {
    for _ in 0..JUDGEMENTS {
        let judged = shared.judge_arrival(link, hello).await;
        let judged = judged.map_err(Unadmitted::Refused)?;
        let peer = shared.enter(link.peer).ok_or(Unadmitted::NoRoom)?;
        let boot = shared.life.boot();
        let standing = peer.register(shared.me, boot, link, (said, hello.gone), &judged);
        let after = match standing {
            Err(Unsettled::Removed | Unsettled::Changed) => continue,
            Ok(Standing::Current(after)) => after,
            Ok(Standing::Superfluous) => {
                shared.metrics.replaced_links.increment(1);
                link.start_drain(Farewell::Replaced);
                None
            }
        };
        if link.is_proven && shared.life.note(link.peer, hello) {
            shared.metrics.lives_forgotten.increment(1);
        }
        return Ok((peer, after));
    }
    Err(Unadmitted::NoRoom)
}

/// Closes a connection that did not get through its greeting.
struct Unfinished(Option<Connection>);

impl Unfinished {
    fn close(&mut self, code: CloseCode) {
        if let Some(connection) = self.0.take() {
            code.close(&connection);
        }
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.close(CloseCode::TooSlow);
    }
}

/// Who is at the other end, by the certificate that TLS has verified.
pub(super) fn subject_of(
    connection: &Connection,
) -> Option<(Subject, Vec<CertificateDer<'static>>)> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    let subject = Subject::of_certificate(chain.first()?).ok()?;
    Some((subject, *chain))
}

/// Where the peer says it can be dialled. One that says nothing is dialled where it is seen,
/// for it dials from the socket on which it listens.
pub(super) fn said_addresses(hello: &Hello) -> Vec<SocketAddr> {
    let said = hello.addresses.iter().copied().filter(is_dialable);
    said.take(ADDRESSES_MAX).collect()
}

/// The peer's address; one that a dual-stack socket maps into IPv6 is given as
/// IPv4.
pub(super) fn seen(connection: &Connection) -> SocketAddr {
    let address = connection.remote_address();
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The greeting needs to know whom it is for.
impl Shared {
    pub(super) fn hello(&self, to: PeerId, attempt: u64) -> Hello {
        let own = self.life.own();
        Hello {
            boot: own.boot,
            attempt,
            gone: self.gone(to),
            addresses: self.advertised.addresses(),
            others: self.life.connections.to(to),
            is_member: own.is_member,
            statement: own.statement,
        }
    }

    /// The connections to this peer that are gone: those that have ended, and a link in doubt.
    fn gone(&self, peer: PeerId) -> Gone {
        let mut gone = Gone {
            ended: self.book().ended(peer),
            given_up: 0,
        };
        let doubted = self.table.find(peer).and_then(|peer| peer.doubted());
        match doubted.map(|link| (link.direction, link.boot, link.attempt)) {
            Some((Direction::Incoming, boot, attempt)) => {
                // Ended dials by other lives of the peer, older or newer, do not count.
                let same = gone.ended.filter(|(life, _)| *life == boot);
                gone.ended = same.max(Some((boot, attempt)));
            }
            Some((Direction::Outgoing, _, attempt)) => gone.given_up = attempt,
            None => {}
        }
        gone
    }
}
