//! A process with a valid certificate, or a local user, takes all the resources that it can get.
//! Each bound holds, and honest neighbours are served meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use binomesh::certificate::Validity;
use binomesh::cluster::{Cluster, Member};
use binomesh_routing::Topic;
use binomesh_routing::packet::Payloads;
use bytes::Bytes;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{self, counter, eventually, formed, member, stop, verified};
use crate::forger::Forger;
use crate::raw_client::{Papers, Raw, hello};
use crate::signatures::packet;

const FAILURES: &str = "binomesh_transport_handshake_failures_total";
/// The most connections of one peer, as in docs/design.md.
const CONNECTIONS: usize = 8;
/// The bound on the victim's growth: room for the windows of eight connections, a body in assembly,
/// and the reserve of the allocator.
const GROWTH_MIB: u64 = 64;

/// A certificate of the cluster, and the one socket of a process.
struct Hostile {
    papers: Papers,
    endpoint: quinn::Endpoint,
}

impl Hostile {
    fn new(cluster: &Cluster) -> Self {
        let issued = cluster.authority().issue("hostile", Validity::days(1));
        let issued = issued.expect("issued");
        let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes());
        let endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            papers: (chain.unwrap(), key.unwrap()),
            endpoint: endpoint.expect("a socket"),
        }
    }

    async fn connect(&self, to: SocketAddr) -> Option<Raw> {
        let papers = (self.papers.0.clone(), self.papers.1.clone_key());
        let raw = Raw::connect_from(self.endpoint.clone(), Some(papers), to).await;
        raw.ok()
    }
}

/// The bytes of memory that a process has.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        << 10
}

/// Begins bodies of a mebibyte, fills the windows of their streams, and ends none.
async fn begin_bodies(raw: &Raw) {
    for _ in 0..4 {
        let Ok(mut stream) = raw.connection.open_uni().await else {
            return;
        };
        let begun = async {
            stream.write_all(&[4, 1, 0, 0, 0, 0, 0x10, 0, 0]).await?;
            stream.write_all(&[7; (1 << 20) - 1]).await
        };
        let _ = tokio::time::timeout(Duration::from_millis(20), begun).await;
        // The stream stays open, because a body that ends too early would close the connection.
        std::mem::forget(stream);
    }
}

async fn all_are_reached(from: &Member, others: usize) {
    let client = from.client();
    let receipt = client.broadcast("t", "still", Some(bed::PATIENCE)).await;
    assert_eq!(receipt.expect("accepted").reached_count as usize, others);
}

#[tokio::test]
async fn a_member_that_opens_links_and_begins_bodies_without_end_is_bounded() {
    let _turn = bed::turn().await;
    let mut cluster = formed(bed::config(3)).await;
    let victim = member(&cluster, "node-0");
    let hostile = Hostile::new(&cluster);
    let before = resident(victim.pid);
    let (mut linked, mut refused) = (Vec::new(), 0);
    for attempt in 1..=100 {
        let Some(raw) = hostile.connect(victim.address).await else {
            refused += 1;
            continue;
        };
        // A later dial wins. The client never takes leave on the earlier connections, although they
        // should drain.
        let mut said = hello(1);
        said[5] = attempt;
        match raw.greet(&said).await {
            Ok(_) => {
                begin_bodies(&raw).await;
                linked.push(raw);
            }
            Err(_) => refused += 1,
        }
        let held = linked
            .iter()
            .filter(|raw| raw.connection.close_reason().is_none());
        assert!(held.count() <= CONNECTIONS, "{attempt}");
    }
    assert!(refused > 0);
    let many = counter(&victim.client(), FAILURES, &["\"too_many_links\""]).await;
    assert!(many > 0, "{refused} were refused, none as too many");
    let growth = resident(victim.pid).saturating_sub(before) >> 20;
    println!(
        "{} links, {refused} refused, {growth} MiB more",
        linked.len()
    );
    assert!(growth < GROWTH_MIB, "{growth} MiB");
    // The neighbours of the victim are served, and a restarted neighbour is admitted.
    all_are_reached(&member(&cluster, "node-1"), 2).await;
    cluster.restart("node-2", "node-0").await.unwrap();
    assert_eq!(verified(&cluster).await.1.nodes, 3);
    all_are_reached(&member(&cluster, "node-2"), 2).await;
    drop(linked);
    stop(cluster).await;
}

