//! What a node counts besides its transport: each metric with its meaning.
//!
//! All metrics live as long as the node, except those of [`NEIGHBOURS`]: each scrape makes these
//! anew, for the neighbours of that moment.

use binomesh_overlay::quic::catalogue::TRANSPORT;
use binomesh_overlay::quic::registry::Registry;
use binomesh_overlay::registry;
use metrics::Unit;

mod labels;
#[cfg(feature = "push")]
pub(crate) mod pushes;

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
    Gauge EPOCH = "binomesh_epoch"
        "the numbering that the rank belongs to, as 48 bits of a hash of its name: members of one overlay have the same, those of two have two; 0 without a rank";
    Gauge POPULATION = "binomesh_population"
        "members of the current epoch; 0 without a rank";
    Gauge LINKS = "binomesh_links"
        "peers with a live authenticated link, members of the same overlay or not";
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
    Histogram DETECTION_SECONDS = "binomesh_detection_seconds" [unit: Unit::Seconds]
        "time from the last sign of life of a neighbour that this node watches until it is called down; the sign is known to half a beat";
    Counter RELINKED = "binomesh_relinked_total"
        "times that the ring closed around members that are down";
    Histogram RELINK_SECONDS = "binomesh_relink_seconds" [unit: Unit::Seconds]
        "time from the verdict that a neighbour in the ring is down until the ring has closed around it";
    Histogram CONVERGENCE_SECONDS = "binomesh_convergence_seconds" [unit: Unit::Seconds]
        "time from the start, or from the loss of a place, an entry or its link, until the node is settled";
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
    Gauge QUEUE_BYTES = "binomesh_queue_bytes" { "queue": labels::QUEUES } [unit: Unit::Bytes]
        "bytes that wait in a queue";
    Gauge QUEUE_BYTES_MAX = "binomesh_queue_bytes_max" { "queue": labels::QUEUES } [unit: Unit::Bytes]
        "how many may wait there until the next are refused";
    Histogram RECEIPT_SECONDS = "binomesh_receipt_seconds" [unit: Unit::Seconds]
        "time from a message of this node to its receipt";
    Counter RECEIPTS = "binomesh_receipts_total" { "outcome": labels::RECEIPTS }
        "finished messages of this node, by the result in their receipts";
    Counter RECEIPT_EXCEPTIONS = "binomesh_receipt_exceptions_total" { "reason": labels::EXCEPTIONS }
        "members that receipts name as not reached, or as not having confirmed as was asked";
    Gauge RECEIPTS_OUTSTANDING = "binomesh_receipts_outstanding"
        "messages of this node, accepted or waiting for their turn, that have no receipt yet";
    Gauge SLOW_PEERS_UNNAMED = "binomesh_slow_peers_unnamed"
        "slow peers beyond those 128 that have a series of their own";
    Counter SENDS_REFUSED = "binomesh_sends_refused_total" { "full": labels::FULL }
        "messages of local users that were refused for want of room";
    Gauge SUBSCRIBERS = "binomesh_subscribers"
        "local subscribers, those for pushed files included";
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
    Counter PUSHES = "binomesh_pushes_total" { "outcome": labels::PUSHES }
        "files and streams that this node has pushed";
    Counter PUSH_BYTES_SENT = "binomesh_push_bytes_sent_total" [unit: Unit::Bytes]
        "bytes of what this node has pushed, each once for all receivers";
    Counter PUSH_BYTES_RECEIVED = "binomesh_push_bytes_received_total" [unit: Unit::Bytes]
        "bytes of what others push that were written here";
    Counter FILES_STORED = "binomesh_files_stored_total"
        "pushed files that were stored here, whole and checked";
    Counter FILES_FAILED = "binomesh_files_failed_total"
        "pushed files that were refused here, or given up before they were whole";
    Counter FILE_PIECES_REFUSED = "binomesh_file_pieces_refused_total"
        "pieces of pushed files that were not taken";
    Counter CHAINS_JUDGED = "binomesh_signature_chains_judged_total"
        "certificate chains that came with signatures and were judged, as they were not known";
    Counter SIGNATURES_FAILED = "binomesh_signatures_failed_total"
        "messages of this node that it could not sign";
    Gauge COLLECTIVE_CALLERS = "binomesh_collective_callers"
        "callers of collectives that wait at this node";
    Gauge COLLECTIVE_MISSING_UNNAMED = "binomesh_collective_missing_unnamed"
        "members that callers here wait for, beyond those 128 that have a series of their own";
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
    /// The neighbours of now, at most 128 of each kind: see [`Scrape`](crate::Scrape).
    pub NEIGHBOURS:
    Gauge LINK_UP_SECONDS = "binomesh_link_up_seconds" { "peer": ANY } [unit: Unit::Seconds]
        "how long the link to this peer is up";
    Gauge LINK_RTT_SECONDS = "binomesh_link_rtt_seconds" { "peer": ANY } [unit: Unit::Seconds]
        "time of a packet to the peer and of its acknowledgement, smoothed";
    Gauge LINK_CONGESTION_WINDOW = "binomesh_link_congestion_window_bytes" { "peer": ANY }
        [unit: Unit::Bytes]
        "how many bytes may be on their way to the peer before it acknowledges some";
    Gauge LINK_MTU = "binomesh_link_mtu_bytes" { "peer": ANY } [unit: Unit::Bytes]
        "the longest UDP payload that the path to the peer is known to carry";
    Counter LINK_DATAGRAMS_SENT = "binomesh_link_datagrams_sent_total" { "peer": ANY }
        "UDP datagrams that went over this link";
    Counter LINK_PACKETS_LOST = "binomesh_link_packets_lost_total" { "peer": ANY }
        "QUIC packets of this link that were taken for lost";
    Counter LINK_CONGESTION_EVENTS = "binomesh_link_congestion_events_total" { "peer": ANY }
        "times that the congestion window of this link shrank";
    Counter LINK_BLACK_HOLES = "binomesh_link_black_holes_total" { "peer": ANY }
        "times that the path of this link turned out to carry shorter packets than it had";
    Gauge LINK_QUEUE_BYTES = "binomesh_link_queue_bytes" { "peer": ANY } [unit: Unit::Bytes]
        "bytes of frames that wait for this link; their bound is `binomesh_queue_bytes_max` of `link`";
    Gauge SLOW_PEER = "binomesh_slow_peer" { "peer": ANY, "kind": labels::DUE }
        "what a peer keeps waiting";
    Gauge COLLECTIVE_MISSING = "binomesh_collective_missing" { "name": ANY, "member": ANY }
        "1 while a caller here waits for this member to come to a collective of this name";
}

