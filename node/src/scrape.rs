//! What a node shows to a scrape beside its counters.

use binomesh_overlay::quic::LinkReport;

use crate::report::{NodeReport, SlowPeer};

/// How a node stands at the time of a scrape.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// Itself and its neighbours.
    pub report: NodeReport,
    /// Its links, by the ids of their peers; at most [`Scrape::NAMED_MAX`].
    pub links: Vec<LinkReport>,
    /// Peers that keep messages waiting, who keeps most first; at most
    /// [`Scrape::NAMED_MAX`].
    pub slow: Vec<SlowPeer>,
    /// The name of a collective and of a member that a caller here waits for; at most
    /// [`Scrape::NAMED_MAX`].
    pub missing: Vec<(String, String)>,
}

impl Scrape {
    /// How many of each kind have series of their own. A guess: the links of a member
    /// among 2^64, or of one with 60 children.
    pub const NAMED_MAX: usize = 128;
}
