//! The messages between `peers --processes` and the processes of its nodes: one line of JSON each.

use std::net::SocketAddr;

use binomesh::NodeReport;
use serde::{Deserialize, Serialize};

/// A request to a node. Each request has one response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Listen, with this parent and number of children.
    Start {
        /// The address of the parent; none for node 0.
        parent: Option<SocketAddr>,
        /// How many children will dial this node. Only a bare node uses the number.
        children: u32,
    },
    /// Wait until the connections of this node stand, and count messages from then on.
    Join,
    /// Report the cluster as the node sees it.
    Report,
    /// Count messages from now on.
    Count {
        /// Whether the time of each message is kept, and not only of the last.
        keeps: bool,
    },
    /// Send messages with pauses between them; only for node 0.
    SendSpaced {
        /// The length of each message.
        bytes: usize,
        /// The number of messages.
        count: u64,
        /// The time from the sending of a message to that of the next, unless the receipt comes
        /// later.
        pause_us: u64,
    },
    /// Send messages back to back; only for node 0.
    SendFor {
        /// The length of each message.
        bytes: usize,
        /// The time for which messages are sent.
        millis: u64,
    },
    /// Wait until this many messages have come since the request to count.
    Await {
        /// The number of messages.
        messages: u64,
    },
    /// Report the resources that the process has used.
    Usage,
    /// Stop the node and end its process.
    End,
}

/// A response of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// The node listens at this address.
    Started {
        /// The address of the node on loopback.
        address: SocketAddr,
    },
    /// The cluster as the node sees it.
    Report {
        /// The report of a node of ours.
        report: Box<NodeReport>,
    },
    /// All messages were sent, and have their receipts if the system has any.
    Sent {
        /// When each message was sent, by the clock that all processes share. For messages back to
        /// back: when the first was sent, and when the last receipt came or, without receipts, when
        /// the last message was queued.
        times_ns: Vec<u64>,
        /// The number of messages.
        messages: u64,
    },
    /// All messages have come.
    Arrived {
        /// When each message came, by the clock that all processes share; only the last if the
        /// times are not kept.
        times_ns: Vec<u64>,
    },
    /// The resources since the process began.
    Usage {
        /// The processor time of all threads, in user and kernel.
        processor_ns: u64,
        /// How often a thread of the process went to sleep voluntarily.
        wakeups: u64,
    },
    /// The request was followed.
    Done,
    /// The request could not be followed.
    Failed {
        /// The reason of the failure.
        reason: String,
    },
}
