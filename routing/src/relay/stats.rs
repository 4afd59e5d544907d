//! The counters and gauges of a relay.

use crate::packet::CustodyRefusal;

/// Counters since the start, and a few gauges of the present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RelayStats {
    /// Own messages that were accepted.
    pub published: u64,
    /// Publications, each of one packet, that were not accepted because the window was full.
    pub window_full: u64,
    /// Own broadcasts that waited for a complete roster.
    pub waited: u64,
    /// How many of the broadcasts in `waited` went out before the roster was complete, after
    /// `roster_wait`.
    pub waited_in_vain: u64,
    /// Messages delivered to local subscribers.
    pub delivered: u64,
    /// Packets whose messages had all been delivered before.
    pub duplicates: u64,
    /// Packets sent for own messages and for others, repetitions included.
    pub packets_sent: u64,
    /// Copies that waited until earlier copies to the same peer were answered, or for their turn.
    pub held_back: u64,
    /// Copies sent again to the same peer, and repeated offers of a copy, which ask whether one has
    /// arrived.
    pub retries: u64,
    /// Late parts that were handed to another peer, or that were routed round their delegate.
    pub redelegations: u64,
    /// Late parts that had to wait because the budget was used up, or their duty had handed on too
    /// many parts.
    pub over_budget: u64,
    /// Searches for another hop that ended because the search budget was used up.
    pub over_search: u64,
    /// Ranks to which no way was found, and that were excepted alone.
    pub skipped: u64,
    /// Parts that this node handed out in the place of a delegate without room.
    pub taken_over: u64,
    /// Parts taken from a delegate that answered nothing, to reach it over other peers.
    pub gone_round: u64,
    /// Parts that were taken from a late delegate and given back, because it answered before any
    /// other peer was sent a copy of them.
    pub given_back: u64,
    /// Parts handed to another peer because their delegate is down or has left.
    pub bypassed: u64,
    /// Re-issues of own messages to their outstanding members.
    pub reissues: u64,
    /// Own messages that were kept for absent members.
    pub kept: u64,
    /// Members without a line in the receipt of an own broadcast, because they had left before.
    pub excused: u64,
    /// Copies with a turn that were sent out of turn, because too many were waiting.
    pub unpaced: u64,
    /// How often the set of peers that no message waits for may have grown.
    pub losses: u64,
    /// Publications, each of one packet, that were not accepted because the room for kept messages
    /// was full.
    pub kept_full: u64,
    /// Streams of ordered own messages whose numbering was forgotten for lack of room.
    pub streams_forgotten: u64,
    /// Intervals of deliveries that were forgotten because all origins together had too many.
    pub deliveries_forgotten: u64,
    /// Own messages whose receipt was emitted.
    pub receipts: u64,
    /// How often two exceptions of a duty became one, because there were too many.
    pub summarised: u64,
    /// Refusals that a delegate reported of another member, and that count as *unconfirmed* until
    /// the origin has asked that member itself.
    pub refusals_checked: u64,
    /// How often an origin's own packet took back hearsay about its boot or mark.
    pub hearsay_undone: u64,
    /// Refusals of own messages by members that never stood at the rank under which a roster listed
    /// them.
    pub misnamed: u64,
    /// Ranks whose holder, known by hearsay alone, did not answer. They are routed to from then on.
    pub roster_doubted: u64,
    /// Roster answers that contradicted known ranks.
    pub roster_rejected: u64,
    /// Refusals that this node gave, in the order of [`CustodyRefusal::ALL`].
    pub refused: [u64; CustodyRefusal::ALL.len()],
    /// Messages by strategy `flood` that were not passed on for lack of room.
    pub floods_skipped: u64,
    /// Hellos of neighbours in the sibling tree.
    pub hellos: u64,
    /// Hellos of peers that are no neighbours of this node in the sibling tree.
    pub hellos_rejected: u64,
    /// Gauge: open duties for others.
    pub open_duties: usize,
    /// Gauge: parts that open duties for others have handed on.
    pub delegations: usize,
    /// Gauge: bytes of payloads, names and signatures that open duties for others hold.
    pub duty_bytes: usize,
    /// Gauge: own messages that are kept for absent members; those of one packet count as one.
    pub kept_messages: usize,
    /// Gauge: open own messages, kept ones included; those of one packet count as one.
    pub open_messages: usize,
    /// Gauge: open own messages that wait for a complete roster; those of one packet count as one.
    pub waiting_messages: usize,
    /// Gauge: bytes of payloads and signatures that open own messages hold.
    pub message_bytes: usize,
    /// Gauge: packets that are held for an unknown epoch.
    pub held_packets: usize,
    /// Gauge: bytes of payloads, names and signatures of packets held for an unknown epoch.
    pub held_bytes: usize,
}

impl RelayStats {
    pub(super) fn count_refusal(&mut self, reason: CustodyRefusal) {
        if let Some(counter) = self.refused.get_mut(reason as usize) {
            *counter += 1;
        }
    }
}
