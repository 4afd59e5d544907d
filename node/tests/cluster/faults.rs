//! Absent parents, deaths, pauses and leaves, with real processes.

use std::net::UdpSocket;
use std::time::Duration;

use binomesh::certificate::{Authority, Validity};
use binomesh::client::SubscriptionEvent;
use binomesh::cluster::Cluster;
use binomesh::report::UnreachedState;
use binomesh::{Profile, Receipt, Seed};

use crate::bed::{self, Lone, eventually, formed, member, ran, signal, stop, verified};

fn folder(cluster: &Cluster) -> String {
    cluster.dir().display().to_string()
}

fn receipt(output: &std::process::Output) -> Receipt {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[tokio::test]
async fn a_child_waits_for_its_parent_and_joins_when_it_comes() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    // A silent socket holds the port.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut child = Lone::prepare(dir.path(), "child", &authority);
    child.config.parent = Some(Seed {
        name: "parent".into(),
        address: address.into(),
    });
    child.start().await;
    let word = format!("parent@{address}");
    eventually("a log line that names the parent", async || {
        let log = child.log();
        let mut lines = log.lines();
        lines
            .any(|line| line.contains("WARN") && line.contains(&word))
            .then_some(())
    })
    .await;
    let status = child.client().status().await.unwrap();
    assert!(!status.healthy && status.reason.is_some(), "{status:?}");

    drop(silent);
    let mut parent = Lone::prepare(dir.path(), "parent", &authority);
    parent.config.bind = address;
    parent.start().await;
    eventually("both are one overlay", async || {
        let status = child.client().status().await.ok()?;
        (status.healthy && status.population == Some(2)).then_some(())
    })
    .await;
    assert_eq!(child.client().topology().await.unwrap().rank, Some(1));
    assert_eq!(child.terminate().await, Some(0));
    assert_eq!(parent.terminate().await, Some(0));
}

#[tokio::test]
async fn a_killed_node_gets_back_in_with_its_identity() {
    let _turn = bed::turn().await;
    let mut cluster = formed(bed::config(6)).await;
    let before = member(&cluster, "node-3");
    let boot = before.client().topology().await.unwrap().boot;
    // The node returns once before the others have noticed its death, and once after.
    for noticed in [false, true] {
        cluster.kill("node-3").await.unwrap();
        if noticed {
            verified(&cluster).await;
        }
        cluster.restart("node-3", "node-0").await.unwrap();
        assert_eq!(member(&cluster, "node-3").address, before.address);
        let (reports, found) = verified(&cluster).await;
        assert_eq!(found.nodes, 6);
        let again = reports
            .iter()
            .find(|report| report.name == "node-3")
            .unwrap();
        assert_eq!(again.id.to_string(), before.id);
        assert!(again.boot > boot);
        let receipt = member(&cluster, "node-5").client();
        let receipt = receipt.broadcast("t", "again", Some(bed::PATIENCE)).await;
        assert_eq!(receipt.unwrap().reached_count, 5);
    }
    stop(cluster).await;
}

#[tokio::test]
async fn a_node_that_leaves_or_is_terminated_ends_well_and_the_others_close_ranks() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(5)).await;
    let dir = folder(&cluster);
    let left = ran(&["leave", "--cluster", &dir, "--node", "node-4"], b"").await;
    assert!(left.status.success(), "{left:?}");
    eventually("node-4 has ended", async || {
        cluster
            .live()
            .all(|member| member.name != "node-4")
            .then_some(())
    })
    .await;
    assert_eq!(verified(&cluster).await.1.nodes, 4);
    // First an inner node ends, then the root.
    for (name, nodes) in [("node-1", 3), ("node-0", 2)] {
        assert_eq!(cluster.terminate(name).await.unwrap(), Some(0), "{name}");
        assert_eq!(verified(&cluster).await.1.nodes, nodes);
    }
    stop(cluster).await;
}

