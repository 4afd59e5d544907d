//! Single metrics after the events that they count, each read from its node's own recorder.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::push::{self, Into, PushOptions, Receiver};
use binomesh::report::SlowPeer;
use binomesh::{Bootstrap, Confirmation, Due, SendOptions, TopicFilter};

use crate::bed::{self, PATIENCE, eventually, now};
use crate::many_nodes::{Housed, prepared, start};

/// The most series of a scrape that a store of metrics should have to take from one node.
const SERIES_MAX: usize = 2_000;
const PEERS: usize = 64;

async fn formed(dir: &std::path::Path, count: usize) -> Vec<Housed> {
    let all = start(dir, count);
    for housed in &all {
        let ready = housed.node.ready(u32::try_from(count).expect("few"));
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        ready.expect("formed in time").expect("running");
    }
    all
}

async fn stopped(all: &[Housed]) {
    for housed in all {
        housed.node.shutdown().await;
    }
}

/// The peers that have series of links in a scrape.
fn linked(text: &str) -> BTreeSet<&str> {
    let lines = text.lines();
    let lines = lines.filter(|line| line.starts_with("binomesh_link_"));
    let peers = lines.filter_map(|line| line.split_once("peer=\"")?.1.split('"').next());
    peers.collect()
}

#[tokio::test]
async fn a_scrape_names_the_neighbours_of_now_and_former_ones_are_gone() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = formed(dir.path(), 3).await;
    let text = all[0].scraped().await;
    assert_eq!(linked(&text), ["node-1", "node-2"].into());
    let peer = &[("peer", "node-1")];
    for name in [
        "up_seconds",
        "rtt_seconds",
        "congestion_window_bytes",
        "mtu_bytes",
        "datagrams_sent_total",
    ] {
        let value = all[0].value(&format!("binomesh_link_{name}"), peer).await;
        assert!(value > Some(0.0), "{name}: {value:?}");
    }
    for name in [
        "packets_lost_total",
        "congestion_events_total",
        "black_holes_total",
        "queue_bytes",
    ] {
        let value = all[0].value(&format!("binomesh_link_{name}"), peer).await;
        assert!(value >= Some(0.0), "{name}: {value:?}");
    }
    all[1].node.leave(PATIENCE).await.expect("running");
    eventually("the former neighbour is gone", async || {
        let text = all[0].scraped().await;
        (linked(&text) == ["node-2"].into()).then_some(())
    })
    .await;
    stopped(&all).await;
}

/// A node of a small cluster has few neighbours, so the test makes up 64 neighbours from a real
/// one.
#[tokio::test]
async fn a_scrape_at_64_peers_has_few_series() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = formed(dir.path(), 3).await;
    let mut scrape = all[0].node.scrape().await.expect("running");
    let real = scrape.links[0].clone();
    let name = |number| format!("node-{number}.rack-17.cluster.example");
    scrape.links = (0..PEERS)
        .map(|number| {
            let mut link = real.clone();
            link.name = name(number);
            link
        })
        .collect();
    scrape.slow = (0..PEERS)
        .map(|number| SlowPeer {
            name: name(number),
            late: 1,
            held_back: 1,
            bytes: 1,
        })
        .collect();
    scrape.missing = (0..PEERS)
        .map(|number| ("barrier".to_owned(), name(number)))
        .collect();
    let (mut text, mut took) = (String::new(), Vec::new());
    for _ in 0..20 {
        let began = now();
        text = all[0].exporter.render(&scrape);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let series = text.lines().filter(|line| line.starts_with(['b', 'p']));
    let series = series.count();
    eprintln!(
        "a scrape at {PEERS} peers: {series} series, {} bytes, {:?} (of 20 at most {:?})",
        text.len(),
        took[10],
        took[19]
    );
    assert_eq!(linked(&text).len(), PEERS);
    assert!(series <= SERIES_MAX, "{series}");
    stopped(&all).await;
}

