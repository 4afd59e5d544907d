//! Links: simultaneous dials that leave one link, restarts, introductions, IPv6, idle links and
//! leave-taking.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use binomesh_overlay::quic::{Class, Direction, DownReason, TransportEvent};

use crate::bed::{Authority, Node, PATIENCE, eventually, frame, id, packet, slot};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_dials_leave_one_link_and_lose_nothing() {
    let mut both = 0;
    for round in 0..10_u8 {
        let authority = Authority::new("one");
        let (mut a, mut b) = (authority.start("a"), authority.start("b"));
        a.knows(&b);
        b.knows(&a);
        a.transport.connect(b.id());
        b.transport.connect(a.id());
        for i in 0..50_u8 {
            for class in [Class::Control, Class::Packet] {
                a.transport
                    .send(b.id(), frame(class, &[i]))
                    .expect("queued");
                b.transport
                    .send(a.id(), frame(class, &[i]))
                    .expect("queued");
            }
            a.transport.send(b.id(), slot(i, &[i])).expect("queued");
            b.transport.send(a.id(), slot(i, &[i])).expect("queued");
            tokio::task::yield_now().await;
        }
        for node in [&mut a, &mut b] {
            let mut got: [Vec<u8>; 3] = Default::default();
            while got.iter().map(Vec::len).sum::<usize>() < 150 {
                match node.next().await {
                    TransportEvent::Received { class, body, .. } => {
                        got[class as usize].push(body[0]);
                    }
                    TransportEvent::LinkUp { .. } => {}
                    other => panic!("round {round}: {other:?}"),
                }
            }
            let in_order: Vec<u8> = (0..50).collect();
            assert_eq!(got, [&in_order[..]; 3], "round {round}");
        }
        // Both nodes keep the same connection. If both dials succeeded, they keep the dial by the
        // greater id. No node had to dial again, and no node lost the link meanwhile.
        let total = |name| a.meter.read(name, "") + b.meter.read(name, "");
        let agreed = || {
            let (greater, lesser) = if a.id() > b.id() { (&a, &b) } else { (&b, &a) };
            let links = (greater.transport.links(), lesser.transport.links());
            match (&links.0[..], &links.1[..]) {
                ([one], [other]) => {
                    let same = one.direction != other.direction;
                    same && (total("accepted_total") < 2 || one.direction == Direction::Outgoing)
                }
                _ => false,
            }
        };
        eventually("both keep the same connection", agreed).await;
        assert!(total("dials_total") <= 2, "round {round}");
        both += u32::from(total("accepted_total") == 2);
        for node in [&mut a, &mut b] {
            let more = node.events.try_recv();
            assert!(more.is_none(), "round {round}: {more:?}");
        }
    }
    assert!(both > 0, "no two dials met");
}

#[tokio::test]
async fn a_restart_is_noticed_long_before_the_idle_timeout() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.keep_alive = Duration::from_millis(100);
    config.limits.idle_timeout = Duration::from_secs(600);
    let mut a = Node::start(config);

    // The first process runs in a runtime of its own, which ends without a goodbye.
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = authority.config("b");
    config.limits.idle_timeout = Duration::from_secs(600);
    let first = {
        let _entered = process.enter();
        Node::start(config)
    };
    let address = first.address();
    a.knows(&first);
    a.transport.connect(id("b"));
    assert_eq!(a.until_up(id("b")).await, 1);
    let died = tokio::task::spawn_blocking(|| process.shutdown_timeout(PATIENCE));
    died.await.expect("dead");
    drop(first);

    let mut config = authority.config("b");
    config.bind = vec![address];
    config.boot = 2;
    let is_free = || std::net::UdpSocket::bind(address).is_ok();
    eventually("the port is free", is_free).await;
    let second = Node::start(config);
    let down = a.until(|event| match event {
        TransportEvent::LinkDown { reason, .. } => Some(reason),
        _ => None,
    });
    assert_eq!(down.await, DownReason::Restarted);
    assert_eq!(a.until_up(second.id()).await, 2);
}

#[tokio::test]
async fn a_node_that_stops_does_not_wait_for_the_dead() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.drain_timeout = Duration::from_secs(600);
    let mut a = Node::start(config);
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let first = {
        let _entered = process.enter();
        authority.start("b")
    };
    a.knows(&first);
    a.transport.connect(id("b"));
    a.until_up(id("b")).await;
    let died = tokio::task::spawn_blocking(|| process.shutdown_timeout(PATIENCE));
    died.await.expect("dead");
    // The stop does not wait for the idle timeout of the link either, which is 10 s.
    let closed = tokio::time::timeout(Duration::from_secs(5), a.transport.close()).await;
    assert!(closed.is_ok(), "still waiting");
}

