//! Shares: how much of a node one peer or one address may take, so that other peers have room, and
//! how little a silent address holds up a dial.

use std::net::SocketAddr;
use std::time::Duration;

use binomesh_overlay::quic::Contact;
use quinn::{ConnectionError, Endpoint};
use rcgen::SerialNumber;

use crate::bed::{Authority, Node, PATIENCE, eventually, id, name_it, packet};
use crate::raw_client::{Raw, hello};

const FAILURES: &str = "handshake_failures_total";

/// The code with which the other side closed the connection.
fn code(end: &ConnectionError) -> Option<u64> {
    match end {
        ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
        _ => None,
    }
}

/// A member whose connections all come from one socket, as those of one process do.
struct Member<'a> {
    authority: &'a Authority,
    endpoint: Endpoint,
}

impl<'a> Member<'a> {
    fn new(authority: &'a Authority) -> Self {
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            authority,
            endpoint: endpoint.expect("a socket"),
        }
    }

    async fn connect(&self, to: &Node) -> Raw {
        let papers = self.authority.issue_to("raw").der();
        let raw = Raw::connect_from(self.endpoint.clone(), Some(papers), to.address()).await;
        raw.expect("connected")
    }

    /// Greets as the dial with this number. A dial with a greater number wins.
    async fn greet(&self, to: &Node, attempt: u8) -> (Raw, Result<Vec<u8>, ConnectionError>) {
        let raw = self.connect(to).await;
        let mut said = hello(1);
        said[5] = attempt;
        let answer = raw.greet(&said).await;
        (raw, answer)
    }
}

#[tokio::test]
async fn one_peer_has_a_few_connections_and_its_neighbour_has_room() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.links = 5;
    config.limits.peer_connections = 3;
    let mut a = Node::start(config);
    let member = Member::new(&authority);
    let mut held = Vec::new();
    // The earlier connections do not take leave, so they keep draining.
    for attempt in 1..=3 {
        let (raw, answer) = member.greet(&a, attempt).await;
        answer.expect("an ack");
        held.push(raw);
    }
    for attempt in 4..20 {
        let (raw, answer) = member.greet(&a, attempt).await;
        assert!(answer.is_err(), "{attempt}");
        let end = raw.connection.closed().await;
        assert_eq!(code(&end), Some(4), "busy: {end}");
    }
    let many = a.meter.read(FAILURES, "too_many_links");
    assert_eq!(many, 16);
    // A neighbour comes in, and is heard.
    let b = authority.start("b");
    b.knows(&a);
    b.transport.send(a.id(), packet(b"here")).expect("queued");
    a.until_up(b.id()).await;
    assert_eq!(&a.received().await.2[..], b"here");
    // When one connection ends, another may come.
    held.pop()
        .expect("three")
        .connection
        .close(9_u32.into(), b"");
    let again = async {
        while member.greet(&a, 21).await.1.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let again = tokio::time::timeout(PATIENCE, again).await;
    again.expect("there is room again");
}

#[tokio::test]
async fn one_address_has_all_handshakes_until_another_wants_one() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.handshakes = 4;
    // With this timeout a silent handshake ends only when another address wants its place.
    config.limits.handshake_timeout = Duration::from_secs(60);
    let mut a = Node::start(config);
    let papers = || Some(authority.issue_to("raw").der());
    let mut silent = Vec::new();
    for _ in 0..4 {
        // The client completes TLS and does not greet.
        silent.push(Raw::connect(papers(), a.address()).await.expect("room"));
    }
    assert!(Raw::connect(papers(), a.address()).await.is_err(), "full");
    assert_eq!(a.meter.read(FAILURES, "busy"), 1);
    assert!(
        silent
            .iter()
            .all(|raw| raw.connection.close_reason().is_none())
    );
    let mut config = authority.config("b");
    config.bind = vec![SocketAddr::from(([127, 0, 0, 2], 0))];
    let b = Node::start(config);
    b.knows(&a);
    b.transport.connect(a.id());
    a.until_up(b.id()).await;
    assert_eq!(a.meter.read(FAILURES, "crowded_out"), 1);
    let end = tokio::time::timeout(PATIENCE, silent[0].connection.closed()).await;
    assert!(end.is_ok(), "the oldest one made room");
    let others = &silent[1..];
    assert!(
        others
            .iter()
            .all(|raw| raw.connection.close_reason().is_none())
    );
}

/// A draining connection is still read. If only links were judged, a revoked peer would be read for
/// as long as its drain may take.
#[tokio::test]
async fn a_renewal_cuts_links_that_drain_too() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.drain_timeout = Duration::from_secs(60);
    let a = Node::start(config);
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)));
    let endpoint = endpoint.expect("a socket");
    let serial = SerialNumber::from(77);
    let papers = authority.issue(|params| {
        name_it(params, "raw");
        params.serial_number = Some(serial.clone());
    });
    let papers = papers.der();
    let mut all = Vec::new();
    for attempt in [5, 4] {
        let papers = (papers.0.clone(), papers.1.clone_key());
        let raw = Raw::connect_from(endpoint.clone(), Some(papers), a.address()).await;
        let raw = raw.expect("connected");
        let mut said = hello(1);
        said[5] = attempt;
        raw.greet(&said).await.expect("an ack");
        all.push(raw);
    }
    eventually("the second is superfluous", || {
        a.meter.read("replaced_links_total", "") == 1
    })
    .await;
    let renewed = authority.identity_with("a", vec![authority.revoke(serial)]);
    a.transport.renew(&renewed).expect("renewed");
    for raw in &all {
        let end = tokio::time::timeout(PATIENCE, raw.connection.closed()).await;
        let end = end.expect("it is cut");
        assert_eq!(code(&end), Some(8), "certificate: {end}");
    }
}

/// Hearsay has put three addresses before the right one, and nobody answers at these three.
#[tokio::test]
async fn an_address_that_is_silent_keeps_no_other_waiting() {
    let authority = Authority::new("one");
    let (mut a, b) = (authority.start("a"), authority.start("b"));
    let silent = [(); 3].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let mut addresses: Vec<SocketAddr> = silent
        .iter()
        .map(|socket| socket.local_addr().expect("an address"))
        .collect();
    addresses.push(a.address());
    let contact = Contact {
        id: a.id(),
        name: "hearsay".to_owned(),
        addresses,
        metrics: None,
    };
    b.transport.add_contact(contact).expect("room");
    b.transport.connect(a.id());
    a.until_up(id("b")).await;
    assert_eq!(b.meter.read("dials_total", ""), 4);
    assert_eq!(b.meter.read(FAILURES, "timed_out"), 0, "it waited for none");
    drop(silent);
}

/// The answer of a wrong peer is no silence, so the node tries the next address at once.
#[tokio::test]
async fn of_addresses_that_answer_wrongly_the_next_is_tried() {
    let authority = Authority::new("one");
    let (mut a, b, c) = (
        authority.start("a"),
        authority.start("b"),
        authority.start("c"),
    );
    let contact = Contact {
        id: a.id(),
        name: "hearsay".to_owned(),
        addresses: vec![c.address(), a.address()],
        metrics: None,
    };
    b.transport.add_contact(contact).expect("room");
    b.transport.connect(a.id());
    a.until_up(b.id()).await;
    assert_eq!(b.meter.read("dials_total", ""), 2);
}
