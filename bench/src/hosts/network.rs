//! The hosts: network namespaces on one bridge, each with an uplink. The namespaces have no names,
//! and end with the processes that hold them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use binomesh::cluster::Place;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

pub use super::address::Family;
use super::address::{refusal, with_prefix};
pub use super::fault::Rate;
use super::fault::Share;
use super::namespace::require;
use super::{HostError, rules};

/// The port of every host's node.
pub const PORT: u16 = 7700;
/// How much an uplink may send at once, in the notation of `tc`: a segment of offloaded packets.
const BURST: &str = "128kb";
/// How long a packet waits for the uplink before it is dropped.
const LATENCY: &str = "50ms";

/// The hosts. Dropping this ends them.
#[derive(Debug)]
pub struct Hosts {
    family: Family,
    hosts: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    addresses: Vec<IpAddr>,
    pid: u32,
    _holder: Child,
}

impl Host {
    fn namespace(&self) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("ns/net")
    }

    async fn run(&self, line: &str) -> Result<(), HostError> {
        let namespace = self.namespace();
        run(&format!("nsenter --net={} -- {line}", namespace.display())).await
    }
}

impl Hosts {
    /// Make this many hosts in the network namespace of this process, which must be one of its own.
    pub async fn make(count: u32, family: Family) -> Result<Self, HostError> {
        for program in ["nsenter", "setpriv"] {
            require(program, "util-linux")?;
        }
        require("tc", "iproute2")?;
        run("ip link add hosts type bridge").await?;
        run("ip link set hosts up").await?;
        let mut hosts = Self {
            family,
            hosts: Vec::new(),
        };
        for number in 0..count {
            hosts.add(number).await?;
        }
        Ok(hosts)
    }

    async fn add(&mut self, number: u32) -> Result<(), HostError> {
        // The holder writes a line when its namespace exists, and stays until its input closes.
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo here; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            // In a process group of its own, the holder gets no Ctrl-C. Only this process does.
            .process_group(0)
            .spawn()
            .map_err(|source| not_run("unshare", source))?;
        let (pid, said) = (holder.id(), holder.stdout.take());
        let mut line = String::new();
        if let Some(said) = said {
            let read = BufReader::new(said).read_line(&mut line).await;
            read.map_err(|source| not_run("unshare", source))?;
        }
        let Some(pid) = pid.filter(|_| line == "here\n") else {
            let reason = "a network namespace was not made";
            return Err(HostError::NoNamespace(reason.to_owned()));
        };
        let host = Host {
            addresses: self.family.of_host(number)?,
            pid,
            _holder: holder,
        };
        run(&format!(
            "ip link add host{number} type veth peer name uplink netns {pid}"
        ))
        .await?;
        run(&format!("ip link set host{number} master hosts up")).await?;
        host.run("ip link set lo up").await?;
        for address in &host.addresses {
            host.run(&add_address(*address, "uplink")).await?;
        }
        host.run("ip link set uplink up").await?;
        self.hosts.push(host);
        Ok(())
    }

    /// The places where the nodes of these hosts listen: at all addresses of their hosts, so that
    /// an address can be replaced while a node runs.
    pub fn places(&self) -> Vec<Place> {
        let place = |host: &Host| Place {
            bind: SocketAddr::new(self.family.any(), PORT),
            advertise: None,
            found_at: host.addresses.first().map(|ip| SocketAddr::new(*ip, PORT)),
            namespace: Some(host.namespace()),
        };
        self.hosts.iter().map(place).collect()
    }

    /// The places where the nodes listen behind a relay: each at the first address of its host, and
    /// known to others by an address of the relay. The bridge gets the relay's addresses.
    pub async fn relayed_places(&self) -> Result<Vec<Place>, HostError> {
        let mut places = Vec::new();
        for (number, host) in (0..).zip(&self.hosts) {
            let relay = self.family.of_relay(number)?;
            run(&add_address(relay, "hosts")).await?;
            let own = host.addresses.first().copied();
            places.push(Place {
                bind: SocketAddr::new(own.ok_or(HostError::TooMany)?, PORT),
                advertise: Some(SocketAddr::new(relay, PORT)),
                found_at: None,
                namespace: Some(host.namespace()),
            });
        }
        Ok(places)
    }

