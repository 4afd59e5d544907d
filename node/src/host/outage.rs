//! Measures outages for the metrics: how long it takes until a lost neighbour is noticed, until the
//! ring closes around it, and until the node is settled again.

use std::collections::BTreeMap;

use binomesh_overlay::PeerId;
use tokio::time::Instant;

use crate::catalogue;

/// The outages that a node sees at present.
#[derive(Debug)]
pub(super) struct Outages {
    /// When each watched neighbour gave its last sign of life.
    heard: BTreeMap<PeerId, Instant>,
    /// The neighbours in the ring when it was last closed.
    ring: [Option<PeerId>; 2],
    /// The neighbours in `ring` that were called down since then and still are, and when they were.
    gaps: BTreeMap<PeerId, Instant>,
    /// Since when the node has been unsettled.
    unsettled: Option<Instant>,
}

impl Outages {
    /// The outages of a node that starts now: it is not settled.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            heard: BTreeMap::new(),
            ring: [None; 2],
            gaps: BTreeMap::new(),
            unsettled: Some(now),
        }
    }

    /// Set the watched neighbours. A neighbour that was not watched before counts as heard now.
    pub(super) fn watch(&mut self, watched: impl Iterator<Item = PeerId>, now: Instant) {
        let heard = |peer| (peer, self.heard.get(&peer).copied().unwrap_or(now));
        self.heard = watched.map(heard).collect();
    }

    /// Note a sign of life of a peer.
    pub(super) fn on_heard(&mut self, peer: PeerId, now: Instant) {
        if let Some(heard) = self.heard.get_mut(&peer) {
            *heard = now;
        }
    }

    /// Note that a peer is called down.
    pub(super) fn on_down(&mut self, peer: PeerId, now: Instant) {
        if let Some(heard) = self.heard.remove(&peer) {
            let silent = now.saturating_duration_since(heard);
            catalogue::DETECTION_SECONDS.get().record(silent);
        }
        if self.ring.contains(&Some(peer)) {
            self.gaps.entry(peer).or_insert(now);
        }
    }

    /// Note that a peer is up that was called down.
    pub(super) fn on_up(&mut self, peer: PeerId) {
        self.gaps.remove(&peer);
    }

    /// Note that a verdict has expired. The gap is forgotten: the peer may be back without a
    /// message to this node, and the ring may not change for hours.
    pub(super) fn on_expired(&mut self, peer: PeerId) {
        self.gaps.remove(&peer);
    }

    /// Note that the ring has closed, with these neighbours.
    pub(super) fn on_relinked(&mut self, ring: [Option<PeerId>; 2], now: Instant) {
        self.ring = ring;
        let gaps = std::mem::take(&mut self.gaps);
        if let Some(since) = gaps.into_values().min() {
            let open = now.saturating_duration_since(since);
            catalogue::RELINK_SECONDS.get().record(open);
        }
    }

    /// Note whether the node is settled.
    pub(super) fn on_settled(&mut self, is_settled: bool, now: Instant) {
        if !is_settled {
            self.unsettled.get_or_insert(now);
        } else if let Some(since) = self.unsettled.take() {
            let unsettled = now.saturating_duration_since(since);
            catalogue::CONVERGENCE_SECONDS.get().record(unsettled);
        }
    }
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use std::time::Duration;

    use metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn peer(n: u8) -> PeerId {
        PeerId::from_bytes([n; 16])
    }

    /// The sum in seconds, and the number, of the values that `work` records in a histogram.
    fn recorded(name: &str, work: impl FnOnce()) -> (f64, u64) {
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, work);
        let text = recorder.handle().render();
        let value = |suffix| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(suffix));
            line.expect("recorded")
        };
        let (sum, count) = (value("_sum "), value("_count "));
        (sum.parse().expect("a sum"), count.parse().expect("a count"))
    }

    #[test]
    fn detection_is_counted_from_the_last_sign_of_life_of_a_watched_peer() {
        let start = super::super::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let took = recorded("binomesh_detection_seconds", || {
            let mut outages = Outages::new(start);
            outages.watch([peer(1), peer(2), peer(3)].into_iter(), start);
            outages.on_heard(peer(1), at(2));
            outages.on_heard(peer(9), at(2));
            // A peer that is no longer watched gives no signs of life; its silence is not measured.
            outages.watch([peer(1), peer(2)].into_iter(), at(3));
            for dead in [1, 2, 3, 9, 1] {
                outages.on_down(peer(dead), at(5));
            }
        });
        assert_eq!(took, (8.0, 2));
    }

    #[test]
    fn relinking_is_counted_from_the_first_ring_neighbour_that_is_down() {
        let start = super::super::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let took = recorded("binomesh_relink_seconds", || {
            let mut outages = Outages::new(start);
            outages.on_relinked([Some(peer(1)), Some(peer(2))], start);
            // Peer 7 is no neighbour in the ring, and peer 1 has come back: neither leaves a gap.
            outages.on_down(peer(7), at(1));
            outages.on_relinked([Some(peer(1)), Some(peer(2))], at(2));
            outages.on_down(peer(1), at(3));
            outages.on_up(peer(1));
            outages.on_relinked([Some(peer(3)), Some(peer(2))], at(4));
            outages.on_down(peer(3), at(10));
            outages.on_down(peer(2), at(12));
            outages.on_relinked([Some(peer(4)), Some(peer(5))], at(14));
            // The first dead neighbour comes back, the second does not.
            outages.on_down(peer(4), at(20));
            outages.on_down(peer(5), at(21));
            outages.on_up(peer(4));
            outages.on_relinked([Some(peer(4)), Some(peer(6))], at(23));
        });
        assert_eq!(took, (4.0 + 2.0, 2));
    }

    #[test]
    fn a_verdict_that_expires_leaves_no_gap() {
        let start = super::super::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let took = recorded("binomesh_relink_seconds", || {
            let mut outages = Outages::new(start);
            outages.on_relinked([Some(peer(1)); 2], start);
            outages.on_down(peer(1), at(3));
            outages.on_expired(peer(7));
            outages.on_relinked([Some(peer(2)); 2], at(4));
            outages.on_down(peer(2), at(10));
            outages.on_expired(peer(2));
            // The verdict has expired; hours later the ring changes, and that ends no gap.
            outages.on_relinked([Some(peer(2)), Some(peer(3))], at(10_000));
        });
        assert_eq!(took, (1.0, 1));
    }

    #[test]
    fn convergence_is_counted_once_from_unsettled_to_settled() {
        let start = super::super::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let took = recorded("binomesh_convergence_seconds", || {
            let mut outages = Outages::new(start);
            for (seconds, is_settled) in [(1, false), (2, true), (3, true), (5, false), (8, true)] {
                outages.on_settled(is_settled, at(seconds));
            }
        });
        assert_eq!(took, (5.0, 2));
    }
}
