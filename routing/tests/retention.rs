//! Messages that are kept for absent members. A member that returns before the deadline gets
//! them once, in the order in which they were published. No other member waits for them.

use std::time::Duration;

use crate::network::{Conditions, Id, Network, seeds};
use binomesh_routing::packet::{Payloads, Reason};
use binomesh_routing::relay::PublishError;
use binomesh_routing::{Config, Destination, Due};
use bytes::Bytes;
use rand::Rng;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than the patience after a verdict.
const PATIENCE_US: u64 = 6_000_000;

fn kept(time: Duration, awaited: &[u32]) -> Due<u32> {
    let awaited = awaited.to_vec();
    Due::Kept { time, awaited }
}

fn publish(network: &mut Network, origin: u32, due: Due<u32>) -> Result<Id, PublishError<u32>> {
    let payload = Bytes::from_static(b"kept");
    network.publish_all(origin, Destination::All, payload.into(), due)
}

/// Publishes `count` messages, 32 in each packet.
fn publish_many(network: &mut Network, origin: u32, count: u64) {
    let together = Payloads::join(&vec![Bytes::from_static(b"x"); 32]).unwrap();
    for _ in 0..count / 32 {
        let all = Destination::All;
        let together = together.clone();
        network
            .publish_all(origin, all, together, Due::Settled)
            .unwrap();
        network.run_for(50_000);
    }
}

/// An origin, and another member.
fn two_of(network: &mut Network) -> (u32, u32) {
    let n = network.members.len();
    let origin = network.rng.random_range(0..n);
    let other = (origin + network.rng.random_range(1..n)) % n;
    (network.members[origin], network.members[other])
}

fn without(network: &Network, gone: u32) -> Vec<u32> {
    let members = network.members.iter().copied();
    members.filter(|id| *id != gone).collect()
}

/// The messages of `ids` that this boot of a node has delivered, in order.
fn order_of(network: &Network, at: (u32, u64), ids: &[Id]) -> Vec<Id> {
    let delivered = network.order.get(&at).into_iter().flatten();
    delivered.filter(|id| ids.contains(id)).copied().collect()
}

/// The member returns within the grace: its rank was vacant until then.
#[test]
fn a_member_that_returns_to_its_rank_gets_kept_messages_in_order_and_once() {
    for seed in seeds(60) {
        let lossy = Conditions {
            loss: (seed % 3) as f64 * 0.05,
            ..Conditions::default()
        };
        let mut network = Network::new(16, seed, lossy, Config::default());
        let (origin, victim) = two_of(&mut network);
        network.crash(victim);
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(publish(&mut network, origin, kept(MINUTE, &[])).unwrap());
            let pause = network.rng.random_range(0..3_000_000);
            network.run_for(pause);
        }
        network.run_for(seed % 2 * PATIENCE_US);
        assert!(network.receipts.is_empty(), "seed {seed}: it is awaited");
        network.come_back(victim, 2);
        network.run_until_receipts(20_000_000);
        network.assert_sound();
        assert_eq!(order_of(&network, (victim, 2), &ids), ids, "seed {seed}");
        for id in &ids {
            let receipt = &network.receipts[id][0];
            assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
        }
    }
}

