//! Credentials that are read again while a node runs, and certificates that end.

use std::os::unix::fs::PermissionsExt;

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};
use binomesh::report::Status;

use crate::bed::{self, Lone, eventually};

/// The end of a node's certificate, as the node's status says.
fn ends(status: &Status) -> Option<i64> {
    let mut terms = status.credentials.iter();
    let term = terms.find(|term| term.document == "certificate");
    term.map(|term| term.until)
}

/// Reading the pipe would block for ever, and the node could not leave.
#[tokio::test]
async fn a_pipe_in_the_place_of_a_list_keeps_nobody_waiting() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let mut node = Lone::prepare(dir.path(), "node-0", &authority);
    let pid = node.start().await.pid;
    let list = node.config.ca.with_file_name("crl.pem");
    let made = std::process::Command::new("mkfifo").arg(&list).status();
    assert!(made.unwrap().success());
    bed::signal(pid, "HUP");
    eventually("the pipe is refused", async || {
        node.log().contains("not to a file").then_some(())
    })
    .await;
    assert_eq!(node.terminate().await, Some(0));
}

/// Both authorities are trusted, as during a rollover.
#[tokio::test]
async fn the_list_of_one_authority_is_missed_although_there_is_another() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let day = Validity::days(1);
    let [first, second] = [(); 2].map(|()| Authority::generate("test.local", day).unwrap());
    let mut node = Lone::prepare(dir.path(), "node-0", &first);
    let (ca, list) = (&node.config.ca, node.config.ca.with_file_name("crl.pem"));
    let bundle = std::fs::read_to_string(ca).unwrap();
    let other = second.issue("x", day).unwrap().authority_pem;
    std::fs::write(ca, bundle + &other).unwrap();
    let [of_first, of_second] = [&first, &second].map(|one| one.revoke(&[], day).unwrap());
    std::fs::write(&list, [&*of_first, &of_second].concat()).unwrap();
    let pid = node.start().await.pid;
    for lists in [&of_first, &of_second] {
        std::fs::write(&list, lists).unwrap();
        let before = node.log().matches("could not be renewed").count();
        bed::signal(pid, "HUP");
        eventually("that a list is gone is an error", async || {
            (node.log().matches("could not be renewed").count() > before).then_some(())
        })
        .await;
        assert!(node.log().contains("the revocation list of the authority"));
    }
    std::fs::write(&list, [&*of_second, &of_first].concat()).unwrap();
    bed::signal(pid, "HUP");
    eventually("both are enough", async || {
        node.log().contains("credentials renewed").then_some(())
    })
    .await;
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test]
async fn a_bad_token_for_metrics_keeps_no_new_certificate_from_the_links() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(30)).unwrap();
    let mut node = Lone::prepare(dir.path(), "node-0", &authority);
    let home = node.config.certificate.parent().unwrap().to_owned();
    let token = home.join("metrics.token");
    let written = |text: &str| {
        std::fs::write(&token, text).unwrap();
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    };
    written("a-token-of-the-test");
    node.config.metrics = Some(([127, 0, 0, 1], 0).into());
    node.config.metrics_token_file = Some(token.clone());
    let pid = node.start().await.pid;
    let client = node.client();
    let reloads = async |outcome: &str| {
        let name = "binomesh_credential_reloads_total";
        bed::counter(&client, name, &[outcome]).await
    };
    for (text, outcome, days) in [("short", "failed", 2), ("a-token-of-the-test", "ok", 3)] {
        written(text);
        let validity = Validity::days(days);
        let issued = authority.issue("node-0", validity).unwrap();
        issued.save(&home, true).unwrap();
        bed::signal(pid, "HUP");
        eventually("its links have the new certificate", async || {
            (ends(&client.status().await.ok()?) == Some(validity.until)).then_some(())
        })
        .await;
        eventually("the reload is counted", async || {
            (reloads(outcome).await == 1).then_some(())
        })
        .await;
    }
    assert_eq!(reloads("failed").await, 1);
    let log = node.log();
    let mut lines = log.lines().filter(|line| line.contains("ERROR"));
    let told = lines.find(|line| line.contains("the metrics port still uses the former ones"));
    assert!(told.expect(&log).contains("metrics.token"), "{log}");
    assert_eq!(node.terminate().await, Some(0));
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
    assert!(node.log().contains("expires soon"), "{}", node.log());
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

    // The peer was shown the former certificate, and knows no other end.
    eventually("it says that it has ended", async || {
        client.status().await.ok()?;
        node.log()
            .contains("of the credentials has expired")
            .then_some(())
    })
    .await;
    eventually("its peer refuses the next link and says why", async || {
        let log = root.log();
        let mut lines = log.lines().filter(|line| line.contains("WARN"));
        lines.any(|line| line.contains("expired")).then_some(())
    })
    .await;
    for node in [node, root] {
        assert_eq!(node.terminate().await, Some(0));
    }
}
