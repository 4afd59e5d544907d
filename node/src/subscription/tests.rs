//! Subscribers: slow readers and the losses that they are told of, listeners, order, and messages
//! that wait for a first subscriber.

use std::time::Duration;

use binomesh_routing::Order;
use binomesh_routing::packet::Confirmation;
use tokio::time::Instant;

use super::*;

fn message(sequence: u64) -> Message {
    Message {
        id: PacketId {
            origin: PeerId::from_bytes([7; 16]),
            boot: 1,
            sequence,
        },
        origin_name: "node-0".into(),
        topic: "jobs/a".parse().unwrap(),
        confirmation: Confirmation::Relayed,
        is_signed: false,
        order: None,
        is_late: false,
        payload: Bytes::from_static(b"x"),
    }
}

fn admit(all: &mut Subscribers, one: Subscriber) -> bool {
    all.admit(one, &mut Unclaimed::default())
}

fn offer(all: &mut Subscribers, message: Message) -> Offered {
    let topic = message.topic.clone();
    all.offer(&topic, 1, || std::iter::once(message.clone()))
        .remove(0)
}

#[tokio::test]
async fn messages_that_come_together_are_counted_one_by_one_and_wake_the_waiting_reader() {
    let mut all = Subscribers::default();
    let (slow, _slow_end) = subscription(TopicFilter::all(), QueueBounds::for_messages(2));
    let (other, _other_end) = subscription("other".parse().unwrap(), QueueBounds::for_messages(2));
    let (fast, mut fast_end) = subscription(TopicFilter::all(), QueueBounds::for_messages(8));
    let (closed, closed_end) = subscription(TopicFilter::all(), QueueBounds::for_messages(8));
    for one in [slow, other, fast, closed] {
        assert!(admit(&mut all, one));
    }
    drop(closed_end);
    let reader = tokio::spawn(async move {
        let mut came = Vec::new();
        while came.len() < 4 {
            came.extend(fast_end.next().await);
        }
        came
    });
    tokio::task::yield_now().await;
    for first in [0, 2] {
        let together = || (first..first + 2).map(message);
        let missed = u64::from(first == 2);
        let expected = Offered {
            taken: 2 - missed,
            missed,
        };
        assert_eq!(all.offer(&message(0).topic, 2, together), [expected; 2]);
        tokio::task::yield_now().await;
    }
    let expected = (0..4).map(|sequence| Received::Message(message(sequence)));
    assert_eq!(reader.await.unwrap(), expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_subscriber_is_told_what_it_missed_and_others_are_not_hurt() {
    let mut all = Subscribers::default();
    let (slow, mut slow_end) = subscription(TopicFilter::all(), QueueBounds::for_messages(2));
    let (fast, mut fast_end) =
        subscription("jobs/#".parse().unwrap(), QueueBounds::for_messages(8));
    assert!(admit(&mut all, slow) && admit(&mut all, fast));
    for sequence in 0..5 {
        offer(&mut all, message(sequence));
    }
    for expected in [
        Received::Message(message(0)),
        Received::Message(message(1)),
        Received::Missed(3),
    ] {
        assert_eq!(slow_end.next().await, Some(expected));
    }
    for sequence in 0..5 {
        let expected = Some(Received::Message(message(sequence)));
        assert_eq!(fast_end.next().await, expected);
    }
}

#[tokio::test]
async fn a_gap_is_told_where_it_is_though_the_queue_is_never_empty() {
    let mut all = Subscribers::default();
    let (slow, mut end) = subscription(TopicFilter::all(), QueueBounds::for_messages(1));
    assert!(admit(&mut all, slow));
    let mut received = Vec::new();
    for round in 0..3 {
        for sequence in 0..3 {
            offer(&mut all, message(3 * round + sequence));
        }
        received.extend(end.next().await);
    }
    let expected = [
        Received::Message(message(0)),
        Received::Missed(2),
        Received::Message(message(3)),
    ];
    assert_eq!(received, expected);
    assert_eq!(end.next().await, Some(Received::Missed(5)));
}

#[tokio::test]
async fn payloads_that_wait_are_bounded_by_their_bytes_and_one_always_fits() {
    let mut all = Subscribers::default();
    let (slow, mut end) = subscription(TopicFilter::all(), QueueBounds::for_messages(usize::MAX));
    assert!(admit(&mut all, slow));
    let long = |sequence, length| Message {
        payload: vec![0; length].into(),
        ..message(sequence)
    };
    let longest = Subscription::MAX_BYTES + 1;
    for one in [long(0, longest), long(1, 0), long(2, 1)] {
        offer(&mut all, one);
    }
    assert_eq!(end.next().await, Some(Received::Message(long(0, longest))));
    assert_eq!(end.next().await, Some(Received::Missed(2)));
    for sequence in 3..20 {
        offer(&mut all, long(sequence, 1 << 20));
    }
    for sequence in 3..19 {
        let expected = Received::Message(long(sequence, 1 << 20));
        assert_eq!(end.next().await, Some(expected));
    }
    assert_eq!(end.next().await, Some(Received::Missed(1)));
}

#[test]
fn a_listener_is_called_in_order_until_it_is_dropped_and_misses_where_it_panics() {
    let mut all = Subscribers::default();
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let words = heard.clone();
    let (callback, listener) = Callback::new(move |message: Message| {
        assert_ne!(message.id.sequence, 6, "planted");
        words.lock().unwrap().push(message.id.sequence);
    });
    let filter = "jobs/#".parse().unwrap();
    assert!(admit(&mut all, Subscriber::called(filter, callback)));
    let taken = Offered {
        taken: 1,
        missed: 0,
    };
    let missed = Offered {
        taken: 0,
        missed: 1,
    };
    let together = |first: u64, end: u64| move || (first..end).map(message);
    let topic = message(0).topic;
    assert_eq!(all.offer(&topic, 3, together(0, 3)), [taken; 3]);
    let other = "other".parse().unwrap();
    assert_eq!(all.offer(&other, 1, together(3, 4)), [Offered::default()]);
    assert!(!listener.has_panicked());
    let offered = all.offer(&topic, 4, together(4, 8));
    assert_eq!(offered[..3], [taken, taken, missed]);
    assert_eq!(offered[3], Offered::default(), "nobody listens any more");
    assert!(listener.has_panicked() && all.all.is_empty());

    let (callback, listener) = Callback::new(|_| unreachable!("nobody listens"));
    assert!(admit(
        &mut all,
        Subscriber::called(TopicFilter::all(), callback)
    ));
    drop(listener);
    assert_eq!(offer(&mut all, message(9)), Offered::default());
    assert!(all.all.is_empty());
    assert_eq!(*heard.lock().unwrap(), [0, 1, 2, 4, 5]);
}

/// A value that a function holds, which panics when it is dropped.
struct Delicate(#[expect(dead_code, reason = "held to be let go of")] Arc<()>);

impl Drop for Delicate {
    fn drop(&mut self) {
        panic!("planted");
    }
}

#[test]
fn the_values_that_a_listener_holds_are_dropped_with_it_and_its_panics_reach_nobody() {
    let held = Arc::new(());
    let listen = |all: &mut Subscribers, panics: bool| {
        let delicate = Delicate(held.clone());
        let (callback, listener) = Callback::new(move |_| {
            let _held = &delicate;
            assert!(!panics, "planted");
        });
        let is_room = admit(all, Subscriber::called(TopicFilter::all(), callback));
        (listener, is_room)
    };
    let count = || Arc::strong_count(&held) - 1;
    let mut all = Subscribers::default();
    // No message comes in between.
    let (dropped, _) = listen(&mut all, false);
    assert_eq!(count(), 1);
    drop(dropped);
    assert_eq!(count(), 0);
    let (panicked, _) = listen(&mut all, true);
    offer(&mut all, message(1));
    assert_eq!((count(), panicked.has_panicked()), (0, true));
    // No listener is left. Of a full set and one more, the last is refused; then the node stops.
    let listeners: Vec<_> = (0..=Subscribers::MAX)
        .map(|_| listen(&mut all, false))
        .collect();
    let rooms = listeners.iter().filter(|(_, is_room)| *is_room).count();
    assert_eq!((rooms, count()), (Subscribers::MAX, Subscribers::MAX));
    drop(all);
    assert_eq!(count(), 0);
}

#[test]
fn a_listener_can_be_dropped_in_its_own_call() {
    let mut all = Subscribers::default();
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let own: Arc<Mutex<Option<Listener>>> = Arc::default();
    let (words, slot) = (heard.clone(), Arc::downgrade(&own));
    let (callback, listener) = Callback::new(move |message: Message| {
        words.lock().unwrap().push(message.id.sequence);
        if message.id.sequence == 1 {
            drop(slot.upgrade().unwrap().lock().unwrap().take());
        }
    });
    *own.lock().unwrap() = Some(listener);
    assert!(admit(
        &mut all,
        Subscriber::called(TopicFilter::all(), callback)
    ));
    let offered = all.offer(&message(0).topic, 4, || (0..4).map(message));
    let taken: Vec<u64> = offered.iter().map(|offered| offered.taken).collect();
    assert_eq!(taken, [1, 1, 0, 0]);
    assert!(all.all.is_empty());
    assert_eq!(Arc::strong_count(&heard), 1, "the function is gone");
    assert_eq!(*heard.lock().unwrap(), [0, 1]);
}

#[test]
fn one_subscriber_too_many_is_refused_and_the_others_are_served() {
    let mut all = Subscribers::default();
    let mut admit = || {
        let (one, end) = subscription(TopicFilter::all(), QueueBounds::for_messages(1));
        (admit(&mut all, one), end)
    };
    let mut ends: Vec<_> = (0..Subscribers::MAX).map(|_| admit()).collect();
    assert!(ends.iter().all(|(admitted, _)| *admitted));
    assert!(!admit().0);
    ends.pop();
    assert!(admit().0, "a place has become free");
    offer(&mut all, message(1));
    for (_, end) in &mut ends {
        let first = end.shared.queue().pop();
        assert_eq!(first, Some(Received::Message(message(1))));
    }
}

#[tokio::test]
async fn a_dropped_subscription_frees_its_place() {
    let mut all = Subscribers::default();
    for _ in 0..Subscribers::MAX {
        let (one, end) = subscription(TopicFilter::all(), QueueBounds::for_messages(1));
        assert!(admit(&mut all, one));
        drop(end);
    }
    let (kept, mut end) = subscription(TopicFilter::all(), QueueBounds::for_messages(usize::MAX));
    assert!(admit(&mut all, kept));
    assert_eq!(all.all.len(), 1);
    drop(all);
    assert_eq!(end.next().await, None);
}

/// A message with this number in its origin's stream.
fn numbered(number: u64) -> Message {
    Message {
        order: Some(Ordered {
            order: Order { stream: 3, number },
            is_settled_before: false,
        }),
        ..message(10 + number)
    }
}

fn late(number: u64) -> Option<Received> {
    let is_late = true;
    let late = numbered(number);
    Some(Received::Message(Message { is_late, ..late }))
}

fn in_place(number: u64) -> Option<Received> {
    Some(Received::Message(numbered(number)))
}

fn gap(from: u64, to: u64) -> Option<Received> {
    Some(Received::Gap(Gap {
        origin: PeerId::from_bytes([7; 16]),
        origin_name: "node-0".into(),
        boot: 1,
        stream: 3,
        topic: "jobs/a".parse().unwrap(),
        from,
        to,
    }))
}

const HOLD: Duration = Duration::from_secs(2);

/// A subscription in order with room for `messages` messages, and its node's end.
fn in_order(messages: usize) -> (Subscribers, Subscription) {
    in_order_within(messages, Hold::default().messages)
}

/// As [`in_order`], holding back at most `held` messages.
fn in_order_within(messages: usize, held: usize) -> (Subscribers, Subscription) {
    let mut all = Subscribers::default();
    let (one, end) = subscription(TopicFilter::all(), QueueBounds::for_messages(messages));
    assert!(admit(&mut all, one));
    let hold = Hold {
        time: HOLD,
        messages: held,
        ..Hold::default()
    };
    (all, end.in_order(hold, OrderMetrics::of_this_node()))
}

#[expect(clippy::disallowed_methods, reason = "the test's own clock, paused")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test(start_paused = true)]
async fn in_order_a_gap_is_told_in_its_place_and_its_message_is_late_if_it_comes_after_all() {
    let (mut all, mut end) = in_order(16);
    let start = now();
    for number in [1, 0, 3, 5] {
        offer(&mut all, numbered(number));
    }
    assert_eq!(end.next().await, in_place(0));
    assert_eq!(end.next().await, in_place(1));
    assert_eq!(now() - start, Duration::ZERO);
    for expected in [gap(2, 2), in_place(3), gap(4, 4), in_place(5)] {
        assert_eq!(end.next().await, expected);
    }
    // The runtime's timer counts whole milliseconds.
    let waited = now() - start;
    assert!(waited >= HOLD && waited < HOLD + Duration::from_millis(5));
    for number in [4, 6] {
        offer(&mut all, numbered(number));
    }
    // A message without a number waits for no other.
    offer(&mut all, numbered(8));
    offer(&mut all, message(1));
    for expected in [late(4), in_place(6)] {
        assert_eq!(end.next().await, expected);
    }
    let unnumbered = end.next().await;
    assert_eq!(unnumbered, Some(Received::Message(message(1))));
    drop(all);
    for expected in [gap(7, 7), in_place(8), None] {
        assert_eq!(end.next().await, expected, "nothing more will come");
    }
}

#[tokio::test(start_paused = true)]
async fn in_order_messages_that_a_full_queue_left_out_are_a_gap_as_well() {
    let (mut all, mut end) = in_order(2);
    for number in 0..5 {
        offer(&mut all, numbered(number));
    }
    assert_eq!(end.next().await, in_place(0));
    assert_eq!(end.next().await, in_place(1));
    assert_eq!(end.next().await, Some(Received::Missed(3)));
    offer(&mut all, numbered(5));
    assert_eq!(end.next().await, gap(2, 4));
    assert_eq!(end.next().await, in_place(5));
}

/// The hold passes while the reader reads nothing; the missing message lies in the queue.
#[tokio::test(start_paused = true)]
async fn in_order_a_slow_reader_makes_nothing_late() {
    let (mut all, mut end) = in_order(16);
    offer(&mut all, numbered(1));
    let early = tokio::time::timeout(HOLD / 2, end.next()).await;
    assert!(early.is_err(), "{early:?}");
    offer(&mut all, numbered(3));
    offer(&mut all, numbered(0));
    offer(&mut all, message(1));
    tokio::time::advance(2 * HOLD).await;
    assert_eq!(end.next().await, in_place(0));
    assert_eq!(end.next().await, in_place(1));
    assert_eq!(end.next().await, Some(Received::Message(message(1))));
    assert_eq!(end.next().await, gap(2, 2));
    assert_eq!(end.next().await, in_place(3));
}

/// More messages come than may be held; the missing one lies in the queue.
#[tokio::test(start_paused = true)]
async fn in_order_a_slow_reader_makes_nothing_late_when_it_is_crowded() {
    let (mut all, mut end) = in_order_within(16, 2);
    let start = now();
    for number in [1, 2, 3, 0] {
        offer(&mut all, numbered(number));
    }
    for number in 0..4 {
        assert_eq!(end.next().await, in_place(number));
    }
    // Now the queue holds nothing else.
    for number in [5, 6, 7] {
        offer(&mut all, numbered(number));
    }
    for expected in [gap(4, 4), in_place(5), in_place(6), in_place(7)] {
        assert_eq!(end.next().await, expected);
    }
    assert_eq!(now() - start, Duration::ZERO, "without waiting");
}

fn about(topic: &str, sequence: u64, length: usize) -> Message {
    Message {
        topic: topic.parse().unwrap(),
        payload: vec![7; length].into(),
        ..message(sequence)
    }
}

/// The waiting messages that a subscriber with this filter gets: their sequences, and how many are
/// reported as missed.
async fn claimed(unclaimed: &mut Unclaimed, filter: &str) -> (Vec<u64>, u64) {
    let bounds = QueueBounds::for_messages(4096);
    let (subscriber, mut subscription) = subscription(filter.parse().unwrap(), bounds);
    let mut all = Subscribers::default();
    assert!(all.admit(subscriber, unclaimed));
    drop(all);
    let (mut sequences, mut missing) = (Vec::new(), 0);
    while let Some(received) = subscription.next().await {
        match received {
            Received::Message(message) => sequences.push(message.id.sequence),
            Received::Missed(count) => missing += count,
            Received::Gap(gap) => panic!("{gap:?}"),
        }
    }
    (sequences, missing)
}

#[tokio::test]
async fn messages_that_came_before_any_subscriber_go_once_to_the_first_that_wants_them() {
    let mut unclaimed = Unclaimed::new(now());
    for sequence in 0..6 {
        let topic = ["jobs/a", "other"][sequence as usize % 2];
        unclaimed.hold(about(topic, sequence, 10));
    }
    assert_eq!(claimed(&mut unclaimed, "nothing").await, (vec![], 0));
    assert_eq!(claimed(&mut unclaimed, "jobs/#").await, (vec![0, 2, 4], 0));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![1, 3, 5], 0));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![], 0));
}