/// The member returns after the grace: an epoch leaves it out, and a later epoch has it again.
#[test]
fn a_member_that_rejoins_in_a_later_epoch_gets_kept_messages_in_order_and_once() {
    for seed in seeds(60) {
        let mut network = Network::new(16, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        let mut ids = Vec::new();
        ids.push(publish(&mut network, origin, kept(MINUTE, &[])).unwrap());
        network.crash(victim);
        ids.push(publish(&mut network, origin, kept(MINUTE, &[])).unwrap());
        network.run_for(seed % 3 * 3_000_000);
        let others = without(&network, victim);
        network.place(&others);
        network.run_for(2_000_000);
        ids.push(publish(&mut network, origin, kept(MINUTE, &[victim])).unwrap());
        network.run_for(2_000_000);
        let had_first = network.deliveries.contains_key(&(victim, 1, ids[0]));
        let mut members = without(&network, victim);
        let at = network.rng.random_range(0..members.len());
        members.insert(at, victim);
        network.start(victim, 2);
        network.place(&members);
        network.run_until_receipts(20_000_000);
        network.assert_sound();
        let missed = if had_first { &ids[1..] } else { &ids[..] };
        let order = order_of(&network, (victim, 2), missed);
        assert_eq!(order, missed, "seed {seed}");
        for id in &ids {
            let receipt = &network.receipts[id][0];
            assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
            assert!(receipt.reached_peers.contains(&victim), "seed {seed}");
        }
    }
}

/// A member that was cut off and already has the message does not get it again, however far the
/// origin's mark has moved meanwhile.
#[test]
fn a_member_that_could_not_confirm_a_kept_message_does_not_get_it_twice() {
    for seed in seeds(20) {
        let mut network = Network::new(8, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        let others = without(&network, victim);
        for other in &others {
            network.cuts.insert((victim, *other));
        }
        let id = publish(&mut network, origin, kept(MINUTE, &[])).unwrap();
        network.run_for(1_000_000);
        assert_eq!(network.deliveries[&(victim, 1, id)], 1, "seed {seed}");
        network.place(&others);
        network.run_for(PATIENCE_US);
        let window = network.config.window;
        publish_many(&mut network, origin, window + 32);
        network.cuts.clear();
        let mut members = others;
        members.push(victim);
        network.place(&members);
        network.run_until_receipts(20_000_000);
        network.assert_sound();
        assert_eq!(network.deliveries[&(victim, 1, id)], 1, "seed {seed}");
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
    }
}

/// After the patience messages are kept. From then on they fill neither the room for open packets
/// nor the windows of the receivers, so the origin goes on. A member that returns gets all kept
/// messages, however far the origin has gone on.
#[test]
fn kept_messages_stop_no_publisher() {
    let mut network = Network::new(24, 3, Conditions::default(), Config::default());
    let (origin, victim) = two_of(&mut network);
    network.crash(victim);
    let many = network.config.max_open;
    let mut ids = Vec::new();
    for _ in 0..many {
        ids.push(publish(&mut network, origin, kept(10 * MINUTE, &[])).unwrap());
    }
    assert!(matches!(
        network.publish(origin, 1),
        Err(PublishError::WindowFull(_))
    ));
    network.run_for(PATIENCE_US);
    assert_eq!(network.stats(origin).kept_messages, many);
    let windows = 2 * network.config.window;
    publish_many(&mut network, origin, windows);
    let others = without(&network, victim);
    network.place(&others);
    network.run_for(2_000_000);
    network.assert_sound();
    let receipts = network.receipts.len() as u64;
    assert_eq!(receipts, windows / 32);
    // The member returns at a rank that is not beside the origin, and hears of the origin's
    // mark first.
    let mut members = others;
    let at = members.iter().position(|id| *id == origin).unwrap();
    members.insert((at + 11) % 23, victim);
    network.start(victim, 2);
    network.place(&members);
    for _ in 0..100 {
        network.publish(origin, 1).unwrap();
        network.run_for(20_000);
    }
    network.run_until_receipts(20_000_000);
    network.assert_sound();
    assert_eq!(order_of(&network, (victim, 2), &ids), ids);
}

/// The member is the same process as before. It hears of the origin's mark first, from the
/// origin itself.
#[test]
fn a_member_that_was_cut_off_gets_kept_messages() {
    for seed in seeds(20) {
        let mut network = Network::new(16, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        network.publish(origin, 1).unwrap();
        network.run_for(1_000_000);
        let others = without(&network, victim);
        for other in &others {
            network.cuts.extend([(victim, *other), (*other, victim)]);
        }
        let id = publish(&mut network, origin, kept(MINUTE, &[])).unwrap();
        network.place(&others);
        network.run_for(PATIENCE_US);
        network.publish(origin, 1).unwrap();
        network.run_for(1_000_000);
        network.cuts.clear();
        let mut members = others;
        let at = members.iter().position(|id| *id == origin).unwrap();
        members.insert(at + 1, victim);
        network.place(&members);
        network.run_for(50_000);
        let later = network.publish(origin, 1).unwrap();
        network.run_until_receipts(20_000_000);
        network.assert_sound();
        let order = order_of(&network, (victim, 1), &[id, later]);
        assert_eq!(order, [later, id], "seed {seed}");
    }
}

#[test]
fn past_the_deadline_the_receipt_says_so_and_nothing_is_delivered_any_more() {
    for seed in seeds(20) {
        let mut network = Network::new(8, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        network.crash(victim);
        let short = Duration::from_secs(10 * (seed % 2) + 1);
        let id = publish(&mut network, origin, kept(short, &[])).unwrap();
        network.run_for(short.as_micros() as u64 + 1);
        let line = network.receipts[&id][0].unreached[0];
        assert_eq!(line.reason, Reason::Deadline, "seed {seed}");
        assert_eq!(line.peer, Some(victim));
        network.come_back(victim, 2);
        network.run_for(10_000_000);
        assert_eq!(network.delivered(id, victim), 0, "seed {seed}");
    }
}

/// A message to named peers can await a peer that is no member, and so can a broadcast.
#[test]
fn a_peer_that_is_no_member_can_be_awaited() {
    for seed in seeds(20) {
        let mut network = Network::new(8, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        network.crash(victim);
        let others = without(&network, victim);
        network.place(&others);
        network.run_for(3_000_000);
        let to = Destination::Peers(vec![victim]);
        let refused = network.publish_to(origin, to.clone(), 1, None);
        assert_eq!(refused, Err(PublishError::UnknownPeer(victim)));
        let payload = Bytes::from_static(b"kept");
        let due = kept(MINUTE, &[]);
        let id = network
            .publish_all(origin, to, payload.into(), due)
            .unwrap();
        let forever = publish(&mut network, origin, kept(MINUTE / 2, &[victim, 4711])).unwrap();
        network.run_for(PATIENCE_US);
        let mut members = others;
        members.insert(0, victim);
        network.start(victim, 2);
        network.place(&members);
        network.run_for(5_000_000);
        assert_eq!(
            order_of(&network, (victim, 2), &[id, forever]),
            [id, forever]
        );
        let receipt = &network.receipts[&id][0];
        assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
        assert_eq!((receipt.expected_count, receipt.reached_count), (1, 1));
        network.run_until_receipts(30_000_000);
        let receipt = &network.receipts[&forever][0];
        let [line] = receipt.unreached[..] else {
            panic!("seed {seed}: {receipt:?}");
        };
        assert_eq!((line.rank, line.peer), (None, Some(4711)));
        assert_eq!(line.reason, Reason::Deadline);
    }
}

#[test]
fn one_kept_message_too_many_is_refused_by_number_and_by_bytes() {
    let config = Config {
        max_kept: 2,
        // Their signatures of 32 bytes count as well.
        max_kept_bytes: 74,
        ..Config::default()
    };
    let mut network = Network::new(4, 1, Conditions::default(), config);
    let (origin, victim) = two_of(&mut network);
    network.crash(victim);
    let send = |network: &mut Network, bytes: usize| {
        let payload = Bytes::from(vec![0; bytes]);
        let due = kept(MINUTE, &[]);
        network.publish_all(origin, Destination::All, payload.into(), due)
    };
    assert_eq!(send(&mut network, 43), Err(PublishError::KeptFull(0)));
    assert!(send(&mut network, 9).is_ok());
    assert_eq!(send(&mut network, 2), Err(PublishError::KeptFull(1)));
    assert!(send(&mut network, 1).is_ok());
    assert_eq!(send(&mut network, 0), Err(PublishError::KeptFull(2)));
    assert_eq!(network.stats(origin).kept_full, 3);
    assert!(
        network.publish(origin, 100).is_ok(),
        "others are not refused"
    );
    let many = vec![0; network.config.roster_max as usize + 1];
    let refused = publish(&mut network, origin, kept(MINUTE, &many));
    assert!(matches!(refused, Err(PublishError::TooManyAwaited(..))));
}

/// Many messages are kept for many members. A member that returns gets one message after the
/// other, with hardly more than one attempt for each.
#[test]
fn each_kept_message_costs_a_returning_member_one_try() {
    let mut network = Network::new(24, 9, Conditions::default(), Config::default());
    let origin = network.members[0];
    let away: Vec<u32> = network.members[10..20].to_vec();
    away.iter().for_each(|id| network.crash(*id));
    let mut ids = Vec::new();
    for _ in 0..network.config.max_kept {
        while let Err(full) =
            publish(&mut network, origin, kept(10 * MINUTE, &[])).map(|id| ids.push(id))
        {
            assert!(matches!(full, PublishError::WindowFull(_)));
            network.run_for(1_000_000);
        }
    }
    network.run_for(PATIENCE_US);
    let before = network.stats(origin).reissues;
    network.come_back(away[0], 2);
    network.run_for(10_000_000);
    assert_eq!(order_of(&network, (away[0], 2), &ids), ids);
    let tries = network.stats(origin).reissues - before;
    assert!(tries <= ids.len() as u64 + 8, "{tries} tries");
}

/// Before a broadcast is issued, the origin does not know which awaited peers are members.
#[test]
fn an_awaited_member_has_one_line_though_its_rank_is_unknown_at_the_deadline() {
    let mut network = Network::unplaced(16, 3, Conditions::default(), Config::default());
    let members = network.members.clone();
    network.place(&members);
    network.run_for(20_000);
    let due = kept(Duration::from_micros(1), &members);
    let id = publish(&mut network, members[0], due).unwrap();
    network.run_for(10);
    let receipt = &network.receipts[&id][0];
    let known = network.relay(members[0]).roster().unwrap().known_count();
    assert!(known < 16, "the roster is complete: nothing is shown");
    let named: Vec<u32> = receipt
        .unreached
        .iter()
        .filter_map(|line| line.peer)
        .collect();
    let once: std::collections::BTreeSet<u32> = named.iter().copied().collect();
    assert_eq!(named.len(), once.len(), "{receipt:?}");
    let ranked = receipt.unreached.iter().filter(|line| line.rank.is_some());
    assert_eq!(ranked.count(), 15);
}

/// An origin that leaves cannot wait for absent members, whenever they went away.
#[test]
fn a_leaving_origin_keeps_nothing_from_then_on() {
    for seed in seeds(20) {
        let mut network = Network::new(8, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        let id = publish(&mut network, origin, kept(60 * MINUTE, &[])).unwrap();
        network.crash(victim);
        network.run_for(seed % 4 * 100_000);
        network.withdraw(origin);
        network.run_for(PATIENCE_US + 2_000_000);
        assert!(network.drained.contains(&origin), "seed {seed}");
        let receipt = &network.receipts[&id][0];
        let reasons = receipt.unreached.iter().map(|line| line.reason);
        assert!(
            reasons.into_iter().all(|reason| reason == Reason::Down),
            "seed {seed}"
        );
    }
}

/// An origin that leaves cannot wait for the return of absent members.
#[test]
fn a_leaving_origin_gives_up_what_it_keeps() {
    let mut network = Network::new(8, 5, Conditions::default(), Config::default());
    let (origin, victim) = two_of(&mut network);
    network.crash(victim);
    let id = publish(&mut network, origin, kept(MINUTE, &[4711])).unwrap();
    network.run_for(PATIENCE_US);
    network.withdraw(origin);
    assert!(network.drained.contains(&origin));
    let reasons = network.receipts[&id][0].unreached.iter();
    let reasons: Vec<_> = reasons.map(|line| (line.peer, line.reason)).collect();
    let expected = [(Some(4711), Reason::Down), (Some(victim), Reason::Down)];
    assert_eq!(reasons, expected);
}

/// A member that had left when the message was accepted has a line, since the message was to be
/// kept for it.
#[test]
fn a_member_that_had_left_has_a_line_though_a_leaving_origin_keeps_nothing() {
    for seed in seeds(20) {
        let mut network = Network::new(8, seed, Conditions::default(), Config::default());
        let (origin, victim) = two_of(&mut network);
        network.leave(victim);
        network.run_for(1_000_000);
        let id = publish(&mut network, origin, kept(60 * MINUTE, &[])).unwrap();
        network.run_for(seed % 4 * 1_000);
        network.withdraw(origin);
        network.run_for(PATIENCE_US + 2_000_000);
        let lines = network.receipts[&id][0].unreached.iter();
        let lines: Vec<_> = lines.map(|line| (line.peer, line.reason)).collect();
        assert_eq!(lines, [(Some(victim), Reason::Left)], "seed {seed}");
    }
}
