//! Messages that came before any subscriber was there to take them.
//!
//! A node that is started again becomes a member before its application has subscribed. Messages
//! that arrive before that, and messages that their origins kept during the node's absence, wait
//! here for a while. The first subscriber whose filter matches gets them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::Message;
use crate::catalogue;
use crate::topic::{Topic, TopicFilter, is_reserved};

/// How long after the start of a node its messages wait for a subscriber. A guess: an application
/// that starts together with its node is up by then. With less, a slow one loses messages.
const WAIT: Duration = Duration::from_secs(30);
/// The most messages that wait. A guess, as for a subscriber's queue.
const MAX: usize = super::Subscription::DEFAULT_CAPACITY;
/// The most bytes of payloads that wait; one message always fits.
const MAX_BYTES: usize = 4 << 20;
/// The most topics for which the messages without room are counted apart; the metrics count those
/// of all topics.
const MAX_TOPICS: usize = 64;

/// Messages that wait for a subscriber, until [`WAIT`] after the start of the node. Messages
/// without room are left out and counted, and a later subscriber is told how many it has missed.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    waiting: VecDeque<Message>,
    bytes: usize,
    /// The number of messages without room, by topic; at most [`MAX_TOPICS`].
    left_out: BTreeMap<Topic, u64>,
    /// When the waiting ends; `None` once it has ended.
    until: Option<Instant>,
}

impl Unclaimed {
    /// The waiting messages of a node that starts now.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            left_out: BTreeMap::new(),
            until: Some(now + WAIT),
        }
    }

    /// Whether a message of this topic waits if it has no subscriber. It does before the end of
    /// [`WAIT`], if it is for a node that was away, asks for no answer of subscribers, and is on no
    /// reserved topic.
    pub(crate) fn holds(&self, topic: &Topic, was_away: bool, asks: bool) -> bool {
        self.until.is_some() && was_away && !asks && !is_reserved(topic)
    }

    /// When the waiting ends, if a message waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| !self.waiting.is_empty())
    }

    /// Drop the messages that no subscriber has claimed in time.
    pub(crate) fn end_if_due(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            drop_unclaimed("late", self.waiting.len());
            self.waiting = VecDeque::new();
            self.bytes = 0;
            self.left_out = BTreeMap::new();
        }
    }

    /// Let a message wait for a subscriber.
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
        message.leave_packet();
        self.bytes = bytes;
        self.waiting.push_back(message);
    }

    /// Take the messages that a new subscriber wants, in the order in which they came, and the
    /// number of such messages that were left out.
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