/// The connections do not greet, and they are more than one peer may have.
#[tokio::test]
async fn connections_of_one_peer_leave_room_for_others() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(2)).await;
    let victim = member(&cluster, "node-0");
    let hostile = Hostile::new(&cluster);
    let mut held = Vec::new();
    for _ in 0..40 {
        held.extend(hostile.connect(victim.address).await);
    }
    // The certificate names the peer, so its handshakes have the same limit as its connections.
    eventually("most are refused", async || {
        let open = held
            .iter()
            .filter(|raw| raw.connection.close_reason().is_none());
        (open.count() <= CONNECTIONS).then_some(())
    })
    .await;
    all_are_reached(&member(&cluster, "node-1"), 1).await;
    stop(cluster).await;
}

/// The answer to `/healthz` over a new connection.
async fn healthz(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut answer = String::new();
    let read = tokio::time::timeout(bed::PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("in time").expect("readable");
    answer
}

#[tokio::test]
async fn idle_connections_shut_nobody_out_of_the_metrics_port() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(2)).await;
    let victim = member(&cluster, "node-0");
    let address = victim.metrics_url.trim_start_matches("http://");
    let address = address.trim_end_matches("/metrics");
    let mut idle = Vec::new();
    // The connections are more than the 512 that are served at once. Every second one has sent half
    // a request head.
    for number in 0..600 {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        if number % 2 == 0 {
            stream.write_all(b"GET /hea").await.expect("sent");
        }
        idle.push(stream);
    }
    assert!(healthz(address).await.starts_with("HTTP/1.1 200 OK"));
    let made_room = counter(&victim.client(), "binomesh_admin_crowded_out_total", &[]).await;
    assert!(made_room >= 89, "{made_room}");
    all_are_reached(&member(&cluster, "node-1"), 1).await;
    drop(idle);
    stop(cluster).await;
}

/// Any program of the node's owner can open such requests.
#[tokio::test]
async fn requests_that_are_not_ended_shut_nobody_out_of_the_admin_socket() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(2)).await;
    let victim = member(&cluster, "node-0");
    let mut unended = Vec::new();
    for _ in 0..600 {
        let connected = tokio::net::UnixStream::connect(&victim.admin_socket).await;
        let mut stream = connected.expect("connected");
        let head = b"POST /v1/broadcast HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf";
        stream.write_all(head).await.expect("sent");
        unended.push(stream);
    }
    let socket = victim.admin_socket.display().to_string();
    let asked = bed::ran(&["status", "--admin", &socket], b"").await;
    assert!(asked.status.success(), "{asked:?}");
    drop(unended);
    stop(cluster).await;
}

/// Without a bound, 60 pushes of files with names of a megabyte of escapes would write 360 MB of
/// log.
#[tokio::test]
async fn names_of_a_megabyte_write_little_log_and_forge_no_line() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(3)).await;
    let (reports, _) = verified(&cluster).await;
    let named = |name: &str| reports.iter().find(|report| report.name == name).unwrap();
    let (origin, victim) = (named("node-0"), named("node-1"));
    let log = cluster.log_file("node-1");
    let length = || std::fs::metadata(&log).expect("a log").len();
    let before = length();
    let forger = Forger::linked(&cluster, victim).await;
    let line = "\n2026-01-01T00:00:00Z ERROR forged\u{1b}[31m";
    for sequence in 0..60 {
        // A push's number, the file's name, no length, no replacing, and bytes from 0 on.
        let name = line.repeat(1_000_000 / line.len());
        let head = (sequence, name, None::<u64>, false, (0_u32, 0_u64));
        let payload = postcard::to_stdvec(&head).expect("encodable");
        let mut copy = packet(origin, victim);
        copy.header.errand.id.sequence = sequence;
        copy.header.closed_below = sequence;
        copy.header.topic = Topic::new("$push").expect("a topic");
        copy.payloads = Payloads::from(Bytes::from(payload));
        eventually("there is room for a push", async || {
            forger.try_hand(victim.id, copy.clone()).ok()
        })
        .await;
    }
    eventually("the log tells of them", async || {
        let text = std::fs::read_to_string(&log).expect("readable");
        text.contains("a pushed file is refused").then_some(())
    })
    .await;
    all_are_reached(&member(&cluster, "node-0"), 2).await;
    let written = length() - before;
    println!("{written} bytes of log");
    assert!(written < 1 << 20, "{written} bytes");
    let text = std::fs::read_to_string(&log).expect("readable");
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("2026-01-01T00:00:00Z ERROR forged"))
    );
    assert!(!text.contains('\u{1b}'), "no escapes");
    stop(cluster).await;
}
