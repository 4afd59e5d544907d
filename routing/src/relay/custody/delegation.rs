//! A delegation: a part in another node's hands, and how far that is.

use std::time::Duration;

use binomesh_overlay::{Id, Rank};

use super::delegator::Hop;
use crate::packet::{Errand, Part, Span};
use crate::runs::Runs;

/// How far a delegation is.
///
/// ```text
///              no, in time, or room on the link
///   Offered ──────────────────────────────────▶ Sent ◀── no ── Asked
///    ▲   └── no, late ──▶ Lacking ── timer ──────▲ │            ▲
///    │                                             │    timer, or a new link
///    └─────────────── no answer in time ───────────┤            │
///                                                  └──▶ Custody ┘
/// ```
///
/// From everywhere custody leads to [`Phase::Custody`], and done ends the delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// The peer was asked whether it has the message. It is sent a copy if it says no.
    Offered,
    /// It said no after its timer had fired. Another copy, or the answer to it, may be as late and
    /// not lost. So it is sent a copy when its timer fires again, or its link has room.
    Lacking,
    /// A copy is sent, or waits for its turn.
    Sent,
    /// The peer answers for the part.
    Custody,
    /// It answers for the part, was asked how that is, and has not answered yet.
    Asked,
}

impl Phase {
    /// Whether no copy goes before the peer has said that it wants one.
    pub(super) const fn is_offer(self) -> bool {
        matches!(self, Self::Offered | Self::Lacking)
    }

    /// Whether the peer answers for the part.
    pub(super) const fn has_custody(self) -> bool {
        matches!(self, Self::Custody | Self::Asked)
    }

    /// Whether a question to the peer is unanswered.
    pub(super) const fn is_question(self) -> bool {
        matches!(self, Self::Offered | Self::Asked)
    }
}

/// Where the copy of a delegation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Copies {
    /// None was sent.
    None,
    /// None was sent: others to that peer come first.
    Held,
    /// At least one was sent.
    Sent,
}

/// A part in somebody else's hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Delegation<I> {
    /// Who has it.
    pub(super) to: I,
    /// Its rank.
    pub(super) rank: Rank,
    /// What is still wanted from it; what was sent may have been larger.
    pub(super) part: Part,
    /// The end of the range that was sent; 0 of a routed part.
    pub(super) sent_end: u32,
    /// The round in which it was sent.
    pub(super) round: u32,
    pub(super) phase: Phase,
    pub(super) copies: Copies,
    /// What of the part has not delivered yet, as far as known.
    pub(super) pending: Runs,
    /// How often it was sent, or asked after, in this phase.
    pub(super) attempts: u32,
    /// How long an answer was waited for at first, beyond what the copy takes.
    pub(super) first_wait: Duration,
    /// How many questions how it is were not answered, in a row.
    pub(super) unanswered: u32,
    /// How many re-delegations led to it.
    pub(super) generation: u32,
    /// How often it had been tried when it was offered first, or its link had room again:
    /// who says no before its timer has fired since then says so in time.
    pub(super) asked_at: u32,
    /// The timer was excused once because this process had been paused.
    pub(super) is_excused: bool,
    /// Of a routed part: the hops that were tried, this one included.
    pub(super) tried: Vec<I>,
    /// How many answers to the copies in front of it, or sent with it, there had been when it
    /// was looked at last.
    pub(super) answers: u64,
    /// Of a copy with a turn: how many answers to others came since it was sent.
    pub(super) overtaken: u64,
    /// And how many looks found no answer since the look before.
    pub(super) quiet_looks: u32,
}

impl<I: Id> Delegation<I> {
    /// A part of the first round, before anything was sent. What is handed on again, in a
    /// further `generation`, may be there already or soon, by the first way: it is offered.
    pub(super) fn new(to: Hop<I>, part: Part, generation: u32, first_wait: Duration) -> Self {
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

    /// All that the peer was ever given with this delegation, of a range.
    pub(super) fn given(&self) -> Span {
        match &self.part {
            Part::Range(span) => Span::new(span.start, self.sent_end),
            Part::Routed { .. } => Span::new(0, 0),
        }
    }

    /// Whether its copy goes as soon as its turn has come.
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
