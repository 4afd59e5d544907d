//! A local cluster of real processes, with a certificate authority that lives only in this
//! process's memory.
//!
//! ```text
//!   spawn ─▶ node-0 listens ─▶ its children listen ─▶ … level by level
//!             each binds a free port itself and tells it on standard output
//! ```
//!
//! So with a tree no port is chosen before a process holds it; the lists of nodes without a tree
//! need addresses beforehand. Every node's process has a pipe of this process as standard input and
//! leaves when the pipe closes: no node outlives this process for long.

mod error;
mod launch;
mod member;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::certificate::{Authority, Validity};
use crate::process::{Process, Signal};
use crate::settings::{Bootstrap, Inventory, Profile, Router, Seed, Signatures};
use crate::shape::{Shape, widest};
use crate::state::replace;
pub use error::ClusterError;
pub use member::{Directory, Listening, Member};

/// The trust domain of ephemeral clusters.
const TRUST_DOMAIN: &str = "binomesh.local";

/// The cluster that [`Cluster::spawn`] starts.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The number of nodes.
    pub nodes: u32,
    /// How the nodes find their places in the tree.
    pub bootstrap: Bootstrap,
    /// With [`Bootstrap::Tree`]: the shape of the tree, which gives each node its parent.
    pub shape: Shape,
    /// Without a tree: the numbers of the nodes that a node lists, in order. A node without an
    /// entry lists all nodes. Numbers from `nodes` on belong to nodes that never start.
    pub lists: BTreeMap<u32, Vec<u32>>,
    /// Without a tree: the number of listed nodes that never start.
    pub absent: u32,
    /// How often the nodes beat, and so how soon they notice a death.
    pub profile: Profile,
    /// How long a dead node's rank stays vacant.
    pub grace_seconds: u64,
    /// The hosts that every node expects to be members.
    pub expect: Inventory,
    /// The router of the nodes, which picks the way of their messages.
    pub router: Router,
    /// The number of children of a full node in the sibling tree.
    pub fanout: u32,
    /// Whether the nodes sign their messages.
    pub signatures: Signatures,
    /// Where each node listens, by its number; a node without an entry takes a free port.
    pub places: Vec<Place>,
    /// The program to run; this one if not given.
    pub binary: Option<PathBuf>,
    /// Where the cluster makes its own folder; the system's temporary folder if not given.
    pub folder: Option<PathBuf>,
    /// The log filter of the nodes.
    pub log: String,
    /// The time within which a process has to listen, or the start fails.
    pub start_timeout: Duration,
    /// The planted bug that the nodes run with, for tests of the checks.
    #[cfg(feature = "planted")]
    pub planted: Option<String>,
}

impl ClusterConfig {
    /// The defaults for `nodes` nodes.
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            bootstrap: Bootstrap::Tree,
            shape: Shape::default(),
            lists: BTreeMap::new(),
            absent: 0,
            profile: Profile::default(),
            grace_seconds: 0,
            expect: Inventory::default(),
            router: Router::default(),
            fanout: 2,
            signatures: Signatures::default(),
            places: Vec::new(),
            binary: None,
            folder: None,
            log: "info".to_owned(),
            // A guess, for a loaded machine and a debug build: with less, a slow start counts as
            // failed.
            start_timeout: Duration::from_secs(30),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

/// The addresses and the namespace of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The address that it binds.
    pub bind: SocketAddr,
    /// The address that the node tells other nodes, if it differs from `bind`.
    pub advertise: Option<SocketAddr>,
    /// The address that the settings of other nodes give for it, if that is another one; in lists
    /// `advertise` goes first. A node that binds all addresses of its host has no single address in
    /// `bind`.
    pub found_at: Option<SocketAddr>,
    /// The network namespace of its process, such as `/proc/PID/ns/net`; this process's own if not
    /// given. The process is started there by `nsenter` and `setpriv` (util-linux). A process in
    /// another namespace is killed at once when this process dies, since its network may be gone by
    /// then and it could not say goodbye.
    pub namespace: Option<PathBuf>,
}

