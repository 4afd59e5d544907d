//! Collective operations for a node's users: barrier, agree, gather, scatter, reduce and all-to-all
//! among listed members. The members agree on the outcome.
//!
//! Not here: the protocol (`binomesh_routing::collective`).

use std::time::Duration;

pub use binomesh_routing::collective::{Class, End, Number, OnLoss, Op, Operator, ReduceError};
use bytes::Bytes;
use tokio::sync::oneshot;

pub(crate) use crate::command::collective::{Action, Contribution, Request};
pub use crate::command::collective::{
    CollectiveError, CollectiveOutcome, CollectiveView, MissingMember,
};
use crate::command::{Command, Destination};
use crate::node::{Node, Stopped};

impl From<Stopped> for CollectiveError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
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
    /// The default time that a caller waits for an outcome.
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

    /// The number among the operations of this name: callers count up, from any number. 0 if not
    /// given.
    pub const fn generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    /// The members that take part, in an order that is the same at all callers: this node and at
    /// most 4,095 others. If no members are given: the hosts of the setting `expect`, or else the
    /// members of this node's epoch.
    pub fn among<D: Into<Destination>>(mut self, members: impl IntoIterator<Item = D>) -> Self {
        self.members = Some(members.into_iter().map(Into::into).collect());
        self
    }

    /// The time from this call until the outcome at the latest. The operation closes before the
    /// earliest deadline of its callers: earlier by a tenth of that caller's time, but at most a
    /// second, in which the members that have arrived decide.
    pub const fn deadline(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// What happens if members are lost.
    pub const fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Wait until all members have arrived, or the missing ones are lost or late.
    pub async fn barrier(self) -> Result<CollectiveOutcome, CollectiveError> {
        self.call(Action::Barrier, Contribution::Bytes(Bytes::new()))
            .await
    }

    /// Give all members the value of the first member in the list that has arrived.
    pub async fn agree(
        self,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        self.call(Action::Agree, Contribution::Bytes(value.into()))
            .await
    }

    /// Give all members all values.
    pub async fn all_gather(
        self,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Contribution::Bytes(value.into());
        self.call(Action::AllGather, given).await
    }

    /// Give the root all values.
    pub async fn gather(
        self,
        root: impl Into<Destination>,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Contribution::Bytes(value.into());
        self.call(Action::Gather(root.into()), given).await
    }

    /// Give each member its part of the root's `parts`. The parts of other callers are ignored, and
    /// may be empty.
    pub async fn scatter<D: Into<Destination>>(
        self,
        root: impl Into<Destination>,
        parts: impl IntoIterator<Item = (D, Bytes)>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let parts = parts.into_iter().map(|(to, part)| (to.into(), part));
        let given = Contribution::Parts(parts.collect());
        self.call(Action::Scatter(root.into()), given).await
    }

    /// Give the root all values, combined in the order of the list.
    pub async fn reduce(
        self,
        root: impl Into<Destination>,
        value: impl Into<Bytes>,
        op: Op,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Contribution::Bytes(value.into());
        self.call(Action::Reduce(root.into(), op), given).await
    }

    /// Give all members all values, combined in the order of the list.
    pub async fn all_reduce(
        self,
        value: impl Into<Bytes>,
        op: Op,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let given = Contribution::Bytes(value.into());
        self.call(Action::AllReduce(op), given).await
    }

    /// As [`Collective::all_reduce`], with a function of the callers, which must be the same at all
    /// of them. `name` stands for the function: callers with different names get an error.
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

    /// Give each member its part of the parts of every member.
    pub async fn all_to_all<D: Into<Destination>>(
        self,
        parts: impl IntoIterator<Item = (D, Bytes)>,
    ) -> Result<CollectiveOutcome, CollectiveError> {
        let parts = parts.into_iter().map(|(to, part)| (to.into(), part));
        let given = Contribution::Parts(parts.collect());
        self.call(Action::AllToAll, given).await
    }

    pub(crate) async fn call(
        self,
        action: Action,
        given: Contribution,
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
    /// A collective operation: set its options, then call one of its verbs.
    pub fn collective(&self, name: &str) -> Collective<'_> {
        Collective::new(self, name)
    }

    /// The collective operations that this node knows, open ones first.
    pub async fn collectives(&self) -> Result<Vec<CollectiveView>, Stopped> {
        let (reply, views) = oneshot::channel();
        self.ask(Command::Collectives { reply }).await?;
        views.await.map_err(|_| Stopped)
    }
}
