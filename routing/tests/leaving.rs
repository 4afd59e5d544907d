//! Members that leave: a refusal belongs to the life that gave it, and a goodbye ends
//! what waits for the one that has left.

mod network;

use std::time::Duration;

use binomesh_routing::packet::{Payloads, Reason, Refusal, State};
use binomesh_routing::relay::PublishError;
use binomesh_routing::{Config, Destination, Due};
use bytes::Bytes;
use network::{Conditions, Id, Network, seeds};
use rand::Rng;

const SECOND: u64 = 1_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// An origin, and another member that leaves.
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

const fn kept() -> Due<u32> {
    let (time, awaited) = (MINUTE, Vec::new());
    Due::Kept { time, awaited }
}

fn calm(n: u32, seed: u64) -> Network {
    Network::new(n, seed, Conditions::default(), Config::default())
}

/// The next life of a member that drains is sent what the former one refused.
#[test]
fn what_a_draining_life_refused_reaches_the_next_one() {
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

/// Without a goodbye, a verdict or a next life the patience ends it, and the line does not
/// say *refused*.
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
        // What comes later waits no longer for it.
        let before = network.now_us;
        network.publish(origin, 10).unwrap();
        network.run_until_receipts(10 * SECOND);
        assert!(network.now_us - before < SECOND, "seed {seed}");
    }
}

/// Nobody waits for the other to end.
#[test]
fn two_that_leave_at_once_do_not_wait_for_each_other() {
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

/// What a life finds too large the next one may take: until its deadline such a message is
/// kept for it, and otherwise the line ends with that life's word.
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

/// Without room for one more origin's window a member says so, and a receipt without a
/// deadline comes.
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
            network.stats(full).refused[Refusal::Full as usize] > 0,
            "seed {seed}"
        );
        network.assert_sound();
    }
}
