//! One decision among a fixed list of members, by ballots as in Paxos.
//!
//! The coordinator gathers promises for its ballot, proposes, and gathers votes. A proposal is
//! decided once a majority of all members has voted for it in one ballot. No later ballot can
//! decide another one. The promises for a later ballot come from a majority too, so one of them
//! names the decided proposal. Members keep their votes in memory only; for members that were
//! started again see [`super::lives`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of an attempt to decide. A greater ballot overrules a smaller one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Ballot {
    /// 0 only for the attempt that needs no promises: see [`Ballot::first`].
    pub round: u32,
    /// The place in the list of the member that makes the attempt.
    pub proposer: u32,
    /// The life of that member, so that no two lives use the same ballot.
    pub boot: u64,
}

impl Ballot {
    /// The ballot of the member that coordinates before all others, if certainly no earlier life of
    /// that member has used a ballot. No smaller ballot exists, so no member can have voted in one,
    /// and no promises are needed.
    pub const fn first(proposer: u32, boot: u64) -> Self {
        Self {
            round: 0,
            proposer,
            boot,
        }
    }

    /// The greatest round. Honest members count up from 1 and never reach it.
    pub const MAX_ROUND: u32 = u32::MAX / 2;

    /// Whether the member at this place may have made this ballot.
    pub const fn is_of(self, member: u32) -> bool {
        self.proposer == member && self.round <= Self::MAX_ROUND
    }
}

/// How many of `members` are a majority.
pub const fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// An acceptor: the promises and votes of one member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acceptor<P> {
    promised: Option<Ballot>,
    voted: Option<(Ballot, P)>,
}

impl<P> Default for Acceptor<P> {
    fn default() -> Self {
        Self {
            promised: None,
            voted: None,
        }
    }
}

impl<P: Clone + PartialEq> Acceptor<P> {
    /// Whether the member has neither promised nor voted.
    pub const fn is_untouched(&self) -> bool {
        self.promised.is_none()
    }

    /// The last vote: its ballot and proposal.
    pub const fn voted(&self) -> Option<&(Ballot, P)> {
        self.voted.as_ref()
    }

    /// The greatest ballot that the member has promised or voted in.
    pub const fn promised(&self) -> Option<Ballot> {
        self.promised
    }

    /// Promise to vote in no smaller ballot, and return the last vote. If a greater ballot was
    /// promised already, return that ballot as the error.
    pub fn promise(&mut self, ballot: Ballot) -> Result<Option<&(Ballot, P)>, Ballot> {
        self.meet(ballot)?;
        Ok(self.voted.as_ref())
    }

    /// Vote for a proposal. If a greater ballot was promised already, return it as the error.
    pub fn vote(&mut self, ballot: Ballot, proposal: &P) -> Result<(), Ballot> {
        self.meet(ballot)?;
        self.voted = Some((ballot, proposal.clone()));
        Ok(())
    }

    fn meet(&mut self, ballot: Ballot) -> Result<(), Ballot> {
        match self.promised {
            Some(greater) if greater > ballot => Err(greater),
            _ => {
                self.promised = Some(ballot);
                Ok(())
            }
        }
    }
}

/// The answers to one question of a ballot: the members that have answered, each with its life. An
/// answer does not count if a later life of its member is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Count {
    lives: BTreeMap<u32, u64>,
}

impl Count {
    /// Note the answer of one life of a member.
    pub fn note(&mut self, member: u32, boot: u64) {
        let known = self.lives.entry(member).or_insert(boot);
        *known = boot.max(*known);
    }

    /// Whether this member has answered.
    pub fn has(&self, member: u32) -> bool {
        self.lives.contains_key(&member)
    }

    /// How many answers count: those whose life is not older than the member's latest known one.
    pub fn valid(&self, latest: &BTreeMap<u32, u64>) -> usize {
        let is_valid = |(member, boot): &(&u32, &u64)| {
            latest.get(member).is_none_or(|latest| **boot >= *latest)
        };
        self.lives.iter().filter(is_valid).count()
    }
}

