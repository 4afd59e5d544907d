//! A member that is away gets messages later, absent hosts are named, and applications answer.

use std::process::Stdio;
use std::time::Duration;

use binomesh::client::{Events, SubscriptionEvent};
use binomesh::cluster::Cluster;
use binomesh::{Confirmation, Due, Receipt, SendOptions};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::bed::{self, counter, eventually, formed, member, ran, stop, verified};

fn receipt(output: &std::process::Output) -> Receipt {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

async fn broadcast(cluster: &Cluster, at: &str, more: &[&str]) -> std::process::Output {
    let dir = cluster.dir().display().to_string();
    let always = ["broadcast", "--cluster", &dir, "--node", at, "--json"];
    ran(&[&always[..], more].concat(), b"").await
}

/// The ids of the next messages.
async fn next_ids(inbox: &mut Events, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let event = tokio::time::timeout(bed::PATIENCE, inbox.next()).await;
        match event.expect("in time") {
            Some(Ok(SubscriptionEvent::Delivery(delivery))) => ids.push(delivery.id),
            other => panic!("{other:?}"),
        }
    }
    ids
}

/// Within the grace the rank of the killed member is vacant. Without a grace it is no member any
/// more, and only the inventory names it. Messages that arrive before its application subscribes
/// wait for the application.
#[tokio::test]
async fn a_killed_member_gets_the_kept_messages_once_in_order_and_in_time() {
    let _turn = bed::turn().await;
    for (grace_seconds, when) in [
        (30, When::AtOnce),
        (30, When::AfterAll),
        (0, When::AfterAll),
    ] {
        let mut cluster = one_killed(grace_seconds).await;
        if grace_seconds == 0 {
            assert_eq!(verified(&cluster).await.1.nodes, 4);
        }
        let sent = publish_three(&cluster, false).await;
        // No node tries any more: all three messages are kept for the killed member.
        let client = member(&cluster, "node-1").client();
        eventually("all are kept", async || {
            let kept = counter(&client, "binomesh_relay_events_total", &["\"kept\""]).await;
            (kept == 3).then_some(())
        })
        .await;
        let mut inbox = back_and_listening(&mut cluster, false, when).await;
        assert_all_in_order(&mut inbox, sent, grace_seconds).await;
        // Each message came once: the next delivery is another message.
        let last = broadcast(&cluster, "node-1", &["last"]).await;
        assert_eq!(next_ids(&mut inbox, 1).await, [receipt(&last).id]);
        stop(cluster).await;
    }
}

/// The first rounds of all three messages are still under way and arrive in any order. Messages
/// that are published in order are sorted.
#[tokio::test]
async fn a_member_that_is_back_unnoticed_gets_ordered_messages_in_order() {
    let _turn = bed::turn().await;
    let mut cluster = one_killed(30).await;
    let sent = publish_three(&cluster, true).await;
    let mut inbox = back_and_listening(&mut cluster, true, When::AtOnce).await;
    assert_all_in_order(&mut inbox, sent, 30).await;
    stop(cluster).await;
}

/// The messages are more than may be open at once, each in a packet of its own. A kept message
/// makes room for the next message.
#[tokio::test]
async fn kept_messages_take_no_room_from_later_ones() {
    const MANY: u64 = 70;
    let _turn = bed::turn().await;
    let cluster = one_killed(30).await;
    let client = member(&cluster, "node-1").client();
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let client = client.clone();
        let options = SendOptions {
            topic: format!("topic/{number}").parse().unwrap(),
            due: Due::Until(2 * bed::PATIENCE),
            ..SendOptions::default()
        };
        sending.spawn(async move { client.broadcast_with("x", &options).await });
    }
    eventually("all are kept", async || {
        let kept = counter(&client, "binomesh_relay_events_total", &["\"kept\""]).await;
        (kept == MANY).then_some(())
    })
    .await;
    sending.abort_all();
    stop(cluster).await;
}

