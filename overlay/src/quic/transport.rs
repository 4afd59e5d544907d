//! The transport as its host holds it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::Endpoint;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::advertised::Advertised;
use super::book::{ADDRESSES_MAX, Book, Contact, NAME_MAX, is_dialable};
use super::close::CloseCode;
use super::events::{Events, events};
use super::frame::Frame;
use super::greeting::Farewell;
use super::identity::Identity;
use super::life::Life;
use super::location::Location;
use super::lookup::Resolver;
use super::metrics::Metrics;
use super::metrics_address::MetricsWord;
use super::peer::{Link, Peer};
use super::queue::Full;
use super::seam::{BindError, ContactError, LinkReport, SendError, TransportConfig};
use super::shared::{self, Shared};
use super::table::Table;
use super::{accept, beat, endpoint, handshake, tls};
use crate::PeerId;

/// How long the last packets may take after all connections were closed.
const WAIT_IDLE: Duration = Duration::from_secs(1);

/// A node's transport. Clones are handles of the same transport. When the last handle is dropped
/// without [`close`](Self::close), all connections are cut.
#[derive(Clone)]
pub struct Transport {
    owner: Arc<Owner>,
}

/// Cuts all connections when the last handle is dropped.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.cut();
    }
}

impl Transport {
    /// Bind the addresses, and start to accept. Metrics go to the recorder that is current at this
    /// call.
    pub fn bind(config: TransportConfig) -> Result<(Self, Events), BindError> {
        let runtime = Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        let limits = config.limits;
        limits.check().map_err(BindError::Limits)?;
        let metrics = Metrics::new();
        let tls = tls::configs(&config.identity)?;
        let bind = |address: &SocketAddr| {
            endpoint::bind(*address, &config.node_secret, &tls, &limits, &metrics)
        };
        let endpoints = config
            .bind
            .iter()
            .map(bind)
            .collect::<Result<Vec<_>, _>>()?;
        let local = local_addresses(&endpoints);
        if local.is_empty() {
            return Err(BindError::NoAddress);
        }
        let mut advertised = config.advertised;
        if advertised.is_empty() {
            let dialable = local.iter().copied().filter(is_dialable);
            advertised = dialable.take(ADDRESSES_MAX).map(Location::from).collect();
        }
        let advertised = Advertised::new(advertised);
        if !advertised.is_within_bounds() {
            return Err(BindError::Advertised);
        }
        let (events, received) = events(&limits);
        let shared = Arc::new(Shared {
            me: config.identity.id(),
            name: config.identity.name().to_owned(),
            life: Life::new(&config.identity, config.boot)?,
            client: Mutex::new(endpoint::client(&tls, &limits)?),
            judge: Mutex::new(Arc::new(tls::Judge::new(&config.identity)?)),
            renewals: AtomicU64::new(0),
            table: Table::new(&limits),
            book: Mutex::new(Book::new(
                limits.contacts,
                &config.identity.subject().form,
                metrics.contacts_forgotten.clone(),
            )),
            own_addresses: Mutex::default(),
            peer_warnings: Mutex::default(),
            stranger_warnings: Mutex::default(),
            dials: Semaphore::new(limits.handshakes),
            links: AtomicUsize::new(0),
            attempts: AtomicU64::new(1),
            stop: CancellationToken::new(),
            buffers: Arc::default(),
            tasks: TaskTracker::new(),
            endpoints,
            advertised,
            metrics_at: config.metrics,
            resolver: Resolver::default(),
            begun: shared::now(),
            runtime,
            events,
            metrics,
            limits,
        });
        for endpoint in &shared.endpoints {
            // The task is not tracked: it ends with the endpoint, and a transport that stops does
            // not wait for it.
            let accepting = accept::accept(shared.clone(), endpoint.clone());
            shared.spawn_untracked(accepting);
        }
        // An address that is there now may be gone at the first beat.
        shared.look_at_addresses();
        let owner = Arc::new(Owner { shared });
        Ok((Self { owner }, received))
    }

    /// This node's id.
    pub fn id(&self) -> PeerId {
        self.shared().me
    }

    /// This node's name.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Queue a frame. Never blocks. A peer without a link is dialled, claimed or not.
    pub fn send(&self, to: PeerId, mut frame: Frame) -> Result<(), SendError> {
        let shared = self.shared();
        let class = frame.class.plain();
        let (bytes, limit) = (frame.len(), shared.body_max(class));
        if bytes > limit {
            return Err(SendError::TooLong { bytes, limit });
        }
        if shared.is_stopping() {
            return Err(SendError::Closed);
        }
        if to == shared.me {
            return Err(SendError::ToSelf);
        }
        let note_full = |Full| {
            shared.metrics.class(class).full.increment(1);
            SendError::Full
        };
        // The usual case: the peer has a link.
        if let Some(peer) = shared.table.find(to) {
            frame = match peer.push(frame, false) {
                Ok(pushed) => return pushed.map_err(note_full),
                Err(frame) => frame,
            };
        }
        loop {
            let is_linked = || shared.table.find(to).is_some_and(|peer| peer.is_linked());
            if !shared.book().is_known(to) && !is_linked() {
                return Err(SendError::UnknownPeer);
            }
            let peer = shared.enter(to).ok_or(SendError::TooManyPeers)?;
            match peer.push(frame, true) {
                // The peer has left the table meanwhile.
                Err(same) => frame = same,
                Ok(pushed) => {
                    shared.dial(&peer);
                    return pushed.map_err(note_full);
                }
            }
        }
    }

