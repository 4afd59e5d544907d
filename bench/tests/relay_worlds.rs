//! [SFT06] §4: the protocol is verified by a search of all states of shipped relays.
//! `binomesh-bench check --layer relays` searches further.

use binomesh_bench::checker::relays::{Full, Post, Relays, Schedules, walk};
use binomesh_bench::checker::search::{Found, search};
use binomesh_routing::router::{Aware, Chosen};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination};

const TREE: Strategy = Strategy::SiblingTree { fanout: 2 };

fn broadcast(from: u32) -> Post {
    Post::new(from, Destination::All, TREE)
}

fn multicast(from: u32, to: &[u32]) -> Post {
    Post::new(from, Destination::Peers(to.to_vec()), TREE)
}

fn world(posts: Vec<Post>) -> Relays {
    let config = Config {
        router: Chosen::new(&Aware),
        ..Config::default()
    };
    Relays::new(7, config, posts)
}

fn is_green(found: &Found<Vec<&'static str>>) {
    let script = found.counterexample.as_deref().unwrap_or_default();
    assert!(found.counterexample.is_none(), "{script}");
    assert!(found.is_exhaustive && found.states > 300, "{found:?}");
}

#[test]
fn a_broadcast_with_any_link_failing_at_any_moment_reaches_all() {
    for strategy in [TREE, Strategy::Binomial] {
        for origin in [0, 1, 5] {
            let mut world = world(vec![Post::new(origin, Destination::All, strategy)]);
            world.failures = 1;
            is_green(&search(world, 2));
        }
    }
}

#[test]
fn two_packets_reach_all_their_receivers_in_every_order() {
    is_green(&search(world(vec![broadcast(5), multicast(6, &[1, 4])]), 2));
    is_green(&search(
        world(vec![multicast(0, &[4]), multicast(6, &[1, 4])]),
        2,
    ));
}

/// The deadlock that the paper met: "it turns out that TCP buffer size of the
/// communication channel in the modeling was too small".
#[test]
fn inboxes_that_block_their_senders_deadlock_and_ours_do_not() {
    let posts = vec![broadcast(0), broadcast(1)];
    let mut blocking = world(posts.clone());
    (blocking.full, blocking.capacity) = (Full::Blocks, 1);
    let found = search(blocking, 2);
    let script = found.counterexample.unwrap_or_default();
    assert!(
        script.starts_with("delivery fails"),
        "{found:?}",
        found = script
    );
    let mut ours = world(vec![broadcast(0)]);
    ours.capacity = 1;
    is_green(&search(ours, 2));
}

#[cfg(feature = "planted")]
#[test]
fn done_before_custody_goes_red_in_a_world_of_relays() {
    let mut world = world(vec![broadcast(0)]);
    world.failures = 1;
    world.config.planted = binomesh_overlay::Planted::new(binomesh_overlay::Bug::DoneBeforeCustody);
    let found = search(world, 2);
    let script = found.counterexample.unwrap_or_default();
    assert!(script.starts_with("truth fails"), "{script}");
}

const SOME: Schedules = Schedules {
    first_seed: 0,
    count: 200,
    to_the_end: true,
};

/// All nodes broadcast. Each has an inbox of one message, room for one duty, and at most one copy
/// on its way to each peer.
fn all_to_all(nodes: u32, strategy: Strategy) -> Relays {
    Relays::all_to_all(nodes, Config::default(), strategy)
}

#[test]
fn broadcasts_by_all_of_four_nodes_reach_all_with_buffers_of_one() {
    for strategy in [TREE, Strategy::Binomial] {
        let mut world = all_to_all(4, strategy);
        // `check` lets each node begin at any time, which takes longer.
        world.at_any_time = false;
        (world.answers_at_once, world.is_uncounted) = (true, true);
        world.depth_first = true;
        is_green(&search(world, 2));
    }
}

/// With more nodes than this `roster_max` there are no rosters, so a copy to a member that is
/// no neighbour is routed.
fn nameless() -> Config {
    Config {
        roster_max: 1,
        ..Config::default()
    }
}

#[test]
fn broadcasts_by_all_reach_all_in_seeded_orders_with_any_number_of_threads() {
    for strategy in [TREE, Strategy::Binomial] {
        for (nodes, config) in [
            (4, Config::default()),
            (5, Config::default()),
            (6, nameless()),
        ] {
            let world = Relays::all_to_all(nodes, config, strategy);
            let walked = walk(&world, SOME, 2, |_| ());
            let script = walked.counterexample.as_deref().unwrap_or_default();
            assert_eq!(walked.failures, 0, "{script}");
            assert_eq!(walked.schedules, SOME.count);
            assert_eq!(walked, walk(&world, SOME, 1, |_| ()));
            // By `binomial`, each of up to five nodes passes on a part of only one broadcast of
            // another node, so room for one duty suffices.
            let is_crowded = nodes == 6 || strategy == TREE;
            assert_eq!(walked.busy > 0, is_crowded, "{walked:?}");
            assert!(walked.held_back > 0, "{walked:?}");
            let routes = !world.unreached().contains(&"mcast");
            assert!(routes || nodes < 6);
        }
    }
}

#[test]
fn blocking_inboxes_deadlock_when_all_send() {
    for (nodes, strategy) in (4..=6).flat_map(|n| [(n, TREE), (n, Strategy::Binomial)]) {
        let mut world = all_to_all(nodes, strategy);
        world.full = Full::Blocks;
        let walked = walk(&world, SOME, 2, |_| ());
        // With the strategy `TREE` fewer than half of the schedules of four nodes fail, so only a
        // quarter is required there.
        let is_least = nodes == 4 && strategy == TREE;
        let least = SOME.count / if is_least { 4 } else { 2 };
        assert!(walked.failures > least, "{walked:?}");
        let script = walked.counterexample.unwrap_or_default();
        assert!(script.starts_with("delivery fails"), "{script}");
    }
}

/// With room for one duty, nodes that wait for each other's room wait for ever.
#[cfg(feature = "planted")]
#[test]
fn wait_for_room_goes_red_when_all_send() {
    let planted = binomesh_overlay::Planted::new(binomesh_overlay::Bug::WaitForRoom);
    let mut stop = Vec::new();
    for (nodes, config) in [
        (4, Config::default()),
        (5, Config::default()),
        (6, Config::default()),
        (6, nameless()),
    ] {
        let config = Config { planted, ..config };
        let mut world = Relays::all_to_all(nodes, config, Strategy::Binomial);
        world.limit = std::time::Duration::from_secs(20);
        let walked = walk(&world, SOME, 2, |_| ());
        let script = walked.counterexample.unwrap_or_default();
        assert!(script.starts_with("progress fails"), "{nodes}: {script}");
        stop.push(walked.failures);
    }
    assert!(stop.iter().all(|failures| *failures > 10), "{stop:?}");
}