/// One attempt of this member to have something decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Poll<P> {
    /// The ballot of the attempt.
    pub ballot: Ballot,
    /// How many members the list has.
    members: usize,
    /// The vote with the greatest ballot that a promise named.
    voted_before: Option<(Ballot, P)>,
    /// The proposal, once enough members have promised.
    proposal: Option<P>,
    answers: Count,
    /// The latest known lives of members that were started again, from all answers.
    latest: BTreeMap<u32, u64>,
}

impl<P: Clone + PartialEq> Poll<P> {
    /// An attempt with [`Ballot::first`], which needs no promises and proposes at once.
    pub fn first(proposer: u32, boot: u64, members: usize, proposal: P) -> Self {
        Self {
            proposal: Some(proposal),
            ..Self::new(Ballot::first(proposer, boot), members)
        }
    }

    /// An attempt that begins by asking for promises.
    pub fn new(ballot: Ballot, members: usize) -> Self {
        Self {
            ballot,
            members,
            voted_before: None,
            proposal: None,
            answers: Count::default(),
            latest: BTreeMap::new(),
        }
    }

    /// The proposal, once there is one.
    pub const fn proposal(&self) -> Option<&P> {
        self.proposal.as_ref()
    }

    /// Whether this member has answered the open question.
    pub fn has_answered(&self, member: u32) -> bool {
        self.answers.has(member)
    }

    /// Note the later lives that the sender of an answer knows of.
    pub fn note_lives(&mut self, lives: impl IntoIterator<Item = (u32, u64)>) {
        let members = self.members as u32;
        for (member, boot) in lives.into_iter().filter(|(member, _)| *member < members) {
            let known = self.latest.entry(member).or_insert(boot);
            *known = boot.max(*known);
        }
    }

    /// Count a promise, with the last vote of its sender. Once promises suffice, returns the
    /// proposal to vote on: that of the vote with the greatest ballot, or else the one that `own`
    /// makes.
    pub fn on_promise(
        &mut self,
        member: u32,
        boot: u64,
        voted: Option<(Ballot, P)>,
        own: impl FnOnce() -> P,
    ) -> Option<&P> {
        if self.proposal.is_some() {
            return None;
        }
        let is_greater = |(ballot, _): &(Ballot, P)| {
            let known = self.voted_before.as_ref();
            known.is_none_or(|(known, _)| ballot > known)
        };
        if let Some(voted) = voted.filter(is_greater) {
            self.voted_before = Some(voted);
        }
        self.answers.note(member, boot);
        if self.answers.valid(&self.latest) < majority(self.members) {
            return None;
        }
        let before = self.voted_before.take().map(|(_, proposal)| proposal);
        self.answers = Count::default();
        self.proposal = Some(before.unwrap_or_else(own));
        self.proposal.as_ref()
    }

    /// Count a vote. Returns whether the proposal is decided.
    pub fn on_vote(&mut self, member: u32, boot: u64) -> bool {
        if self.proposal.is_none() {
            return false;
        }
        self.answers.note(member, boot);
        self.answers.valid(&self.latest) >= majority(self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_ballot_proposes_what_may_have_been_decided() {
        let mut members: Vec<Acceptor<char>> = vec![Acceptor::default(); 3];
        for member in &mut members[..2] {
            assert_eq!(member.vote(Ballot::first(0, 1), &'a'), Ok(()));
        }
        let ballot = Ballot {
            round: 1,
            proposer: 2,
            boot: 1,
        };
        let mut poll = Poll::new(ballot, 3);
        for place in [2, 1] {
            let voted = members[place].promise(ballot).unwrap().cloned();
            poll.on_promise(place as u32, 1, voted, || 'b');
        }
        assert_eq!(poll.proposal(), Some(&'a'));
        assert_eq!(members[1].vote(Ballot::first(0, 1), &'a'), Err(ballot));
    }

    #[test]
    fn votes_of_a_life_that_is_over_do_not_count() {
        let mut poll = Poll::first(0, 1, 3, 'a');
        assert!(!poll.on_vote(0, 1));
        poll.note_lives([(1, 7)]);
        assert!(!poll.on_vote(1, 6));
        assert!(poll.on_vote(2, 1));
    }

    #[test]
    fn half_is_no_majority() {
        assert_eq!([1, 2, 3, 4, 16].map(majority), [1, 2, 2, 3, 9]);
    }
}
