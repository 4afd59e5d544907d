//! Which messages share a packet, and which are held back for others.

use tokio::sync::oneshot;

use super::*;
use crate::command::Due;

fn waiting(topic: &str, bytes: usize, timeout_ms: Option<u64>, since: Instant) -> Waiting {
    Waiting {
        to: None,
        since,
        outgoing: Outgoing {
            topic: topic.parse().unwrap(),
            payload: vec![0; bytes].into(),
            strategy: Strategy::default(),
            due: timeout_ms.map_or(Due::Settled, |ms| Due::Within(Duration::from_millis(ms))),
            confirmation: Confirmation::Relayed,
            is_ordered: false,
            excused: Arc::default(),
            left: 0,
            reply: oneshot::channel().0,
        },
        because: SendError::Busy,
    }
}

fn together_behind(open: usize, all: impl IntoIterator<Item = Waiting>) -> usize {
    let mut messages = OpenMessages::default();
    all.into_iter().for_each(|message| messages.push(message));
    messages.together(open)
}

fn together(all: impl IntoIterator<Item = Waiting>) -> usize {
    together_behind(0, all)
}

#[tokio::test]
async fn messages_that_go_the_same_way_share_a_packet_within_its_bounds() {
    let start = now();
    let short = |topic| waiting(topic, 10, None, start);
    assert_eq!(together([]), 0);
    assert_eq!(together([short("a")]), 1);
    assert_eq!(
        together([short("a"), short("a"), short("b"), short("a")]),
        2
    );
    assert_eq!(together((0..300).map(|_| short("a"))), Payloads::MAX_COUNT);
    let long = || waiting("a", 20 << 10, None, start);
    assert_eq!(together([long(), long(), long()]), 2, "48 KiB in all");
    let many = || (0..20).map(|_| long());
    assert_eq!(together_behind(FEW_OPEN - 1, many()), 2);
    assert_eq!(together_behind(FEW_OPEN, many()), 12, "256 KiB in all");
    let longest = || waiting("a", 1 << 20, None, start);
    assert_eq!(
        together([longest(), longest()]),
        1,
        "alone it may be longer"
    );
    let to_some = Waiting {
        to: Some(vec!["node-1".into()]),
        ..short("a")
    };
    assert_eq!(together([short("a"), to_some]), 1);
    let mut numbered = short("a");
    numbered.outgoing.is_ordered = true;
    assert_eq!(together([short("a"), numbered]), 1);
}

#[tokio::test]
async fn messages_share_a_packet_if_their_time_runs_out_together() {
    let start = now();
    let due = |ms, timeout| waiting("a", 1, timeout, start + Duration::from_millis(ms));
    assert_eq!(together([due(0, Some(500)), due(9, Some(500))]), 2);
    assert_eq!(together([due(0, Some(500)), due(11, Some(500))]), 1);
    assert_eq!(together([due(0, Some(50)), due(5, Some(50))]), 2);
    assert_eq!(together([due(0, Some(50)), due(6, Some(50))]), 1);
    assert_eq!(together([due(0, Some(50)), due(0, None)]), 1);
    // The receipt of a packet is due with its oldest message, and no message may get its receipt
    // later than it asked for.
    assert_eq!(together([due(5, Some(50)), due(0, Some(50))]), 1);
    assert_eq!(together([due(0, None), due(500, None)]), 2);
}

fn are_held(all: impl IntoIterator<Item = Waiting>, open: usize) -> bool {
    let mut messages = OpenMessages::default();
    all.into_iter().for_each(|message| messages.push(message));
    let together = messages.together(open);
    messages.holds(together, open)
}

