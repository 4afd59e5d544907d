//! Functions that are called for messages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use binomesh::{Confirmation, Due, SendOptions, TopicFilter};

use crate::bed::{self, PATIENCE, eventually};
use crate::many_nodes::start;

#[expect(clippy::disallowed_methods, reason = "who is slow is what is tested")]
fn hold_up() {
    std::thread::sleep(Duration::from_millis(30));
}

/// The listener of one of three receivers panics at a word, and its node goes on without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_called_once_for_each_message_and_a_panic_ends_one_alone() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = start(dir.path(), 4);
    let mut listeners = Vec::new();
    let heard: Vec<Arc<Mutex<Vec<String>>>> = all.iter().map(|_| Arc::default()).collect();
    for (number, housed) in all.iter().enumerate() {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(4)).await;
        ready.expect("formed in time").expect("running");
        let (words, filter) = (heard[number].clone(), "news/#".parse().expect("a filter"));
        let listener = housed.node.listen(filter, move |message| {
            let word = String::from_utf8_lossy(&message.payload).into_owned();
            assert!(number != 3 || word != "second", "planted");
            if number == 1 && word == "third" {
                hold_up();
            }
            words.lock().expect("no panic while locked").push(word);
        });
        listeners.push(listener.await.expect("room"));
    }
    let options = |topic: &str| SendOptions {
        topic: topic.parse().expect("a topic"),
        due: Due::Within(PATIENCE),
        confirmation: Confirmation::Delivered,
        ..SendOptions::default()
    };
    let mut lacking = Vec::new();
    for word in ["first", "second", "third"] {
        let receipt = all[0].node.publish(word, options("news/a")).await;
        let receipt = receipt.expect("accepted");
        assert_eq!(receipt.reached_count, 3, "{receipt:?}");
        let unacknowledged = receipt.unacknowledged.into_iter();
        lacking.push(Vec::from_iter(
            unacknowledged.map(|one| (one.name, one.reason)),
        ));
    }
    let named = |reason: &str| vec![("node-3".to_owned(), reason.to_owned())];
    assert_eq!(
        lacking,
        [Vec::new(), named("missed"), named("no-subscriber")]
    );
    // A message without a listener is acknowledged by no receiver.
    let receipt = all[0].node.publish("other", options("other")).await;
    assert_eq!(receipt.expect("accepted").unacknowledged.len(), 3);
    for (number, words) in heard.iter().enumerate() {
        let expected: &[&str] = match number {
            0 => &[],
            3 => &["first"],
            _ => &["first", "second", "third"],
        };
        assert_eq!(*words.lock().expect("unlocked"), expected, "{number}");
        assert_eq!(listeners[number].has_panicked(), number == 3);
    }
    let panics = eventually("counted", async || {
        let panics = all[3].counter("binomesh_listener_panics_total", "").await;
        (panics > 0).then_some(panics)
    });
    assert_eq!(panics.await, 1);
    let slow = all[1].counter("binomesh_listener_slow_total", "").await;
    assert!(slow > 0, "it held up its node");
    // The values that a listener's function holds are dropped with the node.
    let held = Arc::downgrade(&heard[1]);
    drop(heard);
    let left = all[1].node.leave(Duration::from_secs(5)).await;
    assert_eq!(left, Ok(()));
    eventually("let go", async || (held.strong_count() == 0).then_some(())).await;
    for housed in &all {
        housed.node.shutdown().await;
    }
}

/// Dropping the listener ends the calls and drops the function.
#[tokio::test]
async fn a_dropped_listener_is_not_called() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let all = start(dir.path(), 2);
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(2)).await;
        ready.expect("formed in time").expect("running");
    }
    let words: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = words.clone();
    let listener = all[1].node.listen(TopicFilter::all(), move |message| {
        let word = String::from_utf8_lossy(&message.payload).into_owned();
        heard.lock().expect("unlocked").push(word);
    });
    let listener = listener.await.expect("room");
    let receipt = all[0].node.publish("first", SendOptions::default()).await;
    assert_eq!(receipt.expect("accepted").reached_count, 1);
    assert_eq!(*words.lock().expect("unlocked"), ["first"]);
    drop(listener);
    let receipt = all[0].node.publish("second", SendOptions::default()).await;
    assert_eq!(receipt.expect("accepted").reached_count, 1);
    assert_eq!(*words.lock().expect("unlocked"), ["first"]);
    assert_eq!(Arc::strong_count(&words), 1, "its place is free");
    for housed in &all {
        housed.node.shutdown().await;
    }
}
