//! The end of a handshake: a connection with both greetings becomes a link, drains at once, or is
//! refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quinn::{Connection, RecvStream, SendStream};
use rustls_pki_types::CertificateDer;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::book::{ADDRESSES_MAX, Contact, is_dialable};
use super::choice::{BothGone, Direction, GoneConnections};
use super::close::{CloseCode, DialError};
use super::greeting::{AdmissionRefusal, Farewell, Greeting, Hello};
use super::identity::{Subject, valid_for};
use super::life::Entered;
use super::limits::LARGE_STREAMS;
use super::link::{self, Greeted, MAX_QUESTIONS};
use super::metrics_address::MetricsWord;
use super::peer::{ConnectionRole, Link, Peer, Unsettled};
use crate::PeerId;

/// The priority of the greeting stream: above all classes.
pub(super) const GREETING_PRIORITY: i32 = 4;
/// How many times a greeting is judged at most: again whenever another link came up meanwhile, or
/// the peer left the table.
const JUDGEMENTS: usize = 4;

/// A connection whose two greetings are known. An acceptor's own greeting, the HelloAck, is sent
/// only over the link.
pub(super) struct Handshake {
    pub(super) connection: Connection,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) subject: Subject,
    pub(super) say: SendStream,
    pub(super) hear: RecvStream,
    pub(super) direction: Direction,
    pub(super) attempt: u64,
    /// The connections that this node called gone in its greeting.
    pub(super) said: GoneConnections,
    /// The version of this node's trust when TLS began.
    pub(super) trust: u64,
    /// The life of this process by its own greeting.
    pub(super) own_boot: u64,
    pub(super) entered: Entered,
}

impl Handshake {
    /// Make the connection a link if its process is admitted. If another connection to the same
    /// process stays, let this one drain; otherwise close it. `ack`, on the accepting side, is the
    /// first message over the link.
    pub(super) async fn register(
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
            metrics: Some(MetricsWord {
                boot: hello.boot,
                at: hello.metrics,
            }),
        };
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
            ready: Default::default(),
            persistent: Default::default(),
            drain: watch::Sender::new(None),
            settled: CancellationToken::new(),
            large: Arc::new(Semaphore::new(LARGE_STREAMS)),
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
        // A renewal since TLS began may have checked the links before this one was among them.
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

/// Why a greeted connection does not become a link.
enum Unadmitted {
    NoRoom,
    Refused(AdmissionRefusal),
}

/// Judge the process of a connection, and give the connection its place. `said` are the connections
/// that this node called gone. Returns the peer, and the token, if any, that the link waits for
/// before it writes.
async fn settle(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    said: GoneConnections,
    hello: &Hello,
) -> Result<(Arc<Peer>, Option<CancellationToken>), Unadmitted> {
    for _ in 0..JUDGEMENTS {
        let decision = shared.judge_arrival(link, hello).await;
        let decision = decision.map_err(Unadmitted::Refused)?;
        let peer = shared.enter(link.peer).ok_or(Unadmitted::NoRoom)?;
        let boot = shared.life.boot();
        let heard = hello.gone;
        let gone = BothGone { said, heard };
        let standing = peer.register(shared.me, boot, link, gone, &decision);
        let after = match standing {
            Err(Unsettled::Removed | Unsettled::Changed) => continue,
            Ok(ConnectionRole::Current(after)) => after,
            Ok(ConnectionRole::Superfluous) => {
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

/// A connection that is closed on drop if its greeting was not completed.
pub(super) struct Unfinished(pub(super) Option<Connection>);

impl Unfinished {
    pub(super) fn close(&mut self, code: CloseCode) {
        if let Some(connection) = self.0.take() {
            code.close(&connection);
        }
    }

    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.close(CloseCode::TooSlow);
    }
}

/// The identity at the other end, by the certificate that TLS has verified, and its chain.
pub(super) fn subject_of(
    connection: &Connection,
) -> Option<(Subject, Vec<CertificateDer<'static>>)> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    let subject = Subject::of_certificate(chain.first()?).ok()?;
    Some((subject, *chain))
}

/// The addresses that the peer advertises and that can be dialled. A peer that advertises none is
/// dialled where it is seen, since it dials from the socket on which it listens.
pub(super) fn said_addresses(hello: &Hello) -> Vec<SocketAddr> {
    let said = hello.addresses.iter().copied().filter(is_dialable);
    said.take(ADDRESSES_MAX).collect()
}

/// The address at which the peer is seen. An IPv4 address that a dual-stack socket maps into IPv6
/// is given as IPv4.
pub(super) fn seen(connection: &Connection) -> SocketAddr {
    let address = connection.remote_address();
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The greeting of this node, which depends on its receiver.
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
            metrics: self.metrics_at,
        }
    }

    /// The connections to this peer that are gone: the dials by the peer that have ended, and a
    /// link in doubt.
    fn gone(&self, peer: PeerId) -> GoneConnections {
        let mut gone = GoneConnections {
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
