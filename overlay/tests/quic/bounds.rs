//! The bounds of a transport: the behaviour at each bound, and the counter that shows it.

use std::net::SocketAddr;
use std::time::Duration;

use binomesh_overlay::quic::{
    Class, Contact, ContactError, DialError, DownReason, RefusedFrame, SendError, TransportEvent,
    TransportLimits,
};

use crate::bed::{Authority, Node, PATIENCE, eventually, frame, id, packet, slot};
use crate::raw_client::{GREETING, Raw, hello, knock};

const FAILURES: &str = "handshake_failures_total";

fn bounded(authority: &Authority, name: &str, bound: impl FnOnce(&mut TransportLimits)) -> Node {
    let mut config = authority.config(name);
    bound(&mut config.limits);
    Node::start(config)
}

#[tokio::test]
async fn one_link_too_many_is_refused_as_busy() {
    let authority = Authority::new("one");
    let mut a = bounded(&authority, "a", |limits| limits.links = 1);
    let (b, mut c) = (authority.start("b"), authority.start("c"));
    b.knows(&a);
    c.knows(&a);
    b.transport.connect(a.id());
    a.until_up(b.id()).await;
    c.transport.connect(a.id());
    let busy = TransportEvent::DialFailed {
        peer: a.id(),
        reason: DialError::Busy,
    };
    assert_eq!(c.next().await, busy);
    assert!(a.meter.read(FAILURES, "busy") >= 1);
    // Node a does not dial another peer itself either.
    a.knows(&c);
    a.transport.send(c.id(), packet(b"x")).expect("queued");
    let no_room = TransportEvent::DialFailed {
        peer: c.id(),
        reason: DialError::NoRoom,
    };
    assert_eq!(a.next().await, no_room);
    assert_eq!(a.transport.links().len(), 1);
}

#[tokio::test]
async fn one_handshake_too_many_is_refused_at_once() {
    let authority = Authority::new("one");
    let mut a = bounded(&authority, "a", |limits| limits.handshakes = 1);
    let papers = || Some(authority.issue_to("raw").der());
    let slow = Raw::connect(papers(), a.address())
        .await
        .expect("connected");
    assert!(knock(papers(), a.address()).await.is_err());
    assert_eq!(a.meter.read(FAILURES, "busy"), 1);
    slow.greet(&hello(1)).await.expect("an ack");
    a.until_up(id("raw")).await;
}

#[tokio::test]
async fn a_greeting_above_its_length_is_not_read() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let papers = authority.issue_to("raw").der();
    let raw = Raw::connect(Some(papers), a.address()).await;
    let refused = raw.expect("connected").greet(&[GREETING, 0x26, 5]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(a.meter.read(FAILURES, "greeting"), 1);
}

#[tokio::test]
async fn one_peer_too_many_is_turned_away() {
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| limits.peers = 1);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for name in ["x", "y"] {
        a.knows_at(id(name), silent.local_addr().expect("an address"));
    }
    let send = |name| a.transport.send(id(name), packet(b"x"));
    assert_eq!(send("x"), Ok(()));
    assert_eq!(send("y"), Err(SendError::TooManyPeers));
    a.transport.connect(id("y"));
    assert_eq!(a.meter.read("peers_turned_away_total", ""), 2);
}

#[tokio::test]
async fn one_frame_too_many_is_turned_away_in_each_class() {
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| {
        (limits.slots, limits.control_frames, limits.packet_frames) = (2, 2, 2);
    });
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    a.knows_at(id("x"), silent.local_addr().expect("an address"));
    let send = |frame| a.transport.send(id("x"), frame);
    for kind in [1, 2] {
        assert_eq!(send(slot(kind, b"old")), Ok(()));
        assert_eq!(send(frame(Class::Control, b"c")), Ok(()));
        assert_eq!(send(packet(b"p")), Ok(()));
    }
    assert_eq!(send(slot(3, b"new")), Err(SendError::Full));
    assert_eq!(send(frame(Class::Control, b"c")), Err(SendError::Full));
    assert_eq!(send(packet(b"p")), Err(SendError::Full));
    assert_eq!(send(slot(2, b"new")), Ok(()), "it has its slot already");
    for class in ["maintenance", "control", "packet"] {
        assert_eq!(a.meter.read("full_total", class), 1, "{class}");
    }
}

