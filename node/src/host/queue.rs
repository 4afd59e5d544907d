//! The queue of messages of this node's own users: those that wait for the relay, and those that
//! the relay has.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use binomesh_routing::packet::{Confirmation, Payloads};
use tokio::time::Instant;

use super::now;
use super::outgoing::Reply;
use crate::command::{Destination, Outgoing, SendError};
use crate::settings::Strategy;

/// The most messages that wait for room in the window or for the roster; one more is refused as
/// busy.
const MAX_WAITING: usize = 4096;
/// The most bytes of payload that wait; a message beyond is refused as busy.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Messages may share a packet if their deadlines differ by at most this, and by at most a tenth of
/// the younger message's time. The receipt of the packet is due at the earliest of their deadlines.
/// A guess: no user sees the difference.
const SAME_TIME: Duration = Duration::from_millis(10);

/// From this number of open packets on, a short message waits for others to share its packet. A
/// guess: fewer packets keep no core and no link busy.
const FEW_OPEN: usize = 4;
/// The longest time that a message waits to share a packet. A guess: less than the receipts of
/// [`FEW_OPEN`] packets take.
const HOLD: Duration = Duration::from_millis(2);
/// The most bytes of a shared packet while fewer than [`FEW_OPEN`] packets are open: each hop
/// receives a packet in full before it passes it on, so a long packet takes longer. A guess: half a
/// millisecond at 1 Gbit/s.
const FEW_BYTES: usize = 48 << 10;

/// A message that the relay has taken.
pub(super) struct Open {
    pub(super) since: Instant,
    pub(super) is_for_all: bool,
    pub(super) confirmation: Confirmation,
    /// Names of members for which the receipt does not wait.
    pub(super) excused: Arc<[String]>,
    /// Whether the message gives up members soon after they are called down ([`crate::Due::Soon`]).
    pub(super) is_soon: bool,
    pub(super) reply: Reply,
}

/// The messages of this node's users for which the relay has not given a receipt yet.
#[derive(Default)]
pub(super) struct OpenMessages {
    /// Messages that the relay has, by sequence; the relay's window bounds them.
    pub(super) open: BTreeMap<u64, Open>,
    /// Messages that the relay has not taken yet, oldest first.
    pub(super) waiting: VecDeque<Waiting>,
    /// The bytes of the waiting payloads.
    waiting_bytes: usize,
    /// The number of waiting messages that ask their receivers for an answer.
    asking: usize,
    /// The deadlines of waiting messages, and how many messages have each.
    deadlines: BTreeMap<Instant, usize>,
    /// Whether the relay may have room for the waiting messages.
    pub(super) has_room: bool,
    /// The number of open packets when the relay last did not take the oldest message; `None` once
    /// the message is tried again.
    pub(super) refused_at: Option<usize>,
    /// The end of the time for which the waiting messages are held back to share a packet; `None`
    /// while they are not.
    pub(super) held_until: Option<Instant>,
    /// Whether messages are no longer held back, since this node leaves.
    pub(super) is_last: bool,
}

/// A message that the relay has not taken yet.
pub(super) struct Waiting {
    /// The receivers; all members if there is no list.
    pub(super) to: Option<Vec<Destination>>,
    pub(super) since: Instant,
    pub(super) outgoing: Outgoing,
    /// The error to answer if the deadline passes.
    pub(super) because: SendError,
}

impl Waiting {
    fn deadline(&self) -> Option<Instant> {
        let time = self.outgoing.due.time()?;
        self.since.checked_add(time)
    }

    /// Whether this message asks its receivers for an answer.
    fn is_asking(&self) -> bool {
        self.outgoing.confirmation != Confirmation::Relayed
    }

    /// Whether this message may share a packet with an older one.
    fn goes_with(&self, older: &Self) -> bool {
        let (mine, other) = (&self.outgoing, &older.outgoing);
        self.to == older.to
            && mine.topic == other.topic
            && mine.strategy == other.strategy
            // With `circulant` each message goes down a tree of its own.
            && mine.strategy != Strategy::Circulant
            && mine.excused == other.excused
            && mine.confirmation == other.confirmation
            && mine.is_ordered == other.is_ordered
            && std::mem::discriminant(&mine.due) == std::mem::discriminant(&other.due)
            && match (self.deadline(), older.deadline()) {
                (None, None) => true,
                (Some(end), Some(other)) => {
                    let most = SAME_TIME.min(mine.due.time().unwrap_or_default() / 10);
                    other <= end && end.saturating_duration_since(other) <= most
                }
                _ => false,
            }
    }
}

