//! Leaving is not failing, with real processes.

use std::time::Duration;

use binomesh::client::SubscriptionEvent;
use binomesh::cluster::Cluster;
use binomesh::report::UnreachedState;
use binomesh::{Due, Profile, Receipt, SendOptions, Signatures};
use binomesh_overlay::detector::{Goodbye, Message as Word};

use crate::bed::{self, counter, eventually, formed, member, ran, stop, verified};
use crate::forger::Forger;
use crate::readiness::{authority, is_ready, seed, started};

async fn broadcast(cluster: &Cluster, at: &str, more: &[&str]) -> std::process::Output {
    let dir = cluster.dir().display().to_string();
    let always = ["broadcast", "--cluster", &dir, "--node", at, "--json"];
    ran(&[&always[..], more].concat(), b"").await
}

fn receipt(output: &std::process::Output) -> Receipt {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Waits until the nodes `at` know that the members `gone` have left.
async fn wait_for_goodbyes(cluster: &Cluster, at: &[&str], gone: &[&str]) {
    for name in at {
        let client = member(cluster, name).client();
        eventually("all goodbyes have come", async || {
            let left = client.topology().await.ok()?.left;
            gone.iter()
                .all(|gone| left.iter().any(|name| name == gone))
                .then_some(())
        })
        .await;
    }
}

/// A leaf leaves by command. An inner node and the root leave by SIGTERM. With the default profile,
/// broadcasts would wait for a death longer than these broadcasts may take.
#[tokio::test]
async fn broadcasts_after_a_leave_are_complete_and_quick() {
    let _turn = bed::turn().await;
    let mut config = bed::config(6);
    config.profile = Profile::Default;
    let cluster = formed(config).await;
    let dir = cluster.dir().display().to_string();
    for (gone, others) in [("node-5", 4), ("node-1", 3), ("node-0", 2)] {
        if gone == "node-5" {
            let left = ran(&["leave", "--cluster", &dir, "--node", gone], b"").await;
            assert!(left.status.success(), "{left:?}");
        } else {
            assert_eq!(cluster.terminate(gone).await.unwrap(), Some(0), "{gone}");
        }
        wait_for_goodbyes(&cluster, &["node-2", "node-3"], &[gone]).await;
        for at in ["node-2", "node-3"] {
            let output = broadcast(&cluster, at, &["--timeout-seconds", "3", "x"]).await;
            let found = receipt(&output);
            assert!(output.status.success(), "{gone}: {found:?}");
            assert_eq!(found.expected_count, others, "{gone}: {found:?}");
            assert_eq!(found.reached_count, others, "{gone}: {found:?}");
        }
    }
    let to_it = [
        "send",
        "--cluster",
        &dir,
        "--node",
        "node-2",
        "--to",
        "node-5",
        "x",
    ];
    let refused = ran(&to_it, b"").await;
    assert!(!refused.status.success(), "{refused:?}");
    stop(cluster).await;
}

/// A host of the inventory stays expected, even after its goodbye.
#[tokio::test]
async fn a_host_that_is_expected_and_has_left_is_absent() {
    let _turn = bed::turn().await;
    let mut config = bed::config(4);
    config.expect = "node-[0-3]".parse().unwrap();
    let cluster = formed(config).await;
    assert_eq!(cluster.terminate("node-3").await.unwrap(), Some(0));
    wait_for_goodbyes(&cluster, &["node-1"], &["node-3"]).await;
    let output = broadcast(&cluster, "node-1", &["x"]).await;
    let found = receipt(&output);
    assert_eq!(output.status.code(), Some(1), "{found:?}");
    assert!(found.unreached.is_empty(), "{found:?}");
    let absent: Vec<(&str, bool)> = found
        .absent
        .iter()
        .map(|one| (one.name.as_str(), one.left))
        .collect();
    assert_eq!(absent, [("node-3", true)], "{found:?}");
    stop(cluster).await;
}

/// Some messages are published while a member drains and takes nothing any more, others while it is
/// away for a graceful restart. All reach its next life.
#[tokio::test]
async fn a_graceful_restart_loses_nothing_that_is_kept() {
    let _turn = bed::turn().await;
    let mut cluster = formed(bed::config(4)).await;
    let origin = member(&cluster, "node-1").client();
    let options = SendOptions {
        due: Due::Until(2 * bed::PATIENCE),
        ..SendOptions::default()
    };
    let leaving = member(&cluster, "node-3").client();
    let mut sent = Vec::new();
    let publish = |text: &'static str| {
        let (client, options) = (origin.clone(), options.clone());
        tokio::spawn(async move { client.broadcast_with(text, &options).await })
    };
    // The leaving member's own message waits for a stopped member, so the drain lasts long.
    cluster.pause("node-2").await.unwrap();
    let open = tokio::spawn({
        let client = leaving.clone();
        async move { client.broadcast("t", "open", Some(bed::PATIENCE)).await }
    });
    eventually("it has something open", async || {
        let sent = counter(&leaving, "binomesh_relay_events_total", &["\"published\""]).await;
        (sent > 0).then_some(())
    })
    .await;
    let drained = tokio::spawn({
        let client = leaving.clone();
        async move { client.leave(Some(Duration::from_secs(2))).await }
    });
    eventually("it drains", async || {
        sent.push(publish("while it drains"));
        let refused = counter(&leaving, "binomesh_relay_refused_total", &["\"draining\""]).await;
        (refused > 0).then_some(())
    })
    .await;
    cluster.resume("node-2").await.unwrap();
    drained.await.unwrap().unwrap();
    // The result of this broadcast does not matter here.
    let _ = open.await;
    wait_for_goodbyes(&cluster, &["node-1"], &["node-3"]).await;
    sent.push(publish("while it is away"));
    cluster.restart("node-3", "node-0").await.unwrap();
    let mut inbox = member(&cluster, "node-3")
        .client()
        .subscribe("#")
        .await
        .unwrap();
    for sending in sent {
        let receipt = sending.await.unwrap().unwrap();
        let is_it = |one: &binomesh::report::Unreached| one.name == "node-3";
        assert!(!receipt.unreached.iter().any(is_it), "{receipt:?}");
    }
    let first = tokio::time::timeout(bed::PATIENCE, inbox.next()).await;
    assert!(
        matches!(first, Ok(Some(Ok(SubscriptionEvent::Delivery(_))))),
        "{first:?}"
    );
    verified(&cluster).await;
    stop(cluster).await;
}

