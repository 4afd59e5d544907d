//! Members that are away from their old links: a life that has lost its state, and a host
//! whose address has changed. The others, or they themselves, dial beside what is dead.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};
use binomesh::cluster::Member;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::bed::{self, Lone, counter, eventually, now};

/// QUIC gives the old links up after half a minute, so who is back before was not waiting
/// for that.
const SOON: Duration = Duration::from_secs(15);

fn seed_of(member: &Member) -> Seed {
    Seed {
        name: member.name.clone(),
        address: member.address,
    }
}

/// Wait until all of them are one overlay.
async fn whole(nodes: &[&Lone]) {
    eventually("all are one overlay", async || {
        for node in nodes {
            let status = node.client().status().await.ok()?;
            let is_whole = status.healthy && status.population == Some(nodes.len() as u32);
            is_whole.then_some(())?;
        }
        Some(())
    })
    .await;
}

/// How often a link of this node has gone down.
async fn lost_links(node: &Lone) -> u64 {
    counter(&node.client(), "binomesh_transport_links_down_total", &[]).await
}

#[tokio::test]
async fn a_root_that_lost_its_state_is_dialled_by_those_who_found_it_down() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let mut root = Lone::prepare(dir.path(), "root", &authority);
    let member = root.start().await;
    root.config.bind = member.address;
    let [mut b, mut c] = ["b", "c"].map(|name| {
        let mut node = Lone::prepare(dir.path(), name, &authority);
        node.config.parent = Some(seed_of(&member));
        node
    });
    b.start().await;
    c.start().await;
    whole(&[&root, &b, &c]).await;
    root.kill().await;
    std::fs::remove_dir_all(&root.config.state_dir).unwrap();
    eventually("it is found down", async || {
        let down = b.client().topology().await.ok()?.down;
        (down == ["root"]).then_some(())
    })
    .await;
    // It knows nobody: it is a root without seeds.
    root.start().await;
    let begin = now();
    whole(&[&root, &b, &c]).await;
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    for node in [c, b, root] {
        assert_eq!(node.terminate().await, Some(0));
    }
}

/// A network namespace. It goes with this.
struct Host {
    pid: u32,
    _holder: Child,
}

impl Host {
    async fn make() -> Self {
        // It says when it is there, and stays until its input closes.
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo here; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("unshare (util-linux) runs");
        let mut line = String::new();
        let said = holder.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).await.unwrap();
        assert_eq!(line, "here\n", "a network namespace needs root");
        let host = Self {
            pid: holder.id().expect("running"),
            _holder: holder,
        };
        host.run("ip link set lo up").await;
        host
    }

    fn namespace(&self) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("ns/net")
    }

    /// Run a command of iproute2 in it.
    async fn run(&self, line: &str) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("nsenter")
            .arg(format!("--net={}", self.namespace().display()))
            .arg("--")
            .args(line.split_whitespace())
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .output()
            .await
            .expect("nsenter (util-linux) runs");
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

/// Two hosts on one line, 10.99.0.1 and 10.99.0.2.
async fn two_hosts() -> [Host; 2] {
    let hosts = [Host::make().await, Host::make().await];
    let peer = hosts[1].pid;
    let [here, there] = &hosts;
    here.run(&format!(
        "ip link add line type veth peer name line netns {peer}"
    ))
    .await;
    for (host, number) in [(here, 1), (there, 2)] {
        host.run(&format!("ip addr add 10.99.0.{number}/24 dev line"))
            .await;
        host.run("ip link set line up").await;
    }
    hosts
}

/// Two members at one host and two at another, which have dialled each other both ways.
struct Two {
    hosts: [Host; 2],
    nodes: Vec<Lone>,
    _dir: tempfile::TempDir,
}

impl Two {
    async fn formed(advertise: Option<u8>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
        let hosts = two_hosts().await;
        let mut nodes: Vec<Lone> = Vec::new();
        for (name, host, port, parent) in [
            ("a", 0, 7700, None),
            ("moved", 1, 7701, Some(("a", 1, 7700))),
            // Deployed under it, so that it is dialled from the other host, too.
            ("b", 0, 7702, Some(("moved", 2, 7701))),
        ] {
            let mut node = Lone::prepare(dir.path(), name, &authority);
            node.namespace = Some(hosts[host].namespace());
            node.config.bind = ([0, 0, 0, 0], port).into();
            if let Some(number) = advertise.filter(|_| name == "moved") {
                node.config.advertise = vec![([10, 99, 0, number], port).into()];
            }
            node.config.parent = parent.map(|(name, number, port): (&str, u8, u16)| Seed {
                name: name.into(),
                address: ([10, 99, 0, number], port).into(),
            });
            node.start().await;
            nodes.push(node);
        }
        let two = Self {
            hosts,
            nodes,
            _dir: dir,
        };
        two.whole().await;
        two
    }

    async fn whole(&self) {
        whole(&self.nodes.iter().collect::<Vec<_>>()).await;
    }

    async fn end(self) {
        for node in self.nodes.into_iter().rev() {
            assert_eq!(node.terminate().await, Some(0));
        }
    }
}

#[tokio::test]
async fn a_member_whose_address_changes_is_back_at_once() {
    let _turn = bed::turn().await;
    let two = Two::formed(Some(2)).await;
    let host = &two.hosts[1];
    host.run("ip addr del 10.99.0.2/24 dev line").await;
    host.run("ip addr add 10.99.0.3/24 dev line").await;
    let begin = now();
    let moved = &two.nodes[1];
    eventually("its log and its status name the address", async || {
        let log = moved.log();
        let mut lines = log.lines();
        let is_told = lines.any(|line| line.contains("WARN") && line.contains("10.99.0.2"));
        let status = moved.client().status().await.ok()?;
        (is_told && status.addresses_gone == [([10, 99, 0, 2], 7701).into()]).then_some(())
    })
    .await;
    eventually("nobody is called down, and no link is missed", async || {
        for node in &two.nodes {
            let report = node.client().topology().await.ok()?;
            (report.healthy && report.down.is_empty()).then_some(())?;
        }
        Some(())
    })
    .await;
    // What is dead carries nothing: a broadcast shows that the links are new.
    let receipt = two.nodes[2].client();
    let receipt = receipt.broadcast("t", "hi", Some(bed::PATIENCE)).await;
    assert_eq!(receipt.unwrap().reached_count, 2);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    two.whole().await;
    two.end().await;
}

/// An interface is down for longer than it takes to call somebody down, and an address for
/// less than a second.
#[tokio::test]
async fn a_moment_without_a_line_or_an_address_costs_no_link() {
    let _turn = bed::turn().await;
    let two = Two::formed(None).await;
    let mut before = Vec::new();
    for node in &two.nodes {
        before.push(lost_links(node).await);
    }
    let host = &two.hosts[1];
    host.run("ip link set line down").await;
    eventually("it is called down", async || {
        let down = two.nodes[0].client().topology().await.ok()?.down;
        (!down.is_empty()).then_some(())
    })
    .await;
    host.run("ip link set line up").await;
    two.whole().await;
    host.run("ip addr del 10.99.0.2/24 dev line").await;
    host.run("ip addr add 10.99.0.2/24 dev line").await;
    two.whole().await;
    let receipt = two.nodes[2].client();
    let receipt = receipt.broadcast("t", "hi", Some(bed::PATIENCE)).await;
    assert_eq!(receipt.unwrap().reached_count, 2);
    for (node, before) in two.nodes.iter().zip(before) {
        assert_eq!(lost_links(node).await, before, "{}", node.config.name);
    }
    two.end().await;
}