/// A local cluster. Dropping it kills its processes and removes its folder.
pub struct Cluster {
    // Fields are dropped in this order: first the processes, then the folder that they use.
    slots: Vec<Slot>,
    config: ClusterConfig,
    authority: Authority,
    binary: PathBuf,
    max_children: u32,
    /// Without a tree: all nodes by number; nodes that never start come last.
    listed: Vec<Seed>,
    dir: tempfile::TempDir,
}

/// A node and its process. A dead node keeps its slot and address, so it can be restarted.
struct Slot {
    member: Member,
    process: Process,
}

impl Cluster {
    /// Start a cluster; returns when every process listens.
    pub async fn spawn(config: ClusterConfig) -> Result<Self, ClusterError> {
        let temp = config.folder.clone().unwrap_or_else(std::env::temp_dir);
        let failed = |source| ClusterError::file("make a folder in", &temp, source);
        let dir = tempfile::Builder::new()
            .prefix("binomesh-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&temp)
            .map_err(failed)?;
        let binary = match &config.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()
                .map_err(|source| ClusterError::file("find", Path::new("this program"), source))?,
        };
        let parents = config.shape.parents(config.nodes);
        // Three more than needed, so that orphans of a killed node find room at another parent.
        let max_children = (widest(&parents) + 3).max(16);
        let mut cluster = Self {
            slots: Vec::with_capacity(parents.len()),
            config,
            authority: Authority::generate(TRUST_DOMAIN, Validity::days(7))?,
            binary,
            max_children,
            listed: Vec::new(),
            dir,
        };
        match cluster.config.bootstrap {
            Bootstrap::Tree => cluster.start_levels(&parents).await?,
            Bootstrap::Clique | Bootstrap::Graph => cluster.start_all().await?,
        }
        cluster.save()?;
        Ok(cluster)
    }

    async fn start_levels(&mut self, parents: &[Option<u32>]) -> Result<(), ClusterError> {
        let mut depths: Vec<u32> = Vec::with_capacity(parents.len());
        for parent in parents {
            let above = parent.and_then(|parent| depths.get(parent as usize).copied());
            depths.push(above.map_or(0, |above| above + 1));
        }
        let mut slots: Vec<Option<Slot>> = parents.iter().map(|_| None).collect();
        for depth in 0..=depths.iter().copied().max().unwrap_or(0) {
            let mut starting = JoinSet::new();
            for (number, parent) in parents.iter().enumerate() {
                if depths.get(number) != Some(&depth) {
                    continue;
                }
                let parent = parent.and_then(|parent| slots.get(parent as usize)?.as_ref());
                let config = self.prepare(number, parent.map(|slot| &slot.member), None)?;
                let start = self.start(config);
                starting.spawn(async move { (number, start.await) });
            }
            while let Some(joined) = starting.join_next().await {
                let Ok((number, started)) = joined else {
                    continue;
                };
                if let Some(slot) = slots.get_mut(number) {
                    *slot = Some(started?);
                }
            }
        }
        self.slots = slots.into_iter().flatten().collect();
        Ok(())
    }

    /// Start all nodes at once, each with its list.
    async fn start_all(&mut self) -> Result<(), ClusterError> {
        self.listed = self.addresses()?;
        let mut starting = JoinSet::new();
        for number in 0..self.config.nodes as usize {
            let reserved = self
                .listed
                .get(number)
                .and_then(|seed| seed.address.address());
            // A node with a place binds what its place says. The list has the address that others
            // dial.
            let bind = reserved.filter(|_| self.config.places.get(number).is_none());
            let config = self.prepare(number, None, bind)?;
            let start = self.start(config);
            starting.spawn(async move { (number, start.await) });
        }
        let mut slots = BTreeMap::new();
        while let Some(joined) = starting.join_next().await {
            if let Ok((number, started)) = joined {
                slots.insert(number, started?);
            }
        }
        self.slots = slots.into_values().collect();
        Ok(())
    }

