//! Messages as bytes: one version byte, the head in postcard, then the payload.
//!
//! ```text
//!   | VERSION | head (postcard) | payload, to the end of the frame |
//! ```
//!
//! Encoding returns head and payload apart, so that a vectored write sends the payload uncopied.
//! Decoding cuts the payload out of the frame uncopied. A decoded message is within the bounds that
//! are stated in [`crate::packet`]. Whether the message fits the population of an epoch is for the
//! relay to judge.

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::packet::EncodeError;
use crate::packet::Message;

/// The version of the format that this build speaks and understands.
pub const VERSION: u8 = 11;

/// The longest head, with room to spare for the largest lists of 16-byte ids. A transport may use
/// `MAX_HEAD_BYTES` plus its payload bound as its frame limit.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The version byte is missing or names another version.
    #[error("the relay message has the version {0:?}, expected {VERSION}")]
    Version(Option<u8>),
    /// The head is cut short or cannot be read.
    #[error("the head of the relay message is malformed")]
    Malformed,
    /// A list, span or number is outside its bounds.
    #[error("a field of the relay message is out of bounds: {0}")]
    OutOfBounds(&'static str),
    /// A message without payload has bytes behind its head.
    #[error("the relay message is followed by {0} unexpected bytes")]
    TrailingBytes(usize),
}

/// The head of a message, version byte included, and the payload behind it.
pub fn encode<I: Id + Serialize>(message: &Message<I>) -> Result<(Bytes, Bytes), EncodeError> {
    let head = postcard::to_extend(message, head_buffer()).map_err(EncodeError::of)?;
    let payload = match message {
        Message::Packet(packet) => packet.payloads.bytes().clone(),
        _ => Bytes::new(),
    };
    Ok((head.into(), payload))
}

/// A buffer for a head. Nearly all heads are shorter than its capacity.
fn head_buffer() -> Vec<u8> {
    let mut head = Vec::with_capacity(160);
    head.push(VERSION);
    head
}

/// The message in a frame; its payload is a slice of the frame.
pub fn decode<I: Id + DeserializeOwned>(frame: &Bytes) -> Result<Message<I>, DecodeError> {
    let (&version, head) = frame.split_first().ok_or(DecodeError::Version(None))?;
    if version != VERSION {
        return Err(DecodeError::Version(Some(version)));
    }
    let (mut message, rest) =
        postcard::take_from_bytes::<Message<I>>(head).map_err(|_| DecodeError::Malformed)?;
    message.check().map_err(DecodeError::OutOfBounds)?;
    match &mut message {
        Message::Packet(packet) => {
            if !packet
                .payloads
                .fill(frame.slice(frame.len() - rest.len()..))
            {
                return Err(DecodeError::OutOfBounds("payloads"));
            }
        }
        _ if rest.is_empty() => {}
        _ => return Err(DecodeError::TrailingBytes(rest.len())),
    }
    Ok(message)
}
