//! Readiness while a cluster is restarted: one process after another, from the last to the first,
//! and after a power cut.

use std::time::Duration;

use binomesh::Seed;

use crate::bed::{self, Lone, eventually};
use crate::readiness::{authority, free, is_ready, seed, started, status};

/// `count` names and addresses.
fn places(count: usize) -> Vec<Seed> {
    let name = |number| format!("n{number}");
    (0..count)
        .map(|number| seed(&name(number), free()))
        .collect()
}

/// One node after the other gets SIGTERM and is started again. The root has seeds only. No other
/// node takes itself for an island at any moment.
#[tokio::test]
async fn a_rolling_restart_keeps_the_others_ready() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let places = places(5);
    let mut nodes: Vec<Lone> = Vec::new();
    for (number, own) in places.iter().enumerate() {
        let node = started(dir.path(), &own.name, &authority, |config| {
            config.bind = own.address.address().expect("no name");
            config.parent = places.first().filter(|_| number > 0).cloned();
            config.seeds.clone_from(&places);
        });
        nodes.push(node.await);
    }
    for node in &nodes {
        is_ready(node, 5).await;
    }
    for number in 0..nodes.len() {
        let mut node = nodes.remove(number);
        let restart = async {
            assert_eq!(node.stop().await, Some(0), "{}", node.log());
            node.start().await;
            is_ready(&node, 5).await;
        };
        let watch = async {
            loop {
                for other in &nodes {
                    let status = status(other).await;
                    assert!(status.anchored, "n{number} restarts: {status:?}");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = restart => {}
            () = watch => {}
        }
        nodes.insert(number, node);
        for node in &nodes {
            is_ready(node, 5).await;
            assert_eq!(status(node).await.lost_count, 0, "{}", node.config.name);
        }
    }
}

/// A chain whose children start before their parents.
#[tokio::test]
async fn of_an_ordered_start_nobody_is_ready_before_the_first() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let places = places(4);
    let mut nodes: Vec<Lone> = Vec::new();
    for number in (1..4).rev() {
        let (own, parent) = (&places[number], &places[number - 1]);
        let node = started(dir.path(), &own.name, &authority, |config| {
            config.bind = own.address.address().expect("no name");
            config.parent = Some(parent.clone());
        });
        let node = node.await;
        eventually("its parent does not answer", async || {
            for node in nodes.iter().chain([&node]) {
                let status = status(node).await;
                assert!(!status.ready && !status.anchored, "{status:?}");
            }
            let reason = status(&node).await.reason?;
            let is_named = reason.contains(&parent.to_string());
            (is_named && !reason.contains("no answer yet")).then_some(())
        })
        .await;
        nodes.push(node);
    }
    let first = started(dir.path(), "n0", &authority, |config| {
        config.bind = places[0].address.address().expect("no name");
    })
    .await;
    for node in nodes.iter().chain([&first]) {
        is_ready(node, 4).await;
    }
}

/// The chain of contacts ends at the first node, which stays dead. Five nodes are expected, so two
/// nodes are not the cluster, and three nodes are.
#[tokio::test]
async fn after_a_power_cut_more_than_half_of_those_expected_are_ready() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let places = places(4);
    let mut nodes: Vec<Lone> = Vec::new();
    for (number, own) in places.iter().enumerate() {
        let node = started(dir.path(), &own.name, &authority, |config| {
            config.bind = own.address.address().expect("no name");
            config.seeds = places[..number].last().cloned().into_iter().collect();
            config.expect = "n[0-4]".parse().unwrap();
        });
        nodes.push(node.await);
    }
    for node in &nodes {
        is_ready(node, 4).await;
    }
    for node in &mut nodes {
        node.kill().await;
    }
    for node in &mut nodes[1..3] {
        node.start().await;
    }
    eventually("two are an island", async || {
        for node in &nodes[1..3] {
            let status = status(node).await;
            assert!(!status.ready && !status.anchored, "{status:?}");
            (status.healthy && status.population == Some(2)).then_some(())?;
        }
        Some(())
    })
    .await;
    nodes[3].start().await;
    for node in &nodes[1..] {
        is_ready(node, 3).await;
    }
}
