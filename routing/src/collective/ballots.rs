//! Ballots: the coordinator asks for votes, and every member answers.

use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::Id;
use serde::Serialize;

use super::context::Ctx;
use super::instance::Instance;
use super::message::Message;
use super::proposal::Proposal;
use super::voting::{Ballot, Poll};
use super::{Effect, Timer};

/// How long a member whose ballot was overruled waits before its next ballot, times 1 to 8 by its
/// place in the list. A guess: well above the time of a ballot among neighbours. If it is too
/// short, two members overrule each other in turn; if too long, the decision is late.
const TURN: Duration = Duration::from_millis(100);

impl<I: Id + Serialize> Instance<I> {
    /// Begin a ballot, if this member coordinates and it is time to propose. None begins if the
    /// operation is decided, a ballot of this member is open, or one was overruled a moment ago.
    pub(super) fn consider(&mut self, ctx: &mut Ctx<'_, I>) {
        self.take_back(ctx);
        let is_busy = self.decided.is_some() || self.poll.is_some() || self.holds_off;
        if is_busy || self.coordinator(ctx.gone) != self.me || !self.is_ready(ctx.gone) {
            return;
        }
        let is_first = ctx.lives.is_new(&self.terms.key)
            && !self.has_polled
            && self.acceptor.is_untouched()
            && self.terms.coordinators().next() == Some(self.me);
        self.record(ctx);
        self.has_polled = true;
        self.retries = 0;
        let members = self.members();
        if is_first {
            let proposal = self.proposal(ctx.gone);
            self.poll = Some(Poll::first(self.me, ctx.boot, members, proposal));
            self.arm_retry(ctx);
            return self.propose(ctx);
        }
        self.round = self.round.saturating_add(1).min(Ballot::MAX_ROUND);
        let ballot = Ballot {
            round: self.round,
            proposer: self.me,
            boot: ctx.boot,
        };
        self.poll = Some(Poll::new(ballot, members));
        self.arm_retry(ctx);
        self.ask(ctx, None);
        self.answer_own(ctx);
    }

    /// Answer this member's own open question to the members, if this life may vote by now.
    pub(super) fn answer_own(&mut self, ctx: &mut Ctx<'_, I>) {
        let Some(poll) = &self.poll else { return };
        let (ballot, is_asking) = (poll.ballot, poll.proposal().is_none());
        if poll.has_answered(self.me) {
            return;
        }
        if !is_asking {
            return self.vote_own(ctx);
        }
        if self.may_vote(ctx)
            && let Ok(voted) = self.acceptor.promise(ballot)
        {
            let voted = voted.cloned();
            let lives = ctx.lives.among(&self.terms.members);
            self.on_promise(ctx, self.me, ballot, ctx.boot, lives, voted);
        }
    }

    /// End the question for promises if members are waited for again: a member that was given up is
    /// back, or enough members hold its value after all.
    pub(super) fn take_back(&mut self, ctx: &Ctx<'_, I>) {
        if !self.is_ready(ctx.gone) {
            self.poll.take_if(|poll| poll.proposal().is_none());
        }
    }

    fn propose(&mut self, ctx: &mut Ctx<'_, I>) {
        self.ask(ctx, None);
        self.vote_own(ctx);
    }

    fn vote_own(&mut self, ctx: &mut Ctx<'_, I>) {
        let Some(poll) = &self.poll else { return };
        let (ballot, proposal) = (poll.ballot, poll.proposal().cloned());
        if let Some(proposal) = proposal
            && self.may_vote(ctx)
            && self.acceptor.vote(ballot, &proposal).is_ok()
        {
            let lives = ctx.lives.among(&self.terms.members);
            self.on_vote(ctx, self.me, ballot, ctx.boot, lives);
        }
    }

    /// Ask the members that have not answered the open question; with `only`, just that one of
    /// them.
    pub(super) fn ask(&self, ctx: &mut Ctx<'_, I>, only: Option<u32>) {
        let Some(poll) = &self.poll else { return };
        let others = self.others(ctx.gone);
        let asked = others.filter(|(place, _)| {
            !poll.has_answered(*place) && only.is_none_or(|only| only == *place)
        });
        let to: Vec<I> = asked.map(|(_, member)| member).collect();
        let (terms, ballot) = (self.terms.as_ref().clone(), poll.ballot);
        let message = match poll.proposal().cloned() {
            None => Message::Prepare { terms, ballot },
            Some(proposal) => Message::Propose {
                terms,
                ballot,
                proposal,
            },
        };
        match only.is_none() && self.retries == 0 {
            true => ctx.send_down(&self.terms.members, to, message),
            false => ctx.send_again(to, message),
        }
    }

