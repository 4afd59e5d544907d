//! Counts deliveries at the receivers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{DemoError, now};
use crate::client::SubscriptionEvent;
use crate::cluster::Member;
use crate::report::{Delivery, Receipt};

/// How long a broadcast waits for duplicates once its deliveries have come; and, if the receipt is
/// not complete, for each further delivery. Duplicates are counted until the end of the demo.
const LINGER: Duration = Duration::from_millis(250);

/// The deliveries counted at the receivers, through one subscription at each.
pub(super) struct Tally {
    incoming: mpsc::UnboundedReceiver<(String, SubscriptionEvent)>,
    counts: BTreeMap<(String, String), u32>,
    hashes: BTreeMap<String, String>,
    pub(super) missed: u64,
    _readers: JoinSet<()>,
}

impl Tally {
    /// Subscribe at every member; each has confirmed its subscription when this returns.
    pub(super) async fn open(members: &[Member]) -> Result<Self, DemoError> {
        // The channel has no bound, but it holds only a few small messages per node.
        let (sender, incoming) = mpsc::unbounded_channel();
        let mut readers = JoinSet::new();
        for member in members {
            let mut events = member.client().subscribe("demo").await?;
            let (sender, name) = (sender.clone(), member.name.clone());
            readers.spawn(async move {
                // This task ends with the node, or with the tally.
                while let Some(Ok(event)) = events.next().await {
                    if sender.send((name.clone(), event)).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            incoming,
            counts: BTreeMap::new(),
            hashes: BTreeMap::new(),
            missed: 0,
            _readers: readers,
        })
    }

    fn count(&mut self, node: String, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Delivery(Delivery { id, blake3, .. }) => {
                self.hashes.insert(id.clone(), blake3);
                *self.counts.entry((id, node)).or_default() += 1;
            }
            SubscriptionEvent::Missed(count) => self.missed += count,
            SubscriptionEvent::Gap(gap) => self.missed += gap.count,
        }
    }

    pub(super) fn take_waiting(&mut self) {
        while let Ok((node, event)) = self.incoming.try_recv() {
            self.count(node, event);
        }
    }

    /// The members among `others` that have the message, once all have it or at the deadline. If
    /// the receipt is not complete, this waits only [`LINGER`] for each further delivery. If a
    /// payload has another hash, no member counts.
    pub(super) async fn reached(
        &mut self,
        receipt: &Receipt,
        blake3: &str,
        others: &[String],
        deadline: Instant,
    ) -> Vec<String> {
        loop {
            self.take_waiting();
            let right = self
                .hashes
                .get(&receipt.id)
                .is_none_or(|found| found == blake3);
            let has = |name: &&String| {
                right
                    && self
                        .counts
                        .contains_key(&(receipt.id.clone(), (*name).clone()))
            };
            let reached: Vec<String> = others.iter().filter(has).cloned().collect();
            if reached.len() == others.len() || !right {
                return reached;
            }
            // If the receipt is not complete, hardly any further delivery will come.
            let until = if receipt.is_complete() {
                deadline
            } else {
                (now() + LINGER).min(deadline)
            };
            match tokio::time::timeout_at(until, self.incoming.recv()).await {
                Ok(Some((node, event))) => self.count(node, event),
                _ => return reached,
            }
        }
    }

    pub(super) async fn linger(&mut self) {
        let until = now() + LINGER;
        while let Ok(Some((node, event))) =
            tokio::time::timeout_at(until, self.incoming.recv()).await
        {
            self.count(node, event);
        }
    }

    pub(super) fn duplicates(&self) -> u32 {
        self.counts.values().map(|count| count - 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> (mpsc::UnboundedSender<(String, SubscriptionEvent)>, Tally) {
        let (sender, incoming) = mpsc::unbounded_channel();
        let tally = Tally {
            incoming,
            counts: BTreeMap::new(),
            hashes: BTreeMap::new(),
            missed: 0,
            _readers: JoinSet::new(),
        };
        (sender, tally)
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_are_counted_at_the_receivers() {
        let delivery = |blake3: &str| {
            SubscriptionEvent::Delivery(Delivery {
                signed: false,
                order: None,
                late: false,
                wants_reply: false,
                id: "m".into(),
                origin: "node-1".into(),
                sequence: 1,
                topic: "demo".into(),
                size_bytes: 1,
                blake3: blake3.into(),
                payload_base64: String::new(),
            })
        };
        let receipt = Receipt {
            id: "m".into(),
            epoch: "e".into(),
            origin: "node-1".into(),
            expected_count: 2,
            reached_count: 2,
            reached: ["node-0".to_owned(), "node-2".to_owned()].into(),
            unreached: vec![],
            absent: vec![],
            redelegated: 0,
            replaced: vec![],
            elapsed_seconds: 0.0,
            ..Receipt::default()
        };
        let others = receipt.reached.to_vec();
        let soon = now() + Duration::from_secs(1);
        let (sender, mut tally) = tally();
        sender.send(("node-0".into(), delivery("h"))).unwrap();
        let reached = tally.reached(&receipt, "h", &others, soon).await;
        assert_eq!(reached, ["node-0"], "the receipt lies about node-2");
        sender.send(("node-2".into(), delivery("h"))).unwrap();
        sender.send(("node-2".into(), delivery("h"))).unwrap();
        assert_eq!(tally.reached(&receipt, "h", &others, soon).await, others);
        tally.linger().await;
        assert_eq!(tally.duplicates(), 1);
        let altered = tally.reached(&receipt, "other", &others, soon).await;
        assert_eq!(altered, [""; 0], "another payload is no delivery");
    }
}
