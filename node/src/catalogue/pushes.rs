//! The counters of pushes. Pushes and receptions run in tasks of their own, which may have
//! another recorder than the node, so the node's counters are fetched beforehand.

use metrics::Counter;

use super as catalogue;

/// The counters of pushes of one node, which all of its tasks that push or receive increment.
#[derive(Debug)]
pub(crate) struct PushCounts {
    /// Pushes that all members have stored, while no host of the inventory was absent.
    pub(crate) complete: Counter,
    /// Pushes that came to their end, but some members have not stored them, or hosts of the
    /// inventory were absent.
    pub(crate) incomplete: Counter,
    /// Pushes that did not come to their end.
    pub(crate) failed: Counter,
    /// Bytes of what this node has pushed, each once for all receivers.
    pub(crate) bytes_sent: Counter,
    /// Bytes that this node took of the pushes of other nodes.
    pub(crate) bytes_received: Counter,
    /// Files that came here whole and checked. Streams that an application reads do not count.
    pub(crate) files_stored: Counter,
    /// Files that were refused here, or given up before they were whole.
    pub(crate) files_failed: Counter,
    /// Pieces that were not taken.
    pub(crate) pieces_refused: Counter,
}

impl PushCounts {
    /// The counters of the recorder that is in force where this is called.
    pub(crate) fn of_this_node() -> Self {
        let pushes = |outcome: &'static str| catalogue::PUSHES.with([outcome]);
        Self {
            complete: pushes("complete"),
            incomplete: pushes("incomplete"),
            failed: pushes("failed"),
            bytes_sent: catalogue::PUSH_BYTES_SENT.get(),
            bytes_received: catalogue::PUSH_BYTES_RECEIVED.get(),
            files_stored: catalogue::FILES_STORED.get(),
            files_failed: catalogue::FILES_FAILED.get(),
            pieces_refused: catalogue::FILE_PIECES_REFUSED.get(),
        }
    }
}
