//! What was sent, what receipts promise of the one receiver, and what it was given.

use binomesh::Receipt;
use serde::Serialize;
use tokio::time::Instant;

use crate::command::live::receivers::Receivers;
use crate::command::live::setup::now;

/// What receipts promise of the one receiver, and what its subscriber was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// Broadcasts that it has, as their receipts say.
    pub promised: usize,
    /// Of them, those that its subscriber was neither given nor told that it missed.
    pub broken: u64,
    /// Broadcasts that it was given though their receipts promise nothing.
    pub beyond: usize,
    /// How many its subscriber was told that it missed.
    pub missed: u64,
    /// Messages that it was given more than once.
    pub repeated: u64,
    /// Messages that came to it when it was back, as their receipts say.
    pub kept_promised: usize,
    /// Of them, those that its subscriber was given.
    pub kept_delivered: usize,
    /// Whether these came in order.
    pub kept_in_order: bool,
}

impl Promise {
    pub(super) const fn is_kept(&self) -> bool {
        self.broken == 0
            && self.repeated == 0
            && self.kept_promised == self.kept_delivered
            && self.kept_in_order
    }
}

/// What was sent and what became of it.
#[derive(Default)]
pub(super) struct Sent {
    /// The broadcasts that have a receipt, by topic.
    pub(super) receipts: Vec<(String, Receipt)>,
    pub(super) refused: u32,
    /// Whether another one's metrics named it as slow.
    pub(super) is_named: bool,
    pub(super) seconds: f64,
    /// When each receipt came.
    pub(super) told: Vec<Instant>,
    /// The same of what was kept for the one, in order.
    pub(super) kept: Vec<(String, Receipt)>,
}

impl Sent {
    pub(super) fn note(&mut self, topic: String, receipt: Option<Receipt>) {
        match receipt {
            Some(receipt) => {
                self.told.push(now());
                self.receipts.push((topic, receipt));
            }
            None => self.refused += 1,
        }
    }

    /// The longest time between a receipt and the next.
    pub(super) fn silence_seconds_max(&self) -> f64 {
        let pairs = self.told.iter().zip(self.told.iter().skip(1));
        let silences = pairs.map(|(one, next)| (*next - *one).as_secs_f64());
        silences.fold(0.0, f64::max)
    }

    pub(super) fn others_unreached(&self, stalled: &str) -> usize {
        let names_other =
            |receipt: &Receipt| receipt.unreached.iter().any(|one| one.name != stalled);
        let receipts = self.receipts.iter();
        receipts.filter(|(_, receipt)| names_other(receipt)).count()
    }

    pub(super) fn promise(&self, receivers: &Receivers, stalled: &str) -> Promise {
        let has = |receipt: &Receipt| receipt.reached.iter().any(|name| name == stalled);
        let (promised, others): (Vec<_>, Vec<_>) =
            self.receipts.iter().partition(|(_, receipt)| has(receipt));
        let came = |topic: &str| receivers.delivered(topic, stalled);
        let lacking = promised.iter().filter(|(topic, _)| came(topic).is_none());
        let kept = self.kept.iter().filter(|(_, receipt)| has(receipt));
        let kept: Vec<Option<Instant>> = kept.map(|(topic, _)| came(topic)).collect();
        Promise {
            promised: promised.len(),
            broken: (lacking.count() as u64).saturating_sub(receivers.missed()),
            beyond: others
                .iter()
                .filter(|(topic, _)| came(topic).is_some())
                .count(),
            missed: receivers.missed(),
            repeated: receivers.duplicates(),
            kept_promised: kept.len(),
            kept_delivered: kept.iter().flatten().count(),
            kept_in_order: kept.iter().flatten().is_sorted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use binomesh::client::SubscriptionEvent;

    use super::*;
    use crate::command::live::receivers::delivery;

    fn receipt(reached: &[&str]) -> Receipt {
        let text = serde_json::json!({
            "id": "a/1", "epoch": "e", "origin": "a", "expected_count": 2,
            "reached_count": reached.len(), "reached": reached, "unreached": [],
            "absent": [], "redelegated": 0, "replaced": [], "confirmation": "relayed",
            "replies": [], "unacknowledged": [], "elapsed_seconds": 0.1,
        });
        serde_json::from_value(text).unwrap()
    }

    fn sent(topics: &[(&str, &[&str])]) -> Vec<(String, Receipt)> {
        let all = topics.iter();
        all.map(|(topic, reached)| ((*topic).to_owned(), receipt(reached)))
            .collect()
    }

    #[test]
    fn what_is_promised_and_not_given_is_broken_unless_it_was_told_to_be_missed() {
        let sent = Sent {
            receipts: sent(&[("a", &["x", "y"]), ("b", &["x"]), ("c", &["y"])]),
            kept: sent(&[("k1", &["y"]), ("k2", &["y"])]),
            ..Sent::default()
        };
        let receivers = Receivers::default();
        for topic in ["b", "k2", "k1"] {
            receivers.note("y", delivery(topic));
        }
        let promise = sent.promise(&receivers, "y");
        let expected = Promise {
            promised: 2,
            broken: 2,
            beyond: 1,
            missed: 0,
            repeated: 0,
            kept_promised: 2,
            kept_delivered: 2,
            kept_in_order: false,
        };
        assert_eq!(promise, expected);
        receivers.note("y", SubscriptionEvent::Missed(1));
        assert_eq!(sent.promise(&receivers, "y").broken, 1);
        receivers.note("y", delivery("a"));
        let in_order = Sent {
            kept: sent.kept.iter().rev().cloned().collect(),
            ..sent
        };
        assert!(in_order.promise(&receivers, "y").is_kept());
        receivers.note("y", delivery("a"));
        assert!(!in_order.promise(&receivers, "y").is_kept());
    }
}
