//! What this process and its nodes say to each other: a line of JSON each.

use std::net::SocketAddr;

use binomesh::NodeReport;
use serde::{Deserialize, Serialize};

/// What a node is to do. Each order has one answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Listen, and know who is above and how many are below.
    Start {
        /// None for node 0.
        parent: Option<SocketAddr>,
        /// How many will dial it, if it is a bare one.
        children: u32,
    },
    /// Go on when all connections stand.
    Join,
    /// Say how it sees the cluster.
    Report,
    /// Count what comes from now on, and keep the time of each if asked to.
    Count {
        /// Of each, not only of the last.
        keeps: bool,
    },
    /// Send messages with pauses between; node 0 alone.
    SendSpaced {
        /// Of each.
        bytes: usize,
        /// How many.
        count: u64,
        /// From one to the next.
        pause_us: u64,
    },
    /// Send messages back to back; node 0 alone.
    SendFor {
        /// Of each.
        bytes: usize,
        /// For how long.
        millis: u64,
    },
    /// Wait until so many have come since the order to count.
    Await {
        /// How many.
        messages: u64,
    },
    /// Say what its process has used.
    Usage,
    /// Stop.
    End,
}

/// What a node answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It listens here.
    Started {
        /// On loopback.
        address: SocketAddr,
    },
    /// How it sees the cluster.
    Report {
        /// Of a node of ours.
        report: Box<NodeReport>,
    },
    /// All were sent, and have their receipts if there are any.
    Sent {
        /// By the clock that all processes share.
        times_ns: Vec<u64>,
        /// How many.
        messages: u64,
    },
    /// All have come.
    Arrived {
        /// By the clock that all processes share.
        times_ns: Vec<u64>,
    },
    /// Since its process began.
    Usage {
        /// Of all threads, in user and kernel.
        processor_ns: u64,
        /// How often a thread of it went to sleep of its own will.
        wakeups: u64,
    },
    /// The order was followed.
    Done,
    /// The order could not be followed.
    Failed {
        /// Why.
        reason: String,
    },
}
