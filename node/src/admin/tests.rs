use std::os::unix::fs::PermissionsExt;

use tokio::sync::mpsc;

use super::*;
use crate::client::{Client, ClientError, Endpoint, SubscriptionEvent};
use crate::command::{Command, Destination, Outgoing, SendError, SendOptions};
use crate::node::tests::{answering, receipt, with_loop};
use crate::report::{NodeReport, Reply};
use crate::scrape::Scrape;
use crate::subscription::{Message, OrderMetrics, Subscribers, Unclaimed};
use crate::targets::{MetricsPlace, TargetGroup, TargetState};
use crate::verify::tests::flawless;
use binomesh_routing::packet::Confirmation;

struct Fixture {
    client: Client,
    port: Client,
    node: Node,
    admin: Admin,
    socket: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

fn sick() -> NodeReport {
    let mut report = flawless(4).remove(1);
    (report.healthy, report.ready) = (false, false);
    report.reason = Some("clockwise[1] is unset".into());
    report
}

fn scrape(report: &NodeReport) -> Scrape {
    Scrape {
        report: report.clone(),
        links: Vec::new(),
        slow: Vec::new(),
        missing: Vec::new(),
    }
}

fn target() -> TargetGroup {
    let place = MetricsPlace {
        address: "10.0.0.7:9464".to_owned(),
        is_tls: true,
    };
    TargetGroup::new("node-7", "test.local", TargetState::Lost, place)
}

/// A message that the scripted loop was asked to send.
type Request = (Vec<String>, String, Vec<u8>, Option<Duration>);

/// An admin API in front of a scripted loop, which reports `report` and delivers all payloads to
/// its subscribers. To a payload that names a refusal the loop answers with that refusal.
async fn fixture(report: NodeReport) -> (Fixture, mpsc::UnboundedReceiver<Request>) {
    let (asked, asking) = mpsc::unbounded_channel();
    let (dir, node) = with_loop(move |context| {
        let mut subscribers = Subscribers::default();
        answering(context, move |command| match command {
            Command::Report { reply } => drop(reply.send(report.clone())),
            Command::Scrape { reply } => drop(reply.send(scrape(&report))),
            Command::Targets { reply } => drop(reply.send(vec![target()])),
            Command::Subscribe { subscriber, reply } => {
                assert!(subscribers.admit(subscriber, &mut Unclaimed::default()));
                let _ = reply.send(OrderMetrics::of_this_node());
            }
            Command::Publish(outgoing) => answer(&asked, &mut subscribers, &[], outgoing),
            Command::Reply { to, answer, reply } => {
                let _ = asked.send((vec![to.to_string()], "reply".into(), answer.to_vec(), None));
                let _ = reply.send(Ok(()));
            }
            Command::Send { to, outgoing } => answer(&asked, &mut subscribers, &to, outgoing),
            Command::Call(_)
            | Command::Collectives { .. }
            | Command::Renew { .. }
            | Command::Leave { .. } => {}
        })
    });
    let socket = dir.path().join("admin.sock");
    let mut config = NodeConfig::new("node-1", dir.path(), dir.path());
    config.admin_socket = Some(socket.clone());
    config.metrics = Some(([127, 0, 0, 1], 0).into());
    let exporter = Exporter::new("node-1").unwrap();
    let metrics = MetricsPort::bind(&mut config).await.unwrap();
    let admin = Admin::serve(node.clone(), exporter, &config, metrics);
    let admin = admin.await.unwrap();
    let fixture = Fixture {
        client: Client::new(Endpoint::Unix(socket.clone())),
        port: Client::new(Endpoint::Tcp(admin.metrics_address().unwrap())),
        node,
        admin,
        socket,
        _dir: dir,
    };
    (fixture, asking)
}

fn answer(
    asked: &mpsc::UnboundedSender<Request>,
    subscribers: &mut Subscribers,
    to: &[Destination],
    outgoing: Outgoing,
) {
    let names = to.iter().map(ToString::to_string).collect();
    let payload = outgoing.payload.to_vec();
    let _ = asked.send((
        names,
        outgoing.topic.to_string(),
        payload,
        outgoing.due.time(),
    ));
    let outcome = match &*outgoing.payload {
        b"busy" => Err(SendError::Busy),
        b"unknown" => Err(SendError::UnknownPeers(vec!["node-9".into()])),
        b"early" => Err(SendError::NotReady),
        _ => Ok(receipt(&["node-0", "node-2"], 2)),
    };
    let message = Message {
        id: binomesh_routing::PacketId {
            origin: binomesh_overlay::PeerId::from_bytes([1; 16]),
            boot: 1,
            sequence: 1,
        },
        origin_name: "node-1".into(),
        topic: outgoing.topic,
        confirmation: outgoing.confirmation,
        is_signed: false,
        order: None,
        is_late: false,
        payload: outgoing.payload,
    };
    let topic = message.topic.clone();
    subscribers.offer(&topic, 1, || std::iter::once(message.clone()));
    let _ = outgoing.reply.send(outcome);
}

fn refused(error: ClientError) -> (u16, String, String) {
    match error {
        ClientError::Refused {
            status,
            error,
            remedy,
        } => (status, error, remedy),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn status_and_topology_are_the_report() {
    let report = sick();
    let (fixture, _) = fixture(report.clone()).await;
    assert_eq!(fixture.client.topology().await.unwrap(), report);
    assert_eq!(
        fixture.client.status().await.unwrap(),
        Status::from(&report)
    );
    let mode = std::fs::metadata(&fixture.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    fixture.admin.stop().await;
    assert!(!fixture.socket.exists());
    let gone = fixture.client.status().await.unwrap_err();
    assert!(gone.is_unreachable(), "{gone}");
}

#[tokio::test]
async fn targets_have_the_form_that_prometheus_takes() {
    let (fixture, _) = fixture(sick()).await;
    let expected = r#"[{"targets":["10.0.0.7:9464"],"labels":{"__meta_binomesh_state":"lost","__scheme__":"https","cluster":"test.local","node":"node-7"}}]"#;
    for client in [&fixture.client, &fixture.port] {
        assert_eq!(client.text("/v1/targets").await.unwrap(), expected);
        assert_eq!(client.targets().await.unwrap(), [target()]);
    }
}

#[tokio::test]
async fn messages_are_passed_on_with_their_options() {
    let (fixture, mut asked) = fixture(sick()).await;
    let limit = Some(Duration::from_millis(1500));
    let sent = fixture.client.broadcast("jobs/a b", "hello", limit).await;
    assert_eq!(sent.unwrap(), receipt(&["node-0", "node-2"], 2));
    let expected = (vec![], "jobs/a b".to_owned(), b"hello".to_vec(), limit);
    assert_eq!(asked.recv().await.unwrap(), expected);
    let to = ["node-0".to_owned(), "node-2".to_owned()];
    fixture.client.send(&to, "t", "x", None).await.unwrap();
    let expected = (to.to_vec(), "t".to_owned(), b"x".to_vec(), None);
    assert_eq!(asked.recv().await.unwrap(), expected);
    let id = "01010101010101010101010101010101-7-9";
    fixture.client.reply(id, "yes").await.unwrap();
    let expected = (
        vec![id.to_owned()],
        "reply".to_owned(),
        b"yes".to_vec(),
        None,
    );
    assert_eq!(asked.recv().await.unwrap(), expected);
}

#[tokio::test]
async fn refusals_have_a_status_an_error_and_a_remedy() {
    let (fixture, _) = fixture(sick()).await;
    let client = &fixture.client;
    for (payload, expected) in [("busy", 429), ("unknown", 404), ("early", 503)] {
        let error = client.broadcast("t", payload, None).await.unwrap_err();
        let (status, error, remedy) = refused(error);
        assert_eq!(status, expected);
        assert!(!error.is_empty() && !remedy.is_empty());
    }
    let most = fixture.node.max_payload_bytes();
    for length in [most + 1, NodeConfig::MAX_PAYLOAD_BYTES + 1] {
        let long = vec![0; length];
        let (status, error, remedy) = refused(client.broadcast("t", long, None).await.unwrap_err());
        assert_eq!(status, 413);
        assert!(error.contains(&length.to_string()), "{error}");
        assert!(remedy.contains("max_payload_bytes"), "{remedy}");
    }
    let (status, ..) = refused(client.broadcast("a#b", "x", None).await.unwrap_err());
    assert_eq!(status, 400);
    let (status, ..) = refused(client.send(&[], "t", "x", None).await.unwrap_err());
    assert_eq!(status, 400);
    let (status, error, _) = refused(client.broadcast("$answer", "x", None).await.unwrap_err());
    assert_eq!(status, 400);
    assert!(error.contains("reserved"), "{error}");
    let timeless = SendOptions {
        confirmation: Confirmation::Delivered,
        ..SendOptions::default()
    };
    let refusal = client.broadcast_with("x", &timeless).await.unwrap_err();
    let (status, _, remedy) = refused(refusal);
    assert_eq!(status, 400);
    assert!(remedy.contains("time"), "{remedy}");
    let (status, error, _) = refused(client.reply("nonsense", "x").await.unwrap_err());
    assert_eq!(status, 400);
    assert!(error.contains("nonsense"), "{error}");
    let id = "01010101010101010101010101010101-7-9";
    let long = vec![0; Reply::MAX_BYTES + 1];
    let (status, ..) = refused(client.reply(id, long).await.unwrap_err());
    assert_eq!(status, 413);
    for (path, expected) in [
        ("/v2/status", 404),
        ("/v1/send", 405),
        ("/v1/messages?colour=1", 400),
        ("/v1/reply?id=x", 405),
    ] {
        let (status, error, remedy) = refused(client.text(path).await.unwrap_err());
        assert_eq!(status, expected, "{path}");
        assert!(!error.is_empty() && !remedy.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn the_port_shows_health_and_metrics_and_nothing_else() {
    let (fixture, _) = fixture(sick()).await;
    assert_eq!(fixture.port.text("/healthz").await.unwrap(), "ok\n");
    let (status, error, _) = refused(fixture.port.text("/readyz").await.unwrap_err());
    assert_eq!((status, error.as_str()), (503, "clockwise[1] is unset"));
    let text = fixture.port.text("/metrics").await.unwrap();
    assert!(text.contains("binomesh_rank{node=\"node-1\"} 1"), "{text}");
    assert!(
        text.contains("binomesh_healthy{node=\"node-1\"} 0"),
        "{text}"
    );
    for path in ["/v1/status", "/v1/topology", "/v1/messages"] {
        assert_eq!(refused(fixture.port.text(path).await.unwrap_err()).0, 404);
    }
}

#[tokio::test]
async fn subscribers_get_matching_messages_after_the_first_event() {
    let (fixture, _) = fixture(sick()).await;
    let mut events = fixture.client.subscribe("jobs/#").await.unwrap();
    let mut digests = fixture.client.subscribe_to_digests("jobs/#").await.unwrap();
    for topic in ["other", "jobs/a"] {
        fixture
            .client
            .broadcast(topic, "hello\n\n", None)
            .await
            .unwrap();
    }
    let event = events.next().await.unwrap().unwrap();
    let SubscriptionEvent::Delivery(delivery) = event else {
        panic!("{event:?}");
    };
    assert_eq!(
        (delivery.topic.as_str(), delivery.size_bytes),
        ("jobs/a", 7)
    );
    assert_eq!(delivery.payload_base64, "aGVsbG8KCg==");
    let hash = blake3::hash(b"hello\n\n").to_hex().to_string();
    assert_eq!(delivery.blake3, hash);
    let without = Delivery {
        payload_base64: String::new(),
        ..delivery
    };
    let told = digests.next().await.unwrap().unwrap();
    assert_eq!(told, SubscriptionEvent::Delivery(without));
    fixture.client.leave(Some(Duration::ZERO)).await.unwrap();
    assert!(events.next().await.is_none(), "ends with the node");
}

#[tokio::test]
async fn leaving_through_the_api_stops_the_node() {
    let (fixture, _) = fixture(sick()).await;
    fixture
        .client
        .leave(Some(Duration::from_millis(5)))
        .await
        .unwrap();
    assert_eq!(fixture.node.stopped().await, crate::node::Ended::Asked);
    let (status, ..) = refused(fixture.client.status().await.unwrap_err());
    assert_eq!(status, 503);
}
