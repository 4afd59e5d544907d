//! Peers that are configured by DNS names: names of this host, which every resolver knows, and a
//! reserved name that no resolver knows (RFC 6761, 6.4).

use binomesh_overlay::quic::{DialError, Location, TransportEvent};

use crate::bed::{Authority, Node, eventually, packet};

fn named(host: &str, port: u16) -> Location {
    Location::new(host, port).expect("a name")
}

#[tokio::test]
async fn a_peer_is_dialled_by_its_name_and_says_its_address() {
    let authority = Authority::new("one");
    let (mut a, b) = (authority.start("a"), authority.start("b"));
    let at = vec![named("localhost", b.address().port())];
    a.transport
        .add_located(b.id(), "b".to_owned(), at)
        .expect("room");
    a.transport.connect(b.id());
    a.until_up(b.id()).await;
    let contact = a.transport.contact(b.id()).expect("known");
    assert_eq!(contact.addresses[0], b.address());
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_tried_on_and_other_locations_are_dialled() {
    let authority = Authority::new("one");
    let (mut a, mut b) = (authority.start("a"), authority.start("b"));
    let nobody = named("nobody.invalid", 7400);
    let only = vec![nobody.clone()];
    a.transport
        .add_located(b.id(), "b".to_owned(), only)
        .expect("room");
    a.transport.send(b.id(), packet(b"lost")).expect("queued");
    let reason = a.until(|event| match event {
        TransportEvent::DialFailed { reason, .. } => Some(reason),
        _ => None,
    });
    let reason = reason.await;
    assert!(
        matches!(&reason, DialError::Unresolved { host, .. } if host == "nobody.invalid"),
        "{reason}"
    );
    a.transport.connect(b.id());
    eventually("further look-ups", || {
        a.meter.read("handshake_failures_total", "unresolved") >= 3
    })
    .await;
    let both = vec![nobody, b.address().into()];
    a.transport
        .add_located(b.id(), "b".to_owned(), both)
        .expect("room");
    a.until_up(b.id()).await;
    a.transport.send(b.id(), packet(b"there")).expect("queued");
    assert_eq!(&b.received().await.2[..], b"there");
}

#[tokio::test]
async fn others_are_told_the_addresses_of_an_advertised_name() {
    let authority = Authority::new("one");
    let mut config = authority.config("b");
    config.advertised = vec![named("localhost", 7), named("nobody.invalid", 7)];
    let nothing_yet = Node::start(config);
    let own = nothing_yet
        .transport
        .contact(nothing_yet.id())
        .expect("own");
    assert!(own.addresses.is_empty());

    let mut config = authority.config("c");
    config.advertised = vec![named("localhost", 7)];
    let (mut a, mut c) = (authority.start("a"), Node::start(config));
    eventually("its own name resolves", || {
        let own = c.transport.contact(c.id()).expect("own");
        !own.addresses.is_empty()
    })
    .await;
    // The greeting of c tells node a the advertised addresses of c.
    c.knows(&a);
    c.transport.connect(a.id());
    c.until_up(a.id()).await;
    a.until_up(c.id()).await;
    let contact = a.transport.contact(c.id()).expect("known");
    let is_told = |at: &std::net::SocketAddr| at.ip().is_loopback() && at.port() == 7;
    assert!(contact.addresses.iter().all(is_told), "{contact:?}");
}
