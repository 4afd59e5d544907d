//! One subscriber that reads when it is told to, and what it was given.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use binomesh::client::SubscriptionEvent;
use binomesh::cluster::Member;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::command::Failure;

/// A subscription of a member.
#[derive(Debug)]
pub struct Listener {
    heard: Arc<Mutex<Heard>>,
    begin: Arc<Notify>,
    _reader: JoinSet<()>,
}

/// What it was given so far. Bounded by what the run publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// The topics, with the place of their first message among all.
    pub first: BTreeMap<String, usize>,
    /// Messages of a topic that there had been one of.
    pub repeated: usize,
    /// How many it was told that it missed.
    pub missed: u64,
}

impl Listener {
    /// Subscribe; the node has confirmed when this returns. Nothing is read before
    /// [`Listener::read`], unless `at_once`.
    pub async fn open(member: &Member, filter: &str, at_once: bool) -> Result<Self, Failure> {
        let events = member.client().subscribe(filter).await;
        let mut events = events.map_err(Failure::run)?;
        let (heard, begin) = (Arc::<Mutex<Heard>>::default(), Arc::new(Notify::new()));
        let (log, begun) = (Arc::clone(&heard), Arc::clone(&begin));
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            begun.notified().await;
            while let Some(Ok(event)) = events.next().await {
                let mut log = log.lock().unwrap_or_else(|poison| poison.into_inner());
                log.note(event);
            }
        });
        let listener = Self {
            heard,
            begin,
            _reader: reader,
        };
        if at_once {
            listener.read();
        }
        Ok(listener)
    }

    /// Read from now on.
    pub fn read(&self) {
        self.begin.notify_one();
    }

    /// What it was given so far.
    pub fn heard(&self) -> Heard {
        let heard = self.heard.lock();
        heard.unwrap_or_else(|poison| poison.into_inner()).clone()
    }
}

impl Heard {
    fn note(&mut self, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Delivery(delivery) => {
                let place = self.first.len() + self.repeated;
                match self.first.entry(delivery.topic) {
                    Entry::Vacant(entry) => _ = entry.insert(place),
                    Entry::Occupied(_) => self.repeated += 1,
                }
            }
            SubscriptionEvent::Missed(count) => self.missed += count,
        }
    }
}
