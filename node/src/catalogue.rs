//! What a node counts besides its transport: each metric with its meaning.

use binomesh_overlay::quic::catalogue::TRANSPORT;
use binomesh_overlay::quic::registry::Registry;
use binomesh_overlay::registry;
use metrics::Unit;

mod labels;

/// A label whose values are not known beforehand.
const ANY: [(&str, &str); 0] = [];

registry! {
    /// How a node stands in its cluster.
    pub STANDING:
    Gauge HEALTHY = "binomesh_healthy"
        "1 if the node has a rank, and each of its neighbours is known and linked";
    Gauge READY = "binomesh_ready"
        "1 if the node is healthy and in the overlay of its cluster rather than on an island";
    Counter UNREADY = "binomesh_unready_total"
        "times that the node has been unready for 5 s and said so in the log";
    Gauge LOST_MEMBERS = "binomesh_lost_members"
        "former members that went without a goodbye and are not back";
    Gauge INVENTORY_ABSENT = "binomesh_inventory_absent"
        "nodes of the setting `expect` that are not members";
    Gauge RANK = "binomesh_rank"
        "position in the ring; -1 without one";
    Gauge POPULATION = "binomesh_population"
        "members of the current epoch; 0 without a rank";
    Gauge LINKS = "binomesh_links"
        "peers with a live authenticated link";
    Gauge CHILDREN = "binomesh_children"
        "children in the deployment tree";
    Gauge BOOT = "binomesh_boot_timestamp_seconds" [unit: Unit::Seconds]
        "the life of this process, as others know it: mostly when it began, in seconds since 1970";
    Counter LIVES_BEGUN = "binomesh_lives_begun_total"
        "times that this process took a newer life, as another process had its identity or its clock was set back";
    Counter PEERS_DOWN = "binomesh_peers_down_total"
        "verdicts that a peer is down";
    Counter PEERS_UP = "binomesh_peers_up_total"
        "peers that were down and are up again";
    Counter PEERS_LEFT = "binomesh_peers_left_total"
        "peers that said goodbye";
    Counter VERDICTS_EXPIRED = "binomesh_verdicts_expired_total"
        "verdicts that ended with their time, as nobody said them again";
    Counter RELINKED = "binomesh_relinked_total"
        "times that the ring closed around members that are down";
    Counter RENUMBERED = "binomesh_renumbered_total"
        "new epochs: members have new ranks";
    Counter COMPACTED = "binomesh_compacted_total"
        "of these, how many had fewer members than the one before";
    Gauge OVERLAY_ENTRIES = "binomesh_overlay_entries" { "list": ANY }
        "how long a list of the overlay is; `relayed` counts the peers that are reached through others";
    Gauge OVERLAY_ENTRIES_MAX = "binomesh_overlay_entries_max" { "list": ANY }
        "how long that list can become";
    Counter OVERLAY_MESSAGES = "binomesh_overlay_messages_total" { "kind": labels::MESSAGES }
        "messages of the overlay to other nodes";
    Counter RUMOURS_DROPPED = "binomesh_rumours_dropped_total"
        "rumours for which there was no room in the batch that waits for their peer";
    Counter SENDS_FAILED = "binomesh_sends_failed_total" { "reason": labels::SENDS_FAILED }
        "messages to other nodes that could not be queued";
    Counter MESSAGES_REFUSED = "binomesh_messages_refused_total" { "reason": labels::UNPROVEN }
        "messages of other nodes that were not taken";
}

