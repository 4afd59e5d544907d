//! `binomesh-bench hosts`: nodes on hosts of their own, as network namespaces, with a network
//! between them that can be disturbed.

mod lines;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use binomesh::cluster::{Cluster, Member};
use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::live::setup::{Setup, block_on, now};
use super::{Failure, Finding};
use crate::hosts::fault::{Fault, Step};
use crate::hosts::namespace;
use crate::hosts::network::Family;
use crate::hosts::testbed::Testbed;
use lines::Lines;

/// The time between two checks that our parent and the nodes live.
const LOOK: Duration = Duration::from_millis(500);

/// Run nodes on hosts of their own, as network namespaces, and disturb their network.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench hosts --nodes 4 --json
  binomesh-bench hosts --ipv6 --fault 'cut 3 20s' --fault 'wait 30s' --fault 'rate 2 10mbit'
  echo 'drop 1 5%' | binomesh-bench hosts --relay --fault 'delay 2 50ms'

Each host is a network namespace on one bridge, with an address of its own (10.77.0.1 is
host 0, or fd77::1 with --ipv6). Each host has one node (node-0 is at host 0) with its own
certificate. The line `ready` names the namespace of each host, for nsenter --net=. The
hosts stay until SIGINT, SIGTERM or the end of the parent process, and are removed then,
also after a SIGKILL. Needs root, or user namespaces.

The steps of the scenario are those of --fault, and then the lines of standard input, in this order:
  cut HOST [20s]      the link of the host carries nothing, for this time or until `restore`
  rate HOST 10mbit    the host sends at most at this rate
  drop HOST 5%        this share of its datagrams is lost, both ways
  delay HOST 50ms     its datagrams arrive later, both ways (needs --relay)
  duplicate HOST 10%  this share of its datagrams arrives twice, both ways (needs --relay)
  address HOST IP     the host gets another address (not with --relay)
  restore             all faults end, except changes of addresses
  wait 5s             the next step follows after this time
A line `fault` reports each step, and a line `mended` the end of a cut with a time. A line
`refused` reports a line that is no step, or a step that is not possible.")]
pub struct Hosts {
    /// The number of hosts, each with one node.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=254))]
    pub nodes: u32,
    /// Give the hosts only IPv6 addresses.
    #[arg(long, conflicts_with = "mixed")]
    pub ipv6: bool,
    /// Give the hosts addresses of both families. Half of the nodes are known by their IPv4
    /// addresses, half by their IPv6 addresses.
    #[arg(long, conflicts_with = "relay")]
    pub mixed: bool,
    /// Put a relay into the path of every datagram, which can delay and duplicate datagrams. The
    /// nodes are then known by addresses of the relay (10.77.1.1 for host 0, fd77::1:1 with
    /// --ipv6).
    #[arg(long)]
    pub relay: bool,
    /// A step of the scenario, such as 'cut 3 20s'; may be given several times.
    #[arg(long = "fault", value_name = "STEP")]
    pub steps: Vec<String>,
    /// The cluster.
    #[command(flatten)]
    pub setup: Setup,
}

/// The facts about a node in the event `ready`.
#[derive(Debug, Serialize)]
struct HostView<'a> {
    name: &'a str,
    namespace: Option<&'a Path>,
    address: SocketAddr,
    pid: u32,
    admin_socket: &'a Path,
}

/// One line of the output.
#[derive(Debug, Serialize)]
struct Event<'a> {
    event: &'static str,
    elapsed_seconds: f64,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What<'a> {
    Ready {
        cluster_dir: &'a Path,
        nodes: Vec<HostView<'a>>,
    },
    Fault(Fault),
    Mended {
        host: u32,
    },
    Refused {
        line: &'a str,
        reason: String,
    },
    Ended {
        name: String,
    },
}

impl Hosts {
    /// Run the hosts until this process is told to stop, or its parent ends.
    pub fn run(self) -> Result<Finding, Failure> {
        // Check the scenario before anything is made for it.
        let steps = self.scenario()?;
        namespace::enter()?;
        block_on(async |stop| {
            let done = self.stay(steps, stop).await;
            // A stop during any work is no error of the run.
            match stop.is_cancelled() {
                true => Ok(Finding::Good),
                false => done,
            }
        })
    }

    fn scenario(&self) -> Result<Vec<String>, Failure> {
        for line in &self.steps {
            let wrong = |reason: String| Failure::Usage(format!("--fault '{line}': {reason}"));
            let step: Step = line.parse().map_err(|error| wrong(format!("{error}")))?;
            if let Step::Fault(fault) = step {
                let checked = Testbed::check(self.nodes, self.relay, fault);
                checked.map_err(|error| wrong(error.to_string()))?;
            }
        }
        Ok(self.steps.clone())
    }

