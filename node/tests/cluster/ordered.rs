//! Messages published in order. A subscriber that asks for the order gets the messages in order,
//! and is told which messages are missing.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::client::{Client, Events, SubscriptionEvent};
use binomesh::report::{GapView, Receipt};
use binomesh::{Delivery, Due, SendOptions};
use tokio::task::JoinSet;

use crate::bed::{self, PATIENCE, eventually, formed, member, ran, signal, stop};

fn options(due: Due) -> SendOptions {
    SendOptions {
        topic: "serial".parse().expect("a topic"),
        due,
        is_ordered: true,
        ..SendOptions::default()
    }
}

async fn publish(origin: &Client, due: Due) -> Receipt {
    let sent = origin.broadcast_with("next", &options(due)).await;
    sent.expect("a receipt")
}

/// The numbers that a subscriber has seen.
#[derive(Debug, Default)]
struct Seen {
    next: u64,
    missing: BTreeSet<u64>,
    late: u64,
    gaps: u64,
}

impl Seen {
    /// Every number is accounted for once: in its place or as missing. A missing number may come
    /// late.
    fn note(&mut self, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Gap(GapView { from, to, .. }) => {
                assert_eq!(from, self.next);
                self.missing.extend(from..=to);
                self.next = to + 1;
                self.gaps += 1;
            }
            SubscriptionEvent::Delivery(Delivery { order, late, .. }) => {
                let number = order.expect("it was numbered").number;
                if late {
                    assert!(self.missing.remove(&number), "{number} was not missing");
                    self.late += 1;
                } else {
                    assert_eq!(number, self.next);
                    self.next += 1;
                }
            }
            SubscriptionEvent::Missed(count) => panic!("{count} missed"),
        }
    }

    async fn read_to(&mut self, inbox: &mut Events, number: u64) {
        while self.next <= number {
            let event = tokio::time::timeout(PATIENCE, inbox.next()).await;
            match event.expect("in time") {
                Some(Ok(event)) => self.note(event),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A member dies while the messages go out. The other members get all messages in order, without a
/// gap. A later subscriber is told at once how many messages it has missed.
#[tokio::test]
async fn survivors_get_all_in_order_and_later_subscribers_are_told_what_they_missed() {
    const MESSAGES: u64 = 120;
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(8)).await;
    let origin = member(&cluster, "node-1").client();
    let mut inboxes = Vec::new();
    for name in ["node-0", "node-2", "node-3", "node-5", "node-6", "node-7"] {
        let client = member(&cluster, name).client();
        let hold = Some(PATIENCE);
        let inbox = client.subscribe_ordered("serial", hold).await;
        inboxes.push((name, inbox.expect("subscribed")));
    }
    let mut sending = JoinSet::new();
    for _ in 0..MESSAGES {
        let origin = origin.clone();
        sending.spawn(async move { drop(publish(&origin, Due::Settled).await) });
    }
    for _ in 0..10 {
        let sent = sending.join_next().await;
        sent.expect("some").expect("no panic");
    }
    cluster.kill("node-4").await.expect("killed");
    while let Some(sent) = sending.join_next().await {
        sent.expect("no panic");
    }
    for (name, inbox) in &mut inboxes {
        let mut seen = Seen::default();
        seen.read_to(inbox, MESSAGES - 1).await;
        assert_eq!((seen.gaps, seen.late), (0, 0), "{name}");
    }

    // No message is open any more, so a new subscriber waits for no earlier message.
    let dir = cluster.dir().display().to_string();
    let of = |name| vec!["--cluster", &dir, "--node", name, "--topic", "serial"];
    let more = ["--ordered", "--hold-ms", "600000", "--json", "--count", "2"];
    let arguments = [vec!["subscribe"], of("node-6"), more.to_vec()].concat();
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let reading = tokio::spawn(async move {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ran(&arguments, b"").await
    });
    let subscriber = member(&cluster, "node-6").client();
    let sent = eventually("it has subscribed, and got one", async || {
        let arguments = [vec!["broadcast"], of("node-1"), vec!["--ordered", "again"]];
        let sent = ran(&arguments.concat(), b"").await;
        // The dead member may still have its rank.
        let receipt = String::from_utf8_lossy(&sent.stdout);
        assert!(receipt.contains(" reached "), "{sent:?}");
        reading.is_finished().then_some(())
    });
    sent.await;
    let output = reading.await.expect("no panic");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines();
    let lines: Vec<serde_json::Value> = lines.map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["event"], "subscribed");
    let gap = &lines[1];
    assert_eq!((&gap["event"], &gap["from"]), (&"gap".into(), &0.into()));
    let first = gap["to"].as_u64().expect("a number") + 1;
    assert!(first >= MESSAGES, "{text}");
    assert_eq!(gap["count"], first);
    for (line, number) in lines[2..].iter().zip(first..) {
        assert_eq!(line["order"]["number"], number, "{text}");
        assert_eq!(
            (&line["late"], &line["origin"]),
            (&false.into(), &"node-1".into())
        );
    }
    assert_eq!(lines.len(), 4, "{text}");
    let counted = bed::counter(
        &subscriber,
        "binomesh_order_events_total",
        &["event=\"gap\""],
    );
    assert_eq!(counted.await, 1);
    stop(cluster).await;
}

/// A node is stopped while the origin gives messages up. The subscriber gets each message in its
/// place or late, or is told that it is missing, and no number is passed over.
#[tokio::test]
async fn a_message_that_was_given_up_is_missing_or_late_and_never_passed_over() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(4)).await;
    let origin = member(&cluster, "node-0").client();
    let still = member(&cluster, "node-2");
    let hold = Some(Duration::from_millis(50));
    let inbox = still.client().subscribe_ordered("serial", hold).await;
    let mut inbox = inbox.expect("subscribed");
    let mut seen = Seen::default();
    publish(&origin, Due::Settled).await;
    seen.read_to(&mut inbox, 0).await;
    signal(still.pid, "STOP");
    for _ in 0..5 {
        publish(&origin, Due::Within(Duration::from_millis(100))).await;
    }
    signal(still.pid, "CONT");
    // The stopped node may have been called dead. Messages until its return are then not for this
    // node.
    let mut last = 5;
    let back = eventually("it is back and has got one", async || {
        last += 1;
        let receipt = publish(&origin, Due::Settled).await;
        (receipt.reached_count == 3).then_some(())
    });
    back.await;
    seen.read_to(&mut inbox, last).await;
    assert_eq!(seen.next, last + 1);
    stop(cluster).await;
}
