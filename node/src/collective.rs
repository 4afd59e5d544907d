//! Collective operations of a node's users: barrier, agree, gather, scatter, reduce and
//! all-to-all among listed members, with an outcome that is decided.
//!
//! Not here: the protocol (`binomesh_routing::collective`).

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binomesh_routing::collective::{CallError, InvalidName, Name};
pub use binomesh_routing::collective::{Class, End, Number, OnLoss, Op, Operator, ReduceError};
use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::oneshot;

use crate::command::{Command, Destination};
use crate::node::{Node, Stopped};

/// What became of a collective operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveOutcome {
    /// The name that it was called by.
    pub name: String,
    /// Which operation of that name.
    pub generation: u64,
    /// The epoch in which this node is; it only informs.
    pub epoch: Option<String>,
    /// Whether a majority of the listed members has accepted this outcome: then no member
    /// ever hears of another one as agreed. If not, the deadline came first, and this is
    /// what this node knows by itself; a later question may learn what was decided.
    pub agreed: bool,
    /// How it ended, if that is agreed: `completed`, `aborted`, `too-few` or `root-lost`.
    #[serde(serialize_with = "end_name")]
    pub end: Option<End>,
    /// How many members have come.
    pub arrived_count: usize,
    /// The values that are meant for this member, in the order of the list.
    #[serde(serialize_with = "values", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, Bytes)>,
    /// All values combined, if that was asked for and is meant for this member.
    #[serde(
        rename = "result_base64",
        serialize_with = "base64",
        skip_serializing_if = "Option::is_none"
    )]
    pub combined: Option<Bytes>,
    /// Who is missing and why, in the order of the list.
    pub missing: Vec<Missing>,
    /// How long this caller has waited.
    pub elapsed_seconds: f64,
}

/// A member that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// Why: `dead`, `late`, `left` or `lost`.
    pub state: String,
}

/// A collective operation, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveView {
    /// The name that it was called by.
    pub name: String,
    /// Which operation of that name.
    pub generation: u64,
    /// What it does, such as `barrier`.
    pub verb: String,
    /// `open` or `decided`.
    pub state: String,
    /// Who coordinates it.
    pub coordinator: Option<String>,
    /// How many callers wait at this node.
    pub callers_count: usize,
    /// How many members are listed.
    pub members_count: usize,
    /// How many have come, as far as this node knows.
    pub arrived_count: usize,
    /// Who has not come.
    pub missing: Vec<Missing>,
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
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The call was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A root or a receiver of a part is not among the members.
    #[error("{0} is not among the listed members")]
    NoMember(String),
    /// No members were listed, and this node does not know all of its epoch yet.
    #[error("no members are listed, and this node does not know the members of its epoch yet")]
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
                "call as the others do, or use another name or generation"
            }
            Self::Call(CallError::TooOld(_)) => "call with a greater generation",
            Self::Call(CallError::Busy) => "await earlier outcomes first",
            Self::Call(CallError::TooLarge { .. }) => "come with shorter values",
            Self::Call(CallError::TooManyNames) => "use a known name with a greater generation",
            Self::Call(CallError::Terms(_)) => {
                "correct the list of members, or what is wanted of it"
            }
            Self::Call(_) | Self::NoMember(_) => "correct the list of members",
            Self::NotReady => "list the members, or wait for `ready`",
            Self::Reduce(_) => "come with values of equal length, in whole numbers of 8 bytes",
            Self::Stopped => "start the node again",
        }
    }
}

impl From<Stopped> for CollectiveError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// What is done with the values. Roots are named.
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

/// What a caller comes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    Bytes(Bytes),
    Parts(Vec<(Destination, Bytes)>),
}

/// A call on its way to the node's loop.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) generation: u64,
    /// The members; those of the inventory, or else of the epoch, if none are listed.
    pub(crate) members: Option<Vec<Destination>>,
    pub(crate) action: Action,
    pub(crate) on_loss: OnLoss,
    pub(crate) given: Given,
    pub(crate) time: Duration,
    pub(crate) reply: oneshot::Sender<Result<CollectiveOutcome, CollectiveError>>,
}

/// A collective operation that is about to be called.
#[derive(Debug, Clone)]
#[must_use = "nothing is called before `barrier`, `agree` or another verb"]
pub struct Collective<'a> {
    node: &'a Node,
    name: String,
    generation: u64,
    members: Option<Vec<Destination>>,
    on_loss: OnLoss,
    time: Duration,
}

impl<'a> Collective<'a> {
    /// How long an outcome is waited for if nothing else is said.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(60);

    pub(crate) fn new(node: &'a Node, name: &str) -> Self {
        Self {
            node,
            name: name.to_owned(),
            generation: 0,
            members: None,
            on_loss: OnLoss::default(),
            time: Self::DEFAULT_TIME,
        }
    }

