//! Deliveries, counted at their receivers: one subscription at every node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use binomesh::client::{Events, SubscriptionEvent};
use binomesh::cluster::Member;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::setup::now;
use crate::command::Failure;

/// All deliveries of a run, by topic and node.
#[derive(Debug, Default)]
pub struct Receivers {
    log: Arc<Mutex<Log>>,
    readers: JoinSet<()>,
}

/// The log of deliveries.
#[derive(Debug, Default)]
struct Log {
    /// When a topic's message first came to a node, and how often it came. There are at most as
    /// many entries as the run has messages and nodes to deliver them to.
    deliveries: BTreeMap<(String, String), (Instant, u32)>,
    missed: u64,
}

impl Receivers {
    /// Subscribe at every member. When this returns, each has confirmed.
    pub async fn open(members: &[Member], filter: &str) -> Result<Self, Failure> {
        let mut receivers = Self::default();
        for member in members {
            let events = member.client().subscribe(filter).await;
            receivers.read(&member.name, events.map_err(Failure::run)?);
        }
        Ok(receivers)
    }

    /// As [`Receivers::open`] for long messages: only their digests are delivered.
    pub async fn open_digests(members: &[Member], filter: &str) -> Result<Self, Failure> {
        let mut receivers = Self::default();
        for member in members {
            let events = member.client().subscribe_to_digests(filter).await;
            receivers.read(&member.name, events.map_err(Failure::run)?);
        }
        Ok(receivers)
    }

    /// Note the deliveries of a subscription at a node from now on.
    pub fn read(&mut self, node: &str, mut events: Events) {
        let (log, node) = (Arc::clone(&self.log), node.to_owned());
        self.readers.spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                lock(&log).note(&node, event);
            }
        });
    }

    /// The time at which the message on `topic` first came to a node, if it did.
    pub fn delivered(&self, topic: &str, node: &str) -> Option<Instant> {
        let key = (topic.to_owned(), node.to_owned());
        lock(&self.log).deliveries.get(&key).map(|(at, _)| *at)
    }

    /// Repeated deliveries of a message.
    pub fn duplicates(&self) -> u64 {
        let log = lock(&self.log);
        let counts = log.deliveries.values().map(|(_, count)| u64::from(*count));
        counts.map(|count| count - 1).sum()
    }

    /// How many messages subscriptions left out.
    pub fn missed(&self) -> u64 {
        lock(&self.log).missed
    }
}

impl Log {
    fn note(&mut self, node: &str, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Delivery(delivery) => {
                let key = (delivery.topic, node.to_owned());
                self.deliveries.entry(key).or_insert((now(), 0)).1 += 1;
            }
            SubscriptionEvent::Missed(count) => self.missed += count,
            SubscriptionEvent::Gap(gap) => self.missed += gap.count,
        }
    }
}

#[cfg(test)]
impl Receivers {
    /// Note an event as if a subscription at `node` had yielded it.
    pub(super) fn note(&self, node: &str, event: SubscriptionEvent) {
        lock(&self.log).note(node, event);
    }
}

/// A delivery on this topic.
#[cfg(test)]
pub(super) fn delivery(topic: &str) -> SubscriptionEvent {
    let text = serde_json::json!({
        "id": "a/1", "origin": "a", "sequence": 1, "topic": topic,
        "wants_reply": false, "size_bytes": 0, "blake3": "", "payload_base64": "",
    });
    SubscriptionEvent::Delivery(serde_json::from_value(text).unwrap())
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(|poison| poison.into_inner())
}
