//! The settings of one node: the fields of `node.toml`, also for library users.

mod bootstrap;
pub(crate) mod host_list;
mod inventory;
mod metrics;
mod routing;
#[cfg(feature = "ca")]
mod secret;
mod seed;
mod signatures;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use binomesh_overlay::quic::Location;
use serde::de::value::{Error, MapDeserializer};
use serde::{Deserialize, Serialize};

pub use binomesh_routing::strategy::{Choice as Strategy, UnknownStrategy};
pub use bootstrap::Bootstrap;
pub use inventory::{InvalidInventory, Inventory};
pub use routing::Router;
#[cfg(feature = "ca")]
pub use secret::SecretSource;
pub use seed::{InvalidName, InvalidSeed, Seed, check_name};
pub use signatures::Signatures;

/// The settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The node's name, as in its certificate.
    pub name: String,
    /// The address at which the node listens. Port 0 takes a free port.
    #[serde(default = "any_address")]
    pub bind: SocketAddr,
    /// The addresses that the node tells other nodes to dial; empty for the bound address. This
    /// node looks up DNS names among them again and again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<Location>,
    /// The parent in the deployment tree; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Seed>,
    /// The place to ask for among the parent's children, so that ranks do not depend on the order
    /// in which nodes start. Without it the node asks for the last place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Further nodes to dial when the parent cannot be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<Seed>,
    /// How the node finds its place: below `parent`, among `peers`, or in the graph of all
    /// `neighbours`.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// With `bootstrap = "clique"`: all nodes of the cluster, including this one, in the order of
    /// their future ranks. The node opens a link to each. At most [`NodeConfig::MAX_PEERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Seed>,
    /// With `bootstrap = "graph"`: the nodes that this one knows. The root is a node with one of
    /// the longest lists. At most [`NodeConfig::MAX_PEERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Seed>,
    /// With `peers` or `neighbours`: how long, in milliseconds, the node waits for a further answer
    /// before it goes on with the nodes that have answered. At most a minute.
    #[serde(default = "thousand")]
    pub meet_quiet_ms: u64,
    /// With `peers` or `neighbours`: how long the node waits for all answers together, in seconds.
    /// At most an hour.
    #[serde(default = "ten")]
    pub meet_seconds: u64,
    /// Whether this node forms a cluster by itself if neither its parent nor a seed answers for ten
    /// seconds. Otherwise it is not ready until it has met one of them.
    #[serde(default)]
    pub alone: bool,
    /// How often a node that has never had a place asks all its contacts for one before it becomes
    /// a root by itself, 1 to 16. The pauses between grow to five seconds, so 3 rounds take some
    /// five seconds, and 8 some twenty-five.
    #[serde(default = "eight")]
    pub patience_rounds: u32,
    /// The hosts that are expected to be members, such as `c[001-300],login-1`. Receipts of
    /// broadcasts name the ones that are not, and an overlay with more than half of them is the
    /// cluster.
    #[serde(default, skip_serializing_if = "Inventory::is_empty")]
    pub expect: Inventory,
    /// The node's certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// The private key of the node's certificate, PEM.
    pub key: PathBuf,
    /// The certificates of the cluster's authorities, PEM.
    pub ca: PathBuf,
    /// The revoked certificates, PEM or DER; if not given, `crl.pem` beside `ca`, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// Where the secret of the job is kept: a file of mode 0600, or `env:` and a variable. The
    /// node's certificate and its authority follow from it, in place of `certificate`, `key`, `ca`
    /// and `crl`.
    #[cfg(feature = "ca")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_secret: Option<SecretSource>,
    /// With `job_secret`: the id of the job, the same for all its nodes.
    #[cfg(feature = "ca")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The folder for the state that outlives the process: the node's secret, its boot and its
    /// record of votes.
    pub state_dir: PathBuf,
    /// How eagerly the node watches its neighbours.
    #[serde(default)]
    pub profile: Profile,
    /// How long a dead member's rank stays vacant, in seconds; at 0 the ranks
    /// are compacted at once. At most [`NodeConfig::MAX_GRACE_SECONDS`].
    #[serde(default = "thirty")]
    pub grace_seconds: u64,
    /// The most children of this node; further newcomers are redirected.
    #[serde(default = "sixteen")]
    pub max_children: u32,
    /// The router for messages of `send`, and for messages that go round dead members.
    #[serde(default)]
    pub router: Router,
    /// The number of children of a full node in the sibling tree, which some routers and the
    /// strategy `sibling-tree` use. At most [`NodeConfig::MAX_FANOUT`].
    #[serde(default = "two")]
    pub fanout: u32,
    /// Whether the node signs its messages, and whether it accepts unsigned messages of others.
    #[serde(default)]
    pub signatures: Signatures,
    /// Decides a merge of two trees of equal size: the tree whose priority is smaller wins.
    #[serde(default)]
    pub priority: u32,
    /// The longest payload that the node accepts, from its users and from other members.
    #[serde(default = "one_mebibyte")]
    pub max_payload_bytes: usize,
    /// The socket of the admin API; without it there is none. Read by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_socket: Option<PathBuf>,
    /// The address at which metrics are served: over plain HTTP on a loopback address, elsewhere
    /// with `metrics_tls` or `metrics_token_file`. Read by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// Serve metrics over TLS to clients with a certificate of `binomesh ca issue --monitor NAME`;
    /// a node's own certificate is not enough. Read by the daemon.
    #[serde(default)]
    pub metrics_tls: bool,
    /// Serve metrics over TLS to clients that send the token in this file, `Authorization: Bearer
    /// TOKEN`. A token has 16 to 4,096 visible characters, and other users must not be able to read
    /// the file. Read by the daemon, and again at SIGHUP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_token_file: Option<PathBuf>,
    /// Which log lines to write, such as `info,binomesh=debug`. Read by the daemon.
    #[serde(default = "info")]
    pub log: String,
    /// Write log lines as JSON. Read by the daemon.
    #[serde(default)]
    pub log_json: bool,
    /// The folder for files that members push; without it no files are taken. The folder is made if
    /// it does not exist. Read by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_dir: Option<PathBuf>,
    /// The threads that do the daemon's work, 1 to 64. With each further thread a busy daemon can
    /// use another core, but a quiet one has more wake-ups. With one thread the tasks of a node run
    /// one after the other, which costs least.
    #[serde(default = "one")]
    pub threads: usize,
    /// How long open messages may take to finish when the daemon is asked to stop.
    #[serde(default = "ten")]
    pub drain_seconds: u64,
    /// Leave when standard input closes, which means that the program that started the daemon has
    /// died.
    #[serde(default)]
    pub watch_stdin: bool,
    /// A planted bug, for tests that must detect it.
    #[cfg(feature = "planted")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted: Option<String>,
}

