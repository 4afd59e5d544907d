//! One node of either kind, alone in its process.

use std::net::SocketAddr;
use std::sync::Arc;

use binomesh::{Listener, Node, NodeReport, TopicFilter};
use binomesh_overlay::quic::bare::Bare;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::credentials::{CredentialsFolder, name};
use super::super::{bare, cluster};
use super::log::Log;
use crate::command::Failure;

/// A node of either kind.
pub(super) enum Member {
    /// A member of a cluster.
    Ours(Ours),
    /// A node of a star or a tree of bare connections.
    Bare(BareNode),
}

/// A member of a cluster.
pub(super) struct Ours {
    node: Node,
    nodes: u32,
    publisher: cluster::Publisher,
    /// Dropping the listener ends its calls.
    listener: Option<Listener>,
}

/// A node of a star or a tree of bare connections.
pub(super) struct BareNode {
    endpoint: Bare,
    parent: Option<SocketAddr>,
    children: u32,
    /// The queue of node 0, once it has joined.
    queue: Option<mpsc::Sender<Bytes>>,
    tasks: JoinSet<()>,
}

impl Member {
    /// Start a node of ours under its parent in a binary tree.
    pub(super) fn ours(
        home: &CredentialsFolder,
        node: u32,
        parent: Option<SocketAddr>,
        window_bytes: usize,
    ) -> Result<Self, Failure> {
        let mut config = home.config(node);
        if let Some(address) = parent {
            let above = name(node.saturating_sub(1) / 2);
            let parent = format!("{above}@{address}").parse();
            config.parent = Some(parent.map_err(Failure::run)?);
        }
        Ok(Self::Ours(Ours {
            node: Node::start(config).map_err(Failure::run)?,
            nodes: home.nodes(),
            publisher: cluster::Publisher::new(window_bytes),
            listener: None,
        }))
    }

    /// Bind a bare endpoint.
    pub(super) fn bare(
        home: &CredentialsFolder,
        node: u32,
        parent: Option<SocketAddr>,
        children: u32,
    ) -> Result<Self, Failure> {
        let any = ([127, 0, 0, 1], 0).into();
        let endpoint = Bare::bind(any, &home.identity(node)?, &home.limits());
        Ok(Self::Bare(BareNode {
            endpoint: endpoint.map_err(Failure::run)?,
            parent,
            children,
            queue: None,
            tasks: JoinSet::new(),
        }))
    }

    /// The address at which the node listens.
    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        match self {
            Self::Ours(ours) => Ok(ours.node.address()),
            Self::Bare(bare) => bare.endpoint.address().map_err(Failure::run),
        }
    }

    /// Wait until the connections of the node stand. Messages from then on are logged.
    pub(super) async fn join(&mut self, log: &Arc<Log>) -> Result<(), Failure> {
        match self {
            Self::Ours(ours) => ours.join(log.clone()).await,
            Self::Bare(bare) => bare.join(log.clone()).await,
        }
    }

    /// The cluster as a node of ours sees it.
    pub(super) async fn report(&self) -> Result<NodeReport, Failure> {
        match self {
            Self::Ours(ours) => ours.node.report().await.map_err(Failure::run),
            Self::Bare(_) => Err(Failure::run("a bare QUIC node has no report")),
        }
    }

    /// Send a message to all nodes as soon as there is room.
    pub(super) async fn send(&mut self, payload: Bytes) -> Result<(), Failure> {
        match self {
            Self::Ours(ours) => ours.publisher.send(&ours.node, payload).await,
            Self::Bare(bare) => {
                let queue = bare.queue.as_ref();
                let queue = queue
                    .ok_or_else(|| Failure::run("only node 0 can send, since it is the root"))?;
                let sent = queue.send(payload).await;
                sent.map_err(|_| Failure::run("the connection to a bare QUIC node has broken"))
            }
        }
    }

    /// Wait until every message has its receipt, if the system has receipts.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        match self {
            Self::Ours(ours) => ours.publisher.settle().await,
            Self::Bare(_) => Ok(()),
        }
    }

    /// Close all connections.
    pub(super) async fn stop(&mut self) {
        match self {
            Self::Ours(ours) => {
                ours.listener = None;
                ours.node.shutdown().await;
            }
            Self::Bare(bare) => {
                bare.tasks.shutdown().await;
                bare.endpoint.close().await;
            }
        }
    }
}

impl Ours {
    async fn join(&mut self, log: Arc<Log>) -> Result<(), Failure> {
        self.node.ready(self.nodes).await.map_err(Failure::run)?;
        let listener = self.node.listen(TopicFilter::all(), move |_| log.add(1));
        self.listener = Some(listener.await.map_err(Failure::run)?);
        Ok(())
    }
}

impl BareNode {
    async fn join(&mut self, log: Arc<Log>) -> Result<(), Failure> {
        let (above, below) = tokio::try_join!(
            async {
                let Some(parent) = self.parent else {
                    return Ok(None);
                };
                let dialled = self.endpoint.dial(parent).await;
                dialled.map(Some).map_err(Failure::run)
            },
            bare::accept(&self.endpoint, self.children),
        )?;
        match above {
            Some(above) => {
                let arrived = move |messages| log.add(messages);
                self.tasks.spawn(bare::relay(above, below, arrived));
            }
            None => {
                let (queue, source) = mpsc::channel(bare::BATCH);
                self.queue = Some(queue);
                self.tasks.spawn(bare::send(source, below));
            }
        }
        Ok(())
    }
}