#[test]
fn requests_own_messages_and_messages_for_present_nodes_wait_for_no_subscriber() {
    let unclaimed = Unclaimed::new(now());
    let (topic, own) = (about("x", 0, 1).topic, about("$push", 0, 1).topic);
    assert!(unclaimed.holds(&topic, true, false));
    assert!(!unclaimed.holds(&topic, false, false));
    assert!(!unclaimed.holds(&topic, true, true));
    assert!(!unclaimed.holds(&own, true, false));
}

#[tokio::test]
async fn a_subscriber_that_is_gone_at_its_admission_takes_nothing_from_the_next() {
    let mut unclaimed = Unclaimed::new(now());
    unclaimed.hold(about("x", 0, 1));
    let (gone, end) = subscription(TopicFilter::all(), QueueBounds::for_messages(8));
    drop(end);
    let mut all = Subscribers::default();
    assert!(all.admit(gone, &mut unclaimed));
    assert!(!all.is_wanted(&about("x", 0, 1).topic));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![0], 0));
}

#[tokio::test]
async fn messages_that_wait_for_a_first_subscriber_are_bounded_by_number_bytes_and_time() {
    let began = now();
    let mut unclaimed = Unclaimed::new(began);
    for sequence in 0..6000 {
        unclaimed.hold(about("x", sequence, 0));
    }
    let first: Vec<u64> = (0..4096).collect();
    assert_eq!(claimed(&mut unclaimed, "other").await, (vec![], 0));
    assert_eq!(claimed(&mut unclaimed, "#").await, (first, 1904));
    // One message always fits, whatever its length.
    unclaimed.hold(about("x", 1, 5 << 20));
    unclaimed.hold(about("x", 2, 1));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![1], 1));
    unclaimed.hold(about("x", 3, 3 << 20));
    unclaimed.hold(about("x", 4, 2 << 20));
    unclaimed.hold(about("x", 5, 1 << 20));
    unclaimed.end_if_due(began + Duration::from_secs(29));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![3, 5], 1));
    unclaimed.hold(about("x", 6, 1));
    assert_eq!(unclaimed.deadline(), Some(began + Duration::from_secs(30)));
    unclaimed.end_if_due(began + Duration::from_secs(30));
    assert!(!unclaimed.holds(&about("x", 7, 1).topic, true, false));
    assert_eq!(claimed(&mut unclaimed, "#").await, (vec![], 0));
}

