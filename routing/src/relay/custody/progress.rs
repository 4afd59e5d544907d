//! The findings of custody about messages that this node published. `Origin::heed` takes them in.

use binomesh_overlay::{Epoch, Id};

use super::duty::Duty;
use crate::packet::{Exception, PacketId, Span};
use crate::runs::Runs;

/// News about a round of a message that this node published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum Progress<I> {
    /// Members have delivered.
    Confirmed {
        id: PacketId<I>,
        epoch: Epoch<I>,
        /// The distances of these members from this node, in that epoch.
        reached: Runs,
    },
    /// The member that was named at a distance never held that rank, as it says.
    Misnamed {
        id: PacketId<I>,
        epoch: Epoch<I>,
        at: u32,
    },
    /// No delegate holds any part of the round any more.
    RoundDone(RoundEnd<I>),
}

/// The result of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct RoundEnd<I> {
    pub(in crate::relay) id: PacketId<I>,
    pub(in crate::relay) epoch: Epoch<I>,
    /// The members that the round could not confirm, by distances.
    pub(in crate::relay) exceptions: Vec<Exception<I>>,
    pub(in crate::relay) redelegated: u32,
    pub(in crate::relay) replaced: Vec<I>,
}

impl<I: Id> Progress<I> {
    pub(super) fn confirmed(duty: &Duty<I>, positions: &Runs) -> Self {
        Self::Confirmed {
            id: duty.key.id,
            epoch: duty.key.epoch,
            reached: duty.distances(positions),
        }
    }

    pub(super) const fn misnamed(duty: &Duty<I>, at: u32) -> Self {
        Self::Misnamed {
            id: duty.key.id,
            epoch: duty.key.epoch,
            at,
        }
    }

    pub(super) fn round_done(duty: &Duty<I>) -> Self {
        Self::RoundDone(RoundEnd {
            id: duty.key.id,
            epoch: duty.key.epoch,
            exceptions: exceptions_of(duty),
            redelegated: duty.redelegated,
            replaced: duty.replaced.iter().copied().collect(),
        })
    }
}

/// The members that a round could not confirm, by distances.
fn exceptions_of<I: Id>(duty: &Duty<I>) -> Vec<Exception<I>> {
    let by_position = duty.exceptions.as_slice();
    if duty.key.strategy.is_clockwise() {
        return by_position.to_vec();
    }
    let mut by_distance = Vec::new();
    for exception in by_position {
        let spans = duty.distances(&Runs::from_iter([exception.span]));
        let of = |span: &Span| Exception {
            span: *span,
            ..*exception
        };
        by_distance.extend(spans.spans().iter().map(of));
    }
    by_distance
}
