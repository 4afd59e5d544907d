//! From a launcher's environment and the flags of `run` to a node's settings.

use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use crate::config::Layer;
use crate::launch::{self, Environment, Launcher, NODES_MAX, PORT, Placement, Request, family};
use crate::settings::{Bootstrap, NodeConfig, SecretSource, Seed};
use crate::shape::Shape;

/// The most bytes of a host file. A guess: 65,536 lines of 256 bytes.
const HOSTFILE_BYTES_MAX: u64 = 16 << 20;

/// Parse a port. Kubernetes sets `BINOMESH_PORT` to an address if there is a Service called
/// `binomesh`; such a value is no port of the nodes and is ignored.
fn port(text: &str) -> Result<u16, String> {
    if text.contains("://") {
        return Ok(PORT);
    }
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("{text:?} is not a port; give 1 to 65535"))
}

/// The place of the node among the nodes that were started with it.
#[derive(Debug, Args)]
#[command(next_help_heading = "A node among others, without a settings file")]
pub(super) struct LaunchFlags {
    /// The launcher that started the nodes and tells each node its place: auto, slurm, mpi,
    /// kubernetes, or hosts:LIST with this host in the list. Auto is the default if a list of nodes
    /// is given.
    #[arg(long, env = "BINOMESH_LAUNCH", value_name = "LAUNCHER")]
    pub(super) launch: Option<Launcher>,
    /// The nodes that each node knows at its start: with tree its parent, which follows from the
    /// shape unless the settings file names another one; with clique all nodes.
    #[arg(long)]
    pub(super) bootstrap: Option<Bootstrap>,
    /// The shape of the deployment tree: binomial, which is the default, binary (with --fanout) or
    /// flat.
    #[arg(long, env = "BINOMESH_SHAPE")]
    pub(super) shape: Option<Shape>,
    /// The place of this node in the list, from 0.
    #[arg(long, value_name = "I")]
    pub(super) ordinal: Option<u32>,
    /// The list of all nodes: a folded list such as c[001-128,200], or one entry in which {} stands
    /// for the ordinal. An entry is [NAME@]HOST[:PORT].
    #[arg(long, env = "BINOMESH_PEERS", value_name = "LIST")]
    pub(super) peers: Option<String>,
    /// The number of nodes, for a list with {}.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub(super) size: Option<u32>,
    /// A file in the format of mpirun: each line has a host, and with `slots=N` its number of
    /// nodes.
    #[arg(long, env = "BINOMESH_HOSTFILE", value_name = "FILE")]
    pub(super) hostfile: Option<PathBuf>,
    /// The port of the first node of each host. The next nodes of the host have the next ports.
    #[arg(long, env = "BINOMESH_PORT", default_value_t = PORT, value_parser = port)]
    pub(super) port: u16,
    /// Listen only at the address that the list has for this node, rather than at all addresses of
    /// the host.
    #[arg(long, conflicts_with = "bind")]
    pub(super) bind_own: bool,
    /// The folder with node.pem, node.key and ca.pem, or with such a folder for each node, called
    /// by the name of the node.
    #[arg(long, env = "BINOMESH_CREDENTIALS", value_name = "DIR")]
    pub(super) credentials: Option<PathBuf>,
    /// The secret of the job, instead of credentials: its file, or env:NAME with the name of an
    /// environment variable. `binomesh ca job-secret` makes a secret. Every process that has the
    /// secret is a member.
    #[arg(long, value_name = "FILE|env:NAME", conflicts_with = "credentials")]
    pub(super) job_secret: Option<SecretSource>,
    /// The name of the job, the same for all its nodes. With srun and mpirun the default is their
    /// own id of the job.
    #[arg(long, value_name = "ID")]
    pub(super) job_id: Option<String>,
}

