//! A few nodes in this process, for the examples.

use std::error::Error;
use std::time::Duration;

use binomesh::certificate::{Authority, Validity};
use binomesh::{Node, NodeConfig};
use tempfile::TempDir;

/// The result of an example.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// How long an example waits for events that usually take less than a second.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Nodes that know each other, and the folder with their certificates.
pub(crate) struct Nodes {
    /// In the order of their names: `node-0`, `node-1` and so on.
    pub(crate) all: Vec<Node>,
    _home: TempDir,
}

/// Start nodes under the first one, and wait until all have a rank.
pub(crate) async fn start(count: u32) -> Result<Nodes, Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let authority = Authority::generate("example", Validity::days(1))?;
    let mut all: Vec<Node> = Vec::new();
    for number in 0..count {
        let name = format!("node-{number}");
        let folder = home.path().join(&name);
        authority
            .issue(&name, Validity::days(1))?
            .save(&folder, false)?;
        let mut config = NodeConfig::new(&name, &folder, folder.join("state"));
        config.bind = ([127, 0, 0, 1], 0).into();
        if let Some(first) = all.first() {
            let parent = format!("{}@{}", first.name(), first.address());
            config.parent = Some(parent.parse()?);
        }
        all.push(Node::start(config)?);
    }
    for node in &all {
        tokio::time::timeout(LIMIT, node.ready(count)).await??;
    }
    Ok(Nodes { all, _home: home })
}
