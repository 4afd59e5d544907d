//! Starts one node of a local cluster as a process, and waits until it listens.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use super::{Cluster, ClusterError, Listening, Member, Slot};
use crate::certificate::Validity;
use crate::process::Process;
use crate::settings::{Bootstrap, NodeConfig, Seed};
use crate::state::replace;

/// `setpriv` has the kernel kill the node's process when the thread that started it ends, which is
/// at the end of the runtime, and so of this process, at the latest.
const LEASH: [&str; 5] = ["--", "setpriv", "--pdeathsig", "KILL", "--"];

impl Cluster {
    /// Write the files that node `number` needs in order to start.
    pub(super) fn prepare(
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
            address: member.address.into(),
        };
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = NodeConfig::new(name, &home, home.join("state"));
        let place = self.config.places.get(number);
        config.bind = bind.unwrap_or(place.map_or(loopback, |place| place.bind));
        config.advertise = place
            .and_then(|place| place.advertise.map(Into::into))
            .into_iter()
            .collect();
        config.grace_seconds = self.config.grace_seconds;
        config.bootstrap = self.config.bootstrap;
        match config.bootstrap {
            Bootstrap::Tree => config.parent = parent.map(seed),
            Bootstrap::Clique => config.peers = self.list_of(number),
            Bootstrap::Graph => config.neighbours = self.list_of(number),
        }
        config.slot = u32::try_from(number).ok();
        let others = self.live().filter(|member| Some(*member) != parent);
        config.seeds = others
            .filter(|other| other.name != config.name)
            .take(3)
            .map(seed)
            .collect();
        config.expect.clone_from(&self.config.expect);
        config.profile = self.config.profile;
        config.router = self.config.router;
        config.fanout = self.config.fanout;
        config.signatures = self.config.signatures;
        config.max_children = self.max_children;
        config.admin_socket = Some(home.join("admin.sock"));
        config.push_dir = Some(home.join("files"));
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

    /// Names and addresses of all nodes, those that never start included. The ports are free again
    /// when this returns, until each node binds its own. Another process may take a port in
    /// between.
    pub(super) fn addresses(&self) -> Result<Vec<Seed>, ClusterError> {
        let count = self.config.nodes + self.config.absent;
        let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets: io::Result<Vec<UdpSocket>> = (0..count).map(bind).collect();
        let failed = |source| ClusterError::file("bind", Path::new("a port of 127.0.0.1"), source);
        let sockets = sockets.map_err(failed)?;
        let named = sockets.iter().enumerate().map(|(number, socket)| {
            let place = self.config.places.get(number);
            let address = match place {
                Some(place) => place.advertise.or(place.found_at).unwrap_or(place.bind),
                None => socket.local_addr()?,
            };
            let name = format!("node-{number}");
            let address = address.into();
            Ok(Seed { name, address })
        });
        named.collect::<io::Result<_>>().map_err(failed)
    }

    /// The nodes that node `number` lists.
    fn list_of(&self, number: usize) -> Vec<Seed> {
        let own = u32::try_from(number).ok();
        match own.and_then(|own| self.config.lists.get(&own)) {
            None => self.listed.clone(),
            Some(list) => {
                let listed = list.iter().filter_map(|one| self.listed.get(*one as usize));
                listed.cloned().collect()
            }
        }
    }

    /// Start the process of a prepared node and wait until it listens.
    pub(super) fn start(
        &self,
        config: NodeConfig,
    ) -> impl Future<Output = Result<Slot, ClusterError>> + Send + 'static {
        let home = self.dir.path().join(&config.name);
        let log = home.join("log");
        let binary = self.binary.clone();
        let number = config.slot.and_then(|slot| usize::try_from(slot).ok());
        let place = number.and_then(|number| self.config.places.get(number));
        let found_at = place.and_then(|place| place.found_at);
        let mut command = match place.and_then(|place| place.namespace.as_ref()) {
            None => tokio::process::Command::new(&binary),
            Some(namespace) => {
                let mut command = tokio::process::Command::new("nsenter");
                let mut option = OsString::from("--net=");
                option.push(namespace);
                command.arg(option).args(LEASH).arg(&binary);
                command
            }
        };
        command
            .arg("run")
            .arg("--config")
            .arg(home.join("node.toml"));
        // Ctrl-C in a terminal reaches only this process, which then asks its children to leave.
        command.process_group(0);
        // Children must not inherit settings that are meant for this process.
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
                started.map_err(|source| ClusterError::file("start", &binary, source))?;
            let said = line.and_then(|line| serde_json::from_str::<Listening>(&line).ok());
            match said {
                Some(Listening { mut member, .. }) => {
                    member.address = found_at.unwrap_or(member.address);
                    Ok(Slot { member, process })
                }
                None => {
                    let log = tail(&log);
                    Err(ClusterError::Ended { node, log })
                }
            }
        }
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(10);
    lines.get(from..).unwrap_or_default().join("\n")
}