#[tokio::test]
async fn a_full_book_turns_contacts_away_or_forgets_the_oldest_hearsay() {
    let authority = Authority::new("one");
    let mut b = authority.start("b");
    let contact = |name: &str| Contact {
        id: id(name),
        name: name.to_owned(),
        addresses: vec![([127, 0, 0, 1], 9).into()],
        metrics: None,
    };
    for name in ["x", "y"] {
        b.transport.add_contact(contact(name)).expect("room");
    }
    for (room, forgotten, turned_away) in [(2, 1, 0), (1, 0, 2)] {
        let mut c = bounded(&authority, "c", |limits| limits.contacts = room);
        c.knows(&b);
        c.transport.connect(b.id());
        b.until_up(c.id()).await;
        for name in ["x", "y"] {
            let mut introduction = slot(1, b"meet");
            introduction.introduces = vec![id(name)];
            b.transport.send(c.id(), introduction).expect("queued");
            c.received().await;
        }
        assert!(c.transport.contact(id("x")).is_none());
        assert_eq!(c.transport.contact(id("y")).is_some(), room == 2);
        assert_eq!(c.meter.read("contacts_forgotten_total", ""), forgotten);
        assert_eq!(c.meter.read("contacts_turned_away_total", ""), turned_away);
        if room == 1 {
            let full = c.transport.add_contact(contact("z"));
            assert_eq!(full, Err(ContactError::Full));
        }
        c.transport.close().await;
    }
}

#[tokio::test]
async fn a_contact_that_was_forgotten_is_told_again() {
    let authority = Authority::new("one");
    let mut b = bounded(&authority, "b", |limits| limits.told_contacts = 1);
    let mut c = authority.start("c");
    c.knows(&b);
    c.transport.connect(b.id());
    b.until_up(c.id()).await;
    for name in ["x", "y"] {
        b.knows_at(id(name), c.address());
    }
    for (name, told) in [("x", 1), ("x", 1), ("y", 2), ("x", 3)] {
        let mut introduction = slot(1, b"meet");
        introduction.introduces = vec![id(name)];
        b.transport.send(c.id(), introduction).expect("queued");
        c.received().await;
        assert_eq!(b.meter.read("contacts_told_total", ""), told, "{name}");
    }
}

#[tokio::test]
async fn large_bodies_wait_for_streams_and_for_room_and_all_arrive() {
    const BODY: usize = 2 << 20;
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| limits.queue_bytes = 8 * BODY);
    let mut b = bounded(&authority, "b", |limits| {
        (limits.peer_assembly_bytes, limits.events) = (BODY, 1);
    });
    a.knows(&b);
    for _ in 0..6 {
        a.transport
            .send(b.id(), packet(&vec![7; BODY]))
            .expect("queued");
    }
    // The host of b takes no events, so the first body holds the room that the second needs.
    let waits = || b.meter.read("assembly_waits_total", "") >= 1;
    eventually("a body waits for room", waits).await;
    let waits = || a.meter.read("large_waits_total", "") >= 1;
    eventually("a body waits for a stream", waits).await;
    for _ in 0..6 {
        assert_eq!(b.received().await.2.len(), BODY);
    }
}

#[tokio::test]
async fn one_stream_too_many_waits() {
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| limits.uni_streams = 5);
    let papers = authority.issue_to("raw").der();
    let raw = Raw::connect(Some(papers), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(raw.connection.open_uni().await.expect("a stream"));
    }
    let one_more = tokio::time::timeout(Duration::ZERO, raw.connection.open_uni());
    assert!(one_more.await.is_err(), "not yet");
    // A frame that is read to its end makes room.
    let mut stream = open.pop().expect("five");
    stream
        .write_all(&[4, 1, 0, 0, 0, 0, 0, 0, 1, b'x'])
        .await
        .expect("written");
    stream.finish().expect("open");
    raw.connection.open_uni().await.expect("a stream");
}

/// Begins a body of 64 KiB on a stream of its own, and leaves the rest to the caller.
async fn begin_body(raw: &Raw) -> quinn::SendStream {
    let mut stream = raw.connection.open_uni().await.expect("a stream");
    let begun = [4, 1, 0, 0, 0, 0, 1, 0, 0, b'x'];
    stream.write_all(&begun).await.expect("written");
    stream
}