/// The most bytes of a job id, which is part of the trust domain.
#[cfg(feature = "ca")]
const MAX_JOB_ID: usize = 128;
#[cfg(feature = "ca")]
const JOB_ID: &str = "1 to 128 characters, the same for all nodes of the job, by --job-id; srun and \
                      mpirun set one";

/// The most addresses: as many as the transport remembers of a peer.
const MAX_ADDRESSES: usize = 4;

fn any_address() -> SocketAddr {
    SocketAddr::from(([0u16; 8], 0))
}

/// The default of `grace_seconds`, which is the overlay's own.
const fn thirty() -> u64 {
    30
}

/// The default of `meet_quiet_ms`: long enough for several round trips and handshakes.
const fn thousand() -> u64 {
    1_000
}

/// The default of `patience_rounds`, which is the overlay's own.
const fn eight() -> u32 {
    8
}

/// The default of `max_children`: at N = 2^16 a tree of this arity is four deep.
const fn sixteen() -> u32 {
    16
}

const fn one() -> usize {
    1
}

const fn two() -> u32 {
    2
}

/// A guess: large enough for commands and small files. Larger files are pushed in pieces.
const fn one_mebibyte() -> usize {
    1 << 20
}

fn info() -> String {
    "info".to_owned()
}

/// The default of `meet_seconds`, and of `drain_seconds`: a guess below the 90 s after which
/// service managers usually kill a process.
const fn ten() -> u64 {
    10
}

impl NodeConfig {
    /// The longest payload that any node of a cluster may be set to accept: every link takes frames
    /// of that length.
    pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;
    /// The most children that a node may have in the sibling tree (`fanout`). With more, a tree of
    /// thousands of members would be almost a star.
    pub const MAX_FANOUT: u32 = binomesh_routing::strategy::Strategy::MAX_FANOUT;
    /// The most worker threads of a daemon.
    pub const MAX_THREADS: usize = 64;
    /// The longest list of peers. A guess: a process can open that many links at once without harm.
    pub const MAX_PEERS: usize = 4_096;
    /// The longest grace: a week.
    pub const MAX_GRACE_SECONDS: u64 = 604_800;

