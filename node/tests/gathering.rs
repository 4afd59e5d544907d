//! Fully connected systems: whole peers that start with a list and no parent.

use std::time::Duration;

use binomesh::world::{DeploymentTree, Id, Network, World};
use binomesh_overlay::config::Gather;
use binomesh_overlay::{Config, Rank};

use crate::{lossy, settle};

/// Each of `count` nodes starts with the list that `list` gives it.
fn deployed(seed: u64, count: u32, list: impl Fn(Id) -> Vec<Id>) -> World {
    let mut world = World::new(seed, Network::local());
    world.deploy(count, DeploymentTree::Flat, |config| {
        gather(config, list(config.me))
    });
    world
}

fn gather(config: &mut Config<Id>, list: Vec<Id>) {
    config.parent = None;
    config.slot = None;
    config.seeds.clone_from(&list);
    config.seeds.retain(|peer| *peer != config.me);
    config.limits.max_children = 16;
    config.gather = Some(Gather::new(list));
}

fn ranked(world: &World) -> Vec<Id> {
    let mut ranked: Vec<(Rank, Id)> = world
        .peers()
        .filter_map(|(id, peer)| Some((peer.overlay().placement()?.rank, id)))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, id)| id).collect()
}

#[test]
fn one_list_gives_the_exact_graph_in_the_order_of_the_list() {
    for count in 1..=33 {
        let list: Vec<Id> = (0..count).rev().collect();
        let mut world = deployed(count.into(), count, |_| list.clone());
        let took = settle(&mut world, &format!("{count} nodes"));
        // Nobody waits for a peer that is not there.
        assert!(took < Duration::from_secs(5), "{count} nodes: {took:?}");
        assert_eq!(ranked(&world), list);
    }
}

#[test]
fn depth_and_children_are_at_most_the_logarithm() {
    for count in [2, 3, 7, 16, 33, 64] {
        let list: Vec<Id> = (0..count).collect();
        let mut world = deployed(1, count, |_| list.clone());
        settle(&mut world, &format!("{count} nodes"));
        let most = count.next_power_of_two().trailing_zeros() as usize;
        for (id, peer) in world.peers() {
            let tree = peer.overlay().tree();
            assert!(
                tree.depth() <= most && tree.children().len() <= most,
                "{id} of {count}"
            );
        }
    }
}

#[test]
fn lists_that_differ_and_dead_peers_in_them_keep_nobody_out() {
    for seed in 0..20 {
        let count = 30;
        let mut world = deployed(seed, count, |me| {
            // 30 and 31 are listed and never start.
            let mut list: Vec<Id> = (0..32).collect();
            match (me + seed as u32) % 10 {
                0 => list.truncate(20),
                1 => list.retain(|peer| *peer != me),
                2 => list.extend([77, 5, 5]),
                _ => {}
            }
            list
        });
        settle(&mut world, "lists that differ");
        assert_eq!(ranked(&world).len() as u32, count);
    }
}

#[test]
fn lists_that_name_only_the_next_peer_are_enough() {
    for seed in 0..10 {
        let count = 12 + seed as u32;
        let mut world = deployed(seed, count, |me| vec![(me + 1) % count, me]);
        settle(&mut world, "each lists one other");
    }
}

#[test]
fn a_latecomer_is_admitted_by_any_member() {
    let list: Vec<Id> = (0..9).collect();
    let mut world = deployed(3, 8, |_| list.clone());
    settle(&mut world, "without the last one");
    world.run_for(Duration::from_secs(15));
    let mut late = Config::new(8, 1, 8);
    gather(&mut late, list);
    world.start(late);
    let took = settle(&mut world, "with the latecomer");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(ranked(&world).len(), 9);
}

/// The time of a run depends on chance, because a lost message costs a back-off. `settle` bounds
/// each run. The mean of the runs shows whether healing has become slower.
#[test]
fn losses_and_crashes_while_it_forms_heal() {
    const RUNS: u32 = 100;
    let mut total = Duration::ZERO;
    for seed in 0..u64::from(RUNS) {
        let list: Vec<Id> = (0..17).collect();
        let mut world = World::new(seed, lossy());
        world.deploy(17, DeploymentTree::Flat, |config| {
            gather(config, list.clone())
        });
        world.run_for(Duration::from_millis(1 + seed % 30 * 3));
        world.crash(seed as u32 % 17);
        total += settle(&mut world, "a crash on the way");
        assert_eq!(ranked(&world).len(), 16, "seed {seed}");
    }
    let mean = total / RUNS;
    assert!(mean < Duration::from_millis(12_500), "{mean:?}");
}

#[test]
fn a_member_that_restarts_comes_back() {
    let list: Vec<Id> = (0..8).collect();
    let mut world = deployed(5, 8, |_| list.clone());
    settle(&mut world, "8 nodes");
    world.run_for(Duration::from_secs(3));
    let config = world.config(0).cloned().expect("node 0 is up");
    world.crash(0);
    settle(&mut world, "without the root");
    world.start(Config {
        boot: 2,
        returns: true,
        ..config
    });
    settle(&mut world, "with it");
    assert_eq!(ranked(&world).len(), 8);
}