#[tokio::test]
async fn links_are_counted_without_a_rank_and_two_overlays_have_two_epochs() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    // Both nodes wait for a third node that never comes.
    let all = prepared(dir.path(), 2, |config, others| {
        let missing = [&config.name, "node-9"].map(|name| format!("{name}@127.0.0.1:9"));
        let missing = missing.map(|seed| seed.parse().expect("a seed"));
        config.bootstrap = Bootstrap::Clique;
        config.peers = others.iter().cloned().chain(missing).collect();
        config.meet_quiet_ms = 60_000;
        config.meet_seconds = 600;
    });
    eventually("linked", async || {
        let links = all[1].value("binomesh_links", &[]).await;
        (links == Some(1.0)).then_some(())
    })
    .await;
    assert_eq!(all[1].value("binomesh_rank", &[]).await, Some(-1.0));
    assert_eq!(all[1].value("binomesh_epoch", &[]).await, Some(0.0));

    // The node gets no place in time, so its message is outstanding first, and then counted as not
    // sent.
    let options = SendOptions {
        due: Due::Within(Duration::from_millis(100)),
        ..SendOptions::default()
    };
    assert!(all[1].node.publish("a word", options).await.is_err());
    let label = [("outcome", "not_sent")];
    let lost = all[1].value("binomesh_receipts_total", &label).await;
    assert_eq!(lost, Some(1.0));
    let outstanding = all[1].value("binomesh_receipts_outstanding", &[]).await;
    assert_eq!(outstanding, Some(0.0));
    stopped(&all).await;

    let mut epochs = BTreeSet::new();
    for _ in 0..2 {
        let dir = tempfile::tempdir().expect("a folder");
        let all = formed(dir.path(), 2).await;
        let first = all[0].value("binomesh_epoch", &[]).await.expect("a gauge");
        let second = all[1].value("binomesh_epoch", &[]).await;
        assert_eq!(Some(first), second);
        assert!(first > 0.0 && first < 2_f64.powi(48) && first.fract() == 0.0);
        epochs.insert(first as u64);
        stopped(&all).await;
    }
    assert_eq!(epochs.len(), 2);
}

#[tokio::test]
async fn receipts_are_counted_by_outcome_and_by_reason() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = formed(dir.path(), 3).await;
    let value = async |name: &str, label: &[(&str, &str)]| all[0].value(name, label).await;
    let outcome = async |outcome: &str| {
        let label = [("outcome", outcome)];
        all[0].value("binomesh_receipts_total", &label).await
    };
    let options = |time| SendOptions {
        due: Due::Within(time),
        confirmation: Confirmation::Acknowledged,
        ..SendOptions::default()
    };
    let publish = |options| all[0].node.publish("a word", options);
    assert_eq!(outcome("confirmed").await, Some(0.0));
    publish(SendOptions::default()).await.expect("accepted");
    assert_eq!(outcome("confirmed").await, Some(1.0));
    publish(options(PATIENCE)).await.expect("accepted");
    assert_eq!(outcome("unacknowledged").await, Some(1.0));
    let reason = [("reason", "no-subscriber")];
    let exceptions = "binomesh_receipt_exceptions_total";
    assert_eq!(value(exceptions, &reason).await, Some(2.0));
    // A subscriber that reads and does not answer keeps the receipt outstanding.
    let inbox = all[1].node.subscribe(TopicFilter::all()).await;
    let mut inbox = inbox.expect("room");
    let subscribers = all[1].value("binomesh_subscribers", &[]).await;
    assert_eq!(subscribers, Some(1.0));
    let asked = publish(options(Duration::from_secs(5)));
    inbox.next().await.expect("running");
    eventually("the relay is done with it", async || {
        let open = value("binomesh_relay_open", &[("kind", "messages")]).await;
        (open == Some(0.0)).then_some(())
    })
    .await;
    assert_eq!(value("binomesh_receipts_outstanding", &[]).await, Some(1.0));
    asked.await.expect("accepted");
    assert_eq!(value("binomesh_receipts_outstanding", &[]).await, Some(0.0));
    assert_eq!(outcome("unacknowledged").await, Some(2.0));
    let reason = [("reason", "no-answer")];
    assert_eq!(value(exceptions, &reason).await, Some(1.0));
    stopped(&all).await;
}

