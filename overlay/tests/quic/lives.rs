//! Which of two processes of one identity is admitted, over real connections.

use std::net::SocketAddr;
use std::time::Duration;

use binomesh_overlay::quic::{DialError, Notary, TransportConfig, TransportEvent};
use tokio::runtime::Runtime;

use crate::bed::{Authority, Node, PATIENCE, eventually, id, packet};
use crate::raw_client::{GREETING, Raw, hello};

/// The configuration of a process of `name` with this boot, at an address of its own.
fn life(authority: &Authority, name: &str, boot: u64) -> TransportConfig {
    let mut config = authority.config(name);
    config.boot = boot;
    config.limits.answer_timeout = Duration::from_millis(300);
    config
}

/// A node in a runtime of its own. When the runtime ends, the node dies without a goodbye.
fn mortal(config: TransportConfig) -> (Runtime, Node) {
    let runtime = Runtime::new().expect("a runtime");
    let node = {
        let _entered = runtime.enter();
        Node::start(config)
    };
    (runtime, node)
}

async fn kill(process: Runtime) {
    let died = tokio::task::spawn_blocking(|| process.shutdown_timeout(PATIENCE));
    died.await.expect("dead");
}

/// Dials `to` and waits for the result.
async fn dial(from: &mut Node, to: &Node) -> Result<u64, DialError> {
    from.knows(to);
    from.transport.connect(to.id());
    next_dial(from, to).await
}

async fn next_dial(from: &mut Node, to: &Node) -> Result<u64, DialError> {
    let to = to.id();
    from.until(|event| match event {
        TransportEvent::LinkUp { peer, boot } if peer == to => Some(Ok(boot)),
        TransportEvent::DialFailed { peer, reason } if peer == to => Some(Err(reason)),
        _ => None,
    })
    .await
}

fn linked(node: &Node) -> Vec<(u64, SocketAddr)> {
    let links = node.transport.links().into_iter();
    links.map(|link| (link.boot, link.address)).collect()
}

/// The boots do not matter. Two processes have the same boot if a state folder was copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_starting_process_stays_outside_until_the_linked_one_is_gone() {
    let authority = Authority::new("one");
    for (boot, second) in [(5, 9), (5, 5)] {
        let mut p = Node::start(life(&authority, "p", 1));
        let (process, mut first) = mortal(life(&authority, "x", boot));
        dial(&mut first, &p).await.expect("a link");
        p.until_up(id("x")).await;
        first.transport.join();
        let mut second = Node::start(life(&authority, "x", second));
        let refused = DialError::Duplicate {
            address: first.address(),
        };
        let dialled = dial(&mut second, &p).await;
        assert_eq!(dialled, Err(refused.clone()));
        // It dials again and is refused again.
        assert_eq!(next_dial(&mut second, &p).await, Err(refused));
        assert_eq!(linked(&p), [(boot, first.address())]);
        assert!(p.meter.read("duplicates_total", "") >= 2);
        assert!(p.events.try_recv().is_none(), "the cluster noticed nothing");
        kill(process).await;
        drop(first);
        let admitted = async { while next_dial(&mut second, &p).await.is_err() {} };
        tokio::time::timeout(PATIENCE, admitted).await.expect("in");
        let is_in = || linked(&p).iter().any(|link| link.1 == second.address());
        eventually("the second is linked", is_in).await;
    }
}

/// The greeted peer has no link to the first process, but it knows the address of that process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_lives_elsewhere_is_found_without_a_link() {
    let authority = Authority::new("one");
    let p = Node::start(life(&authority, "p", 1));
    let (process, first) = mortal(life(&authority, "x", 5));
    p.knows(&first);
    let mut second = Node::start(life(&authority, "x", 9));
    let refused = dial(&mut second, &p).await;
    let address = first.address();
    assert_eq!(refused, Err(DialError::Duplicate { address }));
    kill(process).await;
    drop(first);
    let admitted = async { while next_dial(&mut second, &p).await.is_err() {} };
    tokio::time::timeout(PATIENCE, admitted).await.expect("in");
}

