//! Own messages that are open: what is reached, what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Placement, Rank};

use super::duty::DutyKey;
use super::epochs::{EpochView, Epochs};
use super::receipt::{RankRun, Receipt, Unreached};
use crate::order::Order;
use crate::packet::{
    Confirmation, Content, Exception, Header, Message, PacketId, Payloads, Reason, Signature, Span,
    State, Topic, signature_bytes,
};
use crate::runs::Runs;
use crate::strategy::Strategy;

/// An own message that has no receipt yet, or several in one packet. Its distances are those of the epoch
/// in which it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OpenMessage<I> {
    pub(super) id: PacketId<I>,
    /// A broadcast that waits for a complete roster; nobody has it yet.
    pub(super) is_waiting: bool,
    /// It gives up members that are called down after `down_pressed`.
    pub(super) is_soon: bool,
    /// It is kept for members that are away.
    pub(super) keeps: bool,
    /// It was accepted to be kept for members that are away: those that had left have a
    /// line, also when it is kept no longer.
    pub(super) lists_departed: bool,
    /// Nobody is left but those: the mark has passed it.
    pub(super) is_kept: bool,
    /// For whom as well: they stand behind the last distance, in this order.
    awaited: Vec<I>,
    /// Who has not got it after the last round, of one that is to be kept.
    owed_to: BTreeSet<I>,
    /// My place in the epoch of acceptance.
    pub(super) accepted: Placement<I>,
    pub(super) confirmation: Confirmation,
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    pub(super) payloads: Payloads,
    /// My word for them, if I sign.
    pub(super) signature: Option<Signature>,
    pub(super) strategy: Strategy,
    /// The members of that epoch by rank, once it is kept no longer.
    members: Option<Arc<Vec<Option<I>>>>,
    /// Of a message to some members: who is meant at which distance.
    names: BTreeMap<u32, I>,
    /// Distances whose supposed holders said that they never stood there: nobody is
    /// known by name there.
    misnamed: BTreeSet<u32>,
    expected: Runs,
    /// The distances of members that had left when it went out: whatever becomes of them,
    /// they have no line.
    excused: Runs,
    /// Whom it does not wait for; they are excused wherever they stand.
    spared: BTreeSet<I>,
    reached: Runs,
    /// Refused, or gone from the membership: no further try.
    settled: BTreeMap<u32, (Option<I>, State, Reason)>,
    /// What the last round could not confirm; bounded like a report.
    doubts: Vec<Exception<I>>,
    /// Which distances of the last re-issue, in another epoch, stand for which.
    issued: BTreeMap<u32, u32>,
    issued_in: Option<Epoch<I>>,
    /// Who did not find room in the last round and has not had a turn yet.
    postponed: BTreeSet<u32>,
    /// Members to whom nobody found a way while others of the same part were not looked for.
    /// They have no turn until the others had one; at most one entry for each member.
    sought: BTreeSet<u32>,
    /// The last round left members that were not looked for.
    are_hidden: bool,
    pub(super) round: u32,
    pub(super) wait: Duration,
    pub(super) redelegated: u32,
    /// From whom parts were taken; at most [`Message::MAX_REPLACED`].
    replaced: BTreeSet<I>,
}

/// Where a member that is left stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// At this distance in the newest epoch.
    At(u32),
    /// No member of the newest epoch.
    Absent,
    /// Not to be found: the tables that would tell are gone, or wrong.
    NotFound,
    /// Not known yet.
    Unknown,
    /// Who that member is was not learned yet. It may never be: nobody tells the
    /// rest of an old epoch's roster once the next one to ask has died.
    Nameless,
}

impl<I: Id> OpenMessage<I> {
    /// What payloads and signature take in memory.
    fn bytes(&self) -> usize {
        self.payloads.len() + signature_bytes(self.signature.as_ref())
    }