#[tokio::test]
async fn a_slow_reader_keeps_no_packets_of_other_messages_in_memory() {
    let mut all = Subscribers::default();
    let (slow, mut end) = subscription(TopicFilter::all(), QueueBounds::for_messages(8));
    assert!(admit(&mut all, slow));
    // Two messages share each packet.
    let packets: Vec<Bytes> = (0..3).map(|n| Bytes::from(vec![n; 200])).collect();
    for packet in &packets {
        let together = || {
            [0..100, 100..200].into_iter().map(|part| Message {
                payload: packet.slice(part),
                ..message(0)
            })
        };
        let offered = all.offer(&message(0).topic, 2, together);
        assert!(offered.iter().all(|offered| offered.taken == 1));
    }
    // The first packet came to an empty queue, which a reader empties at once.
    let are_unique: Vec<bool> = packets.iter().map(Bytes::is_unique).collect();
    assert_eq!(are_unique, [false, true, true]);
    for packet in packets.iter().flat_map(|packet| [packet; 2]) {
        let Some(Received::Message(message)) = end.next().await else {
            panic!("a message is missing");
        };
        assert_eq!(message.payload, packet.slice(..100));
    }
}

#[tokio::test(start_paused = true)]
async fn messages_held_for_an_earlier_one_keep_no_packets_in_memory() {
    let (mut all, mut end) = in_order(16);
    let packets: Vec<Bytes> = (0..3).map(|n| Bytes::from(vec![n; 200])).collect();
    for (packet, number) in packets.iter().zip(1..) {
        let payload = packet.slice(..100);
        let message = Message {
            payload,
            ..numbered(number)
        };
        offer(&mut all, message);
        // The reader takes it, and waits for the message before it. The first held message keeps
        // its packet.
        let nothing = tokio::time::timeout(Duration::from_millis(1), end.next()).await;
        assert!(nothing.is_err());
    }
    let are_unique: Vec<bool> = packets.iter().map(Bytes::is_unique).collect();
    assert_eq!(are_unique, [false, true, true]);
}
