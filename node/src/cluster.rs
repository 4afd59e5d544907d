//! A local cluster of real processes, with a certificate authority that lives
//! only in this process's memory.
//!
//! ```text
//!   spawn ─▶ node-0 listens ─▶ its children listen ─▶ … level by level
//!             each binds a free port itself and tells it on standard output
//! ```
//!
//! So no port is chosen before somebody holds it. Every child has a pipe of ours
//! as standard input and leaves when that closes: no child outlives this process.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::certificate::{Authority, CertificateError, Validity};
use crate::client::{Client, Endpoint};
use crate::process::{Process, Signal};
use crate::settings::{NodeConfig, Profile, Seed};
use crate::shape::{Shape, widest};
use crate::state::replace;

/// The trust domain of ephemeral clusters.
const TRUST_DOMAIN: &str = "binomesh.local";

/// What to spawn.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// How many nodes.
    pub nodes: u32,
    /// Who starts below whom.
    pub shape: Shape,
    /// How eagerly they watch each other.
    pub profile: Profile,
    /// The program to run; this one if not given.
    pub binary: Option<PathBuf>,
    /// The log filter of the nodes.
    pub log: String,
    /// How long one process may take until it listens.
    pub start_timeout: Duration,
    /// A bug that the nodes are to have.
    #[cfg(feature = "planted")]
    pub planted: Option<String>,
}

impl ClusterConfig {
    /// The defaults for so many nodes.
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            shape: Shape::default(),
            profile: Profile::default(),
            binary: None,
            log: "info".to_owned(),
            // A guess: a loaded machine with a debug build.
            start_timeout: Duration::from_secs(30),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

/// A node of a local cluster, as `cluster.json` and `ready` name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its lasting identity in hexadecimal.
    pub id: String,
    /// Its process.
    pub pid: u32,
    /// The address that others dial.
    pub address: SocketAddr,
    /// Its admin API.
    pub admin_socket: PathBuf,
    /// Its metrics, such as `http://127.0.0.1:9464/metrics`.
    pub metrics_url: String,
}

impl Member {
    /// A client of its admin API.
    pub fn client(&self) -> Client {
        Client::new(Endpoint::Unix(self.admin_socket.clone()))
    }
}

/// The first line that `run` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listening {
    /// Always `listening`.
    pub event: String,
    /// Who listens where.
    #[serde(flatten)]
    pub member: Member,
}

/// What `cluster.json` holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Directory {
    /// The process that holds the cluster.
    pub pid: u32,
    /// Its nodes.
    pub nodes: Vec<Member>,
}

impl Directory {
    /// Read `cluster.json` in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ClusterError> {
        let path = dir.join("cluster.json");
        let text = fs::read(&path).map_err(|source| ClusterError::file("read", &path, source))?;
        let wrong = |error| ClusterError::file("understand", &path, io::Error::other(error));
        serde_json::from_slice(&text).map_err(wrong)
    }
}

/// A cluster did not start, or a node of it cannot be managed. Processes that
/// were started are stopped when the [`Cluster`] is dropped.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {source}", path = .path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A certificate was not made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A process ended before it listened.
    #[error("{node} ended before it listened; the end of its log:\n{log}")]
    Ended {
        /// Which.
        node: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process did not listen in time.
    #[error("{node} does not listen after {seconds} s; the end of its log:\n{log}")]
    Silent {
        /// Which.
        node: String,
        /// How long it was awaited.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// There is no such node.
    #[error("the cluster has no node {0}")]
    NoSuchNode(String),
}

impl ClusterError {
    fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File {
            doing,
            path,
            source,
        }
    }
}

/// A local cluster. Dropping it kills its processes and removes its folder.
pub struct Cluster {
    // Dropped in this order: first the processes, then their folder.
    slots: Vec<Slot>,
    config: ClusterConfig,
    authority: Authority,
    binary: PathBuf,
    max_children: u32,
    dir: tempfile::TempDir,
}

/// A node and its process; dead ones keep their place and address.
struct Slot {
    member: Member,
    process: Process,
}

