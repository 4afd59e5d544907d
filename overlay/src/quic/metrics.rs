//! Counters, made once under the recorder that is current in
//! [`Transport::bind`](super::Transport::bind): many nodes of one process can
//! each have their own recorder, whatever thread a task later runs on.

use metrics::{Counter, Gauge, counter, gauge};

use super::frame::{PlainClass, RefusedFrame};

/// Labels of `binomesh_transport_handshake_failures_total`.
pub(super) const HANDSHAKE_FAILURES: [&str; 31] = [
    "bad_certificate",
    "bad_signature",
    "broken",
    "busy",
    "closed_by_peer",
    "crowded_out",
    "duplicate",
    "expired",
    "greeting",
    "no_certificate",
    "no_common_protocol",
    "no_contact",
    "no_room",
    "no_route",
    "not_a_peer",
    "not_admitted",
    "not_yet_valid",
    "old_boot",
    "quic",
    "refused",
    "revoked",
    "self",
    "stopping",
    "timed_out",
    "tls",
    "too_many_links",
    "unknown_authority",
    "unresolved",
    "version",
    "wrong_peer",
    "other",
];

/// Frames and bytes of one class.
#[derive(Clone)]
pub(super) struct ClassMetrics {
    pub(super) frames_in: Counter,
    pub(super) frames_out: Counter,
    pub(super) bytes_in: Counter,
    pub(super) bytes_out: Counter,
    pub(super) full: Counter,
}

/// All handles of one transport.
#[derive(Clone)]
pub(super) struct Metrics {
    pub(super) classes: [ClassMetrics; 3],
    handshake_failures: Vec<(&'static str, Counter)>,
    refused_frames: Vec<(RefusedFrame, Counter)>,
    pub(super) dials: Counter,
    pub(super) accepted: Counter,
    pub(super) retried: Counter,
    pub(super) duplicates: Counter,
    pub(super) questions: Counter,
    pub(super) lives_forgotten: Counter,
    pub(super) lives_outdated: Counter,
    pub(super) links: Gauge,
    pub(super) links_up: Counter,
    pub(super) links_down: Counter,
    pub(super) dropped_frames: Counter,
    pub(super) replaced_links: Counter,
    pub(super) doubts: Counter,
    pub(super) drains_overdue: Counter,
    pub(super) contacts_told: Counter,
    pub(super) contacts_unknown: Counter,
    pub(super) contacts_turned_away: Counter,
    pub(super) contacts_forgotten: Counter,
    pub(super) peers_turned_away: Counter,
    pub(super) host_waits: Counter,
    pub(super) large_waits: Counter,
    pub(super) beats_displaced: Counter,
    pub(super) assembly_waits: Counter,
    pub(super) send_buffer: Gauge,
    pub(super) receive_buffer: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let failure = |reason| {
            let name = "binomesh_transport_handshake_failures_total";
            (reason, counter!(name, "reason" => reason))
        };
        let refused = |reason: RefusedFrame| {
            let name = "binomesh_transport_refused_frames_total";
            (reason, counter!(name, "reason" => reason.name()))
        };
        Self {
            classes: PlainClass::ALL.map(|class| ClassMetrics::new(class.name())),
            handshake_failures: HANDSHAKE_FAILURES.map(failure).to_vec(),
            refused_frames: RefusedFrame::ALL.map(refused).to_vec(),
            dials: counter!("binomesh_transport_dials_total"),
            accepted: counter!("binomesh_transport_accepted_total"),
            retried: counter!("binomesh_transport_handshakes_retried_total"),
            duplicates: counter!("binomesh_transport_duplicates_total"),
            questions: counter!("binomesh_transport_questions_total"),
            lives_forgotten: counter!("binomesh_transport_lives_forgotten_total"),
            lives_outdated: counter!("binomesh_transport_lives_outdated_total"),
            links: gauge!("binomesh_transport_links"),
            links_up: counter!("binomesh_transport_links_up_total"),
            links_down: counter!("binomesh_transport_links_down_total"),
            dropped_frames: counter!("binomesh_transport_dropped_frames_total"),
            replaced_links: counter!("binomesh_transport_replaced_links_total"),
            doubts: counter!("binomesh_transport_doubts_total"),
            drains_overdue: counter!("binomesh_transport_drains_overdue_total"),
            contacts_told: counter!("binomesh_transport_contacts_told_total"),
            contacts_unknown: counter!("binomesh_transport_contacts_unknown_total"),
            contacts_turned_away: counter!("binomesh_transport_contacts_turned_away_total"),
            contacts_forgotten: counter!("binomesh_transport_contacts_forgotten_total"),
            peers_turned_away: counter!("binomesh_transport_peers_turned_away_total"),
            host_waits: counter!("binomesh_transport_host_waits_total"),
            large_waits: counter!("binomesh_transport_large_waits_total"),
            beats_displaced: counter!("binomesh_transport_beats_displaced_total"),
            assembly_waits: counter!("binomesh_transport_assembly_waits_total"),
            send_buffer: gauge!("binomesh_transport_socket_send_buffer_bytes"),
            receive_buffer: gauge!("binomesh_transport_socket_receive_buffer_bytes"),
        }
    }

    pub(super) fn class(&self, class: PlainClass) -> &ClassMetrics {
        let [maintenance, control, packet] = &self.classes;
        match class {
            PlainClass::Maintenance => maintenance,
            PlainClass::Control => control,
            PlainClass::Packet => packet,
        }
    }

    pub(super) fn handshake_failed(&self, reason: &str) {
        let known = self.handshake_failures.iter().find(|(r, _)| *r == reason);
        if let Some((_, counter)) = known.or(self.handshake_failures.last()) {
            counter.increment(1);
        }
    }

    pub(super) fn frame_refused(&self, reason: RefusedFrame) {
        let known = self.refused_frames.iter().find(|(r, _)| *r == reason);
        if let Some((_, counter)) = known {
            counter.increment(1);
        }
    }
}

impl ClassMetrics {
    fn new(class: &'static str) -> Self {
        Self {
            frames_in: counter!("binomesh_transport_frames_received_total", "class" => class),
            frames_out: counter!("binomesh_transport_frames_sent_total", "class" => class),
            bytes_in: counter!("binomesh_transport_bytes_received_total", "class" => class),
            bytes_out: counter!("binomesh_transport_bytes_sent_total", "class" => class),
            full: counter!("binomesh_transport_full_total", "class" => class),
        }
    }
}
