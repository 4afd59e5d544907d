//! How long each peer usually takes to give custody.
//!
//! Departure: DESIGN §4 asks for a smoothed custody time, but a machine has no
//! clock. What it sees is whether custody came before its timer, which is enough
//! to keep the timer just above the usual time: late doubles it, in time lowers
//! it by a sixteenth.
//!
//! To that comes what the copies in front of one take on their way, and it itself: what
//! was sent to the peer and not answered yet, at the least rate that a link should have.
//! An answer says that everything up to that copy has arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh_overlay::Id;

use super::Config;

/// One peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Record {
    /// The wait for custody; at the floor if none.
    wait: Option<Duration>,
    /// Bytes sent to it so far.
    sent: u64,
    /// How many of these it is known to have.
    arrived: u64,
}

/// The wait for custody per peer; peers at the floor with nothing on its way are not
/// stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pace<I> {
    peers: BTreeMap<I, Record>,
}

impl<I: Id> Pace<I> {
    pub(super) const fn new() -> Self {
        Self {
            peers: BTreeMap::new(),
        }
    }

    /// The wait for custody of `peer` after `doublings` earlier failures, if nothing is
    /// on its way.
    pub(super) fn wait(&self, peer: I, doublings: u32, config: &Config) -> Duration {
        let first = self.peers.get(&peer).and_then(|peer| peer.wait);
        first
            .unwrap_or(config.custody_floor)
            .saturating_mul(1 << doublings.min(16))
            .min(config.custody_cap)
    }

    /// What a copy of so many bytes, sent last, takes with all that is in front of it.
    pub(super) fn transfer(&self, peer: I, bytes: usize, config: &Config) -> Duration {
        let rate = u64::from(config.custody_bytes_per_second);
        if rate == 0 {
            return Duration::ZERO;
        }
        let time = |bytes: u64| Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        let waiting = self.peers.get(&peer).map_or(0, |peer| peer.sent - peer.arrived);
        let own = bytes as u64;
        let in_front = time(waiting.saturating_sub(own)).min(config.custody_cap);
        time(own).saturating_add(in_front)
    }

    /// A copy of so many bytes goes to `peer`. Returns its mark, for the answer.
    pub(super) fn on_sent(&mut self, peer: I, bytes: usize, config: &Config) -> u64 {
        if config.custody_bytes_per_second == 0 || !self.has_room(peer, config) {
            return 0;
        }
        let record = self.peers.entry(peer).or_default();
        record.sent = record.sent.saturating_add(bytes as u64);
        record.sent
    }

    /// The copy with this mark has been answered.
    pub(super) fn on_answer(&mut self, peer: I, mark: u64) {
        self.change(peer, |record| {
            record.arrived = record.arrived.max(mark).min(record.sent);
        });
    }

    /// What was on its way is lost, or there.
    pub(super) fn on_link(&mut self, peer: I) {
        self.change(peer, |record| record.arrived = record.sent);
    }

    /// Custody was not there at the first timer, after `waited` beyond the transfer. Of
    /// many that were sent at once and are all late one counts: none was given the
    /// longer time.
    pub(super) fn on_late(&mut self, peer: I, waited: Duration, config: &Config) {
        if waited < self.wait(peer, 0, config) {
            return;
        }
        // Below the cap, so that doubling still has room.
        let wait = self.wait(peer, 1, config).min(config.custody_cap / 4);
        if self.has_room(peer, config) {
            self.peers.entry(peer).or_default().wait = Some(wait.max(config.custody_floor));
        }
    }

    /// Custody came before the first timer.
    pub(super) fn on_time(&mut self, peer: I, config: &Config) {
        self.change(peer, |record| {
            let less = record.wait.map(|wait| wait - wait / 16);
            record.wait = less.filter(|wait| *wait > config.custody_floor);
        });
    }

    fn has_room(&self, peer: I, config: &Config) -> bool {
        self.peers.len() < config.max_peers || self.peers.contains_key(&peer)
    }

    fn change(&mut self, peer: I, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.peers.get_mut(&peer) {
            change(record);
            if record.wait.is_none() && record.arrived == record.sent {
                self.peers.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_peer_gets_more_time_and_a_fast_one_less() {
        let config = Config::default();
        let mut pace = Pace::new();
        assert_eq!(pace.wait(1u32, 0, &config), config.custody_floor);
        let floor = config.custody_floor;
        pace.on_late(1, floor, &config);
        (0..9).for_each(|_| pace.on_late(1, floor, &config));
        assert_eq!(pace.wait(1, 0, &config), 2 * floor);
        pace.on_late(1, 2 * floor, &config);
        assert_eq!(pace.wait(1, 0, &config), 4 * config.custody_floor);
        assert_eq!(pace.wait(2, 0, &config), config.custody_floor);
        (0..100).for_each(|_| pace.on_late(1, Duration::MAX, &config));
        assert_eq!(pace.wait(1, 0, &config), config.custody_cap / 4);
        (0..1000).for_each(|_| pace.on_time(1, &config));
        assert_eq!(pace.wait(1, 0, &config), config.custody_floor);
        assert_eq!(pace.wait(1, 40, &config), config.custody_cap);
        assert!(pace.peers.is_empty());
    }

    #[test]
    fn what_is_on_its_way_takes_its_time() {
        let config = Config {
            custody_bytes_per_second: 1000,
            ..Config::default()
        };
        let second = Duration::from_secs(1);
        let mut pace = Pace::new();
        let marks: Vec<u64> = (0..3).map(|_| pace.on_sent(1u32, 500, &config)).collect();
        assert_eq!(pace.transfer(1, 500, &config), second * 3 / 2);
        assert_eq!(pace.transfer(2, 500, &config), second / 2);
        pace.on_answer(1, marks[1]);
        assert_eq!(pace.transfer(1, 500, &config), second / 2);
        pace.on_answer(1, marks[0]);
        assert_eq!(pace.transfer(1, 500, &config), second / 2);
        // A peer that answers nothing is not waited for much longer than others.
        let sent = (0..1000).map(|_| pace.on_sent(1, 500, &config));
        assert_eq!(sent.max(), Some(501_500));
        assert_eq!(pace.transfer(1, 500, &config), second / 2 + config.custody_cap);
        pace.on_link(1);
        assert!(pace.peers.is_empty());
    }
}
