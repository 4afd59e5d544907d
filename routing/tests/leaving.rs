//! Members that leave. A refusal belongs to the life that gave it, and a goodbye ends each wait
//! for the member that has left.

use std::time::Duration;

use crate::network::single::{ORIGIN, Single, view};
use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::packet::{CustodyRefusal, Message, Payloads, Reason, State};
use binomesh_routing::relay::PublishError;
use binomesh_routing::{Config, Destination, Due, Input, Timer};
use bytes::Bytes;
use rand::Rng;

const SECOND: u64 = 1_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// An origin and another member, drawn at random.
fn two_of(network: &mut Network) -> (u32, u32) {
    let n = network.members.len();
    let origin = network.rng.random_range(0..n);
    let other = (origin + network.rng.random_range(1..n)) % n;
    (network.members[origin], network.members[other])
}

fn broadcast(network: &mut Network, origin: u32, due: Due<u32>) -> Result<Id, PublishError<u32>> {
    let payload = Bytes::from_static(b"while one leaves");
    network.publish_all(origin, Destination::All, payload.into(), due)
}

fn kept() -> Due<u32> {
    let (time, awaited) = (MINUTE, Vec::new());
    Due::Kept { time, awaited }
}

fn calm(n: u32, seed: u64) -> Network {
    Network::new(n, seed, Conditions::default(), Config::default())
}

/// The next life of a draining member is sent the message that the former life refused.
#[test]
fn a_message_that_a_draining_life_refused_reaches_the_next_life() {
    for (n, due) in [2, 3, 5, 16]
        .into_iter()
        .flat_map(|n| [(n, Due::Settled), (n, kept())])
    {
        for seed in seeds(50) {
            let mut network = calm(n, seed);
            let (origin, leaving) = two_of(&mut network);
            network.withdraw(leaving);
            let id = broadcast(&mut network, origin, due.clone()).unwrap();
            let drains = network.rng.random_range(0..4 * SECOND);
            network.run_for(drains);
            assert!(network.receipts.is_empty(), "seed {seed}: no last word yet");
            network.come_back(leaving, 2);
            network.run_until_receipts(20 * SECOND);
            network.assert_sound();
            assert!(network.receipts[&id][0].is_complete(), "{n}, seed {seed}");
            assert_eq!(network.delivered(id, leaving), 1, "{n}, seed {seed}");
        }
    }
}

/// Without a goodbye, a verdict or a next life, the patience of the origin ends the wait. The
/// line of the receipt does not say *refused*.
#[test]
fn a_member_that_drains_for_long_is_unconfirmed() {
    for seed in seeds(50) {
        let mut network = calm(16, seed);
        let (origin, leaving) = two_of(&mut network);
        network.withdraw(leaving);
        let id = network.publish(origin, 10).unwrap();
        network.run_until_receipts(10 * SECOND);
        let receipt = &network.receipts[&id][0];
        assert_eq!(receipt.reached_count, 14, "seed {seed}");
        let line = receipt.unreached[0];
        assert_eq!(line.peer, Some(leaving), "seed {seed}");
        let said = (line.state, line.reason);
        assert_eq!(said, (State::Unconfirmed, Reason::Draining), "seed {seed}");
        network.assert_sound();
        // Later messages do not wait for the draining member.
        let before = network.now_us;
        network.publish(origin, 10).unwrap();
        network.run_until_receipts(10 * SECOND);
        assert!(network.now_us - before < SECOND, "seed {seed}");
    }
}

/// Neither of the two draining members waits for the end of the other.
#[test]
fn two_members_that_leave_at_once_do_not_wait_for_each_other() {
    for seed in seeds(50) {
        let mut network = calm(8, seed);
        let (one, other) = two_of(&mut network);
        let ids = [one, other].map(|origin| {
            network.lose(origin, other);
            network.publish(origin, 10).unwrap()
        });
        network.withdraw(one);
        network.withdraw(other);
        let before = network.now_us;
        network.run_until_receipts(10 * SECOND);
        assert!(network.now_us - before < 2 * SECOND, "seed {seed}");
        assert_eq!(network.drained.len(), 2, "seed {seed}");
        assert_eq!(network.receipts.len(), ids.len());
        network.assert_sound();
    }
}

