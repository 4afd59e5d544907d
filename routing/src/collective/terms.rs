//! The terms of a collective operation, on which all its callers must agree.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use binomesh_overlay::Id;
use serde::{Deserialize, Serialize};

use super::reduce::Op;

/// The name of a series of operations: 1 to [`Name::MAX_BYTES`] bytes of text without control
/// characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct Name(Arc<str>);

/// A text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot name a collective; expected 1 to 128 bytes without control characters")]
pub struct InvalidName(String);

impl Name {
    /// The longest name. A guess: the names of jobs and hosts are shorter. A longer name is
    /// refused.
    pub const MAX_BYTES: usize = 128;

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<Arc<str>> for Name {
    type Error = InvalidName;

    fn try_from(text: Arc<str>) -> Result<Self, InvalidName> {
        let fits = (1..=Self::MAX_BYTES).contains(&text.len());
        match fits && !text.chars().any(char::is_control) {
            true => Ok(Self(text)),
            false => Err(InvalidName(text.chars().take(64).collect())),
        }
    }
}

impl From<Name> for Arc<str> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Arc::<str>::from(text).try_into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of one operation: its name, and its number among the operations of that name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The name of the series.
    pub name: Name,
    /// The number of the operation. Later operations have greater ones.
    pub generation: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} generation {}", self.name, self.generation)
    }
}

/// The verb of an operation: how it treats the members' values. Roots are places in the list of
/// members.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// Barrier: members only learn which members have come.
    Barrier,
    /// Agree: all get the value of the first listed member that has come.
    Agree,
    /// All-gather: all get all values.
    AllGather,
    /// Gather: the root gets all values.
    Gather {
        /// The place of the root.
        root: u32,
    },
    /// Scatter: each member gets its part of the root's value.
    Scatter {
        /// The place of the root.
        root: u32,
    },
    /// Reduce: the root gets the combination of all values.
    Reduce {
        /// The place of the root.
        root: u32,
        /// How two values are combined.
        op: Op,
    },
    /// All-reduce: all get the combination of all values.
    AllReduce {
        /// How two values are combined.
        op: Op,
    },
    /// All-to-all: each member gets its part of every member's value.
    AllToAll,
}

impl Verb {
    /// The name used in commands and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Agree => "agree",
            Self::AllGather => "all-gather",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Reduce { .. } => "reduce",
            Self::AllReduce { .. } => "all-reduce",
            Self::AllToAll => "all-to-all",
        }
    }

    /// The place of the root, if the verb has one.
    pub const fn root(&self) -> Option<u32> {
        match self {
            Self::Gather { root } | Self::Scatter { root } | Self::Reduce { root, .. } => {
                Some(*root)
            }
            _ => None,
        }
    }

    /// Whether each value consists of a part for each member.
    pub const fn has_parts(&self) -> bool {
        matches!(self, Self::Scatter { .. } | Self::AllToAll)
    }
}

/// What happens if members are lost before they have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnLoss {
    /// The operation goes on without a member as soon as that member is called down or has left, if
    /// enough members remain.
    Survivors {
        /// How many members must have come.
        at_least: u32,
    },
    /// The operation is aborted at the first loss.
    Abort,
    /// Members that are down may still return and come in time.
    Wait,
}

impl Default for OnLoss {
    fn default() -> Self {
        Self::Survivors { at_least: 1 }
    }
}

/// The terms, which identify a collective operation: all callers must give the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms<I> {
    /// The name and generation of the operation.
    pub key: Key,
    /// The members that take part, without duplicates: at least one, at most
    /// [`Terms::MAX_MEMBERS`].
    pub members: Vec<I>,
    /// The verb of the operation.
    pub verb: Verb,
    /// What happens if members are lost.
    pub on_loss: OnLoss,
}

/// 128 bits of the hash of [`Terms`].
pub type Digest = [u8; 16];

/// Why terms make no sense.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InvalidTerms {
    /// The list is empty or too long.
    #[error("the list has {0} members; a collective has 1 to {max}", max = Terms::<()>::MAX_MEMBERS)]
    MemberCount(usize),
    /// A member is listed twice.
    #[error("a member is listed twice, at the places {0} and {1}")]
    Twice(u32, u32),
    /// The root is no member.
    #[error("the root is at place {0} of the list, but the list has {1} members")]
    Root(u32, usize),
    /// More survivors are asked for than there are members.
    #[error("the call asks for at least {0} survivors, but lists {1} members")]
    Survivors(u32, usize),
}

impl<I> Terms<I> {
    /// The longest list: as long as the longest roster.
    pub const MAX_MEMBERS: usize = 4096;
}

