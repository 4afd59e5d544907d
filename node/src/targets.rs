//! Where the metrics of a cluster's nodes are, in the form in which Prometheus takes targets:
//! from an address (`http_sd`) or a file (`file_sd`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The port of metrics in the examples: for nodes of which nobody knows better.
pub(crate) const USUAL_PORT: u16 = 9464;

/// One node whose metrics are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetGroup {
    /// Its address: `host:port`.
    pub targets: Vec<String>,
    /// `node`, its name; `cluster`, the trust domain; [`TargetGroup::STATE`]; and `__scheme__`
    /// if it is read over TLS.
    pub labels: BTreeMap<String, String>,
}

/// How a node is a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetState {
    /// It is a member.
    Member,
    /// It was one, and went without a goodbye less than a day ago.
    Lost,
    /// It is named by `expect` and is neither.
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

/// Where the metrics of a node are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPlace {
    /// The host or its address, and the port.
    pub address: String,
    /// Whether they are read over TLS.
    pub is_tls: bool,
}

impl TargetGroup {
    /// The label of its [`TargetState`]. Scrapers drop labels of this form after relabelling: as
    /// one that stays it would make `up` another series when a member is lost.
    pub const STATE: &str = "__meta_binomesh_state";

    /// A node and the address where its metrics are, over TLS or not.
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