#[tokio::test]
async fn short_bodies_on_streams_of_their_own_need_room_too() {
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| {
        limits.peer_assembly_bytes = 100 << 10;
    });
    let papers = authority.issue_to("raw").der();
    let raw = Raw::connect(Some(papers), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    let _open = [begin_body(&raw).await, begin_body(&raw).await];
    let waits = || a.meter.read("assembly_waits_total", "") == 1;
    eventually("the second waits for room", waits).await;
}

#[tokio::test]
async fn bodies_that_peers_do_not_end_are_bounded_together_and_leave_room_for_others() {
    let authority = Authority::new("one");
    let mut a = bounded(&authority, "a", |limits| {
        limits.peer_assembly_bytes = 70 << 10;
        limits.assembly_bytes = 150 << 10;
    });
    let mut links = Vec::new();
    for name in ["w", "x", "y", "z"] {
        links.push(greeted(&authority, name, &a).await);
    }
    let meter = a.meter.clone();
    let waits = |count| {
        let meter = &meter;
        move || meter.read("assembly_waits_total", "") == count
    };
    // The second body of a peer waits for the first body of this peer and takes no room of other
    // peers.
    let _open = [begin_body(&links[0]).await, begin_body(&links[0]).await];
    eventually("the second waits", waits(1)).await;
    // The second body of the next peer waits too, so only the first bodies have room.
    let mut second = [begin_body(&links[1]).await, begin_body(&links[1]).await];
    eventually("one of the second peer waits", waits(2)).await;
    let _third = begin_body(&links[2]).await;
    eventually("the third peer's waits", waits(3)).await;
    // A body that waits ends with its link, and keeps no other body waiting.
    links[2].connection.close(9_u32.into(), b"");
    a.until(|event| {
        matches!(event, TransportEvent::LinkDown { peer, .. } if peer == id("y")).then_some(())
    })
    .await;
    let fourth = begin_body(&links[3]).await;
    eventually("the fourth peer's waits", waits(4)).await;
    for stream in second.iter_mut().chain([&mut { fourth }]) {
        let rest = vec![7; (64 << 10) - 1];
        stream.write_all(&rest).await.expect("written");
        stream.finish().expect("open");
    }
    let mut from = Vec::new();
    for _ in 0..3 {
        let (peer, _, body) = a.received().await;
        assert_eq!(body.len(), 64 << 10);
        from.push(peer);
    }
    from.sort();
    let mut expected = [id("x"), id("x"), id("z")];
    expected.sort();
    assert_eq!(from, expected);
}

#[tokio::test]
async fn a_body_that_takes_too_long_closes_the_link_if_others_wait_for_its_room() {
    let authority = Authority::new("one");
    let mut a = bounded(&authority, "a", |limits| {
        limits.assembly_timeout = Duration::from_millis(100);
        limits.assembly_rate = u32::MAX;
        limits.assembly_bytes = 100 << 10;
    });
    let slow = greeted(&authority, "slow", &a).await;
    let mut stream = begin_body(&slow).await;
    // The peer sends a byte now and then, for longer than the limit. No other body waits for room,
    // so the link stays.
    for _ in 0..30 {
        stream.write_all(b"x").await.expect("not refused");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(a.meter.read("refused_frames_total", "overdue"), 0);
    let other = greeted(&authority, "other", &a).await;
    let mut waiting = begin_body(&other).await;
    let down = TransportEvent::LinkDown {
        peer: id("slow"),
        reason: DownReason::RefusedFrame(RefusedFrame::Overdue),
    };
    a.until(|event| (event == down).then_some(())).await;
    assert_eq!(a.meter.read("refused_frames_total", "overdue"), 1);
    let rest = vec![7; (64 << 10) - 1];
    waiting.write_all(&rest).await.expect("written");
    assert_eq!(a.received().await.2.len(), 64 << 10);
}

/// A raw peer that has greeted.
async fn greeted(authority: &Authority, name: &str, to: &Node) -> Raw {
    let papers = authority.issue_to(name).der();
    let raw = Raw::connect(Some(papers), to.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    raw
}

#[tokio::test]
async fn a_superfluous_connection_whose_peer_does_not_take_leave_is_closed() {
    let authority = Authority::new("one");
    let mut a = bounded(&authority, "a", |limits| {
        limits.drain_timeout = Duration::from_secs(1);
    });
    let to = a.address();
    let endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)));
    let endpoint = endpoint.expect("a socket");
    let connect = async || {
        let papers = authority.issue_to("raw").der();
        let raw = Raw::connect_from(endpoint.clone(), Some(papers), to).await;
        raw.expect("connected")
    };
    // The two connections have the same source address, so `a` takes them for one process.
    let (first, second) = (connect().await, connect().await);
    // The dial with the greater number wins, even if it comes first.
    let [mut late, mut early] = [hello(1); 2];
    (late[5], early[5]) = (5, 4);
    first.greet(&late).await.expect("an ack");
    second.greet(&early).await.expect("an ack");
    let end = tokio::time::timeout(PATIENCE, second.connection.closed()).await;
    let Ok(quinn::ConnectionError::ApplicationClosed(close)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(close.error_code.into_inner(), 6, "too slow");
    assert!(first.connection.close_reason().is_none());
    // The host hears only of the end of the link, and nothing of the superfluous connection.
    let peer = id("raw");
    assert_eq!(a.next().await, TransportEvent::LinkUp { peer, boot: 1 });
    first.connection.close(9_u32.into(), b"");
    let reason = DownReason::ClosedByPeer(9);
    assert_eq!(a.next().await, TransportEvent::LinkDown { peer, reason });
    eventually("no link", || a.transport.links().is_empty()).await;
    assert_eq!(a.meter.read("links_down_total", ""), 1);
}

