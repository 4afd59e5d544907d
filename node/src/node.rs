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
use crate::host::{Opened, Seat};
use crate::recorded::{Recorded, SharedRecorder, recording};
use crate::report::{NodeReport, PlacementView, Receipt, Reply};
use crate::scrape::Scrape;
use crate::settings::NodeConfig;
use crate::state::NodeState;
use crate::subscription::{
    Callback, Hold, Listener, Message, OrderMetrics, Room, Subscriber, Subscription, subscription,
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
    /// How many pushes there were.
    #[cfg(feature = "push")]
    pushes: AtomicU64,
    #[cfg(feature = "push")]
    push_counts: PushCounts,
    /// Counts down with each message: by `circulant` each goes down another tree.
    left: AtomicU32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What of a message users do not choose.
pub(crate) struct Unasked {
    /// Who is not waited for.
    pub(crate) excused: Arc<[String]>,
    /// How many blocks follow by `circulant`.
    pub(crate) left: u32,
}

impl Node {
    /// Start a node on the current tokio runtime. Its metrics go to the
    /// process's recorder, if there is one.
    ///
    /// A process with many nodes best has a runtime of one thread for each core, and starts
    /// each node within one of them: all tasks of a node then run on one thread.
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

    /// Run the loop that `open` makes of its seat.
    pub(crate) fn seated(
        config: NodeConfig,
        credentials: Credentials,
        state: NodeState,
        recorder: Option<SharedRecorder>,
        open: impl FnOnce(Seat) -> Result<Opened, StartError>,
    ) -> Result<Self, StartError> {
        let (name, id) = (config.name.clone(), credentials.identity.id());
        let boot = Arc::new(AtomicU64::new(state.boot));
        let max_payload_bytes = config.max_payload_bytes;
        let (commands, receiver) = mpsc::channel(QUEUE);
        let (placement_sender, placement) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let seat = Seat {
            config,
            credentials,
            state,
            boot: boot.clone(),
            commands: receiver,
            placement: placement_sender,
            stop: stop.clone(),
        };
        let opened = recording(recorder.as_ref(), || open(seat))?;
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

    /// Its configured name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its lasting identity.
    pub fn id(&self) -> PeerId {
        self.shared.id
    }

    /// The life of this process. It rises when the process begins another one: see
    /// `binomesh_overlay::lives`.
    pub fn boot(&self) -> u64 {
        self.shared.boot.load(Ordering::Relaxed)
    }

    /// The address that it tells others.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The longest payload that it accepts.
    pub fn max_payload_bytes(&self) -> usize {
        self.shared.max_payload_bytes
    }

    /// Wait until the node is ready in an epoch of at least `quorum` members: settled
    /// there, in the cluster's overlay rather than on an island.
    pub async fn ready(&self, quorum: u32) -> Result<PlacementView, Stopped> {
        let mut placement = self.placement();
        let there = |view: &Option<PlacementView>| {
            let view = view.as_ref();
            view.is_some_and(|view| view.settled && view.anchored && view.population >= quorum)
        };
        let found = placement.wait_for(there).await.map_err(|_| Stopped)?;
        found.clone().ok_or(Stopped)
    }

    /// Where the node stands, now and from now on; `None` while it has no place.
    pub fn placement(&self) -> watch::Receiver<Option<PlacementView>> {
        self.shared.placement.clone()
    }

    /// How the node sees itself and its neighbours.
    pub async fn report(&self) -> Result<NodeReport, Stopped> {
        let (reply, report) = oneshot::channel();
        self.ask(Command::Report { reply }).await?;
        report.await.map_err(|_| Stopped)
    }

    /// How the node stands at the time of a scrape, for an exporter to render.
    pub async fn scrape(&self) -> Result<Scrape, Stopped> {
        let (reply, scrape) = oneshot::channel();
        self.ask(Command::Scrape { reply }).await?;
        scrape.await.map_err(|_| Stopped)
    }

    /// Where metrics of the cluster's nodes are to be read: of the members, for a day of those
    /// that were lost, and of those that are expected, as far as this node knows.
    pub async fn targets(&self) -> Result<Vec<TargetGroup>, Stopped> {
        let (reply, targets) = oneshot::channel();
        self.ask(Command::Targets { reply }).await?;
        targets.await.map_err(|_| Stopped)
    }

    /// Send to some members. Dropping the handle cancels nothing.
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

    /// A topic to publish on.
    pub fn topic(&self, topic: Topic) -> TopicHandle<'_> {
        let node = self;
        TopicHandle { node, topic }
    }

    /// Send to all members. Dropping the handle cancels nothing.
    pub fn publish(&self, payload: impl Into<Bytes>, options: SendOptions) -> PublishHandle {
        self.submit(payload.into(), options, Command::Publish)
    }

    /// Answer a message that asks for it ([`crate::Message::confirmation`]). The first
    /// answer of a node counts. When this returns it is on its way.
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

    /// Receive matching messages; see [`Subscription`] for slow readers. When
    /// this returns, no later message is missed; and of what came to a node that was just
    /// started again, or was kept for it, before it had a subscriber, it has what it wants.
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
        self.subscribe_within(filter, Room::for_messages(capacity))
            .await
    }

    /// As [`Node::subscribe`], in order: what an origin has published with
    /// [`SendOptions::is_ordered`] comes in the order in which it did so on that topic and
    /// to those destinations, and what is missing is told where it is missing, as
    /// [`Received::Gap`](crate::Received::Gap). A message that comes after that is marked
    /// late. Others come as they come.
    pub async fn subscribe_ordered(
        &self,
        filter: TopicFilter,
        hold: Hold,
    ) -> Result<Subscription, SubscribeError> {
        let room = Room::for_messages(Subscription::DEFAULT_CAPACITY);
        let (subscription, metrics) = self.subscribe_counted(filter, room).await?;
        Ok(subscription.in_order(hold, metrics))
    }

    /// Have `call` called for each matching message, by the task that runs the node: no
    /// queue, and nobody to be woken. When this returns, no later message is missed, and
    /// it has been called for what waited for it, see [`Node::subscribe`]. It ends with the
    /// [`Listener`] or the node.
    ///
    /// Until it returns the node does nothing else, and does not stop either: it must be
    /// quick and wait for nothing. It must not hold a [`Node`], which would be kept alive
    /// by itself; what takes long, or answers, is for a task behind a channel, or for
    /// [`Node::subscribe`]. What takes 10 ms or more for the messages of a packet is counted
    /// (`binomesh_listener_slow_total`). One that panics is counted as well
    /// (`binomesh_listener_panics_total`) and not called again. Metrics that it records are
    /// the node's ([`Node::start_recorded`]).
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
        room: Room,
    ) -> Result<Subscription, SubscribeError> {
        let (subscription, _) = self.subscribe_counted(filter, room).await?;
        Ok(subscription)
    }

    async fn subscribe_counted(
        &self,
        filter: TopicFilter,
        room: Room,
    ) -> Result<(Subscription, OrderMetrics), SubscribeError> {
        let (subscriber, subscription) = subscription(filter, room);
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

    /// Leave the overlay: finish what is open for at most `drain`, tell the
    /// neighbours, and stop.
    pub async fn leave(&self, drain: Duration) -> Result<(), Stopped> {
        let (reply, left) = oneshot::channel();
        self.ask(Command::Leave { drain, reply }).await?;
        left.await.map_err(|_| Stopped)?;
        self.stopped().await;
        Ok(())
    }

    /// Stop at once, without a goodbye; the others find out by themselves.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.stopped().await;
    }

    /// Wait until the node has stopped, for whatever reason. From then on its
    /// state folder is free for another one.
    pub async fn stopped(&self) -> Ended {
        let mut ended = self.shared.ended.clone();
        let found = ended.wait_for(Option::is_some).await;
        let ended = found.ok().and_then(|ended| *ended);
        // Its task has gone without a word.
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

    /// Send on a topic of the nodes' own, to all members or some.
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

    /// Where it counts what is pushed.
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

/// A topic of a node.
#[derive(Debug, Clone)]
pub struct TopicHandle<'a> {
    node: &'a Node,
    topic: Topic,
}

impl TopicHandle<'_> {
    /// Send to all members. Dropping the handle cancels nothing.
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
    /// There are as many as a node holds.
    #[error("the node has as many subscribers as it holds; drop one first")]
    TooMany,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

#[cfg(all(test, feature = "ca", feature = "admin"))]
pub(crate) mod tests;
