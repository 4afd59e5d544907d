//! The notary's memory of the chains that it has judged. A known signer costs one signature check,
//! since its good chain is remembered. The judgements of one peer's bad chains are limited.

use std::collections::{BTreeMap, VecDeque};

use super::notary::Notary;
use crate::PeerId;

/// The last chain of each signer, by its hash, and the second from which it has to be judged again.
/// Only one chain per signer is kept: a signer that makes many chains does not displace another
/// signer's chain. At most [`Notary::MAX_JUDGED`] signers; one more displaces the signer that came
/// first.
#[derive(Debug, Default)]
pub(super) struct ChainCache {
    chains: BTreeMap<PeerId, ([u8; 32], u64)>,
    by_age: VecDeque<PeerId>,
}

impl ChainCache {
    pub(super) fn has(&self, signer: PeerId, chain: &[u8; 32], now: u64) -> bool {
        let known = self.chains.get(&signer);
        known.is_some_and(|(known, until)| known == chain && now < *until)
    }

    pub(super) fn insert(&mut self, signer: PeerId, chain: [u8; 32], until: u64) {
        if self.chains.insert(signer, (chain, until)).is_some() {
            return;
        }
        self.by_age.push_back(signer);
        if self.by_age.len() > Notary::MAX_JUDGED
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.chains.remove(&oldest);
        }
    }
}

/// The peers over whose links signatures failed: the chain was bad, or the signature beside an
/// unknown chain. One failure of each peer is forgiven per second. The value of a peer is the time,
/// in seconds, at which its last failure will be forgiven. A signature is judged at every hop, so
/// an honest peer passes bad chains on only while its authorities, lists or clock differ from this
/// node's.
///
/// At most [`Notary::MAX_JUDGED`] peers; one more displaces the peer that is forgiven first.
#[derive(Debug, Default)]
pub(super) struct Failures {
    forgiven: BTreeMap<PeerId, u64>,
}

impl Failures {
    /// Whether one more signature from this peer may fail.
    pub(super) fn may_fail(&mut self, from: PeerId, now: u64) -> bool {
        self.count(from, now) < Notary::MAX_FAILURES
    }

    pub(super) fn note(&mut self, from: PeerId, now: u64) {
        let until = now.saturating_add(self.count(from, now) + 1);
        self.forgiven.retain(|_, until| *until > now);
        let next = self.forgiven.iter().min_by_key(|(_, until)| **until);
        if let Some((next, _)) = next
            && self.forgiven.len() >= Notary::MAX_JUDGED
            && !self.forgiven.contains_key(&from)
        {
            let next = *next;
            self.forgiven.remove(&next);
        }
        self.forgiven.insert(from, until);
    }

    /// How many failures are not forgiven yet. After a clock is set back there may be more than
    /// before, but never more than [`Notary::MAX_FAILURES`].
    fn count(&mut self, from: PeerId, now: u64) -> u64 {
        let Some(until) = self.forgiven.get_mut(&from) else {
            return 0;
        };
        *until = (*until).min(now.saturating_add(Notary::MAX_FAILURES));
        until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: usize) -> PeerId {
        PeerId::of_uri(&n.to_string())
    }

    fn chain(n: usize) -> [u8; 32] {
        *blake3::hash(&n.to_be_bytes()).as_bytes()
    }

    #[test]
    fn a_judged_chain_expires_and_the_oldest_one_is_forgotten() {
        let mut cache = ChainCache::default();
        cache.insert(peer(0), chain(0), 100);
        assert!(cache.has(peer(0), &chain(0), 99));
        assert!(!cache.has(peer(0), &chain(0), 100));
        assert!(!cache.has(peer(1), &chain(0), 99));
        cache.insert(peer(0), chain(0), 200);
        assert!(cache.has(peer(0), &chain(0), 100));
        for n in 1..=Notary::MAX_JUDGED {
            cache.insert(peer(n), chain(n), 200);
            assert_eq!(cache.chains.len(), cache.by_age.len());
        }
        assert_eq!(cache.chains.len(), Notary::MAX_JUDGED);
        assert!(!cache.has(peer(0), &chain(0), 100));
        assert!(cache.has(peer(1), &chain(1), 100));
    }

    #[test]
    fn however_many_chains_a_signer_has_the_last_one_is_remembered_and_no_other_forgotten() {
        let mut cache = ChainCache::default();
        cache.insert(peer(0), chain(0), 200);
        for n in 1..=2 * Notary::MAX_JUDGED {
            cache.insert(peer(1), chain(n), 200);
        }
        assert!(cache.has(peer(0), &chain(0), 100));
        assert!(cache.has(peer(1), &chain(2 * Notary::MAX_JUDGED), 100));
        assert!(!cache.has(peer(1), &chain(1), 100));
        assert_eq!((cache.chains.len(), cache.by_age.len()), (2, 2));
    }

    #[test]
    fn so_many_fail_at_once_and_then_one_each_second() {
        let most = Notary::MAX_FAILURES;
        let mut failures = Failures::default();
        let fail = |failures: &mut Failures, now| {
            let may = failures.may_fail(peer(0), now);
            if may {
                failures.note(peer(0), now);
            }
            may
        };
        for now in [100, 100 + most, 1000] {
            let failed = (0..100).filter(|_| fail(&mut failures, now)).count();
            assert_eq!(failed as u64, most, "at {now}");
            assert!(failures.may_fail(peer(1), now));
        }
        for now in 1001..1010 {
            assert!(fail(&mut failures, now));
            assert!(!fail(&mut failures, now));
        }
        // The clock is set back by a large amount.
        assert!(!fail(&mut failures, 1));
        assert!(fail(&mut failures, 2));
        assert!(!fail(&mut failures, 2));
    }

    #[test]
    fn a_forgiven_peer_takes_no_room_and_of_too_many_the_next_to_be_forgiven_goes() {
        let mut failures = Failures::default();
        failures.note(peer(0), 100);
        failures.note(peer(1), 200);
        assert_eq!(failures.forgiven.len(), 1);
        for n in 1..2 * Notary::MAX_JUDGED {
            failures.note(peer(n), 200);
            failures.note(peer(n), 200);
            assert!(failures.forgiven.len() <= Notary::MAX_JUDGED);
        }
        assert_eq!(failures.forgiven.len(), Notary::MAX_JUDGED);
    }
}
