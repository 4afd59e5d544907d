//! Lists of nodes: entries `[name@]host[:port]`, folded or with `{}` for the ordinal, and
//! host files.

use std::collections::BTreeMap;

use binomesh_overlay::quic::Location;

use super::{NODES_MAX, Placement, Request, wrong};
use crate::config::ConfigError;
use crate::settings::{Seed, check_name, host_list};

/// The list's flag, for errors.
pub(super) const PEERS: &str = "flag --peers";
/// The host file's flag, for errors.
pub(super) const HOSTFILE: &str = "flag --hostfile";
/// The form of an entry, for errors.
const EXAMPLE: &str =
    "expected hosts such as c[001-128], node-0.example:7400 or name@10.0.0.1:7400";

/// A host of a list, and the number of nodes that run there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) host: String,
    name: Option<String>,
    port: Option<u16>,
    pub(super) slots: u32,
}

impl Host {
    /// Parse one entry `[name@]host[:port]`, which stands for one node.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once('@') {
            Some((name, rest)) => (Some(name), rest),
            None => (None, text),
        };
        if let Some(name) = name {
            check_name(name).map_err(|error| error.to_string())?;
        }
        let is_bare =
            !rest.contains(':') || rest.ends_with(']') || rest.parse::<std::net::IpAddr>().is_ok();
        let location = match is_bare {
            true => Location::new(rest, 1),
            false => rest.parse(),
        };
        let location = location.map_err(|error| error.to_string())?;
        if location.port() == 0 {
            return Err(format!(
                "{rest:?} has the port 0; expected a port from 1 to 65535"
            ));
        }
        Ok(Self {
            host: location.host(),
            name: name.map(str::to_owned),
            port: (!is_bare).then(|| location.port()),
            slots: 1,
        })
    }

    /// The name of the node that is the `local`th of its host and the `index`th of this entry.
    fn name_of(&self, local: u32, index: u32) -> String {
        let (base, number) = match &self.name {
            Some(name) => (name.clone(), index),
            // No name may contain a colon. A full name may end with a dot, which is removed.
            None => (self.host.trim_end_matches('.').replace(':', "-"), local),
        };
        match number {
            0 => base,
            _ => format!("{base}.{number}"),
        }
    }
}

/// The hosts of `--peers`, one node for each entry.
pub(super) fn of_flag(request: &Request) -> Result<Option<Vec<Host>>, ConfigError> {
    match &request.peers {
        Some(text) => of_text(PEERS, text, request.size).map(Some),
        None => Ok(None),
    }
}

/// The hosts of a list, which comes from `origin`.
pub(super) fn of_text(
    origin: &str,
    text: &str,
    size: Option<u32>,
) -> Result<Vec<Host>, ConfigError> {
    let shown: String = text.chars().take(80).collect();
    let invalid = |problem: String| wrong(origin, format!("is {shown:?}: {problem}"), EXAMPLE);
    let texts = match text.contains("{}") {
        true => of_template(origin, text, size)?,
        false => host_list::expand(text, NODES_MAX as usize).map_err(invalid)?,
    };
    if texts.is_empty() {
        return Err(invalid("the list names no node".to_owned()));
    }
    let count = texts.len();
    if let Some(size) = size.filter(|size| *size as usize != count) {
        return Err(wrong(
            "flag --size",
            format!("is {size}, but the list has {count} entries"),
            "leave out --size, which is for a list with {}",
        ));
    }
    let hosts = texts.iter().map(|text| Host::parse(text));
    hosts.collect::<Result<_, String>>().map_err(invalid)
}

fn of_template(origin: &str, text: &str, size: Option<u32>) -> Result<Vec<String>, ConfigError> {
    let Some(size) = size else {
        let problem = format!("is {text:?}, in which {{}} stands for the ordinals");
        return Err(wrong(
            origin,
            problem,
            "give the number of nodes with --size",
        ));
    };
    if !(1..=NODES_MAX).contains(&size) {
        let remedy = format!("expected 1 to {NODES_MAX} nodes");
        return Err(wrong("flag --size", format!("is {size}"), remedy));
    }
    if text.contains(',') {
        let problem = format!("is {text:?}, but a list with {{}} has only one entry");
        return Err(wrong(
            origin,
            problem,
            "write one entry, or a list without {}",
        ));
    }
    if text.len() > host_list::BYTES_MAX {
        let problem = format!("is a list with {{}} that has {} bytes", text.len());
        let remedy = format!("write one entry of at most {} bytes", host_list::BYTES_MAX);
        return Err(wrong(origin, problem, remedy));
    }
    let of = |ordinal: u32| text.replace("{}", &ordinal.to_string());
    Ok((0..size).map(of).collect())
}

