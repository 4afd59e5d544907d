use super::*;
use crate::settings::NodeConfig;

/// A shell script with this body, which stands in for the program of the nodes.
fn stub(dir: &Path, body: &str) -> PathBuf {
    let path = dir.join("stub");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

const LISTENS: &str = r#"
        home=$(dirname "$3"); name=$(basename "$home")
        echo "{\"event\":\"listening\",\"name\":\"$name\",\"id\":\"00\",\"pid\":$$,\"address\":\"127.0.0.1:1\",\"admin_socket\":\"$home/admin.sock\",\"metrics_url\":\"http://127.0.0.1:1/metrics\"}"
        cat >/dev/null
    "#;

fn config(nodes: u32, binary: PathBuf) -> ClusterConfig {
    let mut config = ClusterConfig::new(nodes);
    config.binary = Some(binary);
    config
}

#[tokio::test]
async fn nodes_start_below_their_parents_and_end_with_the_cluster() {
    let temp = tempfile::tempdir().unwrap();
    let stub = stub(temp.path(), LISTENS);
    let mut cluster = Cluster::spawn(config(5, stub)).await.unwrap();
    let dir = cluster.dir().to_owned();
    let directory = Directory::open(&dir).unwrap();
    let names: Vec<&str> = directory
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(names, ["node-0", "node-1", "node-2", "node-3", "node-4"]);
    let text = fs::read_to_string(dir.join("node-2/node.toml")).unwrap();
    let config: NodeConfig = toml::from_str(&text).unwrap();
    assert_eq!(config.parent.unwrap().name, "node-1");
    assert!(config.watch_stdin);
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );

    cluster.kill("node-3").await.unwrap();
    assert_eq!(cluster.live().count(), 4);
    let before = cluster.slot("node-3").unwrap().member.pid;
    cluster.restart("node-3", "node-1").await.unwrap();
    assert_ne!(cluster.slot("node-3").unwrap().member.pid, before);
    assert_eq!(cluster.join("node-0").await.unwrap(), "node-5");
    assert_eq!(cluster.live().count(), 6);
    assert!(matches!(
        cluster.kill("x").await,
        Err(ClusterError::NoSuchNode(_))
    ));
    cluster.shutdown(Duration::from_secs(5)).await;
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_node_that_ends_is_reported_with_its_log() {
    let temp = tempfile::tempdir().unwrap();
    let stub = stub(temp.path(), "echo 'address in use' >&2; exit 1");
    let error = Cluster::spawn(config(2, stub)).await.err().unwrap();
    assert!(error.to_string().contains("address in use"), "{error}");
    assert!(matches!(error, ClusterError::Ended { .. }));
}

#[tokio::test]
async fn a_node_that_says_nothing_is_given_up() {
    let temp = tempfile::tempdir().unwrap();
    let mut config = config(1, stub(temp.path(), "exec cat"));
    config.start_timeout = Duration::from_millis(100);
    let error = Cluster::spawn(config).await.err().unwrap();
    assert!(matches!(error, ClusterError::Silent { .. }), "{error}");
}
