//! Calls of collective operations that handles send to the node's loop, and their outcomes.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binomesh_routing::collective::{CallError, End, InvalidName, Name, OnLoss, Op, ReduceError};
use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::oneshot;

use super::Destination;

/// The outcome of a collective operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveOutcome {
    /// The name of the operation.
    pub name: String,
    /// The operation's number among the operations of that name.
    pub generation: u64,
    /// The epoch of this node, for information only.
    pub epoch: Option<String>,
    /// Whether a majority of the listed members has accepted this outcome, and its values for this
    /// member are here. Then no member ever learns of a different agreed outcome. If false, the
    /// deadline came first, and this is only what this node knows; a later call may learn the
    /// decision.
    pub agreed: bool,
    /// How the operation ended, once a majority has accepted an end, even if values are still
    /// missing here: `completed`, `aborted`, `too-few` or `root-lost`.
    #[serde(serialize_with = "end_name")]
    pub end: Option<End>,
    /// The number of members that have arrived.
    pub arrived_count: usize,
    /// The values that are meant for this member, in the order of the list.
    #[serde(serialize_with = "values", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, Bytes)>,
    /// The values of the members that have arrived, combined, if the operation combines values and
    /// this member gets the result. With a function of the callers there is none.
    #[serde(
        rename = "result_base64",
        serialize_with = "base64",
        skip_serializing_if = "Option::is_none"
    )]
    pub combined: Option<Bytes>,
    /// The members that are missing and why, in the order of the list.
    pub missing: Vec<MissingMember>,
    /// How long this caller has waited.
    pub elapsed_seconds: f64,
}

/// A member that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingMember {
    /// The member's name.
    pub name: String,
    /// Why the member is missing: `dead`, `late`, `left` or `lost`.
    pub state: String,
}

/// A collective operation, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveView {
    /// The name of the operation.
    pub name: String,
    /// The operation's number among the operations of that name.
    pub generation: u64,
    /// The kind of operation, such as `barrier`.
    pub verb: String,
    /// The state, `open` or `decided`.
    pub state: String,
    /// The member that coordinates the operation, if this node knows one.
    pub coordinator: Option<String>,
    /// The number of callers that wait at this node.
    pub callers_count: usize,
    /// The number of members that are listed.
    pub members_count: usize,
    /// The number of members that have arrived, as far as this node knows.
    pub arrived_count: usize,
    /// The members that have not arrived.
    pub missing: Vec<MissingMember>,
}

fn end_name<S: Serializer>(end: &Option<End>, serializer: S) -> Result<S::Ok, S::Error> {
    end.map(End::name).serialize(serializer)
}

fn base64<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
    text.serialize(serializer)
}

fn values<S: Serializer>(values: &[(String, Bytes)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Value<'a> {
        name: &'a str,
        size_bytes: usize,
        value_base64: String,
    }
    let values = values.iter().map(|(name, bytes)| Value {
        name,
        size_bytes: bytes.len(),
        value_base64: STANDARD.encode(bytes),
    });
    serializer.collect_seq(values)
}

/// Why a collective operation has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The call was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The root, or the receiver of a part of the caller's value, is not among the members.
    #[error("{0} is not in the list of members")]
    NoMember(String),
    /// Neither the call nor the setting `expect` lists members, and this node does not know all
    /// members of its epoch yet.
    #[error("the call lists no members, and this node does not know the members of its epoch yet")]
    NotReady,
    /// The values cannot be combined.
    #[error(transparent)]
    Reduce(#[from] ReduceError),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl CollectiveError {
    /// What the caller can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Name(_) => "choose another name",
            Self::Call(CallError::Differs(_)) => {
                "use the same parameters at all members, or another name or generation"
            }
            Self::Call(CallError::TooOld(_)) => "call with a greater generation number",
            Self::Call(CallError::Busy) => "wait for the outcomes of earlier calls",
            Self::Call(CallError::TooLarge { .. }) => "call with shorter values",
            Self::Call(CallError::TooManyNames) => {
                "wait for the outcomes of earlier generations of this name, or use the name of \
                 another earlier collective with a greater generation"
            }
            Self::Call(CallError::Terms(_)) => {
                "correct the list of members, the root, or the number of survivors"
            }
            Self::Call(_) | Self::NoMember(_) => "correct the list of members",
            Self::NotReady => "list the members in the call, or wait until the node is ready",
            Self::Reduce(_) => "call with values of equal length that are multiples of 8 bytes",
            Self::Stopped => "start the node again",
        }
    }
}

/// How an operation treats the values of its members. Roots are given as destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Barrier,
    Agree,
    AllGather,
    Gather(Destination),
    Scatter(Destination),
    Reduce(Destination, Op),
    AllReduce(Op),
    AllToAll,
}

/// The value or values that a caller contributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Contribution {
    Bytes(Bytes),
    Parts(Vec<(Destination, Bytes)>),
}

/// A call on its way to the node's loop.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) generation: u64,
    /// The members; without a list, the hosts of the setting `expect`, or without these the members
    /// of the epoch.
    pub(crate) members: Option<Vec<Destination>>,
    pub(crate) action: Action,
    pub(crate) on_loss: OnLoss,
    pub(crate) given: Contribution,
    pub(crate) time: Duration,
    pub(crate) reply: oneshot::Sender<Result<CollectiveOutcome, CollectiveError>>,
}
