//! Texts about refused handshakes: the meaning of each metric label, and the remedy.

/// The remedy for a node that learns of a newer process of its own identity.
pub(super) const OLD_BOOT_REMEDY: &str = "stop the other process that has the certificate of this node, or correct the clock of this \
     host";

/// The meaning of each metric label, worded for a certificate or a handshake.
pub(super) const REASONS: [(&str, &str); 31] = [
    (
        "bad_certificate",
        "the certificate cannot be read, or is not meant for this use",
    ),
    (
        "bad_signature",
        "the sender of the certificate does not have its key",
    ),
    ("broken", "the connection broke"),
    ("busy", "this node has no room for another link"),
    ("closed_by_peer", "the peer closed the connection"),
    (
        "crowded_out",
        "the address of the peer has more handshakes in progress than the other waiting addresses",
    ),
    ("duplicate", "another process has this identity"),
    ("expired", "the certificate has expired"),
    ("greeting", "the greeting was refused"),
    ("no_certificate", "no certificate was sent"),
    (
        "no_common_protocol",
        "the two sides have no common application protocol",
    ),
    ("no_contact", "no address of the peer is known"),
    ("no_room", "this node has no room for another peer"),
    (
        "no_route",
        "no socket of this node has the address family of the peer",
    ),
    (
        "not_a_peer",
        "the certificate names no node of this cluster",
    ),
    (
        "not_admitted",
        "another process of this identity is linked, or was the last one linked",
    ),
    ("not_yet_valid", "the certificate is not yet valid"),
    ("old_boot", "a newer process of this identity is linked"),
    ("quic", "the connection broke"),
    ("refused", "too many handshakes are in progress"),
    ("revoked", "the certificate is revoked"),
    ("self", "the peer has the identity of this node"),
    ("stopping", "this node is stopping"),
    ("timed_out", "the peer does not answer"),
    ("tls", "TLS failed"),
    (
        "too_many_links",
        "the peer has as many connections to this node as one peer may have",
    ),
    (
        "unknown_authority",
        "the certificate is of an unknown authority",
    ),
    ("unresolved", "the name of the peer does not resolve"),
    ("version", "the peer speaks another protocol version"),
    ("wrong_peer", "another node answers at this address"),
    ("other", "for another reason"),
];

/// The meaning of a metric label.
pub(super) fn of(label: &str) -> &'static str {
    let known = REASONS.iter().find(|(known, _)| *known == label);
    known.map_or("for another reason", |(_, meaning)| meaning)
}

/// The remedy for an operator whose node refused a peer, or could not reach it.
pub(super) fn remedy(label: &str) -> &'static str {
    match label {
        "expired" => "issue a new certificate for the peer, or correct the clock of this host",
        "not_yet_valid" => "compare the clocks of both hosts",
        "revoked" => "issue a new certificate for the peer if the peer should be a member",
        "unknown_authority" => {
            "issue the peer's certificate from an authority in this node's `ca` file, or add \
             its authority to that file; with a job's secret, give all nodes the same \
             --job-secret and --job-id"
        }
        "not_a_peer" => {
            "issue the peer's certificate with `binomesh ca issue`, by the authority of this cluster"
        }
        "no_certificate" => {
            "find the program that connects without a certificate, since it is no \
                             node"
        }
        "bad_certificate" | "bad_signature" | "tls" => {
            "issue a new certificate and a new key for the peer, both at once"
        }
        "no_common_protocol" | "version" | "greeting" => "run the same release on both hosts",
        "wrong_peer" => {
            "correct the name or the address of one of the two nodes, in the settings that name the \
             peer or in its own `advertise`"
        }
        "duplicate" | "not_admitted" => {
            "stop one of the two processes, or give one a certificate of its own"
        }
        "old_boot" => "stop one of the two processes, or correct the clock of the peer's host",
        "self" => {
            "stop the other process that has the certificate of this node, or remove the address \
             of this node from its own `seeds`"
        }
        "busy" | "no_room" | "crowded_out" | "too_many_links" => {
            "see the table of bounds in docs/bounds.md"
        }
        "no_route" => "set `bind` to an address of the same family as the address of the peer",
        "unresolved" => "check the spelling of the name, and its entry in DNS or /etc/hosts",
        "timed_out" => "check that the peer runs and that UDP packets reach its address",
        _ => "no action is needed unless this repeats, since the node tries the peer again",
    }
}

/// The remedy for an operator whose node's own certificate was refused.
pub(super) fn own_remedy(label: &str) -> &'static str {
    match label {
        "expired" => "renew this node's certificate, or correct the clock of the peer's host",
        "not_yet_valid" => "compare the clocks of both hosts",
        "revoked" => "issue a new certificate for this node if this node should be a member",
        "unknown_authority" => {
            "issue this node's certificate from an authority in the peer's `ca` file, or add \
             its authority to that file"
        }
        "no_common_protocol" => "run the same release on both hosts",
        _ => "issue a new certificate and a new key for this node, both at once",
    }
}