    /// Record that this life takes part in the vote, for later lives, unless that has been recorded
    /// before.
    fn record(&self, ctx: &mut Ctx<'_, I>) {
        if !self.has_polled && self.acceptor.is_untouched() {
            ctx.out.push(Effect::Record(self.terms.key.clone()));
        }
    }

    /// Whether this life may vote in this operation. If it may not because too few members know
    /// this life, it introduces itself to those that do not.
    fn may_vote(&self, ctx: &mut Ctx<'_, I>) -> bool {
        let members = &self.terms.members;
        if ctx.lives.is_sure(&self.list, members.len()) {
            return ctx.lives.may_vote(&self.terms.key);
        }
        if ctx.lives.begin(self.list, members, ctx.me) {
            let unaware = ctx.lives.unaware(&self.list);
            let to: Vec<I> = unaware.filter(|member| !ctx.gone.has(*member)).collect();
            let message = Message::Introduce {
                boot: ctx.boot,
                members: members.clone(),
            };
            ctx.send(to, message);
        }
        false
    }

    pub(super) fn on_prepare(&mut self, ctx: &mut Ctx<'_, I>, from: u32, ballot: Ballot) {
        if !ballot.is_of(from) {
            return;
        }
        self.round = self.round.max(ballot.round);
        if self.decided.is_some() {
            return self.tell_outcome(ctx, from);
        }
        if !self.may_vote(ctx) {
            return;
        }
        self.record(ctx);
        let is_again = self.acceptor.promised() == Some(ballot);
        let (key, digest) = (self.terms.key.clone(), self.digest);
        let message = match self.acceptor.promise(ballot) {
            Ok(voted) => Message::Promise {
                key,
                digest,
                ballot,
                boot: ctx.boot,
                voted: voted.cloned(),
                lives: ctx.lives.among(&self.terms.members),
            },
            Err(promised) => Message::Overruled {
                key,
                digest,
                promised,
            },
        };
        self.answer(ctx, from, message, is_again);
    }

    /// Send an answer the quick way. If the question came again, the first answer may have been
    /// lost there, so the relay is used as well.
    fn answer(&self, ctx: &mut Ctx<'_, I>, to: u32, message: Message<I>, is_again: bool) {
        let Some(member) = self.member(to) else {
            return;
        };
        match is_again {
            true => ctx.send_again(vec![member], message),
            false => ctx.send_up(member, message),
        }
    }

    pub(super) fn on_propose(
        &mut self,
        ctx: &mut Ctx<'_, I>,
        from: u32,
        ballot: Ballot,
        proposal: &Proposal,
    ) {
        if !ballot.is_of(from) {
            return;
        }
        self.round = self.round.max(ballot.round);
        if self.decided.is_some() {
            return self.tell_outcome(ctx, from);
        }
        if !proposal.is_sound(self.members()) || !self.may_vote(ctx) {
            return;
        }
        self.record(ctx);
        let is_again = self
            .acceptor
            .voted()
            .is_some_and(|(voted, _)| *voted == ballot);
        let (key, digest) = (self.terms.key.clone(), self.digest);
        let message = match self.acceptor.vote(ballot, proposal) {
            Ok(()) => Message::Vote {
                key,
                digest,
                ballot,
                boot: ctx.boot,
                lives: ctx.lives.among(&self.terms.members),
            },
            Err(promised) => Message::Overruled {
                key,
                digest,
                promised,
            },
        };
        self.answer(ctx, from, message, is_again);
    }

    pub(super) fn on_promise(
        &mut self,
        ctx: &mut Ctx<'_, I>,
        from: u32,
        ballot: Ballot,
        boot: u64,
        lives: super::message::Lives,
        voted: Option<(Ballot, Proposal)>,
    ) {
        let Some(mut poll) = self.poll.take_if(|poll| poll.ballot == ballot) else {
            return;
        };
        let members = self.members();
        let voted = voted.filter(|(_, proposal)| proposal.is_sound(members));
        poll.note_lives(lives);
        let own = || self.proposal(ctx.gone);
        let is_proposed = poll.on_promise(from, boot, voted, own).is_some();
        self.poll = Some(poll);
        if is_proposed {
            self.propose(ctx);
        }
    }

