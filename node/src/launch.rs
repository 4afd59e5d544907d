//! The place of a process among the processes that a launcher started with it.
//!
//! ```text
//!   environment, flags ─▶ slurm ─┐
//!                         mpi ───┼─▶ Placement: ordinal, list of nodes ─▶ Family: parent,
//!                  kubernetes ───┤                                        further contacts
//!            hosts, by hand ─────┘
//! ```
//!
//! All of it is arithmetic on texts: every process computes the same list by itself and asks no
//! other. This module reads neither the environment nor a file.
//!
//! Without a name in the list, a node is named after its host, as the list writes it: `c001`, and
//! `c001.1`, `c001.2` for further nodes of one host. Without a port in the list, its port is the
//! first port plus its number at that host.

mod family;
mod hosts;
mod kubernetes;
mod mpi;
mod peers;
mod slurm;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use family::{Family, family};

use crate::config::ConfigError;
use crate::settings::Seed;

/// The most nodes of a list. A guess: more than today's clusters have; the names fit into some
/// megabytes.
pub const NODES_MAX: u32 = 65_536;
/// The port of the first node of a host, unless another is given.
pub const PORT: u16 = 7400;

/// The launcher that started the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Launcher {
    /// The launcher whose variables are set. No launcher is needed if an ordinal is given by hand.
    #[default]
    Auto,
    /// `srun` of Slurm.
    Slurm,
    /// `mpirun` of Open MPI.
    Mpi,
    /// A StatefulSet of Kubernetes.
    Kubernetes,
    /// Any program that starts one process on each host of a folded list.
    Hosts(String),
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Slurm => f.write_str("slurm"),
            Self::Mpi => f.write_str("mpi"),
            Self::Kubernetes => f.write_str("kubernetes"),
            Self::Hosts(list) => write!(f, "hosts:{list}"),
        }
    }
}

impl FromStr for Launcher {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "slurm" => Ok(Self::Slurm),
            "mpi" => Ok(Self::Mpi),
            "kubernetes" => Ok(Self::Kubernetes),
            _ => match text.strip_prefix("hosts:") {
                Some(list) if !list.is_empty() => Ok(Self::Hosts(list.to_owned())),
                _ => Err(
                    "expected auto, slurm, mpi, kubernetes, or hosts:LIST, such as \
                     hosts:c[001-128]"
                        .to_owned(),
                ),
            },
        }
    }
}

/// The flags that describe a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The launcher that is named.
    pub launcher: Launcher,
    /// This node's place in the list, from 0.
    pub ordinal: Option<u32>,
    /// The number of nodes of a list with `{}`.
    pub size: Option<u32>,
    /// The list: folded, or one entry with `{}` for the ordinal.
    pub peers: Option<String>,
    /// The lines of a host file.
    pub hostfile: Option<String>,
    /// The port of the first node of a host.
    pub port: u16,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            launcher: Launcher::Auto,
            ordinal: None,
            size: None,
            peers: None,
            hostfile: None,
            port: PORT,
        }
    }
}

/// The place of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The node's place in the list, from 0.
    pub ordinal: u32,
    /// The node's number at its host, from 0.
    pub local: u32,
    /// All nodes, including this one, with distinct names and locations. Never empty.
    pub peers: Vec<Seed>,
}

impl Placement {
    /// The entry of this node.
    pub fn me(&self) -> &Seed {
        self.peers
            .get(self.ordinal as usize)
            .unwrap_or(&self.peers[0])
    }

    /// The number of nodes.
    pub fn size(&self) -> u32 {
        u32::try_from(self.peers.len()).unwrap_or(NODES_MAX)
    }
}

/// The variables of a process. `HOSTNAME` is the true name of its host, whatever the shell has set.
pub type Environment = BTreeMap<String, String>;

/// The id of the process's job, as its launcher tells it: a step of Slurm, or an `mpirun`.
pub fn job_id(environment: &Environment) -> Option<String> {
    let of = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    // Within a Slurm job, `mpirun` starts some ranks by a step and others without one.
    if of("OMPI_COMM_WORLD_RANK").is_some() {
        return of("PMIX_NAMESPACE").cloned();
    }
    let (job, step) = of("SLURM_JOB_ID").zip(of("SLURM_STEP_ID"))?;
    Some(format!("{job}-{step}"))
}

/// Find out the place of this process.
pub fn place(environment: &Environment, request: &Request) -> Result<Placement, ConfigError> {
    match &request.launcher {
        Launcher::Slurm => slurm::place(environment, request),
        Launcher::Mpi => mpi::place(environment, request),
        Launcher::Kubernetes => kubernetes::place(environment, request),
        Launcher::Hosts(list) => hosts::place(environment, request, list),
        Launcher::Auto if request.ordinal.is_some() => hosts::by_hand(request),
        Launcher::Auto => found(environment, request),
    }
}

/// The place that the innermost launcher gives: `mpirun` may be started within a Slurm job.
fn found(environment: &Environment, request: &Request) -> Result<Placement, ConfigError> {
    let has = |name: &str| environment.contains_key(name);
    if has("OMPI_COMM_WORLD_RANK") {
        return mpi::place(environment, request);
    }
    if has("SLURM_JOB_ID") || has("SLURM_STEP_NODELIST") {
        return slurm::place(environment, request);
    }
    if has("KUBERNETES_SERVICE_HOST") {
        return kubernetes::place(environment, request);
    }
    Err(wrong(
        "flag --launch",
        "is auto, but none of OMPI_COMM_WORLD_RANK, SLURM_STEP_NODELIST and \
         KUBERNETES_SERVICE_HOST is set",
        "start the node with mpirun, with srun or as a pod, or give --launch hosts:LIST, or \
         --ordinal and --peers",
    ))
}

fn wrong(origin: &str, problem: impl Into<String>, remedy: impl Into<String>) -> ConfigError {
    ConfigError {
        origin: origin.to_owned(),
        key: None,
        problem: problem.into(),
        remedy: remedy.into(),
    }
}

/// The origin of the host's name, for errors.
const HOST: &str = "the name of this host";

/// The name of this host.
fn host_name<'a>(environment: &'a Environment, remedy: &str) -> Result<&'a str, ConfigError> {
    let name = environment.get("HOSTNAME").filter(|name| !name.is_empty());
    name.map(String::as_str)
        .ok_or_else(|| wrong(HOST, "is unknown", remedy))
}

/// The value of a variable that must be set.
fn variable<'a>(
    environment: &'a Environment,
    name: &str,
    remedy: &str,
) -> Result<&'a str, ConfigError> {
    let value = environment.get(name).map(|value| value.trim());
    value.filter(|value| !value.is_empty()).ok_or_else(|| {
        let origin = format!("environment variable {name}");
        wrong(&origin, "is not set", remedy)
    })
}

/// The value of a variable that must be set to a number.
fn number(environment: &Environment, name: &str, remedy: &str) -> Result<u32, ConfigError> {
    let value = variable(environment, name, remedy)?;
    value.parse().map_err(|_| {
        let origin = format!("environment variable {name}");
        let problem = format!("is {value:?}; expected a whole number from 0");
        wrong(&origin, problem, remedy)
    })
}

/// Refuse a flag that has no meaning with this launcher.
fn refuse(flag: &str, is_given: bool, launcher: &str, instead: &str) -> Result<(), ConfigError> {
    match is_given {
        false => Ok(()),
        true => Err(wrong(
            &format!("flag --{flag}"),
            format!("is given, but {launcher} already sets this"),
            format!("leave out --{flag}{instead}"),
        )),
    }
}

#[cfg(test)]
mod tests;
