//! What members say to each other about collective operations. All of it travels as
//! messages of the relay, which goes round dead members and repeats what is lost.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::proposal::{Hash, Proposal, Value};
use super::terms::{Digest, Key, Terms};
use super::voting::Ballot;

/// Members that were started again, by their places, and the numbers of their lives.
pub type Lives = Vec<(u32, u64)>;

/// What is passed on of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Item {
    /// All of a member's value.
    Whole(u32),
    /// One member's part of another's value.
    Part {
        /// Whose value.
        of: u32,
        /// For whom.
        to: u32,
    },
    /// All values combined.
    Combined,
}

/// One message. What concerns one operation has its key, and the digest of its terms
/// where the terms themselves are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<I> {
    /// To who coordinates, and who is to hold a long value: I have come.
    Arrive {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// The sender's life.
        boot: u64,
        /// How many milliseconds its caller had in all; 0 if they are nearly over.
        time: u64,
        /// Its value.
        value: Value,
        /// The terms, if they are short or were asked for.
        terms: Option<Terms<I>>,
    },
    /// What are the terms? Answered by `Arrive` with them.
    AskTerms {
        /// Of which operation.
        key: Key,
    },
    /// Other callers of this operation have said this.
    Differs {
        /// Their terms.
        terms: Terms<I>,
    },
    /// This operation is not taken part in here.
    Refused {
        /// Which.
        key: Key,
        /// Why.
        reason: Refusal,
    },
    /// From the coordinator to members that have come: which members have come so far with a
    /// value that enough members hold.
    Progress {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// By place: first and last of each row without a gap.
        arrived: Vec<(u32, u32)>,
    },
    /// Promise to vote in no smaller ballot.
    Prepare {
        /// The operation.
        terms: Terms<I>,
        /// The ballot.
        ballot: Ballot,
    },
    /// I promise.
    Promise {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// The ballot.
        ballot: Ballot,
        /// The sender's life.
        boot: u64,
        /// Lives of others that it knows to follow earlier ones.
        lives: Lives,
        /// What it voted for last.
        voted: Option<(Ballot, Proposal)>,
    },
    /// Vote for this.
    Propose {
        /// The operation.
        terms: Terms<I>,
        /// The ballot.
        ballot: Ballot,
        /// What is to be decided.
        proposal: Proposal,
    },
    /// I have voted for it.
    Vote {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// The ballot.
        ballot: Ballot,
        /// The sender's life.
        boot: u64,
        /// Lives of others that it knows to follow earlier ones.
        lives: Lives,
    },
    /// I have promised a greater ballot.
    Overruled {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// The greater ballot.
        promised: Ballot,
    },
    /// What was proposed in this ballot is decided.
    Decided {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// The ballot.
        ballot: Ballot,
    },
    /// What is decided? Answered by `Outcome` once it is.
    Ask {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
    },
    /// This is decided.
    Outcome {
        /// The operation.
        terms: Terms<I>,
        /// What is decided.
        proposal: Proposal,
    },
    /// I was started again as this life: what has my former one voted for?
    Introduce {
        /// The sender's life.
        boot: u64,
        /// The members of the operation that it wants to vote in.
        members: Vec<I>,
    },
    /// I know your new life and count no answers of former ones any more.
    Known {
        /// The life that was introduced.
        boot: u64,
        /// The digest of the list of members.
        list: Digest,
        /// Whether the sender itself may vote in operations of this list.
        is_sure: bool,
        /// The greatest generation of each name in which I have promised or voted with you,
        /// or that I have forgotten: your former life may have voted up to there.
        touched: Vec<Key>,
    },
    /// To who coordinates: I hold this long value.
    Held {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// Whose value.
        member: u32,
        /// Its hash.
        hash: Hash,
    },
    /// Send me this.
    Want {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// What.
        item: Item,
        /// From which byte on.
        from: u64,
    },
    /// A piece of it.
    Piece {
        /// Which operation.
        key: Key,
        /// Of which terms.
        digest: Digest,
        /// Of what.
        item: Item,
        /// How long the whole is.
        size: u64,
        /// Where the piece begins.
        offset: u64,
        /// The piece.
        bytes: Bytes,
    },
}

/// Why a member takes no part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// It has forgotten this generation and all before `floor`.
    TooOld {
        /// The greatest generation that it has forgotten.
        floor: u64,
    },
    /// It has no room for another name.
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
