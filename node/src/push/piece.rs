//! The format of a piece: a head, followed by the bytes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The head of a piece: its push, and its place there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The number of this push among the pushes of the origin's life.
    pub(super) push: u64,
    /// The name of the file.
    pub(super) name: String,
    /// The length of the file, if its origin knew it at the start.
    pub(super) size: Option<u64>,
    /// Whether an existing file of that name is replaced.
    pub(super) replace: bool,
    /// The part of the push that the piece is.
    pub(super) part: Part,
}

/// A part of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Part {
    /// The bytes from this offset on. A piece without bytes is a sign of life.
    At(u64),
    /// The end: no more bytes follow.
    End {
        /// The length of the whole.
        size: u64,
        /// The hash of the whole.
        hash: [u8; 32],
    },
    /// The origin has given up the push.
    Abandoned,
}

/// The answer of a receiver to a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PieceAnswer {
    /// All bytes that came are written; or an application has read the bytes up to the end of this
    /// piece.
    Written,
    /// The whole file is checked and stored under its name; or an application has read it to the
    /// end.
    Stored,
    /// The push has failed at this receiver, for this reason.
    Failed(String),
}

impl Head {
    /// A buffer that begins with the head; the bytes are appended to it.
    pub(super) fn buffer(&self) -> Vec<u8> {
        // Serialising these fields into memory cannot fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Split a payload into head and bytes.
    pub(super) fn split(payload: &Bytes) -> Option<(Self, Bytes)> {
        let (head, rest) = postcard::take_from_bytes::<Self>(payload).ok()?;
        Some((head, payload.slice(payload.len() - rest.len()..)))
    }
}

impl PieceAnswer {
    /// The most characters of a failure's reason.
    const REASON_MAX: usize = 200;

    pub(super) fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string().chars().take(Self::REASON_MAX).collect())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        let parsed = postcard::from_bytes(bytes);
        parsed.unwrap_or_else(|_| Self::failed("the answer of the receiver is malformed"))
    }
}
