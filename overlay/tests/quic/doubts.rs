//! Links in doubt: dead links that QUIC has not given up yet, and live links that only seem dead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use binomesh_overlay::quic::{DialError, DownReason, Transport, TransportEvent, TransportLimits};
use tokio::net::UdpSocket;

use crate::bed::{Authority, Meter, Node, PATIENCE, eventually, id, packet};
use crate::raw_client::{Raw, hello};

/// Longer than any test, so that QUIC gives no link up.
const NEVER: Duration = Duration::from_secs(600);

fn patient(limits: &mut TransportLimits) {
    limits.idle_timeout = NEVER;
    limits.keep_alive = NEVER;
}

/// Carries datagrams between one dialler and a node, until it is cut.
struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    async fn to(node: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let far = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        far.connect(node).await.expect("connected");
        let address = near.local_addr().expect("an address");
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = is_cut.clone();
        tokio::spawn(async move {
            let (mut out, mut back) = ([0; 2048], [0; 2048]);
            let mut dialler = None;
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut out) => {
                        dialler = Some(from);
                        if !cut.load(Ordering::Relaxed) {
                            let _ = far.send(&out[..length]).await;
                        }
                    }
                    Ok(length) = far.recv(&mut back) => {
                        if let Some(dialler) = dialler && !cut.load(Ordering::Relaxed) {
                            let _ = near.send_to(&back[..length], dialler).await;
                        }
                    }
                }
            }
        });
        Self { address, is_cut }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }
}

async fn replaced(node: &mut Node, peer: &str) {
    let (peer, reason) = (id(peer), DownReason::TimedOut);
    assert_eq!(node.next().await, TransportEvent::LinkDown { peer, reason });
    assert_eq!(node.next().await, TransportEvent::LinkUp { peer, boot: 1 });
}

/// Both ends keep the same new connection, whichever end dialled the old link and whichever end
/// doubts it.
#[tokio::test]
async fn a_silent_link_in_doubt_is_replaced_at_both_ends_at_once() {
    let authority = Authority::new("one");
    for (dialler, doubters) in [
        ("a", &["a"][..]),
        ("a", &["c"]),
        ("a", &["a", "c"]),
        ("c", &["a"]),
        ("c", &["c"]),
        ("c", &["a", "c"]),
    ] {
        let mut nodes = ["a", "c"].map(|name| {
            let mut config = authority.config(name);
            patient(&mut config.limits);
            // A node that waited for the drain of the old link would be too late for this test.
            config.limits.drain_timeout = NEVER;
            Node::start(config)
        });
        let [a, c] = &mut nodes;
        let (from, to) = if dialler == "a" {
            (&*a, &*c)
        } else {
            (&*c, &*a)
        };
        let wire = Wire::to(to.address()).await;
        from.knows_at(to.id(), wire.address);
        from.transport.connect(to.id());
        a.until_up(id("c")).await;
        c.until_up(id("a")).await;
        wire.cut();
        for doubter in doubters {
            match *doubter {
                "a" => a.transport.doubt(id("c")),
                _ => c.transport.doubt(id("a")),
            }
        }
        replaced(a, "c").await;
        replaced(c, "a").await;
        for (from, to) in [(&*a, "c"), (&*c, "a")] {
            from.transport.send(id(to), packet(b"hi")).expect("queued");
        }
        a.received().await;
        c.received().await;
        let links = [&*a, &*c].map(|node| node.transport.links());
        assert_eq!(links.each_ref().map(Vec::len), [1, 1]);
        assert_ne!(links[0][0].direction, links[1][0].direction);
        for node in [&*a, &*c] {
            assert_eq!(node.meter.read("links_down_total", ""), 1);
        }
    }
}

/// The new life's boot may be above or below the boot of the former life. If it is below, the node
/// is shown the former life and continues with a boot above that.
#[tokio::test]
async fn a_restart_without_the_former_secret_is_found_by_a_dial_beside() {
    for boot in [6, 4] {
        restart_with(boot).await;
    }
}

