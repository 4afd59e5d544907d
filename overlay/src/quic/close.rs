//! Why connections end: the codes on the wire, and the reasons for the host.

use std::net::SocketAddr;

use quinn::{Connection, ConnectionError, VarInt};

use super::explanations;
use super::frame::RefusedFrame;
use crate::PeerId;

/// The code with which a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CloseCode {
    /// Nothing is left to do. A link is drained, so that each side has read all that the other
    /// sent. Or a probe was answered, a refusal was read, or a dial is not needed any more.
    Done = 0,
    /// The dialler expected another peer, or has the identity of the acceptor.
    WrongPeer = 1,
    /// The peer speaks another version of the protocol.
    Version = 2,
    /// Another process of the same identity has taken the place of the peer's process, or a newer
    /// life of that identity is proven.
    OldBoot = 3,
    /// This node has no room for another peer or link, or the peer has too many connections.
    Busy = 4,
    /// A frame or greeting was refused, or a task that reads or writes a stream has panicked.
    Protocol = 5,
    /// The greeting, a frame or the drain took too long, or the handshake made room for another
    /// one.
    TooSlow = 6,
    /// This node stops.
    Stopping = 7,
    /// The peer's certificate has expired or is no longer accepted, or this node's own has expired.
    Certificate = 8,
    /// One side takes the connection for gone, and another connection has taken its place.
    Silent = 9,
    /// Another process of the refused peer's identity lives, linked to this node or found at a
    /// known address.
    Duplicate = 10,
    /// This process continues as a new life.
    NewLife = 11,
}

impl CloseCode {
    pub(super) fn close(self, connection: &Connection) {
        let name: &'static [u8] = match self {
            Self::Done => b"done",
            Self::WrongPeer => b"wrong peer",
            Self::Version => b"version",
            Self::OldBoot => b"old boot",
            Self::Busy => b"busy",
            Self::Protocol => b"protocol",
            Self::TooSlow => b"too slow",
            Self::Stopping => b"stopping",
            Self::Certificate => b"certificate",
            Self::Silent => b"silent",
            Self::Duplicate => b"duplicate",
            Self::NewLife => b"new life",
        };
        connection.close(VarInt::from_u32(self as u32), name);
    }
}

/// Why a link went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// Neither side needed the link, or the peer has put another connection in its place.
    Idle,
    /// The peer has said that it stops, or this node stops.
    PeerStopping,
    /// The peer runs as another process, or continues as a new life.
    Restarted,
    /// The peer was silent for the idle timeout, or another connection took the place of a silent
    /// one.
    TimedOut,
    /// The peer's certificate or this node's own expired while the link was up, or the peer's is
    /// not accepted any more.
    Certificate,
    /// The peer sent a frame that this node refuses.
    RefusedFrame(RefusedFrame),
    /// The peer closed the connection with this code.
    ClosedByPeer(u64),
    /// This node closed the link, or QUIC failed.
    Broken,
}