    /// The folder with all files of this cluster, for `--cluster`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The authority, for certificates of further nodes.
    pub const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// All nodes that were started, dead ones too.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.slots.iter().map(|slot| &slot.member)
    }

    /// The nodes whose processes run.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        let running = self
            .slots
            .iter()
            .filter(|slot| slot.process.exit_status().is_none());
        running.map(|slot| &slot.member)
    }

    /// The log of a node.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name).join("log")
    }

    /// SIGKILL a node and wait for its end.
    pub async fn kill(&self, name: &str) -> Result<(), ClusterError> {
        let process = &self.slot(name)?.process;
        process.signal(Signal::Kill).await;
        process.wait().await;
        Ok(())
    }

    /// SIGKILL several nodes at once and wait for their end.
    pub async fn kill_all(&self, names: &[String]) -> Result<(), ClusterError> {
        let slots: Result<Vec<&Slot>, _> = names.iter().map(|name| self.slot(name)).collect();
        let slots = slots?;
        for slot in &slots {
            slot.process.signal(Signal::Kill).await;
        }
        for slot in slots {
            slot.process.wait().await;
        }
        Ok(())
    }

    /// SIGSTOP a node: it does nothing until [`Cluster::resume`].
    pub async fn pause(&self, name: &str) -> Result<(), ClusterError> {
        self.slot(name)?.process.signal(Signal::Pause).await;
        Ok(())
    }

    /// SIGCONT a node.
    pub async fn resume(&self, name: &str) -> Result<(), ClusterError> {
        self.slot(name)?.process.signal(Signal::Resume).await;
        Ok(())
    }

    /// SIGTERM a node and wait for its end; the exit code, if it exited.
    pub async fn terminate(&self, name: &str) -> Result<Option<i32>, ClusterError> {
        let process = &self.slot(name)?.process;
        process.signal(Signal::Terminate).await;
        Ok(process.wait().await.and_then(|status| status.code()))
    }

    /// Start a node again, with its address, identity and state, below the live node `parent`. A
    /// node that still runs is killed first.
    pub async fn restart(&mut self, name: &str, parent: &str) -> Result<(), ClusterError> {
        let wanted = |slot: &Slot| slot.member.name == name;
        let number = self.slots.iter().position(wanted);
        let number = number.ok_or_else(|| ClusterError::NoSuchNode(name.to_owned()))?;
        self.kill(name).await?;
        // A node with a place binds the place's address again: `member.address` is the address for
        // other nodes, which may differ.
        let address = self.config.places.get(number).map(|place| place.bind);
        let address = address.unwrap_or(self.slot(name)?.member.address);
        let parent = self.slot(parent)?.member.clone();
        let config = self.prepare(number, Some(&parent), Some(address))?;
        let started = self.start(config).await?;
        if let Some(slot) = self.slots.get_mut(number) {
            *slot = started;
        }
        self.save()
    }

    /// Start one more node below the live node `parent`, and return its name.
    pub async fn join(&mut self, parent: &str) -> Result<String, ClusterError> {
        let parent = self.slot(parent)?.member.clone();
        let config = self.prepare(self.slots.len(), Some(&parent), None)?;
        let started = self.start(config).await?;
        let name = started.member.name.clone();
        self.slots.push(started);
        self.save()?;
        Ok(name)
    }

    /// Terminate all nodes, and kill the nodes that still run after `limit`.
    pub async fn shutdown(self, limit: Duration) {
        for slot in &self.slots {
            slot.process.signal(Signal::Terminate).await;
        }
        let all = async {
            for slot in &self.slots {
                slot.process.wait().await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            for slot in &self.slots {
                slot.process.signal(Signal::Kill).await;
                slot.process.wait().await;
            }
        }
    }

    fn slot(&self, name: &str) -> Result<&Slot, ClusterError> {
        let mut slots = self.slots.iter();
        let found = slots.find(|slot| slot.member.name == name);
        found.ok_or_else(|| ClusterError::NoSuchNode(name.to_owned()))
    }

    fn save(&self) -> Result<(), ClusterError> {
        let path = self.dir.path().join("cluster.json");
        let directory = Directory {
            pid: std::process::id(),
            nodes: self.members().cloned().collect(),
        };
        let text = serde_json::to_vec(&directory).map_err(io::Error::other);
        text.and_then(|text| replace(&path, &text))
            .map_err(|source| ClusterError::file("write", &path, source))
    }
}

#[cfg(test)]
mod tests;
