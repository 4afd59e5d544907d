//! Peers under a verdict, and how long each verdict has stood.
//!
//! When a verdict has stood for `down_patience`, messages end without its peer; while own messages
//! find no room, `down_pressed` is enough. A new epoch makes a verdict doubtful: the peer is tried
//! again, since a peer that the census counts may be back. But its age counts on, so messages wait
//! for the peer no longer than before.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct VerdictRecord {
    /// The number of its timer.
    number: u64,
    age: Age,
    /// The verdict is of an earlier epoch.
    is_doubtful: bool,
}

/// How long a verdict has stood, or a member has been draining.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Age {
    /// The verdict is new: perhaps the peer is only being started again.
    New,
    /// The verdict has stood for `down_pressed`.
    Firm,
    /// The verdict has stood for `down_patience`.
    Old,
}

impl Age {
    /// The age after one more timer.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::New => Self::Firm,
            Self::Firm | Self::Old => Self::Old,
        }
    }
}

/// The verdicts that stand; at most `config.max_peers`. Further verdicts act once and are not
/// remembered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Verdicts<I> {
    peers: BTreeMap<I, VerdictRecord>,
    next: u64,
}

impl<I: Id> Verdicts<I> {
    pub(super) const fn new() -> Self {
        Self {
            peers: BTreeMap::new(),
            next: 0,
        }
    }

    /// The peers under a verdict, doubtful or not.
    pub(super) fn peers(&self) -> impl Iterator<Item = I> + '_ {
        self.peers.keys().copied()
    }

    /// A peer is called down. If that is news, returns the number of its patience timer.
    pub(super) fn give(&mut self, peer: I, max: usize) -> Option<u64> {
        if let Some(verdict) = self.peers.get_mut(&peer) {
            verdict.is_doubtful = false;
            return None;
        }
        if self.peers.len() >= max {
            return None;
        }
        self.next += 1;
        let verdict = VerdictRecord {
            number: self.next,
            age: Age::New,
            is_doubtful: false,
        };
        self.peers.insert(peer, verdict);
        Some(self.next)
    }

    /// The verdict on a peer is over. Returns the number of its timer, if there was a verdict.
    pub(super) fn withdraw(&mut self, peer: I) -> Option<u64> {
        self.peers.remove(&peer).map(|verdict| verdict.number)
    }

    /// The peers under a verdict that is not doubtful.
    pub(super) fn down(&self) -> impl Iterator<Item = I> + '_ {
        let down = self
            .peers
            .iter()
            .filter(|(_, verdict)| !verdict.is_doubtful);
        down.map(|(peer, _)| *peer)
    }

    /// The timer of a verdict has fired. Returns the age of the verdict, unless it is withdrawn.
    pub(super) fn ripen(&mut self, number: u64) -> Option<Age> {
        let mut all = self.peers.values_mut();
        let verdict = all.find(|verdict| verdict.number == number)?;
        verdict.age = verdict.age.next();
        Some(verdict.age)
    }

    /// A new epoch has come: all verdicts become doubtful, except those on `certain` peers.
    pub(super) fn doubt_all(&mut self, certain: impl Fn(I) -> bool) {
        for (peer, verdict) in &mut self.peers {
            verdict.is_doubtful |= !certain(*peer);
        }
    }

    /// Withdraw all verdicts, except those on the peers that `stays` names. Returns the numbers of
    /// their timers.
    pub(super) fn retain(&mut self, stays: impl Fn(I) -> bool) -> Vec<u64> {
        let mut gone = Vec::new();
        self.peers.retain(|peer, verdict| {
            let stays = stays(*peer);
            if !stays {
                gone.push(verdict.number);
            }
            stays
        });
        gone
    }

    /// Whether there is a verdict on a peer, doubtful or not.
    pub(super) fn has(&self, peer: I) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Whether a peer is under a verdict that is not doubtful.
    pub(super) fn is_down(&self, peer: I) -> bool {
        let verdict = self.peers.get(&peer);
        verdict.is_some_and(|verdict| !verdict.is_doubtful)
    }

    /// Whether a verdict on a peer, doubtful or not, is at least this old.
    pub(super) fn has_stood(&self, peer: I, age: Age) -> bool {
        let verdict = self.peers.get(&peer);
        verdict.is_some_and(|verdict| verdict.age >= age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_ripens_and_a_new_epoch_only_doubts_it() {
        let mut verdicts = Verdicts::new();
        let number = verdicts.give(7u32, 2).unwrap();
        assert_eq!(verdicts.give(7, 2), None);
        assert!(verdicts.is_down(7) && !verdicts.has_stood(7, Age::Firm));
        for age in [Age::Firm, Age::Old, Age::Old] {
            assert_eq!(verdicts.ripen(number), Some(age));
            assert!(verdicts.has_stood(7, age));
        }
        verdicts.doubt_all(|peer| peer == 7);
        assert!(verdicts.is_down(7));
        verdicts.doubt_all(|_| false);
        assert!(!verdicts.is_down(7) && verdicts.has_stood(7, Age::Old));
        assert_eq!(verdicts.withdraw(7), Some(number));
        assert!(verdicts.ripen(number).is_none() && !verdicts.has(7));
    }

    #[test]
    fn beyond_the_bound_nothing_is_remembered() {
        let mut verdicts = Verdicts::new();
        assert!(verdicts.give(1u32, 1).is_some());
        assert_eq!(verdicts.give(2, 1), None);
        assert!(!verdicts.has(2));
        assert_eq!(verdicts.retain(|_| false).len(), 1);
    }
}
