//! Deliveries, counted where they arrive: one subscription at every node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use binomesh::client::SubscriptionEvent;
use binomesh::cluster::Member;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::setup::now;
use crate::command::Failure;

/// Every delivery of a run, by topic and node.
#[derive(Debug, Default)]
pub struct Receivers {
    log: Arc<Mutex<Log>>,
    _readers: JoinSet<()>,
}

/// What was delivered where.
#[derive(Debug, Default)]
struct Log {
    /// When a topic's message came first to a node, and how often it came.
    /// Bounded by what this very run publishes.
    deliveries: BTreeMap<(String, String), (Instant, u32)>,
    missed: u64,
}

impl Receivers {
    /// Subscribe at every member; each has confirmed when this returns.
    pub async fn open(members: &[Member], filter: &str) -> Result<Self, Failure> {
        let (log, mut readers) = (Arc::default(), JoinSet::new());
        for member in members {
            let events = member.client().subscribe(filter).await;
            let mut events = events.map_err(Failure::run)?;
            let (log, name): (Arc<Mutex<Log>>, String) = (Arc::clone(&log), member.name.clone());
            readers.spawn(async move {
                while let Some(Ok(event)) = events.next().await {
                    let mut log = lock(&log);
                    match event {
                        SubscriptionEvent::Delivery(delivery) => {
                            let key = (delivery.topic, name.clone());
                            log.deliveries.entry(key).or_insert((now(), 0)).1 += 1;
                        }
                        SubscriptionEvent::Missed(count) => log.missed += count,
                    }
                }
            });
        }
        Ok(Self {
            log,
            _readers: readers,
        })
    }

    /// When the message on `topic` came to a node, if it did.
    pub fn delivered(&self, topic: &str, node: &str) -> Option<Instant> {
        let key = (topic.to_owned(), node.to_owned());
        lock(&self.log).deliveries.get(&key).map(|(at, _)| *at)
    }

    /// Deliveries beyond the first.
    pub fn duplicates(&self) -> u64 {
        let log = lock(&self.log);
        let counts = log.deliveries.values().map(|(_, count)| u64::from(*count));
        counts.map(|count| count - 1).sum()
    }

    /// Messages that a subscription left out.
    pub fn missed(&self) -> u64 {
        lock(&self.log).missed
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(|poison| poison.into_inner())
}
