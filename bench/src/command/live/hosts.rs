//! Hosts with links of their own: network namespaces on one bridge, each with an uplink
//! that carries so much. They have no names and go with the processes that hold them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use binomesh::cluster::Place;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::namespace::is_installed;
use crate::command::Failure;

/// The port of every host's node.
const PORT: u16 = 7700;
/// How much an uplink may send at once, as `tc` says it: a segment of offloaded packets.
const BURST: &str = "128kb";
/// How long a packet may wait for the uplink until it is dropped.
const LATENCY: &str = "50ms";

/// The hosts. Dropping this ends them.
#[derive(Debug)]
pub struct Hosts {
    holders: Vec<Child>,
}

impl Hosts {
    /// Make so many in the network namespace of this process, which must be one of its own,
    /// each with an uplink of so many megabits a second.
    pub async fn make(count: u32, megabits: u32) -> Result<Self, Failure> {
        for (program, package) in [("nsenter", "util-linux"), ("tc", "iproute2")] {
            if !is_installed(program) {
                return Err(Failure::Run(format!(
                    "`{program}` is not installed, which makes the hosts; install the package \
                     {package}"
                )));
            }
        }
        run("ip link add hosts type bridge").await?;
        run("ip link set hosts up").await?;
        let mut hosts = Self {
            holders: Vec::new(),
        };
        for number in 0..count {
            hosts.add(number, megabits).await?;
        }
        Ok(hosts)
    }

    async fn add(&mut self, number: u32, megabits: u32) -> Result<(), Failure> {
        // It says when it is there, and stays until its input closes.
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo here; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::Run(format!("cannot run unshare: {error}")))?;
        let (pid, said) = (holder.id(), holder.stdout.take());
        let mut line = String::new();
        if let Some(said) = said {
            let read = BufReader::new(said).read_line(&mut line).await;
            read.map_err(Failure::run)?;
        }
        let Some(pid) = pid.filter(|_| line == "here\n") else {
            return Err(Failure::Run("a network namespace was not made".to_owned()));
        };
        self.holders.push(holder);
        let address = address(number)?;
        run(&format!(
            "ip link add host{number} type veth peer name uplink netns {pid}"
        ))
        .await?;
        run(&format!("ip link set host{number} master hosts up")).await?;
        for command in [
            "ip link set lo up".to_owned(),
            format!("ip addr add {address}/24 dev uplink"),
            "ip link set uplink up".to_owned(),
            format!(
                "tc qdisc add dev uplink root tbf rate {megabits}mbit burst {BURST} latency {LATENCY}"
            ),
        ] {
            run(&format!("nsenter --net=/proc/{pid}/ns/net -- {command}")).await?;
        }
        Ok(())
    }

    /// Where their nodes listen.
    pub fn places(&self) -> Result<Vec<Place>, Failure> {
        let mut places = Vec::new();
        for (number, holder) in (0..).zip(&self.holders) {
            let pid = holder.id();
            let pid = pid.ok_or_else(|| Failure::Run("a host has ended".to_owned()))?;
            places.push(Place {
                bind: SocketAddr::new(address(number)?, PORT),
                advertise: None,
                namespace: Some(PathBuf::from(format!("/proc/{pid}/ns/net"))),
            });
        }
        Ok(places)
    }
}

/// Within the namespaces of this run only.
fn address(number: u32) -> Result<IpAddr, Failure> {
    let host = u8::try_from(number + 1).ok().filter(|host| *host < 255);
    let host = host.ok_or_else(|| Failure::Usage("there are at most 254 hosts".to_owned()))?;
    Ok(Ipv4Addr::new(10, 77, 0, host).into())
}

async fn run(line: &str) -> Result<(), Failure> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    // `ip` and `tc` are often outside an ordinary user's path.
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(words)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| Failure::Run(format!("cannot run `{line}`: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::Run(format!("`{line}` failed: {}", said.trim())))
        }
    }
}
