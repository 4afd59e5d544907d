//! Every message ends, and costs a bounded number of packets. The chaos run found these cases.

use std::time::Duration;

use crate::network::{Conditions, Network, seeds};
use binomesh_overlay::{Population, Rank};
use binomesh_routing::packet::Reason;
use binomesh_routing::{Config, Destination, Input};

/// All nodes take all neighbours of one member for dead. The search for a route to that member
/// must not try every path of the graph.
#[test]
fn a_rank_behind_dead_neighbours_costs_few_packets() {
    let n = Population::new(64).unwrap();
    let mut network = Network::new(64, 3, Conditions::default(), Config::default());
    let target = Rank(13);
    for level in 0..n.levels() {
        for rank in [target.ahead(1 << level, n), target.behind(1 << level, n)] {
            let neighbour = network.members[rank.0 as usize];
            for node in network.members.clone() {
                network.input_after(node, 0, Input::PeerDown(neighbour));
            }
        }
    }
    network.run_for(10);
    let before = network.packets;
    let origin = network.members[target.ahead(3, n).0 as usize];
    let to = Destination::Peers(vec![network.members[target.0 as usize]]);
    let limit = Some(Duration::from_secs(20));
    network.publish_to(origin, to, 16, limit).unwrap();
    for _ in 0..21_000 {
        network.run_for(1_000);
        let spent = network.packets - before;
        assert!(spent < 4_000, "{spent} packets at {} us", network.now_us);
    }
    assert_eq!(network.receipts.len(), 1);
}

/// All neighbours of one member are dead, and a broadcast searches for a route to that member
/// while custody is often late. A slow step of the search goes on after it was replaced, so each
/// replacement adds a search of its own. The number of packets must stay bounded nevertheless.
#[test]
fn slow_steps_do_not_multiply_a_search() {
    let n = Population::new(64).unwrap();
    let conditions = Conditions {
        latency_us: 1_000..80_000,
        ..Conditions::default()
    };
    let config = Config {
        roster_max: 8,
        ..Config::default()
    };
    let mut network = Network::new(64, 3, conditions, config);
    let target = Rank(13);
    for level in 0..n.levels() {
        for rank in [target.ahead(1 << level, n), target.behind(1 << level, n)] {
            network.crash(network.members[rank.0 as usize]);
        }
    }
    network.run_for(1_000_000);
    let before = network.packets;
    let origin = network.members[target.ahead(3, n).0 as usize];
    let limit = Some(Duration::from_secs(10));
    network
        .publish_to(origin, Destination::All, 16, limit)
        .unwrap();
    network.run_for(11_000_000);
    let spent = network.packets - before;
    assert!(spent < 10_000, "{spent} packets");
    assert_eq!(network.receipts.len(), 1);
}

/// Search steps of many messages fill all nodes, so no node has room for a further step. If each
/// step waited for room at another node, none would end. So some node must answer that there is
/// no route at present.
#[test]
fn steps_that_wait_for_each_others_room_come_to_an_end() {
    for seed in seeds(50) {
        let config = Config {
            max_duties: 2,
            roster_max: 8,
            ..Config::default()
        };
        let mut network = Network::new(20, seed, Conditions::default(), config);
        for rank in [3, 7, 8, 14, 17] {
            network.crash(network.members[rank]);
        }
        network.run_for(1_000_000);
        for origin in network.members.clone() {
            for _ in 0..4 {
                if network.is_alive(origin) {
                    network.publish(origin, 10).unwrap();
                }
            }
        }
        network.run_until_receipts(120_000_000);
        network.assert_sound();
    }
}

/// The origin takes a member for dead. The next epoch still lists the member, and the member sends
/// nothing to the origin first. The origin tries it nevertheless.
#[test]
fn a_new_epoch_makes_a_verdict_doubtful() {
    let mut network = Network::new(20, 5, Conditions::default(), Config::default());
    let members = network.members.clone();
    // The distance of 6 is no power of two, so the two members are no fingers of each other.
    let (origin, condemned) = (members[0], members[6]);
    network.input_after(origin, 0, Input::PeerDown(condemned));
    network.run_for(1_000);
    let to = Destination::Peers(vec![condemned]);
    let id = network.publish_to(origin, to, 16, None).unwrap();
    network.run_for(1_000_000);
    assert!(
        !network.receipts.contains_key(&id),
        "nothing is known of it"
    );
    network.place(&members);
    network.run_until_receipts(20_000_000);
    network.assert_sound();
    assert!(network.receipts[&id][0].is_complete());
}

