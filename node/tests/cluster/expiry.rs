//! Certificates that end while a node runs.

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};
use binomesh::report::Status;

use crate::bed::{self, Lone, eventually};

/// When its certificate ends, as it says itself.
fn ends(status: &Status) -> Option<i64> {
    let mut terms = status.credentials.iter();
    let term = terms.find(|term| term.document == "certificate");
    term.map(|term| term.until)
}

#[tokio::test]
async fn an_end_is_told_before_it_comes_and_on_both_ends_when_it_does() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let mut root = Lone::prepare(dir.path(), "node-0", &authority);
    let parent = root.start().await;
    let mut node = Lone::prepare(dir.path(), "node-1", &authority);
    node.config.parent = Some(Seed {
        name: parent.name.clone(),
        address: parent.address.into(),
    });
    let started = node.start().await;
    let now = Validity::days(0).until;
    let validity = Validity {
        from: now - 300,
        until: now + 20,
    };
    let home = node.config.certificate.parent().unwrap().to_owned();
    let issued = authority.issue("node-1", validity).unwrap();
    issued.save(&home, true).unwrap();
    bed::signal(started.pid, "HUP");
    let client = node.client();
    eventually("it says when its certificate ends", async || {
        (ends(&client.status().await.ok()?) == Some(validity.until)).then_some(())
    })
    .await;
    assert!(node.log().contains("ends soon"), "{}", node.log());
    let metrics = client.text("/metrics").await.unwrap();
    let has = |name: &str, label: &str, value: i64| {
        let mut lines = metrics.lines().filter(|line| line.starts_with(name));
        lines.any(|line| line.contains(label) && line.ends_with(&format!(" {value}")))
    };
    let end = "binomesh_credential_end_timestamp_seconds";
    assert!(
        has(end, "document=\"certificate\"", validity.until),
        "{metrics}"
    );
    let reloads = "binomesh_credential_reloads_total";
    assert!(has(reloads, "outcome=\"ok\"", 1), "{metrics}");

    // The links of the former one are as good as that.
    assert_eq!(node.stop().await, Some(0));
    node.start().await;
    let client = node.client();
    eventually("it says that it has ended", async || {
        client.status().await.ok()?;
        node.log()
            .contains("of the credentials has ended")
            .then_some(())
    })
    .await;
    eventually("its peer cuts the link and says why", async || {
        let log = root.log();
        let mut lines = log.lines().filter(|line| line.contains("node-1"));
        lines.any(|line| line.contains("has expired")).then_some(())
    })
    .await;
    for node in [node, root] {
        assert_eq!(node.terminate().await, Some(0));
    }
}
