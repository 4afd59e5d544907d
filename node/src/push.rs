//! Pushes files and streams to all members: the origin cuts them into pieces, which flow
//! concurrently as broadcasts; receivers put the pieces together and check the whole. A file is a
//! stream of known length. A receiver writes the bytes to disk, or an application reads them in
//! order while later ones still come.
//!
//! ```text
//!   origin   piece piece piece piece* piece … end*        * asks for an answer
//!   receiver ───▶ another name ─ written ─▶ BLAKE3 right ──▶ NAME, or a stream's end
//! ```
//!
//! The relay deals with custody, duplicates and deaths for each piece, so the death of a node on
//! the way costs only the pieces that it had not handed on. The origin is at most 8 MiB ahead of
//! the slowest receiver that it still waits for: every 2 MiB receivers confirm that they have
//! written what came. A receiver that fails, or does not confirm in time, is named in the report
//! with the reason; the origin stops waiting for it and goes on with the others.

mod cutter;
mod incoming;
mod piece;
mod plan;
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
/// The length of a piece. A guess: along a chain of 16 members a file of 64 MiB takes a sixteenth
/// longer than over one link. Longer pieces slow chains down, shorter ones cost processor time.
const PIECE_BYTES: usize = 256 << 10;
/// The length of a piece with the strategy `circulant`. A guess: among 16 members such a block is
/// everywhere after about five times its time on one uplink. A shorter one costs more processor
/// time.
const BLOCK_BYTES: usize = 64 << 10;
/// The distance in bytes between two pieces that ask the receivers for an answer.
const MARK_BYTES: u64 = 2 << 20;
/// The most pieces on their way, 8 MiB in all: so much may wait in a receiver.
const WINDOW: usize = 32;
/// The most blocks on their way, 3 MiB in all. They are 48 of the relay's 64 open packets; a
/// quarter is left for other messages.
const BLOCKS: usize = 48;

/// Options of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// The name at the receivers: a plain file name, see [`check_file_name`].
    pub name: String,
    /// The length in bytes, if known: a source that ends earlier is an error then, and bytes beyond
    /// it are not read.
    pub size_bytes: Option<u64>,
    /// Whether an existing file of that name is replaced.
    pub replace: bool,
    /// The order in which the pieces reach the members. `auto` decides by the length and the number
    /// of members (`docs/push.md`).
    pub strategy: Strategy,
    /// The time that a receiver may take for each step before the origin stops waiting for it.
    /// [`Self::PATIENCE_MAX`] is the limit; a longer time counts as the limit.
    pub patience: Duration,
}

impl PushOptions {
    /// The default patience. A guess: disks stall for seconds. With less, such receivers fail; with
    /// more, one dead receiver holds up all others longer.
    pub const PATIENCE: Duration = Duration::from_secs(30);
    /// The longest patience. While the origin waits for the slowest receiver, the others get
    /// nothing, and they give up a push that is silent for two minutes.
    pub const PATIENCE_MAX: Duration = Duration::from_secs(90);

    /// The defaults for a push of this name, and of this length if it is known.
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

/// The result of a push.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PushReport {
    /// The name at the receivers.
    pub name: String,
    /// The length in bytes.
    pub size_bytes: u64,
    /// The BLAKE3 hash of all bytes in hexadecimal.
    pub blake3: String,
    /// The number of members that have stored the whole, checked.
    pub stored_count: u32,
    /// The names of the members that have stored the whole, checked.
    pub stored: Vec<String>,
    /// The members that have not confirmed that they stored the whole, and why.
    pub failed: Vec<PushFailure>,
    /// Hosts of the inventory that are no members.
    pub absent: Vec<Absent>,
    /// The time from the call to the last answer.
    pub elapsed_seconds: f64,
    /// The length divided by the elapsed time.
    pub bytes_per_second: f64,
}

impl PushReport {
    /// Whether all members have stored the whole, and no host of the inventory is absent.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.absent.is_empty()
    }
}

/// A member that has not confirmed that it stored the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushFailure {
    /// The member's name.
    pub name: String,
    /// The reason, in words.
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
#[error("{0:?} is no file name; expected 1 to 200 bytes without `/`, not starting with `.`")]
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