impl<I: Id> Terms<I> {
    /// Check that these terms make sense.
    pub fn check(&self) -> Result<(), InvalidTerms> {
        let count = self.members.len();
        if !(1..=Self::MAX_MEMBERS).contains(&count) {
            return Err(InvalidTerms::MemberCount(count));
        }
        let mut sorted: Vec<(I, u32)> = self.members.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let pairs = sorted.windows(2);
        let twice = pairs.filter_map(|pair| match pair {
            [(one, first), (other, second)] if one == other => Some((*first, *second)),
            _ => None,
        });
        if let Some((first, second)) = twice.min() {
            return Err(InvalidTerms::Twice(first, second));
        }
        match (self.verb.root(), self.on_loss) {
            (Some(root), _) if root as usize >= count => Err(InvalidTerms::Root(root, count)),
            (_, OnLoss::Survivors { at_least }) if at_least as usize > count => {
                Err(InvalidTerms::Survivors(at_least, count))
            }
            _ => Ok(()),
        }
    }

    /// The place of a member in the list.
    pub fn place(&self, member: I) -> Option<u32> {
        let place = self.members.iter().position(|other| *other == member);
        place.map(|place| place as u32)
    }

    /// The places of the members in the order in which they coordinate: first the root, which the
    /// operation needs anyway, then the others as listed.
    pub fn coordinators(&self) -> impl Iterator<Item = u32> + '_ {
        let root = self.verb.root();
        let all = (0..self.members.len() as u32).filter(move |place| Some(*place) != root);
        root.into_iter().chain(all)
    }

    /// The longest value that travels inside the proposal instead of in pieces. It is so short that
    /// the values of all members fit into one message.
    pub fn inline_max(&self) -> usize {
        (PIECE_BYTES / self.members.len().max(1)).min(INLINE_MAX)
    }

    /// The first difference to `other` except the key, in words.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.members != other.members {
            Some("the list of members")
        } else if self.verb.name() != other.verb.name() {
            Some("the operation")
        } else if self.verb.root() != other.verb.root() {
            Some("the root")
        } else if self.verb != other.verb {
            Some("the operation on the values")
        } else if self.on_loss != other.on_loss {
            Some("the action on lost members")
        } else {
            None
        }
    }
}

impl<I: Id + Serialize> Terms<I> {
    /// The digest of these terms.
    pub fn digest(&self) -> Digest {
        digest_of(self)
    }
}

/// The digest of a list of members.
pub(super) fn list_digest<I: Id + Serialize>(members: &[I]) -> Digest {
    digest_of(members)
}

fn digest_of<T: Serialize + ?Sized>(value: &T) -> Digest {
    let bytes = postcard::to_stdvec(value).unwrap_or_default();
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    digest
}

/// The longest piece of a value in one message. A guess: a quarter of the smallest usual bound of
/// payloads. A piece above that bound would not be delivered.
pub const PIECE_BYTES: usize = 256 << 10;

const INLINE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(members: Vec<u8>, verb: Verb) -> Terms<u8> {
        Terms {
            key: Key {
                name: "x".parse().unwrap(),
                generation: 1,
            },
            members,
            verb,
            on_loss: OnLoss::default(),
        }
    }

    #[test]
    fn terms_that_make_no_sense_are_refused() {
        let root = Verb::Gather { root: 2 };
        assert!(terms(vec![1, 2, 3], root.clone()).check().is_ok());
        for bad in [
            terms(vec![], Verb::Barrier),
            terms(vec![4, 1, 4], Verb::Barrier),
            terms(vec![1, 2], root),
            Terms {
                on_loss: OnLoss::Survivors { at_least: 3 },
                ..terms(vec![1, 2], Verb::Barrier)
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_root_coordinates_first() {
        let order = |verb| -> Vec<u32> { terms(vec![5, 6, 7], verb).coordinators().collect() };
        assert_eq!(order(Verb::Gather { root: 1 }), [1, 0, 2]);
        assert_eq!(order(Verb::Barrier), [0, 1, 2]);
    }

    #[test]
    fn differences_are_named_and_change_the_digest() {
        let one = terms(vec![1, 2], Verb::Barrier);
        for (other, what) in [
            (terms(vec![2, 1], Verb::Barrier), "the list of members"),
            (terms(vec![1, 2], Verb::Agree), "the operation"),
        ] {
            assert_eq!(one.difference(&other), Some(what));
            assert_ne!(one.digest(), other.digest());
        }
        assert_eq!(one.difference(&one.clone()), None);
    }

    #[test]
    fn texts_that_are_no_names_are_refused() {
        for text in ["", "a\nb", &"x".repeat(129)] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }
}
