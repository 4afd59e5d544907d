//! The handle of a node: what a program does with it.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "push")]
use crate::catalogue::pushes::PushCounts;
pub use crate::command::RenewError;
use crate::command::{Command, Destination, Outgoing, QUEUE, SendError, SendOptions};
use crate::credentials::Credentials;
pub use crate::host::{Ended, StartError};
use crate::host::{LoopContext, ReadyLoop};
use crate::recorder::{Recorded, SharedRecorder, recording};
use crate::report::{NodeReport, PlacementView, Receipt, Reply};
use crate::scrape::Scrape;
use crate::settings::NodeConfig;
use crate::state::NodeState;
use crate::subscription::{
    Callback, Hold, Listener, Message, OrderMetrics, QueueBounds, Subscriber, Subscription,
    subscription,
};
use crate::targets::TargetGroup;
use crate::topic::{Topic, TopicFilter, is_reserved};

/// A running node. Clones are handles of the same node; when the last one is
/// dropped the node stops at once, without a goodbye.
#[derive(Debug, Clone)]
pub struct Node {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    id: PeerId,
    boot: Arc<AtomicU64>,
    address: SocketAddr,
    max_payload_bytes: usize,
    commands: mpsc::Sender<Command>,
    placement: watch::Receiver<Option<PlacementView>>,
    ended: watch::Receiver<Option<Ended>>,
    stop: CancellationToken,
    /// The number of pushes so far.
    #[cfg(feature = "push")]
    pushes: AtomicU64,
    #[cfg(feature = "push")]
    push_counts: PushCounts,
    /// Counts down with each message. The strategy `circulant` picks the tree of a message by this
    /// number, so that successive messages go down different trees.
    left: AtomicU32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The parts of a message's options that users do not choose.
pub(crate) struct Unasked {
    /// Names of members for which the receipt does not wait.
    pub(crate) excused: Arc<[String]>,
    /// The number by which the strategy `circulant` picks the tree of the message. In a push of
    /// known length this is the number of pieces that follow, otherwise a number that falls by one
    /// with each message.
    pub(crate) left: u32,
}

impl Node {
    /// Start a node on the current tokio runtime. Its metrics go to the
    /// process's recorder, if there is one.
    ///
    /// A process with many nodes best has as many runtimes as cores, each with one thread, and
    /// starts each node within one of these runtimes: all tasks of a node then run on one thread.
    pub fn start(config: NodeConfig) -> Result<Self, StartError> {
        Self::start_inner(config, None)
    }

    /// Start a node whose metrics go to `recorder`.
    pub fn start_recorded(
        config: NodeConfig,
        recorder: SharedRecorder,
    ) -> Result<Self, StartError> {
        Self::start_inner(config, Some(recorder))
    }

    fn start_inner(
        config: NodeConfig,
        recorder: Option<SharedRecorder>,
    ) -> Result<Self, StartError> {
        config.check()?;
        let credentials = Credentials::load(&config)?;
        let state = NodeState::open(&config.state_dir)?;
        Self::seated(config, credentials, state, recorder, crate::host::open)
    }

    /// Start the task of a node: it runs the loop that `open` makes of the node's context.
    pub(crate) fn seated(
        config: NodeConfig,
        credentials: Credentials,
        state: NodeState,
        recorder: Option<SharedRecorder>,
        open: impl FnOnce(LoopContext) -> Result<ReadyLoop, StartError>,
    ) -> Result<Self, StartError> {
        let (name, id) = (config.name.clone(), credentials.identity.id());
        let boot = Arc::new(AtomicU64::new(state.boot));
        let max_payload_bytes = config.max_payload_bytes;
        let (commands, receiver) = mpsc::channel(QUEUE);
        let (placement_sender, placement) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let context = LoopContext {
            config,
            credentials,
            state,
            boot: boot.clone(),
            commands: receiver,
            placement: placement_sender,
            stop: stop.clone(),
        };
        let opened = recording(recorder.as_ref(), || open(context))?;
        #[cfg(feature = "push")]
        let push_counts = recording(recorder.as_ref(), PushCounts::of_this_node);
        let run = AssertUnwindSafe(Recorded::new(recorder, opened.run)).catch_unwind();
        tokio::spawn(async move {
            let ended = run.await.unwrap_or(Ended::Panicked);
            ended_sender.send_replace(Some(ended));
        });
        let shared = Arc::new(Shared {
            name,
            id,
            boot,
            address: opened.address,
            max_payload_bytes,
            commands,
            placement,
            ended,
            stop,
            #[cfg(feature = "push")]
            pushes: AtomicU64::new(0),
            #[cfg(feature = "push")]
            push_counts,
            left: AtomicU32::new(u32::MAX),
        });
        Ok(Self { shared })
    }

    /// The node's configured name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The node's lasting identity.
    pub fn id(&self) -> PeerId {
        self.shared.id
    }