registry! {
    /// Messages, receipts and what waits for them.
    pub DELIVERY:
    Counter RELAY_EVENTS = "binomesh_relay_events_total" { "event": labels::RELAY_EVENTS }
        "what the relay did";
    Counter RELAY_REFUSED = "binomesh_relay_refused_total" { "reason": labels::RELAY_REFUSALS }
        "packets and parts of messages that this node refused";
    Gauge RELAY_OPEN = "binomesh_relay_open" { "kind": labels::RELAY_OPEN }
        "what the relay has not finished";
    Gauge RELAY_BYTES = "binomesh_relay_bytes" [unit: Unit::Bytes]
        "bytes of payloads and names that it holds for that";
    Histogram RECEIPT_SECONDS = "binomesh_receipt_seconds" [unit: Unit::Seconds]
        "time from a message of this node to its receipt";
    Gauge SLOW_PEER = "binomesh_slow_peer" { "peer": ANY, "kind": labels::DUE }
        "what a peer keeps waiting";
    Gauge SLOW_PEERS_UNNAMED = "binomesh_slow_peers_unnamed"
        "slow peers beyond those 64 that have a series of their own";
    Counter SENDS_REFUSED = "binomesh_sends_refused_total" { "full": labels::FULL }
        "messages of local users that were refused for want of room";
    Counter SUBSCRIBERS_REFUSED = "binomesh_subscribers_refused_total"
        "subscribers above the bound";
    Counter SUBSCRIBER_MISSED = "binomesh_subscriber_missed_total"
        "messages that local subscribers had no room for, or panicked at";
    Counter UNCLAIMED_DROPPED = "binomesh_unclaimed_dropped_total" { "reason": labels::UNCLAIMED }
        "messages to a node that was just started again and that no subscriber got";
    Counter LISTENER_SLOW = "binomesh_listener_slow_total"
        "packets for whose messages a function was called that held up the node for 10 ms or more";
    Counter LISTENER_PANICS = "binomesh_listener_panics_total"
        "functions that were called for a message and have panicked";
    Counter ORDER_EVENTS = "binomesh_order_events_total" { "event": labels::ORDER_EVENTS }
        "what subscriptions in order met";
    Gauge ANSWERS_WAITING = "binomesh_answers_waiting"
        "answers of local subscribers that are on their way to who asked";
    Counter ANSWERS_DROPPED = "binomesh_answers_dropped_total"
        "answers of local subscribers for which there was no room";
    Counter ANSWERS_REFUSED = "binomesh_answers_refused_total"
        "answers of other nodes to nothing that this process has asked";
    Gauge COLLECTIONS_OPEN = "binomesh_collections_open"
        "messages of this node whose answers are being collected";
    Gauge COLLECTIONS_BYTES = "binomesh_collections_bytes" [unit: Unit::Bytes]
        "bytes of answers that have been collected for them";
    Counter FILES_STORED = "binomesh_files_stored_total"
        "pushed files that were stored here, whole and checked";
    Counter FILE_PIECES_REFUSED = "binomesh_file_pieces_refused_total"
        "pieces of pushed files that were not taken";
    Counter CHAINS_JUDGED = "binomesh_signature_chains_judged_total"
        "certificate chains that came with signatures and were judged, as they were not known";
    Counter SIGNATURES_FAILED = "binomesh_signatures_failed_total"
        "messages of this node that it could not sign";
    Gauge COLLECTIVE_CALLERS = "binomesh_collective_callers"
        "callers of collectives that wait at this node";
    Gauge COLLECTIVE_MISSING = "binomesh_collective_missing" { "name": ANY, "member": ANY }
        "1 while a caller here waits for this member to come to a collective of this name";
    Gauge COLLECTIVE_MISSING_UNNAMED = "binomesh_collective_missing_unnamed"
        "members that callers here wait for, beyond those 64 that have a series of their own";
    Counter COLLECTIVES = "binomesh_collectives_total" { "verb": labels::VERBS, "outcome": labels::OUTCOMES }
        "answers to callers of collectives, those not counted whose members are not known";
    Histogram COLLECTIVE_SECONDS = "binomesh_collective_seconds" { "verb": labels::VERBS }
        [unit: Unit::Seconds]
        "time from a call of a collective to its answer";
    Counter COLLECTIVE_MESSAGES_DROPPED = "binomesh_collective_messages_dropped_total"
        "messages about collectives that found no room before the relay; who misses them asks again";
    Counter VOTES_UNRECORDED = "binomesh_votes_unrecorded_total"
        "votes of collectives that could not be recorded in the state folder, after which this node votes no more";
}

registry! {
    /// The process: its credentials, its log, and who asks it.
    pub PROCESS:
    Gauge CREDENTIAL_END = "binomesh_credential_end_timestamp_seconds" { "document": labels::DOCUMENTS }
        [unit: Unit::Seconds]
        "when the document of this kind that ends first will end, in seconds since 1970";
    Counter CREDENTIAL_RELOADS = "binomesh_credential_reloads_total" { "outcome": labels::RELOADS }
        "times that the credentials were read again";
    Gauge CREDENTIAL_RELOAD = "binomesh_credential_reload_timestamp_seconds" [unit: Unit::Seconds]
        "when they were read again last, in seconds since 1970, whatever came of it";
    Counter LOG_LINES_LOST = "binomesh_log_lines_lost_total"
        "lines of the log that could not be written: nobody reads it any more, its disk is full, or there were more than 64 KiB a second";
    Counter ADMIN_WAITS = "binomesh_admin_waits_total"
        "times that the admin API had as many connections with requests as it serves";
    Counter ADMIN_CROWDED_OUT = "binomesh_admin_crowded_out_total"
        "connections to the admin API or the metrics port that had no request and made room for new ones";
    Counter METRICS_REFUSED = "binomesh_metrics_refused_total" { "reason": labels::METRICS_REFUSALS }
        "readers of metrics that were refused at a port with TLS";
}

/// All registries of a node, its transport's first.
pub const ALL: [&Registry; 4] = [&TRANSPORT, &STANDING, &DELIVERY, &PROCESS];
