//! Peers that a running cluster admits, and peers that it refuses.

use std::net::SocketAddr;

use binomesh::Seed;
use binomesh::certificate::{Authority, Issued, Validity};
use binomesh::client::Client;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::bed::{self, Lone, counter, eventually, formed, member, stop, verified};
use crate::raw_client::{self, GREETING};

const FAILURES: &str = "binomesh_transport_handshake_failures_total";

async fn refused(client: &Client, reason: &str) -> u64 {
    counter(client, FAILURES, &[&format!("reason=\"{reason}\"")]).await
}

/// Connects with an issued certificate, or with none, and greets. Returns the node's answer, or the
/// error by which the node refuses.
async fn knock(to: SocketAddr, issued: Option<&Issued>) -> Result<Vec<u8>, String> {
    let papers = issued.map(|issued| {
        let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes());
        (chain.unwrap(), key.unwrap())
    });
    let answer = raw_client::knock(papers, to).await;
    answer.map_err(|error| error.to_string())
}

#[tokio::test]
async fn only_certificates_of_the_cluster_that_hold_now_get_a_hello_ack() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let node = member(&cluster, "node-0");
    let client = node.client();
    let ours = cluster.authority();
    let authority = |domain| Authority::generate(domain, Validity::days(1)).unwrap();
    // The second authority has the trust domain of the cluster's own authority.
    let [foreign, forger] = ["elsewhere.local", ours.trust_domain()].map(authority);
    let past = Validity {
        from: 1_000_000_000,
        until: 1_100_000_000,
    };
    let expired = ours.issue("raw", past).unwrap();
    let foreign = foreign.issue("raw", Validity::days(1)).unwrap();
    let forged = forger.issue("raw", Validity::days(1)).unwrap();
    let links = client.topology().await.unwrap().links;
    for (papers, reason, count) in [
        (Some(&foreign), "unknown_authority", 1),
        (Some(&forged), "unknown_authority", 2),
        (Some(&expired), "expired", 1),
        (None, "no_certificate", 1),
    ] {
        assert_eq!(refused(&client, reason).await, count - 1);
        let answer = knock(node.address, papers).await;
        assert!(answer.is_err(), "{reason}: got {answer:?}");
        eventually(reason, async || {
            (refused(&client, reason).await == count).then_some(())
        })
        .await;
    }
    assert_eq!(client.topology().await.unwrap().links, links);
    let (reports, _) = verified(&cluster).await;
    assert!(reports.iter().all(|report| report.population == Some(3)));
    // The same client with a good certificate gets an answer, so the certificates caused the
    // refusals above.
    let good = ours.issue("raw", Validity::days(1)).unwrap();
    let answer = knock(node.address, Some(&good)).await;
    assert_eq!(answer.map(|ack| ack[..1].to_vec()), Ok(vec![GREETING]));
    stop(cluster).await;
}

/// The lines by which a node warns of incoming connections that it has refused for `reason`.
fn told(node: &Lone, reason: &str) -> Vec<String> {
    let log = node.log();
    let is_told = |line: &&str| {
        line.contains("WARN")
            && line.contains("an incoming connection was refused")
            && line.contains(reason)
    };
    log.lines().filter(is_told).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_refusal_is_told_once_with_its_reason_the_address_and_a_remedy() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let [ours, forger] = [(); 2].map(|()| {
        let authority = Authority::generate("test.local", Validity::days(1));
        authority.unwrap()
    });
    let mut node = Lone::prepare(dir.path(), "node-0", &ours);
    let address = node.start().await.address;
    let issued = |from, until| ours.issue("raw", Validity { from, until }).unwrap();
    let expired = issued(1_000_000_000, 1_100_000_000);
    // The certificate becomes valid well before the authority ends.
    let later = Validity::days(1).until - 40_000;
    let early = issued(later, later + 60);
    let forged = forger.issue("raw", Validity::days(1)).unwrap();
    let client = node.client();
    for (papers, label, words, remedy) in [
        (
            Some(&expired),
            "expired",
            "expired",
            "issue a new certificate",
        ),
        (Some(&early), "not_yet_valid", "not yet valid", "clocks"),
        (
            Some(&forged),
            "unknown_authority",
            "unknown authority",
            "`ca` file",
        ),
        (None, "no_certificate", "no certificate", "no node"),
    ] {
        for count in 1..=3 {
            assert!(knock(address, papers).await.is_err());
            eventually(label, async || {
                (refused(&client, label).await == count).then_some(())
            })
            .await;
        }
        let lines = told(&node, words);
        assert_eq!(lines.len(), 1, "{label}: {lines:?}");
        assert!(lines[0].contains("127.0.0.1:"), "{lines:?}");
        assert!(lines[0].contains(remedy), "{lines:?}");
    }
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test]
async fn a_node_of_another_authority_stays_outside() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let epoch = verified(&cluster).await.0[0].epoch.clone();
    let parent = member(&cluster, "node-0");
    let dir = tempfile::tempdir().unwrap();
    let foreign =
        Authority::generate(cluster.authority().trust_domain(), Validity::days(1)).unwrap();
    let mut stranger = Lone::prepare(dir.path(), "node-3", &foreign);
    // The stranger trusts the cluster's authority, but the cluster does not trust the stranger's.
    let both = [
        foreign.certificate_pem(),
        cluster.authority().certificate_pem(),
    ];
    std::fs::write(&stranger.config.ca, both.concat()).unwrap();
    stranger.config.parent = Some(Seed {
        name: parent.name.clone(),
        address: parent.address.into(),
    });
    stranger.start().await;
    eventually("it was refused again and again", async || {
        (refused(&parent.client(), "unknown_authority").await >= 3).then_some(())
    })
    .await;
    let status = stranger.client().status().await.unwrap();
    assert!(!status.healthy && status.links == 0, "{status:?}");
    let warned = stranger.log();
    assert!(
        warned.contains("the peer refuses the certificate of this node: the certificate is of an unknown authority"),
        "{warned}"
    );
    let (reports, found) = verified(&cluster).await;
    assert_eq!(found.nodes, 3);
    assert!(
        reports.iter().all(|report| report.epoch == epoch),
        "no new epoch"
    );
    assert_eq!(stranger.terminate().await, Some(0));
    stop(cluster).await;
}

