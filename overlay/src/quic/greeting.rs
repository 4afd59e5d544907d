//! What the two ends of a link say to each other, on one bidirectional stream.
//!
//! ```text
//!  dialler  ── Hello ──▶  acceptor        the link is up for the dialler
//!  dialler  ◀─ Hello ───  acceptor        once this answer, HelloAck, is there
//!     either ── Needed(yes/no) ──▶        both no: somebody says goodbye
//!     either ── Goodbye{streams} ──▶      "that was all, on so many streams"
//!     either ── Read ──▶                  "read to the end", the goodbye's answer
//! ```
//!
//! A connection is closed with `Done` by a side that has said and heard `Read`,
//! so neither end loses what the other wrote. Each message is
//! `version:u8 length:u16 postcard`.

use std::net::SocketAddr;

use quinn::{RecvStream, SendStream};
use serde::{Deserialize, Serialize};

use super::book::ADDRESSES_MAX;
use super::choice::Gone;

/// The version of all that is said here.
const VERSION: u8 = 2;
/// The longest message after its header, in bytes.
const MESSAGE_MAX: usize = 1024;

/// Who greets, from where. As answer it is the HelloAck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The life of the greeting process.
    pub(super) boot: u64,
    /// In a Hello the number of this dial in its boot; 0 in a HelloAck.
    pub(super) attempt: u64,
    /// What the greeter takes for gone, so that a link which one side still takes for alive
    /// does not win against a new one.
    pub(super) gone: Gone,
    /// Where the greeter can be dialled. None: where it is seen.
    pub(super) addresses: Vec<SocketAddr>,
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
        Ok(Greeting::Hello(hello)) if hello.addresses.len() > ADDRESSES_MAX => {
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
