//! A subscription in order: the sorter of `binomesh-routing`, and a clock for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::order::{Arrival, Bounds, Counts, Sorted, Sorter};
use binomesh_routing::packet::Payloads;
use tokio::time::Instant;

use super::{Message, Received, Shared};
use crate::catalogue;
use crate::topic::Topic;

/// How much a subscription in order holds back while earlier messages are missing. At the first of
/// these bounds it goes on, and reports which ones are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The longest time that a message is held.
    pub time: Duration,
    /// The most messages that are held.
    pub messages: usize,
    /// The most bytes of payloads that are held; one message is held whatever its length.
    pub bytes: usize,
}

impl Default for Hold {
    /// A guess. The time leaves room for the way of a message round a pair that cannot reach each
    /// other (1.5 s, `docs/relay.md`, *Delegation and re-delegation*); messages and bytes are those
    /// of a queue. With less time, such messages count as missing.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            messages: super::Subscription::DEFAULT_CAPACITY,
            bytes: super::Subscription::MAX_BYTES,
        }
    }
}

/// Ordered messages that are missing in their place: they are lost for this subscription, or come
/// late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The member that published them.
    pub origin: PeerId,
    /// The origin's name, or its hexadecimal id while no name is known.
    pub origin_name: Arc<str>,
    /// The boot of the origin's process.
    pub boot: u64,
    /// The number of the origin's stream: it has one per topic and destinations.
    pub stream: u64,
    /// The topic that they were published on.
    pub topic: Topic,
    /// The number of the first missing message in its stream.
    pub from: u64,
    /// The number of the last missing message.
    pub to: u64,
}

impl Gap {
    /// How many messages are missing.
    pub const fn count(&self) -> u64 {
        (self.to - self.from).saturating_add(1)
    }
}

/// The longest hold: a year, so that its sum with the clock does not overflow.
const HOLD_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// The most streams that a subscription knows; the one that has been silent for longest is
/// forgotten first. A guess: a few for each member of a full roster.
const STREAMS_MAX: usize = 16_384;

/// A stream: its origin, the origin's boot, and the number of the stream.
type Key = (PeerId, u64, u64);

/// Sorts messages between a subscription's queue and its reader. It holds as much as [`Hold`]
/// allows, and also a queue's worth of messages while they are read.
#[derive(Debug)]
pub(super) struct Ordering {
    sorter: Sorter<Key, Message>,
    /// Messages, gaps and counts of missed messages, in the order in which they are to be read.
    ready: VecDeque<Received>,
    since: Instant,
    counted: Counts,
    metrics: OrderMetrics,
}

impl Ordering {
    pub(super) fn new(hold: Hold, metrics: OrderMetrics) -> Self {
        let bounds = Bounds {
            messages: hold.messages,
            bytes: hold.bytes,
            streams: STREAMS_MAX,
            time: hold.time.min(HOLD_MAX),
        };
        Self {
            sorter: Sorter::new(bounds),
            ready: VecDeque::new(),
            since: now(),
            counted: Counts::default(),
            metrics,
        }
    }

