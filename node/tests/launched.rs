//! Nodes that a launcher starts with one list, in the seeded world: the nodes with the smallest
//! ordinals may never come, and parents may start after their children.

use std::time::Duration;

use binomesh::launch::{Family, family};
use binomesh::shape::Shape;
use binomesh::world::{Network, World};
use binomesh_overlay::Config;
use rand::Rng;

const SHAPES: [Shape; 3] = [Shape::Binomial, Shape::Balanced { fanout: 2 }, Shape::Flat];

fn start(world: &mut World, shape: Shape, size: u32, ordinal: u32) {
    let Family {
        parent,
        seeds,
        widest,
        patience_rounds,
    } = family(shape, size, ordinal);
    let mut config = Config::new(ordinal, 1, world.rng().random());
    config.parent = parent;
    config.seeds = seeds;
    config.slot = Some(ordinal);
    config.priority = ordinal;
    config.limits.max_children = (widest as u16 + 3).max(16);
    config.limits.starting_rounds = patience_rounds;
    world.start(config);
}

#[track_caller]
fn exact(world: &mut World, what: &str) {
    let until = world.now() + Duration::from_secs(60);
    let is_exact = world.run_until(until, |world| world.defect().is_none());
    let (seed, defect) = (world.seed(), world.defect());
    assert!(is_exact, "seed {seed}, {what}: {defect:?}");
}

#[test]
fn the_smallest_ordinal_that_comes_is_root() {
    for shape in SHAPES {
        for (size, missing) in [(2, 1), (3, 1), (8, 1), (8, 2), (16, 3), (33, 1), (33, 4)] {
            for seed in 0..4 {
                let mut world = World::new(seed, Network::local());
                for ordinal in missing..size {
                    let pause = world.rng().random_range(0..100);
                    world.run_for(Duration::from_millis(pause));
                    start(&mut world, shape, size, ordinal);
                }
                let what = format!("{shape}, {missing} of {size} missing");
                exact(&mut world, &what);
                let is_root = |peer: &binomesh::peer::Peer<u32>| peer.overlay().tree().is_root();
                let roots = world.peers().filter(|(_, peer)| is_root(peer));
                let roots: Vec<u32> = roots.map(|(id, _)| id).collect();
                assert_eq!(roots, [missing], "seed {seed}, {what}");
                assert_eq!(world.peers().count() as u32, size - missing);
            }
        }
    }
}

/// Children ask for a place, and are asked for a place, before their parents have started. Ordinal
/// 0 starts last and becomes the root.
#[test]
fn children_wait_for_parents_that_start_seconds_later() {
    for shape in SHAPES {
        for seed in 0..20 {
            let mut world = World::new(seed, Network::local());
            for ordinal in (0..16).rev() {
                start(&mut world, shape, 16, ordinal);
                world.run_for(Duration::from_millis(100));
            }
            exact(&mut world, &format!("{shape}, the last one first"));
            let root = world.peer(0).expect("it runs").overlay().tree();
            assert!(root.is_root(), "seed {seed}, {shape}");
        }
    }
}
