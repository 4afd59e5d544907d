//! The bytes on their way to a peer, and the times for which a relay waits for answers.

use std::time::Duration;

use crate::network::single::{ORIGIN, Single, placed};
use binomesh_overlay::Effect;
use binomesh_routing::packet::{CustodyRefusal, Errand, Message, Packet, Reason, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Input, Publish, PublishError, SlowPeer, Timer};
use bytes::Bytes;

const MIB: usize = 1 << 20;
const OTHER: u32 = ORIGIN + 1;

/// The origin, which is one of two members. No copy is on its way.
fn alone_with_one() -> Single {
    let mut origin = Single::new(ORIGIN);
    placed(1, 2, &mut origin);
    origin.timers.clear();
    origin
}

fn publish(origin: &mut Single, bytes: usize, deadline: Option<Duration>) {
    let publish = Publish {
        topic: Topic::new("test").unwrap(),
        payloads: Bytes::from(vec![7; bytes]).into(),
        destination: Destination::All,
        strategy: Strategy::default(),
        due: deadline.into(),
        confirmation: Default::default(),
        is_ordered: false,
    };
    origin.relay.publish(publish, &mut origin.out).unwrap();
    origin.perform();
}

fn done(packet: &Packet<u32>) -> Message<u32> {
    Message::Done {
        errand: packet.header.errand.clone(),
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    }
}

fn refused(errand: &Errand<u32>, reason: CustodyRefusal) -> Message<u32> {
    Message::Refused {
        errand: errand.clone(),
        reason,
    }
}

/// The wait for each delegation in milliseconds, in the order of the delegations' numbers.
fn waits(origin: &Single) -> Vec<u128> {
    let delegations = origin.timers.iter();
    let delegations = delegations.filter(|(timer, _)| matches!(timer, Timer::Delegation { .. }));
    delegations.map(|(_, wait)| wait.as_millis()).collect()
}

fn sequences(packets: &[(u32, Packet<u32>)]) -> Vec<u64> {
    let of = |(_, packet): &(u32, Packet<u32>)| packet.header.errand.id.sequence;
    packets.iter().map(of).collect()
}

fn seconds_of(bytes: usize) -> Duration {
    let rate = u64::from(Config::default().custody_bytes_per_second);
    Duration::from_micros(bytes as u64 * 1_000_000 / rate)
}

/// Two copies of 1 MiB fill the window. The wait for a copy includes its own time and that of all
/// copies ahead of it. The wait for a held copy includes the time of the copies on their way.
#[test]
fn the_wait_for_custody_includes_the_copies_ahead() {
    let mut origin = alone_with_one();
    let floor = Config::CUSTODY_FLOOR;
    (0..3).for_each(|_| publish(&mut origin, MIB, None));
    assert_eq!(sequences(&origin.packets()), [0, 1]);
    let own = seconds_of(MIB);
    let (one, two) = (floor + own, floor + 2 * own);
    let expected = [one, two, two].map(|wait| wait.as_millis());
    assert_eq!(waits(&origin), expected);
}

/// Only the answer to a copy frees its room. The answer to a shorter copy, a second answer, and
/// an `Unknown` that answers no question free nothing of it.
#[test]
fn a_copy_is_on_its_way_until_it_is_answered_itself() {
    let mut origin = alone_with_one();
    publish(&mut origin, 10, None);
    publish(&mut origin, 2 * MIB - 10, None);
    publish(&mut origin, 600, None);
    let sent = origin.packets();
    assert_eq!(sequences(&sent), [0, 1]);
    let (short, long) = (&sent[0].1, &sent[1].1);
    origin.hear(OTHER, done(short));
    origin.hear(OTHER, done(short));
    assert_eq!(
        sequences(&origin.packets()),
        [],
        "the long one is on its way"
    );
    origin.hear(OTHER, refused(&long.header.errand, CustodyRefusal::Unknown));
    assert_eq!(sequences(&origin.packets()), [], "nobody asked");
    origin.hear(OTHER, done(long));
    assert_eq!(sequences(&origin.packets()), [2]);
}

/// A peer with one copy on its way is not slow. A peer that answers late, or for which copies are
/// held back, is named with the numbers of late and of held copies.
#[test]
fn a_peer_that_answers_late_or_holds_back_copies_is_named_as_slow_until_it_answers() {
    let mut origin = alone_with_one();
    publish(&mut origin, MIB, None);
    assert_eq!(origin.relay.slow_peers(8), []);
    (0..2).for_each(|_| publish(&mut origin, MIB, None));
    let slow = |late, held_back, bytes| SlowPeer {
        peer: OTHER,
        late,
        held_back,
        bytes,
    };
    let sent = origin.packets();
    let mib = MIB as u64;
    assert_eq!(origin.relay.slow_peers(8), [slow(0, 1, 2 * mib)]);
    assert_eq!(origin.relay.slow_peers(0), []);
    let first = *origin.timers.keys().next().unwrap();
    origin.fire(first);
    assert_eq!(origin.relay.slow_peers(8), [slow(1, 1, 2 * mib)]);
    sent.iter()
        .for_each(|(_, packet)| origin.hear(OTHER, done(packet)));
    assert_eq!(origin.relay.slow_peers(8), []);
}

