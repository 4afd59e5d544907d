//! [SFT06] §3 with real processes: links of the sibling tree, and messages that go round dead
//! members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use binomesh::client::SubscriptionEvent;
use binomesh::report::UnreachedState;
use binomesh::{NodeReport, Profile, Receipt, Router};
use binomesh_overlay::{Population, Rank};
use binomesh_routing::sibling_tree::{Fanout, Links, SiblingTree};

use crate::bed::{self, eventually, formed, member, ran, stop, verified};
use crate::structure::{expected, names};

fn by_rank(reports: &[NodeReport]) -> Vec<String> {
    let mut ranked: Vec<&NodeReport> = reports.iter().collect();
    ranked.sort_by_key(|report| report.rank);
    ranked.iter().map(|report| report.name.clone()).collect()
}

fn shape(nodes: usize, fanout: u32) -> SiblingTree {
    let population = Population::new(u32::try_from(nodes).unwrap()).unwrap();
    SiblingTree::new(population, Fanout::new(fanout).unwrap())
}

/// With the profile `default` nodes notice deaths after about 0.9 s at the earliest. By then every
/// live member has the first message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_children_of_the_root_are_gone_round_and_named() {
    let _turn = bed::turn().await;
    let mut config = bed::config(31);
    config.profile = Profile::Default;
    config.grace_seconds = 30;
    config.router = Router::named("aware").unwrap();
    config.fanout = 2;
    let cluster = formed(config).await;
    let names = by_rank(&verified(&cluster).await.0);
    let dead = [names[1].clone(), names[2].clone()];
    let mut inboxes = BTreeMap::new();
    for name in names.iter().skip(3) {
        let inbox = member(&cluster, name).client().subscribe("#").await;
        inboxes.insert(name.clone(), inbox.unwrap());
    }
    cluster.kill_all(&dead).await.unwrap();
    let dir = cluster.dir().display().to_string();
    let at = ["--cluster", &dir, "--node", &names[0], "--json"];
    let tree = ["--strategy", "sibling-tree", "first"];
    let output = ran(&[&["broadcast"], &at[..], &tree].concat(), b"").await;
    assert_eq!(output.status.code(), Some(1), "two are dead: {output:?}");
    let receipt: Receipt = serde_json::from_slice(&output.stdout).unwrap();
    let expected: BTreeSet<&String> = dead.iter().collect();
    assert_eq!(receipt.reached_count, 28, "{receipt:?}");
    // On a busy machine other members may be late as well.
    let replaced: BTreeSet<&String> = receipt.replaced.iter().collect();
    assert!(replaced.is_superset(&expected), "{receipt:?}");
    let unreached = receipt.unreached.iter().map(|one| &one.name);
    assert_eq!(unreached.collect::<BTreeSet<_>>(), expected);

    let five = [3, 1, 17, 30, 9].map(|rank: usize| names[rank].clone());
    let five = five.join(",");
    let to = ["--to", &five, "second"];
    let output = ran(&[&["send"], &at[..], &to].concat(), b"").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let receipt: Receipt = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(receipt.reached_count, 4, "{receipt:?}");
    let [lost] = &receipt.unreached[..] else {
        panic!("{receipt:?}");
    };
    assert_eq!((&lost.name, &lost.reason[..]), (&names[1], "down"));
    assert_eq!(lost.state, UnreachedState::Unconfirmed);

    // Only the named members get the second message, and no member gets a message twice. A
    // superfluous copy would have come before the last message.
    let last = [&["broadcast"], &at[..], &["last"]].concat();
    ran(&last, b"").await;
    for (name, mut inbox) in inboxes {
        let mut got = Vec::new();
        while got.last().is_none_or(|payload| payload != "bGFzdA==") {
            match tokio::time::timeout(bed::PATIENCE, inbox.next()).await {
                Ok(Some(Ok(SubscriptionEvent::Delivery(one)))) => got.push(one.payload_base64),
                other => panic!("{name}: {other:?} after {got:?}"),
            }
        }
        let is_named = five.split(',').any(|one| one == name);
        let second = is_named.then_some("c2Vjb25k");
        let all = ["Zmlyc3Q="].into_iter().chain(second).chain(["bGFzdA=="]);
        assert_eq!(got, all.collect::<Vec<_>>(), "{name}");
    }
    stop(cluster).await;
}

/// The router goes over links of the sibling tree, so these links stay, as do the links of the
/// graph and of the deployment tree. All other links end when they have been idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_the_tree_are_held_for_routers_that_go_over_them() {
    let _turn = bed::turn().await;
    let mut config = bed::config(20);
    config.router = Router::named("variant").unwrap();
    config.fanout = 3;
    let cluster = formed(config).await;
    eventually("exactly the links of graph and both trees", async || {
        let (reports, _) = verified(&cluster).await;
        let by_rank = by_rank(&reports);
        let shape = shape(by_rank.len(), 3);
        let graph = expected(&reports);
        let is_exact = |report: &NodeReport| {
            let mut wanted = graph[&*report.name].clone();
            wanted.extend(names(report.parent.iter().chain(&report.children)));
            let kin = shape.neighbours(Rank(report.rank.unwrap()), Links::SiblingTree);
            wanted.extend(kin.map(|rank| by_rank[rank.0 as usize].as_str()));
            names(&report.links) == wanted
        };
        reports.iter().all(is_exact).then_some(())
    })
    .await;
    stop(cluster).await;
}

/// `examples/custom_router.rs` joins a cluster of processes of the program `binomesh`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_of_ones_own_goes_round_a_dead_member_of_a_live_cluster() {
    let _turn = bed::turn().await;
    let binary = Path::new(env!("CARGO_BIN_EXE_binomesh"));
    let example = binary.with_file_name("examples").join("custom_router");
    assert!(
        example.exists(),
        "first: cargo build -p binomesh --examples"
    );
    let mut command = tokio::process::Command::new(example);
    let output = command.arg(binary).kill_on_drop(true).output();
    let output = tokio::time::timeout(bed::PATIENCE, output).await;
    let output = output.expect("in time").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let reached = text.contains("reached [\"node-5\", \"node-12\"]");
    assert!(reached && text.contains("15 → 7: over"), "{text}");
}
