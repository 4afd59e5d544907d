//! Contacts by DNS names whose addresses come late and change. The process that looks the names up
//! has an `/etc/hosts` of its own.

use binomesh::Seed;
use binomesh_overlay::quic::Location;

use crate::bed::{self, Lone, eventually};
use crate::readiness::{authority, free, is_ready, status};

#[tokio::test]
async fn a_parent_is_found_once_its_name_resolves_and_again_when_it_has_moved() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let port = free().port();
    let mut parent = Lone::prepare(dir.path(), "parent", &authority);
    parent.config.bind = ([127, 0, 0, 1], port).into();
    let mut child = Lone::prepare(dir.path(), "child", &authority);
    child.config.bind = ([0, 0, 0, 0], 0).into();
    child.config.parent = Some(Seed {
        name: "parent".to_owned(),
        address: Location::new("parent.invalid", port).unwrap(),
    });
    child.hosts = Some(hosts.clone());
    parent.start().await;
    child.start().await;
    eventually("the reason names the name", async || {
        let reason = status(&child).await.reason?;
        reason
            .contains("`parent.invalid` does not resolve")
            .then_some(())
    })
    .await;
    std::fs::write(&hosts, "127.0.0.1 localhost parent.invalid\n").unwrap();
    is_ready(&child, 2).await;
    assert_eq!(
        child.log().matches("does not resolve").count(),
        1,
        "{}",
        child.log()
    );

    parent.kill().await;
    parent.config.bind = ([127, 0, 0, 2], port).into();
    std::fs::write(&hosts, "127.0.0.2 parent.invalid\n").unwrap();
    parent.start().await;
    is_ready(&child, 2).await;
    is_ready(&parent, 2).await;
}