/// Two thirds of the members die, among them nodes that would tell the origin the rest of the old
/// roster. So in some worlds the origin never learns the names of some members. The receipt comes
/// nevertheless, and says so (reason `epoch`).
#[test]
fn members_whose_names_nobody_tells_are_given_up() {
    let conditions = Conditions {
        verdict_us: 100,
        ..Conditions::default()
    };
    let mut given_up = 0;
    for seed in 0..20 {
        // The origin does not wait for the names of all members.
        let config = Config {
            roster_wait: Duration::from_micros(1),
            ..Config::default()
        };
        let mut network = Network::unplaced(24, seed, conditions.clone(), config);
        let members = network.members.clone();
        network.place(&members);
        while network.relay(members[0]).placement().is_none() {
            network.run_for(100);
        }
        let id = network.publish(members[0], 16).unwrap();
        network.run_for(1);
        for dead in members.iter().enumerate().filter(|(rank, _)| rank % 3 > 0) {
            network.crash(*dead.1);
        }
        let survivors: Vec<u32> = members.iter().copied().step_by(3).collect();
        network.place(&survivors);
        network.run_until_receipts(60_000_000);
        let lines = &network.receipts[&id][0].unreached;
        let nameless = |reason| reason == Reason::Epoch;
        given_up += lines.iter().filter(|line| nameless(line.reason)).count();
    }
    assert!(given_up > 0, "no world had a nameless member");
}

/// The origin cannot reach a member directly, and all hops to it are full. The origin must not
/// ask a full hop again at once, for ever.
#[test]
fn a_full_hop_is_not_asked_again_at_once() {
    let config = Config {
        max_duties: 0,
        ..Config::default()
    };
    let mut network = Network::new(16, 5, Conditions::default(), config);
    let (origin, far) = (network.members[0], network.members[1]);
    network.cuts.extend([(origin, far), (far, origin)]);
    let limit = Some(Duration::from_secs(20));
    for _ in 0..4 {
        let to = Destination::Peers(vec![far]);
        network.publish_to(origin, to, 16, limit).unwrap();
    }
    network.run_for(1_700_000);
    let before = network.packets;
    network.run_for(3_000_000);
    let spent = network.packets - before;
    assert!(spent < 1_000, "{spent} packets in three seconds");
}

/// Three of four members never existed: a liar has invented them. All real nodes search for them,
/// and a budget, which is mostly a share of the other sends, bounds the searches.
#[test]
fn invented_members_cost_little() {
    let spent = |config: Config| {
        let mut network = Network::unplaced(48, 7, Conditions::default(), config);
        let members = network.members.clone();
        let (real, unreal) = members.split_at(12);
        network.place_without(&members, unreal);
        network.run_for(4_000_000);
        for origin in real.iter().copied() {
            for _ in 0..2 {
                let limit = Some(Duration::from_secs(6));
                network
                    .publish_to(origin, Destination::All, 16, limit)
                    .unwrap();
            }
        }
        network.run_for(8_000_000);
        let over: u64 = real.iter().map(|id| network.stats(*id).over_search).sum();
        (network.packets, over)
    };
    let (bounded, over) = spent(Config::default());
    let (endless, _) = spent(Config {
        search_percent: 100,
        search_burst: 10_000,
        ..Config::default()
    });
    assert!(
        over > 0 && 2 * bounded < endless,
        "{bounded} of {endless}, {over}"
    );
}

/// To a cluster of seven nodes a liar has added a hundred invented members, and all nodes
/// broadcast without a deadline. A search takes about ten steps. If these steps earned further
/// searches, as other sends do, the nodes would keep each other busy.
#[test]
fn the_steps_of_a_search_earn_no_further_search() {
    let mut network = Network::unplaced(107, 7, Conditions::default(), Config::default());
    let members = network.members.clone();
    let (real, unreal) = members.split_at(7);
    network.place_without(&members, unreal);
    network.run_for(4_000_000);
    for _ in 0..6 {
        for origin in real {
            network.publish(*origin, 16).unwrap();
        }
        network.run_for(500_000);
    }
    network.run_for(20_000_000);
    let before = network.packets;
    network.run_for(10_000_000);
    let per_second = (network.packets - before) / 10;
    assert!(per_second < 540, "{per_second} packets each second");
}

/// Some members are never found, because they are dead or invented. All other members get every
/// broadcast nevertheless, in the epoch in which it was published.
#[test]
fn a_rank_that_nobody_finds_hides_no_others() {
    for seed in seeds(40) {
        let n = 6 + seed as u32 * 7 % 59;
        let mut network = Network::unplaced(n, seed, Conditions::default(), Config::default());
        let members = network.members.clone();
        let unreal = 1 + seed as usize % 3;
        network.place_without(&members, &members[1..=unreal]);
        network.run_for(4_000_000);
        let real: Vec<u32> = members
            .iter()
            .copied()
            .filter(|id| !members[1..=unreal].contains(id))
            .collect();
        let limit = Some(Duration::from_secs(60));
        let ids: Vec<_> = real
            .iter()
            .map(|origin| {
                network
                    .publish_to(*origin, Destination::All, 16, limit)
                    .unwrap()
            })
            .collect();
        network.run_for(5_000_000);
        for (origin, id) in real.iter().zip(ids) {
            let lacking: Vec<u32> = real
                .iter()
                .copied()
                .filter(|to| to != origin && network.delivered(id, *to) == 0)
                .collect();
            assert!(
                lacking.is_empty(),
                "seed {seed}, N = {n}: {id:?} did not come to {lacking:?}"
            );
        }
    }
}