/// A copy of a message whose time is over does not count as on its way.
#[test]
fn a_message_whose_time_is_over_takes_no_room() {
    let mut origin = alone_with_one();
    publish(&mut origin, 2 * MIB, Some(Duration::from_millis(100)));
    publish(&mut origin, MIB, None);
    assert_eq!(sequences(&origin.packets()), [0]);
    origin.fire(Timer::Deadline(0));
    assert_eq!(sequences(&origin.packets()), [1]);
    assert_eq!(origin.receipts.len(), 1);
}

/// A held copy is late if the peer has answered nothing since the last look. Then the peer is
/// asked about this copy. If the peer lacks it, the copy is sent although no room was freed.
#[test]
fn a_held_copy_is_not_held_for_ever() {
    let mut origin = alone_with_one();
    (0..4).for_each(|_| publish(&mut origin, MIB, None));
    let first = origin.packets().remove(0).1;
    origin.hear(OTHER, done(&first));
    assert_eq!(sequences(&origin.packets()), [2]);
    let held = *origin.timers.keys().next_back().unwrap();
    origin.fire(held);
    assert!(origin.sent.is_empty(), "the peer has answered another");
    origin.fire(held);
    let sent = std::mem::take(&mut origin.sent);
    let [(OTHER, Message::Inquire { errand, .. })] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(errand.id.sequence, 3);
    origin.hear(OTHER, refused(errand, CustodyRefusal::Unknown));
    assert_eq!(sequences(&origin.packets()), [3]);
}

/// When the link is writable, the copies without an answer are sent again. The held copies keep
/// their place.
#[test]
fn a_writable_link_draws_no_held_copies() {
    let mut origin = alone_with_one();
    (0..4).for_each(|_| publish(&mut origin, MIB, None));
    assert_eq!(sequences(&origin.packets()), [0, 1]);
    origin.handle(Input::Writable(OTHER));
    assert_eq!(sequences(&origin.packets()), [0, 1]);
    let effects: Vec<Effect<_, _, _, _>> = origin.out.drain().collect();
    assert!(effects.is_empty());
}

/// The answer *no* to a question about a copy may have overtaken the copy. If the link had no
/// room, the copy was not sent, and it is sent as soon as there is room.
#[test]
fn a_peer_without_a_copy_is_sent_one_when_its_link_has_room() {
    let writable = || Input::Writable(OTHER);
    for is_told_first in [true, false] {
        let mut origin = alone_with_one();
        publish(&mut origin, 10, None);
        assert_eq!(sequences(&origin.packets()), [0]);
        let late = |timer: &&Timer| matches!(timer, Timer::Delegation { .. });
        let late = *origin.timers.keys().find(late).unwrap();
        origin.fire(late);
        let asked = std::mem::take(&mut origin.sent);
        let [(OTHER, Message::Inquire { errand, .. })] = &asked[..] else {
            panic!("{asked:?}");
        };
        let no = refused(errand, CustodyRefusal::Unknown);
        if is_told_first {
            origin.hear(OTHER, no);
            assert_eq!(sequences(&origin.packets()), [], "it may be on its way");
            origin.handle(writable());
        } else {
            origin.handle(writable());
            origin.sent.clear();
            origin.hear(OTHER, no);
        }
        assert_eq!(sequences(&origin.packets()), [0]);
        origin.fire(late);
        assert_eq!(origin.sent.len(), 1, "its timer runs");
    }
}

/// A publisher that finds no room because a member is down waits for one second after the
/// verdict. A publisher with room for all its messages waits for five seconds, in which the
/// member may return.
#[test]
fn a_peer_that_is_down_stops_a_publisher_without_room_for_a_second() {
    let Config {
        down_patience,
        down_pressed,
        ..
    } = Config::default();
    let config = Config {
        max_open: 2,
        ..Config::default()
    };
    for is_refused in [true, false] {
        let mut origin = Single::with(ORIGIN, config);
        placed(1, 2, &mut origin);
        origin.timers.clear();
        (0..2).for_each(|_| publish(&mut origin, 10, None));
        if is_refused {
            assert!(!has_room(&mut origin));
        }
        origin.handle(Input::PeerDown(OTHER));
        let patience = |timer: &&Timer| matches!(timer, Timer::Patience(_));
        let timer = *origin.timers.keys().find(patience).unwrap();
        assert_eq!(origin.timers[&timer], down_pressed);
        assert_eq!(origin.receipts, []);
        origin.fire(timer);
        // Half of the room is freed, which is enough.
        assert_eq!(origin.receipts.len(), usize::from(is_refused));
        assert_eq!(origin.timers[&timer], down_patience - down_pressed);
        // A publisher that finds no room now gets room at once.
        (0..2).for_each(|_| assert!(has_room(&mut origin)));
        let whys = origin.receipts.iter().map(|one| one.unreached[0].reason);
        assert!(whys.eq(vec![Reason::Down; origin.receipts.len()]));
        let open = origin.relay.open_packets();
        origin.fire(timer);
        assert!(
            open > 0 && origin.relay.open_packets() == 0,
            "without pressure as before"
        );
    }
}

fn has_room(origin: &mut Single) -> bool {
    let publish = Publish {
        topic: Topic::new("test").unwrap(),
        payloads: Bytes::from_static(b"x").into(),
        destination: Destination::All,
        strategy: Strategy::default(),
        due: None.into(),
        confirmation: Default::default(),
        is_ordered: false,
    };
    let outcome = origin.relay.publish(publish, &mut origin.out);
    origin.perform();
    match outcome {
        Ok(_) => true,
        Err(PublishError::WindowFull(2)) => false,
        Err(other) => panic!("{other}"),
    }
}
