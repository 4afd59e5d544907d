//! The names of nodes and monitors in certificates: SPIFFE URIs of the trust domain.

use binomesh_overlay::PeerId;

/// The SPIFFE URI of a node.
pub fn node_uri(trust_domain: &str, name: &str) -> String {
    format!("spiffe://{trust_domain}/node/{name}")
}

/// The id of the node with this name.
pub(crate) fn id_of(trust_domain: &str, name: &str) -> PeerId {
    PeerId::of_uri(&node_uri(trust_domain, name))
}

/// The beginning of the URIs of all monitors. A monitor is a program that reads metrics, and is no
/// node.
pub fn monitor_form(trust_domain: &str) -> String {
    format!("spiffe://{trust_domain}/monitor/")
}