async fn restart_with(boot: u64) {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    patient(&mut config.limits);
    let mut a = Node::start(config);
    // The first process runs in a runtime of its own, which ends without a goodbye.
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let first = {
        let _entered = process.enter();
        let mut config = authority.config("b");
        config.boot = 5;
        Node::start(config)
    };
    let address = first.address();
    a.knows(&first);
    a.transport.connect(id("b"));
    a.until_up(id("b")).await;
    let died = tokio::task::spawn_blocking(|| process.shutdown_timeout(PATIENCE));
    died.await.expect("dead");
    drop(first);
    // No process listens for `b` yet, so `a` keeps dialling.
    a.transport.doubt(id("b"));
    eventually("it is dialled", || a.meter.read("dials_total", "") >= 2).await;
    let is_free = || std::net::UdpSocket::bind(address).is_ok();
    eventually("the port is free", is_free).await;
    let mut config = authority.config("b");
    (config.bind, config.boot) = (vec![address], boot);
    config.node_secret = [9; 32];
    let mut second = Node::start(config);
    let mut expected = boot;
    if boot < 5 {
        let newest = second.until(|event| match event {
            TransportEvent::Outlived { newest } => Some(newest),
            _ => None,
        });
        assert_eq!(newest.await, 5);
        expected = 6;
        second.transport.begin_life(expected);
    }
    assert_eq!(a.until_up(id("b")).await, expected);
    assert_eq!(a.transport.links().len(), 1);
    assert_eq!(a.meter.read("questions_total", ""), 0, "it is silent");
}

/// The second process has another address. Only the silence of the old link tells that the first
/// process is gone.
#[tokio::test]
async fn no_question_is_asked_over_a_link_in_doubt() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    patient(&mut config.limits);
    config.limits.handshake_timeout = Duration::from_secs(1);
    let mut a = Node::start(config);
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let first = {
        let _entered = process.enter();
        Node::start(authority.config("b"))
    };
    a.knows(&first);
    a.transport.connect(id("b"));
    a.until_up(id("b")).await;
    let died = tokio::task::spawn_blocking(|| process.shutdown_timeout(PATIENCE));
    died.await.expect("dead");
    // Datagrams of the dead process may still be under way, and they would end the doubt. The dials
    // beside the link take longer than these datagrams.
    eventually("it is dialled again", || {
        a.transport.doubt(id("b"));
        a.meter.read("dials_total", "") >= 3
    })
    .await;
    let mut config = authority.config("b");
    config.boot = 9;
    let second = Node::start(config);
    second.knows(&a);
    second.transport.connect(a.id());
    assert_eq!(a.until_up(id("b")).await, 9);
    assert_eq!(a.transport.links()[0].address, second.address());
    assert_eq!(a.meter.read("questions_total", ""), 0);
    drop(first);
}

/// A node in a thread of its own, which can be stopped as by SIGSTOP.
struct Process {
    transport: Transport,
    meter: Meter,
    address: SocketAddr,
    /// The whole process blocks on each receiver that it gets here, until the sender of that
    /// receiver is dropped.
    pauses: tokio::sync::mpsc::UnboundedSender<mpsc::Receiver<()>>,
}

impl Process {
    fn start(authority: &Authority, name: &str) -> Self {
        let mut config = authority.config(name);
        patient(&mut config.limits);
        let (pauses, mut paused) = tokio::sync::mpsc::unbounded_channel::<mpsc::Receiver<()>>();
        let (started, parts) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let node = Node::start(config);
                let parts = (node.transport.clone(), node.meter.clone(), node.address());
                started.send(parts).expect("awaited");
                while let Some(pause) = paused.recv().await {
                    let _ = pause.recv();
                }
            });
        });
        let (transport, meter, address) = parts.recv().expect("started");
        Self {
            transport,
            meter,
            address,
            pauses,
        }
    }

    /// Stops the process until the returned sender is dropped.
    fn pause(&self) -> mpsc::Sender<()> {
        let (resume, pause) = mpsc::channel();
        self.pauses.send(pause).expect("running");
        resume
    }
}