    /// The defaults for a node `name` whose `node.pem`, `node.key` and `ca.pem`
    /// are in `credentials` and whose state is in `state_dir`.
    pub fn new(
        name: impl Into<String>,
        credentials: impl Into<PathBuf>,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        let credentials = credentials.into();
        let required = ["name", "certificate", "key", "ca", "state_dir"].map(|key| (key, ""));
        let required: MapDeserializer<'_, _, Error> = MapDeserializer::new(required.into_iter());
        let defaults = Self::deserialize(required).expect("every other setting has a default");
        Self {
            name: name.into(),
            certificate: credentials.join("node.pem"),
            key: credentials.join("node.key"),
            ca: credentials.join("ca.pem"),
            state_dir: state_dir.into(),
            ..defaults
        }
    }

    /// The defaults for a node `name` of a job, which has its credentials from the job's secret.
    #[cfg(feature = "ca")]
    pub fn of_job(
        name: impl Into<String>,
        secret: SecretSource,
        job_id: impl Into<String>,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            ca: PathBuf::new(),
            job_secret: Some(secret),
            job_id: Some(job_id.into()),
            ..Self::new(name, "", state_dir)
        }
    }

    /// Check that the settings are valid together; the error is the first setting that is not.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let invalid = |key, value: String, expected| {
            Err(InvalidSetting {
                key,
                value,
                expected,
            })
        };
        if let Err(error) = check_name(&self.name) {
            return invalid("name", format!("{:?}", self.name), error.expected);
        }
        if self.grace_seconds > Self::MAX_GRACE_SECONDS {
            let expected = "0 to 604800, which is a week";
            return invalid("grace_seconds", self.grace_seconds.to_string(), expected);
        }
        if !(1..=4096).contains(&self.max_children) {
            let expected = "1 to 4096";
            return invalid("max_children", self.max_children.to_string(), expected);
        }
        if !(1..=16).contains(&self.patience_rounds) {
            let value = self.patience_rounds.to_string();
            return invalid("patience_rounds", value, "1 to 16");
        }
        if !(2..=Self::MAX_FANOUT).contains(&self.fanout) {
            let expected = "2 to 1024";
            return invalid("fanout", self.fanout.to_string(), expected);
        }
        if !(1..=Self::MAX_PAYLOAD_BYTES).contains(&self.max_payload_bytes) {
            let value = self.max_payload_bytes.to_string();
            return invalid("max_payload_bytes", value, "1 to 16777216");
        }
        if !(1..=Self::MAX_THREADS).contains(&self.threads) {
            return invalid("threads", self.threads.to_string(), "1 to 64");
        }
        if self.advertise.len() > MAX_ADDRESSES {
            let expected = "at most 4 addresses";
            return invalid("advertise", self.advertise.len().to_string(), expected);
        }
        if let Some(address) = self.advertise.iter().find(|one| !one.is_dialable()) {
            let expected = "an address or name with a port that other nodes can reach";
            return invalid("advertise", address.to_string(), expected);
        }
        if let Some(address) = self.advertise.iter().find(|one| one.is_link_local()) {
            let expected = "a name, or an address that is the same on every host; a link-local \
                            address is only valid on one interface";
            return invalid("advertise", address.to_string(), expected);
        }
        #[cfg(feature = "planted")]
        if let Some(bug) = &self.planted
            && bug.parse::<binomesh_overlay::Bug>().is_err()
        {
            return invalid("planted", bug.clone(), "the name of a planted bug");
        }
        self.check_metrics()?;
        self.check_credentials()?;
        self.check_bootstrap()?;
        if let Some(parent) = self.parent.iter().find(|seed| seed.name == self.name) {
            return invalid("parent", parent.to_string(), "another node");
        }
        Ok(())
    }
}

