//! The messages of collective operations between members. They travel as messages of the relay,
//! which goes round dead members and repeats lost messages. Short messages of most kinds go over
//! the links of the graph first ([`super::Frame`]).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::proposal::{Hash, Proposal, Value};
use super::terms::{Digest, Key, Terms};
use super::voting::Ballot;

/// Members that were started again: the place of each, and the number of its life.
pub type Lives = Vec<(u32, u64)>;

/// A value, or a part of one, that members pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Item {
    /// The whole value of the member at this place.
    Whole(u32),
    /// The part for one member of another member's value.
    Part {
        /// The place of the member whose value it is.
        of: u32,
        /// The place of the member that the part is for.
        to: u32,
    },
    /// The combination of all values.
    Combined,
}

/// A message. If it concerns one operation it has the key of the operation, and for most kinds also
/// the terms or their digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To the coordinator, and to the members that shall hold a long value: I have come.
    Arrive {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The number of the sender's life.
        boot: u64,
        /// The milliseconds from call to deadline: the least of all callers at the sender. 0 if the
        /// time of a caller at any member is nearly over.
        time: u64,
        /// The value of the sender.
        value: Value,
        /// The terms, if the list of members is short or the receiver asked for them.
        terms: Option<Terms<I>>,
    },
    /// Which are the terms of this operation? The answer is `Arrive` with the terms.
    AskTerms {
        /// The key of the operation.
        key: Key,
    },
    /// Your terms differ: other callers of this operation have given these.
    Differs {
        /// The terms of the other callers.
        terms: Terms<I>,
    },
    /// The sender takes no part in this operation.
    Refused {
        /// The key of the operation.
        key: Key,
        /// The reason why the sender refuses.
        reason: OperationRefusal,
    },
    /// From the coordinator to the members that have come: these members have come so far, and
    /// enough members hold their values.
    Progress {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The places of these members: first and last place of each run without a gap.
        arrived: Vec<(u32, u32)>,
    },
    /// A question to all members: promise to vote in no smaller ballot.
    Prepare {
        /// The terms of the operation.
        terms: Terms<I>,
        /// The ballot that is meant.
        ballot: Ballot,
    },
    /// The answer to `Prepare`: I promise.
    Promise {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The ballot that is meant.
        ballot: Ballot,
        /// The number of the sender's life.
        boot: u64,
        /// The new lives of other members that the sender knows.
        lives: Lives,
        /// The sender's last vote: its ballot and proposal.
        voted: Option<(Ballot, Proposal)>,
    },
    /// A question to all members: vote for this proposal.
    Propose {
        /// The terms of the operation.
        terms: Terms<I>,
        /// The ballot that is meant.
        ballot: Ballot,
        /// The proposal to vote on.
        proposal: Proposal,
    },
    /// The answer to `Propose`: I have voted for the proposal.
    Vote {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The ballot that is meant.
        ballot: Ballot,
        /// The number of the sender's life.
        boot: u64,
        /// The new lives of other members that the sender knows.
        lives: Lives,
    },
    /// The answer to a smaller ballot: I have promised a greater one.
    Overruled {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The greater ballot.
        promised: Ballot,
    },
    /// The proposal of this ballot is decided.
    Decided {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The ballot that is meant.
        ballot: Ballot,
    },
    /// Which outcome is decided? If one is, the answer is `Outcome`. If not, the sender asks again
    /// later.
    Ask {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
    },
    /// The decided outcome of an operation.
    Outcome {
        /// The terms of the operation.
        terms: Terms<I>,
        /// The proposal that is decided.
        proposal: Proposal,
    },
    /// I was started again, as this life. In which generations may my former lives have voted?
    Introduce {
        /// The number of the sender's life.
        boot: u64,
        /// The members of the operation that the sender wants to vote in.
        members: Vec<I>,
    },
    /// I know your new life, and count no answers of your former lives any more.
    Known {
        /// The life that was introduced.
        boot: u64,
        /// The digest of the list of members.
        list: Digest,
        /// Whether the sender itself may vote in operations of this list.
        is_sure: bool,
        /// For each name, the greatest generation in which a former life of yours may have voted,
        /// as far as I can tell. It is the greatest of three: of the operations with you as a
        /// member, the last in which I promised, voted, started a ballot or learnt the outcome; the
        /// last that I have forgotten; the last in which a former life of mine may have voted. You
        /// do not vote up to there.
        touched: Vec<Key>,
    },
    /// To the coordinator: I hold this long value.
    Held {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The place of the member whose value it is.
        member: u32,
        /// The hash of the value.
        hash: Hash,
    },
    /// Send me this value, from a byte on.
    Want {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The value that is wanted.
        item: Item,
        /// The first byte that the sender lacks.
        from: u64,
    },
    /// A piece of a value: the answer to `Want`.
    Piece {
        /// The key of the operation.
        key: Key,
        /// The digest of its terms.
        digest: Digest,
        /// The value that the piece is from.
        item: Item,
        /// The length of the whole value.
        size: u64,
        /// The place of the piece's first byte in the value.
        offset: u64,
        /// The bytes of the piece.
        bytes: Bytes,
    },
}

/// Why a member takes no part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OperationRefusal {
    /// The member refuses this generation, and all others up to `floor`: it has forgotten them, or
    /// keeps later ones and has no room for them.
    TooOld {
        /// The greatest generation that the member refuses for this reason.
        floor: u64,
    },
    /// The member has no room for another name, or for another generation of this one.
    Full,
}

impl<I> Message<I> {
    /// The name used in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Arrive { .. } => "arrive",
            Self::AskTerms { .. } => "ask-terms",
            Self::Differs { .. } => "differs",
            Self::Refused { .. } => "refused",
            Self::Progress { .. } => "progress",
            Self::Prepare { .. } => "prepare",
            Self::Promise { .. } => "promise",
            Self::Propose { .. } => "propose",
            Self::Vote { .. } => "vote",
            Self::Overruled { .. } => "overruled",
            Self::Decided { .. } => "decided",
            Self::Ask { .. } => "ask",
            Self::Outcome { .. } => "outcome",
            Self::Introduce { .. } => "introduce",
            Self::Known { .. } => "known",
            Self::Held { .. } => "held",
            Self::Want { .. } => "want",
            Self::Piece { .. } => "piece",
        }
    }
}
