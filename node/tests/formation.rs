//! Formation and healing of whole overlays, in the seeded world.
#![allow(missing_docs, reason = "a test")]
use std::time::Duration;

use binomesh::world::{Network, Shape, World};

const SHAPES: [Shape; 5] = [
    Shape::Flat,
    Shape::Binary,
    Shape::Binomial,
    Shape::Random,
    Shape::Chain,
];

fn form(seed: u64, count: u32, shape: Shape) -> World {
    let mut world = World::new(seed, Network::local());
    world.deploy(count, shape, |_| {});
    let formed = world.run_until(Duration::from_secs(60), |w| w.defect().is_none());
    assert!(
        formed,
        "seed {seed}, {count} nodes, {shape:?}: {:?}",
        world.defect()
    );
    world
}

#[test]
fn every_shape_forms_the_exact_binomial_graph() {
    for shape in SHAPES {
        for count in 1..=33 {
            let world = form(u64::from(count), count, shape);
            if count % 8 == 0 {
                println!(
                    "{shape:?} {count}: {:?} {} messages",
                    world.now(),
                    world.sent()
                );
            }
        }
    }
}

#[test]
fn any_single_crash_heals() {
    for shape in SHAPES {
        for victim in 0..13 {
            let mut world = form(u64::from(victim), 13, shape);
            world.run_for(Duration::from_secs(2));
            world.crash(victim);
            let start = world.now();
            let healed = world.run_until(start + Duration::from_secs(60), |w| w.defect().is_none());
            assert!(healed, "victim {victim}, {shape:?}: {:?}", world.defect());
            println!("{shape:?} -{victim}: {:?}", world.now() - start);
        }
    }
}

#[test]
fn half_crash_heals() {
    for seed in 0..30 {
        let mut world = form(seed, 24, Shape::Binomial);
        world.run_for(Duration::from_secs(2));
        for victim in 0..24 {
            if (victim * 7 + seed as u32).is_multiple_of(2) {
                world.crash(victim);
            }
        }
        let start = world.now();
        let healed = world.run_until(start + Duration::from_secs(120), |w| w.defect().is_none());
        assert!(healed, "seed {seed}: {:?}", world.defect());
        println!("{seed}: {:?}", world.now() - start);
    }
}
