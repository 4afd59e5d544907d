//! Signs of life go as datagrams.

use std::time::Duration;

use binomesh_overlay::quic::PlainClass;
use bytes::Bytes;

use crate::bed::{Authority, Node, eventually, id, packet, slot};
use crate::raw_client::{Raw, hello};

#[tokio::test]
async fn a_beat_arrives_or_is_said_to_have_no_link() {
    let authority = Authority::new("one");
    let mut quiet = authority.config("b");
    quiet.limits.keep_alive = Duration::from_secs(60);
    let (mut a, mut b) = (authority.start("a"), Node::start(quiet));
    assert!(!b.transport.beat(a.id(), b"alive"), "no link yet");
    b.knows(&a);
    b.transport.connect(a.id());
    b.until_up(a.id()).await;
    a.until_up(b.id()).await;
    assert!(!b.transport.beat(a.id(), &[0; 257]), "too long");
    let before = b.transport.acknowledgements(a.id()).expect("a link");
    let beat = Bytes::from_static(b"alive");
    for _ in 0..40 {
        assert!(b.transport.beat(a.id(), &beat));
        let received = (b.id(), PlainClass::Maintenance, beat.clone());
        assert_eq!(a.received().await, received);
    }
    // An acknowledgement by the other process is a sign of its life. One acknowledgement covers
    // about two beats, and the link itself causes only a few of them.
    eventually("acknowledgements", || {
        b.transport.acknowledgements(a.id()) >= Some(before + 15)
    })
    .await;
    assert_eq!(b.transport.acknowledgements(id("nobody")), None);
}

#[tokio::test]
async fn beats_that_find_no_room_displace_older_ones_and_are_counted() {
    let authority = Authority::new("one");
    let (a, mut b) = (authority.start("a"), authority.start("b"));
    b.knows(&a);
    b.transport.connect(a.id());
    b.until_up(a.id()).await;
    // The test has one thread: the transport's tasks send nothing until this task awaits.
    for _ in 0..100 {
        assert!(b.transport.beat(a.id(), &[7; 200]));
    }
    let displaced = b.meter.read("beats_displaced_total", "");
    assert!((75..=85).contains(&displaced), "{displaced}");
}

#[tokio::test]
async fn a_beat_of_another_version_is_counted_and_dropped() {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    for datagram in [&[9, 9][..], &[], &[1, 7]] {
        let datagram = Bytes::copy_from_slice(datagram);
        raw.connection.send_datagram(datagram).expect("taken");
    }
    let (from, _, body) = a.received().await;
    assert_eq!((from, body), (id("raw"), Bytes::from_static(&[7])));
    assert_eq!(a.meter.read("refused_frames_total", "version"), 1);
    assert_eq!(a.meter.read("refused_frames_total", "malformed"), 1);
}

#[tokio::test]
async fn signs_of_life_and_slots_do_not_wait_behind_packets_that_the_host_has_not_taken() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let mut config = authority.config("b");
    config.limits.events = 8;
    let mut b = Node::start(config);
    a.knows(&b);
    a.transport.connect(b.id());
    b.until_up(a.id()).await;
    // The host of b takes no more events, so packets fill all the room that packets have.
    let fill = || {
        let _ = a.transport.send(b.id(), packet(&[7; 1000]));
        b.meter.read("host_waits_total", "") > 0
    };
    eventually("a packet waits for room", fill).await;
    a.transport.send(b.id(), slot(1, b"slot")).expect("queued");
    let received = || b.meter.read("frames_received_total", "maintenance");
    eventually("the slot comes", || received() == 1).await;
    assert!(a.transport.beat(b.id(), b"beat"));
    eventually("the beat comes", || received() == 2).await;
    let mut bodies = Vec::new();
    for _ in 0..3 {
        bodies.push(b.received().await.2);
    }
    let [slot, packet, beat] = &bodies[..] else {
        unreachable!("three");
    };
    assert_eq!((&slot[..], &beat[..]), (&b"slot"[..], &b"beat"[..]));
    assert_eq!(packet.len(), 1000, "one packet between them");
}
