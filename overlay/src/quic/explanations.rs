//! Texts about refused handshakes: the meaning of each metric label, and the remedy.

/// The remedy for a node that learns of a newer process of its own identity.
pub(super) const OLD_BOOT_REMEDY: &str =
    "stop the other process that has this node's certificate, or correct this host's clock";

/// The meaning of each metric label, worded for a certificate or a handshake.
pub(super) const REASONS: [(&str, &str); 31] = [
    (
        "bad_certificate",
        "it cannot be read, or is not meant for this use",
    ),
    ("bad_signature", "its holder does not have the key"),
    ("broken", "the connection broke"),
    ("busy", "this node has no room for another link"),
    ("closed_by_peer", "the peer closed the connection"),
    (
        "crowded_out",
        "its address has more handshakes in progress than others that wait",
    ),
    ("duplicate", "another process has this identity"),
    ("expired", "expired"),
    ("greeting", "the greeting was refused"),
    ("no_certificate", "no certificate"),
    ("no_common_protocol", "another application protocol"),
    ("no_contact", "no address of it is known"),
    ("no_room", "this node has no room for another peer"),
    (
        "no_route",
        "its address is of another family than this node's",
    ),
    ("not_a_peer", "it names no node of this cluster"),
    (
        "not_admitted",
        "another process of this identity is linked, or was last",
    ),
    ("not_yet_valid", "not yet valid"),
    ("old_boot", "a newer process of this identity is linked"),
    ("quic", "the connection broke"),
    ("refused", "too many handshakes are in progress"),
    ("revoked", "revoked"),
    ("self", "it has this node's own identity"),
    ("stopping", "this node is stopping"),
    ("timed_out", "no answer"),
    ("tls", "TLS failed"),
    (
        "too_many_links",
        "it has as many connections to this node as one peer may have",
    ),
    ("unknown_authority", "unknown authority"),
    ("unresolved", "its name does not resolve"),
    ("version", "another protocol version"),
    ("wrong_peer", "another identity"),
    ("other", "for another reason"),
];

/// The meaning of a metric label.
pub(super) fn of(label: &str) -> &'static str {
    let known = REASONS.iter().find(|(known, _)| *known == label);
    known.map_or("for another reason", |(_, meaning)| meaning)
}

/// The remedy for an operator whose node refused a peer.
pub(super) fn remedy(label: &str) -> &'static str {
    match label {
        "expired" => "issue a new certificate for the peer, or correct the clock of this host",
        "not_yet_valid" => "compare the clocks of both hosts",
        "revoked" => "issue a new certificate for the peer if it is to be a member",
        "unknown_authority" => {
            "issue the peer's certificate from an authority in this node's `ca` file, or add \
             its authority to that file; with a job's secret, give all nodes the same \
             --job-secret and --job-id"
        }
        "not_a_peer" => {
            "issue the peer's certificate with `binomesh ca issue`, by the authority of this cluster"
        }
        "no_certificate" => "find the program that connects without a certificate: it is no node",
        "bad_certificate" | "bad_signature" | "tls" => {
            "issue certificate and key of the peer anew, both at once"
        }
        "no_common_protocol" | "version" | "greeting" => "run the same release on both hosts",
        "wrong_peer" => "correct the name or the address of one of the two",
        "duplicate" | "not_admitted" => {
            "stop one of the two processes, or give one a certificate of its own"
        }
        "old_boot" => "stop one of the two processes, or correct the clock of the peer's host",
        "self" => {
            "stop the other process that has this node's certificate, or take this node's own \
             address out of its `seeds`"
        }
        "busy" | "no_room" | "crowded_out" | "too_many_links" => {
            "see the table of bounds in docs/bounds.md"
        }
        "no_route" => "bind an address of the same family as the peer's",
        "unresolved" => "see that the name is in DNS or in /etc/hosts, and is spelt right",
        "timed_out" => "see that the peer runs and that UDP packets reach its address",
        _ => "none is needed unless this goes on: the peer is tried again",
    }
}

/// The remedy for an operator whose node's own certificate was refused.
pub(super) fn own_remedy(label: &str) -> &'static str {
    match label {
        "expired" => "renew this node's certificate, or correct the clock of the peer's host",
        "not_yet_valid" => "compare the clocks of both hosts",
        "revoked" => "issue a new certificate for this node if it is to be a member",
        "unknown_authority" => {
            "issue this node's certificate from an authority in the peer's `ca` file, or add \
             its authority to that file"
        }
        "no_common_protocol" => "run the same release on both hosts",
        _ => "issue certificate and key of this node anew, both at once",
    }
}
