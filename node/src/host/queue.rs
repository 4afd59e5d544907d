//! Messages of this node's own users that wait for the relay, and those that it has.

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

/// How many messages may wait for room in the window or for the roster; one
/// more is refused as busy.
const MAX_WAITING: usize = 1024;
/// How many bytes of payload they may hold; one more is refused as busy.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Messages whose time runs out this far apart, or a tenth of it, share a packet, whose
/// receipt is due with the first. A guess: nobody sees the difference.
const SAME_TIME: Duration = Duration::from_millis(10);

/// With so many packets open or more, a short one waits for more messages to share it. A
/// guess: fewer keep no core and no link busy.
const FEW_OPEN: usize = 4;
/// For so long at most. A guess: less than the receipts of so many packets take.
const HOLD: Duration = Duration::from_millis(2);
/// With fewer open, so many bytes share a packet at most: each hop passes on what it has
/// in full, so the way of a long one is longer. A guess: half a millisecond at 1 Gbit/s.
const FEW_BYTES: usize = 48 << 10;

/// A message that the relay has.
pub(super) struct Open {
    pub(super) since: Instant,
    pub(super) is_for_all: bool,
    pub(super) confirmation: Confirmation,
    /// Who is not waited for.
    pub(super) excused: Arc<[String]>,
    /// Whether it soon gives up whoever is called down.
    pub(super) is_soon: bool,
    pub(super) reply: Reply,
}

/// What became of the messages of this node's users so far.
#[derive(Default)]
pub(super) struct OpenMessages {
    /// Accepted, by sequence; the relay's window bounds them.
    pub(super) open: BTreeMap<u64, Open>,
    /// Not accepted yet, oldest first.
    pub(super) waiting: VecDeque<Waiting>,
    /// Bytes of their payloads.
    waiting_bytes: usize,
    /// When their time runs out, and of how many at that moment.
    deadlines: BTreeMap<Instant, usize>,
    /// Whether there may be room for those that wait.
    pub(super) has_room: bool,
    /// How many packets were open when the relay had no room for the oldest.
    pub(super) refused_at: Option<usize>,
    /// Until when those that wait are held back for others to go along, if they are.
    pub(super) held_until: Option<Instant>,
    /// Nothing is held back any more.
    pub(super) is_last: bool,
}

/// A message that is not accepted yet.
pub(super) struct Waiting {
    /// To whom; to all members if there is no list.
    pub(super) to: Option<Vec<Destination>>,
    pub(super) since: Instant,
    pub(super) outgoing: Outgoing,
    /// The answer, should its time run out.
    pub(super) because: SendError,
}

impl Waiting {
    fn deadline(&self) -> Option<Instant> {
        let time = self.outgoing.due.time()?;
        self.since.checked_add(time)
    }

    /// Whether it may share a packet with an older one.
    fn goes_with(&self, older: &Self) -> bool {
        let (mine, other) = (&self.outgoing, &older.outgoing);
        self.to == older.to
            && mine.topic == other.topic
            && mine.strategy == other.strategy
            // Each takes a way of its own.
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
    /// When the first message that waits runs out of time, or has waited for others.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = self.deadlines.keys().next().copied();
        first.into_iter().chain(self.held_until).min()
    }

    /// Whether the oldest ones, so many of them, wait a moment for others to go along.
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
            // Whoever is in a hurry is not held up.
            let urgent = |end| end < oldest.since + 10 * HOLD;
            let is_urgent = oldest.deadline().is_some_and(urgent);
            (!is_urgent && now() < until).then_some(until)
        });
        let may = !self.is_last && open >= FEW_OPEN && !is_full;
        self.held_until = until.filter(|_| may);
        self.held_until.is_some()
    }

    /// How many wait for their turn, or until the relay is done with them.
    pub(super) fn count(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// The bytes of those that wait for their turn, and how many may.
    pub(super) const fn waiting_bytes(&self) -> (usize, usize) {
        (self.waiting_bytes, MAX_WAITING_BYTES)
    }

    pub(super) fn has_room_for(&self, outgoing: &Outgoing) -> bool {
        let bytes = self.waiting_bytes + outgoing.payload.len();
        self.waiting.len() < MAX_WAITING && bytes <= MAX_WAITING_BYTES
    }

    pub(super) fn push(&mut self, message: Waiting) {
        self.waiting_bytes += message.outgoing.payload.len();
        if let Some(end) = message.deadline() {
            *self.deadlines.entry(end).or_default() += 1;
        }
        self.waiting.push_back(message);
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Waiting> {
        let message = self.waiting.remove(place)?;
        self.waiting_bytes -= message.outgoing.payload.len();
        if let Some(end) = message.deadline()
            && let Entry::Occupied(mut count) = self.deadlines.entry(end)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(message)
    }

    /// Take out one whose time is over.
    pub(super) fn remove_overdue(&mut self) -> Option<Waiting> {
        let first = self.deadlines.keys().next()?;
        let now = now();
        if *first > now {
            return None;
        }
        let is_over = |message: &Waiting| message.deadline().is_some_and(|end| end <= now);
        let place = self.waiting.iter().position(is_over)?;
        self.remove(place)
    }

    /// How many of those that wait go in one packet, from the oldest on, while so many
    /// are open.
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