/// Five nodes of which the fourth has just been killed.
async fn one_killed(grace_seconds: u64) -> Cluster {
    let mut config = bed::config(5);
    config.grace_seconds = grace_seconds;
    config.expect = "node-[0-4]".parse().unwrap();
    let cluster = formed(config).await;
    cluster.kill("node-3").await.unwrap();
    cluster
}

/// Publishes three broadcasts, one after the other, which are kept for absent members. Returns the
/// tasks that wait for their receipts.
async fn publish_three(cluster: &Cluster, is_ordered: bool) -> Vec<Sending> {
    let client = member(cluster, "node-1").client();
    let mut sent = Vec::new();
    for text in ["first", "second", "third"] {
        let published =
            async || counter(&client, "binomesh_relay_events_total", &["published"]).await;
        let before = published().await;
        let options = SendOptions {
            due: Due::Until(bed::PATIENCE),
            is_ordered,
            ..SendOptions::default()
        };
        let sending = client.clone();
        let sending = async move { sending.broadcast_with(text, &options).await.unwrap() };
        sent.push(tokio::spawn(sending));
        eventually("published", async || {
            (published().await > before).then_some(())
        })
        .await;
    }
    sent
}

type Sending = tokio::task::JoinHandle<Receipt>;

/// Starts the killed member again and subscribes there: at once, or after all three messages have
/// come.
async fn back_and_listening(cluster: &mut Cluster, is_ordered: bool, when: When) -> Events {
    cluster.restart("node-3", "node-0").await.unwrap();
    let client = member(cluster, "node-3").client();
    if when == When::AfterAll {
        eventually("all has come", async || {
            let came = counter(&client, "binomesh_relay_events_total", &["\"delivered\""]).await;
            (came == 3).then_some(())
        })
        .await;
    }
    let inbox = match is_ordered {
        true => client.subscribe_ordered("#", Some(bed::PATIENCE)).await,
        false => client.subscribe("#").await,
    };
    inbox.unwrap()
}

/// When the application of a node that is back subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    AtOnce,
    AfterAll,
}

async fn assert_all_in_order(inbox: &mut Events, sent: Vec<Sending>, grace_seconds: u64) {
    let got = next_ids(inbox, 3).await;
    let mut ids = Vec::new();
    for sending in sent {
        let receipt = sending.await.unwrap();
        assert!(receipt.is_complete(), "{receipt:?}");
        assert!(
            receipt.reached.contains(&"node-3".to_owned()),
            "{receipt:?}"
        );
        ids.push(receipt.id);
    }
    assert_eq!(got, ids, "in order, grace {grace_seconds}");
}

