//! The outcome of an operation, as its callers get it.

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::Serialize;

use super::context::{Ctx, Gone};
use super::instance::Instance;
use super::message::Item;
use super::proposal::{Class, End, Proposal};
use super::reduce::{Op, ReduceError};
use super::storage::Piece;
use super::terms::{Digest, InvalidTerms, Key, Terms, Verb};
use super::{Call, Message};

/// What became of an operation, for one caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outcome<I> {
    /// The key of the operation.
    pub key: Key,
    /// Whether a majority of the listed members has accepted this outcome, and its values for this
    /// member are here. Then no member hears of another outcome as agreed. If not, the deadline
    /// came first, and the outcome is what this member knows by itself.
    pub agreed: bool,
    /// The end of the operation, if this member knows that a majority has accepted an outcome, even
    /// if the values for this member are still missing.
    pub end: Option<End>,
    /// The members that have come, in the order of the list.
    pub arrived: Vec<I>,
    /// The values for this member, in the order of the list. In a scatter and an all-to-all these
    /// are the parts for this member.
    pub values: Vec<(I, Bytes)>,
    /// The combination of the values, if the operation makes one and this member gets it. With a
    /// function of the callers and at least two values it is [`ReduceError::User`], and `values`
    /// has the values.
    pub combined: Option<Result<Bytes, ReduceError>>,
    /// The members that are missing and why, in the order of the list.
    pub missing: Vec<(I, Class)>,
}

/// Why a call has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallError {
    /// The terms make no sense.
    #[error("{0}")]
    Terms(InvalidTerms),
    /// This node is not in the list.
    #[error("this node is not in the list of members")]
    NotAMember,
    /// Other callers, here or at other members, have given other terms for this operation.
    #[error("other members have called this generation with other parameters: {0} differs")]
    Differs(&'static str),
    /// This generation is forgotten already, or older than all that are kept of a full name.
    #[error("this generation is too old: the generations up to {0} are forgotten")]
    TooOld(u64),
    /// There is no room for another name, or for another generation of this one, here or at the
    /// coordinator.
    #[error(
        "there is no room for another name of a collective, or for another generation of this name, here or at the coordinator"
    )]
    TooManyNames,
    /// There are too many callers or bytes at this node.
    #[error("too many calls of collectives wait, or their values have too many bytes")]
    Busy,
    /// The outcome could be too large.
    #[error("the outcome could have {bytes} bytes; the limit is {max}")]
    TooLarge {
        /// The length of the outcome, if all members bring values as long as this caller's.
        bytes: usize,
        /// The greatest length that is possible.
        max: usize,
    },
}

/// The state of an operation at this member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationState<I> {
    /// The key of the operation.
    pub key: Key,
    /// The verb of the operation.
    pub verb: &'static str,
    /// How many callers here wait for the operation.
    pub callers: usize,
    /// Whether the operation is decided.
    pub is_decided: bool,
    /// The coordinator, as this member sees it.
    pub coordinator: Option<I>,
    /// Whether this member has come.
    pub has_come: bool,
    /// How many members are listed.
    pub members: usize,
    /// The members that have come, as far as this one has heard.
    pub arrived: Vec<I>,
    /// The members that are missing and why, as far as this one has heard.
    pub missing: Vec<(I, Class)>,
}

/// Check that the outcome of a call is within bounds, if all members bring values as long as the
/// caller's.
pub(super) fn check_size<I: Id>(call: &Call<I>, max: usize) -> Result<(), CallError> {
    let members = call.terms.members.len();
    let bytes = match call.terms.verb {
        Verb::AllGather | Verb::Gather { .. } => call.value.len().saturating_mul(members),
        Verb::Reduce {
            op: Op::User(_), ..
        }
        | Verb::AllReduce { op: Op::User(_) } => call.value.len().saturating_mul(members),
        _ => call.value.len(),
    };
    match bytes > max {
        true => Err(CallError::TooLarge { bytes, max }),
        false => Ok(()),
    }
}