/// One receiver refuses the message because its payload is too long, and one because it is not
/// signed. They are started again, one after a goodbye and one after a kill, with settings that
/// allow the message.
#[tokio::test]
async fn a_kept_message_that_one_life_refused_reaches_the_next_life() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let origin = started(dir.path(), "origin", &authority, |_| ()).await;
    let parent = seed("origin", origin.config.bind);
    let mut small = started(dir.path(), "small", &authority, |config| {
        config.parent = Some(parent.clone());
        config.max_payload_bytes = 1000;
    })
    .await;
    let mut strict = started(dir.path(), "strict", &authority, |config| {
        config.parent = Some(parent.clone());
        config.signatures = Signatures::Require;
    })
    .await;
    for node in [&origin, &small, &strict] {
        is_ready(node, 3).await;
    }
    let options = SendOptions {
        due: Due::Until(2 * bed::PATIENCE),
        ..SendOptions::default()
    };
    let client = origin.client();
    let kept = tokio::spawn(async move { client.broadcast_with(vec![b'x'; 1001], &options).await });
    for (node, reason) in [(&small, "\"too-large\""), (&strict, "\"unsigned\"")] {
        let client = node.client();
        eventually(reason, async || {
            let refused = counter(&client, "binomesh_relay_refused_total", &[reason]).await;
            (refused > 0).then_some(())
        })
        .await;
    }
    assert!(!kept.is_finished());
    small.config.max_payload_bytes = 1001;
    assert_eq!(small.stop().await, Some(0));
    strict.config.signatures = Signatures::Off;
    strict.kill().await;
    for node in [&mut small, &mut strict] {
        node.start().await;
        let mut inbox = node.client().subscribe("#").await.unwrap();
        let first = tokio::time::timeout(bed::PATIENCE, inbox.next()).await;
        assert!(
            matches!(first, Ok(Some(Ok(SubscriptionEvent::Delivery(_))))),
            "{first:?}"
        );
    }
    let receipt = kept.await.unwrap().unwrap();
    assert!(receipt.is_complete(), "{receipt:?}");
    assert_eq!(receipt.reached_count, 2, "{receipt:?}");
}

/// The last node is alone, and no other node has failed.
#[tokio::test]
async fn all_others_may_leave() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    for gone in ["node-0", "node-2"] {
        assert_eq!(cluster.terminate(gone).await.unwrap(), Some(0), "{gone}");
    }
    wait_for_goodbyes(&cluster, &["node-1"], &["node-0", "node-2"]).await;
    assert_eq!(verified(&cluster).await.1.nodes, 1);
    stop(cluster).await;
}

/// A process with a certificate of its own cannot leave in the name of a member. Its claim is only
/// a rumour, and the victim answers that rumour.
#[tokio::test]
async fn a_goodbye_in_anothers_name_is_refused_and_counted() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let client = member(&cluster, "node-1").client();
    let report = client.topology().await.unwrap();
    let victim = member(&cluster, "node-2")
        .client()
        .topology()
        .await
        .unwrap();
    let forger = Forger::linked(&cluster, &report).await;
    let own = forger.goodbye(victim.boot);
    let empty = Vec::new();
    for proof in [empty, vec![7; 700], own] {
        let goodbye = Goodbye {
            peer: victim.id,
            boot: victim.boot,
            proof,
        };
        forger.say(report.id, Word::Goodbye(goodbye));
    }
    eventually("all are refused", async || {
        let refused = counter(&client, "binomesh_messages_refused_total", &["\"goodbye\""]).await;
        (refused >= 1).then_some(())
    })
    .await;
    let found = client
        .broadcast("t", "x", Some(bed::PATIENCE))
        .await
        .unwrap();
    assert_eq!(
        (found.expected_count, found.reached_count),
        (2, 2),
        "{found:?}"
    );
    assert_eq!(counter(&client, "binomesh_peers_left_total", &[]).await, 0);
    let is_refused = |one: &binomesh::report::Unreached| one.state == UnreachedState::Refused;
    assert!(!found.unreached.iter().any(is_refused));
    stop(cluster).await;
}