#[tokio::test]
async fn an_introduction_is_enough_to_dial() {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let (mut b, mut c) = (authority.start("b"), authority.start("c"));
    a.knows(&b);
    c.knows(&b);
    a.transport.connect(b.id());
    c.transport.connect(b.id());
    b.until_up(a.id()).await;
    c.until_up(b.id()).await;
    assert!(c.transport.contact(a.id()).is_none());
    c.transport.connect(a.id());
    let mut introduction = slot(1, b"meet a");
    introduction.introduces = vec![a.id()];
    b.transport
        .send(c.id(), introduction.clone())
        .expect("queued");
    c.until_up(a.id()).await;
    a.until_up(c.id()).await;
    // The contact has the name and the address that node a told of itself.
    let contact = c.transport.contact(a.id()).expect("known");
    assert_eq!(
        (contact.name.as_str(), contact.addresses),
        ("a", vec![a.address()])
    );
    // The stream that has told a contact does not tell the same contact again.
    b.transport.send(c.id(), introduction).expect("queued");
    c.received().await;
    assert_eq!(b.meter.read("contacts_told_total", ""), 1);
}

#[tokio::test]
async fn hearsay_is_tried_when_the_known_address_fails() {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let mut config = authority.config("c");
    config.limits.handshake_timeout = Duration::from_millis(500);
    let mut c = Node::start(config);
    let mut b = authority.start("b");
    a.knows(&b);
    a.transport.connect(b.id());
    b.until_up(a.id()).await;
    b.knows(&c);
    // Node c is configured with an address of node a at which nobody answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    c.knows_at(a.id(), silent.local_addr().expect("an address"));
    let mut introduction = slot(1, b"meet a");
    introduction.introduces = vec![a.id()];
    b.transport.send(c.id(), introduction).expect("queued");
    c.received().await;
    c.transport.send(a.id(), packet(b"found")).expect("queued");
    c.until_up(a.id()).await;
    assert_eq!(a.received().await.2, b"found".as_slice());
}

#[tokio::test]
async fn ipv6_and_dual_stack_work() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.bind = vec!["[::1]:0".parse().expect("an address")];
    let mut a = Node::start(config);
    let mut config = authority.config("b");
    config.bind = vec!["[::]:0".parse().expect("an address")];
    let mut b = Node::start(config);
    let mut v4 = authority.start("v4");
    let port = b.address().port();
    a.knows_at(
        b.id(),
        SocketAddr::new("::1".parse().expect("an address"), port),
    );
    v4.knows_at(b.id(), SocketAddr::from(([127, 0, 0, 1], port)));
    a.transport.connect(b.id());
    v4.transport.connect(b.id());
    a.until_up(b.id()).await;
    v4.until_up(b.id()).await;
    // b is bound to no particular address, so a peer knows b by the address that the peer sees.
    b.transport.send(v4.id(), packet(b"4")).expect("queued");
    assert_eq!(v4.received().await.2, b"4".as_slice());
    b.until_up(v4.id()).await;
    let contact = v4.transport.contact(b.id()).expect("known");
    assert_eq!(
        contact.addresses,
        [SocketAddr::from(([127, 0, 0, 1], port))]
    );
    // b dials over IPv4 from its dual-stack socket.
    let v4_contact = b.transport.contact(v4.id()).expect("known");
    assert_eq!(v4_contact.addresses, [v4.address()]);
    let mut other = authority.start("other");
    b.knows(&other);
    b.transport.connect(other.id());
    other.until_up(b.id()).await;
}

#[tokio::test]
async fn an_unclaimed_link_ends_when_both_sides_are_idle() {
    let authority = Authority::new("one");
    let mut configs = ["a", "b"].map(|name| authority.config(name));
    for config in &mut configs {
        config.limits.link_idle = Duration::from_millis(200);
    }
    let [mut a, mut b] = configs.map(Node::start);
    a.knows(&b);
    a.transport.send(b.id(), packet(b"once")).expect("queued");
    assert_eq!(b.received().await.2, b"once".as_slice());
    for node in [&mut a, &mut b] {
        let reason = node.until(|event| match event {
            TransportEvent::LinkDown { reason, .. } => Some(reason),
            _ => None,
        });
        assert_eq!(reason.await, DownReason::Idle);
    }
    // The link comes back when a node needs it.
    b.transport.send(a.id(), packet(b"again")).expect("queued");
    assert_eq!(a.received().await.2, b"again".as_slice());
}

#[tokio::test]
async fn frames_sent_before_the_close_arrive() {
    let authority = Authority::new("one");
    let (mut a, mut b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    a.transport.connect(b.id());
    a.until_up(b.id()).await;
    let large = vec![7; 1 << 20];
    for i in 0..100_u8 {
        a.transport.send(b.id(), packet(&[i])).expect("queued");
    }
    a.transport.send(b.id(), packet(&large)).expect("queued");
    let closing = a.transport.close();
    let mut got = BTreeSet::new();
    let receiving = async {
        loop {
            match b.next().await {
                TransportEvent::Received { body, .. } if body.len() == 1 => {
                    got.insert(body[0]);
                }
                TransportEvent::Received { body, .. } => assert_eq!(body, large),
                TransportEvent::LinkDown { reason, .. } => return reason,
                _ => {}
            }
        }
    };
    let ((), reason) = tokio::join!(closing, receiving);
    assert_eq!(reason, DownReason::PeerStopping);
    assert_eq!(got.len(), 100);
    assert_eq!(
        b.meter.read("bytes_received_total", "packet"),
        100 + (1 << 20)
    );
    assert_eq!(a.meter.read("drains_overdue_total", ""), 0);
}