    /// What its signature is about.
    pub(super) fn content(&self) -> Content<'_, I> {
        Content {
            id: self.id,
            confirmation: self.confirmation,
            topic: &self.topic,
            order: self.order,
            payloads: &self.payloads,
        }
    }

    /// What is neither reached nor settled.
    pub(super) fn outstanding(&self) -> Runs {
        let mut outstanding = self.expected.clone();
        for span in self.reached.spans() {
            outstanding.remove(*span);
        }
        for at in self.settled.keys() {
            outstanding.remove(Span::single(*at));
        }
        outstanding
    }

    /// Whether its members are issued to by name in this place, and not as whoever
    /// stands at a rank.
    pub(super) fn is_by_name(&self, placement: &Placement<I>) -> bool {
        !self.names.is_empty() || *placement != self.accepted
    }

    /// Whether this is the distance of somebody who was no member.
    pub(super) fn is_awaited(&self, at: u32) -> bool {
        at >= self.accepted.population.get()
    }

    /// The distances of all members, and of those who are awaited.
    fn everybody(&self) -> Runs {
        let awaited = u32::try_from(self.awaited.len()).unwrap_or(u32::MAX);
        let end = self.accepted.population.get().saturating_add(awaited);
        Runs::from_iter([Span::new(1, end)])
    }

    /// Who is a member is not awaited as well. Before the first round.
    pub(super) fn await_others(&mut self, is_member: impl Fn(I) -> bool) {
        self.awaited.retain(|peer| !is_member(*peer));
        self.expected = self.everybody();
    }

    /// Whether it is for all members of its epoch.
    pub(super) fn is_for_all(&self) -> bool {
        self.names.is_empty()
    }

    /// It is not meant for the member at a distance, which has not been reached.
    pub(super) fn excuse(&mut self, at: u32) {
        self.expected.remove(Span::single(at));
        self.excused.insert(Span::single(at));
    }

    /// It does not wait for some members, as far as it is known where they stand.
    pub(super) fn excuse_the_spared(&mut self, epochs: &Epochs<I>) {
        if self.spared.is_empty() {
            return;
        }
        for at in self.outstanding().iter() {
            let peer = self.peer_at(at, epochs);
            if peer.is_some_and(|peer| self.spared.contains(&peer)) {
                self.excuse(at);
            }
        }
    }

    /// Who stands at a distance, or is meant there, if known.
    pub(super) fn peer_at(&self, at: u32, epochs: &Epochs<I>) -> Option<I> {
        if let Some(beyond) = at.checked_sub(self.accepted.population.get()) {
            return self.awaited.get(beyond as usize).copied();
        }
        if let Some(meant) = self.names.get(&at) {
            return Some(*meant);
        }
        if self.misnamed.contains(&at) {
            return None;
        }
        let rank = self.accepted.rank.ahead(at, self.accepted.population);
        let kept = epochs.find(self.accepted.epoch);
        kept.and_then(|view| view.name_at(rank)).or_else(|| {
            let members = self.members.as_ref()?;
            members.get(rank.0 as usize).copied().flatten()
        })
    }

    /// Where the member at a distance stands in the newest epoch. Who is meant by name may
    /// turn out to stand elsewhere than the roster had it at first.
    pub(super) fn whereabouts(
        &self,
        at: u32,
        newest: &EpochView<I>,
        epochs: &Epochs<I>,
    ) -> Whereabouts {
        if newest.placement() == self.accepted && !self.is_awaited(at) {
            return Whereabouts::At(self.corrected(at, newest).unwrap_or(at));
        }
        let accepted = epochs.find(self.accepted.epoch);
        let may_learn =
            |view: &EpochView<I>| view.roster().is_kept() && !view.roster().is_complete();
        match self.peer_at(at, epochs) {
            Some(peer) => match newest.rank_of(peer) {
                // That is me: the name cannot be right.
                Some(rank) if rank == newest.placement().rank => Whereabouts::NotFound,
                Some(rank) => Whereabouts::At(newest.distance_to(rank)),
                None if newest.roster().is_complete() => Whereabouts::Absent,
                None if may_learn(newest) => Whereabouts::Unknown,
                None => Whereabouts::NotFound,
            },
            None if accepted.is_some_and(may_learn) => Whereabouts::Nameless,
            None => Whereabouts::NotFound,
        }
    }

    /// Where the newest roster has the member that is meant by name at a distance, unless the
    /// own table has it there.
    fn corrected(&self, at: u32, newest: &EpochView<I>) -> Option<u32> {
        let meant = *self.names.get(&at)?;
        let mine = newest.placement();
        if newest.finger_at(mine.rank.ahead(at, mine.population)) == Some(meant) {
            return None;
        }
        let rank = newest.rank_of(meant).filter(|rank| *rank != mine.rank);
        rank.map(|rank| newest.distance_to(rank))
    }

    /// Where the member stood that is meant at a distance of the round that was issued
    /// last; `None` if it is meant by its name alone.
    pub(super) fn stood_at(&self, issued: u32) -> Option<Rank> {
        let at = *self.issued.get(&issued)?;
        let is_by_rank = self.names.is_empty() && !self.is_awaited(at);
        is_by_rank.then(|| self.accepted.rank.ahead(at, self.accepted.population))
    }

    /// The peer that the last round named at a distance says that it never held the rank
    /// that the message was for.
    fn misname(&mut self, epoch: Epoch<I>, issued: u32) {
        let is_current = self.issued_in == Some(epoch) && self.stood_at(issued).is_some();
        if let Some(at) = self.issued.get(&issued).filter(|_| is_current) {
            self.misnamed.insert(*at);
        }
    }

    /// A part was taken from this peer.
    pub(super) fn replace(&mut self, peer: I) {
        if self.replaced.len() < Message::<I>::MAX_REPLACED {
            self.replaced.insert(peer);
        }
    }

    /// No further try for the member at a distance.
    pub(super) fn settle(&mut self, at: u32, peer: Option<I>, state: State, reason: Reason) {
        self.settled.insert(at, (peer, state, reason));
    }

    /// Who was given up for want of a name and has one by now is tried again.
    pub(super) fn recall_the_named(&mut self, epochs: &Epochs<I>) {
        let was_nameless = |(peer, state, reason): &(Option<I>, State, Reason)| {
            peer.is_none() && (*state, *reason) == (State::Unconfirmed, Reason::Epoch)
        };
        let given_up = self.settled.iter().filter(|(_, line)| was_nameless(line));
        let named = given_up.filter(|(at, _)| self.peer_at(**at, epochs).is_some());
        for at in named.map(|(at, _)| *at).collect::<Vec<u32>>() {
            self.settled.remove(&at);
        }
    }

    /// Forget what a life of this peer has refused: that life is over.
    fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
        let refused = |(_, state, _): &(Option<I>, State, Reason)| *state == State::Refused;
        let settled = self.settled.iter().filter(|(_, line)| refused(line));
        let own = settled
            .filter(|(at, (named, ..))| named.or_else(|| self.peer_at(**at, epochs)) == Some(peer));
        for at in own.map(|(at, _)| *at).collect::<Vec<u32>>() {
            self.settled.remove(&at);
        }
    }

    /// What the last round says of the member at a distance alone.
    pub(super) fn doubt_about(&self, at: u32) -> Option<&Exception<I>> {
        let is_it = |doubt: &&Exception<I>| doubt.span == Span::single(at);
        self.doubts.iter().rev().find(is_it)
    }

    /// Whether the life of the member at a distance that was asked last takes no copy, and
    /// nobody waits for it to drain if it is `drained`.
    pub(super) fn is_declined(&self, at: u32, is_drained: bool) -> bool {
        let says_no = |doubt: &Exception<I>| match doubt.reason {
            Reason::Draining => is_drained,
            reason => doubt.state == State::Refused || reason == Reason::Full,
        };
        self.doubt_about(at).is_some_and(says_no)
    }

    /// Who of those left has a turn in the next round, of pairs (distance in the
    /// newest epoch, mine). By name there is a bound, and of two that seem to stand
    /// at one distance only the first can be meant: the others have their turn in
    /// the rounds that follow, until everybody had one. A member to whom nobody found a way
    /// waits until those that were behind it in its part were looked for.
    pub(super) fn take_turns(&mut self, left: &[(u32, u32)], by_name: bool) -> BTreeMap<u32, u32> {
        let max = if by_name {
            Header::<I>::MAX_NAMES
        } else {
            usize::MAX
        };
        let is_under_way = left.iter().any(|(_, at)| self.postponed.contains(at));
        let before = std::mem::take(&mut self.postponed);
        if !std::mem::take(&mut self.are_hidden) {
            self.sought.clear();
        }
        let are_all_sought = left.iter().all(|(_, at)| self.sought.contains(at));
        let mut issued = BTreeMap::new();
        for &(now, at) in left {
            let had_a_turn = !are_all_sought && self.sought.contains(&at);
            if is_under_way && !before.contains(&at) || had_a_turn {
                continue;
            }
            if issued.len() < max && !issued.contains_key(&now) {
                issued.insert(now, at);
            } else {
                self.postponed.insert(at);
            }
        }
        issued
    }

    /// Whether somebody has had no turn yet.
    pub(super) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// A round begins in an epoch; `issued` maps its distances to mine.
    pub(super) fn begin_round(&mut self, epoch: Epoch<I>, issued: BTreeMap<u32, u32>) {
        self.round = self.round.saturating_add(1);
        self.doubts.clear();
        self.issued = issued;
        self.issued_in = Some(epoch);
    }

    /// Members of this epoch have delivered.
    pub(super) fn confirm(&mut self, epoch: Epoch<I>, reached: &Runs) {
        if self.issued_in == Some(epoch) {
            let confirmed = self.issued.iter().filter(|(at, _)| reached.contains(**at));
            for (_, mine) in confirmed {
                self.reached.insert(Span::single(*mine));
            }
        } else if epoch == self.accepted.epoch {
            for span in reached.spans() {
                self.reached.insert(*span);
            }
            for span in self.excused.spans() {
                self.reached.remove(*span);
            }
        }
    }

    /// A round is over, with these exceptions. A refusal ends the line, unless the message
    /// is kept for the member's next life.
    pub(super) fn end_round(&mut self, epoch: Epoch<I>, exceptions: &[Exception<I>]) {
        let is_reissue = self.issued_in == Some(epoch);
        for exception in exceptions {
            let mine: Vec<Exception<I>> = if is_reissue {
                let within = self.issued.range(exception.span.start..exception.span.end);
                within
                    .map(|(_, mine)| Exception {
                        span: Span::single(*mine),
                        ..*exception
                    })
                    .collect()
            } else {
                vec![*exception]
            };
            let head = mine.first();
            if let Some(head) = head.filter(|head| head.reason == Reason::NoRoute) {
                self.sought.insert(head.span.start);
                self.are_hidden |= mine.len() > 1 || head.span.len() > 1;
            }
            for exception in mine {
                if exception.state == State::Refused && !self.keeps {
                    if self.excused.contains(exception.span.start) {
                        continue;
                    }
                    let Exception {
                        span,
                        peer,
                        state,
                        reason,
                    } = exception;
                    self.settle(span.start, peer, state, reason);
                } else {
                    self.doubts.push(exception);
                }
            }
        }
    }

    /// Nobody has this broadcast yet: it is one to the members of this epoch.
    pub(super) fn rebase(&mut self, placement: Placement<I>) {
        self.accepted = placement;
        self.members = None;
        self.excused = Runs::new();
        self.expected = self.everybody();
    }

    /// The receipt as of now; what is outstanding is unconfirmed for `reason`,
    /// or for what the last round says.
    pub(super) fn receipt(&self, reason: Option<Reason>, epochs: &Epochs<I>) -> Receipt<I> {
        let population = self.accepted.population;
        let rank_at = |at: u32| {
            let rank = self.accepted.rank.ahead(at, population);
            Some(rank).filter(|_| !self.is_awaited(at))
        };
        let doubt = |at: u32| {
            let covers = |doubt: &&Exception<I>| doubt.span.covers(Span::single(at));
            self.doubts
                .iter()
                .rev()
                .find(covers)
                .map(|doubt| doubt.reason)
        };
        let mut unreached: Vec<Unreached<I>> = self
            .outstanding()
            .iter()
            .map(|at| Unreached {
                rank: rank_at(at),
                peer: self.peer_at(at, epochs),
                state: State::Unconfirmed,
                reason: reason.or_else(|| doubt(at)).unwrap_or(Reason::NoRoute),
            })
            .collect();
        for (at, (peer, state, reason)) in &self.settled {
            if !self.reached.contains(*at) {
                unreached.push(Unreached {
                    rank: rank_at(*at),
                    peer: peer.or_else(|| self.peer_at(*at, epochs)),
                    state: *state,
                    reason: *reason,
                });
            }
        }
        unreached.sort_by_key(|member| member.rank);
        let reached_ranks = self.reached.iter().filter_map(rank_at);
        let ranks: Runs = reached_ranks.map(|rank| Span::single(rank.0)).collect();
        let returned = self.reached.iter().filter(|at| self.is_awaited(*at));
        let returned = returned.filter_map(|at| self.peer_at(at, epochs));
        let peer_of = |rank: u32| {
            let at = self.accepted.rank.distance_to(Rank(rank), population);
            self.peer_at(at, epochs)
        };
        Receipt {
            id: self.id,
            count: self.payloads.count(),
            epoch: self.accepted.epoch,
            origin_rank: self.accepted.rank,
            population,
            expected_count: self.expected.len(),
            reached_count: self.reached.len(),
            reached_peers: ranks.iter().filter_map(peer_of).chain(returned).collect(),
            reached: ranks
                .spans()
                .iter()
                .map(|run| RankRun {
                    first: Rank(run.start),
                    last: Rank(run.end - 1),
                })
                .collect(),
            unreached,
            redelegated: self.redelegated,
            replaced: self.replaced.iter().copied().collect(),
        }
    }
}