    /// Send a sign of life: a body of at most 256 bytes that is sent as soon as the link allows. It
    /// may be lost on its way, and newer ones may displace it before it is sent. Returns whether a
    /// link has taken it.
    pub fn beat(&self, to: PeerId, body: &[u8]) -> bool {
        let shared = self.shared();
        let link = shared.table.find(to).and_then(|peer| peer.current());
        link.is_some_and(|link| beat::send(shared, &link, body))
    }

    /// Claim a link to the peer: from now on the peer is dialled again whenever the link is down.
    /// An unknown peer is dialled once a contact for it comes.
    pub fn connect(&self, peer: PeerId) {
        let shared = self.shared();
        if peer == shared.me || shared.is_stopping() {
            return;
        }
        while let Some(entry) = shared.enter(peer) {
            if entry.claim(true).is_ok() {
                shared.dial(&entry);
                return;
            }
        }
        tracing::warn!(%peer, "this node knows too many peers and cannot link to one more");
    }

    /// Give up the claim. The link stays until both sides have been idle.
    pub fn disconnect(&self, peer: PeerId) {
        let shared = self.shared();
        if let Some(entry) = shared.table.find(peer) {
            let _ = entry.claim(false);
            entry.retry.notify_one();
            shared.table.collect(&entry);
        }
    }

    /// Put the link to `peer` in doubt, if there is one: dial beside it until another link takes
    /// its place, it ends, or the peer is heard over it.
    pub fn doubt(&self, peer: PeerId) {
        let shared = self.shared();
        if let Some(entry) = shared.table.find(peer) {
            shared.doubt(&entry);
        }
    }

    /// Look whether this host still has the addresses that its links use, and dial beside the links
    /// whose address has been gone for a second. Also look up the advertised names again, if it is
    /// time. The host calls this now and then, when the process is awake anyway.
    pub fn look_at_addresses(&self) {
        self.shared().look_at_addresses();
    }

    /// The advertised addresses that this host once had and no longer has.
    pub fn addresses_gone(&self) -> Vec<SocketAddr> {
        let shared = self.shared();
        let own = shared.own_addresses.lock();
        let own = own.unwrap_or_else(PoisonError::into_inner);
        own.gone_of(&shared.advertised.addresses())
    }

    /// Add the contact of a peer that the operator knows. Such a contact is kept.
    pub fn add_contact(&self, contact: Contact) -> Result<(), ContactError> {
        let Contact {
            id,
            name,
            addresses,
            metrics: _,
        } = contact;
        let at = addresses.into_iter().map(Location::Address).collect();
        self.add_located(id, name, at)
    }

    /// Add a peer at these locations, as [`Transport::add_contact`] does. Names among them are
    /// looked up again for each dial.
    pub fn add_located(
        &self,
        id: PeerId,
        name: String,
        at: Vec<Location>,
    ) -> Result<(), ContactError> {
        let has_bounds = name.len() <= NAME_MAX && (1..=ADDRESSES_MAX).contains(&at.len());
        if !has_bounds || !at.iter().all(Location::is_dialable) {
            return Err(ContactError::OutOfBounds);
        }
        if !self.shared().book().configure(id, name, at) {
            return Err(ContactError::Full);
        }
        if let Some(peer) = self.shared().table.find(id) {
            peer.retry.notify_one();
        }
        Ok(())
    }

    /// Continue with another certificate of the same identity, other authorities or revocation
    /// lists. Links whose certificates are no longer accepted are cut. A failure changes nothing.
    pub fn renew(&self, identity: &Identity) -> Result<(), BindError> {
        match identity.id() == self.id() {
            true => self.shared().renew(identity),
            false => Err(BindError::OtherIdentity),
        }
    }

    /// This process was counted with other nodes in this life: from now on it is no longer
    /// starting, see [`crate::lives`].
    pub fn join(&self) {
        self.shared().life.join();
    }

    /// Continue as another life: all current links are closed, all claims and waiting frames are
    /// given up. The boot is greater than any before it, at most [`crate::lives::BOOT_MAX`].
    pub fn begin_life(&self, boot: u64) {
        let shared = self.shared();
        shared.life.begin(boot);
        for peer in shared.table.all() {
            if let Some(link) = peer.forget() {
                CloseCode::NewLife.close(&link.connection);
            }
            peer.retry.notify_one();
            shared.table.collect(&peer);
        }
    }