/// The next life of a member may take a message that was too large for the former life. A kept
/// message waits for that life until its deadline. For any other message, the line ends with
/// the answer of the former life.
#[test]
fn too_large_ends_a_line_unless_the_message_is_kept() {
    for (due, seed) in [Due::Settled, kept()]
        .into_iter()
        .flat_map(|due| seeds(50).map(move |seed| (due.clone(), seed)))
    {
        let mut network = calm(8, seed);
        let (origin, small) = two_of(&mut network);
        network.config.payload_max = 100;
        network.come_back(small, 2);
        network.config = Config::default();
        network.run_for(SECOND);
        let payloads = Payloads::from(Bytes::from(vec![1; 1000]));
        let id = network
            .publish_all(origin, Destination::All, payloads, due.clone())
            .unwrap();
        network.run_for(10 * SECOND);
        if due == Due::Settled {
            let line = network.receipts[&id][0].unreached[0];
            assert_eq!(
                (line.peer, line.state),
                (Some(small), State::Refused),
                "seed {seed}"
            );
            assert_eq!(line.reason, Reason::TooLarge, "seed {seed}");
        } else {
            assert!(network.receipts.is_empty(), "seed {seed}");
            assert_eq!(
                network.relay(origin).open_packets(),
                0,
                "seed {seed}: it is kept"
            );
        }
        network.come_back(small, 3);
        network.run_until_receipts(20 * SECOND);
        network.assert_sound();
        let is_kept = due != Due::Settled;
        assert_eq!(
            network.delivered(id, small),
            u32::from(is_kept),
            "seed {seed}"
        );
    }
}

/// A member without room for the window of one more origin says so. The receipt comes, though
/// the message has no deadline.
#[test]
fn a_member_that_is_full_of_other_origins_ends_its_line() {
    for seed in seeds(20) {
        let mut network = calm(8, seed);
        let (origin, full) = two_of(&mut network);
        network.config.max_origins = 1;
        network.come_back(full, 2);
        network.config = Config::default();
        network.run_for(SECOND);
        let others = network.members.clone();
        let other = others
            .iter()
            .find(|id| ![origin, full].contains(*id))
            .unwrap();
        network.publish(*other, 10).unwrap();
        network.run_until_receipts(SECOND);
        let id = network.publish(origin, 10).unwrap();
        network.run_until_receipts(30 * SECOND);
        let line = network.receipts[&id][0].unreached[0];
        let said = (line.peer, line.state, line.reason);
        assert_eq!(
            said,
            (Some(full), State::Refused, Reason::Full),
            "seed {seed}"
        );
        assert!(
            network.stats(full).refused[CustodyRefusal::Full as usize] > 0,
            "seed {seed}"
        );
        network.assert_sound();
    }
}

/// A message waits for a member, in its first round or between two rounds. The goodbye of the
/// member ends the wait. A message that is accepted later does not expect the member.
#[test]
fn a_goodbye_ends_what_waits_and_excuses_what_comes() {
    for (n, seed) in [2, 3, 5, 16, 40]
        .into_iter()
        .flat_map(|n| seeds(100).map(move |seed| (n, seed)))
    {
        let mut network = calm(n, seed);
        let (origin, leaving) = two_of(&mut network);
        if seed % 2 == 0 {
            network.withdraw(leaving);
        } else {
            network.pause(leaving, SECOND);
        }
        let before = network.publish(origin, 10).unwrap();
        let pause = network.rng.random_range(0..SECOND);
        network.run_for(pause);
        network.leave(leaving);
        let start = network.now_us;
        network.run_until_receipts(10 * SECOND);
        assert!(network.now_us - start < SECOND, "{n}, seed {seed}");
        let line = network.receipts[&before][0].unreached[0];
        let said = (line.peer, line.state, line.reason);
        let expected = (Some(leaving), State::Unconfirmed, Reason::Left);
        assert_eq!(said, expected, "{n}, seed {seed}");
        network.run_for(SECOND);
        let start = network.now_us;
        let ids: Vec<Id> = (0..3)
            .map(|_| network.publish(origin, 10).unwrap())
            .collect();
        network.run_until_receipts(10 * SECOND);
        assert!(network.now_us - start < SECOND, "{n}, seed {seed}");
        for id in ids {
            let receipt = &network.receipts[&id][0];
            assert!(receipt.is_complete(), "{n}, seed {seed}: {receipt:?}");
            assert_eq!(receipt.expected_count, n - 2, "{n}, seed {seed}");
        }
        let named = Destination::Peers(vec![leaving]);
        let error = network.publish_to(origin, named, 10, None);
        assert_eq!(error, Err(PublishError::HasLeft(leaving)));
        network.assert_sound();
    }
}