    /// The number of this process's life. It rises when the process begins another life: see
    /// `binomesh_overlay::lives`.
    pub fn boot(&self) -> u64 {
        self.shared.boot.load(Ordering::Relaxed)
    }

    /// The address that the node tells other nodes.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The longest payload that the node accepts.
    pub fn max_payload_bytes(&self) -> usize {
        self.shared.max_payload_bytes
    }

    /// Wait until the node is ready in an epoch of at least `quorum` members: it is settled there,
    /// and its overlay is the cluster's rather than an island.
    pub async fn ready(&self, quorum: u32) -> Result<PlacementView, Stopped> {
        let mut placement = self.placement();
        let there = |view: &Option<PlacementView>| {
            let view = view.as_ref();
            view.is_some_and(|view| view.settled && view.anchored && view.population >= quorum)
        };
        let found = placement.wait_for(there).await.map_err(|_| Stopped)?;
        found.clone().ok_or(Stopped)
    }

    /// The place of the node in the overlay, with every later change; `None` while it has no place.
    pub fn placement(&self) -> watch::Receiver<Option<PlacementView>> {
        self.shared.placement.clone()
    }

    /// The state of the node and of its neighbours, as the node sees them.
    pub async fn report(&self) -> Result<NodeReport, Stopped> {
        let (reply, report) = oneshot::channel();
        self.ask(Command::Report { reply }).await?;
        report.await.map_err(|_| Stopped)
    }

    /// The values of a scrape, for an exporter to render.
    pub async fn scrape(&self) -> Result<Scrape, Stopped> {
        let (reply, scrape) = oneshot::channel();
        self.ask(Command::Scrape { reply }).await?;
        scrape.await.map_err(|_| Stopped)
    }

    /// The addresses at which metrics can be scraped, as far as this node knows them: of members,
    /// of expected hosts, and, for a day, of members that were lost.
    pub async fn targets(&self) -> Result<Vec<TargetGroup>, Stopped> {
        let (reply, targets) = oneshot::channel();
        self.ask(Command::Targets { reply }).await?;
        targets.await.map_err(|_| Stopped)
    }

    /// Send a message to some members. Dropping the handle cancels nothing.
    pub fn send<D: Into<Destination>>(
        &self,
        to: impl IntoIterator<Item = D>,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> PublishHandle {
        let to: Vec<Destination> = to.into_iter().map(Into::into).collect();
        if to.is_empty() {
            return PublishHandle::refused(SendError::NoDestination);
        }
        let command = |outgoing| Command::Send { to, outgoing };
        self.submit(payload.into(), options, command)
    }

    /// A handle for publishing on `topic`.
    pub fn topic(&self, topic: Topic) -> TopicHandle<'_> {
        let node = self;
        TopicHandle { node, topic }
    }

    /// Send a message to all members. Dropping the handle cancels nothing.
    pub fn publish(&self, payload: impl Into<Bytes>, options: SendOptions) -> PublishHandle {
        self.submit(payload.into(), options, Command::Publish)
    }

    /// Answer a message that asks for it ([`crate::Message::confirmation`]). Only the first answer
    /// of a node counts. When this returns without an error, the answer waits for its turn to be
    /// sent.
    pub async fn reply(
        &self,
        to: PacketId<PeerId>,
        answer: impl Into<Bytes>,
    ) -> Result<(), SendError> {
        let answer = answer.into();
        if answer.len() > Reply::MAX_BYTES {
            return Err(SendError::TooLarge {
                size_bytes: answer.len(),
                max_bytes: Reply::MAX_BYTES,
            });
        }
        let (reply, sent) = oneshot::channel();
        let asked = self.ask(Command::Reply { to, answer, reply }).await;
        asked.map_err(|Stopped| SendError::Stopped)?;
        sent.await.unwrap_or(Err(SendError::Stopped))
    }

    /// Receive matching messages; see [`Subscription`] for slow readers. When this returns, no
    /// later message is missed. Messages that came before, within 30 s of the start of the process,
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
    /// [`SendOptions::is_ordered`] on one topic to the same destinations come in the order of their
    /// publication. A missing message is reported in its place as
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

    /// Go on with a renewed certificate, other authorities or revocation lists.
    /// Links whose certificates are not accepted any more are cut at once.
    pub async fn renew(&self, credentials: Credentials) -> Result<(), RenewError> {
        let (reply, renewed) = oneshot::channel();
        let asked = self.ask(Command::Renew { credentials, reply }).await;
        asked.map_err(|Stopped| RenewError::Stopped)?;
        renewed.await.map_err(|_| RenewError::Stopped)?
    }

    /// Leave the overlay: finish open messages for at most `drain`, say goodbye to the neighbours,
    /// and stop.
    pub async fn leave(&self, drain: Duration) -> Result<(), Stopped> {
        let (reply, left) = oneshot::channel();
        self.ask(Command::Leave { drain, reply }).await?;
        left.await.map_err(|_| Stopped)?;
        self.stopped().await;
        Ok(())
    }