impl NodeConfig {
    /// The settings that are paths, with their names: a relative path in a file is relative to the
    /// file.
    #[cfg(feature = "config")]
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        let secret = match &mut self.job_secret {
            Some(SecretSource::File(path)) => Some(path),
            _ => None,
        };
        let paths = [
            ("certificate", Some(&mut self.certificate)),
            ("key", Some(&mut self.key)),
            ("ca", Some(&mut self.ca)),
            ("state_dir", Some(&mut self.state_dir)),
            ("crl", self.crl.as_mut()),
            ("job_secret", secret),
            ("metrics_token_file", self.metrics_token_file.as_mut()),
            ("push_dir", self.push_dir.as_mut()),
            ("admin_socket", self.admin_socket.as_mut()),
        ];
        paths
            .into_iter()
            .filter_map(|(key, path)| Some((key, path?)))
    }

    /// The other nodes among `peers` and `neighbours`.
    pub fn listed(&self) -> impl Iterator<Item = &Seed> {
        let all = self.peers.iter().chain(&self.neighbours);
        all.filter(|seed| seed.name != self.name)
    }

    fn check_credentials(&self) -> Result<(), InvalidSetting> {
        let files = [
            ("certificate", Some(&self.certificate)),
            ("key", Some(&self.key)),
            ("ca", Some(&self.ca)),
            ("crl", self.crl.as_ref()),
        ];
        let named = |file: &&PathBuf| !file.as_os_str().is_empty();
        #[cfg(feature = "ca")]
        if self.job_secret.is_some() {
            let given = files
                .into_iter()
                .find_map(|(key, file)| Some((key, file.filter(named)?)));
            if let Some((key, file)) = given {
                let (value, expected) = (
                    file.display().to_string(),
                    "no file together with `job_secret`",
                );
                return Err(InvalidSetting {
                    key,
                    value,
                    expected,
                });
            }
            let id = self.job_id.as_deref().unwrap_or("");
            let is_id = (1..=MAX_JOB_ID).contains(&id.len()) && !id.chars().any(char::is_control);
            let (value, expected) = (format!("{id:?}"), JOB_ID);
            let wrong = InvalidSetting {
                key: "job_id",
                value,
                expected,
            };
            return if is_id { Ok(()) } else { Err(wrong) };
        }
        let missing = files
            .into_iter()
            .find(|(key, file)| *key != "crl" && file.filter(named).is_none());
        match missing {
            Some((key, _)) => Err(InvalidSetting {
                key,
                value: "empty".to_owned(),
                expected: "a file",
            }),
            None => Ok(()),
        }
    }

    fn check_bootstrap(&self) -> Result<(), InvalidSetting> {
        let invalid = |key, value: String, expected| {
            Err(InvalidSetting {
                key,
                value,
                expected,
            })
        };
        let is_clique = self.bootstrap == Bootstrap::Clique;
        let expected = match self.bootstrap {
            Bootstrap::Tree => None,
            Bootstrap::Clique => {
                Some("no parent with `bootstrap = \"clique\"`; list the node in `peers`")
            }
            Bootstrap::Graph => {
                Some("no parent with `bootstrap = \"graph\"`; list the node in `neighbours`")
            }
        };
        if let Some((parent, expected)) = self.parent.as_ref().zip(expected) {
            return invalid("parent", parent.to_string(), expected);
        }
        if is_clique && self.peers.is_empty() {
            let expected = "the nodes of the cluster, such as [\"node-0@10.0.0.1:7400\"], \
                            with `bootstrap = \"clique\"`";
            return invalid("peers", "[]".to_owned(), expected);
        }
        if !is_clique && !self.peers.is_empty() {
            let expected = "no peers without `bootstrap = \"clique\"`";
            return invalid(
                "peers",
                format!("a list of {} nodes", self.peers.len()),
                expected,
            );
        }
        if self.bootstrap != Bootstrap::Graph && !self.neighbours.is_empty() {
            let expected = "no neighbours without `bootstrap = \"graph\"`";
            let value = format!("a list of {} nodes", self.neighbours.len());
            return invalid("neighbours", value, expected);
        }
        for (key, list) in [("peers", &self.peers), ("neighbours", &self.neighbours)] {
            if list.len() > Self::MAX_PEERS {
                let value = format!("a list of {} nodes", list.len());
                let expected = "at most 4096 nodes: larger clusters need a tree";
                return invalid(key, value, expected);
            }
        }
        if !(1..=60_000).contains(&self.meet_quiet_ms) {
            return invalid(
                "meet_quiet_ms",
                self.meet_quiet_ms.to_string(),
                "1 to 60000",
            );
        }
        if !(1..=3_600).contains(&self.meet_seconds) {
            return invalid("meet_seconds", self.meet_seconds.to_string(), "1 to 3600");
        }
        Ok(())
    }
}

