//! Formation and healing of whole overlays, in the seeded world.

use std::time::Duration;

use binomesh::world::{DeploymentTree, Network, World};

use crate::settle;

const SHAPES: [DeploymentTree; 5] = [
    DeploymentTree::Flat,
    DeploymentTree::Binary,
    DeploymentTree::Binomial,
    DeploymentTree::Random,
    DeploymentTree::Chain,
];

fn formed(seed: u64, count: u32, shape: DeploymentTree) -> World {
    let mut world = World::new(seed, Network::local());
    world.deploy(count, shape, |_| {});
    settle(&mut world, &format!("{count} nodes, {shape:?}"));
    world
}

#[test]
fn every_shape_forms_the_exact_binomial_graph() {
    for shape in SHAPES {
        for count in 1..=33 {
            formed(u64::from(count), count, shape);
        }
    }
}

/// The ring is the preorder of the deployment tree, so ranks follow from slots and not from the
/// order of the starts.
#[test]
fn ranks_are_the_preorder_of_the_deployment_tree() {
    let world = formed(1, 8, DeploymentTree::Binomial);
    let ranks: Vec<u32> = world
        .peers()
        .filter_map(|(_, peer)| peer.overlay().placement())
        .map(|placement| placement.rank.0)
        .collect();
    // 0 → 1, 2, 4; 2 → 3; 4 → 5, 6; 6 → 7.
    assert_eq!(ranks, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn any_single_crash_heals() {
    for shape in SHAPES {
        for victim in 0..13 {
            let mut world = formed(u64::from(victim), 13, shape);
            world.run_for(Duration::from_secs(2));
            world.crash(victim);
            settle(&mut world, &format!("without {victim}, {shape:?}"));
        }
    }
}

#[test]
fn any_two_crashes_at_once_heal() {
    for first in 0..11 {
        for second in first + 1..11 {
            let mut world = formed(u64::from(first * 11 + second), 11, DeploymentTree::Binomial);
            world.run_for(Duration::from_secs(2));
            world.crash(first);
            world.crash(second);
            settle(&mut world, &format!("without {first} and {second}"));
        }
    }
}

#[test]
fn a_crash_of_half_the_nodes_heals() {
    for seed in 0..30 {
        let mut world = formed(seed, 24, DeploymentTree::Binomial);
        world.run_for(Duration::from_secs(2));
        let offset = seed as u32;
        let victims = (0..24).filter(|id| (id * 7 + offset).is_multiple_of(2));
        victims.for_each(|id| world.crash(id));
        settle(&mut world, "half of them");
    }
}

/// A dead parent's children take its place, in their old order.
#[test]
fn a_death_keeps_the_order_of_those_who_stay() {
    let mut world = formed(3, 16, DeploymentTree::Binomial);
    world.crash(8);
    settle(&mut world, "without 8");
    let mut placed: Vec<(u32, u32)> = world
        .peers()
        .filter_map(|(id, peer)| Some((peer.overlay().placement()?.rank.0, id)))
        .collect();
    placed.sort_unstable();
    let order: Vec<u32> = placed.into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15]);
}
