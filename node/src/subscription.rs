//! Local subscribers and their bounded queues.
//!
//! A subscriber that does not read in time loses messages. It costs neither the node its memory nor
//! other subscribers their messages: when a queue is full, by messages or by bytes, the new message
//! is left out *for that subscriber* and counted. [`Received::Missed`] stands in the message's
//! place in the queue, with the number of messages. The receipt still counts the node as reached.
//! Only an origin that asks for more ([`Confirmation`]) is told of a message that no subscriber had
//! room for.
//!
//! A subscriber may ask for order ([`Hold`]). Its end sorts the messages that come out of the
//! queue, so a message that was left out is a gap like any other.
//!
//! A [`Listener`] has no queue: the node's own task calls it, and does nothing else until it
//! returns.

mod listener;
mod ordering;
mod unclaimed;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use binomesh_overlay::PeerId;
use binomesh_routing::packet::Confirmation;
use binomesh_routing::{Ordered, PacketId};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::catalogue;
use crate::topic::{Topic, TopicFilter};
pub(crate) use listener::Callback;
pub use listener::Listener;
pub(crate) use ordering::OrderMetrics;
use ordering::Ordering;
pub use ordering::{Gap, Hold};
pub(crate) use unclaimed::Unclaimed;

/// A message as subscribers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message's id: its origin, the origin's boot, and the number of the message in that life.
    /// As text it is the same as in the receipt.
    pub id: PacketId<PeerId>,
    /// The origin's name, or its hexadecimal id while no name is known.
    pub origin_name: Arc<str>,
    /// The topic that it was published on.
    pub topic: Topic,
    /// The confirmation that its origin asks for. The node gives it by itself, except for
    /// [`Confirmation::Acknowledged`], which needs [`crate::Node::reply`].
    pub confirmation: Confirmation,
    /// Whether its origin signed it, and this node verified the signature. Otherwise the member
    /// that handed it on is trusted.
    pub is_signed: bool,
    /// Its place in a stream of its origin, if it was published in order.
    pub order: Option<Ordered>,
    /// Whether it comes behind later messages of its stream, after it was reported as missing. Only
    /// subscriptions in order set this.
    pub is_late: bool,
    /// The payload.
    pub payload: Bytes,
}

impl Message {
    /// Copy the payload out of its packet, so that the message keeps no other payload of the packet
    /// in memory while it waits.
    fn leave_packet(&mut self) {
        self.payload = Bytes::copy_from_slice(&self.payload);
    }
}

#[cfg(feature = "admin")]
impl crate::report::Delivery {
    /// A message in the form of the admin API, with or without its payload.
    pub(crate) fn of(message: &Message, has_payload: bool) -> Self {
        use base64::Engine as _;
        let payload = message.payload.get(..).filter(|_| has_payload);
        Self {
            id: message.id.to_string(),
            origin: message.origin_name.to_string(),
            sequence: message.id.sequence,
            topic: message.topic.to_string(),
            signed: message.is_signed,
            order: message.order.map(|ordered| ordered.order),
            late: message.is_late,
            wants_reply: message.confirmation == Confirmation::Acknowledged,
            size_bytes: message.payload.len() as u64,
            blake3: blake3::hash(&message.payload).to_hex().to_string(),
            payload_base64: base64::engine::general_purpose::STANDARD
                .encode(payload.unwrap_or_default()),
        }
    }
}

/// An item of a [`Subscription`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, once per subscription.
    Message(Message),
    /// This many messages were left out at this place, since the queue was full. The first such
    /// count may include messages that came before the subscription and had no room to wait for it.
    Missed(u64),
    /// These messages are missing at this place, before the next one. Only subscriptions in order
    /// report it.
    Gap(Gap),
}

/// A stream of the messages that match a filter. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    ordering: Option<Box<Ordering>>,
}

impl Subscription {
    /// The most messages that wait for a subscriber; further ones are left out. A guess: a burst of
    /// small messages fits. With fewer, bursts are lost; with more, a slow reader holds more
    /// memory.
    pub const DEFAULT_CAPACITY: usize = 4096;
    /// The most bytes of payloads that wait; further messages are left out. One message always
    /// fits. A guess: 64 KiB each for a sixteenth of the messages.
    pub const MAX_BYTES: usize = 16 << 20;

