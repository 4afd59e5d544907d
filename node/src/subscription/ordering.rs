//! A subscription in order: the sorter of `binomesh-routing`, and a clock for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::order::{Arrival, Bounds, Counts, Sorted, Sorter};
use tokio::time::Instant;

use super::{Message, Received, Shared};
use crate::catalogue;
use crate::topic::Topic;

/// What a subscription in order holds back while messages before it are missing. At the
/// first of these bounds it goes on, and says what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// For how long.
    pub time: Duration,
    /// How many messages.
    pub messages: usize,
    /// How many bytes of payloads; one message is held however long it is.
    pub bytes: usize,
}

impl Default for Hold {
    /// A guess: with the time that a message takes round a pair that cannot reach each
    /// other (1.5 s, `docs/relay.md`, *Delegation and re-delegation*) to spare, and as much as a queue has.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            messages: super::Subscription::DEFAULT_CAPACITY,
            bytes: super::Subscription::MAX_BYTES,
        }
    }
}

/// Messages that were published in order and are not there in their place: lost for this
/// subscriber, or late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Who published them.
    pub origin: PeerId,
    /// The origin's name, or its hexadecimal id while no name is known.
    pub origin_name: Arc<str>,
    /// In which life of its process.
    pub boot: u64,
    /// In which of its streams: one per topic and destinations.
    pub stream: u64,
    /// On which topic.
    pub topic: Topic,
    /// The number of the first in its stream.
    pub from: u64,
    /// The number of the last.
    pub to: u64,
}

impl Gap {
    /// How many are missing.
    pub const fn count(&self) -> u64 {
        (self.to - self.from).saturating_add(1)
    }
}

/// The longest hold: a year. What is added to the clock must not overflow it.
const HOLD_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many streams a subscription knows. A guess: a few of each of the members that a
/// roster names.
const STREAMS_MAX: usize = 16_384;

/// Origin, boot and stream.
type Key = (PeerId, u64, u64);

/// Between a subscription's queue and its reader. It holds what [`Hold`] allows, and as
/// much as its queue while the reader takes it.
#[derive(Debug)]
pub(super) struct Ordering {
    sorter: Sorter<Key, Message>,
    /// In order, to be read.
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

    /// The next of what comes through `shared`, in order.
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
                // Before anything is told to be missing all that has come is looked at:
                // a slow reader is no reason.
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

    /// Until something comes, or something that is held has been held for long enough.
    async fn wait(&self, shared: &Shared, deadline: Option<Duration>) {
        let coming = shared.ready.notified();
        match deadline {
            None => coming.await,
            Some(until) => {
                // In time or not: the caller looks.
                let _ = tokio::time::timeout_at(self.since + until, coming).await;
            }
        }
    }

    fn take(&mut self, now: Duration, received: Received) {
        let (message, ordered) = match received {
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

/// Where a node counts what its subscriptions in order meet. They are made by the node's
/// loop, whose metrics may go elsewhere than those of the reader's task.
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
