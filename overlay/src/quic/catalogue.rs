//! The metrics of the transport, each with its meaning.

use metrics::Unit;

use super::explanations;
use crate::registry;

/// The classes of frames: see [`PlainClass`](super::PlainClass).
const CLASSES: [(&str, &str); 3] = [
    ("maintenance", "state of the overlay"),
    ("control", "acknowledgements and credits of the relay"),
    ("packet", "messages and parts of them"),
];

/// The reasons why a frame is refused: see [`RefusedFrame`](super::RefusedFrame).
const REFUSED_FRAMES: [(&str, &str); 5] = [
    ("oversized", "longer than its class allows"),
    ("truncated", "its stream ended within it"),
    ("version", "of another version"),
    ("malformed", "it does not parse"),
    ("overdue", "begun and not ended in time"),
];

registry! {
    /// The metrics of a [`Transport`](super::Transport).
    pub TRANSPORT:
    Gauge LINKS = "binomesh_transport_links"
        "peers with a live link, as the host of the transport was told";
    Counter LINKS_UP = "binomesh_transport_links_up_total"
        "links that came up";
    Counter LINKS_DOWN = "binomesh_transport_links_down_total"
        "links that went down";
    Counter DIALS = "binomesh_transport_dials_total"
        "attempts to reach an address of a peer";
    Counter ACCEPTED = "binomesh_transport_accepted_total"
        "incoming connections whose peer was identified and had room";
    Counter RETRIED = "binomesh_transport_handshakes_retried_total"
        "incoming handshakes that had to prove their address first, as half of the places for handshakes were taken";
    Counter HANDSHAKES_FAILED = "binomesh_transport_handshake_failures_total"
        { "reason": explanations::REASONS }
        "handshakes, incoming and outgoing, that gave no link, and peers that could not be dialled; a reason is in the words of the side that refuses";
    Counter DUPLICATES = "binomesh_transport_duplicates_total"
        "connections of a second process with the identity of a linked one";
    Counter QUESTIONS = "binomesh_transport_questions_total"
        "questions to a linked process whether it still lives, as another has its identity";
    Counter LIVES_FORGOTTEN = "binomesh_transport_lives_forgotten_total"
        "lives of peers that were forgotten to make room for those of others";
    Counter LIVES_OUTDATED = "binomesh_transport_lives_outdated_total"
        "connections of a process whose identity a newer process has";
    Counter REPLACED_LINKS = "binomesh_transport_replaced_links_total"
        "connections that came while another one to the same process stayed, such as of two dials at once";
    Counter DOUBTS = "binomesh_transport_doubts_total"
        "silent links beside which the peer was dialled again";
    Counter DRAINS_OVERDUE = "binomesh_transport_drains_overdue_total"
        "links that were ending and were closed with frames on their way, after waiting long enough";
    Counter FRAMES_RECEIVED = "binomesh_transport_frames_received_total" { "class": CLASSES }
        "frames that came from peers";
    Counter FRAMES_SENT = "binomesh_transport_frames_sent_total" { "class": CLASSES }
        "frames that went to peers";
    Counter BYTES_RECEIVED = "binomesh_transport_bytes_received_total" { "class": CLASSES }
        [unit: Unit::Bytes]
        "bytes of frames that came from peers";
    Counter BYTES_SENT = "binomesh_transport_bytes_sent_total" { "class": CLASSES }
        [unit: Unit::Bytes]
        "bytes of frames that went to peers";
    Counter FULL = "binomesh_transport_full_total" { "class": CLASSES }
        "frames that the queue to their peer had no room for";
    Counter DROPPED_FRAMES = "binomesh_transport_dropped_frames_total"
        "frames that waited for a link to a peer that could not be reached";
    Counter REFUSED = "binomesh_transport_refused_frames_total" { "reason": REFUSED_FRAMES }
        "frames of peers that were refused";
    Counter CONTACTS_TOLD = "binomesh_transport_contacts_told_total"
        "addresses of peers that were told to others";
    Counter CONTACTS_UNKNOWN = "binomesh_transport_contacts_unknown_total"
        "peers whose address should have been told and is not known";
    Counter CONTACTS_TURNED_AWAY = "binomesh_transport_contacts_turned_away_total"
        "addresses that others told of a peer and that were not taken";
    Counter CONTACTS_FORGOTTEN = "binomesh_transport_contacts_forgotten_total"
        "addresses that were forgotten to make room for others";
    Counter PEERS_TURNED_AWAY = "binomesh_transport_peers_turned_away_total"
        "peers for whose links there was no room";
    Counter HOST_WAITS = "binomesh_transport_host_waits_total"
        "times that the transport waited for its host to take what had come";
    Counter LARGE_WAITS = "binomesh_transport_large_waits_total"
        "long messages that waited, as their peer had many on their way";
    Counter ASSEMBLY_WAITS = "binomesh_transport_assembly_waits_total"
        "long messages that waited, as their peer had many that were not whole";
    Counter BEATS_DISPLACED = "binomesh_transport_beats_displaced_total"
        "signs of life that pushed out an earlier one which had not been sent";
    Gauge SEND_BUFFER = "binomesh_transport_socket_send_buffer_bytes" [unit: Unit::Bytes]
        "the socket's buffer for sending, as the kernel granted it";
    Gauge RECEIVE_BUFFER = "binomesh_transport_socket_receive_buffer_bytes" [unit: Unit::Bytes]
        "the socket's buffer for receiving, as the kernel granted it";
}

#[cfg(test)]
mod tests {
    use super::super::frame::{PlainClass, RefusedFrame};
    use super::{CLASSES, REFUSED_FRAMES};

    #[test]
    fn labels_are_those_of_the_enumerations() {
        let classes = PlainClass::ALL.map(|class| class.name());
        assert_eq!(CLASSES.map(|(class, _)| class), classes);
        let refused = RefusedFrame::ALL.map(|frame| frame.name());
        assert_eq!(REFUSED_FRAMES.map(|(reason, _)| reason), refused);
    }
}