    /// Which operation of its name: callers count up, from any number. 0 if not given.
    pub const fn generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    /// Who takes part, in an order that all callers give alike: this node and at most
    /// 4,095 others. If nobody is listed: the hosts of the configuration's `expect`, or else
    /// the members of this node's epoch.
    pub fn among<D: Into<Destination>>(mut self, members: impl IntoIterator<Item = D>) -> Self {
        self.members = Some(members.into_iter().map(Into::into).collect());
        self
    }

    /// When the outcome is wanted at the latest, from the call on. The operation closes at
    /// the earliest deadline of all that have come, less a tenth of its time and at most a
    /// second, in which those that have come decide.
    pub const fn deadline(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// What happens if members are lost.
    pub const fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Wait until all have come.
    pub async fn barrier(self) -> Result<CollectiveOutcome, CollectiveError> {
        self.call(Action::Barrier, Given::Bytes(Bytes::new())).await
    }

    /// All get the value of the first in the list that has come.
    pub async fn agree(
        self,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        self.call(Action::Agree, Given::Bytes(value.into())).await
    }

    /// All get all values.
    pub async fn all_gather(
        self,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Given::Bytes(value.into());
        self.call(Action::AllGather, given).await
    }

    /// The root gets all values.
    pub async fn gather(
        self,
        root: impl Into<Destination>,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Given::Bytes(value.into());
        self.call(Action::Gather(root.into()), given).await
    }

    /// Each gets its part of the root's `parts`; the parts that others come with are not
    /// looked at, and may be none.
    pub async fn scatter<D: Into<Destination>>(
        self,
        root: impl Into<Destination>,
        parts: impl IntoIterator<Item = (D, Bytes)>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let parts = parts.into_iter().map(|(to, part)| (to.into(), part));
        let given = Given::Parts(parts.collect());
        self.call(Action::Scatter(root.into()), given).await
    }

    /// The root gets all values, combined in the order of the list.
    pub async fn reduce(
        self,
        root: impl Into<Destination>,
        value: impl Into<Bytes>,
        op: Op,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Given::Bytes(value.into());
        self.call(Action::Reduce(root.into(), op), given).await
    }

    /// All get all values, combined in the order of the list.
    pub async fn all_reduce(
        self,
        value: impl Into<Bytes>,
        op: Op,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Given::Bytes(value.into());
        self.call(Action::AllReduce(op), given).await
    }

    /// As [`Collective::all_reduce`], by a function of the callers, which all give alike.
    /// `name` stands for it: callers with different ones are told so.
    pub async fn all_reduce_with(
        self,
        value: impl Into<Bytes>,
        name: &str,
        combine: impl FnMut(Bytes, Bytes) -> Bytes,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let op = Op::User(name.to_owned());
        let mut outcome = self.all_reduce(value, op).await?;
        let values = std::mem::take(&mut outcome.values).into_iter();
        outcome.combined = values.map(|(_, value)| value).reduce(combine);
        Ok(outcome)
    }

    /// Each gets its part of what every member has come with.
    pub async fn all_to_all<D: Into<Destination>>(
        self,
        parts: impl IntoIterator<Item = (D, Bytes)>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let parts = parts.into_iter().map(|(to, part)| (to.into(), part));
        let given = Given::Parts(parts.collect());
        self.call(Action::AllToAll, given).await
    }

    pub(crate) async fn call(
        self,
        action: Action,
        given: Given,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            name: self.name.parse()?,
            generation: self.generation,
            members: self.members,
            action,
            on_loss: self.on_loss,
            given,
            time: self.time,
            reply,
        };
        self.node.ask(Command::Call(Box::new(request))).await?;
        outcome.await.unwrap_or(Err(CollectiveError::Stopped))
    }
}

impl Node {
    /// A collective operation; say which and among whom, then call one of its verbs.
    pub fn collective(&self, name: &str) -> Collective<'_> {
        Collective::new(self, name)
    }

    /// The collective operations that this node knows, those that are open first.
    pub async fn collectives(&self) -> Result<Vec<CollectiveView>, Stopped> {
        let (reply, views) = oneshot::channel();
        self.ask(Command::Collectives { reply }).await?;
        views.await.map_err(|_| Stopped)
    }
}

/// The parts that a caller gives, by the places of their receivers.
pub(crate) fn placed(
    parts: Vec<(Destination, Bytes)>,
    place: impl Fn(&Destination) -> Option<u32>,
) -> Result<BTreeMap<u32, Bytes>, CollectiveError> {
    let placed = parts.into_iter().map(|(to, part)| match place(&to) {
        Some(place) => Ok((place, part)),
        None => Err(CollectiveError::NoMember(to.to_string())),
    });
    placed.collect()
}
