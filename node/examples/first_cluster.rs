//! A first cluster: an authority, three nodes in one process, and one message to all.
//!
//! ```text
//! cargo run --example first_cluster
//! ```
//!
//! The authority gives each node a certificate. The first node is the parent of the others. After a
//! moment all nodes know how many they are, and each has a rank.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use binomesh::certificate::{Authority, Validity};
use binomesh::{Node, NodeConfig, SendOptions};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    // On real hosts: `binomesh ca init`, then `binomesh ca issue` for each host.
    let authority = Authority::generate("example", Validity::days(1))?;
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["a", "b", "c"] {
        let folder = home.path().join(name);
        authority
            .issue(name, Validity::days(1))?
            .save(&folder, false)?;
        // The folder has the credentials; its subfolder `state` keeps the node's boot and secret.
        let mut config = NodeConfig::new(name, &folder, folder.join("state"));
        config.bind = ([127, 0, 0, 1], 0).into();
        if let Some(first) = nodes.first() {
            // At its start a node needs to know only its parent. It hears of other nodes later.
            config.parent = Some(format!("a@{}", first.address()).parse()?);
        }
        nodes.push(Node::start(config)?);
    }
    for node in &nodes {
        let place = tokio::time::timeout(LIMIT, node.ready(3)).await??;
        println!(
            "{} has rank {} of {}",
            node.name(),
            place.rank,
            place.population
        );
    }
    let receipt = nodes[0].publish("hello", SendOptions::default()).await?;
    println!("reached: {:?}", receipt.reached);
    assert_eq!(receipt.reached_count, 2);
    for node in &nodes {
        node.leave(LIMIT).await?;
    }
    Ok(())
}
