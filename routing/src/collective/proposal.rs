//! Proposals, which members vote on: the members that have come with their values, and the missing
//! ones with the reasons.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Why a member is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// The member was called down.
    Dead,
    /// The member was not called down, but had not come when the coordinator proposed.
    Late,
    /// The member has said goodbye.
    Left,
    /// The member had come, but too few members held its long value.
    Lost,
}

impl Class {
    /// All classes, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Dead, Self::Late, Self::Left, Self::Lost];

    /// The name used in outcomes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Late => "late",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum End {
    /// The members that have come go on.
    Completed,
    /// A member was lost, and the callers wanted to stop in that case.
    Aborted,
    /// Fewer members have come than the callers asked for.
    TooFew,
    /// The root was lost, or the root of a scatter has not come. Without it the operation has no
    /// purpose.
    RootLost,
}

impl End {
    /// The name used in outcomes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::TooFew => "too-few",
            Self::RootLost => "root-lost",
        }
    }
}

/// The hash of a value.
pub type Hash = [u8; 32];

/// A member's value, as other members are told of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value {
    /// A short value, in full.
    Inline(Bytes),
    /// A long value, which some members hold.
    Stored {
        /// The hash of the value.
        hash: Hash,
        /// The length of the value in bytes.
        size: u64,
    },
}

impl Value {
    /// The value with these bytes: in full if they are at most `inline_max`, else by its hash.
    pub fn of(bytes: &Bytes, inline_max: usize) -> Self {
        match bytes.len() <= inline_max {
            true => Self::Inline(bytes.clone()),
            false => Self::Stored {
                hash: *blake3::hash(bytes).as_bytes(),
                size: bytes.len() as u64,
            },
        }
    }

    /// The length of the value in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Stored { size, .. } => *size,
        }
    }
}

/// A proposal. It names members by their place in the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proposal {
    /// The end of the operation.
    pub end: End,
    /// The members that have come and their values, by place.
    pub arrived: Vec<(u32, Value)>,
    /// The members that are missing and why, by place.
    pub missing: Vec<(u32, Class)>,
}

impl Proposal {
    /// The value that a member has come with.
    pub fn value(&self, member: u32) -> Option<&Value> {
        let place = self
            .arrived
            .binary_search_by_key(&member, |(member, _)| *member);
        place.ok().map(|place| &self.arrived[place].1)
    }

    /// Whether each of the `members` listed members is named exactly once, and both lists are in
    /// order.
    pub fn is_sound(&self, members: usize) -> bool {
        let arrived = self.arrived.iter().map(|(member, _)| *member);
        let missing = self.missing.iter().map(|(member, _)| *member);
        let is_sorted = arrived.clone().is_sorted() && missing.clone().is_sorted();
        let mut all: Vec<u32> = arrived.chain(missing).collect();
        all.sort_unstable();
        is_sorted && all.iter().copied().eq(0..members as u32)
    }

    /// How many bytes the proposal holds.
    pub fn bytes(&self) -> usize {
        let inline = self.arrived.iter().map(|(_, value)| match value {
            Value::Inline(bytes) => bytes.len(),
            Value::Stored { .. } => 0,
        });
        inline.sum::<usize>() + 48 * (self.arrived.len() + self.missing.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_proposal_names_each_member_once() {
        let proposal = |arrived: &[u32], missing: &[u32]| Proposal {
            end: End::Completed,
            arrived: arrived
                .iter()
                .map(|m| (*m, Value::Inline(Bytes::new())))
                .collect(),
            missing: missing.iter().map(|m| (*m, Class::Late)).collect(),
        };
        assert!(proposal(&[0, 2], &[1]).is_sound(3));
        for (arrived, missing) in [
            (&[0, 2][..], &[][..]),
            (&[0, 1, 2], &[1]),
            (&[2, 0], &[1]),
            (&[0, 3], &[1]),
            (&[0, 0], &[1]),
        ] {
            assert!(!proposal(arrived, missing).is_sound(3));
        }
    }
}
