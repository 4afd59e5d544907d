//! A delegation: a part that is handed to another node, and its progress.

use std::time::Duration;

use binomesh_overlay::{Id, Rank};

use super::delegator::NextHop;
use crate::packet::{Errand, Part, Span};
use crate::runs::Runs;

/// The progress of a delegation.
///
/// ```text
///                      no, in time
///   Offered ──────────────────────────────────▶ Sent ◀── no ── Asked
///    ▲   └── no, late ──▶ Lacking ─ timer/link ─▲ │            ▲
///    │                                             │    timer, or a new link
///    └─────────────── no answer in time ───────────┤            │
///                                                  └──▶ Custody ┘
/// ```
///
/// From each phase, custody leads to [`Phase::Custody`], and done ends the delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// The peer was asked whether it has the message. If it says no, it is sent a copy, at once or
    /// later ([`Phase::Lacking`]).
    Offered,
    /// The peer said no after the timer of the delegation had fired. An earlier copy, or the answer
    /// to it, may be as late and not lost. So the peer is sent a copy when the timer fires again,
    /// or the link to the peer works again.
    Lacking,
    /// A copy was sent, or is held until there is room for it or its turn has come.
    Sent,
    /// The peer answers for the part.
    Custody,
    /// The peer has custody. It was asked about the part and has not answered yet.
    Asked,
}

impl Phase {
    /// Whether a copy is sent only after the peer has said that it has none.
    pub(super) const fn is_offer(self) -> bool {
        matches!(self, Self::Offered | Self::Lacking)
    }

    /// Whether the peer has taken custody of the part.
    pub(super) const fn has_custody(self) -> bool {
        matches!(self, Self::Custody | Self::Asked)
    }

    /// Whether a question to the peer is unanswered.
    pub(super) const fn is_question(self) -> bool {
        matches!(self, Self::Offered | Self::Asked)
    }
}

/// Whether a copy of a delegation was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Copies {
    /// No copy was sent, and none is held.
    None,
    /// The copy is held: earlier copies, or earlier turns, come first.
    Held,
    /// At least one copy was sent.
    Sent,
}

/// A part that was handed to another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Delegation<I> {
    /// The delegate.
    pub(super) to: I,
    /// The rank of the delegate.
    pub(super) rank: Rank,
    /// The part that is still wanted from the delegate. The part that was sent may have been
    /// larger.
    pub(super) part: Part,
    /// The end of the range that was sent; 0 for a routed part.
    pub(super) sent_end: u32,
    /// The round in which the part was sent.
    pub(super) round: u32,
    pub(super) phase: Phase,
    pub(super) copies: Copies,
    /// The members of the part that have not delivered yet, as far as known.
    pub(super) pending: Runs,
    /// Before custody: how often an answer of the delegate was late. After custody: how often the
    /// delegate was asked about the part.
    pub(super) attempts: u32,
    /// How long the first attempt waits for an answer, without the transfer time of the copy.
    pub(super) first_wait: Duration,
    /// How many questions about the part were unanswered in a row.
    pub(super) unanswered: u32,
    /// How many re-delegations led to this one.
    pub(super) generation: u32,
    /// The value of `attempts` when the link last came up again, or else 0. If `attempts` is
    /// greater, a timer has fired since, and the answer *no* is late.
    pub(super) asked_at: u32,
    /// The timer was excused once, because this process had been paused.
    pub(super) is_excused: bool,
    /// Of a routed part: the hops that were tried, this delegate included.
    pub(super) tried: Vec<I>,
    /// The count of answers when this delegation was last looked at: at its sending or by its
    /// timer. For a held copy these are the answers to the copies that it waits behind; for a sent
    /// one, the answers to all copies with a turn.
    pub(super) answers: u64,
    /// Of a copy with a turn: how many answers to other copies came since it was sent.
    pub(super) overtaken: u64,
    /// Of a copy with a turn: how often its timer fired without an answer to any copy since the
    /// time before.
    pub(super) quiet_looks: u32,
}

impl<I: Id> Delegation<I> {
    /// A new delegation of round 0, before its part was sent. A re-delegated part (`generation`
    /// above 0) may have reached the delegate by its first way already, or may do so soon. So the
    /// copy is offered first.
    pub(super) fn new(to: NextHop<I>, part: Part, generation: u32, first_wait: Duration) -> Self {
        Self {
            to: to.peer,
            rank: to.rank,
            sent_end: match &part {
                Part::Range(span) => span.end,
                Part::Routed { .. } => 0,
            },
            pending: part.spans().iter().copied().collect(),
            part,
            round: 0,
            phase: match generation > 0 {
                true => Phase::Offered,
                false => Phase::Sent,
            },
            copies: Copies::None,
            attempts: 0,
            first_wait,
            unanswered: 0,
            generation,
            asked_at: 0,
            is_excused: false,
            tried: Vec::new(),
            answers: 0,
            overtaken: 0,
            quiet_looks: 0,
        }
    }

    /// The whole range that the delegate was sent with this delegation; empty for a routed part.
    pub(super) fn given(&self) -> Span {
        match &self.part {
            Part::Range(span) => Span::new(span.start, self.sent_end),
            Part::Routed { .. } => Span::new(0, 0),
        }
    }

    /// Whether the copy is held, and goes as soon as it has room or its turn.
    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Sent && self.copies == Copies::Held
    }

    /// Whether an acknowledgement of this errand is about this delegation.
    pub(super) fn is_answered_by(&self, from: I, errand: &Errand<I>) -> bool {
        self.to == from
            && match (&self.part, &errand.part) {
                (Part::Range(mine), Part::Range(theirs)) => {
                    mine.start == theirs.start
                        && mine.end <= theirs.end
                        && self.round <= errand.round
                }
                (mine, theirs) => mine == theirs && self.round == errand.round,
            }
    }
}