/// The hosts of a host file in the form of `mpirun`: one host per line, with `slots=N` nodes.
pub(super) fn of_file(text: &str) -> Result<Vec<Host>, ConfigError> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut total = 0_u32;
    for (number, line) in text.lines().enumerate() {
        let invalid = |problem: String| {
            let problem = format!("line {}: {problem}", number + 1);
            wrong(HOSTFILE, problem, "expected lines such as `c001 slots=4`")
        };
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let mut host = Host::parse(first).map_err(invalid)?;
        for word in words {
            let slots = word.strip_prefix("slots=").map(str::parse::<u32>);
            match slots {
                Some(Ok(slots @ 1..=NODES_MAX)) => host.slots = slots,
                // This limits how far `mpirun` may overload the host, and does not matter here.
                None if word.starts_with("max_slots=") || word.starts_with("max-slots=") => {}
                _ => {
                    return Err(invalid(format!(
                        "{word:?} is no number of slots, such as slots=4"
                    )));
                }
            }
        }
        total = total.saturating_add(host.slots);
        if total > NODES_MAX {
            return Err(invalid(format!(
                "the file lists more than {NODES_MAX} nodes"
            )));
        }
        hosts.push(host);
    }
    match hosts.is_empty() {
        true => Err(wrong(
            HOSTFILE,
            "names no host",
            "write one host per line, such as `c001 slots=4`",
        )),
        false => Ok(hosts),
    }
}

/// The place of a node in a list, from 0.
pub(super) struct Ordinal<'a> {
    pub(super) value: u32,
    /// The source of the place, for errors: a flag, a variable or the name of this host.
    pub(super) origin: &'a str,
}

/// The placement of the node with this ordinal among all nodes of these hosts. `origin` is the
/// source of the list.
pub(super) fn placed(
    origin: &str,
    hosts: &[Host],
    ordinal: Ordinal<'_>,
    port: u16,
) -> Result<Placement, ConfigError> {
    let (from, ordinal) = (ordinal.origin, ordinal.value);
    let mut at_host: BTreeMap<&str, u32> = BTreeMap::new();
    let mut locals = Vec::new();
    let mut peers: Vec<Seed> = Vec::new();
    for host in hosts {
        for index in 0..host.slots {
            let count = at_host.entry(&host.host).or_default();
            let local = std::mem::replace(count, *count + 1);
            peers.push(seed(origin, host, local, index, port)?);
            locals.push(local);
        }
    }
    let Some(local) = locals.get(ordinal as usize).copied() else {
        let (count, last) = (peers.len(), peers.len().saturating_sub(1));
        let problem = format!("is {ordinal}, but the list in {origin} has {count} nodes");
        let remedy = format!("give an ordinal from 0 to {last}, or a longer list");
        return Err(wrong(from, problem, remedy));
    };
    check_distinct(origin, &peers)?;
    Ok(Placement {
        ordinal,
        local,
        peers,
    })
}

/// The node that is the `local`th of its host and the `index`th of this entry.
fn seed(origin: &str, host: &Host, local: u32, index: u32, port: u16) -> Result<Seed, ConfigError> {
    // A port in the list belongs to the first node of its entry.
    let (first, number) = match host.port {
        Some(first) => (first, index),
        None => (port, local),
    };
    let whole = u32::from(first) + number;
    let port = u16::try_from(whole).map_err(|_| {
        let problem = format!(
            "gives node {number} at {} the port {whole}, but the greatest port is 65535",
            host.host
        );
        let from = match host.port {
            Some(_) => origin,
            None => "flag --port",
        };
        wrong(from, problem, "give a smaller first port")
    })?;
    let invalid = |problem: String| wrong(origin, problem, EXAMPLE);
    let name = host.name_of(local, index);
    check_name(&name).map_err(|error| invalid(error.to_string()))?;
    let address = Location::new(&host.host, port).map_err(|error| invalid(error.to_string()))?;
    Ok(Seed { name, address })
}

/// Check that no two nodes have the same name or location, which would make them one.
fn check_distinct(origin: &str, peers: &[Seed]) -> Result<(), ConfigError> {
    let mut names = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (ordinal, peer) in peers.iter().enumerate() {
        let by_name = names.insert(&peer.name, ordinal);
        let by_place = places.insert(&peer.address, ordinal);
        let twice = match (by_name, by_place) {
            (Some(before), _) => Some((before, format!("name {:?}", peer.name))),
            (None, Some(before)) => Some((before, format!("location {}", peer.address))),
            (None, None) => None,
        };
        if let Some((before, what)) = twice {
            return Err(wrong(
                origin,
                format!("gives the ordinals {before} and {ordinal} the same {what}"),
                "list each node once, with a name (name@host) or a port of its own",
            ));
        }
    }
    Ok(())
}
