//! The messages of a run, the promises of receipts about the stalled receiver, and its deliveries.

use binomesh::Receipt;
use serde::Serialize;
use tokio::time::Instant;

use crate::command::live::receivers::Receivers;
use crate::command::live::setup::now;

/// The promises of receipts about the stalled receiver, compared with the deliveries at its
/// subscriber.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// How many broadcasts the receiver has, by their receipts.
    pub promised: usize,
    /// How many of the promised broadcasts the receiver's subscriber neither got nor was told to
    /// have missed.
    pub broken: u64,
    /// How many broadcasts the subscriber got although their receipts do not say that the receiver
    /// has them.
    pub beyond: usize,
    /// How many messages the receiver's subscriber was told to have missed.
    pub missed: u64,
    /// Repeated deliveries of a message to the receiver's subscriber.
    pub repeated: u64,
    /// How many kept messages came to the receiver, by their receipts.
    pub kept_promised: usize,
    /// How many kept messages, of those that came by their receipts, the receiver's subscriber got.
    pub kept_delivered: usize,
    /// Whether the subscriber got the kept messages in order.
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

/// The messages that were sent, and their receipts.
#[derive(Default)]
pub(super) struct Sent {
    /// The broadcasts that have a receipt, by topic.
    pub(super) receipts: Vec<(String, Receipt)>,
    pub(super) refused: u32,
    /// Whether the metrics of another node named the receiver as slow.
    pub(super) is_named: bool,
    pub(super) seconds: f64,
    /// The times at which the receipts came.
    pub(super) told: Vec<Instant>,
    /// The messages that were kept for the receiver, with their receipts, in order.
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
    fn a_promised_message_that_does_not_come_is_broken_unless_reported_as_missed() {
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