impl Cluster {
    /// Start a cluster; returns when every process listens.
    pub async fn spawn(config: ClusterConfig) -> Result<Self, ClusterError> {
        let temp = std::env::temp_dir();
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
        // Three more, so that orphans of a killed node find a place above.
        let max_children = (widest(&parents) + 3).max(16);
        let mut cluster = Self {
            slots: Vec::with_capacity(parents.len()),
            config,
            authority: Authority::generate(TRUST_DOMAIN, Validity::days(7))?,
            binary,
            max_children,
            dir,
        };
        cluster.start_levels(&parents).await?;
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

    /// Write what node `number` needs in order to start.
    fn prepare(
        &self,
        number: usize,
        parent: Option<&Member>,
        bind: Option<SocketAddr>,
    ) -> Result<NodeConfig, ClusterError> {
        let name = format!("node-{number}");
        let home = self.dir.path().join(&name);
        if !home.exists() {
            let issued = self.authority.issue(&name, Validity::days(7))?;
            issued.save(&home, false)?;
        }
        let seed = |member: &Member| Seed {
            name: member.name.clone(),
            address: member.address,
        };
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = NodeConfig::new(name, &home, home.join("state"));
        config.bind = bind.unwrap_or(loopback);
        config.parent = parent.map(seed);
        config.slot = u32::try_from(number).ok();
        let others = self.live().filter(|member| Some(*member) != parent);
        config.seeds = others
            .filter(|other| other.name != config.name)
            .take(3)
            .map(seed)
            .collect();
        config.profile = self.config.profile;
        config.max_children = self.max_children;
        config.admin_socket = Some(home.join("admin.sock"));
        config.metrics = Some(loopback);
        config.log.clone_from(&self.config.log);
        config.watch_stdin = true;
        #[cfg(feature = "planted")]
        config.planted.clone_from(&self.config.planted);
        let path = home.join("node.toml");
        let text = toml::to_string(&config)
            .map_err(|error| ClusterError::file("write", &path, io::Error::other(error)))?;
        replace(&path, text.as_bytes())
            .map_err(|source| ClusterError::file("write", &path, source))?;
        Ok(config)
    }

    /// Start the process of a prepared node and wait until it listens.
    fn start(
        &self,
        config: NodeConfig,
    ) -> impl Future<Output = Result<Slot, ClusterError>> + Send + 'static {
        let home = self.dir.path().join(&config.name);
        let log = home.join("log");
        let mut command = tokio::process::Command::new(&self.binary);
        command
            .arg("run")
            .arg("--config")
            .arg(home.join("node.toml"));
        // Ctrl-C is for us; we then ask the children.
        command.process_group(0);
        // Our own settings are not the children's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BINOMESH_") {
                command.env_remove(name);
            }
        }
        let (node, limit) = (config.name, self.config.start_timeout);
        async move {
            let started = tokio::time::timeout(limit, Process::start(command, &log)).await;
            let Ok(started) = started else {
                let (seconds, log) = (limit.as_secs(), tail(&log));
                return Err(ClusterError::Silent { node, seconds, log });
            };
            let (process, line) =
                started.map_err(|source| ClusterError::file("start", &log, source))?;
            let said = line.and_then(|line| serde_json::from_str::<Listening>(&line).ok());
            match said {
                Some(Listening { member, .. }) => Ok(Slot { member, process }),
                None => {
                    let log = tail(&log);
                    Err(ClusterError::Ended { node, log })
                }
            }
        }
    }

    /// Where everything of this cluster is, for `--cluster`.
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

    /// SIGTERM a node and wait for its end; the exit code, if it exited.
    pub async fn terminate(&self, name: &str) -> Result<Option<i32>, ClusterError> {
        let process = &self.slot(name)?.process;
        process.signal(Signal::Terminate).await;
        Ok(process.wait().await.and_then(|status| status.code()))
    }

    /// Start a dead node again, with its address, identity and state, below the
    /// live node `parent`.
    pub async fn restart(&mut self, name: &str, parent: &str) -> Result<(), ClusterError> {
        let wanted = |slot: &Slot| slot.member.name == name;
        let number = self.slots.iter().position(wanted);
        let number = number.ok_or_else(|| ClusterError::NoSuchNode(name.to_owned()))?;
        self.kill(name).await?;
        let address = self.slot(name)?.member.address;
        let parent = self.slot(parent)?.member.clone();
        let config = self.prepare(number, Some(&parent), Some(address))?;
        let started = self.start(config).await?;
        if let Some(slot) = self.slots.get_mut(number) {
            *slot = started;
        }
        self.save()
    }

    /// Start one more node below the live node `parent`; its name.
    pub async fn join(&mut self, parent: &str) -> Result<String, ClusterError> {
        let parent = self.slot(parent)?.member.clone();
        let config = self.prepare(self.slots.len(), Some(&parent), None)?;
        let started = self.start(config).await?;
        let name = started.member.name.clone();
        self.slots.push(started);
        self.save()?;
        Ok(name)
    }

    /// Terminate all nodes, and kill those that take longer than `limit`.
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

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(10);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests;