/// The first process stops, and waits for a peer that does not take leave. Node p, which the second
/// process dials, still knows the address of the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_keeps_nobody_outside() {
    let authority = Authority::new("one");
    let p = Node::start(life(&authority, "p", 1));
    let mut config = life(&authority, "x", 5);
    config.limits.drain_silence = Duration::from_secs(5);
    let mut first = Node::start(config);
    p.knows(&first);
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), first.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    first.until_up(id("raw")).await;
    let stopping = first.transport.clone();
    let stopped = tokio::spawn(async move { stopping.close().await });
    let refused = || first.transport.send(id("raw"), packet(b"x")).is_err();
    eventually("it is stopping", refused).await;
    let mut second = Node::start(life(&authority, "x", 9));
    dial(&mut second, &p).await.expect("admitted");
    assert!(!stopped.is_finished(), "it still stops");
    raw.connection.close(0_u32.into(), b"");
    stopped.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_members_the_newer_stays_whichever_comes_second() {
    let authority = Authority::new("one");
    for (boots, newer_first) in [([5, 9], false), ([9, 5], true)] {
        let mut p = Node::start(life(&authority, "p", 1));
        let [mut first, mut second] = boots.map(|boot| Node::start(life(&authority, "x", boot)));
        for node in [&first, &second] {
            node.transport.join();
        }
        dial(&mut first, &p).await.expect("a link");
        assert_eq!(p.until_up(id("x")).await, boots[0]);
        second.knows(&p);
        second.transport.connect(p.id());
        let (older, newer) = match newer_first {
            true => (&mut second, &first),
            false => (&mut first, &second),
        };
        let address = older.until(|event| match event {
            TransportEvent::Superseded { address } => Some(address),
            TransportEvent::Outlived { newest } => panic!("outlived by {newest}"),
            _ => None,
        });
        assert_eq!(address.await, newer.address());
        let newer = newer.address();
        eventually("the newer one is linked", || linked(&p) == [(9, newer)]).await;
    }
}

#[tokio::test]
async fn an_older_life_is_shown_the_newer_one_and_goes_on_above_it() {
    let authority = Authority::new("one");
    let mut p = Node::start(life(&authority, "p", 1));
    let ahead = 1 << 50;
    let mut former = Node::start(life(&authority, "x", ahead));
    dial(&mut former, &p).await.expect("a link");
    p.until_up(id("x")).await;
    former.transport.close().await;
    drop(former);
    for (expected, is_member) in [(ahead, false), (ahead + 1, true)] {
        let mut x = Node::start(life(&authority, "x", 7));
        if is_member {
            x.transport.join();
        }
        x.knows(&p);
        x.transport.connect(p.id());
        let newest = x.until(|event| match event {
            TransportEvent::Outlived { newest } => Some(newest),
            _ => None,
        });
        let newest = newest.await;
        assert_eq!(newest, expected, "each life is proven");
        assert_eq!(linked(&p), [], "it is not admitted before");
        x.transport.begin_life(newest + 1);
        x.transport.connect(p.id());
        x.until_up(p.id()).await;
        assert_eq!(p.until_up(id("x")).await, newest + 1);
        x.transport.close().await;
    }
    assert!(p.meter.read("lives_outdated_total", "") >= 2);
}

/// Each process has two addresses. It dials the address of the other process from which that
/// process does not dial.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_at_two_addresses_is_no_duplicate() {
    let authority = Authority::new("one");
    let mut both = 0;
    for round in 0..20 {
        let [mut a, mut b] = ["a", "b"].map(|name| {
            let mut config = life(&authority, name, 5);
            config.bind = ["127.0.0.1:0", "[::1]:0"]
                .map(|a| a.parse().expect("one"))
                .into();
            Node::start(config)
        });
        let [v4, v6] = [&a, &b].map(|node| node.transport.local_addresses());
        a.knows_at(b.id(), v6[0]);
        b.knows_at(a.id(), v4[1]);
        a.transport.connect(b.id());
        b.transport.connect(a.id());
        a.until_up(b.id()).await;
        b.until_up(a.id()).await;
        for node in [&a, &b] {
            let read = |name| node.meter.read(name, "");
            let asked = (read("questions_total"), read("duplicates_total"));
            assert_eq!(asked, (0, 0), "round {round}: they know each other");
        }
        let total = |name| a.meter.read(name, "") + b.meter.read(name, "");
        let is_settled = || linked(&a).len() == 1 && linked(&b).len() == 1;
        eventually("one link", is_settled).await;
        both += u32::from(total("accepted_total") == 2);
        for node in [&mut a, &mut b] {
            let more = node.events.try_recv();
            assert!(more.is_none(), "round {round}: {more:?}");
        }
    }
    assert!(both > 0, "no two dials met");
}