    /// The next item of the stream, or `None` once the node has stopped and all items are read.
    pub async fn next(&mut self) -> Option<Received> {
        if let Some(ordering) = &mut self.ordering {
            return ordering.next(&self.shared).await;
        }
        loop {
            {
                let mut queue = self.shared.queue();
                if let Some(received) = queue.pop() {
                    return Some(received);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.shared.ready.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        queue.waiting.clear();
    }
}

/// The state that both ends of a subscription share.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages, and counts of missed messages between them, never two counts in a row.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Received>,
    messages: usize,
    bytes: usize,
    bounds: QueueBounds,
    /// Whether one of the ends is gone.
    is_closed: bool,
}

impl Queue {
    /// Queue a message. Returns whether there was room.
    fn push(&mut self, message: Message) -> bool {
        let bytes = self.bytes.saturating_add(message.payload.len());
        let is_long = bytes > self.bounds.bytes && self.messages > 0;
        if self.messages < self.bounds.messages && !is_long {
            self.messages += 1;
            self.bytes = bytes;
            self.waiting.push_back(Received::Message(message));
            return true;
        }
        self.miss(1);
        false
    }

    fn miss(&mut self, count: u64) {
        match self.waiting.back_mut() {
            Some(Received::Missed(missed)) => *missed += count,
            _ => self.waiting.push_back(Received::Missed(count)),
        }
    }

    fn pop(&mut self) -> Option<Received> {
        let received = self.waiting.pop_front()?;
        if let Received::Message(message) = &received {
            self.messages -= 1;
            self.bytes -= message.payload.len();
        }
        Some(received)
    }
}

/// The node's end of a subscription or of a listener.
#[derive(Debug)]
pub(crate) struct Subscriber {
    filter: TopicFilter,
    end: End,
}

/// The destination of a subscriber's messages.
#[derive(Debug)]
enum End {
    Queue(QueueEnd),
    Callback(Callback),
}

impl Subscriber {
    /// A subscriber whose function is called.
    pub(crate) const fn called(filter: TopicFilter, callback: Callback) -> Self {
        let end = End::Callback(callback);
        Self { filter, end }
    }

    fn is_gone(&self) -> bool {
        match &self.end {
            End::Queue(end) => end.0.queue().is_closed,
            End::Callback(callback) => callback.has_ended(),
        }
    }

    /// Report that `count` messages for this subscriber were left out before it came. A listener is
    /// not told.
    fn miss(&self, count: u64) {
        if let (End::Queue(end), 1..) = (&self.end, count) {
            end.0.queue().miss(count);
            end.0.ready.notify_one();
        }
    }

    /// Pass messages on. Returns whether the subscriber wants more.
    fn take(&mut self, messages: impl Iterator<Item = Message>, offered: &mut [Offered]) -> bool {
        match &mut self.end {
            End::Queue(end) => end.push(messages, offered),
            End::Callback(callback) => callback.tell(messages, offered),
        }
    }
}

/// The end of a queue into which messages are put.
#[derive(Debug)]
struct QueueEnd(Arc<Shared>);

impl QueueEnd {
    /// Queue messages. Returns whether the subscriber wants more.
    fn push(&self, messages: impl Iterator<Item = Message>, offered: &mut [Offered]) -> bool {
        let mut queue = self.0.queue();
        if queue.is_closed {
            return false;
        }
        let was_empty = queue.waiting.is_empty();
        // A reader of an empty queue takes the messages soon. Messages that wait behind others leave
        // the packet that they share.
        let is_shared = offered.len() > 1;
        for (mut message, offered) in messages.zip(offered) {
            if is_shared && !was_empty {
                message.leave_packet();
            }
            match queue.push(message) {
                true => offered.taken += 1,
                false => offered.missed += 1,
            }
        }
        // A reader of a queue that was not empty has been woken already, and reads until it is
        // empty.
        if was_empty && !queue.waiting.is_empty() {
            self.0.ready.notify_one();
        }
        true
    }
}

impl Drop for QueueEnd {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.ready.notify_one();
    }
}

/// The bounds of a subscriber's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueBounds {
    /// The most messages, at least 1.
    pub(crate) messages: usize,
    /// The most bytes of their payloads; one message always fits.
    pub(crate) bytes: usize,
}

