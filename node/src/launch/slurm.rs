//! A step of Slurm: `srun binomesh run --launch slurm`.

use super::peers::{self, Host};
use super::{Environment, NODES_MAX, Placement, Request, number, refuse, variable, wrong};
use crate::config::ConfigError;
use crate::settings::host_list;

const NODELIST: &str = "SLURM_STEP_NODELIST";
const TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";
const NODE: &str = "SLURM_NODEID";
const LOCAL: &str = "SLURM_LOCALID";
const START: &str = "start the node with srun, which sets this variable, rather than in the batch \
                     script itself";

/// The place of a task of a step. Nodes are in the order of the step's hosts, and at each host in
/// the order of its tasks. Slurm numbers tasks across hosts in several ways, none of which matters
/// here.
pub(super) fn place(
    environment: &Environment,
    request: &Request,
) -> Result<Placement, ConfigError> {
    refuse("ordinal", request.ordinal.is_some(), "Slurm", "")?;
    refuse("size", request.size.is_some(), "Slurm", "")?;
    refuse("peers", request.peers.is_some(), "Slurm", "")?;
    refuse("hostfile", request.hostfile.is_some(), "Slurm", "")?;
    let list = variable(environment, NODELIST, START)?;
    let tasks = variable(environment, TASKS, START)?;
    let (node, local) = (
        number(environment, NODE, START)?,
        number(environment, LOCAL, START)?,
    );
    let names = host_list::expand(list, NODES_MAX as usize).map_err(|problem| {
        let problem = format!("is {list:?}: {problem}");
        wrong(
            &named(NODELIST),
            problem,
            "expected a list as Slurm writes it, such as c[001-128]",
        )
    })?;
    let counts = counts(tasks, names.len()).map_err(|problem| {
        let problem = format!("is {tasks:?}: {problem}");
        wrong(
            &named(TASKS),
            problem,
            "expected counts as Slurm writes them, such as 2(x3),1",
        )
    })?;
    let mut hosts = Vec::with_capacity(names.len());
    for (name, slots) in names.iter().zip(&counts) {
        let mut host = Host::parse(name).map_err(|problem| {
            let problem = format!("is {list:?}: {problem}");
            wrong(&named(NODELIST), problem, "expected names of hosts")
        })?;
        host.slots = *slots;
        hosts.push(host);
    }
    let Some(slots) = counts.get(node as usize).copied() else {
        let problem = format!("is {node}, but {NODELIST} has {} hosts", names.len());
        return Err(wrong(&named(NODE), problem, START));
    };
    if local >= slots {
        let problem = format!("is {local}, but by {TASKS} the host runs {slots} tasks");
        return Err(wrong(&named(LOCAL), problem, START));
    }
    let before = counts.iter().take(node as usize).sum::<u32>();
    peers::placed(
        &named(NODELIST),
        &hosts,
        peers::Ordinal {
            value: before + local,
            origin: &named(LOCAL),
        },
        request.port,
    )
}

fn named(variable: &str) -> String {
    format!("environment variable {variable}")
}

/// The tasks of each host: `2(x3),1` means 2, 2, 2, 1.
fn counts(text: &str, hosts: usize) -> Result<Vec<u32>, String> {
    let mut counts = Vec::new();
    let mut total = 0_u32;
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').unwrap_or("")),
            None => (part, "1"),
        };
        let parsed = (count.trim().parse::<u32>(), times.parse::<u32>());
        let (Ok(count @ 1..), Ok(times @ 1..)) = parsed else {
            return Err(format!("{part:?} is no count of tasks"));
        };
        total = total.saturating_add(count.saturating_mul(times));
        if total > NODES_MAX {
            return Err(format!("there are more than {NODES_MAX} tasks"));
        }
        counts.extend((0..times).map(|_| count));
    }
    match counts.len() == hosts {
        true => Ok(counts),
        false => Err(format!(
            "it has counts for {} hosts, but {NODELIST} has {hosts}",
            counts.len()
        )),
    }
}