#[tokio::test]
async fn a_paused_node_is_unconfirmed_and_reached_again_afterwards() {
    let _turn = bed::turn().await;
    let mut config = bed::config(5);
    // With this profile the paused node is still a member when the broadcast begins.
    config.profile = Profile::Default;
    let cluster = formed(config).await;
    let dir = folder(&cluster);
    let paused = member(&cluster, "node-4");
    let arguments = ["broadcast", "--cluster", &dir, "--node", "node-1", "--json"];
    signal(paused.pid, "STOP");
    let partial = [&arguments[..], &["--timeout-seconds", "1", "x"]].concat();
    let output = ran(&partial, b"").await;
    signal(paused.pid, "CONT");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = receipt(&output);
    assert_eq!(
        (found.expected_count, found.reached_count),
        (4, 3),
        "{found:?}"
    );
    let [unreached] = found.unreached.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(unreached.name, "node-4");
    assert_eq!(unreached.state, UnreachedState::Unconfirmed);

    assert_eq!(verified(&cluster).await.1.nodes, 5);
    let output = ran(&[&arguments[..], &["y"]].concat(), b"").await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(receipt(&output).reached_count, 4);
    stop(cluster).await;
}

#[tokio::test]
async fn payloads_come_from_arguments_files_and_standard_input() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let dir = folder(&cluster);
    let mut inboxes = Vec::new();
    for name in ["node-1", "node-2"] {
        let inbox = member(&cluster, name).client().subscribe("#").await;
        inboxes.push(inbox.unwrap());
    }
    let bytes: Vec<u8> = (0..400_000_u32).map(|i| (i % 251) as u8).collect();
    let file = cluster.dir().join("payload");
    std::fs::write(&file, &bytes).unwrap();
    let file = file.display().to_string();
    let at = ["--cluster", &dir, "--node", "node-0", "--json"];
    let all = |command, more: &[&'static str]| {
        let mut arguments = vec![command];
        arguments.extend(at);
        arguments.extend(more);
        arguments
    };
    let from_file = [all("broadcast", &["--file"]), vec![file.as_str()]].concat();
    for (arguments, stdin, payload, receivers) in [
        (from_file, &b""[..], &bytes[..], &[0, 1][..]),
        (all("broadcast", &[]), &bytes, &bytes, &[0, 1]),
        (all("send", &["--to", "node-2", "one"]), b"", b"one", &[1]),
        (
            all("send", &["--to", "node-1,node-2"]),
            b"two",
            b"two",
            &[0, 1],
        ),
    ] {
        let output = ran(&arguments, stdin).await;
        assert!(output.status.success(), "{arguments:?} {output:?}");
        let receipt = receipt(&output);
        assert_eq!(receipt.reached_count as usize, receivers.len());
        let blake3 = blake3::hash(payload).to_hex().to_string();
        for receiver in receivers {
            let event = tokio::time::timeout(bed::PATIENCE, inboxes[*receiver].next()).await;
            match event.expect("in time") {
                Some(Ok(SubscriptionEvent::Delivery(delivery))) => {
                    assert_eq!(
                        (delivery.id, delivery.blake3),
                        (receipt.id.clone(), blake3.clone())
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    stop(cluster).await;
}

/// The others count the stopped member out. At most 1.5 s after the member goes on, it notices this
/// and is unready, until the others count it again.
#[tokio::test]
async fn a_stopped_member_is_unready_until_it_is_counted_again() {
    let _turn = bed::turn().await;
    let mut config = bed::config(5);
    config.profile = Profile::Default;
    let cluster = formed(config).await;
    let root = member(&cluster, "node-0").client();
    let stopped = member(&cluster, "node-3").client();
    cluster.pause("node-3").await.unwrap();
    eventually("it is counted out", async || {
        let status = root.status().await.ok()?;
        (status.population == Some(4)).then_some(())
    })
    .await;
    cluster.resume("node-3").await.unwrap();
    let since = bed::now();
    eventually("it is counted again", async || {
        let before = root.status().await.ok()?;
        let own = stopped.status().await.ok()?;
        let after = root.status().await.ok()?;
        let is_counted = own.epoch == before.epoch || own.epoch == after.epoch;
        let has_just_resumed = since.elapsed() < Duration::from_millis(1500);
        assert!(is_counted || !own.ready || has_just_resumed, "{own:?}");
        (own.ready && own.epoch == after.epoch).then_some(())
    })
    .await;
    let receipt = root.broadcast("t", "back", Some(bed::PATIENCE)).await;
    assert_eq!(receipt.unwrap().reached_count, 4);
}
