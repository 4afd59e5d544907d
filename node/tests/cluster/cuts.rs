//! Cuts of the line between two hosts: a partition, and a member whose interface is down.

use std::net::SocketAddr;
use std::time::Duration;

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};

use crate::bed::{self, Lone, eventually};
use crate::hosts::{Host, two_hosts};

/// Members on two hosts. The line is cut at the second host.
pub(crate) struct Members {
    hosts: [Host; 2],
    pub(crate) nodes: Vec<Lone>,
    _dir: tempfile::TempDir,
}

impl Members {
    /// Each place has the name of a member, the number of its host, and the number of its parent.
    pub(crate) async fn formed(places: &[(&str, usize, Option<usize>)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
        let hosts = two_hosts().await;
        let seed = |number: usize| {
            let (name, host, _) = places[number];
            let address = SocketAddr::from(([10, 99, 0, host as u8 + 1], 7700 + number as u16));
            let name = name.into();
            Seed {
                name,
                address: address.into(),
            }
        };
        let mut nodes: Vec<Lone> = Vec::new();
        for (number, (name, host, parent)) in places.iter().enumerate() {
            let mut node = Lone::prepare(dir.path(), name, &authority);
            node.namespace = Some(hosts[*host].namespace());
            node.config.bind = seed(number).address.address().expect("no name");
            node.config.parent = parent.map(seed);
            node.config.grace_seconds = 1;
            node.start().await;
            nodes.push(node);
        }
        let members = Self {
            hosts,
            nodes,
            _dir: dir,
        };
        are_ready(&members.nodes, 0).await;
        members
    }

    pub(crate) async fn cut(&self) {
        self.hosts[1].run("ip link set line down").await;
    }

    pub(crate) async fn mend(&self) {
        self.hosts[1].run("ip link set line up").await;
        are_ready(&self.nodes, 0).await;
    }
}

/// Waits until these nodes are one overlay that counts `lost_count` lost members. If any are lost,
/// checks that no node with a place takes itself for an island meanwhile.
async fn are_ready(nodes: &[Lone], lost_count: u32) {
    let mut seen = Vec::new();
    let what = format!("{} are ready, {lost_count} are lost", nodes.len());
    eventually(&what, async || {
        seen.clear();
        for node in nodes {
            seen.push(node.client().status().await.ok()?);
        }
        let is_island = |status: &&binomesh::report::Status| {
            status.population.is_some() && lost_count > 0 && !status.anchored
        };
        let island = seen.iter().find(is_island);
        assert!(island.is_none(), "{island:?}");
        let is_ready = seen.iter().all(|status| {
            status.ready
                && status.population == Some(nodes.len() as u32)
                && status.lost_count == lost_count
        });
        is_ready.then_some(())
    })
    .await;
}

/// A broadcast of the last node reaches all other nodes of the list, and has no other destinations.
async fn is_heard(nodes: &[Lone]) {
    let (last, others) = nodes.split_last().unwrap();
    let sent = last.client();
    let sent = sent.broadcast("t", "x", Some(Duration::from_secs(20)));
    let receipt = sent.await.expect("a receipt");
    let mut reached = receipt.reached.to_vec();
    reached.sort_unstable();
    let names: Vec<&str> = others.iter().map(|node| &*node.config.name).collect();
    assert_eq!(reached, names, "{receipt:?}");
    assert!(receipt.is_complete(), "{receipt:?}");
}

#[tokio::test]
async fn both_parts_of_a_partition_stay_ready_and_are_one_overlay_again() {
    let _turn = bed::turn().await;
    let members = Members::formed(&[
        ("a0", 0, None),
        ("a1", 0, Some(0)),
        ("a2", 0, Some(0)),
        ("b0", 1, Some(0)),
        ("b1", 1, Some(3)),
        ("b2", 1, Some(3)),
    ])
    .await;
    members.cut().await;
    for part in [&members.nodes[..3], &members.nodes[3..]] {
        are_ready(part, 3).await;
        is_heard(part).await;
    }
    members.mend().await;
    is_heard(&members.nodes).await;
}

/// The member is first a leaf and then the root.
#[tokio::test]
async fn a_member_whose_interface_is_down_is_unready_and_the_others_are_not() {
    let _turn = bed::turn().await;
    for places in [
        [("a", 0, None), ("b", 0, Some(0)), ("far", 1, Some(0))],
        [("far", 1, None), ("a", 0, Some(0)), ("b", 0, Some(1))],
    ] {
        let mut members = Members::formed(&places).await;
        members.cut().await;
        let is_far = |node: &Lone| node.config.name == "far";
        let far = members.nodes.iter().position(is_far).unwrap();
        let far = members.nodes.remove(far);
        eventually("it is cut off", async || {
            let status = far.client().status().await.ok()?;
            let is_told = status.reason.is_some_and(|it| it.contains("cut off"));
            (!status.ready && is_told).then_some(())
        })
        .await;
        are_ready(&members.nodes, 1).await;
        members.nodes.push(far);
        members.mend().await;
    }
}