    /// Cut a host off, or connect it again. No process is told.
    pub async fn set_cut(&self, host: u32, is_cut: bool) -> Result<(), HostError> {
        self.host(host)?;
        let state = if is_cut { "down" } else { "up" };
        run(&format!("ip link set host{host} {state}")).await
    }

    /// Limit what a host sends. `None` removes the limit.
    pub async fn set_rate(&self, host: u32, rate: Option<Rate>) -> Result<(), HostError> {
        let it = self.host(host)?;
        match rate {
            Some(rate) => {
                it.run(&format!(
                    "tc qdisc replace dev uplink root tbf rate {rate} burst {BURST} \
                     latency {LATENCY}"
                ))
                .await
            }
            None => it.run("tc qdisc del dev uplink root").await,
        }
    }

    /// Drop this share of the datagrams from each of these hosts and to it. All other hosts lose
    /// nothing from now on, so losses that were set before end.
    pub async fn set_losses(&self, losses: &BTreeMap<u32, Share>) -> Result<(), HostError> {
        for host in losses.keys() {
            self.host(*host)?;
        }
        require("nft", "nftables")?;
        run_with("nft -f -", &rules::ruleset(losses)).await
    }

    /// Give a host this address instead of its address of the same family. No host has the former
    /// address then.
    pub async fn set_address(&mut self, host: u32, address: IpAddr) -> Result<(), HostError> {
        self.host(host)?;
        if let Some(reason) = refusal(address) {
            return Err(HostError::Address { address, reason });
        }
        if self.hosts.iter().any(|it| it.addresses.contains(&address)) {
            let reason = "another host has this address";
            return Err(HostError::Address { address, reason });
        }
        let Some(it) = self.hosts.get_mut(host as usize) else {
            return Ok(());
        };
        let mut addresses = it.addresses.iter();
        let is_replaced = |own: &&IpAddr| own.is_ipv4() == address.is_ipv4();
        let Some(former) = addresses.find(is_replaced).copied() else {
            let reason = "the hosts have no addresses of this family";
            return Err(HostError::Address { address, reason });
        };
        it.run(&format!("ip addr del {} dev uplink", with_prefix(former)))
            .await?;
        for own in it.addresses.iter_mut().filter(|own| **own == former) {
            *own = address;
        }
        it.run(&add_address(address, "uplink")).await
    }

    /// The number of hosts.
    pub fn count(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    fn host(&self, host: u32) -> Result<&Host, HostError> {
        let found = self.hosts.get(host as usize);
        let count = self.count();
        found.ok_or(HostError::NoSuchHost { host, count })
    }
}

/// The command line that adds an address. It leaves out the search for duplicates of IPv6, which
/// takes a second.
fn add_address(address: IpAddr, device: &str) -> String {
    let nodad = if address.is_ipv6() { " nodad" } else { "" };
    format!("ip addr add {} dev {device}{nodad}", with_prefix(address))
}

async fn run(line: &str) -> Result<(), HostError> {
    run_with(line, "").await
}

/// Run a program of the system with `input` as its standard input.
async fn run_with(line: &str, input: &str) -> Result<(), HostError> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    // `ip` and `tc` are often outside an ordinary user's path.
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(words)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .process_group(0);
    let mut child = command.spawn().map_err(|source| not_run(line, source))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If a program ends without reading its input, its output says why.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await;
    let output = output.map_err(|source| not_run(line, source))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(HostError::Failed {
            line: line.to_owned(),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

fn not_run(line: &str, source: std::io::Error) -> HostError {
    HostError::NotRun {
        line: line.to_owned(),
        source,
    }
}
