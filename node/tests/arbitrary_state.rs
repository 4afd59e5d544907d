//! Self-stabilization of whole peers: from arbitrary states to the binomial graph, in which ranks
//! may be vacant.

use std::time::Duration;

use binomesh::peer::{Input, Message};
use binomesh::world::{DeploymentTree, Network, World};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::overlay::garbage;

/// Seeds per population. A build without optimization runs a sample of the seeds.
const SEEDS: u64 = if cfg!(debug_assertions) { 10 } else { 200 };

/// `count` running peers with arbitrary state, which have then got arbitrary messages.
fn scrambled(seed: u64, count: u32) -> World {
    let mut world = World::new(seed, Network::local());
    // Full nodes redirect, so every other seed lets a node have two children only.
    let max_children = if seed.is_multiple_of(2) { 16 } else { 2 };
    world.deploy(count, DeploymentTree::Random, |config| {
        config.limits.max_children = max_children
    });
    world.run_for(Duration::from_millis(20));
    let mut noise = Noise::new(seed ^ u64::from(count) << 32);
    let everybody: Vec<u32> = (0..count).collect();
    for id in 0..count {
        world.with_peer(id, |peer, _| peer.scramble(&mut noise, &everybody));
    }
    for _ in 0..3 * count {
        let from = noise.pick(&everybody).unwrap();
        let to = noise.pick(&everybody).unwrap();
        if let Some(message) = garbage(&mut noise, &everybody) {
            let message = Message::Overlay(message);
            world.feed(to, Input::Message { from, message });
        }
    }
    world
}

#[test]
fn every_arbitrary_state_converges() {
    let mut slowest = Duration::ZERO;
    for count in 2..=32 {
        for seed in 0..SEEDS {
            let mut world = scrambled(seed, count);
            let end = world.now() + Duration::from_secs(300);
            let healed = world.run_until(end, |w| w.defect().is_none());
            let defect = world.defect();
            assert!(healed, "seed {seed}, {count} nodes: {defect:?}");
            slowest = slowest.max(world.now());
        }
    }
    println!("slowest: {slowest:?} of virtual time");
}
