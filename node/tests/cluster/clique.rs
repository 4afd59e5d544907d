//! Clusters without a deployment tree: every process starts at once, with a list of peers.

use binomesh::Bootstrap;
use binomesh::cluster::{Cluster, ClusterConfig};

use crate::bed::{self, formed, stop, verified};

fn config(nodes: u32) -> ClusterConfig {
    let mut config = bed::config(nodes);
    config.bootstrap = Bootstrap::Clique;
    config
}

/// Ranks are the order of the list: `node-N` has rank N.
async fn assert_ranks_are_ordinals(cluster: &Cluster) {
    let (reports, _) = verified(cluster).await;
    for report in &reports {
        assert_eq!(
            Some(report.name.as_str()),
            report.rank.map(|rank| format!("node-{rank}")).as_deref()
        );
    }
}

#[tokio::test]
async fn one_list_forms_the_graph_in_its_order_and_takes_members_back() {
    let _turn = bed::turn().await;
    let mut cluster = formed(config(9)).await;
    assert_ranks_are_ordinals(&cluster).await;
    cluster.kill("node-0").await.expect("killed");
    verified(&cluster).await;
    cluster
        .restart("node-0", "node-1")
        .await
        .expect("restarted");
    let newcomer = cluster.join("node-1").await.expect("joined");
    let (reports, _) = verified(&cluster).await;
    assert_eq!(reports.len(), 10);
    assert!(reports.iter().any(|report| report.name == newcomer));
    stop(cluster).await;
}

#[tokio::test]
async fn three_wrong_lists_and_two_dead_peers_keep_nobody_out() {
    let _turn = bed::turn().await;
    let mut config = config(30);
    config.absent = 2;
    // One list lacks the second half and its own node, one is in another order, and one is nearly
    // empty.
    config
        .lists
        .insert(5, (0..15).filter(|number| *number != 5).collect());
    config.lists.insert(11, (0..32).rev().collect());
    config.lists.insert(29, vec![29, 3, 29, 31]);
    let cluster = formed(config).await;
    // All nodes become ready, although some list peers that never start.
    let reports = bed::eventually("all are ready", async || {
        let (reports, _) = verified(&cluster).await;
        reports.iter().all(|report| report.ready).then_some(reports)
    });
    let reports = reports.await;
    assert_eq!(reports.len(), 30);
    // A node that lists peers that never start names them in its report, and is ready all the same.
    let unmet = |name: &str| {
        let report = reports.iter().find(|report| report.name == name);
        report.map(|report| (report.ready, report.unmet.clone()))
    };
    let dead = |names: &[&str]| Some((true, names.iter().map(ToString::to_string).collect()));
    assert_eq!(unmet("node-7"), dead(&["node-30", "node-31"]));
    assert_eq!(unmet("node-29"), dead(&["node-31"]));
    assert_eq!(unmet("node-5"), dead(&[]));
    stop(cluster).await;
}
