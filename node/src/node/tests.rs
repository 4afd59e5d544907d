use tempfile::TempDir;

use super::*;
use crate::certificate::{Authority, Validity};
use crate::command::{Due, SendError, SendOptions};
use crate::report::Receipt;
use crate::subscription::{OrderMetrics, Subscriber};
use crate::topic::TopicFilter;

/// A config whose credentials exist, and the folder that holds them.
pub(crate) fn config(name: &str) -> (TempDir, NodeConfig) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
    let issued = authority.issue(name, Validity::days(1)).unwrap();
    issued.save(dir.path(), false).unwrap();
    let mut config = NodeConfig::new(name, dir.path(), dir.path().join("state"));
    config.bind = "127.0.0.1:0".parse().unwrap();
    (dir, config)
}

/// A node whose loop is `run`, with no socket behind it.
pub(crate) fn with_loop<F>(run: impl FnOnce(LoopContext) -> F) -> (TempDir, Node)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (dir, config) = config("node-1");
    let credentials = Credentials::load(&config).unwrap();
    let state = NodeState::open(&config.state_dir).unwrap();
    let open = |context| {
        let run = run(context);
        Ok(ReadyLoop {
            address: ([127, 0, 0, 1], 7400).into(),
            run: Box::pin(async move {
                run.await;
                Ended::Asked
            }),
        })
    };
    let node = Node::seated(config, credentials, state, None, open).unwrap();
    (dir, node)
}

/// Answer commands with `answer` until the node stops.
pub(crate) async fn answering(mut context: LoopContext, mut answer: impl FnMut(Command)) {
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            command = context.commands.recv() => match command {
                None => return,
                Some(Command::Leave { reply, .. }) => {
                    let _ = reply.send(());
                    return;
                }
                Some(command) => answer(command),
            }
        }
    }
}

pub(crate) fn receipt(reached: &[&str], expected_count: u32) -> Receipt {
    Receipt {
        id: "m-1".into(),
        epoch: "e".into(),
        origin: "node-1".into(),
        expected_count,
        reached_count: u32::try_from(reached.len()).unwrap(),
        reached: reached.iter().map(ToString::to_string).collect(),
        unreached: Vec::new(),
        absent: Vec::new(),
        redelegated: 0,
        replaced: vec![],
        elapsed_seconds: 0.5,
        ..Receipt::default()
    }
}

#[tokio::test]
async fn ready_waits_for_the_quorum_for_settled_fingers_and_for_the_cluster() {
    let (steps, mut next) = mpsc::channel::<PlacementView>(1);
    let (_dir, node) = with_loop(|context| async move {
        while let Some(view) = next.recv().await {
            context.placement.send_replace(Some(view));
        }
        context.stop.cancelled().await;
    });
    let view = |population, settled, anchored| PlacementView {
        epoch: "e".into(),
        population,
        rank: 0,
        settled,
        anchored,
    };
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.ready(3).await }
    });
    for (population, settled, anchored) in [
        (2, true, true),
        (3, false, true),
        (3, true, false),
        (3, true, true),
    ] {
        assert!(!waiting.is_finished());
        steps
            .send(view(population, settled, anchored))
            .await
            .unwrap();
    }
    assert_eq!(waiting.await.unwrap(), Ok(view(3, true, true)));
    drop(steps);
    node.shutdown().await;
    assert_eq!(node.ready(4).await, Err(Stopped));
}

#[tokio::test]
async fn dropping_a_handle_cancels_nothing_and_a_full_queue_is_an_error() {
    let (seen, mut messages) = mpsc::unbounded_channel();
    let (go, wait) = oneshot::channel::<()>();
    let (_dir, node) = with_loop(|context| async move {
        let _ = wait.await;
        answering(context, move |command| {
            if let Command::Publish(outgoing) = command {
                seen.send(outgoing.payload.clone()).unwrap();
                let _ = outgoing.reply.send(Ok(receipt(&["node-0"], 1)));
            }
        })
        .await;
    });
    let topic = node.topic("jobs".parse().unwrap());
    for number in 0..QUEUE - 1 {
        drop(topic.publish(number.to_string()));
    }
    let last = topic.publish("last");
    assert_eq!(topic.publish("too many").await, Err(SendError::Busy));
    go.send(()).unwrap();
    assert_eq!(last.await, Ok(receipt(&["node-0"], 1)));
    for number in 0..QUEUE - 1 {
        assert_eq!(messages.recv().await.unwrap(), number.to_string());
    }
}