#[tokio::test]
async fn a_link_that_is_heard_again_stays_though_it_was_dialled_beside() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    patient(&mut config.limits);
    let mut a = Node::start(config);
    let c = Process::start(&authority, "c");
    a.knows_at(id("c"), c.address);
    a.transport.connect(id("c"));
    a.until_up(id("c")).await;
    let acked = || a.transport.acknowledgements(id("c")).expect("linked");
    // Wait until no datagram is under way that would end the doubt at once.
    let before = acked();
    a.transport.send(id("c"), packet(b"one")).expect("queued");
    eventually("an answer", || acked() > before).await;
    let resume = c.pause();
    eventually("it is paused", || {
        a.transport.doubt(id("c"));
        a.meter.read("dials_total", "") >= 2
    })
    .await;
    drop(resume);
    eventually("the other connection is given up", || {
        c.meter.read("handshake_failures_total", "closed_by_peer") == 1
    })
    .await;
    a.transport.send(id("c"), packet(b"two")).expect("queued");
    let frames = || c.meter.read("frames_received_total", "packet");
    eventually("it is sent over the old link", || frames() == 2).await;
    assert_eq!(a.meter.read("links_down_total", ""), 0);
    assert_eq!(c.meter.read("accepted_total", ""), 1);
    c.transport.close().await;
}

#[tokio::test]
async fn a_doubt_about_a_peer_without_a_link_dials_nobody() {
    let authority = Authority::new("one");
    let (a, b) = (authority.start("a"), authority.start("b"));
    a.knows(&b);
    a.transport.doubt(b.id());
    a.transport.doubt(id("nobody"));
    assert_eq!(a.meter.read("doubts_total", ""), 0);
    assert_eq!(a.meter.read("dials_total", ""), 0);
}

#[tokio::test]
async fn a_dialler_that_moves_keeps_its_link() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    // With this setting the transport's own check of its links does not come within the test. So it
    // looks at addresses only when the test calls `look_at_addresses`.
    config.limits.link_idle = Duration::from_secs(3600);
    let mut a = Node::start(config);
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    a.until_up(id("raw")).await;
    let before = a.transport.links()[0].address;
    let transport = a.transport.clone();
    let is_told = |at| {
        let contact = transport.contact(id("raw"));
        contact.is_some_and(|contact| contact.addresses == [at])
    };
    assert!(is_told(before));
    raw.move_elsewhere();
    let mut stream = raw.connection.open_uni().await.expect("a stream");
    let frame = [2, 1, 0, 0, 0, 0, 0, 0, 1, b'x'];
    stream.write_all(&frame).await.expect("written");
    assert_eq!(a.received().await.2, b"x".as_slice());
    eventually("its new address is known", || {
        let links = a.transport.links();
        a.transport.look_at_addresses();
        links.len() == 1 && links[0].address != before && is_told(links[0].address)
    })
    .await;
    assert_eq!(a.meter.read("links_down_total", ""), 0);
}

#[tokio::test]
async fn a_stopping_node_says_so_to_its_diallers() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    // The raw peer does not take leave. Without its close at the end, the stop would last this
    // long.
    config.limits.drain_silence = Duration::from_secs(5);
    let mut a = Node::start(config);
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    a.until_up(id("raw")).await;
    let mut b = authority.start("b");
    b.knows(&a);
    let stopping = a.transport.clone();
    let stopped = tokio::spawn(async move { stopping.close().await });
    let refused = a.transport.clone();
    eventually("it is stopping", || {
        refused.send(id("raw"), packet(b"x")).is_err()
    })
    .await;
    b.transport.connect(a.id());
    let failed = TransportEvent::DialFailed {
        peer: a.id(),
        reason: DialError::Stopping,
    };
    assert_eq!(b.next().await, failed);
    raw.connection.close(0_u32.into(), b"");
    stopped.await.expect("no panic");
}

#[tokio::test]
async fn an_answer_says_more_than_silence_at_another_address() {
    let authority = Authority::new("one");
    let mut config = authority.config("a");
    config.limits.handshake_timeout = Duration::from_millis(300);
    let mut a = Node::start(config);
    let b = authority.start("b");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let silent = silent.local_addr().expect("an address");
    let contact = binomesh_overlay::quic::Contact {
        id: id("c"),
        name: "c".to_owned(),
        addresses: vec![b.address(), silent],
        metrics: None,
    };
    a.transport.add_contact(contact).expect("room");
    a.transport.connect(id("c"));
    let failed = a.next().await;
    let reason = DialError::WrongPeer {
        found: b.id(),
        name: "b".to_owned(),
    };
    let peer = id("c");
    assert_eq!(failed, TransportEvent::DialFailed { peer, reason });
}
