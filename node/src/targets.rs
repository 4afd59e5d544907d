//! The places of the metrics of a cluster's nodes, in the form of Prometheus' targets, which it
//! reads from an address (`http_sd`) or a file (`file_sd`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The port of metrics in the examples. A node without metrics of its own assumes this port for
/// nodes whose port is not known.
pub(crate) const USUAL_PORT: u16 = 9464;

/// A node whose metrics are to be scraped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetGroup {
    /// The node's metrics address: `host:port`.
    pub targets: Vec<String>,
    /// The labels: `node`, the node's name; `cluster`, the trust domain; [`TargetGroup::STATE`];
    /// and `__scheme__` if the metrics are read over TLS.
    pub labels: BTreeMap<String, String>,
}

/// The standing of a target in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetState {
    /// The node is a member. Without a roster, the linked peers count as members.
    Member,
    /// The node was a member, and went without a goodbye less than a day ago. The address of its
    /// metrics was known.
    Lost,
    /// The setting `expect` names the node. It is neither a member nor linked, and not in the list
    /// as [`Self::Lost`].
    Expected,
}

impl fmt::Display for TargetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "member",
            Self::Lost => "lost",
            Self::Expected => "expected",
        })
    }
}

/// The address of a node's metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPlace {
    /// The host name or IP address, and the port.
    pub address: String,
    /// Whether the metrics are read over TLS.
    pub is_tls: bool,
}

impl TargetGroup {
    /// The label of the [`TargetState`]. Scrapers drop labels of this form after relabelling. A
    /// label that stays would make `up` another series when a member is lost.
    pub const STATE: &str = "__meta_binomesh_state";

    /// A target for a node and the place of its metrics.
    pub fn new(node: &str, cluster: &str, state: TargetState, place: MetricsPlace) -> Self {
        let MetricsPlace { address, is_tls } = place;
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut labels = BTreeMap::from([
            label("node", node),
            label("cluster", cluster),
            label(Self::STATE, &state.to_string()),
        ]);
        if is_tls {
            labels.extend([label("__scheme__", "https")]);
        }
        Self {
            targets: vec![address],
            labels,
        }
    }
}
