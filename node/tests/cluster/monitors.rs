//! Monitors that read metrics from another host, and the targets that a node lists for them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use binomesh::certificate::{Authority, Role, Validity};
use binomesh::client::Client;
use binomesh::cluster::Cluster;
use binomesh::targets::TargetGroup;

use crate::bed::{self, Lone, counter, eventually, formed, member, ran, stop};
use crate::hosts::{Host, two_hosts};
use crate::raw_client;

const REFUSED: &str = "binomesh_metrics_refused_total";
const AT: &str = "10.99.0.1:9464";

/// Run `curl` on a host, with more options, for the metrics at `AT`. The answer, or `None` if
/// `curl` fails or the status is not 200.
async fn scraped(host: &Host, options: &str) -> Option<String> {
    let curl = "curl -sS --noproxy * --max-time 20 -w %{http_code} --connect-to binomesh:9464:10.99.0.1:9464";
    let url = "https://binomesh:9464/metrics";
    let output = host.output(&format!("{curl} {options} {url}")).await;
    println!("{options}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.ends_with("200")).then_some(text)
}

async fn is_counted(client: &Client, reason: &str) {
    eventually(reason, async || {
        (counter(client, REFUSED, &[reason]).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_scrape_from_another_host_needs_a_monitors_certificate_that_is_not_revoked() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let hosts = two_hosts().await;
    let mut node = Lone::prepare(dir.path(), "node-0", &authority);
    node.namespace = Some(hosts[0].namespace());
    node.config.bind = SocketAddr::from(([10, 99, 0, 1], 7700));
    node.config.metrics = AT.parse().ok();
    node.config.metrics_tls = true;
    let started = node.start().await;
    assert_eq!(started.metrics_url, format!("https://{AT}/metrics"));
    let mut options = BTreeMap::new();
    for name in ["stolen", "good"] {
        let home = dir.path().join(format!("papers-{name}"));
        let issued = authority
            .issue_to(Role::Monitor, name, Validity::days(1))
            .unwrap();
        issued.save_as(Role::Monitor, &home, false).unwrap();
        let home = home.display();
        let papers =
            format!("--cacert {home}/ca.pem --cert {home}/monitor.pem --key {home}/monitor.key");
        options.insert(name, papers);
    }
    let elsewhere = &hosts[1];
    let text = scraped(elsewhere, &options["good"])
        .await
        .expect("admitted");
    assert!(text.contains("binomesh_rank{node=\"node-0\"}"), "{text}");
    assert!(scraped(elsewhere, &options["stolen"]).await.is_some());
    let client = node.client();
    let ca = options["good"].split(" --cert").next().unwrap().to_owned();
    assert!(scraped(elsewhere, &ca).await.is_none());
    is_counted(&client, "no_certificate").await;
    eventually("the log says what to do", async || {
        let log = node.log();
        let mut lines = log.lines();
        let told = lines.find(|line| line.contains("a reader of metrics was refused"))?;
        told.contains("--monitor NAME").then_some(())
    })
    .await;

    let stolen = std::fs::read_to_string(dir.path().join("papers-stolen/monitor.pem")).unwrap();
    let list = authority.revoke(&[&stolen], Validity::days(1)).unwrap();
    std::fs::write(node.config.ca.with_file_name("crl.pem"), list).unwrap();
    bed::signal(started.pid, "HUP");
    eventually("the list is read", async || {
        node.log().contains("credentials renewed").then_some(())
    })
    .await;
    assert!(scraped(elsewhere, &options["stolen"]).await.is_none());
    is_counted(&client, "revoked").await;
    assert!(scraped(elsewhere, &options["good"]).await.is_some());
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test]
async fn a_monitors_certificate_opens_no_link() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(2)).await;
    let node = member(&cluster, "node-0");
    let issued = cluster
        .authority()
        .issue_to(Role::Monitor, "node-1", Validity::days(1));
    let answer = raw_client::knock(Some(papers(&issued.unwrap())), node.address).await;
    assert!(answer.is_err(), "{answer:?}");
    let failures = "binomesh_transport_handshake_failures_total";
    eventually("it is no peer", async || {
        (counter(&node.client(), failures, &["not_a_peer"]).await == 1).then_some(())
    })
    .await;
    stop(cluster).await;
}

fn papers(issued: &binomesh::certificate::Issued) -> raw_client::Papers {
    use rustls_pki_types::pem::PemObject;
    let chain = rustls_pki_types::CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes());
    let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes());
    (chain.unwrap(), key.unwrap())
}