#[tokio::test]
async fn past_its_time_a_receipt_names_the_member_that_did_not_come_back() {
    let _turn = bed::turn().await;
    let mut config = bed::config(4);
    config.grace_seconds = 30;
    let cluster = formed(config).await;
    cluster.kill("node-3").await.unwrap();
    let output = broadcast(&cluster, "node-1", &["--until-seconds", "1", "x"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let receipt = receipt(&output);
    let [unreached] = receipt.unreached.as_slice() else {
        panic!("{receipt:?}");
    };
    assert_eq!(
        (&*unreached.name, &*unreached.reason),
        ("node-3", "deadline")
    );
    stop(cluster).await;
}

#[tokio::test]
async fn hosts_of_the_inventory_that_are_no_members_are_named() {
    let _turn = bed::turn().await;
    let mut config = bed::config(4);
    config.expect = "node-[0-4],login-1".parse().unwrap();
    let cluster = formed(config).await;
    let absent = |output: &std::process::Output| -> Vec<(String, bool)> {
        let absent = receipt(output).absent.into_iter();
        let named = absent.map(|one| (one.name, one.last_seen_seconds.is_some()));
        named.collect()
    };
    let output = broadcast(&cluster, "node-1", &["x"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let never = [("login-1".to_owned(), false), ("node-4".to_owned(), false)];
    assert_eq!(absent(&output), never);
    assert_eq!(receipt(&output).reached_count, 3);
    cluster.kill("node-2").await.unwrap();
    assert_eq!(verified(&cluster).await.1.nodes, 3);
    let output = broadcast(&cluster, "node-1", &["y"]).await;
    let [login, node] = never;
    assert_eq!(absent(&output), [login, ("node-2".to_owned(), true), node]);
    stop(cluster).await;
}

#[tokio::test]
async fn applications_answer_and_equal_answers_are_one() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(6)).await;
    let dir = cluster.dir().display().to_string();
    let mut applications = Vec::new();
    for (name, answer) in [
        ("node-1", ["--exec", "tr a-z A-Z"]),
        ("node-2", ["--reply", "HELLO"]),
        ("node-3", ["--exec", "echo broken >&2; exit 3"]),
    ] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_binomesh"));
        let at = [
            "subscribe",
            "--cluster",
            &dir,
            "--node",
            name,
            "--json",
            "--topic",
            "ask",
        ];
        command.args(at).args(answer);
        command.stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(bed::PATIENCE, lines.next_line()).await;
        assert!(line.unwrap().unwrap().unwrap().contains("subscribed"));
        applications.push((child, lines));
    }
    // The application of node-4 subscribes and does not answer. node-5 has no subscriber.
    let _silent = member(&cluster, "node-4")
        .client()
        .subscribe("#")
        .await
        .unwrap();

    let asking = ["--topic", "ask", "--timeout-seconds", "2"];
    let collect = [&asking[..], &["--collect", "hello"]].concat();
    let output = broadcast(&cluster, "node-0", &collect).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let collected = receipt(&output);
    assert_eq!(
        (collected.reached_count, &*collected.confirmation),
        (5, "acknowledged")
    );
    let [same, broken] = collected.replies.as_slice() else {
        panic!("{collected:?}");
    };
    assert_eq!((same.count, &*same.reply), (2, &b"HELLO"[..]));
    let mut names = same.names.clone();
    names.sort_unstable();
    assert_eq!(names, ["node-1", "node-2"]);
    assert_eq!(
        (broken.count, &*broken.names),
        (1, &["node-3".to_owned()][..])
    );
    assert_eq!(broken.reply, b"exit status: 3\nbroken\n");
    let lacking = |receipt: &Receipt| -> Vec<(String, String)> {
        let all = receipt.unacknowledged.iter();
        let mut all: Vec<_> = all
            .map(|one| (one.name.clone(), one.reason.clone()))
            .collect();
        all.sort_unstable();
        all
    };
    let of = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
    let expected = [of("node-4", "no-answer"), of("node-5", "no-subscriber")];
    assert_eq!(lacking(&collected), expected);

    let delivered = [&asking[..], &["--confirm", "delivered", "hello"]].concat();
    let clock = bed::now();
    let found = receipt(&broadcast(&cluster, "node-0", &delivered).await);
    let took = clock.elapsed();
    assert_eq!(lacking(&found), [of("node-5", "no-subscriber")]);
    assert!(
        took < Duration::from_secs(2),
        "all answers were there: {found:?}"
    );
    assert!(found.elapsed_seconds <= took.as_secs_f64());
    assert!(
        collected.elapsed_seconds >= 2.0,
        "two never came: {collected:?}"
    );

    // An application also answers a message to named members that is sent through the library.
    let options = SendOptions {
        topic: "ask".parse().unwrap(),
        due: Due::Within(Duration::from_secs(30)),
        confirmation: Confirmation::Acknowledged,
        ..SendOptions::default()
    };
    let to = ["node-2".to_owned()];
    let client = member(&cluster, "node-4").client();
    let found = client.send_with(&to, "hello", &options).await.unwrap();
    assert!(found.is_complete(), "{found:?}");
    assert_eq!(found.replies[0].reply, b"HELLO");
    drop(applications);
    stop(cluster).await;
}