registry! {
    /// The process: its resources, credentials and log, and the clients of its admin API and
    /// metrics port.
    pub PROCESS:
    Gauge BUILD_INFO = "binomesh_build_info" { "version": ANY }
        "1, with the version of the program";
    Counter PROCESS_CPU = "process_cpu_seconds_total" [unit: Unit::Seconds]
        "processor time of the process and the kernel for it, in whole seconds";
    Gauge PROCESS_MEMORY = "process_resident_memory_bytes" [unit: Unit::Bytes]
        "memory that the process has";
    Gauge PROCESS_VIRTUAL_MEMORY = "process_virtual_memory_bytes" [unit: Unit::Bytes]
        "addresses that the process has taken, with memory behind them or not";
    Gauge PROCESS_OPEN_FDS = "process_open_fds"
        "file descriptors that are open";
    Gauge PROCESS_MAX_FDS = "process_max_fds"
        "how many may be open; 0 without a bound";
    Gauge PROCESS_THREADS = "process_threads"
        "threads of the process";
    Gauge PROCESS_START = "process_start_time_seconds" [unit: Unit::Seconds]
        "when the process began, in seconds since 1970";
    Gauge CREDENTIAL_BEGIN = "binomesh_credential_begin_timestamp_seconds" { "document": labels::DOCUMENTS }
        [unit: Unit::Seconds]
        "since when the document of this kind that ends first holds, in seconds since 1970";
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
pub const ALL: [&Registry; 5] = [&TRANSPORT, &STANDING, &DELIVERY, &NEIGHBOURS, &PROCESS];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use binomesh_routing::packet::Reason;

    use super::labels;

    #[test]
    fn the_reasons_of_receipts_are_known_beforehand() {
        let known = labels::EXCEPTIONS.map(|(reason, _)| reason);
        let known: BTreeSet<&str> = known.into_iter().collect();
        assert_eq!(known.len(), labels::EXCEPTIONS.len());
        let of_answers = ["no-subscriber", "missed", "no-answer", "no-room"];
        let all = Reason::ALL.map(Reason::name).into_iter().chain(of_answers);
        assert_eq!(known, all.collect());
    }
}