impl LaunchFlags {
    /// The place of this process among the nodes of a launcher; `None` if the flags name neither a
    /// launcher nor a list of nodes.
    pub(super) fn placement(&self) -> Result<Option<Placement>, Failure> {
        let is_listed = self.launch.is_some() || self.peers.is_some() || self.hostfile.is_some();
        match self.bootstrap.filter(|_| !is_listed) {
            Some(Bootstrap::Clique) => {
                return Err(Failure::usage(
                    "flag --bootstrap: is clique, but no list of nodes is given; give --peers or \
                     --hostfile, or set `bootstrap` and `peers` in the settings file",
                ));
            }
            Some(Bootstrap::Graph) => {
                return Err(Failure::usage(
                    "flag --bootstrap: is graph, which only the settings file can choose; set \
                     `bootstrap` and `neighbours` in the file",
                ));
            }
            Some(Bootstrap::Tree) | None => {}
        }
        if !is_listed {
            return match self.ordinal {
                Some(ordinal) => Err(Failure::usage(format!(
                    "flag --ordinal: is {ordinal}, but no list of nodes is given; give --peers or \
                     --hostfile"
                ))),
                None => Ok(None),
            };
        }
        let hostfile = match &self.hostfile {
            Some(path) => Some(hosts_in(path)?),
            None => None,
        };
        let request = Request {
            launcher: self.launch.clone().unwrap_or_default(),
            ordinal: self.ordinal,
            size: self.size,
            peers: self.peers.clone(),
            hostfile,
            port: self.port,
        };
        let placement = launch::place(&environment(), &request).map_err(Failure::usage)?;
        Ok(Some(placement))
    }

    /// The settings that follow from a place. `fanout` is the number of children in the shape
    /// `binary`.
    pub(super) fn placed(
        &self,
        placement: &Placement,
        bootstrap: Bootstrap,
        fanout: Option<u32>,
    ) -> Result<Layer, Failure> {
        let shape = match shaped(self.shape, bootstrap)? {
            Shape::Balanced { .. } => Shape::Balanced {
                fanout: fanout.unwrap_or(2),
            },
            Shape::Random { .. } => {
                return Err(Failure::usage(
                    "flag --shape: is random, but each node would draw another tree; give \
                     binomial, binary or flat",
                ));
            }
            other => other,
        };
        let me = placement.me();
        let bind = match self.bind_own {
            true => own_address(&me.address.to_string())?,
            false => SocketAddr::from(([0_u16; 8], me.address.port())),
        };
        let own = [
            ("name", Some(me.name.clone())),
            ("bind", Some(bind.to_string())),
            ("bootstrap", Some(bootstrap.to_string())),
        ];
        let others = match bootstrap {
            Bootstrap::Clique => vec![("peers", Some(list(&placement.peers)))],
            Bootstrap::Graph => {
                return Err(Failure::usage(
                    "`bootstrap` is graph, but the flags give one list for all nodes; give \
                     --bootstrap tree or clique, or leave out the list and set `neighbours` in \
                     the settings file",
                ));
            }
            Bootstrap::Tree => in_tree(placement, shape),
        };
        Ok(Layer::placed(own.into_iter().chain(others)))
    }

    /// The defaults of a node with a place. Unless the node `has_folder` from other settings, these
    /// include a folder of its own for its state and its admin socket.
    pub(super) fn defaults(placement: &Placement, has_folder: bool) -> Result<Layer, Failure> {
        let mut values = vec![("job_id", launch::job_id(&environment()))];
        if !has_folder {
            let me = placement.me();
            let home = runtime_folder()?.join(format!("{}-{}", me.name, me.address.port()));
            let text = |path: PathBuf| Some(path.display().to_string());
            values.push(("state_dir", text(home.clone())));
            values.push(("admin_socket", text(home.join("admin.sock"))));
        }
        Ok(Layer::defaults(values))
    }

    /// The settings for the files in the folder of credentials, for the node of this name.
    pub(super) fn certified(&self, name: Option<&str>) -> Vec<(&'static str, Option<String>)> {
        let Some(folder) = &self.credentials else {
            return Vec::new();
        };
        let own = name.map(|name| folder.join(name));
        let folder = own.filter(|own| own.is_dir());
        let folder = folder.as_ref().or(self.credentials.as_ref());
        let file = |name: &str| folder.map(|folder| folder.join(name).display().to_string());
        vec![
            ("certificate", file("node.pem")),
            ("key", file("node.key")),
            ("ca", file("ca.pem")),
        ]
    }
}

