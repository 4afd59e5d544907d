//! The checks of real clusters must be able to fail, so these tests run them on clusters with a bug
//! planted in every node. The tests of the other modules run the same checks without a bug, and
//! pass.
//!
//! Two kinds of bugs are tested elsewhere. Some bugs show only when a member forges messages
//! (`forger`). The bug `drop-duplicate-duty` needs a delegate that is late at the right moment, and
//! only the simulators arrange that.

use std::time::Duration;

use binomesh::cluster::Cluster;
use binomesh::demo::{Demo, DemoError};

use crate::bed::{self, member, now, signal, stop};

/// Ten times as long as forming takes on a loaded machine.
const RED_AFTER: Duration = Duration::from_secs(10);

async fn spawn(bug: &str, nodes: u32) -> Cluster {
    let mut config = bed::config(nodes);
    config.planted = Some(bug.to_owned());
    Cluster::spawn(config).await.expect("started")
}

/// The error of the demo's first two steps.
async fn complaint(cluster: &Cluster) -> String {
    let mut demo = Demo::new(cluster, now(), now() + RED_AFTER, |_| ());
    let formed: Result<_, DemoError> = async {
        demo.formed().await?;
        demo.verified().await
    }
    .await;
    match formed {
        Ok(verified) => panic!("green: {verified:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn planted_lost_b_connect_goes_red_in_a_real_cluster() {
    let _turn = bed::turn().await;
    let cluster = spawn("lost-b-connect", 8).await;
    let complaint = complaint(&cluster).await;
    assert!(complaint.contains("forming did not end"), "{complaint}");
    stop(cluster).await;
}

#[tokio::test]
async fn planted_level_bound_goes_red_in_a_real_cluster() {
    let _turn = bed::turn().await;
    let cluster = spawn("level-bound", 8).await;
    let complaint = complaint(&cluster).await;
    // At a power of two the superfluous level leads from a node back to itself.
    assert!(
        complaint.contains("node-0: no link to node-0"),
        "{complaint}"
    );
    stop(cluster).await;
}

/// A relay reports `done` for the node behind it, although this node is paused and has received
/// nothing.
#[tokio::test]
async fn planted_done_before_custody_goes_red_in_a_real_cluster() {
    let _turn = bed::turn().await;
    let cluster = spawn("done-before-custody", 8).await;
    let (reports, _) = bed::verified(&cluster).await;
    let at = |rank| {
        let found = reports.iter().find(|report| report.rank == Some(rank));
        member(&cluster, &found.expect("ranked").name)
    };
    // From rank 1 the part of ranks 3 and 4 goes to rank 3.
    let (origin, paused) = (at(1), at(4));
    signal(paused.pid, "STOP");
    let client = origin.client();
    let receipt = client.broadcast("t", "x", Some(Duration::from_secs(1)));
    let receipt = receipt.await.expect("a receipt");
    assert!(receipt.reached.contains(&paused.name), "{receipt:?}");
    // The paused node has read nothing, so nothing was delivered there.
    signal(paused.pid, "CONT");
    stop(cluster).await;
}
