//! Handles of metrics, made once under the recorder that is current in
//! [`Transport::bind`](super::Transport::bind). So each node of a process can have a recorder of
//! its own, whatever thread a task later runs on.

use metrics::{Counter, Gauge};

use super::catalogue;
use super::explanations;
use super::frame::{PlainClass, RefusedFrame};

/// The frames and bytes of one class.
#[derive(Clone)]
pub(super) struct ClassMetrics {
    pub(super) frames_in: Counter,
    pub(super) frames_out: Counter,
    pub(super) bytes_in: Counter,
    pub(super) bytes_out: Counter,
    pub(super) full: Counter,
}

/// All metric handles of one transport.
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
        let failure = |(reason, _)| (reason, catalogue::HANDSHAKES_FAILED.with([reason]));
        let refused = |reason: RefusedFrame| (reason, catalogue::REFUSED.with([reason.name()]));
        Self {
            classes: PlainClass::ALL.map(|class| ClassMetrics::new(class.name())),
            handshake_failures: explanations::REASONS.map(failure).to_vec(),
            refused_frames: RefusedFrame::ALL.map(refused).to_vec(),
            dials: catalogue::DIALS.get(),
            accepted: catalogue::ACCEPTED.get(),
            retried: catalogue::RETRIED.get(),
            duplicates: catalogue::DUPLICATES.get(),
            questions: catalogue::QUESTIONS.get(),
            lives_forgotten: catalogue::LIVES_FORGOTTEN.get(),
            lives_outdated: catalogue::LIVES_OUTDATED.get(),
            links: catalogue::LINKS.get(),
            links_up: catalogue::LINKS_UP.get(),
            links_down: catalogue::LINKS_DOWN.get(),
            dropped_frames: catalogue::DROPPED_FRAMES.get(),
            replaced_links: catalogue::REPLACED_LINKS.get(),
            doubts: catalogue::DOUBTS.get(),
            drains_overdue: catalogue::DRAINS_OVERDUE.get(),
            contacts_told: catalogue::CONTACTS_TOLD.get(),
            contacts_unknown: catalogue::CONTACTS_UNKNOWN.get(),
            contacts_turned_away: catalogue::CONTACTS_TURNED_AWAY.get(),
            contacts_forgotten: catalogue::CONTACTS_FORGOTTEN.get(),
            peers_turned_away: catalogue::PEERS_TURNED_AWAY.get(),
            host_waits: catalogue::HOST_WAITS.get(),
            large_waits: catalogue::LARGE_WAITS.get(),
            beats_displaced: catalogue::BEATS_DISPLACED.get(),
            assembly_waits: catalogue::ASSEMBLY_WAITS.get(),
            send_buffer: catalogue::SEND_BUFFER.get(),
            receive_buffer: catalogue::RECEIVE_BUFFER.get(),
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
            frames_in: catalogue::FRAMES_RECEIVED.with([class]),
            frames_out: catalogue::FRAMES_SENT.with([class]),
            bytes_in: catalogue::BYTES_RECEIVED.with([class]),
            bytes_out: catalogue::BYTES_SENT.with([class]),
            full: catalogue::FULL.with([class]),
        }
    }
}