impl<I: Id + Serialize> Instance<I> {
    /// The decided outcome for the callers here, if there are any, once every value that they need
    /// is here.
    pub(super) fn outcome(&self, gone: &Gone<I>) -> Option<Outcome<I>> {
        let decided = self.decided.as_ref().filter(|_| !self.calls.is_empty())?;
        if !self.needs(decided, gone).is_empty() {
            return None;
        }
        let mut outcome = self.outcome_without_values(decided);
        let is_completed = decided.end == End::Completed;
        if is_completed {
            outcome.values = self.values_of(decided);
            outcome.combined = self.combined();
        }
        Some(outcome)
    }

    fn outcome_without_values(&self, decided: &Proposal) -> Outcome<I> {
        let arrived = decided.arrived.iter().map(|(place, _)| *place);
        Outcome {
            key: self.terms.key.clone(),
            agreed: true,
            end: Some(decided.end),
            arrived: arrived.filter_map(|place| self.member(place)).collect(),
            values: Vec::new(),
            combined: None,
            missing: self.named(&decided.missing),
        }
    }

    fn named(&self, missing: &[(u32, Class)]) -> Vec<(I, Class)> {
        let named = missing.iter();
        let named = named.filter_map(|(place, class)| Some((self.member(*place)?, *class)));
        named.collect()
    }

    fn values_of(&self, decided: &Proposal) -> Vec<(I, Bytes)> {
        let me = self.me;
        let item = |of: u32| match &self.terms.verb {
            Verb::Barrier => None,
            Verb::Agree => (decided.arrived.first()?.0 == of).then_some(Item::Whole(of)),
            Verb::AllGather => Some(Item::Whole(of)),
            Verb::Gather { root } => (*root == me).then_some(Item::Whole(of)),
            Verb::Scatter { root } => (*root == of).then_some(Item::Part { of, to: me }),
            Verb::AllToAll => Some(Item::Part { of, to: me }),
            Verb::Reduce { root, op } => (*root == me && is_of_user(op)).then_some(Item::Whole(of)),
            Verb::AllReduce { op } => is_of_user(op).then_some(Item::Whole(of)),
        };
        let arrived = decided.arrived.iter().map(|(of, _)| *of);
        let values = arrived.filter_map(|of| Some((self.member(of)?, self.bytes_of(item(of)?)?)));
        values.collect()
    }

    fn combined(&self) -> Option<Result<Bytes, ReduceError>> {
        let is_for_me = match &self.terms.verb {
            Verb::Reduce { root, .. } => *root == self.me,
            Verb::AllReduce { .. } => true,
            _ => return None,
        };
        if !is_for_me {
            return None;
        }
        let fetched = self.storage.get(Item::Combined).cloned().map(Ok);
        fetched.or_else(|| self.combine())
    }

    /// The outcome as this member knows it by itself when a deadline comes.
    pub(super) fn own_view(&self, gone: &Gone<I>) -> Outcome<I> {
        if let Some(decided) = &self.decided {
            return Outcome {
                agreed: false,
                ..self.outcome_without_values(decided)
            };
        }
        let state = self.state(gone);
        Outcome {
            key: self.terms.key.clone(),
            agreed: false,
            end: None,
            arrived: state.arrived,
            values: Vec::new(),
            combined: None,
            missing: state.missing,
        }
    }

    /// The state of this operation at this member.
    pub(super) fn state(&self, gone: &Gone<I>) -> OperationState<I> {
        let mut proposal = match &self.decided {
            Some(decided) => decided.as_ref().clone(),
            None => self.proposal(gone),
        };
        if self.decided.is_none() {
            // The coordinator may know of more arrivals than this member. The last ones that it
            // reported count too.
            let came =
                |place: &u32| self.progress.contains(place) || self.arrivals.contains_key(place);
            proposal.missing.retain(|(place, _)| !came(place));
            let places = (0..self.members() as u32).filter(came);
            let value = || super::Value::Inline(Bytes::new());
            proposal.arrived = places.map(|place| (place, value())).collect();
        }
        let arrived = proposal.arrived.iter().map(|(place, _)| *place);
        OperationState {
            key: self.terms.key.clone(),
            verb: self.terms.verb.name(),
            callers: self.calls.len(),
            is_decided: self.decided.is_some(),
            coordinator: self.member(self.coordinator(gone)),
            has_come: self.own.is_some(),
            members: self.members(),
            arrived: arrived.filter_map(|place| self.member(place)).collect(),
            missing: self.named(&proposal.missing),
        }
    }

