//! What the two ends of a link say to each other, on one bidirectional stream.
//!
//! ```text
//!  dialler  ── Hello ──▶  acceptor        the link is up for the dialler
//!  dialler  ◀─ Hello ───  acceptor        once this answer, HelloAck, is there
//!     either ── Refusal ──▶               or this instead: another process stays
//!     either ── Member ──▶                "I have been counted with others"
//!     either ── Question(fingerprint) ──▶ "is this connection yours as well?"
//!     either ── Answer(fingerprint, yes/no) ──▶
//!     either ── Needed(yes/no) ──▶        both no: somebody says goodbye
//!     either ── Goodbye{streams} ──▶      "that was all, on so many streams"
//!     either ── Read ──▶                  "read to the end", the goodbye's answer
//! ```
//!
//! A connection is closed with `Done` by a side that has said and heard `Read`,
//! so neither end loses what the other wrote. Each message is
//! `version:u8 length:u16 postcard`.
//!
//! A dialler that only wants to know which process is there says `Probe` in the place of
//! Hello, is answered `Present`, and closes.

use std::net::SocketAddr;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use serde::{Deserialize, Serialize};

use super::book::ADDRESSES_MAX;
use super::choice::Gone;
use super::metrics_address::MetricsAddress;
use super::notary::Notary;
use crate::lives::BOOT_MAX;

/// The version of all that is said here, and of the contacts in frames: nobody gets any before
/// it has greeted.
const VERSION: u8 = 5;
/// The longest message after its header, in bytes: a statement of a life with the longest
/// chain, and 1,024 bytes for all else.
const MESSAGE_MAX: usize = 1024 + Notary::MAX_STATEMENT;

/// How many of its connections to a peer a process names. Guess: two dials that meet, and
/// two that drain.
pub(super) const OTHERS_MAX: usize = 4;

/// Who greets, from where. As answer it is the HelloAck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The life of the greeting process.
    pub(super) boot: u64,
    /// In a Hello the number of this dial in its boot; 0 in a HelloAck.
    pub(super) attempt: u64,
    /// The connections that the greeter takes for gone. A new link wins against them, though
    /// the other side may still take them for alive.
    pub(super) gone: Gone,
    /// Where the greeter can be dialled. None: where it is seen.
    pub(super) addresses: Vec<SocketAddr>,
    /// The greeter's connections to the process that it greets: who has one of them knows
    /// the greeter already. At most [`OTHERS_MAX`]; of more the first.
    pub(super) others: Vec<Fingerprint>,
    /// Whether the greeter has been counted with others in this life.
    pub(super) is_member: bool,
    /// Its signature for its boot, see [`Notary::sign_life`]; empty if it has none.
    pub(super) statement: Bytes,
    /// Where the greeter serves its metrics, if others can use that.
    pub(super) metrics: Option<MetricsAddress>,
}

impl Hello {
    /// Whether its numbers can be.
    fn is_possible(&self) -> bool {
        self.addresses.len() <= ADDRESSES_MAX
            && self.others.len() <= OTHERS_MAX
            && self.boot <= BOOT_MAX
    }
}

/// What both ends of a connection, and nobody else, can compute of it.
pub(super) type Fingerprint = [u8; 16];

/// Why a process is not admitted, or is to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The newest proven life of its identity that the refuser knows, and its statement.
    pub(super) newest: Option<(u64, Bytes)>,
    /// Where another process of its identity lives.
    pub(super) lives_at: Option<SocketAddr>,
}

/// Why a link is given up in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Farewell {
    /// Neither side needs it.
    Idle,
    /// Another connection to the same peer took its place.
    Replaced,
    /// The process stops.
    Stopping,
}

/// What is said on the greeting stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Greeting {
    /// First message of each side.
    Hello(Hello),
    /// Whether the sender needs the link.
    Needed(bool),
    /// Nothing more comes; it was on so many streams.
    Goodbye {
        /// Streams opened by the sender over the life of the link.
        streams: u64,
        /// Why.
        farewell: Farewell,
    },
    /// All streams of the other side were read to their end.
    Read,
    /// The sender has been counted with others in this life.
    Member,
    /// Is the connection with this fingerprint one of the process that reads this?
    Question(Fingerprint),
    /// The reply to a question: the fingerprint, and whether that connection belongs to the
    /// sender.
    Answer(Fingerprint, bool),
    /// The process that reads this is not admitted, or is to end.
    Refusal(Refusal),
    /// Which process is there, and is the connection with this fingerprint its own?
    Probe(Fingerprint),
    /// The reply to a probe: what the process says in a Hello, and whether the connection is
    /// its own.
    Present(Hello, bool),
}

/// Why no greeting came.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetingError {
    #[error("another protocol version")]
    Version,
    #[error("malformed greeting")]
    Malformed,
    #[error("the stream ended")]
    Ended,
}

/// Say something.
pub(super) async fn say(stream: &mut SendStream, greeting: &Greeting) -> Result<(), GreetingError> {
    let body = postcard::to_stdvec(greeting).map_err(|_| GreetingError::Malformed)?;
    let length = u16::try_from(body.len()).map_err(|_| GreetingError::Malformed)?;
    let mut message = vec![VERSION];
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(&body);
    let written = stream.write_all(&message).await;
    written.map_err(|_| GreetingError::Ended)
}

/// Hear the next greeting. Not to be dropped half-way.
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