/// What an own message says, and in which order it goes to the members.
pub(super) type Said = (Topic, Option<Order>, Payloads, Strategy, Confirmation);

/// All own messages without a receipt, those of one packet as one; at most
/// `config.max_open`, and `config.max_kept` that are kept for members that are away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OpenMessages<I> {
    messages: BTreeMap<u64, OpenMessage<I>>,
    /// Which of them are kept.
    kept: BTreeSet<u64>,
    /// What each peer has not got of those that are to be kept: one after the other.
    owed: BTreeMap<I, BTreeSet<u64>>,
    next: u64,
    bytes: usize,
}

impl<I: Id> OpenMessages<I> {
    pub(super) const fn new() -> Self {
        Self {
            messages: BTreeMap::new(),
            kept: BTreeSet::new(),
            owed: BTreeMap::new(),
            next: 0,
            bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sequence of the next message.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// No sequence below this is open, but for what is kept.
    pub(super) fn closed_below(&self) -> u64 {
        let mut open = self.messages.iter().filter(|(_, open)| !open.is_kept);
        open.next().map_or(self.next, |(sequence, _)| *sequence)
    }

    /// How many are kept for members that are away.
    pub(super) fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// Nobody is left but members that are away.
    pub(super) fn keep(&mut self, sequence: u64) {
        if let Some(message) = self.messages.get_mut(&sequence) {
            message.is_kept = true;
            self.kept.insert(sequence);
        }
    }

    /// None is to be kept from now on.
    pub(super) fn keep_no_more(&mut self) {
        for message in self.messages.values_mut() {
            message.keeps = false;
        }
    }

    /// The sequences of those that are kept, in order.
    pub(super) fn kept(&self) -> Vec<u64> {
        self.kept.iter().copied().collect()
    }

    /// How many messages are to be kept if need be, and their bytes.
    pub(super) fn keeping(&self) -> (usize, usize) {
        let keeping = self.messages.values().filter(|open| open.keeps);
        keeping.fold((0, 0), |(count, bytes), open| {
            (count + 1, bytes + open.bytes())
        })
    }

    /// Note for whom a message is kept if need be, after a round. Returns which messages
    /// are the next ones of those who have it now.
    pub(super) fn note_owed(&mut self, sequence: u64, epochs: &Epochs<I>) -> BTreeSet<u64> {
        let Some(message) = self.messages.get_mut(&sequence).filter(|one| one.keeps) else {
            return BTreeSet::new();
        };
        let outstanding = message.outstanding();
        let peers = outstanding
            .iter()
            .filter_map(|at| message.peer_at(at, epochs));
        let owed_to: BTreeSet<I> = peers.collect();
        for peer in owed_to.difference(&message.owed_to) {
            self.owed.entry(*peer).or_default().insert(sequence);
        }
        let before = std::mem::replace(&mut message.owed_to, owed_to);
        let served: Vec<I> = before.difference(&message.owed_to).copied().collect();
        self.pass_on(sequence, served)
    }

    /// These peers wait for a message no more: what they wait for next.
    fn pass_on(&mut self, sequence: u64, peers: impl IntoIterator<Item = I>) -> BTreeSet<u64> {
        let mut next = BTreeSet::new();
        for peer in peers {
            let Some(owed) = self.owed.get_mut(&peer) else {
                continue;
            };
            owed.remove(&sequence);
            next.extend(owed.first());
            if owed.is_empty() {
                self.owed.remove(&peer);
            }
        }
        next
    }

    /// Whether a peer has to get an earlier message first.
    pub(super) fn is_owed_before(&self, peer: I, sequence: u64) -> bool {
        let first = self.owed.get(&peer).and_then(BTreeSet::first);
        first.is_some_and(|first| *first < sequence)
    }

    /// Open a message, or several in one packet, under the next sequences.
    pub(super) fn open(
        &mut self,
        id: PacketId<I>,
        accepted: Placement<I>,
        (topic, order, payloads, strategy, confirmation): Said,
        signature: Option<Signature>,
        (expected, names, awaited): (Runs, BTreeMap<u32, I>, Option<Vec<I>>),
        wait: Duration,
    ) {
        self.next = id.sequence + payloads.count();
        let message = OpenMessage {
            id,
            is_waiting: false,
            is_soon: false,
            keeps: awaited.is_some(),
            lists_departed: awaited.is_some(),
            is_kept: false,
            awaited: awaited.unwrap_or_default(),
            owed_to: BTreeSet::new(),
            accepted,
            confirmation,
            topic,
            order,
            payloads,
            signature,
            strategy,
            members: None,
            names,
            misnamed: BTreeSet::new(),
            expected,
            excused: Runs::new(),
            spared: BTreeSet::new(),
            reached: Runs::new(),
            settled: BTreeMap::new(),
            doubts: Vec::new(),
            issued: BTreeMap::new(),
            issued_in: None,
            postponed: BTreeSet::new(),
            sought: BTreeSet::new(),
            are_hidden: false,
            round: 0,
            wait,
            redelegated: 0,
            replaced: BTreeSet::new(),
        };
        self.bytes += message.bytes();
        self.messages.insert(id.sequence, message);
    }

    /// Whom a message does not wait for, and whether it gives up soon whoever is called down.
    pub(super) fn spare(&mut self, sequence: u64, peers: impl Iterator<Item = I>, is_soon: bool) {
        if let Some(message) = self.messages.get_mut(&sequence) {
            message.spared.extend(peers);
            message.is_soon = is_soon;
        }
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&OpenMessage<I>> {
        self.messages.get(&sequence)
    }

    pub(super) fn get_mut(&mut self, sequence: u64) -> Option<&mut OpenMessage<I>> {
        self.messages.get_mut(&sequence)
    }

    /// A message goes with this signature from now on; its name.
    pub(super) fn sign(&mut self, sequence: u64, signature: &Signature) -> Option<PacketId<I>> {
        let message = self.messages.get_mut(&sequence)?;
        self.bytes -= message.bytes();
        message.signature = Some(signature.clone());
        self.bytes += message.bytes();
        Some(message.id)
    }

    /// The message, and which are the next ones for whom it was kept.
    pub(super) fn close(&mut self, sequence: u64) -> Option<(OpenMessage<I>, BTreeSet<u64>)> {
        let mut message = self.messages.remove(&sequence)?;
        self.kept.remove(&sequence);
        self.bytes -= message.bytes();
        let owed_to = std::mem::take(&mut message.owed_to);
        let next = self.pass_on(sequence, owed_to);
        Some((message, next))
    }

    /// The sequences of those that wait for a roster, in order.
    pub(super) fn waiting(&self) -> Vec<u64> {
        let waiting = self.messages.iter().filter(|(_, open)| open.is_waiting);
        waiting.map(|(sequence, _)| *sequence).collect()
    }

    pub(super) fn sequences(&self) -> Vec<u64> {
        self.messages.keys().copied().collect()
    }

    /// Whoever was named at a distance of an own duty says that it is not the one.
    pub(super) fn misname(&mut self, key: &DutyKey<I>, at: u32) {
        let message = self.messages.get_mut(&key.id.sequence);
        if let Some(message) = message.filter(|message| message.id == key.id) {
            message.misname(key.epoch, at);
        }
    }

    /// A life of this peer is over, and with it what it refused: the next one is asked.
    pub(super) fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
        for message in self.messages.values_mut() {
            message.recall_refused(peer, epochs);
        }
    }

    /// Members of a duty's part have delivered.
    pub(super) fn confirm(&mut self, key: &DutyKey<I>, reached: &Runs) {
        let message = self.messages.get_mut(&key.id.sequence);
        if let Some(message) = message.filter(|message| message.id == key.id) {
            message.confirm(key.epoch, reached);
        }
    }

    /// An epoch is about to be dropped: keep its members for those accepted in
    /// it.
    pub(super) fn remember_members(&mut self, view: &EpochView<I>) {
        for message in self.messages.values_mut() {
            if message.accepted == view.placement() {
                message.members = Some(view.names());
            }
        }
    }
}