    /// Stop at once, without a goodbye; the other members have to detect it.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.stopped().await;
    }

    /// Wait until the node has stopped, for any reason. From then on another node may use its state
    /// folder.
    pub async fn stopped(&self) -> Ended {
        let mut ended = self.shared.ended.clone();
        let found = ended.wait_for(Option::is_some).await;
        let ended = found.ok().and_then(|ended| *ended);
        // The node's task ended without a result.
        ended.unwrap_or(match self.shared.stop.is_cancelled() {
            true => Ended::Asked,
            false => Ended::Panicked,
        })
    }

    pub(crate) async fn ask(&self, command: Command) -> Result<(), Stopped> {
        let sent = self.shared.commands.send(command).await;
        sent.map_err(|_| Stopped)
    }

    fn submit(
        &self,
        payload: Bytes,
        options: SendOptions,
        command: impl FnOnce(Outgoing) -> Command,
    ) -> PublishHandle {
        if is_reserved(&options.topic) {
            return PublishHandle::refused(SendError::ReservedTopic(options.topic));
        }
        let left = self.shared.left.fetch_sub(1, Ordering::Relaxed);
        let excused = Arc::default();
        self.submit_any(payload, options, Unasked { excused, left }, command)
    }

    /// Send a message on a reserved topic, to all members or to some.
    #[cfg(feature = "push")]
    pub(crate) fn publish_own(
        &self,
        payload: Bytes,
        options: SendOptions,
        to: Option<Vec<Destination>>,
        more: Unasked,
    ) -> PublishHandle {
        match to {
            None => self.submit_any(payload, options, more, Command::Publish),
            Some(to) => self.submit_any(payload, options, more, |outgoing| Command::Send {
                to,
                outgoing,
            }),
        }
    }

    /// The number of the next push.
    #[cfg(feature = "push")]
    pub(crate) fn next_push(&self) -> u64 {
        let pushes = &self.shared.pushes;
        pushes.fetch_add(1, Ordering::Relaxed)
    }

    /// The counters of pushes.
    #[cfg(feature = "push")]
    pub(crate) fn push_counts(&self) -> &PushCounts {
        &self.shared.push_counts
    }

    fn submit_any(
        &self,
        payload: Bytes,
        options: SendOptions,
        more: Unasked,
        command: impl FnOnce(Outgoing) -> Command,
    ) -> PublishHandle {
        let (size_bytes, max_bytes) = (payload.len(), self.shared.max_payload_bytes);
        if size_bytes > max_bytes {
            return PublishHandle::refused(SendError::TooLarge {
                size_bytes,
                max_bytes,
            });
        }
        let (reply, receipt) = oneshot::channel();
        let SendOptions {
            topic,
            due,
            confirmation,
            strategy,
            is_ordered,
        } = options;
        if confirmation != Confirmation::Relayed && due.time().is_none() {
            return PublishHandle::refused(SendError::NoTime);
        }
        let outgoing = Outgoing {
            topic,
            payload,
            strategy,
            due,
            confirmation,
            is_ordered,
            excused: more.excused,
            left: more.left,
            reply,
        };
        match self.shared.commands.try_send(command(outgoing)) {
            Ok(()) => PublishHandle(Outcome::Pending(receipt)),
            Err(mpsc::error::TrySendError::Full(_)) => PublishHandle::refused(SendError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => PublishHandle::refused(SendError::Stopped),
        }
    }
}

/// A topic, for publishing through a node.
#[derive(Debug, Clone)]
pub struct TopicHandle<'a> {
    node: &'a Node,
    topic: Topic,
}

impl TopicHandle<'_> {
    /// Send a message to all members. Dropping the handle cancels nothing.
    pub fn publish(&self, payload: impl Into<Bytes>) -> PublishHandle {
        let options = SendOptions {
            topic: self.topic.clone(),
            ..SendOptions::default()
        };
        self.node.publish(payload, options)
    }
}

/// A message on its way. Await it for its receipt; dropping it cancels nothing.
#[derive(Debug)]
#[must_use = "a refusal is only told to whoever awaits the handle"]
pub struct PublishHandle(Outcome);

#[derive(Debug)]
enum Outcome {
    Pending(oneshot::Receiver<Result<Receipt, SendError>>),
    Refused(Option<SendError>),
}

impl PublishHandle {
    fn refused(error: SendError) -> Self {
        Self(Outcome::Refused(Some(error)))
    }
}

impl Future for PublishHandle {
    type Output = Result<Receipt, SendError>;

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match &mut self.0 {
            Outcome::Pending(receipt) => Pin::new(receipt)
                .poll(context)
                .map(|outcome| outcome.unwrap_or(Err(SendError::Stopped))),
            Outcome::Refused(error) => {
                std::task::Poll::Ready(Err(error.take().unwrap_or(SendError::Stopped)))
            }
        }
    }
}

/// The node has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Stopped;

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

#[cfg(all(test, feature = "ca", feature = "admin"))]
pub(crate) mod tests;
