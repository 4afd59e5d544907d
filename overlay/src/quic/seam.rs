//! The seam between a transport and its host: the configuration, the events and the errors of a
//! transport.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::book::ADDRESSES_MAX;
use super::choice::Direction;
use super::close::{DialError, DownReason};
use super::frame::PlainClass;
use super::identity::Identity;
use super::limits::TransportLimits;
use super::location::Location;
use super::metrics_address::MetricsAddress;
use crate::PeerId;

/// The configuration of a transport.
#[derive(Debug)]
pub struct TransportConfig {
    /// The identity of this node, and the authorities that it believes.
    pub identity: Identity,
    /// The addresses to listen on and to dial from; at least one. `[::]` serves IPv4 too.
    pub bind: Vec<SocketAddr>,
    /// The locations at which others can dial this node. Empty: the bound addresses that can be
    /// dialled; if there are none, each peer dials the address that it sees. This node looks names
    /// up itself, at the start and now and then, and advertises their addresses.
    pub advertised: Vec<Location>,
    /// The address of this node's metrics, to be told to others.
    pub metrics: Option<MetricsAddress>,
    /// The boot of this process; greater than any before it, and at most
    /// [`crate::lives::BOOT_MAX`].
    pub boot: u64,
    /// A secret that outlives processes and certificates. With it peers notice a restart at once.
    pub node_secret: [u8; 32],
    /// The bounds and windows of the transport.
    pub limits: TransportLimits,
}

/// An event of a transport. For one peer `LinkUp` and `LinkDown` alternate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// A link to this process of the peer is up.
    LinkUp {
        /// The peer at the other end.
        peer: PeerId,
        /// The boot of the peer's process.
        boot: u64,
    },
    /// The link is gone; frames in flight may be lost.
    LinkDown {
        /// The peer at the other end.
        peer: PeerId,
        /// The reason for its end.
        reason: DownReason,
    },
    /// A frame was received. After a restart of the peer a frame of its former process may still
    /// come; its boot shows which process sent it.
    Received {
        /// The sender.
        peer: PeerId,
        /// The boot of the sender's process.
        boot: u64,
        /// The class of the frame.
        class: PlainClass,
        /// The head and the payload of the frame.
        body: Bytes,
    },
    /// A send returned `Full`, and now there is room.
    Writable {
        /// The receiver with room.
        peer: PeerId,
    },
    /// No link was made; the frames that waited for the peer were dropped.
    DialFailed {
        /// The peer that was dialled.
        peer: PeerId,
        /// The reason for the failure.
        reason: DialError,
    },
    /// A newer life of this node's identity is proven. No running process of that life is known, or
    /// this process is starting and so takes a greater number without a search. The host must begin a life with a greater boot.
    Outlived {
        /// The boot of that life.
        newest: u64,
    },
    /// A process of this node's identity with a newer life was found, and both are members: this
    /// process has to end.
    Superseded {
        /// The address at which that process answered.
        address: SocketAddr,
    },
    /// A socket has failed: no packet comes in over it or goes out. The transport does not recover;
    /// the host has to end.
    Failed {
        /// The address to which the socket was bound, if it is still known.
        address: Option<SocketAddr>,
    },
}

/// Why a transport cannot start, or cannot be renewed. No part of the attempt stays behind.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address cannot be bound.
    #[error("cannot bind {address}: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// There is no address to bind.
    #[error("no address to bind is given")]
    NoAddress,
    /// There are more addresses than a contact holds, or one cannot be dialled.
    #[error("at most {ADDRESSES_MAX} addresses can be advertised, each with a host and a port")]
    Advertised,
    /// TLS does not accept the identity.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The limits contradict each other or QUIC.
    #[error("limits: {0}")]
    Limits(&'static str),
    /// The renewed certificate names another peer.
    #[error("the renewed certificate belongs to another identity")]
    OtherIdentity,
    /// The boot is above [`crate::lives::BOOT_MAX`].
    #[error(
        "the number of a boot is too large; give at most {}",
        crate::lives::BOOT_MAX
    )]
    Boot,
    /// The signatures of lives cannot be judged.
    #[error("cannot check the signatures of lives: {0}")]
    Notary(#[from] super::NotaryError),
    /// The call was not made within a tokio runtime.
    #[error("no Tokio runtime is running")]
    NoRuntime,
}

/// Why a frame was not queued. `Full` leaves a reminder to tell the host of room, except for
/// maintenance. Even then a peer without a link may be dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer has no link, and no contact of it is known.
    #[error("no link to the peer, and no address of it is known")]
    UnknownPeer,
    /// The queue is full; for control frames and packets a `Writable` follows.
    #[error("the peer's queue is full")]
    Full,
    /// The body is longer than its class allows.
    #[error("a body of {bytes} bytes is above the limit of {limit}")]
    TooLong {
        /// The length of the body.
        bytes: usize,
        /// The greatest length of its class.
        limit: usize,
    },
    /// The transport deals with as many peers as its limits allow.
    #[error("the transport knows too many peers for one more")]
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
    /// The name is too long, there are too many addresses or none, or one cannot be dialled.
    #[error(
        "the name of the contact is too long, or it has too many addresses or one that cannot be dialled"
    )]
    OutOfBounds,
    /// The book is full of contacts that must be kept.
    #[error("the contact book is full")]
    Full,
}

/// One link as an operator sees it.
#[derive(Debug, Clone)]
pub struct LinkReport {
    /// The peer at the other end.
    pub peer: PeerId,
    /// The name of the peer.
    pub name: String,
    /// The boot of the peer's process.
    pub boot: u64,
    /// The address of the peer.
    pub address: SocketAddr,
    /// The side that dialled.
    pub direction: Direction,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// How many bytes may be on their way before the peer acknowledges some.
    pub congestion_window: u64,
    /// The longest UDP payload that this path is known to carry.
    pub mtu: u16,
    /// UDP datagrams that were sent.
    pub datagrams_out: u64,
    /// QUIC packets that were taken for lost.
    pub packets_lost: u64,
    /// Times that the congestion window shrank.
    pub congestion_events: u64,
    /// Times that the path turned out to carry only shorter packets than before.
    pub black_holes: u64,
    /// The time since the link came up.
    pub up_for: Duration,
    /// Frames that were received.
    pub frames_in: u64,
    /// Frames that were sent.
    pub frames_out: u64,
    /// Bytes of the bodies that were received.
    pub bytes_in: u64,
    /// Bytes of the bodies that were sent.
    pub bytes_out: u64,
    /// Frames that wait: maintenance, control, packets.
    pub queued_frames: [usize; 3],
    /// Bytes of the frames that wait.
    pub queued_bytes: usize,
}
