//! What travels: a head, and the bytes behind it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What a piece is of, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The origin's number of this push, in its life.
    pub(super) push: u64,
    /// What the file is called.
    pub(super) name: String,
    /// How long it is in all, if its origin knew that before.
    pub(super) size: Option<u64>,
    /// Whether a file of that name is replaced.
    pub(super) replace: bool,
    /// Which piece.
    pub(super) part: Part,
}

/// Which piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Part {
    /// The bytes from here on; none to say that more may come.
    At(u64),
    /// There is nothing more.
    End {
        /// How long it was in all.
        size: u64,
        /// The hash of all.
        hash: [u8; 32],
    },
    /// The origin has given up.
    Abandoned,
}

/// What a receiver answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// What came is written.
    Written,
    /// The whole file is in its place.
    Stored,
    /// Nothing will come of it here.
    Failed(String),
}

impl Head {
    /// A buffer that begins with the head, for the bytes to be put behind it.
    pub(super) fn buffer(&self) -> Vec<u8> {
        // Serialising these fields into memory cannot fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Head and bytes of a payload.
    pub(super) fn split(payload: &Bytes) -> Option<(Self, Bytes)> {
        let (head, rest) = postcard::take_from_bytes::<Self>(payload).ok()?;
        Some((head, payload.slice(payload.len() - rest.len()..)))
    }
}

impl Answer {
    /// The most characters of a reason.
    const REASON_MAX: usize = 200;

    pub(super) fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string().chars().take(Self::REASON_MAX).collect())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        let parsed = postcard::from_bytes(bytes);
        parsed.unwrap_or_else(|_| Self::failed("an answer that is not understood"))
    }
}
