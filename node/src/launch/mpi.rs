//! A process of Open MPI: `mpirun binomesh run --launch mpi --hostfile FILE`.

use super::peers::{self, HOSTFILE, Host, PEERS};
use super::{Environment, NODES_MAX, Placement, Request, number, refuse, wrong};
use crate::config::ConfigError;

const RANK: &str = "OMPI_COMM_WORLD_RANK";
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";
const LOCAL: &str = "OMPI_COMM_WORLD_LOCAL_RANK";
const START: &str = "start the node with mpirun of Open MPI, which sets this variable";

/// The place of a process of Open MPI. It is told its rank, but not where the others run. So the
/// list from which `mpirun` placed them is read, in the way in which `mpirun` reads it by default.
pub(super) fn place(
    environment: &Environment,
    request: &Request,
) -> Result<Placement, ConfigError> {
    refuse("ordinal", request.ordinal.is_some(), "Open MPI", "")?;
    refuse("size", request.size.is_some(), "Open MPI", "")?;
    let (rank, size, local) = (
        number(environment, RANK, START)?,
        number(environment, SIZE, START)?,
        number(environment, LOCAL, START)?,
    );
    let variable = |name: &str| format!("environment variable {name}");
    if rank >= size || size > NODES_MAX {
        let problem = format!("is {size}, but {RANK} is {rank}");
        let remedy = format!("start at most {NODES_MAX} processes with one mpirun");
        return Err(wrong(&variable(SIZE), problem, remedy));
    }
    let (origin, hosts) = match (&request.hostfile, &request.peers) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                PEERS,
                "is given together with --hostfile",
                "give only one of the two",
            ));
        }
        (Some(text), None) => (HOSTFILE, peers::of_file(text)?),
        (None, Some(text)) => {
            let size = text.contains("{}").then_some(size);
            (PEERS, peers::of_text(PEERS, text, size)?)
        }
        (None, None) => {
            return Err(wrong(
                PEERS,
                "is not given, and Open MPI does not tell a process where the others run",
                "give --hostfile with the host file of mpirun, or --peers with its hosts",
            ));
        }
    };
    let hosts = filled(origin, hosts, size)?;
    let placement = peers::placed(
        origin,
        &hosts,
        peers::Ordinal {
            value: rank,
            origin: &variable(RANK),
        },
        request.port,
    )?;
    if placement.local != local {
        let problem = format!(
            "is {local}, but by the list in {origin} rank {rank} is process {} of host {}",
            placement.local,
            placement.me().address.host()
        );
        let remedy = "list the hosts in the order in which mpirun fills them (mpirun --map-by \
                      slot), or give --peers one entry for each rank";
        return Err(wrong(&variable(LOCAL), problem, remedy));
    }
    Ok(placement)
}

/// The hosts with as many slots as there are processes: the first slots are filled first. In a list
/// without slots that has fewer hosts than there are processes, each host has the same number of
/// them.
fn filled(origin: &str, mut hosts: Vec<Host>, size: u32) -> Result<Vec<Host>, ConfigError> {
    let total: u32 = hosts.iter().map(|host| host.slots).sum();
    let count = u32::try_from(hosts.len()).unwrap_or(NODES_MAX);
    if size <= total {
        let mut left = size;
        for host in &mut hosts {
            host.slots = host.slots.min(left);
            left -= host.slots;
        }
        return Ok(hosts);
    }
    let has_slots = hosts.iter().any(|host| host.slots != 1);
    if has_slots || !size.is_multiple_of(count) {
        let problem = format!("has slots for {total} processes, but {SIZE} is {size}");
        let remedy = "list as many slots as mpirun starts processes";
        return Err(wrong(origin, problem, remedy));
    }
    for host in &mut hosts {
        host.slots = size / count;
    }
    Ok(hosts)
}
