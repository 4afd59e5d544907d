//! Messages of this node's own users, from the queue to the relay.
//!
//! They wait in a queue until the relay takes them, a moment as a rule. Those that are
//! there together and go the same way go in one packet: so many short messages cost
//! little more than one. Behind a few packets that are open a short message waits a moment
//! for others to go along, and packets may be longer; otherwise one that is alone never
//! waits for another.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::packet::{Confirmation, Payloads};
use binomesh_routing::{self as routing, PublishError};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::open::id_of;
use super::{Host, now};
use crate::catalogue;
use crate::command::{Destination, Due, Outgoing, SendError};
use crate::report::Receipt;
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

pub(super) type Reply = oneshot::Sender<Result<Receipt, SendError>>;

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
    waiting: VecDeque<Waiting>,
    /// Bytes of their payloads.
    waiting_bytes: usize,
    /// When their time runs out, and of how many at that moment.
    deadlines: BTreeMap<Instant, usize>,
    /// Whether there may be room for those that wait.
    has_room: bool,
    /// How many packets were open when the relay had no room for the oldest.
    refused_at: Option<usize>,
    /// Until when those that wait are held back for others to go along, if they are.
    held_until: Option<Instant>,
    /// Nothing is held back any more.
    is_last: bool,
}

/// A message that is not accepted yet.
struct Waiting {
    /// To whom; to all members if there is no list.
    to: Option<Vec<Destination>>,
    since: Instant,
    outgoing: Outgoing,
    /// The answer, should its time run out.
    because: SendError,
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
    fn holds(&mut self, together: usize, open: usize) -> bool {
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

    fn has_room_for(&self, outgoing: &Outgoing) -> bool {
        let bytes = self.waiting_bytes + outgoing.payload.len();
        self.waiting.len() < MAX_WAITING && bytes <= MAX_WAITING_BYTES
    }

    fn push(&mut self, message: Waiting) {
        self.waiting_bytes += message.outgoing.payload.len();
        if let Some(end) = message.deadline() {
            *self.deadlines.entry(end).or_default() += 1;
        }
        self.waiting.push_back(message);
    }

    fn remove(&mut self, place: usize) -> Option<Waiting> {
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
    fn remove_overdue(&mut self) -> Option<Waiting> {
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
    fn together(&self, open: usize) -> usize {
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

impl Host {
    /// A user wants a message sent, to all members if there is no list. It goes when
    /// the loop comes round.
    pub(super) fn submit(&mut self, to: Option<Vec<Destination>>, outgoing: Outgoing) {
        if !self.messages.has_room_for(&outgoing) {
            // Those that wait may only not have been tried yet.
            self.attend_waiting();
        }
        let is_asking = outgoing.confirmation != Confirmation::Relayed;
        let has_room = !is_asking || self.collections.has_room();
        let is_unplaced = self.peer.relay().roster().is_none();
        if is_unplaced && outgoing.due.time().is_none() {
            // Who gives no time wants to hear at once that there is no place.
            let _ = outgoing.reply.send(Err(SendError::NotReady));
            return;
        }
        let messages = &mut self.messages;
        if !has_room || !messages.has_room_for(&outgoing) {
            let full = if has_room { "messages" } else { "collections" };
            catalogue::SENDS_REFUSED.with([full]).increment(1);
            let _ = outgoing.reply.send(Err(SendError::Busy));
            return;
        }
        messages.has_room |= messages.waiting.is_empty() || messages.held_until.is_some();
        messages.push(Waiting {
            to,
            since: now(),
            outgoing,
            because: match is_unplaced {
                true => SendError::NotReady,
                false => SendError::Busy,
            },
        });
    }

    /// This node leaves: what waits goes at once.
    pub(super) fn send_all_waiting(&mut self) {
        self.messages.is_last = true;
        self.note_room();
        self.attend_waiting();
    }

    /// Room or a roster may have come: those that wait are tried when the loop
    /// comes round.
    pub(super) const fn note_room(&mut self) {
        self.messages.has_room = true;
    }

    /// Try those that wait, in order, and answer those whose time is over.
    pub(super) fn attend_waiting(&mut self) {
        let open = self.peer.relay().open_packets();
        // What is kept from now on for members that are away takes no room any more.
        self.messages.has_room |= self.messages.refused_at.is_some_and(|then| open < then);
        let is_held_no_longer = self.messages.held_until.is_some_and(|until| now() >= until);
        if std::mem::take(&mut self.messages.has_room) || is_held_no_longer {
            self.messages.held_until = None;
            self.messages.refused_at = None;
            while !self.messages.waiting.is_empty() && self.publish_oldest() {}
            self.attend_answers();
        }
        let mut is_less = false;
        while let Some(message) = self.messages.remove_overdue() {
            tell_not_sent(message.outgoing.reply, message.because);
            is_less = true;
        }
        if is_less && !self.messages.waiting.is_empty() {
            // What was behind those need not wait for the same.
            self.note_room();
            self.attend_waiting();
        }
    }

    /// Publish the oldest that waits, with those that go in the same packet. Returns
    /// whether they wait no more.
    fn publish_oldest(&mut self) -> bool {
        let open = self.peer.relay().open_packets();
        let count = self.messages.together(open);
        if self.messages.holds(count, open) {
            return false;
        }
        let together = self.messages.waiting.iter().take(count);
        let payloads: Vec<Bytes> = together.map(|m| m.outgoing.payload.clone()).collect();
        let (Some(oldest), Some(payloads)) =
            (self.messages.waiting.front(), Payloads::join(&payloads))
        else {
            return false;
        };
        let destination = match &oldest.to {
            None if oldest.outgoing.excused.is_empty() => routing::Destination::All,
            None => {
                let names = oldest.outgoing.excused.iter();
                let peers = names.map(|name| id_of(&self.trust_domain, name));
                routing::Destination::AllBut(peers.collect())
            }
            Some(to) => routing::Destination::Peers(to.iter().map(|d| self.id_of(d)).collect()),
        };
        let publish = routing::Publish {
            topic: oldest.outgoing.topic.clone(),
            payloads,
            destination,
            strategy: oldest
                .outgoing
                .strategy
                .strategy(self.config.fanout, oldest.outgoing.left),
            due: self.due_of(oldest),
            confirmation: oldest.outgoing.confirmation,
            is_ordered: oldest.outgoing.is_ordered,
        };
        let has_time = oldest.outgoing.due.time().is_some();
        let outcome = self.publish(publish);
        let because = match outcome {
            Err(PublishError::Unplaced) if has_time => SendError::NotReady,
            Err(PublishError::WindowFull(_) | PublishError::MemoryFull { .. }) => SendError::Busy,
            Err(PublishError::RosterIncomplete(_)) => SendError::NotReady,
            _ => {
                self.take_accepted(count, outcome);
                self.perform();
                return true;
            }
        };
        self.messages.refused_at = Some(open);
        for message in self.messages.waiting.iter_mut().take(count) {
            message.because = because.clone();
        }
        // Others may have ended for the sake of it.
        self.perform();
        false
    }

    /// The oldest ones wait no more: the relay has them, or will never take them.
    fn take_accepted(
        &mut self,
        count: usize,
        outcome: Result<routing::PacketId<PeerId>, PublishError<PeerId>>,
    ) {
        let refused = outcome.map_err(|error| {
            let oldest = self.messages.waiting.front();
            self.explain(error, oldest.and_then(|oldest| oldest.to.as_deref()))
        });
        for place in 0..count as u64 {
            let Some(Waiting {
                to,
                since,
                outgoing,
                ..
            }) = self.messages.remove(0)
            else {
                return;
            };
            match &refused {
                Ok(first) => {
                    let sequence = first.sequence + place;
                    let confirmation = outgoing.confirmation;
                    if let Some(time) = outgoing.due.time()
                        && confirmation != Confirmation::Relayed
                    {
                        let left = time.saturating_sub(now() - since);
                        self.collections.begin(sequence, super::after(left));
                    }
                    let open = Open {
                        since,
                        is_for_all: to.is_none(),
                        confirmation,
                        excused: outgoing.excused,
                        is_soon: matches!(outgoing.due, Due::Soon(_)),
                        reply: outgoing.reply,
                    };
                    self.messages.open.insert(sequence, open);
                }
                Err(error) => tell_not_sent(outgoing.reply, error.clone()),
            }
        }
    }

    fn due_of(&self, message: &Waiting) -> routing::Due<PeerId> {
        let due = message.outgoing.due;
        let left = |time: Duration| time.saturating_sub(now() - message.since);
        match due {
            Due::Settled => routing::Due::Settled,
            Due::Within(time) => routing::Due::Within(left(time)),
            Due::Soon(time) => routing::Due::Soon(left(time)),
            Due::Until(time) => routing::Due::Kept {
                time: left(time),
                awaited: match message.to {
                    None => self.inventory.peers(),
                    Some(_) => Vec::new(),
                },
            },
        }
    }

    fn explain(&self, error: PublishError<PeerId>, to: Option<&[Destination]>) -> SendError {
        // As the user called it: no other name may be known.
        let as_given = |peer: PeerId| {
            let mut all = to.into_iter().flatten();
            let given = all.find(|destination| self.id_of(destination) == peer);
            given.map_or_else(|| self.name_of(peer), ToString::to_string)
        };
        match error {
            PublishError::UnknownPeer(peer) | PublishError::HasLeft(peer) => {
                SendError::UnknownPeers(vec![as_given(peer)])
            }
            PublishError::OwnId => {
                SendError::UnknownPeers(vec![format!("{} (this node itself)", self.config.name)])
            }
            PublishError::PayloadTooLarge { bytes, max } => SendError::TooLarge {
                size_bytes: bytes,
                max_bytes: max,
            },
            PublishError::NoDestination => SendError::NoDestination,
            PublishError::Draining => SendError::Stopped,
            PublishError::RosterTooLarge(..) | PublishError::TooManyAwaited(..) => {
                SendError::RosterTooLarge
            }
            PublishError::KeptFull(_) => SendError::KeptFull,
            PublishError::NotSigned => SendError::NotSigned,
            _ => SendError::NotReady,
        }
    }

    pub(super) fn id_of(&self, destination: &Destination) -> PeerId {
        match destination {
            Destination::Id(id) => *id,
            Destination::Name(name) => id_of(&self.trust_domain, name),
        }
    }
}

/// A message that has waited will get no receipt.
fn tell_not_sent(reply: Reply, because: SendError) {
    catalogue::RECEIPTS.with(["not_sent"]).increment(1);
    // Whoever asked may have gone.
    let _ = reply.send(Err(because));
}

#[cfg(test)]
mod tests;