    pub(super) fn on_vote(
        &mut self,
        ctx: &mut Ctx<'_, I>,
        from: u32,
        ballot: Ballot,
        boot: u64,
        lives: super::message::Lives,
    ) {
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.ballot == ballot) else {
            return;
        };
        poll.note_lives(lives);
        if !poll.on_vote(from, boot) {
            return;
        }
        let Some(proposal) = poll.proposal().cloned() else {
            return;
        };
        let others = self.others(ctx.gone);
        let to: Vec<I> = others.map(|(_, member)| member).collect();
        let message = Message::Decided {
            key: self.terms.key.clone(),
            digest: self.digest,
            ballot,
        };
        ctx.send_down(&self.terms.members, to, message);
        self.decide(ctx, proposal);
    }

    /// A member has promised a greater ballot than this member's. The other ballot goes first.
    pub(super) fn on_overruled(&mut self, ctx: &mut Ctx<'_, I>, promised: Ballot) {
        if promised.round > Ballot::MAX_ROUND {
            return;
        }
        let is_news = self
            .poll
            .as_ref()
            .is_some_and(|poll| promised > poll.ballot);
        self.round = self.round.max(promised.round);
        if !is_news {
            return;
        }
        self.poll = None;
        self.holds_off = true;
        self.retries = 0;
        ctx.arm(Timer::Retry(self.serial), TURN * (1 + self.me % 8));
    }

    pub(super) fn on_decided(&mut self, ctx: &mut Ctx<'_, I>, from: u32, ballot: Ballot) {
        if self.decided.is_some() {
            return;
        }
        let voted = self.acceptor.voted().filter(|(voted, _)| *voted == ballot);
        match voted.cloned() {
            Some((_, proposal)) => self.decide(ctx, proposal),
            None => self.ask_outcome(ctx, from),
        }
    }

    pub(super) fn on_outcome(&mut self, ctx: &mut Ctx<'_, I>, proposal: Proposal) {
        if self.decided.is_none() && proposal.is_sound(self.members()) {
            self.decide(ctx, proposal);
            self.tell_arrived(ctx);
        }
    }

    /// If this member coordinates, tell an outcome that others decided to the members that have
    /// reported their arrival here. They take this member for the coordinator and ask no other.
    fn tell_arrived(&self, ctx: &mut Ctx<'_, I>) {
        if self.coordinator(ctx.gone) != self.me {
            return;
        }
        for place in self.arrivals.keys().filter(|place| **place != self.me) {
            self.tell_outcome(ctx, *place);
        }
    }

    fn decide(&mut self, ctx: &mut Ctx<'_, I>, proposal: Proposal) {
        for member in self.arrivals.keys() {
            ctx.disarm(Timer::Close {
                serial: self.serial,
                member: *member,
            });
        }
        ctx.disarm(Timer::Progress(self.serial));
        ctx.disarm(Timer::Retry(self.serial));
        self.decided = Some(Arc::new(proposal));
        (self.poll, self.holds_off, self.retries) = (None, false, 0);
        if !self.calls.is_empty() {
            self.fetch_needs(ctx);
        }
        self.arm_retry(ctx);
    }

    pub(super) fn ask_outcome(&self, ctx: &mut Ctx<'_, I>, from: u32) {
        let message = Message::Ask {
            key: self.terms.key.clone(),
            digest: self.digest,
        };
        ctx.send_again(self.member(from).into_iter().collect(), message);
    }

    /// A member asks for the outcome. If the operation is undecided and this member coordinates and
    /// knows of no arrival of that member, it asks for the arrival instead.
    pub(super) fn on_ask(&self, ctx: &mut Ctx<'_, I>, from: u32) {
        let is_unknown = self.decided.is_none() && !self.arrivals.contains_key(&from);
        match self.member(from) {
            Some(member) if is_unknown && self.coordinator(ctx.gone) == self.me => {
                // The sender told a former life of this member that it has come. Let it say so
                // again.
                let key = self.terms.key.clone();
                ctx.send(vec![member], Message::AskTerms { key });
            }
            _ => self.tell_outcome(ctx, from),
        }
    }

    /// Tell a member the outcome, if the operation is decided.
    pub(super) fn tell_outcome(&self, ctx: &mut Ctx<'_, I>, to: u32) {
        if let (Some(proposal), Some(member)) = (&self.decided, self.member(to)) {
            let message = Message::Outcome {
                terms: self.terms.as_ref().clone(),
                proposal: proposal.as_ref().clone(),
            };
            ctx.send(vec![member], message);
        }
    }
}