/// A setting with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; expected {expected}")]
pub struct InvalidSetting {
    /// The name of the setting.
    pub key: &'static str,
    /// The setting's value.
    pub value: String,
    /// The values that are allowed.
    pub expected: &'static str,
}

/// How eagerly a node watches its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// For the hosts of a data centre.
    #[default]
    Default,
    /// For tests and small clusters: notices deaths sooner, but costs more when idle.
    Fast,
    /// For many nodes on a host, or slow links: notices deaths later, but costs less when idle. A
    /// node gets its place a second after it has joined at the earliest, and up to 20 s later while
    /// other nodes still join.
    Quiet,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Fast => "fast",
            Self::Quiet => "quiet",
        })
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::Default, Self::Fast, Self::Quiet];
        let found = known.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| "expected default, fast or quiet".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_name_key_and_value() {
        let good = NodeConfig::new("node-1", "c", "s");
        assert_eq!(good.check(), Ok(()));
        let mut bad = Vec::new();
        let mut change = |key, edit: fn(&mut NodeConfig)| {
            let mut config = good.clone();
            edit(&mut config);
            bad.push((key, config));
        };
        change("name", |c| c.name = "a/b".into());
        change("grace_seconds", |c| c.grace_seconds = 604_801);
        change("max_children", |c| c.max_children = 0);
        change("patience_rounds", |c| c.patience_rounds = 0);
        change("patience_rounds", |c| c.patience_rounds = 17);
        change("fanout", |c| c.fanout = 1);
        change("fanout", |c| c.fanout = 1025);
        change("max_payload_bytes", |c| c.max_payload_bytes = 0);
        change("threads", |c| c.threads = 0);
        change("threads", |c| c.threads = 65);
        change("metrics", |c| c.metrics = "10.0.0.1:1".parse().ok());
        change("advertise", |c| {
            c.advertise = vec!["0.0.0.0:1".parse().unwrap()];
        });
        change("advertise", |c| {
            c.advertise = vec!["[fe80::1%2]:1".parse().unwrap()];
        });
        change("advertise", |c| {
            c.advertise = vec!["127.0.0.1:1".parse().unwrap(); 5];
        });
        change("parent", |c| c.parent = "node-1@127.0.0.1:1".parse().ok());
        let clique = |c: &mut NodeConfig| {
            c.bootstrap = Bootstrap::Clique;
            c.peers = vec!["node-2@127.0.0.1:2".parse().unwrap()];
        };
        change("peers", |c| c.bootstrap = Bootstrap::Clique);
        change("peers", |c| {
            c.peers = vec!["node-2@127.0.0.1:2".parse().unwrap()];
        });
        for (key, edit) in [
            (
                "parent",
                (|c| c.parent = "node-3@127.0.0.1:1".parse().ok()) as fn(&mut NodeConfig),
            ),
            ("peers", |c| c.peers = vec![c.peers[0].clone(); 4_097]),
            ("meet_quiet_ms", |c| c.meet_quiet_ms = 0),
            ("meet_seconds", |c| c.meet_seconds = 3_601),
        ] {
            let mut config = good.clone();
            clique(&mut config);
            assert_eq!(config.check(), Ok(()));
            edit(&mut config);
            bad.push((key, config));
        }
        let graph = |c: &mut NodeConfig| {
            c.bootstrap = Bootstrap::Graph;
            c.neighbours = vec!["node-2@127.0.0.1:2".parse().unwrap()];
        };
        for (key, edit) in [
            (
                "parent",
                (|c| c.parent = "node-3@127.0.0.1:1".parse().ok()) as fn(&mut NodeConfig),
            ),
            ("peers", |c| c.peers.clone_from(&c.neighbours)),
            ("neighbours", |c| c.bootstrap = Bootstrap::Tree),
            ("neighbours", |c| {
                c.neighbours = vec![c.neighbours[0].clone(); 4_097];
            }),
        ] {
            let mut config = good.clone();
            graph(&mut config);
            assert_eq!(config.check(), Ok(()));
            edit(&mut config);
            bad.push((key, config));
        }
        for (key, config) in bad {
            assert_eq!(config.check().unwrap_err().key, key);
        }
    }
}
