//! Messages that a program receives through its node.

use tokio::sync::oneshot;

use super::{Node, Stopped};
use crate::command::Command;
use crate::subscription::{
    Callback, Hold, Listener, Message, OrderMetrics, QueueBounds, Subscriber, Subscription,
    subscription,
};
use crate::topic::TopicFilter;

impl Node {
    /// Receive matching messages; see [`Subscription`] for slow readers. When this returns, no
    /// later message is missed. Messages that came before, within 30 s of the start of the node,
    /// also go to the first subscriber whose filter matches, if the node was started again or their
    /// origin had kept them. Messages that ask for an answer do not.
    pub async fn subscribe(&self, filter: TopicFilter) -> Result<Subscription, SubscribeError> {
        self.subscribe_bounded(filter, Subscription::DEFAULT_CAPACITY)
            .await
    }

    /// As [`Node::subscribe`], with room for `capacity` waiting messages.
    pub async fn subscribe_bounded(
        &self,
        filter: TopicFilter,
        capacity: usize,
    ) -> Result<Subscription, SubscribeError> {
        self.subscribe_within(filter, QueueBounds::for_messages(capacity))
            .await
    }

    /// As [`Node::subscribe`], in order. Messages that an origin publishes with
    /// [`is_ordered`](crate::SendOptions::is_ordered) on one topic to the same destinations come in
    /// the order of their publication. A missing message is reported in its place as
    /// [`Received::Gap`](crate::Received::Gap); if it still comes after that, it is marked late.
    /// Messages without a number come at once.
    pub async fn subscribe_ordered(
        &self,
        filter: TopicFilter,
        hold: Hold,
    ) -> Result<Subscription, SubscribeError> {
        let bounds = QueueBounds::for_messages(Subscription::DEFAULT_CAPACITY);
        let (subscription, metrics) = self.subscribe_counted(filter, bounds).await?;
        Ok(subscription.in_order(hold, metrics))
    }

    /// Have the node's own task call `call` for each matching message: there is no queue, and no
    /// other task has to be woken. When this returns, no later message is missed, and `call` has
    /// been called for the messages that waited, see [`Node::subscribe`]. The calls end with the
    /// [`Listener`] or the node.
    ///
    /// The node does nothing else until `call` returns, and cannot stop either. So `call` must be
    /// quick and wait for nothing. It must not hold a [`Node`], which would then keep itself alive.
    /// Work that takes long, or that answers, belongs into a task behind a channel, or needs
    /// [`Node::subscribe`]. Calls that take 10 ms or more for the messages of one packet are
    /// counted (`binomesh_listener_slow_total`). A `call` that panics is counted
    /// (`binomesh_listener_panics_total`) and not called again. Metrics that `call` records are the
    /// node's ([`Node::start_recorded`]).
    ///
    /// # Errors
    /// [`SubscribeError`]; listeners and subscriptions count together.
    pub async fn listen(
        &self,
        filter: TopicFilter,
        call: impl FnMut(Message) + Send + 'static,
    ) -> Result<Listener, SubscribeError> {
        let (callback, listener) = Callback::new(call);
        let subscriber = Subscriber::called(filter, callback);
        self.admit(subscriber).await?;
        Ok(listener)
    }

    /// As [`Node::subscribe`], with other bounds.
    pub(crate) async fn subscribe_within(
        &self,
        filter: TopicFilter,
        bounds: QueueBounds,
    ) -> Result<Subscription, SubscribeError> {
        let (subscription, _) = self.subscribe_counted(filter, bounds).await?;
        Ok(subscription)
    }

    async fn subscribe_counted(
        &self,
        filter: TopicFilter,
        bounds: QueueBounds,
    ) -> Result<(Subscription, OrderMetrics), SubscribeError> {
        let (subscriber, subscription) = subscription(filter, bounds);
        let metrics = self.admit(subscriber).await?;
        Ok((subscription, metrics))
    }

    async fn admit(&self, subscriber: Subscriber) -> Result<OrderMetrics, SubscribeError> {
        let (reply, held) = oneshot::channel();
        let asked = self.ask(Command::Subscribe { subscriber, reply }).await;
        asked.map_err(|Stopped| SubscribeError::Stopped)?;
        held.await
            .map_err(|_| match self.shared.commands.is_closed() {
                true => SubscribeError::Stopped,
                false => SubscribeError::TooMany,
            })
    }
}

/// A subscription was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The node has as many subscriptions as it allows.
    #[error("the node has its greatest number of subscribers; end another subscription first")]
    TooMany,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
