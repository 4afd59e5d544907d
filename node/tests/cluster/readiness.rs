//! Readiness, and sends that reach nobody, with real processes.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use binomesh::certificate::{Authority, Validity};
use binomesh::report::Status;
use binomesh::{NodeConfig, Seed};

use crate::bed::{self, Lone, eventually, ran};

/// A loopback address at which nobody answers yet.
pub(crate) fn free() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

pub(crate) fn seed(name: &str, address: SocketAddr) -> Seed {
    Seed {
        name: name.into(),
        address: address.into(),
    }
}

pub(crate) fn authority() -> Authority {
    Authority::generate("test.local", Validity::days(1)).unwrap()
}

pub(crate) async fn started(
    dir: &Path,
    name: &str,
    authority: &Authority,
    adjust: impl FnOnce(&mut NodeConfig),
) -> Lone {
    let mut node = Lone::prepare(dir, name, authority);
    node.config.bind = free();
    node.config.metrics = Some(([127, 0, 0, 1], 0).into());
    adjust(&mut node.config);
    node.start().await;
    node
}

pub(crate) async fn status(node: &Lone) -> Status {
    node.client().status().await.expect("it answers")
}

/// Waits until a node is ready among `population` members.
pub(crate) async fn is_ready(node: &Lone, population: u32) {
    let what = format!("{} is ready among {population}", node.config.name);
    eventually(&what, async || {
        let status = node.client().status().await.ok()?;
        (status.ready && status.population == Some(population)).then_some(())
    })
    .await;
}

async fn exit_status(command: &[&str], node: &Lone) -> (Option<i32>, String) {
    let socket = node.config.admin_socket.as_ref().unwrap();
    let socket = socket.display().to_string();
    let output = ran(&[command, &["--admin", &socket]].concat(), b"").await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[tokio::test]
async fn an_island_of_three_is_unready_as_one_until_the_cluster_starts() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let first = seed("first", free());
    // b has a seed and no parent, so b becomes a root without waiting for half a minute.
    let b = started(dir.path(), "b", &authority, |config| {
        config.seeds = vec![first.clone()]
    })
    .await;
    let parent = seed("b", b.config.bind);
    let c = started(dir.path(), "c", &authority, |config| {
        config.parent = Some(parent)
    })
    .await;
    let parent = seed("c", c.config.bind);
    let d = started(dir.path(), "d", &authority, |config| {
        config.parent = Some(parent)
    })
    .await;
    let lone = started(dir.path(), "lone", &authority, |config| {
        config.seeds = vec![seed("nobody", free())];
        config.alone = true;
    })
    .await;
    let island = [&b, &c, &d];
    for node in island {
        eventually("an island of three", async || {
            let status = status(node).await;
            assert!(!status.ready && !status.anchored, "{status:?}");
            (status.healthy && status.population == Some(3)).then_some(())
        })
        .await;
        let (code, said) = exit_status(&["status"], node).await;
        assert_eq!(code, Some(1), "{said}");
        let error = node.client().text("/readyz").await.unwrap_err().to_string();
        assert!(error.contains("island"), "{error}");
        let metrics = node.client().text("/metrics").await.unwrap();
        assert!(metrics.contains("binomesh_ready{node="), "{metrics}");
    }
    eventually("the contact and its refusal are named", async || {
        let reason = status(&b).await.reason.expect("not ready");
        let address = first.to_string();
        (reason.contains(&address) && !reason.contains("no answer yet")).then_some(())
    })
    .await;
    let warnings = || {
        let log = b.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("WARN") && line.contains("not ready"));
        lines.count()
    };
    eventually("a warning", async || (warnings() > 0).then_some(())).await;
    is_ready(&lone, 1).await;
    assert_eq!(warnings(), 1, "{}", b.log());
    let first = started(dir.path(), "first", &authority, |config| {
        config.bind = first.address.address().expect("no name")
    })
    .await;
    for node in [&first, &b, &c, &d] {
        is_ready(node, 4).await;
    }
    assert!(first.client().text("/readyz").await.is_ok());
}

#[tokio::test]
async fn the_last_one_is_cut_off_or_alone_and_a_send_to_nobody_is_no_success() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let a = started(dir.path(), "a", &authority, |config| {
        config.grace_seconds = 1
    })
    .await;
    is_ready(&a, 1).await;
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let file = file.display().to_string();
    for command in [&["broadcast", "x"][..], &["push", &file]] {
        let (code, said) = exit_status(command, &a).await;
        assert_eq!(code, Some(1), "{command:?} {said}");
        assert!(said.contains("nothing was sent"), "{said}");
        let allowed = [command, &["--allow-none"]].concat();
        let (code, said) = exit_status(&allowed, &a).await;
        assert_eq!(code, Some(0), "{command:?} {said}");
    }
    let parent = seed("a", a.config.bind);
    let mut b = started(dir.path(), "b", &authority, |config| {
        config.parent = Some(parent)
    })
    .await;
    is_ready(&a, 2).await;
    is_ready(&b, 2).await;
    assert_eq!(exit_status(&["broadcast", "x"], &a).await.0, Some(0));
    b.kill().await;
    eventually("a is cut off", async || {
        let status = status(&a).await;
        (!status.ready && status.healthy && status.lost_count == 1).then_some(())
    })
    .await;
    assert!(
        status(&a)
            .await
            .reason
            .is_some_and(|reason| reason.contains("lost"))
    );
    b.start().await;
    is_ready(&a, 2).await;
    assert_eq!(status(&a).await.lost_count, 0);
    assert_eq!(b.terminate().await, Some(0));
    is_ready(&a, 1).await;
    assert_eq!(status(&a).await.lost_count, 0);
}

#[tokio::test]
async fn after_a_power_cut_without_the_first_all_others_are_ready() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let names = ["n0", "n1", "n2", "n3"];
    let seeds: Vec<Seed> = names.iter().map(|name| seed(name, free())).collect();
    let mut nodes = Vec::new();
    for own in &seeds {
        let node = started(dir.path(), &own.name, &authority, |config| {
            config.bind = own.address.address().expect("no name");
            config.seeds.clone_from(&seeds);
        });
        nodes.push(node.await);
    }
    for node in &nodes {
        is_ready(node, 4).await;
    }
    for node in &mut nodes {
        node.kill().await;
    }
    let mut rest = nodes.split_off(1);
    for node in &mut rest {
        node.start().await;
    }
    for node in &rest {
        is_ready(node, 3).await;
    }
}