impl QueueBounds {
    /// Room for this many messages, of [`Subscription::MAX_BYTES`] in all.
    pub(crate) const fn for_messages(messages: usize) -> Self {
        Self {
            messages,
            bytes: Subscription::MAX_BYTES,
        }
    }
}

/// Both ends of a new subscription, which yields messages as they come.
pub(crate) fn subscription(filter: TopicFilter, bounds: QueueBounds) -> (Subscriber, Subscription) {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue {
            waiting: VecDeque::new(),
            messages: 0,
            bytes: 0,
            bounds: QueueBounds {
                messages: bounds.messages.max(1),
                ..bounds
            },
            is_closed: false,
        }),
        ready: Notify::new(),
    });
    let subscriber = Subscriber {
        filter,
        end: End::Queue(QueueEnd(shared.clone())),
    };
    let subscription = Subscription {
        shared,
        ordering: None,
    };
    (subscriber, subscription)
}

impl Subscription {
    /// The same subscription, but in order.
    pub(crate) fn in_order(mut self, hold: Hold, metrics: OrderMetrics) -> Self {
        self.ordering = Some(Box::new(Ordering::new(hold, metrics)));
        self
    }
}

/// All local subscribers of a node, owned by its loop. At most [`Subscribers::MAX`]; a further one
/// is refused.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    all: Vec<Subscriber>,
}

/// Of the subscribers that want a message: how many have got it, and how many have missed it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// The subscribers that had room.
    pub(crate) taken: u64,
    /// The subscribers that had no room, or panicked.
    pub(crate) missed: u64,
}

impl Subscribers {
    /// The most subscribers of one node. A guess: each may hold a full queue, so more could exhaust
    /// the memory.
    pub(crate) const MAX: usize = 256;

    /// Admit a subscriber, and give it the matching messages that have waited for one. Returns
    /// `false` if there are too many subscribers.
    pub(crate) fn admit(&mut self, mut subscriber: Subscriber, unclaimed: &mut Unclaimed) -> bool {
        self.all.retain(|other| !other.is_gone());
        if self.all.len() >= Self::MAX {
            catalogue::SUBSCRIBERS_REFUSED.get().increment(1);
            return false;
        }
        if subscriber.is_gone() {
            return true;
        }
        let (claimed, left_out) = unclaimed.claim(&subscriber.filter);
        let mut offered = vec![Offered::default(); claimed.len()];
        if claimed.is_empty() || subscriber.take(claimed.into_iter(), &mut offered) {
            subscriber.miss(left_out);
            self.all.push(subscriber);
        }
        count_missed(&offered);
        true
    }

    /// The number of subscribers.
    pub(crate) fn count(&self) -> usize {
        let here = self.all.iter().filter(|subscriber| !subscriber.is_gone());
        here.count()
    }

    /// Whether a subscriber wants messages of this topic.
    pub(crate) fn is_wanted(&self, topic: &Topic) -> bool {
        let mut all = self.all.iter();
        all.any(|subscriber| subscriber.filter.matches(topic) && !subscriber.is_gone())
    }

    /// Offer `count` messages of one topic, in order, to all subscribers that want them. This call
    /// waits for no room in a queue, but for the calls of listeners. Returns for each message how
    /// many subscribers took it and how many missed it.
    pub(crate) fn offer<M: Iterator<Item = Message>>(
        &mut self,
        topic: &Topic,
        count: usize,
        messages: impl Fn() -> M,
    ) -> Vec<Offered> {
        let mut offered = vec![Offered::default(); count];
        self.all.retain_mut(|subscriber| {
            if !subscriber.filter.matches(topic) {
                return !subscriber.is_gone();
            }
            subscriber.take(messages(), &mut offered)
        });
        count_missed(&offered);
        offered
    }
}

fn count_missed(offered: &[Offered]) {
    let missed = offered.iter().map(|offered| offered.missed).sum();
    if missed > 0 {
        catalogue::SUBSCRIBER_MISSED.get().increment(missed);
    }
}

#[cfg(test)]
mod tests;
