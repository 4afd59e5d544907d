//! The values that a node shows to a scrape beside its counters.

use binomesh_overlay::quic::LinkReport;

use crate::report::{NodeReport, SlowPeer};

/// The state of a node at the time of a scrape.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// The node and its neighbours.
    pub report: NodeReport,
    /// The node's links, by the ids of their peers; at most [`Scrape::NAMED_MAX`].
    pub links: Vec<LinkReport>,
    /// The peers that keep messages waiting, the slowest first; at most [`Scrape::NAMED_MAX`].
    pub slow: Vec<SlowPeer>,
    /// The missing members that callers at this node wait for: the collective's name and the
    /// member's; at most [`Scrape::NAMED_MAX`].
    pub missing: Vec<(String, String)>,
}

impl Scrape {
    /// The most entries of each kind that have series of their own. A guess: as many as the links
    /// of a member among 2^64, or of one with 60 children. With more, a scrape of a large cluster
    /// grows.
    pub const NAMED_MAX: usize = 128;
}
