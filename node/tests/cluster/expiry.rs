//! A certificate that expires while its node is a member.

use binomesh::certificate::Validity;

use crate::bed::{self, eventually};
use crate::readiness::{authority, is_ready, seed, started, status};

/// Long enough to become a member on a loaded machine.
const LIFE_SECONDS: i64 = 8;

#[tokio::test]
async fn a_member_whose_certificate_expires_is_unready_and_says_why() {
    let _turn = bed::turn().await;
    let (dir, authority) = (tempfile::tempdir().unwrap(), authority());
    let issue = |validity| {
        let issued = authority.issue("x", validity).unwrap();
        issued.save(&dir.path().join("x"), true).unwrap();
    };
    let root = started(dir.path(), "root", &authority, |config| {
        config.grace_seconds = 1;
    })
    .await;
    let parent = seed("root", root.config.bind);
    let other = started(dir.path(), "other", &authority, |config| {
        config.parent = Some(parent.clone());
    })
    .await;
    let x = started(dir.path(), "x", &authority, |config| {
        let now = Validity::days(0);
        issue(Validity {
            until: now.until + LIFE_SECONDS,
            ..now
        });
        config.parent = Some(parent.clone());
    })
    .await;
    for node in [&root, &other, &x] {
        is_ready(node, 3).await;
    }
    eventually("the expired member says why it is outside", async || {
        let status = status(&x).await;
        let reason = status.reason.filter(|_| !status.ready)?;
        (reason.contains(&parent.to_string()) && reason.contains("expired")).then_some(())
    })
    .await;
    eventually("so does its log", async || {
        let log = x.log();
        let mut lines = log.lines();
        let is_it = |line: &str| {
            line.contains("WARN") && line.contains("not ready") && line.contains("expired")
        };
        lines.any(is_it).then_some(())
    })
    .await;
    for node in [&root, &other] {
        is_ready(node, 2).await;
        assert_eq!(status(node).await.lost_count, 1);
    }
    issue(Validity::days(1));
    x.signal("HUP");
    for node in [&root, &other, &x] {
        is_ready(node, 3).await;
    }
}
