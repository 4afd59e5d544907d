//! Clusters of real processes, and many nodes in one process: forming, admission of peers, and
//! faults.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a test measures is shown when it fails"
)]

mod admission;
mod bed;
mod clique;
mod collectives;
mod confirmed;
mod cuts;
mod doubts;
mod expiry;
mod faults;
mod forger;
mod graph;
mod hostile;
mod hosts;
mod launched;
mod leaving;
mod listeners;
mod lives;
mod many_nodes;
mod metrics;
mod monitors;
mod names;
mod ordered;
#[cfg(feature = "planted")]
mod planted;
mod push;
#[path = "../../../overlay/tests/quic/raw_client.rs"]
#[expect(dead_code, reason = "the tests of the transport use all of it")]
mod raw_client;
mod readiness;
mod renewals;
mod restarts;
mod scrapes;
mod sibling_tree;
mod signatures;
mod splits;
mod structure;