/// A list of entries in the form of the settings.
fn list<'a>(peers: impl IntoIterator<Item = &'a Seed>) -> String {
    let quoted = peers
        .into_iter()
        .map(|peer| format!("{:?}", peer.to_string()));
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

/// The settings of a node with this place in a deployment tree of this shape.
fn in_tree(placement: &Placement, shape: Shape) -> Vec<(&'static str, Option<String>)> {
    let family = family(shape, placement.size(), placement.ordinal);
    let peer = |ordinal: u32| placement.peers.get(ordinal as usize);
    let seeds = family.seeds.iter().filter_map(|ordinal| peer(*ordinal));
    // Three more than needed, so that orphans of a dead node find room at another parent.
    let children = (family.widest + 3).clamp(16, 4096);
    vec![
        (
            "parent",
            family.parent.and_then(peer).map(ToString::to_string),
        ),
        ("seeds", Some(list(seeds))),
        ("slot", Some(placement.ordinal.to_string())),
        ("priority", Some(placement.ordinal.to_string())),
        ("patience_rounds", Some(family.patience_rounds.to_string())),
        ("max_children", Some(children.to_string())),
    ]
}

/// The text of a host file. A file that is longer than [`HOSTFILE_BYTES_MAX`] is an error, and is
/// not read to its end.
fn hosts_in(path: &Path) -> Result<String, Failure> {
    let failed = |problem: String| {
        let path = path.display();
        Failure::usage(format!(
            "flag --hostfile: {path} {problem}; give the file that lists the hosts"
        ))
    };
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(HOSTFILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(failed(format!("cannot be read: {error}"))),
        Ok(read) if read as u64 > HOSTFILE_BYTES_MAX => {
            Err(failed(format!("has more than {HOSTFILE_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(text),
    }
}

/// The shape of the deployment tree. Nodes of the bootstraps `clique` and `graph` have no such
/// tree, so a shape given for them is an error.
pub(super) fn shaped(shape: Option<Shape>, bootstrap: Bootstrap) -> Result<Shape, Failure> {
    match (shape, bootstrap) {
        (Some(shape), Bootstrap::Clique | Bootstrap::Graph) => Err(Failure::usage(format!(
            "flag --shape: is {shape}, but nodes of --bootstrap {bootstrap} have no deployment \
             tree; leave out --shape"
        ))),
        (shape, _) => Ok(shape.unwrap_or(Shape::Binomial)),
    }
}

/// The variables of this process, and the name of the host.
fn environment() -> Environment {
    let mut all: Environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        // The variable of that name may come from the host on which the job was submitted.
        all.insert("HOSTNAME".to_owned(), name.trim().to_owned());
    }
    all
}

/// The address of this node's own entry; this host must have that address.
fn own_address(location: &str) -> Result<SocketAddr, Failure> {
    let failed = |problem: String| {
        Failure::failed(format!(
            "flag --bind-own: this node's entry in the list is {location}, but {problem}; correct \
             the list or /etc/hosts, or leave out --bind-own"
        ))
    };
    let found = location.to_socket_addrs();
    let mut found = found.map_err(|error| failed(error.to_string()))?;
    let is_own = |address: &SocketAddr| std::net::UdpSocket::bind((address.ip(), 0)).is_ok();
    let own = found.find(is_own);
    own.ok_or_else(|| failed("no address of this entry belongs to this host".to_owned()))
}

/// The folder for files that nodes without a settings file keep while they run. No other user may
/// use it.
fn runtime_folder() -> Result<PathBuf, Failure> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let own = rustix::process::getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) if Path::new(&folder).is_dir() => Path::new(&folder).join("binomesh"),
        _ => std::env::temp_dir().join(format!("binomesh-{own}")),
    };
    let shown = folder.display().to_string();
    let failed = |problem: String| {
        Failure::failed(format!(
            "the folder {shown}: {problem}; remove the folder, or give --state-dir and \
             --admin-socket"
        ))
    };
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(error.to_string()));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(&folder).map_err(|error| failed(error.to_string()))?;
    let is_ours = found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0;
    match is_ours {
        true => Ok(folder),
        false => Err(failed("other users may use the folder".to_owned())),
    }
}

/// The name from the flag, or else from the list.
pub(super) fn name_of(placement: Option<&Placement>, given: Option<&String>) -> Option<String> {
    given
        .cloned()
        .or_else(|| placement.map(|placement| placement.me().name.clone()))
}

/// Check that the settings leave standard input to the command that `run` starts.
pub(super) fn check_stdin(config: &NodeConfig, has_command: bool) -> Result<(), Failure> {
    match has_command && config.watch_stdin {
        true => Err(Failure::usage(
            "`watch_stdin` and the command would both read standard input; leave out one of the \
             two",
        )),
        false => Ok(()),
    }
}