/// Address and state of each target, by the node's name.
async fn targets(client: &Client) -> Option<BTreeMap<String, (String, String)>> {
    let groups = client.targets().await.ok()?;
    let seen = groups.into_iter().map(|group| {
        let label = |name: &str| group.labels[name].clone();
        let place = (group.targets[0].clone(), label(TargetGroup::STATE));
        (label("node"), place)
    });
    Some(seen.collect())
}

/// Address and state of every node that was started, by name.
fn expected(cluster: &Cluster, state: &str) -> BTreeMap<String, (String, String)> {
    let listed = cluster.members().map(|member| {
        let address = member.metrics_url.trim_start_matches("http://");
        let address = address.trim_end_matches("/metrics").to_owned();
        (member.name.clone(), (address, state.to_owned()))
    });
    listed.collect()
}

#[tokio::test]
async fn every_node_lists_members_the_lost_and_the_expected_but_not_those_that_left() {
    let _turn = bed::turn().await;
    let mut config = bed::config(12);
    config.expect = "node-[0-10],ghost".parse().unwrap();
    config.grace_seconds = 0;
    let cluster = formed(config).await;
    let port = |name: &str| {
        expected(&cluster, "")[name]
            .0
            .rsplit(':')
            .next()
            .unwrap()
            .to_owned()
    };
    let agree = async |wanted: &BTreeMap<String, (String, String)>, gone: &[&str]| {
        for member in cluster.members().filter(|one| !gone.contains(&&*one.name)) {
            let mut wanted = wanted.clone();
            let ghost = format!("ghost:{}", port(&member.name));
            wanted.insert("ghost".to_owned(), (ghost, "expected".to_owned()));
            let mut seen = None;
            eventually("all nodes are targets of each", async || {
                seen = targets(&member.client()).await;
                (seen.as_ref() == Some(&wanted)).then_some(())
            })
            .await;
        }
    };
    let mut wanted = expected(&cluster, "member");
    agree(&wanted, &[]).await;
    cluster.kill("node-7").await.unwrap();
    wanted.get_mut("node-7").unwrap().1 = "lost".to_owned();
    agree(&wanted, &["node-7"]).await;
    // Both nodes say goodbye. Only node-10 is in the inventory, so only node-10 stays expected.
    for leaver in ["node-10", "node-11"] {
        assert_eq!(cluster.terminate(leaver).await.unwrap(), Some(0));
    }
    wanted.get_mut("node-10").unwrap().1 = "expected".to_owned();
    wanted.remove("node-11");
    agree(&wanted, &["node-7", "node-10", "node-11"]).await;

    let file = cluster.dir().join("targets.json");
    let dir = cluster.dir().display().to_string();
    let out = file.display().to_string();
    let output = ran(&["targets", "--cluster", &dir, "--out", &out], b"").await;
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let groups: Vec<TargetGroup> = serde_json::from_str(&text).unwrap();
    assert_eq!(groups.len(), 12);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
    assert_eq!(mode & 0o777, 0o644, "Prometheus is another user");
    let url = member(&cluster, "node-3").metrics_url;
    let url = url.trim_end_matches("/metrics");
    let output = ran(&["targets", "--admin", url, "--json"], b"").await;
    let groups: Vec<TargetGroup> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            groups.len(),
            output.stdout.iter().filter(|b| **b == b'\n').count()
        ),
        (12, 1)
    );
    stop(cluster).await;
}
