//! An open own message: the members that it has reached, and the outstanding ones.

mod conclusion;
mod location;
mod turns;

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

pub(super) use location::MemberLocation;

/// An own message without a receipt, or several in one packet. Its distances are those of the epoch
/// in which it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OpenMessage<I> {
    pub(super) id: PacketId<I>,
    /// This broadcast waits for a complete roster; no member has it yet.
    pub(super) awaits_roster: bool,
    /// The message gives up a member as soon as it has been called down for `down_pressed`.
    pub(super) is_soon: bool,
    /// The message is to be kept for absent members.
    pub(super) keeps: bool,
    /// The message was accepted to be kept for absent members. So members that had left have a line
    /// in its receipt, even if the message is no longer to be kept.
    pub(super) lists_departed: bool,
    /// Only absent members are outstanding: the message is kept, and the mark has passed it.
    pub(super) is_kept: bool,
    /// The awaited peers, which are no members. Their distances follow the last member, in this
    /// order.
    awaited: Vec<I>,
    /// If the message is to be kept: the peers that have not got it after the last round.
    pub(super) undelivered_to: BTreeSet<I>,
    /// This node's place in the epoch of acceptance.
    pub(super) accepted: Placement<I>,
    pub(super) confirmation: Confirmation,
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    pub(super) payloads: Payloads,
    /// This node's signature, if it signs.
    pub(super) signature: Option<Signature>,
    pub(super) strategy: Strategy,
    /// The members of the epoch of acceptance by rank, once that epoch is no longer kept.
    pub(super) members: Option<Arc<Vec<Option<I>>>>,
    /// Of a message to some members: the member that is meant at each distance.
    names: BTreeMap<u32, I>,
    /// Distances whose supposed holders said that they never stood there: the names of their
    /// members are unknown.
    misnamed: BTreeSet<u32>,
    /// The distances of the peers that have a line in the receipt: members and awaited peers.
    expected: Runs,
    /// The distances of members that had left when the message was accepted, or that it spares.
    /// They have no line in the receipt.
    excused: Runs,
    /// The members that the message does not wait for (`Destination::AllBut`); they are excused
    /// wherever they stand.
    pub(super) spared: BTreeSet<I>,
    reached: Runs,
    /// Members that are not tried again, since they refused or are lost: by distance the peer, if
    /// known, with its state and the reason.
    settled: BTreeMap<u32, (Option<I>, State, Reason)>,
    /// The members that the last round could not confirm. In a re-issue each has an entry of its
    /// own; in a first round the entries are the exceptions of its duty.
    doubts: Vec<Exception<I>>,
    /// Of the last re-issue: each member's distance in the epoch of that round, with its distance
    /// in the epoch of acceptance.
    issued: BTreeMap<u32, u32>,
    issued_in: Option<Epoch<I>>,
    /// The distances of members that found no room in the last round and have had no turn yet.
    postponed: BTreeSet<u32>,
    /// The distances of members to which no way was found while other members of the same part were
    /// not searched for. They have no turn until the others had one. At most one entry for each
    /// member.
    sought: BTreeSet<u32>,
    /// The last round left members that were not searched for, behind one to which no way was
    /// found.
    are_hidden: bool,
    pub(super) round: u32,
    pub(super) wait: Duration,
    pub(super) redelegated: u32,
    /// The peers from which parts were taken; at most [`Message::MAX_REPLACED`].
    replaced: BTreeSet<I>,
}

/// The content of an own message, and the order in which it goes to the members.
#[derive(Debug)]
pub(super) struct Saying {
    pub(super) topic: Topic,
    pub(super) order: Option<Order>,
    pub(super) payloads: Payloads,
    pub(super) strategy: Strategy,
    pub(super) confirmation: Confirmation,
}

/// The values that a message has at acceptance.
#[derive(Debug)]
pub(super) struct Accepted<I> {
    pub(super) said: Saying,
    pub(super) signature: Option<Signature>,
    /// The distances of the members that the message is for, and of the awaited peers.
    pub(super) expected: Runs,
    /// Of a message to some members: the member that is meant at each distance.
    pub(super) names: BTreeMap<u32, I>,
    /// If the message is to be kept for absent members: the other peers that it waits for.
    pub(super) awaited: Option<Vec<I>>,
    /// The wait before its first re-issue.
    pub(super) wait: Duration,
}