    /// The next item for the reader, of those that come through `shared`; `None` once the queue is
    /// closed and all items are read.
    pub(super) async fn next(&mut self, shared: &Shared) -> Option<Received> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let now = now() - self.since;
            let deadline = self.sorter.next_deadline();
            let is_due = deadline.is_some_and(|until| until <= now);
            let is_hurried = is_due || self.sorter.is_crowded();
            let mut received = Vec::new();
            let is_closed = {
                let mut queue = shared.queue();
                // Look at all messages that have come before any is reported as missing: a slow
                // reader must not cause gaps.
                let most = if is_hurried { queue.waiting.len() } else { 1 };
                received.extend((0..most).map_while(|_| queue.pop()));
                queue.is_closed
            };
            let is_idle = received.is_empty();
            for received in received {
                self.take(now, received);
            }
            if is_hurried {
                self.sort(|sorter, out| {
                    sorter.expire(now, out);
                    sorter.relieve(out);
                });
                continue;
            }
            if is_idle && is_closed {
                self.sort(Sorter::finish);
                return self.ready.pop_front();
            }
            if is_idle {
                self.wait(shared, deadline).await;
            }
        }
    }

    /// Wait until a message comes, or a held one has been held long enough.
    async fn wait(&self, shared: &Shared, deadline: Option<Duration>) {
        let coming = shared.ready.notified();
        match deadline {
            None => coming.await,
            Some(until) => {
                // The caller checks the deadline itself.
                let _ = tokio::time::timeout_at(self.since + until, coming).await;
            }
        }
    }

    fn take(&mut self, now: Duration, received: Received) {
        let (mut message, ordered) = match received {
            Received::Message(message) => match message.order {
                Some(ordered) => (message, ordered),
                None => return self.ready.push_back(Received::Message(message)),
            },
            other => return self.ready.push_back(other),
        };
        let arrival = Arrival {
            stream: (message.id.origin, message.id.boot, ordered.order.stream),
            number: ordered.order.number,
            is_settled_before: ordered.is_settled_before,
            bytes: message.payload.len(),
        };
        // While messages are held, this one may be held, too. A longer payload has a packet of its
        // own.
        if self.sorter.next_deadline().is_some() && arrival.bytes <= Payloads::MAX_BYTES {
            message.leave_packet();
        }
        self.sort(|sorter, out| sorter.hold(now, arrival, message, out));
    }

    fn sort(&mut self, work: impl FnOnce(&mut Sorter<Key, Message>, &mut Vec<Sorted<Message>>)) {
        let mut out = Vec::new();
        work(&mut self.sorter, &mut out);
        for sorted in out {
            self.ready.extend(gap_before(&sorted).map(Received::Gap));
            self.ready.push_back(Received::Message(Message {
                is_late: sorted.is_late,
                ..sorted.item
            }));
        }
        let counts = self.sorter.counts();
        self.metrics.count(self.counted, counts);
        self.counted = counts;
    }
}

fn gap_before(sorted: &Sorted<Message>) -> Option<Gap> {
    let Message {
        id,
        origin_name,
        topic,
        order,
        ..
    } = &sorted.item;
    let order = (*order)?.order;
    let to = order.number.checked_sub(1)?;
    let from = order.number.checked_sub(sorted.missing)?;
    (sorted.missing > 0).then(|| Gap {
        origin: id.origin,
        origin_name: origin_name.clone(),
        boot: id.boot,
        stream: order.stream,
        topic: topic.clone(),
        from,
        to,
    })
}

#[cfg(feature = "admin")]
impl From<&Gap> for crate::report::GapView {
    fn from(gap: &Gap) -> Self {
        Self {
            origin: gap.origin_name.to_string(),
            boot: gap.boot,
            stream: gap.stream,
            topic: gap.topic.to_string(),
            from: gap.from,
            to: gap.to,
            count: gap.count(),
        }
    }
}

/// The counters of subscriptions in order. The node's loop makes them, since the metrics of the
/// reader's task may go elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct OrderMetrics {
    gaps: metrics::Counter,
    late: metrics::Counter,
    crowded: metrics::Counter,
    forgotten: metrics::Counter,
}

impl OrderMetrics {
    pub(crate) fn of_this_node() -> Self {
        let counter = |event: &'static str| catalogue::ORDER_EVENTS.with([event]);
        Self {
            gaps: counter("gap"),
            late: counter("late"),
            crowded: counter("crowded"),
            forgotten: counter("forgotten"),
        }
    }

    fn count(&self, before: Counts, now: Counts) {
        for (counter, more) in [
            (&self.gaps, now.gaps - before.gaps),
            (&self.late, now.late - before.late),
            (&self.crowded, now.crowded - before.crowded),
            (&self.forgotten, now.forgotten - before.forgotten),
        ] {
            if more > 0 {
                counter.increment(more);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what is held for long goes out")]
fn now() -> Instant {
    Instant::now()
}
