//! What a relay counts.

use crate::packet::Refusal;

/// Plain counters since the start, and a few gauges of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RelayStats {
    /// Own messages accepted.
    pub published: u64,
    /// Own messages not accepted because the window was full.
    pub window_full: u64,
    /// Own broadcasts that waited for a complete roster.
    pub waited: u64,
    /// Of these, how many went out in an epoch whose roster was not complete in
    /// time.
    pub waited_in_vain: u64,
    /// Messages delivered to local subscribers.
    pub delivered: u64,
    /// Packets of messages that had been delivered before.
    pub duplicates: u64,
    /// Packets sent, own and for others, repetitions included.
    pub packets_sent: u64,
    /// Copies that waited until others to the same peer had arrived.
    pub held_back: u64,
    /// Packets sent again to the same peer, or questions whether they have come.
    pub retries: u64,
    /// Parts handed to somebody else because custody was late.
    pub redelegations: u64,
    /// Late parts that had to wait because the budget was used up.
    pub over_budget: u64,
    /// Searches that ended because the budget for them was used up.
    pub over_search: u64,
    /// Ranks that nobody found, and that were passed over for those behind them.
    pub skipped: u64,
    /// Parts handed out in the place of a delegate that had no room.
    pub taken_over: u64,
    /// Parts taken from a delegate that answered nothing, to find another way.
    pub gone_round: u64,
    /// Parts that were taken from a late delegate and left to it after all, as it answered
    /// before anybody else was sent them.
    pub given_back: u64,
    /// Parts handed to somebody else because of a verdict.
    pub bypassed: u64,
    /// Re-issues of what was left of an own message.
    pub reissues: u64,
    /// Own messages that were kept for members that are away.
    pub kept: u64,
    /// Members that own broadcasts were not meant for, as they had left.
    pub excused: u64,
    /// Copies with a turn that went out of turn, since too many waited.
    pub unpaced: u64,
    /// How often the set of peers that are given up may have grown.
    pub losses: u64,
    /// Own messages not accepted because as many were kept as may be.
    pub kept_full: u64,
    /// Streams of own messages in order that were forgotten for want of room.
    pub streams_forgotten: u64,
    /// Own messages with a receipt.
    pub receipts: u64,
    /// Exceptions folded into wider ones because there were too many.
    pub summarised: u64,
    /// Refusals reported by others than the refusing member, and asked after.
    pub refusals_checked: u64,
    /// Origins' own words that took back what others had said of them.
    pub hearsay_undone: u64,
    /// Refusals of own messages by members that never held the rank under which a roster
    /// listed them.
    pub misnamed: u64,
    /// Ranks whose holder by hearsay did not answer, which are routed to instead.
    pub roster_doubted: u64,
    /// Roster answers that contradicted what is known.
    pub roster_rejected: u64,
    /// Refusals given, in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Messages by `flood` that were not passed on for want of room.
    pub floods_skipped: u64,
    /// Neighbours in the sibling tree that said hello.
    pub hellos: u64,
    /// Hellos of peers that do not belong beside this node.
    pub hellos_rejected: u64,
    /// Gauge: duties for others that are open.
    pub open_duties: usize,
    /// Gauge: parts that they have handed to others.
    pub delegations: usize,
    /// Gauge: bytes of payloads and names that they hold.
    pub duty_bytes: usize,
    /// Gauge: own messages kept for members that are away.
    pub kept_messages: usize,
    /// Gauge: own messages open, those that are kept included.
    pub open_messages: usize,
    /// Gauge: of these, how many wait for a complete roster.
    pub waiting_messages: usize,
    /// Gauge: bytes of payload that open messages hold.
    pub message_bytes: usize,
    /// Gauge: packets held for an unknown epoch.
    pub held_packets: usize,
    /// Gauge: bytes of payloads and names that they hold.
    pub held_bytes: usize,
}

impl RelayStats {
    pub(super) fn count_refusal(&mut self, reason: Refusal) {
        if let Some(counter) = self.refused.get_mut(reason as usize) {
            *counter += 1;
        }
    }
}