impl<I: Id> OpenMessage<I> {
    /// A message that was accepted at this place, under this id.
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
            awaits_roster: false,
            is_soon: false,
            keeps: awaited.is_some(),
            lists_departed: awaited.is_some(),
            is_kept: false,
            awaited: awaited.unwrap_or_default(),
            undelivered_to: BTreeSet::new(),
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

    /// The bytes that payloads and signature take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.payloads.len() + signature_bytes(self.signature.as_ref())
    }

    /// The content that its signature covers.
    pub(super) fn content(&self) -> Content<'_, I> {
        Content {
            id: self.id,
            confirmation: self.confirmation,
            topic: &self.topic,
            order: self.order,
            payloads: &self.payloads,
        }
    }

    /// The distances of the members that are neither reached nor settled.
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

    /// Whether a round that goes out while this node stands at `placement` has to name its members.
    /// Otherwise it may be for the holders of their ranks.
    pub(super) fn is_by_name(&self, placement: &Placement<I>) -> bool {
        !self.names.is_empty() || *placement != self.accepted
    }

    /// Whether this is the distance of an awaited peer, which was no member.
    pub(super) fn is_awaited(&self, at: u32) -> bool {
        at >= self.accepted.population.get()
    }

    /// The distances of all members, and of the awaited peers.
    fn everybody(&self) -> Runs {
        let awaited = u32::try_from(self.awaited.len()).unwrap_or(u32::MAX);
        let end = self.accepted.population.get().saturating_add(awaited);
        Runs::from_iter([Span::new(1, end)])
    }

    /// Before the first round: remove members from the awaited peers.
    pub(super) fn await_others(&mut self, is_member: impl Fn(I) -> bool) {
        self.awaited.retain(|peer| !is_member(*peer));
        self.expected = self.everybody();
    }

    /// Whether the message is for all members of its epoch.
    pub(super) fn is_for_all(&self) -> bool {
        self.names.is_empty()
    }

    /// Excuse the member at a distance, which has not been reached: the message is not meant for
    /// it.
    pub(super) fn excuse(&mut self, at: u32) {
        self.expected.remove(Span::single(at));
        self.excused.insert(Span::single(at));
    }

    /// Excuse the members that the message spares, as far as their places are known.
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

    /// Settle the member at a distance: it is not tried again.
    pub(super) fn settle(&mut self, at: u32, peer: Option<I>, state: State, reason: Reason) {
        self.settled.insert(at, (peer, state, reason));
    }

    /// Try a member again that was given up for lack of its name, if the name is known by now.
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

    /// Forget the refusals of this peer: the life that gave them is over.
    pub(super) fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
        let refused = |(_, state, _): &(Option<I>, State, Reason)| *state == State::Refused;
        let settled = self.settled.iter().filter(|(_, line)| refused(line));
        let own = settled
            .filter(|(at, (named, ..))| named.or_else(|| self.peer_at(**at, epochs)) == Some(peer));
        for at in own.map(|(at, _)| *at).collect::<Vec<u32>>() {
            self.settled.remove(&at);
        }
    }

    /// The exception of the last round for the member at a distance alone.
    pub(super) fn doubt_about(&self, at: u32) -> Option<&Exception<I>> {
        let is_it = |doubt: &&Exception<I>| doubt.span == Span::single(at);
        self.doubts.iter().rev().find(is_it)
    }

    /// Whether the present life of the member at a distance takes no copy. A life that drains
    /// counts only if `is_drained`: the message need not wait for the end of that life.
    pub(super) fn is_declined(&self, at: u32, is_drained: bool) -> bool {
        let says_no = |doubt: &Exception<I>| match doubt.reason {
            Reason::Draining => is_drained,
            reason => doubt.state == State::Refused || reason == Reason::Full,
        };
        self.doubt_about(at).is_some_and(says_no)
    }

    /// No member has this broadcast yet: make it a broadcast to the members of this epoch.
    pub(super) fn rebase(&mut self, placement: Placement<I>) {
        self.accepted = placement;
        self.members = None;
        self.excused = Runs::new();
        self.expected = self.everybody();
    }
}
