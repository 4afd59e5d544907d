//! An own message that is open: who is reached, and who is left.

mod conclusion;
mod turns;
mod whereabouts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::{Epoch, Id, Placement};

use crate::order::Order;
use crate::packet::{
    Confirmation, Content, Exception, Message, PacketId, Payloads, Reason, Signature, Span, State,
    Topic, signature_bytes,
};
use crate::relay::epochs::Epochs;
use crate::runs::Runs;
use crate::strategy::Strategy;

pub(super) use whereabouts::Whereabouts;

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
    pub(super) owed_to: BTreeSet<I>,
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
    pub(super) members: Option<Arc<Vec<Option<I>>>>,
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
    pub(super) spared: BTreeSet<I>,
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

/// What an own message says, and in which order it goes to the members.
#[derive(Debug)]
pub(super) struct Saying {
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    pub(super) payloads: Payloads,
    pub(super) strategy: Strategy,
    pub(super) confirmation: Confirmation,
}

/// What is accepted with a message.
#[derive(Debug)]
pub(super) struct Accepted<I> {
    pub(super) said: Saying,
    pub(super) signature: Option<Signature>,
    /// The distances of those who are to get it.
    pub(super) expected: Runs,
    /// Of a message to some members: who is meant at which distance.
    pub(super) names: BTreeMap<u32, I>,
    /// If it is kept for members that are away: for whom besides.
    pub(super) awaited: Option<Vec<I>>,
    /// The wait until it is issued again first.
    pub(super) wait: Duration,
}

impl<I: Id> OpenMessage<I> {
    /// A message that was accepted in this place, under this name.
    pub(super) fn new(id: PacketId<I>, accepted: Placement<I>, what: Accepted<I>) -> Self {
        let Accepted {
            said,
            signature,
            expected,
            names,
            awaited,
            wait,
        } = what;
        Self {
            id,
            is_waiting: false,
            is_soon: false,
            keeps: awaited.is_some(),
            lists_departed: awaited.is_some(),
            is_kept: false,
            awaited: awaited.unwrap_or_default(),
            owed_to: BTreeSet::new(),
            accepted,
            confirmation: said.confirmation,
            topic: said.topic,
            order: said.order,
            payloads: said.payloads,
            signature,
            strategy: said.strategy,
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
        }
    }

    /// What payloads and signature take in memory.
    pub(super) fn bytes(&self) -> usize {
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
    pub(super) fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
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

    /// Nobody has this broadcast yet: it is one to the members of this epoch.
    pub(super) fn rebase(&mut self, placement: Placement<I>) {
        self.accepted = placement;
        self.members = None;
        self.excused = Runs::new();
        self.expected = self.everybody();
    }
}