#[tokio::test]
async fn refusals_are_told_before_anything_is_sent() {
    let (_dir, node) = with_loop(|context| answering(context, drop));
    let nobody: [&str; 0] = [];
    let refused = node.send(nobody, "x", SendOptions::default()).await;
    assert_eq!(refused, Err(SendError::NoDestination));
    let long = vec![0; node.max_payload_bytes() + 1];
    let refused = node.publish(long, SendOptions::default()).await;
    assert!(matches!(refused, Err(SendError::TooLarge { .. })));
    let unanswered = node.publish("x", SendOptions::default()).await;
    assert_eq!(unanswered, Err(SendError::Stopped), "the reply was dropped");
    node.shutdown().await;
    let late = node.send(["node-0"], "x", SendOptions::default()).await;
    assert_eq!(late, Err(SendError::Stopped));
    assert_eq!(node.report().await, Err(Stopped));
}

#[tokio::test]
async fn a_panic_in_the_loop_is_seen() {
    let (_dir, node) = with_loop(|_context| async { panic!("planted") });
    assert_eq!(node.stopped().await, Ended::Panicked);
}

#[tokio::test]
async fn the_last_handle_stops_the_loop() {
    let (ended, end) = oneshot::channel();
    let (_dir, node) = with_loop(|context| async move {
        context.stop.cancelled().await;
        let _ = ended.send(());
    });
    let other = node.clone();
    drop(node);
    assert!(!other.shared.stop.is_cancelled());
    drop(other);
    assert_eq!(end.await, Ok(()));
}

#[tokio::test]
async fn too_many_subscribers_are_told_so() {
    let (_dir, node) = with_loop(|context| {
        let mut first: Option<Subscriber> = None;
        answering(context, move |command| {
            if let (Command::Subscribe { subscriber, reply }, None) = (command, &first) {
                first = Some(subscriber);
                let _ = reply.send(OrderMetrics::of_this_node());
            }
        })
    });
    assert!(node.subscribe(TopicFilter::all()).await.is_ok());
    let second = node.subscribe(TopicFilter::all()).await;
    assert_eq!(second.err(), Some(SubscribeError::TooMany));
}

#[tokio::test]
async fn a_state_folder_is_free_again_when_its_node_has_stopped() {
    let (_dir, config) = config("node-1");
    let first = Node::start(config.clone()).unwrap();
    let refused = Node::start(config.clone()).err().unwrap();
    assert!(matches!(refused, StartError::State(_)), "{refused}");
    first.shutdown().await;
    Node::start(config).unwrap().shutdown().await;
}

/// The node's parent never answers.
#[tokio::test]
async fn without_a_place_timed_messages_wait_and_untimed_ones_are_refused_at_once() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (_dir, mut config) = config("node-1");
    let parent = format!("node-0@{}", nobody.local_addr().unwrap());
    config.parent = Some(parent.parse().unwrap());
    let node = Node::start(config).unwrap();
    let publish = |topic: &str, due| {
        let options = SendOptions {
            topic: topic.parse().unwrap(),
            due,
            ..SendOptions::default()
        };
        node.publish("x", options)
    };
    let time = Duration::from_millis(300);
    let mut first = std::pin::pin!(publish("a", Due::Within(time)));
    let other = publish("b", Due::Until(2 * time));
    // This holds whatever waits before the message.
    assert_eq!(publish("a", Due::Settled).await, Err(SendError::NotReady));
    let early = tokio::time::timeout(time / 2, first.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(first.await, Err(SendError::NotReady));
    assert_eq!(other.await, Err(SendError::NotReady));
    node.shutdown().await;
}
