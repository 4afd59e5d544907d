//! Files and streams to all members: cut into pieces that flow concurrently as broadcasts,
//! put together at the receivers, and checked end to end. A file is a stream whose length
//! is known; what is in order is written, or read by an application while the rest comes.
//!
//! ```text
//!   origin   piece piece piece piece* piece … end*        * asks for an answer
//!   receiver ───▶ another name ─ written ─▶ BLAKE3 right ──▶ NAME, or a stream's end
//! ```
//!
//! Custody, duplicates and the dead are the relay's business, piece by piece: the death
//! of a node on the way costs only what it had not handed on. The origin is at most
//! 8 MiB ahead of the slowest receiver that it still waits for: every
//! 2 MiB receivers say that they have written what came. Who does not say so in
//! time, or fails, is named with its reason and not waited for any more; the others go on.

mod cut;
mod incoming;
mod order;
mod piece;
mod receive;
mod send;
mod stream;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::report::Absent;
use crate::settings::Strategy;

pub use receive::{Into, PushedStreams, Receiver};
pub use send::{PushError, send};
pub use stream::PushedStream;

/// The topic of pieces.
const TOPIC: &str = "$push";
/// How long a piece is. A guess: along a chain of 16 a file of 64 MiB takes a sixteenth
/// longer than over one link.
const PIECE_BYTES: usize = 256 << 10;
/// How long one is by the strategy `circulant`. A guess: among 16 members a block is
/// everywhere after some five times what it takes on one uplink, and a shorter one costs more
/// processor time.
const BLOCK_BYTES: usize = 64 << 10;
/// After how many bytes receivers say how far they are.
const MARK_BYTES: u64 = 2 << 20;
/// How many pieces are on their way at most, in all 8 MiB: so much may wait in a receiver.
const WINDOW: usize = 32;
/// How many blocks, in all 3 MiB: of the relay's 64 open packets a quarter is left to others.
const BLOCKS: usize = 48;

/// How something is pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// What it is to be called: a plain name, see [`check_file_name`].
    pub name: String,
    /// How long it is, if that is known: what ends before is an error then, and what
    /// comes behind it is not read.
    pub size_bytes: Option<u64>,
    /// Whether a file of that name is replaced.
    pub replace: bool,
    /// In which order it goes to the members; `auto` goes by how long it is and how many
    /// they are (`docs/push.md`).
    pub strategy: Strategy,
    /// How long a receiver may take for each step until nobody waits for it any more; at
    /// most [`Self::PATIENCE_MAX`], more counts as that.
    pub patience: Duration,
}

impl PushOptions {
    /// The default patience. A guess: disks stall for seconds.
    pub const PATIENCE: Duration = Duration::from_secs(30);
    /// The longest. While the slowest receiver is waited for the others get nothing, and
    /// they give up what is silent for two minutes.
    pub const PATIENCE_MAX: Duration = Duration::from_secs(90);

    /// The defaults for something of this name, and of this length if it is known.
    pub fn new(
        name: impl std::convert::Into<String>,
        size_bytes: impl std::convert::Into<Option<u64>>,
    ) -> Self {
        Self {
            name: name.into(),
            size_bytes: size_bytes.into(),
            replace: false,
            strategy: Strategy::Auto,
            patience: Self::PATIENCE,
        }
    }
}

/// What became of a push.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PushReport {
    /// What it is called at the receivers.
    pub name: String,
    /// How long it is.
    pub size_bytes: u64,
    /// Its BLAKE3 hash in hexadecimal.
    pub blake3: String,
    /// How many members have it whole, and checked.
    pub stored_count: u32,
    /// Who.
    pub stored: Vec<String>,
    /// Who has not, and why.
    pub failed: Vec<PushFailure>,
    /// Hosts of the inventory that are no members.
    pub absent: Vec<Absent>,
    /// From the first byte to the last answer.
    pub elapsed_seconds: f64,
    /// What each member got per second.
    pub bytes_per_second: f64,
}

impl PushReport {
    /// Whether all members have it, and nobody is absent.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.absent.is_empty()
    }
}

/// A member that has not got a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushFailure {
    /// Its name.
    pub name: String,
    /// Why, in words.
    pub reason: String,
}

/// Whether receivers accept a file of this name: 1 to 200 bytes of text, one component of
/// a path, no control characters, and not hidden.
pub fn check_file_name(name: &str) -> Result<(), InvalidFileName> {
    let fits = (1..=200).contains(&name.len()) && !name.starts_with('.');
    if fits && !name.contains('/') && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(InvalidFileName(name.chars().take(64).collect()))
}

/// A name that no file is stored under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name for a file; expected 1 to 200 bytes without `/`, not starting with `.`")]
pub struct InvalidFileName(String);

#[expect(
    clippy::disallowed_methods,
    reason = "reports say how long it took, and what is silent for long is given up"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["a", "a.tar.gz", "ä b", "x..y"] {
            assert_eq!(check_file_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(201);
        for name in [
            "", ".", "..", ".hidden", "a/b", "/a", "../a", "a\nb", "a\0", &long,
        ] {
            assert!(check_file_name(name).is_err(), "{name:?}");
        }
    }
}
