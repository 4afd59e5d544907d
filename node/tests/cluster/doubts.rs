//! Members whose old links are dead: a life that has lost its state, and a host whose address has
//! changed. The other members, or the member itself, dial beside the dead links.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};
use binomesh::cluster::Member;
use tokio::time::Instant;

use crate::bed::{self, Lone, counter, eventually, now};
use crate::hosts::{Host, two_hosts};

/// The longest time that a return may take. It should not depend on QUIC, which gives old links up
/// only after its idle timeout.
const SOON: Duration = Duration::from_secs(15);

fn seed_of(member: &Member) -> Seed {
    Seed {
        name: member.name.clone(),
        address: member.address.into(),
    }
}

/// Waits until all these nodes are one overlay.
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

fn is_soon(who: &str, begin: Instant) {
    let took = begin.elapsed();
    println!("{who}: back after {took:?}");
    assert!(took < SOON, "{took:?}");
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
    // The root knows no peer, because it has no seeds.
    root.start().await;
    let begin = now();
    whole(&[&root, &b, &c]).await;
    is_soon("a root without its state", begin);
    for node in [c, b, root] {
        assert_eq!(node.terminate().await, Some(0));
    }
}

/// The member has lost its state. It is started again before the others have found it down, and a
/// second time after that.
#[tokio::test]
async fn a_member_that_lost_its_state_is_back_soon() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let mut root = Lone::prepare(dir.path(), "root", &authority);
    let parent = seed_of(&root.start().await);
    let [mut x, mut other] = ["x", "other"].map(|name| {
        let mut node = Lone::prepare(dir.path(), name, &authority);
        node.config.parent = Some(parent.clone());
        node
    });
    x.config.bind = x.start().await.address;
    other.start().await;
    whole(&[&root, &x, &other]).await;
    for is_noticed in [false, true] {
        x.kill().await;
        std::fs::remove_dir_all(x.state()).unwrap();
        if is_noticed {
            eventually("it is found down", async || {
                let down = root.client().topology().await.ok()?.down;
                (down == ["x"]).then_some(())
            })
            .await;
        }
        x.start().await;
        let begin = now();
        whole(&[&root, &x, &other]).await;
        is_soon("a member without its state", begin);
    }
}

/// Two members on one host and one on another host. The hosts have dialled each other in both
/// directions.
struct Two {
    hosts: [Host; 2],
    nodes: Vec<Lone>,
    _dir: tempfile::TempDir,
}

impl Two {
    async fn formed(
        hosts: [Host; 2],
        network: impl Fn(u8) -> IpAddr,
        advertise: Option<u8>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
        let mut nodes: Vec<Lone> = Vec::new();
        for (name, host, port, parent) in [
            ("a", 0, 7700, None),
            ("moved", 1, 7701, Some(("a", 1, 7700))),
            // b is deployed under the moved member, so the first host dials this member too.
            ("b", 0, 7702, Some(("moved", 2, 7701))),
        ] {
            let mut node = Lone::prepare(dir.path(), name, &authority);
            node.namespace = Some(hosts[host].namespace());
            let any: IpAddr = match network(1) {
                IpAddr::V4(_) => [0; 4].into(),
                IpAddr::V6(_) => [0; 16].into(),
            };
            node.config.bind = (any, port).into();
            if let Some(number) = advertise.filter(|_| name == "moved") {
                node.config.advertise = vec![SocketAddr::new(network(number), port).into()];
            }
            node.config.parent = parent.map(|(name, number, port): (&str, u8, u16)| Seed {
                name: name.into(),
                address: SocketAddr::new(network(number), port).into(),
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

    /// For each node, how often it has lost a link.
    async fn lost_links(&self) -> Vec<u64> {
        let mut lost = Vec::new();
        for node in &self.nodes {
            let client = node.client();
            lost.push(counter(&client, "binomesh_transport_links_down_total", &[]).await);
        }
        lost
    }

    /// Waits until all nodes are one overlay over working links, and checks that all get a
    /// broadcast.
    async fn heard(&self) {
        self.whole().await;
        eventually("nobody is silent, or heard of through others", async || {
            for node in &self.nodes {
                let report = node.client().topology().await.ok()?;
                (report.down.is_empty() && report.relayed.is_empty()).then_some(())?;
            }
            Some(())
        })
        .await;
        let sender = self.nodes[2].client();
        let receipt = sender.broadcast("t", "hi", Some(bed::PATIENCE)).await;
        assert_eq!(receipt.unwrap().reached_count, 2);
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

fn v4(number: u8) -> IpAddr {
    [10, 99, 0, number].into()
}

fn v6(number: u8) -> IpAddr {
    format!("fd99::{number}").parse().unwrap()
}

#[tokio::test]
async fn a_member_whose_address_changes_is_back_at_once() {
    let _turn = bed::turn().await;
    let two = Two::formed(two_hosts().await, v4, Some(2)).await;
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
    // A dead link carries nothing, so a broadcast shows that the links are new.
    two.heard().await;
    is_soon("a member at another address", begin);
    two.end().await;
}

/// The interface is down for so long that the member is called down. Its address is gone for less
/// than a second.
#[tokio::test]
async fn a_moment_without_a_line_or_an_address_costs_no_link() {
    let _turn = bed::turn().await;
    let two = Two::formed(two_hosts().await, v4, None).await;
    let before = two.lost_links().await;
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
    two.heard().await;
    assert_eq!(two.lost_links().await, before);
    two.end().await;
}

/// A host with privacy extensions sends from a temporary address beside its permanent one. It sends
/// from a newer address before the former one is removed.
#[tokio::test]
async fn a_rotating_address_costs_no_link() {
    let _turn = bed::turn().await;
    let hosts = two_hosts().await;
    let host = &hosts[1];
    // With this lifetime the host only answers from this address and sends nothing else from there.
    host.run("ip addr change fd99::2/64 dev line preferred_lft 0")
        .await;
    host.run("ip addr add fd99::a/64 dev line nodad").await;
    let two = Two::formed(hosts, v6, None).await;
    let host = &two.hosts[1];
    let sends_from = async || {
        let route = host.run("ip -6 route get fd99::1").await;
        let mut words = route.split_whitespace().skip_while(|word| *word != "src");
        words.nth(1).map(str::to_owned)
    };
    let before = two.lost_links().await;
    for (former, newer) in [("a", "b"), ("b", "c")] {
        assert_eq!(sends_from().await, Some(format!("fd99::{former}")));
        host.run(&format!("ip addr add fd99::{newer}/64 dev line nodad"))
            .await;
        host.run(&format!(
            "ip addr change fd99::{former}/64 dev line preferred_lft 0"
        ))
        .await;
        two.heard().await;
        host.run(&format!("ip addr del fd99::{former}/64 dev line"))
            .await;
        two.heard().await;
        assert_eq!(sends_from().await, Some(format!("fd99::{newer}")));
    }
    // An address is missed after a second of absence.
    tokio::time::sleep(Duration::from_secs(2)).await;
    two.heard().await;
    assert_eq!(two.lost_links().await, before);
    two.end().await;
}
