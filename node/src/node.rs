//! The handle of a node: what a program does with it.

mod publishing;
mod subscribing;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::PeerId;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "push")]
use crate::catalogue::pushes::PushCounts;
pub use crate::command::RenewError;
use crate::command::{Command, QUEUE};
use crate::credentials::Credentials;
pub use crate::host::{Ended, StartError};
use crate::host::{LoopContext, ReadyLoop};
use crate::recorder::{Recorded, SharedRecorder, recording};
use crate::report::{NodeReport, PlacementView};
use crate::scrape::Scrape;
use crate::settings::NodeConfig;
use crate::state::NodeState;
use crate::targets::TargetGroup;
#[cfg(feature = "push")]
pub(crate) use publishing::Unasked;
pub use publishing::{PublishHandle, TopicHandle};
pub use subscribing::SubscribeError;

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
}

/// The node has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Stopped;

#[cfg(all(test, feature = "ca", feature = "admin"))]
pub(crate) mod tests;
