//! Local subscribers and their bounded queues.
//!
//! A subscriber that does not read in time loses messages, never the node its
//! memory or its other subscribers their messages: when a queue is full the new
//! message is left out *for that subscriber*, counted, and the next thing that
//! the subscriber receives after what was queued is [`Received::Missed`] with
//! the number. The receipt still says `delivered`: it speaks of the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use binomesh_overlay::PeerId;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use crate::topic::{Topic, TopicFilter};

/// A message as subscribers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message's id, the same as in its receipt.
    pub id: String,
    /// Who sent it.
    pub origin: PeerId,
    /// The origin's name, or its hexadecimal id while no name is known.
    pub origin_name: String,
    /// The origin's count of its messages.
    pub sequence: u64,
    /// The topic it was published on.
    pub topic: Topic,
    /// What was sent.
    pub payload: Bytes,
}

#[cfg(feature = "admin")]
impl From<&Message> for crate::report::Delivery {
    fn from(message: &Message) -> Self {
        use base64::Engine as _;
        Self {
            id: message.id.clone(),
            origin: message.origin_name.clone(),
            sequence: message.sequence,
            topic: message.topic.to_string(),
            size_bytes: message.payload.len() as u64,
            blake3: blake3::hash(&message.payload).to_hex().to_string(),
            payload_base64: base64::engine::general_purpose::STANDARD.encode(&message.payload),
        }
    }
}

/// What a [`Subscription`] yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, once per subscription.
    Message(Message),
    /// The queue was full: this many messages were left out since the last time.
    Missed(u64),
}

/// A stream of the messages that match a filter. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    queue: mpsc::Receiver<Message>,
    missed: Arc<AtomicU64>,
}

impl Subscription {
    /// How many messages wait for a subscriber before the next is left out. A
    /// guess: a burst of small messages fits, and 64 KiB each stay under 64 MiB.
    pub const DEFAULT_CAPACITY: usize = 1024;

    /// The next message or gap, or `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Received> {
        // What is still queued is older than what was missed.
        if let Ok(message) = self.queue.try_recv() {
            return Some(Received::Message(message));
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => self.queue.recv().await.map(Received::Message),
            missed => Some(Received::Missed(missed)),
        }
    }
}

/// The node's end of a subscription.
#[derive(Debug)]
pub(crate) struct Subscriber {
    filter: TopicFilter,
    queue: mpsc::Sender<Message>,
    missed: Arc<AtomicU64>,
}

/// Both ends of a new subscription with room for `capacity` messages (at least 1,
/// and no more than a channel can have).
pub(crate) fn subscription(filter: TopicFilter, capacity: usize) -> (Subscriber, Subscription) {
    let (sender, queue) = mpsc::channel(capacity.clamp(1, Semaphore::MAX_PERMITS));
    let missed = Arc::new(AtomicU64::new(0));
    let subscriber = Subscriber {
        filter,
        queue: sender,
        missed: missed.clone(),
    };
    (subscriber, Subscription { queue, missed })
}

/// All local subscribers of a node, owned by its loop. At most
/// [`Subscribers::MAX`]; one more is turned away.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    all: Vec<Subscriber>,
}

impl Subscribers {
    /// The most subscribers of one node. A guess: each may hold a full queue.
    pub(crate) const MAX: usize = 256;

    /// Admit a subscriber; `false` if there are too many.
    pub(crate) fn admit(&mut self, subscriber: Subscriber) -> bool {
        self.all.retain(|other| !other.queue.is_closed());
        let fits = self.all.len() < Self::MAX;
        if fits {
            self.all.push(subscriber);
        } else {
            metrics::counter!("binomesh_subscribers_refused_total").increment(1);
        }
        fits
    }

    /// Offer a message to everybody who wants it, without waiting.
    pub(crate) fn offer(&mut self, message: &Message) {
        let mut missed = 0;
        self.all.retain(|subscriber| {
            if !subscriber.filter.matches(&message.topic) {
                return !subscriber.queue.is_closed();
            }
            match subscriber.queue.try_send(message.clone()) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    subscriber.missed.fetch_add(1, Ordering::Relaxed);
                    missed += 1;
                }
            }
            true
        });
        if missed > 0 {
            metrics::counter!("binomesh_subscriber_missed_total").increment(missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64) -> Message {
        Message {
            id: format!("m-{sequence}"),
            origin: PeerId::from_bytes([7; 16]),
            origin_name: "node-0".into(),
            sequence,
            topic: "jobs/a".parse().unwrap(),
            payload: Bytes::from_static(b"x"),
        }
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_what_it_missed_and_others_are_not_hurt() {
        let mut all = Subscribers::default();
        let (slow, mut slow_end) = subscription(TopicFilter::all(), 2);
        let (fast, mut fast_end) = subscription("jobs/#".parse().unwrap(), 8);
        assert!(all.admit(slow) && all.admit(fast));
        for sequence in 0..5 {
            all.offer(&message(sequence));
        }
        for expected in [
            Received::Message(message(0)),
            Received::Message(message(1)),
            Received::Missed(3),
        ] {
            assert_eq!(slow_end.next().await, Some(expected));
        }
        for sequence in 0..5 {
            let expected = Some(Received::Message(message(sequence)));
            assert_eq!(fast_end.next().await, expected);
        }
    }

    #[test]
    fn one_subscriber_too_many_is_refused_and_the_others_are_served() {
        let mut all = Subscribers::default();
        let mut admit = || {
            let (one, end) = subscription(TopicFilter::all(), 1);
            (all.admit(one), end)
        };
        let mut ends: Vec<_> = (0..Subscribers::MAX).map(|_| admit()).collect();
        assert!(ends.iter().all(|(admitted, _)| *admitted));
        assert!(!admit().0);
        ends.pop();
        assert!(admit().0, "a place has become free");
        all.offer(&message(1));
        for (_, end) in &mut ends {
            assert_eq!(end.queue.try_recv(), Ok(message(1)));
        }
    }

    #[tokio::test]
    async fn a_dropped_subscription_frees_its_place() {
        let mut all = Subscribers::default();
        for _ in 0..Subscribers::MAX {
            let (one, end) = subscription(TopicFilter::all(), 1);
            assert!(all.admit(one));
            drop(end);
        }
        let (kept, mut end) = subscription(TopicFilter::all(), usize::MAX);
        assert!(all.admit(kept));
        assert_eq!(all.all.len(), 1);
        drop(all);
        assert_eq!(end.next().await, None);
    }
}
