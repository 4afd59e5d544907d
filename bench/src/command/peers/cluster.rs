//! A cluster in this process: node 0 broadcasts with receipts, and a listener or a subscriber on
//! each other node takes the messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binomesh::verify::verify;
use binomesh::{Listener, Node, PublishHandle, Received, SendOptions, Subscription, TopicFilter};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::credentials::{CredentialsFolder, name};
use super::runtimes::Runtimes;
use crate::command::Failure;

/// The most messages without a receipt.
const WINDOW: usize = 4096;
/// The most messages that wait for a subscriber; further ones are left out.
const CAPACITY: usize = 65_536;

/// The pause before all nodes are asked for their tables again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A cluster in this process.
pub(in crate::command) struct Network {
    nodes: Vec<Node>,
    links: usize,
    arrivals: Arc<Arrivals>,
    missed: Arc<AtomicU64>,
    publisher: Publisher,
    tasks: JoinSet<()>,
    /// The listeners are called as long as they are held.
    listeners: Vec<Listener>,
    /// The runtimes are dropped last.
    runtimes: Runtimes,
}

impl Network {
    /// Start all nodes, each under its parent in a binary tree. Wait until each has settled among
    /// all, and all tables together are the binomial graph.
    pub(in crate::command) async fn form(
        home: &CredentialsFolder,
        window_bytes: usize,
        is_queued: bool,
    ) -> Result<Self, Failure> {
        let runtimes = Runtimes::start()?;
        let mut nodes: Vec<Node> = Vec::new();
        for node in 0..home.nodes() {
            let mut config = home.config(node);
            if let Some(above) = node.checked_sub(1).map(|before| before / 2) {
                let address = nodes[above as usize].address();
                let parent = format!("{}@{address}", name(above)).parse();
                config.parent = Some(parent.map_err(Failure::run)?);
            }
            let _inside = runtimes.of(node).enter();
            nodes.push(Node::start(config).map_err(Failure::run)?);
        }
        let arrivals = Arc::new(Arrivals::new());
        let missed = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let mut listeners = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            node.ready(home.nodes()).await.map_err(Failure::run)?;
            if number > 0 {
                let filter = TopicFilter::all();
                if is_queued {
                    let subscription = node.subscribe_bounded(filter, CAPACITY).await;
                    let subscription = subscription.map_err(Failure::run)?;
                    let taking = take(subscription, arrivals.clone(), missed.clone());
                    tasks.spawn_on(taking, runtimes.of(number as u32));
                } else {
                    let arrivals = arrivals.clone();
                    let listener = node.listen(filter, move |_| arrivals.add(1)).await;
                    listeners.push(listener.map_err(Failure::run)?);
                }
            }
        }
        let links = verified(&nodes).await?;
        Ok(Self {
            nodes,
            links,
            arrivals,
            missed,
            publisher: Publisher::new(window_bytes),
            tasks,
            listeners,
            runtimes,
        })
    }

    /// The nodes; the first one sends.
    pub(in crate::command) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The number of links among all nodes.
    pub(in crate::command) const fn links(&self) -> usize {
        self.links
    }

    pub(super) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Send a message as soon as few enough are without a receipt.
    pub(in crate::command) async fn send(&mut self, payload: Bytes) -> Result<(), Failure> {
        self.publisher.send(&self.nodes[0], payload).await
    }

    /// Wait until every message has its receipt. Fails if a broadcast did not reach all nodes, or a
    /// subscriber has missed messages.
    pub(in crate::command) async fn settle(&mut self) -> Result<(), Failure> {
        self.publisher.settle().await?;
        match self.missed.load(Ordering::Relaxed) {
            0 => Ok(()),
            missed => Err(Failure::Run(format!(
                "a subscriber read too slowly and missed {missed} messages"
            ))),
        }
    }

    /// Stop all nodes.
    pub(in crate::command) async fn stop(mut self) {
        for node in &self.nodes {
            node.shutdown().await;
        }
        self.listeners.clear();
        self.tasks.shutdown().await;
        drop(self.runtimes);
    }
}

/// A publisher, with its messages that have no receipt yet.
pub(super) struct Publisher {
    pending: VecDeque<PublishHandle>,
    /// The most bytes of the messages without a receipt; one message always fits.
    window_bytes: usize,
}

impl Publisher {
    /// A publisher without messages. At most [`WINDOW`] of its messages, and about this many bytes
    /// of them, may be without a receipt.
    pub(super) const fn new(window_bytes: usize) -> Self {
        Self {
            pending: VecDeque::new(),
            window_bytes,
        }
    }

    /// Send a message as soon as few enough are without a receipt.
    pub(super) async fn send(&mut self, node: &Node, payload: Bytes) -> Result<(), Failure> {
        let most = (self.window_bytes / payload.len().max(1)).clamp(1, WINDOW);
        while self.pending.len() >= most {
            self.await_receipt().await?;
        }
        let options = SendOptions {
            ..SendOptions::default()
        };
        self.pending.push_back(node.publish(payload, options));
        Ok(())
    }

    /// Wait until every message has its receipt.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        while !self.pending.is_empty() {
            self.await_receipt().await?;
        }
        Ok(())
    }

    async fn await_receipt(&mut self) -> Result<(), Failure> {
        let Some(oldest) = self.pending.pop_front() else {
            return Ok(());
        };
        let receipt = oldest.await.map_err(Failure::run)?;
        match receipt.reached_count == receipt.expected_count {
            true => Ok(()),
            false => Err(Failure::Run(format!(
                "a broadcast did not reach all nodes: {:?}",
                receipt.unreached
            ))),
        }
    }
}

/// Ask all nodes until their answers are the exact graph. Returns the number of links.
async fn verified(nodes: &[Node]) -> Result<usize, Failure> {
    let expected = u32::try_from(nodes.len()).map_err(Failure::run)?;
    loop {
        let mut reports = Vec::new();
        for node in nodes {
            reports.push(node.report().await.map_err(Failure::run)?);
        }
        match verify(&reports, expected) {
            Ok(_) => {
                let ends: usize = reports.iter().map(|report| report.links.len()).sum();
                return Ok(ends / 2);
            }
            // A node is about to dial. The time limit of the run ends this loop.
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}

async fn take(mut from: Subscription, arrivals: Arc<Arrivals>, missed: Arc<AtomicU64>) {
    while let Some(received) = from.next().await {
        match received {
            Received::Message(_) => arrivals.add(1),
            Received::Missed(count) => {
                missed.fetch_add(count, Ordering::Relaxed);
                arrivals.add(count);
            }
            Received::Gap(_) => {}
        }
    }
}
