//! Clusters whose processes know some neighbours and no parent.

use binomesh::Bootstrap;
use binomesh::cluster::ClusterConfig;
use binomesh::graph::Graph;

use crate::bed::{self, formed, stop, verified};

fn config(lists: Vec<Vec<u32>>) -> ClusterConfig {
    let mut config = bed::config(u32::try_from(lists.len()).expect("few"));
    config.bootstrap = Bootstrap::Graph;
    config.lists = (0..).zip(lists).collect();
    config
}

#[tokio::test]
async fn sixteen_processes_on_a_mesh_are_the_exact_graph_below_a_node_of_highest_degree() {
    let _turn = bed::turn().await;
    let graph: Graph = "mesh:4x4".parse().expect("a graph");
    let lists = graph.lists(0).expect("connected");
    let cluster = formed(config(lists.clone())).await;
    let (reports, _) = verified(&cluster).await;
    assert_eq!(reports.len(), 16);
    let root = reports.iter().find(|report| report.parent.is_none());
    let number = root.and_then(|root| root.name.strip_prefix("node-")?.parse::<usize>().ok());
    assert_eq!(lists[number.expect("a root")].len(), 4);
    stop(cluster).await;
}

#[tokio::test]
async fn unlisted_nodes_and_a_dead_neighbour_keep_nobody_out() {
    let _turn = bed::turn().await;
    // Nobody lists node 0, node 5 lists nobody, and node 6 never starts.
    let lists = [&[1][..], &[2, 6], &[3, 1], &[4], &[5, 2], &[]];
    let mut config = config(lists.map(<[u32]>::to_vec).to_vec());
    config.absent = 1;
    let mut cluster = formed(config).await;
    cluster.kill("node-2").await.expect("killed");
    verified(&cluster).await;
    cluster
        .restart("node-2", "node-0")
        .await
        .expect("restarted");
    let (reports, _) = verified(&cluster).await;
    assert_eq!(reports.len(), 6);
    let unmet = |name: &str| {
        let report = reports.iter().find(|report| report.name == name);
        report.map(|report| report.unmet.clone())
    };
    assert_eq!(unmet("node-1"), Some(vec!["node-6".to_owned()]));
    stop(cluster).await;
}