#[tokio::test]
async fn a_node_that_expects_one_peer_and_finds_another_says_so_and_tries_again() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let epoch = verified(&cluster).await.0[0].epoch.clone();
    let found = member(&cluster, "node-1");
    let dir = tempfile::tempdir().unwrap();
    let mut lost = Lone::prepare(dir.path(), "node-3", cluster.authority());
    lost.config.parent = Some(Seed {
        name: "node-0".into(),
        address: found.address.into(),
    });
    lost.start().await;
    let client = lost.client();
    eventually("it tried more than once", async || {
        (refused(&client, "wrong_peer").await >= 3).then_some(())
    })
    .await;
    let status = client.status().await.unwrap();
    assert!(!status.healthy && status.links == 0, "{status:?}");
    let log = lost.log();
    let word = format!("node-0@{}", found.address);
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    let clear = |line: &str| line.contains(&word) && line.contains("node-1");
    assert!(lines.any(clear), "{log}");
    let (reports, found) = verified(&cluster).await;
    assert_eq!(found.nodes, 3);
    assert!(
        reports.iter().all(|report| report.epoch == epoch),
        "no new epoch"
    );
    assert_eq!(lost.terminate().await, Some(0));
    stop(cluster).await;
}

#[tokio::test]
async fn a_revoked_node_loses_its_link_when_the_lists_are_read_again() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let list = dir.path().join("crl.pem");
    let revoke = |certificates: &[&str]| {
        let text = authority.revoke(certificates, Validity::days(1)).unwrap();
        std::fs::write(&list, text).unwrap();
    };
    revoke(&[]);
    let mut root = Lone::prepare(dir.path(), "node-0", &authority);
    root.config.crl = Some(list.clone());
    let parent = root.start().await;
    let seed = Seed {
        name: parent.name.clone(),
        address: parent.address.into(),
    };
    let [mut good, mut bad] = ["node-1", "node-2"].map(|name| {
        let mut node = Lone::prepare(dir.path(), name, &authority);
        node.config.parent = Some(seed.clone());
        node
    });
    // Without the list, `node-1` would take the revoked node as its child.
    good.config.crl = Some(list.clone());
    let sibling = good.start().await;
    bad.start().await;
    let client = root.client();
    let population = async || client.status().await.ok()?.population;
    eventually("all are members", async || {
        (population().await == Some(3)).then_some(())
    })
    .await;
    revoke(&[&std::fs::read_to_string(&bad.config.certificate).unwrap()]);
    for member in [&parent, &sibling] {
        bed::signal(member.pid, "HUP");
    }
    eventually("the revoked node is out and the other is not", async || {
        let links = client.topology().await.ok()?.links;
        (population().await == Some(2) && links == ["node-1"]).then_some(())
    })
    .await;
    assert!(root.log().contains("credentials renewed"), "{}", root.log());
    eventually("it tries again, in vain", async || {
        (refused(&client, "revoked").await > 1).then_some(())
    })
    .await;
    // The revoked node is no seed of the root. Its refusal is logged all the same, once a minute.
    let refusals = told(&root, "revoked");
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].contains("node-2"), "{refusals:?}");

    // A certificate file that cannot be read changes nothing.
    std::fs::write(&root.config.certificate, "no certificate").unwrap();
    bed::signal(parent.pid, "HUP");
    eventually("the failure is told", async || {
        root.log()
            .contains("credentials could not be renewed")
            .then_some(())
    })
    .await;
    assert_eq!(population().await, Some(2));
    for node in [bad, good, root] {
        assert_eq!(node.terminate().await, Some(0));
    }
}