#[tokio::test(start_paused = true)]
async fn behind_many_packets_a_short_message_waits_a_moment_for_others() {
    let start = now();
    let short = || waiting("a", 10, None, start);
    assert!(!are_held([short()], FEW_OPEN - 1), "it costs little");
    assert!(are_held([short(), short()], FEW_OPEN));
    let many = (0..Payloads::MAX_COUNT).map(|_| short());
    assert!(!are_held(many, FEW_OPEN), "the packet is full");
    let quarter = |_| waiting("a", Payloads::MAX_BYTES / 4, None, start);
    assert!(are_held((0..3).map(quarter), FEW_OPEN));
    assert!(!are_held((0..4).map(quarter), FEW_OPEN), "no like it fits");
    let other = waiting("b", 10, None, start);
    assert!(!are_held([short(), other], FEW_OPEN), "no other can join");
    let long = waiting("a", Payloads::MAX_BYTES / 2 + 1, None, start);
    assert!(!are_held([long], FEW_OPEN), "it goes alone");
    let urgent = |ms| waiting("a", 10, Some(ms), start);
    assert!(!are_held([urgent(19)], FEW_OPEN), "it is in a hurry");
    assert!(are_held([urgent(100)], FEW_OPEN));

    let mut messages = OpenMessages::default();
    messages.push(short());
    assert!(messages.holds(1, FEW_OPEN));
    assert_eq!(messages.next_deadline(), Some(start + HOLD));
    tokio::time::advance(HOLD).await;
    assert!(!messages.holds(1, FEW_OPEN), "it has waited long enough");
    let mut messages = OpenMessages {
        is_last: true,
        ..OpenMessages::default()
    };
    messages.push(waiting("a", 10, None, now()));
    assert!(!messages.holds(1, FEW_OPEN), "this node leaves");
}

#[tokio::test(start_paused = true)]
async fn the_next_deadline_is_known_whichever_message_leaves_the_queue() {
    let start = now();
    let mut messages = OpenMessages::default();
    for timeout in [None, Some(30), Some(20), Some(20), Some(10)] {
        messages.push(waiting("a", 1, timeout, start));
    }
    let after = |ms| Some(start + Duration::from_millis(ms));
    assert_eq!(messages.next_deadline(), after(10));
    assert!(messages.remove_overdue().is_empty(), "not yet");
    messages.remove(2);
    assert_eq!(messages.next_deadline(), after(10));
    tokio::time::advance(Duration::from_millis(20)).await;
    // The older message comes first, although its deadline was the later one.
    let overdue = messages.remove_overdue();
    let ends: Vec<_> = overdue.iter().map(Waiting::deadline).collect();
    assert_eq!(ends, [after(20), after(10)]);
    assert_eq!(messages.next_deadline(), after(30));
    assert!(messages.remove_overdue().is_empty());
    messages.remove(1);
    assert_eq!(messages.next_deadline(), None);
    assert_eq!((messages.waiting.len(), messages.waiting_bytes), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_that_ask_for_answers_are_counted_until_they_leave() {
    let mut messages = OpenMessages::default();
    for confirmation in [
        Confirmation::Delivered,
        Confirmation::Relayed,
        Confirmation::Acknowledged,
    ] {
        let mut message = waiting("a", 1, Some(10), now());
        message.outgoing.confirmation = confirmation;
        messages.push(message);
    }
    assert_eq!(messages.asking(), 2);
    messages.remove(0);
    assert_eq!(messages.asking(), 1);
    tokio::time::advance(Duration::from_millis(10)).await;
    assert_eq!(messages.remove_overdue().len(), 2);
    assert_eq!(messages.asking(), 0);
}

#[tokio::test]
async fn waiting_messages_are_bounded_by_number_and_by_bytes() {
    let start = now();
    let mut messages = OpenMessages::default();
    let short = || waiting("a", 1, None, start);
    for _ in 0..MAX_WAITING {
        assert!(messages.has_room_for(&short().outgoing));
        messages.push(short());
    }
    assert!(!messages.has_room_for(&short().outgoing));
    messages.remove(0);
    assert!(messages.has_room_for(&short().outgoing));
    let most = waiting("a", MAX_WAITING_BYTES - messages.waiting_bytes, None, start);
    assert!(messages.has_room_for(&most.outgoing));
    messages.remove(0);
    messages.push(most);
    assert!(messages.has_room_for(&short().outgoing), "one byte is left");
    let two = waiting("a", 2, None, start);
    assert!(!messages.has_room_for(&two.outgoing));
}
