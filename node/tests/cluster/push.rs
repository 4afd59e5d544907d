//! Files to all members: whole and checked at each, or named with the reason.

use std::path::PathBuf;

use binomesh::cluster::Cluster;
use binomesh::push::{PushOptions, PushReport};
use tokio::io::AsyncWriteExt;

use crate::bed::{self, eventually, formed, member, ran, stop};

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i * i % 251) as u8).collect()
}

fn folder(cluster: &Cluster, node: &str) -> PathBuf {
    cluster.dir().join(node).join("files")
}

/// What is in a node's folder for files, those that are not whole included.
fn listed(cluster: &Cluster, node: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder(cluster, node)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

async fn push(cluster: &Cluster, more: &[&str]) -> (Option<i32>, PushReport) {
    let dir = cluster.dir().display().to_string();
    let always = ["push", "--cluster", &dir, "--node", "node-1", "--json"];
    let output = ran(&[&always[..], more].concat(), b"").await;
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

fn file(cluster: &Cluster, name: &str, bytes: &[u8]) -> String {
    let path = cluster.dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_file_reaches_all_and_what_fails_at_one_node_is_named_and_holds_up_no_other() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(6)).await;
    let others = ["node-0", "node-2", "node-3", "node-4", "node-5"];
    let content = bytes((5 << 20) + 12_345);
    let path = file(&cluster, "data", &content);
    for strategy in ["auto", "binomial", "sibling-tree"] {
        let arguments = [path.as_str(), "--name", strategy, "--strategy", strategy];
        let (status, report) = push(&cluster, &arguments).await;
        assert_eq!(status, Some(0), "{report:?}");
        assert_eq!(report.stored, others);
        assert_eq!(report.blake3, blake3::hash(&content).to_hex().to_string());
        for node in others {
            let stored = std::fs::read(folder(&cluster, node).join(strategy)).unwrap();
            assert!(stored == content, "{node}: other bytes");
        }
    }

    // One has a file of that name, one has lost its folder.
    let small = file(&cluster, "small", b"new");
    std::fs::write(folder(&cluster, "node-2").join("small"), "old").unwrap();
    std::fs::remove_dir_all(folder(&cluster, "node-4")).unwrap();
    let (status, report) = push(&cluster, &[&small]).await;
    assert_eq!(status, Some(1), "{report:?}");
    assert_eq!(report.stored, ["node-0", "node-3", "node-5"]);
    let [exists, lost] = report.failed.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(exists.name, "node-2");
    assert!(exists.reason.contains("exists") && exists.reason.contains("--replace"));
    assert_eq!(lost.name, "node-4");
    assert!(lost.reason.contains("cannot write in"), "{lost:?}");
    let kept = std::fs::read(folder(&cluster, "node-2").join("small")).unwrap();
    assert_eq!(kept, b"old");

    let (_, report) = push(&cluster, &[&small, "--replace"]).await;
    assert_eq!(report.stored, ["node-0", "node-2", "node-3", "node-5"]);
    let empty = file(&cluster, "empty", b"");
    let (_, report) = push(&cluster, &[&empty]).await;
    assert_eq!(report.stored_count, 4, "{report:?}");
    for node in ["node-0", "node-2", "node-3", "node-5"] {
        let expected = ["auto", "binomial", "empty", "sibling-tree", "small"];
        assert_eq!(listed(&cluster, node), expected, "{node}");
        let small = std::fs::read(folder(&cluster, node).join("small")).unwrap();
        assert_eq!(small, b"new");
    }
    stop(cluster).await;
}

/// In the middle of a chain: those behind it get their pieces all the same.
#[tokio::test]
async fn the_death_of_a_node_on_the_way_costs_only_that_node() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(8)).await;
    let content = bytes(24 << 20);
    let origin = member(&cluster, "node-0");
    let (mut tap, source) = tokio::io::duplex(1 << 20);
    let options = PushOptions::new("data", content.len() as u64);
    let pushing = tokio::spawn(async move { origin.client().push(source, &options, |_| ()).await });
    tap.write_all(&content[..12 << 20]).await.unwrap();
    eventually("some of it has come", async || {
        let coming = std::fs::read_dir(folder(&cluster, "node-4")).unwrap();
        let long = coming.filter(|one| one.as_ref().unwrap().metadata().unwrap().len() > 1 << 20);
        (long.count() == 1).then_some(())
    })
    .await;
    cluster.kill("node-4").await.unwrap();
    tap.write_all(&content[12 << 20..]).await.unwrap();
    drop(tap);
    let report = pushing.await.unwrap().unwrap();
    let rest = ["node-1", "node-2", "node-3", "node-5", "node-6", "node-7"];
    assert_eq!(report.stored, rest, "{report:?}");
    let failed: Vec<&str> = report.failed.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(failed, ["node-4"], "{report:?}");
    for node in rest {
        assert!(std::fs::read(folder(&cluster, node).join("data")).unwrap() == content);
        assert_eq!(listed(&cluster, node), ["data"], "{node}");
    }
    stop(cluster).await;
}

#[tokio::test]
async fn what_ends_early_is_an_error_and_leaves_nothing_behind() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(4)).await;
    let origin = member(&cluster, "node-0");
    let content = bytes(3 << 20);
    let options = PushOptions::new("data", 4 << 20);
    let refused = origin.client().push(&content[..], &options, |_| ()).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("3145728 of 4194304"), "{error}");
    let named = PushOptions::new("../data", 1);
    let refused = origin.client().push(&content[..], &named, |_| ()).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("../data"), "{error}");
    for node in ["node-1", "node-2", "node-3"] {
        eventually("it is forgotten", async || {
            listed(&cluster, node).is_empty().then_some(())
        })
        .await;
    }
    stop(cluster).await;
}