/// A member has left and returned. An origin expects the member again once it has heard of the
/// return. Messages that were kept for the member go to its next life.
#[test]
fn a_member_that_left_and_returned_is_expected_again() {
    for seed in seeds(100) {
        let mut network = calm(16, seed);
        let (origin, leaving) = two_of(&mut network);
        network.leave(leaving);
        network.run_for(SECOND);
        let for_it = broadcast(&mut network, origin, kept()).unwrap();
        network.run_for(seed % 3 * SECOND);
        let not_for_it = network.publish(origin, 10).unwrap();
        network.come_back(leaving, 2);
        network.run_for(SECOND);
        let for_all = network.publish(origin, 10).unwrap();
        network.run_until_receipts(20 * SECOND);
        for id in [for_it, for_all] {
            assert_eq!(network.receipts[&id][0].reached_count, 15, "seed {seed}");
            assert_eq!(network.delivered(id, leaving), 1, "seed {seed}");
        }
        assert_eq!(
            network.receipts[&not_for_it][0].expected_count, 14,
            "seed {seed}"
        );
        network.assert_sound();
    }
}

/// A message of the life that left may come after its goodbye. It is no contact with the
/// member.
#[test]
fn late_messages_of_a_life_that_left_do_not_bring_its_member_back() {
    let mut network = calm(8, 1);
    let (origin, leaving) = two_of(&mut network);
    // The answers to this message are on their way when the goodbye comes.
    network.conditions.verdict_us = 0;
    network.publish(origin, 10).unwrap();
    network.input_after(origin, 0, Input::PeerLeft(leaving));
    network.run_for(SECOND);
    assert!(network.relay(origin).is_absent(leaving));
}

/// A relay remembers at most `max_peers` leaving members. A further member that says goodbye is
/// called down, and is waited for no longer than a dead member.
#[test]
fn a_goodbye_without_room_has_the_patience_of_a_verdict() {
    let config = Config {
        max_peers: 1,
        ..Config::default()
    };
    let mut origin = Single::with(ORIGIN, config);
    origin.handle(Input::View(view(1, 4, 0, |rank| ORIGIN + rank.0)));
    origin.publish(Destination::All);
    let (to, packet) = origin.packets().swap_remove(0);
    let (errand, reason) = (packet.header.errand, CustodyRefusal::Draining);
    origin.hear(to, Message::Refused { errand, reason });
    let is_patience = |timer: &Timer| matches!(timer, Timer::Patience(_));
    assert!(!origin.timers.keys().any(is_patience));
    let other = (ORIGIN + 1..ORIGIN + 4).find(|peer| *peer != to);
    origin.handle(Input::PeerLeft(other.unwrap()));
    assert!(origin.timers.keys().any(is_patience));
}

/// Above `roster_max`, the tables of a new epoch do not tell which members have left.
#[test]
fn a_goodbye_outlives_the_epoch_also_without_rosters() {
    let config = Config {
        roster_max: 4,
        ..Config::default()
    };
    let mut origin = Single::with(ORIGIN, config);
    origin.handle(Input::View(view(1, 8, 0, |rank| ORIGIN + rank.0)));
    origin.handle(Input::PeerLeft(ORIGIN + 1));
    assert!(origin.relay.is_absent(ORIGIN + 1));
    origin.handle(Input::View(view(2, 8, 0, |rank| ORIGIN + rank.0)));
    assert!(origin.relay.is_absent(ORIGIN + 1));
}
