//! Peers that get a link, and peers that are refused.

use binomesh_overlay::quic::{DialError, PlainClass, TransportEvent};
use rcgen::{SanType, SerialNumber, date_time_ymd};

use crate::bed::{Authority, Node, Paper, eventually, id, name_it, packet};
use crate::raw_client::{GREETING, Raw, hello, knock};

const FAILURES: &str = "handshake_failures_total";

#[tokio::test]
async fn both_ends_have_one_link_and_it_carries_frames_both_ways() {
    let authority = Authority::new("one");
    let (mut a, mut b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    a.transport.connect(b.id());
    assert_eq!(a.until_up(b.id()).await, 1);
    assert_eq!(b.until_up(a.id()).await, 1);
    for (from, to) in [(&a, b.id()), (&b, a.id())] {
        from.transport.send(to, packet(b"hi")).expect("queued");
    }
    let at_b = b.received().await;
    assert_eq!(at_b, (a.id(), PlainClass::Packet, b"hi".as_slice().into()));
    let at_a = a.received().await;
    assert_eq!(at_a, (b.id(), PlainClass::Packet, b"hi".as_slice().into()));
    let links = b.transport.links();
    assert_eq!(links.len(), 1);
    assert_eq!((links[0].name.as_str(), links[0].peer), ("a", a.id()));
    assert_eq!((links[0].frames_in, links[0].frames_out), (1, 1));
}

/// Connect with `paper` and expect that no HelloAck ever comes.
async fn gets_no_ack(to: &Node, paper: Option<Paper>) {
    let acked = knock(paper.map(Paper::der), to.address()).await;
    assert!(acked.is_err(), "got {acked:?}");
}

#[tokio::test]
async fn without_a_valid_certificate_nobody_gets_an_ack_and_others_are_served() {
    let [authority, foreign, namesake] = ["one", "other", "one"].map(Authority::new);
    let serial = SerialNumber::from(77);
    let mut config = authority.config("a");
    config.identity = authority.identity_with("a", vec![authority.revoke(serial.clone())]);
    let mut a = Node::start(config);
    let mut b = authority.start("b");
    b.knows(&a);
    b.transport.connect(a.id());
    a.until_up(b.id()).await;
    b.until_up(a.id()).await;

    let expired = authority.issue(|params| {
        name_it(params, "late");
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let early = authority.issue(|params| {
        name_it(params, "early");
        params.not_before = date_time_ymd(4000, 1, 1);
    });
    let revoked = authority.issue(|params| {
        name_it(params, "revoked");
        params.serial_number = Some(serial);
    });
    let nameless = authority.issue(|_| ());
    let two_names = authority.issue(|params| {
        name_it(params, "c");
        name_it(params, "d");
    });
    let not_spiffe = authority.issue(|params| {
        let uri = "https://test/node/c".try_into().expect("ASCII");
        params.subject_alt_names.push(SanType::URI(uri));
    });
    let table = [
        (Some(foreign.issue_to("c")), "unknown_authority", 1),
        // An authority with the name of ours and another key is reported as unknown, too.
        (Some(namesake.issue_to("c")), "unknown_authority", 2),
        (Some(expired), "expired", 1),
        (Some(early), "not_yet_valid", 1),
        (Some(revoked), "revoked", 1),
        (Some(nameless), "not_a_peer", 1),
        (Some(two_names), "not_a_peer", 2),
        (Some(not_spiffe), "not_a_peer", 3),
        (None, "no_certificate", 1),
    ];
    for (paper, reason, count) in table {
        gets_no_ack(&a, paper).await;
        eventually(reason, || a.meter.read(FAILURES, reason) == count).await;
    }
    b.transport.send(a.id(), packet(b"still")).expect("queued");
    assert_eq!(a.received().await.2, b"still".as_slice());
    assert_eq!(a.transport.links().len(), 1);
}

#[tokio::test]
async fn a_well_formed_raw_client_gets_an_ack() {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let ack = raw
        .expect("connected")
        .greet(&hello(9))
        .await
        .expect("an ack");
    assert_eq!(ack[..1], [GREETING]);
    assert_eq!(a.until_up(id("raw")).await, 9);
}

#[tokio::test]
async fn expecting_one_and_finding_another_is_refused() {
    let authority = Authority::new("one");
    let (mut a, b) = (authority.start("a"), authority.start("b"));
    a.knows_at(id("c"), b.address());
    a.transport
        .send(id("c"), packet(b"secret"))
        .expect("queued");
    let failed = TransportEvent::DialFailed {
        peer: id("c"),
        reason: DialError::WrongPeer {
            found: b.id(),
            name: "b".to_owned(),
        },
    };
    assert_eq!(a.next().await, failed);
    assert_eq!(a.meter.read(FAILURES, "wrong_peer"), 1);
    assert!(a.transport.links().is_empty());
    assert!(b.transport.links().is_empty());
    assert_eq!(b.meter.read("frames_received_total", "packet"), 0);
}

#[tokio::test]
async fn another_protocol_version_is_refused_with_its_code() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let mut greeting = hello(1);
    greeting[0] = GREETING + 1;
    let refused = raw.expect("connected").greet(&greeting).await;
    let Err(quinn::ConnectionError::ApplicationClosed(close)) = refused else {
        panic!("got {refused:?}");
    };
    assert_eq!(close.error_code, 2_u32.into());
    assert_eq!(a.meter.read(FAILURES, "version"), 1);
}
