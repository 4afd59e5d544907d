//! The state that all tasks of one transport share.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use quinn::{ClientConfig, Endpoint};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::addresses::OwnAddresses;
use super::advertised::Advertised;
use super::book::{Book, Contact};
use super::buffers::Buffers;
use super::choice::Direction;
use super::close::{CloseCode, DownReason};
use super::dial;
use super::endpoint;
use super::events::{EventPriority, EventSender};
use super::frame::PlainClass;
use super::handshake;
use super::identity::Identity;
use super::life::Life;
use super::limits::{CONTROL_FRAME, MAINTENANCE_FRAME, TransportLimits};
use super::lookup::Resolver;
use super::metrics::Metrics;
use super::metrics_address::MetricsAddress;
use super::peer::{Link, Peer};
use super::table::Table;
use super::tls;
use super::warnings::Warnings;
use super::{BindError, TransportEvent};
use crate::PeerId;

/// The state that all tasks of a transport share.
pub(super) struct Shared {
    pub(super) me: PeerId,
    pub(super) name: String,
    /// The life of this process, and the known lives of others.
    pub(super) life: Life,
    pub(super) limits: TransportLimits,
    pub(super) metrics: Metrics,
    pub(super) client: Mutex<ClientConfig>,
    /// The judge of certificates, as the endpoints judge now.
    pub(super) judge: Mutex<Arc<tls::Judge>>,
    /// How many times the identity was renewed.
    pub(super) renewals: AtomicU64,
    pub(super) advertised: Advertised,
    pub(super) metrics_at: Option<MetricsAddress>,
    pub(super) resolver: Resolver,
    pub(super) table: Table,
    pub(super) book: Mutex<Book>,
    pub(super) own_addresses: Mutex<OwnAddresses>,
    /// Rate limits of log lines about refused handshakes: of peers, and of strangers.
    pub(super) peer_warnings: Mutex<Warnings>,
    pub(super) stranger_warnings: Mutex<Warnings>,
    /// Permits for outgoing handshakes in progress.
    pub(super) dials: Semaphore,
    /// Links that run, draining ones too.
    pub(super) links: AtomicUsize,
    /// The number of the next dial.
    pub(super) attempts: AtomicU64,
    /// Cancelled when no new work may begin: see [`Shared::stop`].
    pub(super) stop: CancellationToken,
    pub(super) endpoints: Vec<Endpoint>,
    /// The time at which the transport began.
    pub(super) begun: Instant,
    /// The buffers in which frames are assembled.
    pub(super) buffers: Arc<Buffers>,
    pub(super) tasks: TaskTracker,
    /// The runtime of all tasks.
    pub(super) runtime: Handle,
    pub(super) events: EventSender,
}

impl Shared {
    /// Send an event to the host, waiting for room; once stopped, only if there is room.
    pub(super) async fn emit(&self, event: TransportEvent) {
        self.emit_with(EventPriority::Plain, event, 0).await;
    }

    /// Send an event that holds `bytes` bytes, at its place in the order; see [`Self::emit`].
    pub(super) async fn emit_with(
        &self,
        priority: EventPriority<'_>,
        event: TransportEvent,
        bytes: usize,
    ) {
        let waits = &self.metrics.host_waits;
        let told = self.events.send(event, bytes, priority, waits, &self.stop);
        told.await;
    }

    /// The peer, which enters the table if necessary; `None`, counted, when there are too many
    /// peers.
    pub(super) fn enter(&self, id: PeerId) -> Option<Arc<Peer>> {
        let entered = self.table.enter(id);
        if entered.is_none() {
            self.metrics.peers_turned_away.increment(1);
        }
        entered
    }

    /// Put the link to a peer in doubt, if there is one, and dial beside it.
    pub(super) fn doubt(self: &Arc<Self>, peer: &Arc<Peer>) {
        if peer.doubt() {
            self.metrics.doubts.increment(1);
            tracing::debug!(peer = %peer.id, "dialling beside a silent link");
            if !self.dial(peer) {
                // A dial that failed before may be in a pause.
                peer.retry.notify_one();
            }
        }
    }

    /// Dial a peer if that is useful and no dial is under way. Returns whether a dial begins.
    pub(super) fn dial(self: &Arc<Self>, peer: &Arc<Peer>) -> bool {
        let begins = !self.is_stopping() && peer.start_dial();
        if begins {
            self.spawn(dial::dial(self.clone(), peer.clone()));
        }
        begins
    }

    /// A link is over: forget it, and dial again if a link is wanted.
    pub(super) fn end(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        link: &Arc<Link>,
        clean: bool,
        reason: DownReason,
    ) {
        let age = self.now().saturating_duration_since(link.up);
        let early = age < self.limits.redial_max;
        let alone = peer.unregister(link, clean, early, reason);
        let ended = (link.direction == Direction::Incoming).then_some((link.boot, link.attempt));
        self.book().end_link(peer.id, ended, alone);
        self.dial(peer);
    }

