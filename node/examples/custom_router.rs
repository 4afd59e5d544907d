//! A router of your own in a live cluster: a node of this program joins real processes and sends
//! over the links that its router prefers.
//!
//! ```text
//! cargo build --release && cargo run --release --example custom_router target/release/binomesh
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use binomesh::certificate::Validity;
use binomesh::cluster::{Cluster, ClusterConfig};
use binomesh::{Due, Node, NodeConfig, SendOptions};
use binomesh_overlay::Rank;
use binomesh_routing::router::{Chosen, Router, Step};
use binomesh_routing::sibling_tree::SiblingTree;

/// Like the router `variant`, but a step between even and odd ranks costs ten instead of one, as
/// between two halls with a slow line between them.
struct TwoHalls;

impl Router for TwoHalls {
    fn name(&self) -> &'static str {
        "two-halls"
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        shape.climbing_distance(from, to)
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        let next = step.cheapest(|rank| {
            let toll = if rank.0 % 2 == step.here.0 % 2 { 1 } else { 10 };
            toll + self.cost(step.shape, rank, step.to)
        });
        println!("{} → {}: over {next:?}", step.here.0, step.to.0);
        next
    }
}

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(binary) = std::env::args_os().nth(1) else {
        return Err("which program is to run? give the path of `binomesh`".into());
    };
    let mut config = ClusterConfig::new(15);
    config.binary = Some(binary.into());
    let cluster = Cluster::spawn(config).await?;
    let outcome = guest(&cluster).await;
    cluster.shutdown(LIMIT).await;
    outcome
}

/// Join the cluster, and send to some members, one of which has just died.
async fn guest(cluster: &Cluster) -> Result<(), Box<dyn Error>> {
    let home = cluster.dir().join("guest");
    let issued = cluster.authority().issue("guest", Validity::days(1))?;
    issued.save(&home, false)?;
    let mut config = NodeConfig::new("guest", &home, home.join("state"));
    let root = cluster.live().next().ok_or("no node lives")?;
    config.bind = ([127, 0, 0, 1], 0).into();
    config.parent = Some(format!("{}@{}", root.name, root.address).parse()?);
    config.router = binomesh::Router::Of(Chosen::new(&TwoHalls));
    let node = Node::start(config)?;
    let place = tokio::time::timeout(LIMIT, node.ready(16)).await??;
    println!("guest has rank {} of {}", place.rank, place.population);
    cluster.kill("node-7").await?;
    let options = SendOptions {
        due: Due::Within(LIMIT),
        ..SendOptions::default()
    };
    let receipt = node.send(["node-5", "node-7", "node-12"], "hello", options);
    let receipt = receipt.await?;
    println!("reached {:?}, not {:?}", receipt.reached, receipt.unreached);
    node.leave(LIMIT).await?;
    match receipt.reached.len() {
        2 => Ok(()),
        _ => Err("not everybody who lives was reached".into()),
    }
}
