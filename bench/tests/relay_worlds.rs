//! [SFT06] §4: the protocol verified, by searching what the shipped relays can do.
//! `binomesh-bench check --layer relays` searches further.

use binomesh_bench::checker::relays::{Found, Full, Post, Relays, search};
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

fn is_green(found: &Found) {
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
fn two_packets_in_all_their_orders_reach_whom_they_are_for() {
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
