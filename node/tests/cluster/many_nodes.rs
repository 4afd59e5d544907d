//! Many nodes in one process, each with metrics of its own.

use binomesh::certificate::{Authority, Validity};
use binomesh::exporter::Exporter;
use binomesh::{
    Confirmation, Due, Node, NodeConfig, Profile, Received, Seed, SendOptions, TopicFilter,
};
use std::time::Duration;
use tokio::task::JoinSet;

use crate::bed::{self, PATIENCE, eventually, now};

pub(crate) struct Housed {
    pub(crate) node: Node,
    pub(crate) exporter: Exporter,
}

impl Housed {
    /// The counter of this kind of relay event in this node's own recorder.
    async fn events(&self, kind: &str) -> u64 {
        self.counter("binomesh_relay_events_total", &format!("event=\"{kind}\""))
            .await
    }

    pub(crate) async fn counter(&self, name: &str, label: &str) -> u64 {
        let value = self.found(name, |line| line.contains(label)).await;
        value.map_or(0, |value| value as u64)
    }

    /// The value of the series of this name that has these labels, if there is one.
    pub(crate) async fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter();
        let labels: Vec<String> = labels.map(|(of, is)| format!("{of}=\"{is}\"")).collect();
        let has_all = |line: &str| labels.iter().all(|label| line.contains(label));
        self.found(name, has_all).await
    }

    async fn found(&self, name: &str, is_meant: impl Fn(&str) -> bool) -> Option<f64> {
        let text = self.scraped().await;
        let is_of = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('{')) && is_meant(line)
        };
        let found = text.lines().find(is_of)?;
        found.rsplit(' ').next()?.parse().ok()
    }

    /// The text of a scrape of this node. Checks that all series are of this node.
    pub(crate) async fn scraped(&self) -> String {
        let scrape = self.node.scrape().await.expect("running");
        let text = self.exporter.render(&scrape);
        let node = format!("node=\"{}\"", self.node.name());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(
                line.is_empty() || line.contains(&node),
                "a stranger's: {line}"
            );
        }
        text
    }
}

/// Start `count` nodes in one binary tree.
pub(crate) fn start(dir: &std::path::Path, count: usize) -> Vec<Housed> {
    prepared(dir, count, |config, others| {
        // The first node is the root, and each node has two children at most.
        let before = others.len().checked_sub(1);
        config.parent = before.map(|before| others[before / 2].clone());
    })
}

/// Starts `count` nodes. Before a node starts, `adjust` gets the seeds of the nodes before it.
pub(crate) fn prepared(
    dir: &std::path::Path,
    count: usize,
    adjust: impl Fn(&mut NodeConfig, &[Seed]),
) -> Vec<Housed> {
    let authority = Authority::generate("test.local", Validity::days(1)).expect("an authority");
    let (mut all, mut seeds) = (Vec::new(), Vec::new());
    for number in 0..count {
        let name = format!("node-{number}");
        let home = dir.join(&name);
        let issued = authority.issue(&name, Validity::days(1)).expect("issued");
        issued.save(&home, false).expect("saved");
        let mut config = NodeConfig::new(&name, &home, home.join("state"));
        config.bind = ([127, 0, 0, 1], 0).into();
        config.profile = Profile::Fast;
        adjust(&mut config, &seeds);
        let exporter = Exporter::new(&name).expect("a recorder");
        let node = Node::start_recorded(config, exporter.recorder()).expect("started");
        seeds.push(Seed {
            name,
            address: node.address().into(),
        });
        all.push(Housed { node, exporter });
    }
    all
}