impl OpenMessages {
    /// When the first deadline of a waiting message passes, or messages have been held back enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = self.deadlines.keys().next().copied();
        first.into_iter().chain(self.held_until).min()
    }

    /// Whether the `together` oldest messages wait a moment for others to share their packet.
    pub(super) fn holds(&mut self, together: usize, open: usize) -> bool {
        let oldest = self.waiting.front();
        let another = oldest.map_or(0, |oldest| oldest.outgoing.payload.len());
        let goes_alone = oldest.is_some_and(|one| one.outgoing.strategy == Strategy::Circulant);
        let is_full = goes_alone
            || together >= Payloads::MAX_COUNT
            || together < self.waiting.len()
            || self.waiting_bytes + another > Payloads::MAX_BYTES;
        let until = oldest.and_then(|oldest| {
            let until = oldest.since + HOLD;
            // An urgent message is not held back.
            let urgent = |end| end < oldest.since + 10 * HOLD;
            let is_urgent = oldest.deadline().is_some_and(urgent);
            (!is_urgent && now() < until).then_some(until)
        });
        let may = !self.is_last && open >= FEW_OPEN && !is_full;
        self.held_until = until.filter(|_| may);
        self.held_until.is_some()
    }

    /// The number of messages that wait or that the relay has.
    pub(super) fn count(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// The bytes of the waiting messages, and their limit.
    pub(super) const fn waiting_bytes(&self) -> (usize, usize) {
        (self.waiting_bytes, MAX_WAITING_BYTES)
    }

    pub(super) fn has_room_for(&self, outgoing: &Outgoing) -> bool {
        let bytes = self.waiting_bytes + outgoing.payload.len();
        self.waiting.len() < MAX_WAITING && bytes <= MAX_WAITING_BYTES
    }

    /// The number of waiting messages that ask their receivers for an answer.
    pub(super) const fn asking(&self) -> usize {
        self.asking
    }

    pub(super) fn push(&mut self, message: Waiting) {
        self.waiting_bytes += message.outgoing.payload.len();
        self.asking += usize::from(message.is_asking());
        if let Some(end) = message.deadline() {
            *self.deadlines.entry(end).or_default() += 1;
        }
        self.waiting.push_back(message);
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Waiting> {
        let message = self.waiting.remove(place)?;
        self.uncount(&message);
        Some(message)
    }

    /// A message no longer waits: take it out of the counts.
    fn uncount(&mut self, message: &Waiting) {
        self.waiting_bytes -= message.outgoing.payload.len();
        self.asking -= usize::from(message.is_asking());
        if let Some(end) = message.deadline()
            && let Entry::Occupied(mut count) = self.deadlines.entry(end)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Remove the messages whose deadlines have passed, oldest first.
    pub(super) fn remove_overdue(&mut self) -> Vec<Waiting> {
        let now = now();
        if self
            .deadlines
            .keys()
            .next()
            .is_none_or(|first| *first > now)
        {
            return Vec::new();
        }
        let is_over = |message: &Waiting| message.deadline().is_some_and(|end| end <= now);
        let all = std::mem::take(&mut self.waiting);
        let (over, waiting): (Vec<_>, Vec<_>) = all.into_iter().partition(is_over);
        self.waiting = waiting.into();
        over.iter().for_each(|message| self.uncount(message));
        over
    }

    /// How many waiting messages share the next packet, counted from the oldest, while `open`
    /// packets are open.
    pub(super) fn together(&self, open: usize) -> usize {
        let Some(oldest) = self.waiting.front() else {
            return 0;
        };
        let most = match open < FEW_OPEN {
            true => FEW_BYTES,
            false => Payloads::MAX_BYTES,
        };
        let mut bytes = 0;
        let fits = |message: &&Waiting| {
            bytes += message.outgoing.payload.len();
            bytes <= most && message.goes_with(oldest)
        };
        let together = self.waiting.iter().take(Payloads::MAX_COUNT);
        together.take_while(fits).count().max(1)
    }
}

#[cfg(test)]
mod tests;