    /// Start a task that a transport waits for when it stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(noticed(task), &self.runtime);
    }

    /// Start a task that nobody waits for.
    pub(super) fn spawn_untracked(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(noticed(task));
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a contact from an introduction. A peer whose contact was missing is dialled without
    /// waiting for the end of the pause.
    pub(super) fn hear(&self, contact: Contact) {
        let id = contact.id;
        if id == self.me {
            return;
        }
        let news = !self.book().is_known(id);
        if !self.book().hear(contact) {
            self.metrics.contacts_turned_away.increment(1);
        }
        if news && let Some(peer) = self.table.find(id) {
            peer.retry.notify_one();
        }
    }

    pub(super) fn client(&self) -> ClientConfig {
        let client = self.client.lock();
        client.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Dial and accept with this identity from now on, and cut the links whose certificates it does
    /// not accept.
    pub(super) fn renew(&self, identity: &Identity) -> Result<(), BindError> {
        let tls = tls::configs(identity)?;
        let client = endpoint::client(&tls, &self.limits)?;
        let server = endpoint::server(&tls, &self.limits)?;
        let judge = tls::Judge::new(identity)?;
        self.life.renew(identity)?;
        *self.judge.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(judge);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        for endpoint in &self.endpoints {
            endpoint.set_server_config(Some(server.clone()));
        }
        // Count after the verifiers are new and before the links are checked. So a link whose
        // handshake began before the renewal is checked here, or by [`Self::judge_since`].
        self.renewals.fetch_add(1, Ordering::SeqCst);
        for link in self.table.all().iter().flat_map(|peer| peer.links()) {
            self.judge(&link);
        }
        Ok(())
    }

    /// The version of this node's trust: a number that changes at each renewal.
    pub(super) fn trust(&self) -> u64 {
        self.renewals.load(Ordering::SeqCst)
    }

    /// Cut a link whose certificate was accepted at version `trust`, if it is no longer accepted.
    pub(super) fn judge_since(&self, trust: u64, link: &Link) {
        if trust != self.trust() {
            self.judge(link);
        }
    }

    fn judge(&self, link: &Link) {
        let judge = self.judge.lock();
        let judge = judge.unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = judge.judge(&link.chain) {
            let reason = tls::in_words(&error);
            tracing::warn!(
                peer = %link.name,
                address = %handshake::seen(&link.connection),
                reason,
                "the certificate of a peer is no longer accepted; its link is closed"
            );
            link.distrusted.cancel();
            CloseCode::Certificate.close(&link.connection);
        }
    }

    /// A timer for the next check of all links. All links are checked at once: separate timers
    /// would wake an idle process once per link.
    pub(super) fn next_round(&self) -> Sleep {
        let age = self.now().duration_since(self.begun);
        let period = self.limits.link_idle / 2;
        let into = age.as_nanos() % period.as_nanos().max(1);
        let left = period - Duration::from_nanos(u64::try_from(into).unwrap_or(0));
        sleep(left)
    }

    /// The longest body of a class.
    pub(super) fn body_max(&self, class: PlainClass) -> usize {
        match class {
            PlainClass::Maintenance => MAINTENANCE_FRAME,
            PlainClass::Control => CONTROL_FRAME,
            PlainClass::Packet => self.limits.packet_frame,
        }
    }

    /// Whether there is no room for another link: to one more peer or, with twice the room since
    /// such links replace each other, to a peer that is linked.
    pub(super) fn has_no_room(&self, is_linked: bool) -> bool {
        let most = self.limits.links.saturating_mul(1 + usize::from(is_linked));
        self.links.load(Ordering::Relaxed) >= most
    }

    /// The endpoint that can reach an address.
    pub(super) fn endpoint_for(&self, address: SocketAddr) -> Option<&Endpoint> {
        let reaches = |endpoint: &&Endpoint, same_family: bool| {
            endpoint.local_addr().is_ok_and(|local| match same_family {
                true => local.is_ipv4() == address.is_ipv4(),
                false => local.is_ipv6() && local.ip().is_unspecified(),
            })
        };
        let mut endpoints = self.endpoints.iter();
        endpoints
            .clone()
            .find(|endpoint| reaches(endpoint, true))
            .or_else(|| endpoints.find(|endpoint| reaches(endpoint, false)))
    }

    pub(super) fn now(&self) -> Instant {
        now()
    }

    /// No new work begins from now on.
    pub(super) fn stop(&self) {
        // Close first: a task that the token wakes finds the tracker closed.
        self.tasks.close();
        self.stop.cancel();
    }

    /// Whether no new work may begin. Asking the token would take a lock.
    pub(super) fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    /// Stop at once, without goodbyes.
    pub(super) fn cut(&self) {
        self.stop();
        for endpoint in &self.endpoints {
            let code = quinn::VarInt::from_u32(CloseCode::Stopping as u32);
            endpoint.close(code, b"stopping");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a link's age and the deadline of its drain are wall time"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Run a task, and log it if the task panics. The other tasks go on.
async fn noticed(task: impl Future<Output = ()> + Send) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!("a task of a node has panicked");
    }
}