async fn in_one_process(count: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let begun = now();
    let all = start(dir.path(), count);
    let quorum = u32::try_from(count).expect("few");
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(quorum)).await;
        ready.expect("formed in time").expect("running");
    }
    eprintln!(
        "{count} nodes in one process formed in {:?}",
        begun.elapsed()
    );

    let origin = &all[count / 3].node;
    let mut inboxes = Vec::new();
    for housed in &all {
        let inbox = housed.node.subscribe(TopicFilter::all()).await;
        inboxes.push((housed.node.name(), inbox.expect("room")));
    }
    let slow = &all[count - 1];
    let narrow = slow.node.subscribe_bounded(TopicFilter::all(), 1).await;
    let mut narrow = narrow.expect("room");
    let topic = origin.topic("news".parse().expect("a topic"));
    for word in ["first", "second"] {
        let receipt = topic.publish(word).await.expect("accepted");
        assert!(receipt.is_complete(), "{receipt:?}");
        assert_eq!(receipt.reached_count, quorum - 1);
    }
    for (name, inbox) in &mut inboxes {
        if *name == origin.name() {
            continue;
        }
        for word in ["first", "second"] {
            let got = tokio::time::timeout(PATIENCE, inbox.next()).await;
            match got.expect("in time") {
                Some(Received::Message(message)) => assert_eq!(message.payload, word, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    // A subscriber that does not read in time is told how many messages it missed. Only its own
    // node counts these.
    assert!(matches!(narrow.next().await, Some(Received::Message(_))));
    assert_eq!(narrow.next().await, Some(Received::Missed(1)));
    for housed in &all {
        let missed = housed.counter("binomesh_subscriber_missed_total", "").await;
        assert_eq!(missed, u64::from(housed.node.name() == slow.node.name()));
    }
    // Each node counts its own deliveries, so the sum is the number of all deliveries.
    let delivered = eventually("counted", async || {
        let mut sum = 0;
        for housed in &all {
            sum += housed.events("delivered").await;
        }
        (sum >= 2 * u64::from(quorum - 1)).then_some(sum)
    });
    assert_eq!(delivered.await, 2 * u64::from(quorum - 1));
    for housed in &all {
        let published = if housed.node.name() == origin.name() {
            2
        } else {
            0
        };
        assert_eq!(housed.events("published").await, published);
    }

    let mut leaving = JoinSet::new();
    for housed in &all {
        let node = housed.node.clone();
        leaving.spawn(async move { node.leave(Duration::from_secs(5)).await });
    }
    while let Some(left) = leaving.join_next().await {
        assert_eq!(left.expect("no panic"), Ok(()));
    }
    // Nothing came twice.
    for (name, inbox) in &mut inboxes {
        assert_eq!(inbox.next().await, None, "{name}");
    }
}

/// The messages are more than the packets that may be open at once, so they share packets. Each
/// message still keeps its place and has a receipt of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_published_at_once_keep_their_order_and_have_a_receipt_each() {
    const MESSAGES: usize = 250;
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = start(dir.path(), 8);
    let mut inboxes = Vec::new();
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(8)).await;
        ready.expect("formed in time").expect("running");
        let inbox = housed.node.subscribe(TopicFilter::all()).await;
        inboxes.push(inbox.expect("room"));
    }
    let origin = &all[0];
    let topic = origin.node.topic("news".parse().expect("a topic"));
    let handles: Vec<_> = (0..MESSAGES)
        .map(|number| topic.publish(format!("message {number}")))
        .collect();
    let mut ids = Vec::new();
    for handle in handles {
        let receipt = handle.await.expect("accepted");
        assert!(receipt.is_complete(), "{receipt:?}");
        assert_eq!(receipt.reached_count, 7);
        ids.push(receipt.id);
    }
    for inbox in &mut inboxes[1..] {
        for (number, id) in ids.iter().enumerate() {
            let got = tokio::time::timeout(PATIENCE, inbox.next()).await;
            let Ok(Some(Received::Message(message))) = got else {
                panic!("{number}: {got:?}");
            };
            assert_eq!(message.payload, format!("message {number}"));
            assert_eq!(message.id.to_string(), *id);
        }
    }
    let published = eventually("counted", async || {
        let published = origin.events("published").await;
        (published == MESSAGES as u64).then_some(origin.events("packets_sent").await)
    });
    eprintln!(
        "{MESSAGES} messages in {} copies of packets",
        published.await
    );
    for housed in &all {
        housed.node.shutdown().await;
    }
}

/// All messages that were published before the leave go out, to the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_published_just_before_a_leave_is_delivered() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = start(dir.path(), 3);
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(3)).await;
        ready.expect("formed in time").expect("running");
    }
    let leaver = &all[2].node;
    let topic = leaver.topic("news".parse().expect("a topic"));
    let words: Vec<_> = (0..20)
        .map(|n| topic.publish(format!("word {n}")))
        .collect();
    assert_eq!(leaver.leave(PATIENCE).await, Ok(()));
    for word in words {
        let receipt = word.await.expect("accepted");
        assert_eq!((receipt.reached_count, receipt.is_complete()), (2, true));
    }
    for housed in &all {
        housed.node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_nodes_live_in_one_process() {
    let _turn = bed::turn().await;
    in_one_process(64).await;
}

/// No node can answer a node that has left. The receipts of that node say so and are not lost.
#[tokio::test]
async fn a_leaver_gets_the_receipts_of_its_unanswered_messages() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = start(dir.path(), 3);
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(3)).await;
        ready.expect("formed in time").expect("running");
    }
    let inbox = all[1].node.subscribe(TopicFilter::all()).await;
    let _silent = inbox.expect("room");
    let options = SendOptions {
        due: Due::Within(PATIENCE),
        confirmation: Confirmation::Acknowledged,
        ..SendOptions::default()
    };
    let asked = all[2].node.publish("well?", options);
    // The application of node-1 has the message and is silent. node-0 answers that nobody
    // subscribes there.
    eventually("delivered and answered", async || {
        let has_it = all[1].events("delivered").await == 1;
        let is_answered = all[2].events("delivered").await == 1;
        (has_it && is_answered).then_some(())
    })
    .await;
    all[2].node.leave(PATIENCE).await.expect("running");
    let receipt = asked.await.expect("accepted");
    assert_eq!(receipt.reached_count, 2, "{receipt:?}");
    let lacking = receipt.unacknowledged.iter();
    let mut lacking: Vec<(&str, &str)> = lacking
        .map(|one| (one.name.as_str(), one.reason.as_str()))
        .collect();
    lacking.sort_unstable();
    assert_eq!(
        lacking,
        [("node-0", "no-subscriber"), ("node-1", "no-answer")]
    );
}
