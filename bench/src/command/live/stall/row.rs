//! The row of a run of `live stall`, and whether the promises held.

use serde::Serialize;

use super::super::setup::Context;
use super::{How, KEPT, Promise};

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The run that the row is about.
    #[serde(flatten)]
    pub context: Context,
    /// How the receiver was stalled.
    pub how: How,
    /// How many broadcasts got their receipts in time.
    pub broadcasts: u64,
    /// How many broadcasts were not accepted, or got no receipt in time.
    pub refused: u32,
    /// The length of a broadcast.
    pub message_bytes: usize,
    /// The seconds from the first broadcast to the last receipt.
    pub seconds: f64,
    /// The ratio of these seconds to those of the undisturbed run, if there was one.
    pub times_undisturbed: Option<f64>,
    /// The limit of the seconds, if there is one.
    pub seconds_limit: Option<f64>,
    /// Whether another node's metrics named the receiver as slow, if it was stopped.
    pub named_slow: Option<bool>,
    /// The longest time between a receipt and the next.
    pub silence_seconds_max: f64,
    /// How many deliveries at the other receivers never came.
    pub lacking: u64,
    /// Repeated deliveries of a message at the other receivers.
    pub duplicates: u64,
    /// How many of the lacking messages came to their receiver, but were not read in time by this
    /// command.
    pub overrun: u64,
    /// How many receipts name another receiver as not reached.
    pub others_unreached: usize,
    /// The promises about the stalled receiver, and its deliveries.
    #[serde(flatten)]
    pub promise: Promise,
    /// The most memory that the origin has ever taken.
    pub memory_origin_mib: f64,
    /// The most memory that the stalled receiver has ever taken.
    pub memory_stalled_mib: f64,
    /// The most memory that any node has ever taken.
    pub memory_max_mib: f64,
    /// The most memory that any node had taken before the first broadcast.
    pub memory_before_max_mib: f64,
    /// The limit of the memory.
    pub memory_limit_mib: u64,
    /// Whether every promise held.
    pub ok: bool,
}

impl Row {
    /// Whether every promise held.
    pub(super) fn is_as_promised(&self) -> bool {
        let is_told_all = match self.how {
            How::Paused => {
                self.promise.kept_promised == KEPT as usize && self.named_slow == Some(true)
            }
            _ => self.promise.promised as u64 == self.broadcasts,
        };
        let is_in_time = self.seconds_limit.is_none_or(|limit| self.seconds <= limit);
        is_told_all
            && is_in_time
            && self.broadcasts > 0
            && self.refused == 0
            && self.lacking == 0
            && self.duplicates == 0
            && self.others_unreached == 0
            && self.promise.is_kept()
            && self.memory_max_mib <= self.memory_limit_mib as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broken_limit_or_promise_fails_the_run() {
        let good = Row {
            context: Context {
                workload: "stall",
                nodes: 4,
                profile: "fast".to_owned(),
                shape: "flat".to_owned(),
                grace_seconds: 0,
                seed: 0,
                cores: 1,
                version: "1",
            },
            how: How::Unread,
            broadcasts: 7,
            refused: 0,
            message_bytes: 1,
            seconds: 2.0,
            times_undisturbed: Some(2.0),
            seconds_limit: Some(2.0),
            named_slow: None,
            silence_seconds_max: 0.0,
            lacking: 0,
            duplicates: 0,
            overrun: 0,
            others_unreached: 0,
            promise: Promise {
                promised: 7,
                kept_in_order: true,
                ..Promise::default()
            },
            memory_origin_mib: 1.0,
            memory_stalled_mib: 1.0,
            memory_max_mib: 128.0,
            memory_before_max_mib: 1.0,
            memory_limit_mib: 128,
            ok: false,
        };
        assert!(good.is_as_promised());
        let spoilt: [fn(&mut Row); 10] = [
            |row| row.broadcasts = 0,
            |row| row.promise.repeated = 1,
            |row| row.seconds = 2.1,
            |row| row.refused = 1,
            |row| row.lacking = 1,
            |row| row.duplicates = 1,
            |row| row.others_unreached = 1,
            |row| row.memory_max_mib = 128.1,
            |row| row.promise.broken = 1,
            |row| row.promise.promised = 6,
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut row = good.clone();
            spoil(&mut row);
            assert!(!row.is_as_promised(), "{number}");
        }
        // In a paused run, kept messages and the name in other nodes' metrics count as well.
        let mut paused = good;
        (paused.how, paused.named_slow) = (How::Paused, Some(true));
        let kept = KEPT as usize;
        (paused.promise.kept_promised, paused.promise.kept_delivered) = (kept, kept);
        assert!(paused.is_as_promised());
        let spoilt: [fn(&mut Row); 4] = [
            |row| row.named_slow = Some(false),
            |row| row.promise.kept_promised = 0,
            |row| row.promise.kept_delivered = 0,
            |row| row.promise.kept_in_order = false,
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut row = paused.clone();
            spoil(&mut row);
            assert!(!row.is_as_promised(), "paused, {number}");
        }
    }
}