#[tokio::test]
async fn pushes_are_counted_at_both_ends() {
    const SIZE: usize = 700_000;
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = formed(dir.path(), 3).await;
    let folder = dir.path().join("files");
    std::fs::create_dir(&folder).expect("made");
    let one = Receiver::start(&all[1].node, Into::Folder(folder)).await;
    let two = Receiver::start(&all[2].node, Into::Nowhere).await;
    let _receivers = (one.expect("room"), two.expect("room"));
    let bytes = vec![7; SIZE];
    let options = PushOptions::new("file", SIZE as u64);
    let push = async |options| push::send(&all[0].node, &bytes[..], &options, |_| ()).await;
    assert!(push(options.clone()).await.expect("pushed").is_complete());
    // In the second push, node-1 has a file of that name. The third push claims more bytes than
    // there are.
    assert!(!push(options).await.expect("pushed").is_complete());
    let longer = PushOptions::new("longer", 2 * SIZE as u64);
    assert!(push(longer).await.is_err());
    let value = async |at: usize, name: &str| all[at].value(name, &[]).await;
    for outcome in ["complete", "incomplete", "failed"] {
        let label = [("outcome", outcome)];
        let count = all[0].value("binomesh_pushes_total", &label).await;
        assert_eq!(count, Some(1.0), "{outcome}");
    }
    let sent = value(0, "binomesh_push_bytes_sent_total").await;
    assert!(sent >= Some(2.0 * SIZE as f64), "{sent:?}");
    let received = value(1, "binomesh_push_bytes_received_total").await;
    assert!(received >= Some(SIZE as f64), "{received:?}");
    assert_eq!(value(1, "binomesh_files_stored_total").await, Some(1.0));
    assert_eq!(value(2, "binomesh_files_stored_total").await, Some(2.0));
    eventually("what was given up is counted", async || {
        let one = value(1, "binomesh_files_failed_total").await;
        let two = value(2, "binomesh_files_failed_total").await;
        ((one, two) == (Some(2.0), Some(1.0))).then_some(())
    })
    .await;
    stopped(&all).await;
}

#[tokio::test]
async fn a_loss_is_timed_and_messages_kept_for_the_lost_show_in_their_queue() {
    const SIZE: usize = 100_000;
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = formed(dir.path(), 4).await;
    let ends = async |name: &str| {
        let mut sum = 0.0;
        for housed in &all[..3] {
            let count = housed.value(&format!("binomesh_{name}_count"), &[]).await;
            sum += count.unwrap_or(0.0);
        }
        sum
    };
    assert!(ends("convergence_seconds").await >= 3.0);
    assert_eq!(ends("detection_seconds").await, 0.0);
    all[3].node.shutdown().await;
    for name in ["detection_seconds", "relink_seconds"] {
        eventually(name, async || (ends(name).await > 0.0).then_some(())).await;
    }
    let queue = async |name: &str, queue: &str| {
        let value = all[0].value(name, &[("queue", queue)]).await;
        value.expect("a queue")
    };
    assert_eq!(queue("binomesh_queue_bytes", "kept").await, 0.0);
    let options = SendOptions {
        due: Due::Until(PATIENCE),
        ..SendOptions::default()
    };
    let to = [all[3].node.name()];
    let _kept = all[0].node.send(to, vec![7; SIZE], options);
    eventually("kept", async || {
        let kept = queue("binomesh_queue_bytes", "kept").await;
        (kept >= SIZE as f64).then_some(())
    })
    .await;
    assert!(queue("binomesh_queue_bytes", "messages").await >= SIZE as f64);
    for (name, most) in [("kept", 16 << 20), ("waiting", 64 << 20), ("link", 4 << 20)] {
        let bound = queue("binomesh_queue_bytes_max", name).await;
        assert_eq!(bound, f64::from(most), "{name}");
    }
    stopped(&all).await;
}
