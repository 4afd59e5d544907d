//! The greetings of the two ends of a link, on one bidirectional stream.
//!
//! ```text
//!  dialler  ── Hello ──▶  acceptor        the link is up for the dialler
//!  dialler  ◀─ Hello ───  acceptor        once this answer, HelloAck, is there
//!     either ── Refusal ──▶               or this instead: another process stays
//!     either ── Member ──▶                "I have been counted with others"
//!     either ── Question(fingerprint) ──▶ "is this connection yours as well?"
//!     either ── Answer(fingerprint, yes/no) ──▶
//!     either ── Needed(yes/no) ──▶        both no: one side says goodbye
//!     either ── Goodbye{streams} ──▶      "that was all, on so many streams"
//!     either ── Read ──▶                  "read to the end", the goodbye's answer
//! ```
//!
//! A side that has both sent and received `Read` closes the connection with `Done`, so neither end
//! loses what the other wrote. Each message is `version:u8 length:u16 postcard`.
//!
//! A dialler that only asks which process is there sends `Probe` instead of Hello, gets `Present`
//! as answer, and closes.

use std::net::SocketAddr;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use serde::{Deserialize, Serialize};

use super::book::ADDRESSES_MAX;
use super::choice::GoneConnections;
use super::metrics_address::MetricsAddress;
use super::notary::Notary;
use crate::lives::BOOT_MAX;

/// The version of greetings, and of the contacts in frames: no frame comes before a greeting.
const VERSION: u8 = 5;
/// The longest message after its header, in bytes: the statement of a life with the longest chain,
/// and 1,024 bytes for the rest.
const MESSAGE_MAX: usize = 1024 + Notary::MAX_STATEMENT;

/// How many of its connections to a peer a process names. A guess: two dials that meet, and two
/// that drain.
pub(super) const OTHERS_MAX: usize = 4;

/// The greeting of a process. The answer of the acceptor is called HelloAck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The life of the greeting process.
    pub(super) boot: u64,
    /// In a Hello the number of this dial within the boot; 0 in a HelloAck.
    pub(super) attempt: u64,
    /// The connections that the greeter takes for gone. A new link wins against them, even if the
    /// other side still takes them for alive.
    pub(super) gone: GoneConnections,
    /// The addresses at which the greeter can be dialled. If there are none, it is dialled where it
    /// is seen.
    pub(super) addresses: Vec<SocketAddr>,
    /// Fingerprints of the greeter's connections to the identity that it greets, this one among
    /// them. A process with another of these connections knows the greeter already. At most
    /// [`OTHERS_MAX`] of them.
    pub(super) others: Vec<Fingerprint>,
    /// Whether the greeter was counted with other nodes in this life.
    pub(super) is_member: bool,
    /// The greeter's signature for its boot, see [`Notary::sign_life`]; empty if it has none.
    pub(super) statement: Bytes,
    /// The address of the greeter's metrics, if other nodes can use it.
    pub(super) metrics: Option<MetricsAddress>,
}

impl Hello {
    /// Whether the numbers are within their bounds.
    fn is_possible(&self) -> bool {
        self.addresses.len() <= ADDRESSES_MAX
            && self.others.len() <= OTHERS_MAX
            && self.boot <= BOOT_MAX
    }
}

/// A value that only the two ends of a connection can compute.
pub(super) type Fingerprint = [u8; 16];

/// The reason why a process is not admitted, or has to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AdmissionRefusal {
    /// The newest proven life of its identity that the refuser knows, and its statement.
    pub(super) newest: Option<(u64, Bytes)>,
    /// The address of another process of its identity, which lives.
    pub(super) lives_at: Option<SocketAddr>,
}

/// Why a link is given up in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Farewell {
    /// Neither side needs the link.
    Idle,
    /// Another connection to the same peer has taken its place.
    Replaced,
    /// The process is stopping.
    Stopping,
}

/// A message on the greeting stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Greeting {
    /// The first message of each side.
    Hello(Hello),
    /// Whether the sender needs the link.
    Needed(bool),
    /// The sender sends nothing more on its streams.
    Goodbye {
        /// How many streams the sender has opened over the life of the link.
        streams: u64,
        /// The reason for the goodbye.
        farewell: Farewell,
    },
    /// The sender has read all streams of the other side to their end.
    Read,
    /// The sender was counted with other nodes in this life.
    Member,
    /// Is the connection with this fingerprint one of the process that reads this?
    Question(Fingerprint),
    /// The reply to a question: the fingerprint, and whether that connection belongs to the
    /// sender.
    Answer(Fingerprint, bool),
    /// The process that reads this is not admitted, or has to end.
    Refusal(AdmissionRefusal),
    /// Which process is there, and is the connection with this fingerprint its own?
    Probe(Fingerprint),
    /// The reply to a probe: the Hello of the process, and whether the connection is its own.
    Present(Hello, bool),
}

/// Why no greeting was sent or received.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetingError {
    #[error("the greeting has another protocol version")]
    Version,
    #[error("the greeting is malformed")]
    Malformed,
    #[error("the stream ended within the greeting")]
    Ended,
}

/// Send a greeting.
pub(super) async fn say(stream: &mut SendStream, greeting: &Greeting) -> Result<(), GreetingError> {
    let body = postcard::to_stdvec(greeting).map_err(|_| GreetingError::Malformed)?;
    let length = u16::try_from(body.len()).map_err(|_| GreetingError::Malformed)?;
    let mut message = vec![VERSION];
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(&body);
    let written = stream.write_all(&message).await;
    written.map_err(|_| GreetingError::Ended)
}

/// Receive the next greeting. The future must not be dropped half-way.
pub(super) async fn hear(stream: &mut RecvStream) -> Result<Greeting, GreetingError> {
    let mut version = [0; 1];
    read(stream, &mut version).await?;
    if version != [VERSION] {
        return Err(GreetingError::Version);
    }
    let mut length = [0; 2];
    read(stream, &mut length).await?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > MESSAGE_MAX {
        return Err(GreetingError::Malformed);
    }
    let mut body = vec![0; length];
    read(stream, &mut body).await?;
    match postcard::from_bytes(&body) {
        Ok(Greeting::Hello(hello) | Greeting::Present(hello, _)) if !hello.is_possible() => {
            Err(GreetingError::Malformed)
        }
        Ok(greeting) => Ok(greeting),
        Err(_) => Err(GreetingError::Malformed),
    }
}

async fn read(stream: &mut RecvStream, bytes: &mut [u8]) -> Result<(), GreetingError> {
    let read = stream.read_exact(bytes).await;
    read.map_err(|_| GreetingError::Ended)
}
