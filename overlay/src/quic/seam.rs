//! The seam between a transport and its host: what it is made from, what it
//! tells, and why it says no.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::book::ADDRESSES_MAX;
use super::choice::Direction;
use super::close::{DialError, DownReason};
use super::frame::PlainClass;
use super::identity::Identity;
use super::limits::Limits;
use super::location::Location;
use super::metrics_address::MetricsAddress;
use crate::PeerId;

/// What a transport is made from.
#[derive(Debug)]
pub struct TransportConfig {
    /// Who this node is and whom it believes.
    pub identity: Identity,
    /// Where to listen and from where to dial; at least one. `[::]` serves IPv4
    /// too.
    pub bind: Vec<SocketAddr>,
    /// Where others can dial this node. Empty: the bound addresses, and where
    /// those are unspecified, the address that each peer sees. Names are looked up here, at
    /// the start and again now and then, and others are told their addresses.
    pub advertised: Vec<Location>,
    /// Where its metrics are served, as others are told.
    pub metrics: Option<MetricsAddress>,
    /// The life of this process; greater than any before it, and at most
    /// [`crate::lives::BOOT_MAX`].
    pub boot: u64,
    /// A secret that outlives processes and certificates, so that peers notice
    /// a restart at once.
    pub node_secret: [u8; 32],
    /// Bounds and windows.
    pub limits: Limits,
}

/// What happened. For one peer `LinkUp` and `LinkDown` alternate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// There is a link to this process of the peer.
    LinkUp {
        /// Who.
        peer: PeerId,
        /// Its process.
        boot: u64,
    },
    /// The link is gone; what was in flight may be lost.
    LinkDown {
        /// Who.
        peer: PeerId,
        /// Why.
        reason: DownReason,
    },
    /// A frame came. After a restart of the peer, one of the former process may
    /// still come: its boot tells.
    Received {
        /// From whom.
        peer: PeerId,
        /// From which process.
        boot: u64,
        /// How it was queued.
        class: PlainClass,
        /// Head and payload.
        body: Bytes,
    },
    /// A send was `Full`, and now there is room.
    Writable {
        /// To whom.
        peer: PeerId,
    },
    /// No link came to be; what waited for the peer was dropped.
    DialFailed {
        /// Who.
        peer: PeerId,
        /// Why.
        reason: DialError,
    },
    /// A newer life of this node's identity is proven, and no running process of that life
    /// is known. The host must begin a life with a greater boot.
    Outlived {
        /// The boot of that life.
        newest: u64,
    },
    /// A process of this node's identity and of a newer life is there, and a member as this
    /// one is: this one is to end.
    Superseded {
        /// Where it answered.
        address: SocketAddr,
    },
    /// A socket is of no use any more: nothing comes in over it or goes out. The
    /// transport does not recover; the host is to end.
    Failed {
        /// What it was bound to, if that can still be told.
        address: Option<SocketAddr>,
    },
}

/// Why a transport cannot start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address cannot be bound.
    #[error("cannot bind {address}: {source}")]
    Socket {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// No address to bind.
    #[error("no address to bind")]
    NoAddress,
    /// More addresses than a contact holds, or one that nobody can dial.
    #[error("at most {ADDRESSES_MAX} addresses can be advertised, each with a host and a port")]
    Advertised,
    /// TLS does not accept the identity.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Limits that contradict each other or QUIC.
    #[error("limits: {0}")]
    Limits(&'static str),
    /// A renewed certificate names somebody else.
    #[error("the renewed certificate is of another identity")]
    OtherIdentity,
    /// The boot is the one above the greatest.
    #[error("a boot is at most {}", crate::lives::BOOT_MAX)]
    Boot,
    /// Lives cannot be signed and judged.
    #[error("signatures of lives: {0}")]
    Notary(#[from] super::NotaryError),
    /// Not called within a tokio runtime.
    #[error("no tokio runtime")]
    NoRuntime,
}

/// Why a frame was not queued. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No link and no contact.
    #[error("no link to the peer, and no address of it is known")]
    UnknownPeer,
    /// The queue is full; for control frames and packets a `Writable` follows.
    #[error("the peer's queue is full")]
    Full,
    /// The body is longer than its class allows.
    #[error("a body of {bytes} bytes is above the limit of {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// As many peers as the limits allow are being dealt with.
    #[error("too many peers")]
    TooManyPeers,
    /// The receiver is this node.
    #[error("the receiver is this node itself")]
    ToSelf,
    /// The transport is closed.
    #[error("the transport is closed")]
    Closed,
}

/// Why a contact was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContactError {
    /// Name too long, too many addresses, or one that nobody can dial.
    #[error("name or addresses of the contact are out of bounds")]
    OutOfBounds,
    /// The book is full of contacts that are kept.
    #[error("the contact book is full")]
    Full,
}

/// One link as an operator sees it.
#[derive(Debug, Clone)]
pub struct LinkReport {
    /// Who.
    pub peer: PeerId,
    /// What it is called.
    pub name: String,
    /// Its process.
    pub boot: u64,
    /// Where it is.
    pub address: SocketAddr,
    /// Who dialled.
    pub direction: Direction,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// How many bytes may be on their way before the peer acknowledges some.
    pub congestion_window: u64,
    /// The longest UDP payload that this path is known to carry.
    pub mtu: u16,
    /// UDP datagrams sent.
    pub datagrams_out: u64,
    /// QUIC packets that were taken for lost.
    pub packets_lost: u64,
    /// Times that the congestion window shrank.
    pub congestion_events: u64,
    /// Times that the path turned out to carry shorter packets than it had.
    pub black_holes: u64,
    /// How long it is up.
    pub up_for: Duration,
    /// Frames received.
    pub frames_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes of bodies received.
    pub bytes_in: u64,
    /// Bytes of bodies sent.
    pub bytes_out: u64,
    /// Frames waiting: maintenance, control, packets.
    pub queued_frames: [usize; 3],
    /// Bytes waiting.
    pub queued_bytes: usize,
}
