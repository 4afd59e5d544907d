//! What came before anybody was there to take it.
//!
//! A node that is started again is a member before its application has subscribed. What
//! reaches it by then, and what its origin kept for it while it was away, waits here for
//! a while for the first subscriber whose filter it matches.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Message;
use crate::catalogue;
use crate::topic::{Topic, TopicFilter, is_reserved};

/// How long after the start of a node its messages wait for a subscriber. A guess: an
/// application that starts together with its node is up by then.
const WAIT: Duration = Duration::from_secs(30);
/// How many wait. A guess, as for a subscriber's queue.
const MAX: usize = 1024;
/// How many bytes of payloads; one message always fits.
const MAX_BYTES: usize = 4 << 20;
/// Of how many topics it is told how many messages found no room; of further ones the
/// metrics tell.
const MAX_TOPICS: usize = 64;

/// Messages without a subscriber, until a node is no longer young. Further ones are left
/// out and counted, and whoever would have got them is told.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    waiting: VecDeque<Message>,
    bytes: usize,
    /// How many messages found no room, by topic; at most [`MAX_TOPICS`].
    left_out: BTreeMap<Topic, u64>,
    /// Until when, or `None` if it is over.
    until: Option<Instant>,
}

impl Unclaimed {
    /// Of a node that starts now.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            left_out: BTreeMap::new(),
            until: Some(now + WAIT),
        }
    }

    /// Whether a message of this topic waits if it has no subscriber: one that is for a
    /// node that was away, and asks no answer of subscribers.
    pub(crate) fn holds(&self, topic: &Topic, was_away: bool, asks: bool) -> bool {
        self.until.is_some() && was_away && !asks && !is_reserved(topic)
    }

    /// When the node is young no longer, if something waits until then.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| !self.waiting.is_empty())
    }

    /// Nobody came for what waits still.
    pub(crate) fn end_if_due(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            drop_unclaimed("late", self.waiting.len());
            self.waiting = VecDeque::new();
            self.bytes = 0;
            self.left_out = BTreeMap::new();
        }
    }

    /// This message has no subscriber.
    pub(crate) fn hold(&mut self, mut message: Message) {
        let bytes = self.bytes.saturating_add(message.payload.len());
        let is_long = bytes > MAX_BYTES && !self.waiting.is_empty();
        if is_long || self.waiting.len() >= MAX {
            let has_room = self.left_out.len() < MAX_TOPICS;
            if has_room || self.left_out.contains_key(&message.topic) {
                *self.left_out.entry(message.topic).or_default() += 1;
            }
            return drop_unclaimed("full", 1);
        }
        // A copy: a slice would keep all that came with it.
        message.payload = Bytes::copy_from_slice(&message.payload);
        self.bytes = bytes;
        self.waiting.push_back(message);
    }

    /// What a new subscriber wants of it, in the order in which it came, and how much of
    /// that was left out.
    pub(super) fn claim(&mut self, filter: &TopicFilter) -> (Vec<Message>, u64) {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (wanted, rest): (Vec<Message>, Vec<Message>) =
            all.partition(|message| filter.matches(&message.topic));
        self.waiting = rest.into();
        let claimed: usize = wanted.iter().map(|message| message.payload.len()).sum();
        self.bytes -= claimed;
        let mut left_out = 0;
        self.left_out.retain(|topic, count| {
            let is_wanted = filter.matches(topic);
            left_out += if is_wanted { *count } else { 0 };
            !is_wanted
        });
        (wanted, left_out)
    }
}

fn drop_unclaimed(reason: &'static str, count: usize) {
    if count > 0 {
        let dropped = catalogue::UNCLAIMED_DROPPED.with([reason]);
        dropped.increment(count as u64);
    }
}