#[tokio::test]
async fn events_are_bounded_by_their_bytes() {
    const BODY: usize = 40 << 10;
    let authority = Authority::new("one");
    let a = authority.start("a");
    let mut b = bounded(&authority, "b", |limits| limits.event_bytes = 2 * BODY);
    a.knows(&b);
    for _ in 0..6 {
        let sent = a.transport.send(b.id(), packet(&vec![7; BODY]));
        sent.expect("queued");
    }
    // Two frames with their headers are longer than two bodies.
    let waits = || b.meter.read("host_waits_total", "") >= 1;
    eventually("a reader waits for the host", waits).await;
    for _ in 0..6 {
        assert_eq!(b.received().await.2.len(), BODY);
    }
    // A frame that is longer than the whole bound passes.
    a.transport
        .send(b.id(), packet(&vec![7; 5 * BODY]))
        .expect("queued");
    assert_eq!(b.received().await.2.len(), 5 * BODY);
}

/// First packets of connections whose dialler does not exist.
async fn made_up(count: usize) -> Vec<Vec<u8>> {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
    let sink = sink.expect("a socket");
    let to = sink.local_addr().expect("an address");
    let mut packets: Vec<Vec<u8>> = Vec::new();
    while packets.len() < count {
        let dialler = tokio::spawn(Raw::connect(None, to));
        let mut packet = vec![0; 2048];
        let (length, _) = sink.recv_from(&mut packet).await.expect("a packet");
        packet.truncate(length);
        // Behind the first byte and the version stand the length and the bytes of the connection's
        // id.
        let is_new = packets.iter().all(|other| other[5..14] != packet[5..14]);
        dialler.abort();
        if is_new {
            packets.push(packet);
        }
    }
    packets
}

#[tokio::test]
async fn diallers_that_do_not_exist_leave_room_for_those_that_do() {
    let authority = Authority::new("one");
    let a = bounded(&authority, "a", |limits| limits.handshakes = 4);
    let mut b = authority.start("b");
    for packet in made_up(8).await {
        let from = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
        let from = from.expect("a socket");
        from.send_to(&packet, a.address()).await.expect("sent");
    }
    // Two diallers have begun a handshake. The other six were asked to prove their address.
    let retried = || a.meter.read("handshakes_retried_total", "") == 6;
    eventually("six are asked to try again", retried).await;
    b.knows(&a);
    b.transport.connect(a.id());
    let up = TransportEvent::LinkUp {
        peer: a.id(),
        boot: 1,
    };
    assert_eq!(b.next().await, up);
    assert_eq!(a.meter.read("handshakes_retried_total", ""), 7);
    assert_eq!(a.meter.read(FAILURES, "busy"), 0);
}