    /// A message about this operation from one of its members.
    pub(super) fn on_message(&mut self, ctx: &mut Ctx<'_, I>, from: u32, message: Message<I>) {
        match message {
            Message::Progress { arrived, .. } => self.on_progress(ctx, &arrived),
            Message::Promise {
                ballot,
                boot,
                lives,
                voted,
                ..
            } => self.on_promise(ctx, from, ballot, boot, lives, voted),
            Message::Vote {
                ballot,
                boot,
                lives,
                ..
            } => self.on_vote(ctx, from, ballot, boot, lives),
            Message::Overruled { promised, .. } => self.on_overruled(ctx, promised),
            Message::Decided { ballot, .. } => self.on_decided(ctx, from, ballot),
            Message::Ask { .. } => self.on_ask(ctx, from),
            Message::Held { member, hash, .. } => self.on_held(ctx, from, member, hash),
            Message::Want { item, from: at, .. } => self.on_want(ctx, from, item, at),
            Message::Piece {
                item,
                size,
                offset,
                bytes,
                ..
            } => {
                let piece = Piece {
                    size,
                    offset,
                    bytes,
                };
                self.on_piece(ctx, from, item, piece);
            }
            _ => {}
        }
    }

    /// A member was lost. Another one may have to coordinate, and perhaps no further member is
    /// waited for.
    pub(super) fn on_loss(&mut self, ctx: &mut Ctx<'_, I>) {
        self.arrive(ctx, false);
        self.tell_what_is_held(ctx);
        self.consider(ctx);
    }

    /// The members of the epoch have changed, so another member may have to coordinate.
    pub(super) fn on_members(&mut self, ctx: &mut Ctx<'_, I>) {
        let mut told = std::mem::take(&mut self.informed);
        told.retain(|place| {
            self.member(*place)
                .is_some_and(|one| !ctx.gone.is_away(one))
        });
        self.informed = told;
        self.on_loss(ctx);
    }

    /// A member is back. It may know more than this one, or nothing.
    pub(super) fn on_return(&mut self, ctx: &mut Ctx<'_, I>, member: I) {
        let Some(place) = self.terms.place(member) else {
            return;
        };
        self.informed.remove(&place);
        self.take_back(ctx);
        self.ask(ctx, Some(place));
        self.arrive(ctx, false);
        if self.coordinator(ctx.gone) == place {
            self.ask_outcome(ctx, place);
        }
        self.tell_what_is_held(ctx);
    }

    pub(super) fn tell_what_is_held(&mut self, ctx: &mut Ctx<'_, I>) {
        if self.coordinator(ctx.gone) == self.me {
            return;
        }
        let held = self.arrivals.keys().copied();
        let held: Vec<u32> = held
            .filter(|place| self.storage.has(Item::Whole(*place)))
            .collect();
        for place in held {
            self.on_held_here(ctx, place);
        }
    }
}

fn is_of_user(op: &Op) -> bool {
    matches!(op, Op::User(_))
}

impl<I> Message<I> {
    /// Key and digest of the operation that this message concerns. `None` for `Arrive`, which may
    /// open an operation, and for messages that have no key or digest of their own.
    pub(super) const fn subject(&self) -> Option<(&Key, &Digest)> {
        match self {
            Self::Progress { key, digest, .. }
            | Self::Promise { key, digest, .. }
            | Self::Vote { key, digest, .. }
            | Self::Overruled { key, digest, .. }
            | Self::Decided { key, digest, .. }
            | Self::Ask { key, digest }
            | Self::Held { key, digest, .. }
            | Self::Want { key, digest, .. }
            | Self::Piece { key, digest, .. } => Some((key, digest)),
            _ => None,
        }
    }
}

impl<I: Id + Serialize> Terms<I> {
    /// Whether both are terms of the same operation, with no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.difference(other).is_none()
    }
}