impl DownReason {
    pub(super) fn of(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::Reset => Self::Restarted,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::ApplicationClosed(close) => {
                let code = close.error_code.into_inner();
                match code {
                    code if code == CloseCode::Stopping as u64 => Self::PeerStopping,
                    code if code == CloseCode::NewLife as u64 => Self::Restarted,
                    code => Self::ClosedByPeer(code),
                }
            }
            _ => Self::Broken,
        }
    }
}

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// No address of the peer is known.
    #[error("no address of the peer is known")]
    NoContact,
    /// A name of the peer has no address, as far as the resolver knows, and no other address of the
    /// peer is known.
    #[error("`{host}` does not resolve: {problem}")]
    Unresolved {
        /// The name.
        host: String,
        /// The answer of the resolver.
        problem: String,
    },
    /// No bound socket can reach an address of the peer, and no other address has answered.
    #[error("no socket of this node has the address family of the peer")]
    NoRoute,
    /// No answer came in time.
    #[error("the peer does not answer")]
    TimedOut,
    /// Another peer answered.
    #[error("another node answers at this address: `{name}` ({found})")]
    WrongPeer {
        /// The identity that answered.
        found: PeerId,
        /// The name in its certificate.
        name: String,
    },
    /// This node did not accept the other side's certificate, or TLS failed here: the metric label
    /// of the cause.
    #[error("this node refuses the certificate of the peer: {}", explanations::of(.0))]
    Certificate(&'static str),
    /// The other side did not accept this node's certificate, or TLS failed there: the metric label
    /// of the cause.
    #[error("the peer refuses the certificate of this node: {}", explanations::of(.0))]
    OwnCertificate(&'static str),
    /// The other side speaks another protocol version.
    #[error("the peer speaks another protocol version")]
    Version,
    /// The other side knows a newer process of this node's identity.
    #[error("the peer knows a newer process with the identity of this node")]
    OldBoot,
    /// The other side refuses this process: another process of this node's identity lives, linked
    /// to the other side or found at a known address.
    #[error("another process at {address} has the identity of this node")]
    Duplicate {
        /// The address at which that process is seen.
        address: SocketAddr,
    },
    /// The process that answered is not admitted: another process of its identity lives, or a newer
    /// life of it is proven.
    #[error("another process than the answering one has the identity of the peer")]
    NotAdmitted,
    /// The other side has no room.
    #[error("the peer has no room for another link")]
    Busy,
    /// The other side is about to end.
    #[error("the peer is stopping")]
    Stopping,
    /// The other side refused before the handshake.
    #[error("the peer takes no new connections: it has just stopped, or too many arrive at once")]
    Refused,
    /// The greeting was not understood.
    #[error("the greeting was refused")]
    Greeting,
    /// The connection broke before the link was up.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// This node has no room for another link, or stops.
    #[error("this node has no room for another link")]
    NoRoom,
}

impl DialError {
    pub(super) fn of(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
                code if code == CloseCode::Version as u64 => Self::Version,
                code if code == CloseCode::OldBoot as u64 => Self::OldBoot,
                code if code == CloseCode::Busy as u64 => Self::Busy,
                code if code == CloseCode::Stopping as u64 => Self::Stopping,
                _ => Self::Broken(plain(error)),
            },
            ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_) => {
                let is_own = matches!(error, ConnectionError::ConnectionClosed(_));
                match handshake_label(error) {
                    "refused" => Self::Refused,
                    "quic" => Self::Broken(plain(error)),
                    label if is_own => Self::OwnCertificate(label),
                    label => Self::Certificate(label),
                }
            }
            _ => Self::Broken(plain(error)),
        }
    }

    /// The advice for an operator.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::OwnCertificate(label) => explanations::own_remedy(label),
            Self::OldBoot => explanations::OLD_BOOT_REMEDY,
            other => explanations::remedy(other.label()),
        }
    }

    /// Whether something at an address has answered. An answer says more than silence at another
    /// address.
    pub(super) const fn is_answer(&self) -> bool {
        !matches!(
            self,
            Self::NoContact
                | Self::Unresolved { .. }
                | Self::NoRoute
                | Self::TimedOut
                | Self::NoRoom
        )
    }

    /// The metric label of the error.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::NoContact => "no_contact",
            Self::Unresolved { .. } => "unresolved",
            Self::NoRoute => "no_route",
            Self::TimedOut => "timed_out",
            Self::WrongPeer { .. } => "wrong_peer",
            Self::Certificate(label) | Self::OwnCertificate(label) => label,
            Self::Version => "version",
            Self::OldBoot => "old_boot",
            Self::Duplicate { .. } => "duplicate",
            Self::NotAdmitted => "not_admitted",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::Refused => "refused",
            Self::Greeting => "greeting",
            Self::Broken(_) => "broken",
            Self::NoRoom => "no_room",
        }
    }
}

/// The metric label of a failed handshake. TLS alerts (RFC 8446, 6.2) come as QUIC codes 0x100 +
/// alert, whichever side raised them.
pub(super) fn handshake_label(error: &ConnectionError) -> &'static str {
    let (code, text) = match error {
        ConnectionError::TransportError(error) => (u64::from(error.code), error.reason.as_bytes()),
        ConnectionError::ConnectionClosed(close) => {
            (u64::from(close.error_code), &close.reason[..])
        }
        ConnectionError::TimedOut => return "timed_out",
        ConnectionError::ApplicationClosed(_) => return "closed_by_peer",
        _ => return "quic",
    };
    match code {
        0x02 => "refused",
        0x12a | 0x12b | 0x12e => "bad_certificate",
        0x12c => "revoked",
        // TLS has one alert for both cases; the text beside it tells them apart.
        0x12d if is_early(text) => "not_yet_valid",
        0x12d => "expired",
        0x130 => "unknown_authority",
        0x131 => "not_a_peer",
        0x133 => "bad_signature",
        0x174 => "no_certificate",
        0x178 => "no_common_protocol",
        0x100..=0x1ff => "tls",
        _ => "quic",
    }
}

/// Whether the verifier found a certificate that is not valid yet.
fn is_early(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains("not valid yet")
}

/// The text of an error, which may come from the peer: without control characters, at most one
/// line.
fn plain(error: &ConnectionError) -> String {
    const LINE: usize = 120;
    let text = error.to_string();
    let printable = text.chars().filter(|letter| !letter.is_control());
    printable.take(LINE).collect()
}
