//! What nodes and monitors are called in certificates: SPIFFE URIs of the trust domain.

/// The SPIFFE URI of a node.
pub fn node_uri(trust_domain: &str, name: &str) -> String {
    format!("spiffe://{trust_domain}/node/{name}")
}

/// What the URIs of all monitors begin with: programs that read metrics, and are no nodes.
pub fn monitor_form(trust_domain: &str) -> String {
    format!("spiffe://{trust_domain}/monitor/")
}