    const fn family(&self) -> Family {
        match (self.ipv6, self.mixed) {
            (true, _) => Family::V6,
            (false, true) => Family::Mixed,
            (false, false) => Family::V4,
        }
    }

    async fn stay(&self, steps: Vec<String>, stop: &CancellationToken) -> Result<Finding, Failure> {
        tokio::spawn(stop_with_parent(stop.clone()));
        let begun = now();
        let bed = Testbed::make(self.nodes, self.family(), self.relay);
        let bed = tokio::select! {
            made = bed => made?,
            () = stop.cancelled() => return Ok(Finding::Good),
        };
        let places = bed.places().to_vec();
        let body = async |cluster: &Cluster| {
            let mut play = Play {
                hosts: self,
                cluster,
                bed,
                begun,
                lines: Lines::open(steps),
                waiting: None,
                live: cluster.live().map(|member| member.name.clone()).collect(),
            };
            play.tell_ready()?;
            play.go_on().await
        };
        self.setup
            .with_cluster(self.nodes, places, stop, body)
            .await
    }
}

/// The scenario, and the cluster that it is played on.
struct Play<'a> {
    hosts: &'a Hosts,
    cluster: &'a Cluster,
    bed: Testbed,
    begun: Instant,
    lines: Lines,
    /// The time before which no further step is taken.
    waiting: Option<Instant>,
    /// The nodes that were alive at the last look.
    live: Vec<String>,
}

impl Play<'_> {
    /// Play the scenario, and keep the hosts running after its last line. Returns only with an
    /// error, such as that every node has ended.
    async fn go_on(&mut self) -> Result<Finding, Failure> {
        let mut look = now() + LOOK;
        loop {
            tokio::select! {
                biased;
                () = until(self.bed.next_mending()) => {
                    for host in self.bed.mend(now()).await? {
                        self.tell("mended", What::Mended { host })?;
                    }
                }
                () = sleep_until(look) => {
                    self.look()?;
                    look = now() + LOOK;
                }
                () = until(self.waiting), if self.waiting.is_some() => self.waiting = None,
                line = self.lines.next(), if self.waiting.is_none() => self.on_line(&line).await?,
            }
        }
    }

    async fn on_line(&mut self, line: &str) -> Result<(), Failure> {
        let reason = match line.parse() {
            Ok(Step::Wait(length)) => {
                self.waiting = Some(now() + length);
                return Ok(());
            }
            Ok(Step::Fault(fault)) => match self.bed.apply(fault, now()).await {
                Ok(()) => return self.tell("fault", What::Fault(fault)),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.tell("refused", What::Refused { line, reason })
    }

    /// Report the nodes that have ended. Fails if none is left.
    fn look(&mut self) -> Result<(), Failure> {
        let live: Vec<String> = self.cluster.live().map(|it| it.name.clone()).collect();
        for name in std::mem::replace(&mut self.live, live.clone()) {
            if !live.contains(&name) {
                self.tell("ended", What::Ended { name })?;
            }
        }
        match live.is_empty() {
            true => Err(Failure::Run(
                "every node has ended; see the log files of the nodes (--keep-logs)".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn tell_ready(&self) -> Result<(), Failure> {
        let namespaces = self.bed.places().iter().map(|place| &place.namespace);
        let view =
            |(member, namespace): (&Member, &Option<PathBuf>)| (member.clone(), namespace.clone());
        let members: Vec<_> = self.cluster.members().zip(namespaces).map(view).collect();
        let nodes = members.iter().map(|(member, namespace)| HostView {
            name: &member.name,
            namespace: namespace.as_deref(),
            address: member.address,
            pid: member.pid,
            admin_socket: &member.admin_socket,
        });
        let cluster_dir = self.cluster.dir();
        let nodes = nodes.collect();
        self.tell("ready", What::Ready { cluster_dir, nodes })
    }

    fn tell(&self, event: &'static str, what: What<'_>) -> Result<(), Failure> {
        let elapsed_seconds = self.begun.elapsed().as_secs_f64();
        self.hosts.setup.print(&Event {
            event,
            elapsed_seconds,
            what,
        })
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Stop when the parent process has ended, since no process would end an orphan.
async fn stop_with_parent(stop: CancellationToken) {
    let parent = rustix::process::getppid();
    while rustix::process::getppid() == parent {
        sleep(LOOK).await;
    }
    stop.cancel();
}
