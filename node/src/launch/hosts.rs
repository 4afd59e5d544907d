//! Lists that the user gives, with the ordinal or with the name of the node's own host.

use std::net::IpAddr;

use super::peers::{self, HOSTFILE, Host, PEERS};
use super::{Environment, HOST, Placement, Request, host_name, refuse, wrong};
use crate::config::ConfigError;

const ORDINAL: &str = "flag --ordinal";
const LAUNCH: &str = "flag --launch";

/// The place by `--ordinal I` with `--peers` or `--hostfile`.
pub(super) fn by_hand(request: &Request) -> Result<Placement, ConfigError> {
    let ordinal = request.ordinal.unwrap_or_default();
    let (origin, hosts) = match (&request.hostfile, peers::of_flag(request)?) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                PEERS,
                "is given together with --hostfile",
                "give only one of the two",
            ));
        }
        (None, Some(hosts)) => (PEERS, hosts),
        (Some(text), None) => (HOSTFILE, peers::of_file(text)?),
        (None, None) => {
            let problem = format!("is {ordinal}, but no list of nodes is given");
            let remedy = "give --peers, such as 'c[001-128]', or 'node-{}.mesh.svc:7400' with \
                          --size";
            return Err(wrong(ORDINAL, problem, remedy));
        }
    };
    peers::placed(
        origin,
        &hosts,
        peers::Ordinal {
            value: ordinal,
            origin: ORDINAL,
        },
        request.port,
    )
}

/// The place by `--launch hosts:LIST`: the ordinal is the position of this host in the list, unless
/// `--ordinal` gives another.
pub(super) fn place(
    environment: &Environment,
    request: &Request,
    list: &str,
) -> Result<Placement, ConfigError> {
    let instead = ", since --launch gives the list";
    refuse("peers", request.peers.is_some(), "--launch hosts", instead)?;
    refuse(
        "hostfile",
        request.hostfile.is_some(),
        "--launch hosts",
        instead,
    )?;
    let hosts = peers::of_text(LAUNCH, list, request.size)?;
    let (from, ordinal) = match request.ordinal {
        Some(ordinal) => (ORDINAL, ordinal),
        None => (HOST, own(environment, &hosts)?),
    };
    peers::placed(
        LAUNCH,
        &hosts,
        peers::Ordinal {
            value: ordinal,
            origin: from,
        },
        request.port,
    )
}

/// The position of this host in the list. If no entry is equal to the host's name, a short name
/// matches each full name whose first part it is, on either side. Exactly one entry must match.
fn own(environment: &Environment, hosts: &[Host]) -> Result<u32, ConfigError> {
    let remedy = "give --ordinal, or write the name of this host in the list as `hostname` prints \
                  it";
    let name = host_name(environment, remedy)?;
    // Two full names must be equal, and so must addresses.
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let is_part = |part: &str, whole: &str| {
        let behind = whole.strip_prefix(part);
        !is_address(whole) && behind.is_some_and(|behind| behind.starts_with('.'))
    };
    let all = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let hosts = hosts.iter().enumerate();
        hosts
            .filter(|(_, host)| fits(&host.host))
            .map(|(ordinal, _)| ordinal)
            .collect()
    };
    let mut found = all(&|host| host == name);
    if found.is_empty() {
        found = all(&|host| {
            !host.contains('.') && is_part(host, name) || !name.contains('.') && is_part(name, host)
        });
    }
    let problem = match found.as_slice() {
        [only] => return Ok(u32::try_from(*only).unwrap_or(u32::MAX)),
        [] => format!("is {name:?}, which is not in the list of --launch"),
        _ => format!(
            "is {name:?}, which the list of --launch has {} times",
            found.len()
        ),
    };
    Err(wrong(HOST, problem, remedy))
}