/// A boot that no signed statement proves has no effect on other processes.
#[tokio::test]
async fn bare_numbers_raise_stop_and_displace_nothing() {
    let authority = Authority::new("one");
    let mut p = Node::start(life(&authority, "p", 1));
    let to = p.address();
    let raw = async |greeting: &[u8]| {
        let papers = authority.issue_to("x").der();
        let raw = Raw::connect(Some(papers), to).await;
        let raw = raw.expect("connected");
        (raw.greet(greeting).await, raw)
    };
    // A Hello as in `hello`, with the boot 2^64 - 1 or 2^64 - 2 in ten bytes, the lowest bits
    // first.
    let greatest = |lowest: u8| {
        let mut bytes = vec![GREETING, 0, 19, 0, 0x80 | lowest];
        bytes.extend([0xff; 8]);
        bytes.extend([1, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    };
    let (refused, _) = raw(&greatest(0x7f)).await;
    assert!(refused.is_err(), "2^64 - 1 is no boot: {refused:?}");
    let (ack, _held) = raw(&greatest(0x7e)).await;
    assert_eq!(ack.expect("an ack")[3], 0, "a Hello");
    let boot = p.until_up(id("x")).await;
    assert_eq!(boot, u64::MAX - 1);
    // The raw client answers no question, so the honest process is admitted with its smaller boot.
    let mut x = Node::start(life(&authority, "x", 5));
    dial(&mut x, &p).await.expect("a link");
    assert_eq!(p.until_up(id("x")).await, 5);
    x.transport.join();
    let (refused, _) = raw(&greatest(0x7e)).await;
    assert_eq!(refused.expect("an answer")[3], 7, "a Refusal");
    let (refused, _) = raw(&hello(9)).await;
    assert_eq!(refused.expect("an answer")[3], 7, "a Refusal");
    assert_eq!(linked(&p), [(5, x.address())]);
    assert!(x.events.try_recv().is_none());
}

/// A liar shows a member a statement of boot 9 that the member's own key has signed, and claims
/// that another process lives under this boot.
#[tokio::test]
async fn nobody_is_ended_by_hearsay() {
    let authority = Authority::new("one");
    let identity = authority.identity("x");
    let statement = Notary::new(&identity, false)
        .expect("a notary")
        .sign_life(9);
    let mut config = life(&authority, "x", 5);
    config.identity = identity;
    let mut x = Node::start(config);
    x.transport.join();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let nobody = nobody.local_addr().expect("an address");
    // At the claimed address a process of an older life does not count, and neither does the member
    // itself.
    let older = Node::start(life(&authority, "x", 4));
    for address in [nobody, older.address(), x.address()] {
        let papers = authority.issue_to("liar").der();
        let raw = Raw::connect(Some(papers), x.address()).await;
        let raw = raw.expect("connected");
        let mut refusal = vec![7, 1, 9];
        let statement = statement.as_ref().expect("signed");
        refusal.extend(varint(statement.len() as u16));
        refusal.extend_from_slice(statement);
        refusal.extend([1, 0, 127, 0, 0, 1]);
        refusal.extend(varint(address.port()));
        let mut said = hello(1).to_vec();
        said.push(GREETING);
        said.extend((refusal.len() as u16).to_be_bytes());
        said.extend(refusal);
        raw.greet(&said).await.expect("an ack");
        let outlived = x.until(|event| match event {
            TransportEvent::Outlived { newest } => Some(newest),
            TransportEvent::Superseded { address } => panic!("ended by {address}"),
            _ => None,
        });
        assert_eq!(outlived.await, 9);
    }
}

fn varint(mut number: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