    /// The contact of a peer, or of this node itself.
    pub fn contact(&self, id: PeerId) -> Option<Contact> {
        let shared = self.shared();
        if id != shared.me {
            return shared.book().contact(id);
        }
        Some(Contact {
            id,
            name: shared.name.clone(),
            addresses: shared.advertised.addresses(),
            metrics: Some(MetricsWord {
                boot: shared.life.boot(),
                at: shared.metrics_at,
            }),
        })
    }

    /// The links that are up, by peer.
    pub fn links(&self) -> Vec<LinkReport> {
        let peers = self.shared().table.all();
        let linked = peers.iter().filter_map(|peer| {
            let link = peer.current()?;
            Some(self.link_report(peer, &link))
        });
        linked.collect()
    }

    /// How many bytes wait for the peer with the most, and how many bytes of packets may wait for
    /// each peer; one packet always fits.
    pub fn fullest_queue(&self) -> (usize, usize) {
        let shared = self.shared();
        let peers = shared.table.all();
        let waiting = peers.iter().map(|peer| peer.depths().1);
        (waiting.max().unwrap_or(0), shared.limits.queue_bytes)
    }

    /// How many packets with acknowledgements have come over the link to `peer`; none without a
    /// link. Only the process at the other end can send them.
    pub fn acknowledgements(&self, peer: PeerId) -> Option<u64> {
        let link = self.shared().table.find(peer)?.current()?;
        Some(link.connection.stats().frame_rx.acks)
    }

    /// The smoothed time that a packet to `peer` and its acknowledgement take; none without a link.
    pub fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        let link = self.shared().table.find(peer)?.current()?;
        Some(link.connection.rtt())
    }

    /// The addresses to which the sockets are bound.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        local_addresses(&self.shared().endpoints)
    }

    /// Stop: accept no more frames and say goodbye. For at most the time of a drain, waiting frames
    /// are still written and read. Then close.
    pub async fn close(&self) {
        let shared = self.shared();
        shared.stop();
        for peer in shared.table.all() {
            if let Some(link) = peer.current() {
                link.start_drain(Farewell::Stopping);
            }
        }
        let drained = shared.limits.drain_timeout;
        let _ = tokio::time::timeout(drained, shared.tasks.wait()).await;
        shared.cut();
        for endpoint in &shared.endpoints {
            let _ = tokio::time::timeout(WAIT_IDLE, endpoint.wait_idle()).await;
        }
    }

    fn link_report(&self, peer: &Peer, link: &Link) -> LinkReport {
        let (queued_frames, queued_bytes) = peer.depths();
        let traffic = &link.traffic;
        let stats = link.connection.stats();
        LinkReport {
            peer: link.peer,
            name: link.name.clone(),
            boot: link.boot,
            address: handshake::seen(&link.connection),
            direction: link.direction,
            rtt: stats.path.rtt,
            congestion_window: stats.path.cwnd,
            mtu: stats.path.current_mtu,
            datagrams_out: stats.udp_tx.datagrams,
            packets_lost: stats.path.lost_packets,
            congestion_events: stats.path.congestion_events,
            black_holes: stats.path.black_holes_detected,
            up_for: self.shared().now().saturating_duration_since(link.up),
            frames_in: traffic.frames_in.load(Ordering::Relaxed),
            frames_out: traffic.frames_out.load(Ordering::Relaxed),
            bytes_in: traffic.bytes_in.load(Ordering::Relaxed),
            bytes_out: traffic.bytes_out.load(Ordering::Relaxed),
            queued_frames,
            queued_bytes,
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }
}

fn local_addresses(endpoints: &[Endpoint]) -> Vec<SocketAddr> {
    let local = endpoints.iter().filter_map(|e| e.local_addr().ok());
    local.collect()
}

#[cfg(test)]
mod tests {
    use std::io::{self, IoSliceMut};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use quinn::udp::{RecvMeta, Transmit};
    use quinn::{AsyncUdpSocket, UdpPoller};

    use super::*;
    use crate::quic::identity::tests::self_signed;
    use crate::quic::{TransportEvent, TransportLimits};

    /// A socket whose every operation fails.
    #[derive(Debug)]
    struct Useless;

    fn broken() -> io::Error {
        io::Error::other("broken")
    }

    impl UdpPoller for Useless {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(broken()))
        }
    }

    impl AsyncUdpSocket for Useless {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Useless)
        }

        fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
            Err(broken())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(broken()))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    #[tokio::test]
    async fn a_socket_that_fails_is_told() {
        let config = TransportConfig {
            identity: self_signed(),
            bind: vec![([127, 0, 0, 1], 0).into()],
            advertised: Vec::new(),
            metrics: None,
            boot: 1,
            node_secret: [7; 32],
            limits: TransportLimits::default(),
        };
        let (transport, mut events) = Transport::bind(config).expect("bound");
        let endpoint = &transport.shared().endpoints[0];
        endpoint.rebind_abstract(Arc::new(Useless)).expect("taken");
        let failed = tokio::time::timeout(Duration::from_secs(10), events.recv()).await;
        assert!(matches!(failed, Ok(Some(TransportEvent::Failed { .. }))));
    }
}
