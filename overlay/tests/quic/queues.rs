//! Frames that wait for a peer: slots, bounds, and the event that tells of room.

use binomesh_overlay::quic::{Frame, SendError, TransportEvent};

use crate::bed::{Authority, Node, id, packet, slot};

#[tokio::test]
async fn over_the_wire_the_newest_of_a_slot_comes_in_its_old_place() {
    let authority = Authority::new("one");
    let (a, mut b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    // All frames are queued before the dial can succeed.
    for (kind, body) in [(1, b"old"), (2, b"two"), (1, b"new")] {
        a.transport.send(b.id(), slot(kind, body)).expect("queued");
    }
    assert_eq!(b.received().await.2, b"new".as_slice());
    assert_eq!(b.received().await.2, b"two".as_slice());
}

#[tokio::test]
async fn a_full_queue_says_so_and_later_that_there_is_room() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.packet_frames = 16;
    let mut a = Node::start(config);
    let mut config = authority.config("b");
    config.limits.events = 4;
    let mut b = Node::start(config);
    a.knows(&b);
    a.transport.connect(b.id());
    a.until_up(b.id()).await;

    // The host of b takes no events: b's readers wait, its windows fill, and then a's queue fills
    // too.
    let body = vec![0; 32 << 10];
    let mut sent = 0;
    loop {
        match a.transport.send(b.id(), packet(&body)) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, SendError::Full);
                if a.transport.links()[0].queued_frames[2] == 16 && sent > 20 {
                    break;
                }
            }
        }
        assert!(sent < 1000, "nothing holds the sender back");
        tokio::task::yield_now().await;
    }
    // Slots are not held up by packets.
    a.transport.send(b.id(), slot(1, b"slot")).expect("queued");
    for _ in 0..=sent {
        b.received().await;
    }
    let mut writable = 0;
    a.transport.close().await;
    while let Some(event) = a.events.try_recv() {
        writable += u32::from(event == TransportEvent::Writable { peer: b.id() });
    }
    assert!(writable >= 1, "no word of room");
    assert!(a.meter.read("full_total", "packet") >= 1);
    assert!(b.meter.read("host_waits_total", "") >= 1);
}

/// Short heads and payloads are written together, long ones by themselves.
#[tokio::test]
async fn frames_of_all_lengths_come_whole_and_in_order() {
    let authority = Authority::new("one");
    let (a, mut b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    let lengths = [0, 1, 1023, 1024, 1025, 70_000];
    let mut sent = Vec::new();
    // In the first round all frames wait for the dial. In the second round some go one by one.
    for round in 0..2_u8 {
        for (place, (head, payload)) in lengths
            .into_iter()
            .flat_map(|head| lengths.map(|payload| (head, payload)))
            .enumerate()
        {
            let byte = 2 * place as u8 + round;
            let frame = Frame {
                head: vec![byte; head].into(),
                ..packet(&vec![!byte; payload])
            };
            sent.push([&frame.head[..], &frame.payload[..]].concat());
            a.transport.send(b.id(), frame).expect("queued");
        }
        for body in sent.drain(..) {
            let received = b.received().await.2;
            assert_eq!(received.len(), body.len(), "round {round}");
            assert!(received == body, "round {round}, {} bytes", body.len());
        }
    }
}

/// Frames of one slot that wait for the dial arrive as one frame with the contents of all.
#[tokio::test]
async fn mergeable_frames_are_merged_while_they_wait() {
    let authority = Authority::new("one");
    let (a, mut b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    for body in [b"one, ", b"two, ", b"six, "] {
        let frame = Frame {
            head: body.to_vec().into(),
            merge: Some(|older, newer| Some([&older[..], &newer[..]].concat().into())),
            ..slot(7, b"")
        };
        a.transport.send(b.id(), frame).expect("queued");
    }
    let received = b.received().await.2;
    assert_eq!(received, b"one, two, six, ".as_slice());
}

#[tokio::test]
async fn sends_that_cannot_succeed_are_errors_at_once() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let send = |to, frame| a.transport.send(to, frame);
    assert_eq!(send(id("x"), packet(b"")), Err(SendError::UnknownPeer));
    assert_eq!(send(a.id(), packet(b"")), Err(SendError::ToSelf));
    let long = vec![0; (64 << 10) + 1];
    let too_long = SendError::TooLong {
        bytes: long.len(),
        limit: 64 << 10,
    };
    assert_eq!(send(id("x"), slot(1, &long)), Err(too_long));
    a.transport.close().await;
    assert_eq!(
        a.transport.send(id("x"), packet(b"")),
        Err(SendError::Closed)
    );
}

#[tokio::test]
async fn a_failed_dial_drops_the_waiting_frames_and_says_so() {
    let authority = Authority::new("one");
    let (mut a, b) = (authority.start("a"), authority.start("b"));
    a.knows_at(id("c"), b.address());
    for _ in 0..3 {
        a.transport.send(id("c"), packet(b"x")).expect("queued");
    }
    let failed = a.next().await;
    assert!(matches!(failed, TransportEvent::DialFailed { peer, .. } if peer == id("c")));
    assert_eq!(a.meter.read("dropped_frames_total", ""), 3);
}
