//! Joins and restarts in the seeded world: many nodes at once, one node after the other, and one
//! node alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::world::{DeploymentTree, Network, World};
use binomesh_overlay::Config;
use rand::Rng;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Runs until the exact binomial graph stands and no rank is vacant, and returns the time that this
/// took.
#[track_caller]
fn exact(world: &mut World, limit: Duration) -> Duration {
    let start = world.now();
    let is_exact = world.run_until(start + limit, |w| w.defect_or_vacancy().is_none());
    let (seed, defect) = (world.seed(), world.defect_or_vacancy());
    assert!(is_exact, "seed {seed}: {defect:?}");
    world.now() - start
}

fn start(world: &mut World, id: u32, parent: Option<u32>, seeds: &[u32]) {
    let mut config = Config::new(id, 1, world.rng().random());
    config.parent = parent;
    config.seeds = seeds.to_vec();
    world.start(config);
}

fn parents(world: &World) -> BTreeMap<u32, Option<u32>> {
    let of = |(id, peer): (u32, &binomesh::peer::Peer<u32>)| (id, peer.overlay().tree().parent());
    world.peers().map(of).collect()
}

/// Every node starts as a root. Each but the last knows one other node, the next in line.
#[test]
fn a_line_of_contacts_becomes_one_tree() {
    for (seed, count) in [2, 3, 8, 16, 33].into_iter().zip(0..).map(|(n, s)| (s, n)) {
        let mut world = World::new(seed, Network::local());
        for id in 0..count {
            let next: Vec<u32> = (id + 1 < count).then_some(id + 1).into_iter().collect();
            start(&mut world, id, None, &next);
        }
        exact(&mut world, seconds(120));
        assert_eq!(world.peers().count(), count as usize);
    }
}

/// All newcomers know only the same two nodes, and a node takes at most sixteen children.
#[test]
fn a_hundred_join_sixteen_at_once() {
    for seed in 0..10 {
        let mut world = World::new(seed, Network::local());
        world.deploy(16, DeploymentTree::Binomial, |_| {});
        exact(&mut world, seconds(60));
        for id in 16..116 {
            start(&mut world, id, Some(3), &[0]);
        }
        let took = exact(&mut world, seconds(60));
        assert!(took < seconds(15), "seed {seed}: {took:?}");
        let widest = world
            .peers()
            .map(|(_, peer)| peer.overlay().tree().children().count());
        assert!(widest.max() <= Some(16), "seed {seed}");
        assert_eq!(world.placements().len(), 116);
    }
}

/// Each node comes back after its rank has been given away. Orphans must not pile up under one
/// heir, nor in a line.
#[test]
fn a_rolling_restart_beyond_the_grace_keeps_the_tree_low_and_narrow() {
    for seed in 0..4 {
        let count = 32;
        let mut world = World::new(seed, Network::local());
        world.deploy(count, DeploymentTree::Binomial, |config| {
            config.pace.grace = seconds(5);
        });
        exact(&mut world, seconds(60));
        for _ in 0..3 {
            for victim in 0..count {
                world.crash(victim);
                world.run_for(seconds(12));
                world.restart(victim);
                exact(&mut world, seconds(60));
            }
        }
        let trees = || world.peers().map(|(_, peer)| peer.overlay().tree());
        let deepest = trees().map(|tree| tree.depth()).max();
        let widest = trees().map(|tree| tree.children().count()).max();
        println!("seed {seed}: {deepest:?} deep, {widest:?} wide");
        assert!(widest <= Some(16), "seed {seed}: {widest:?} children");
        assert!(deepest <= Some(16), "seed {seed}: {deepest:?} deep");
    }
}

/// Within the grace, other nodes dial the restarting node. Its children have lost their parent:
/// each child dials another parent, and perhaps a second one for its place in the order of ranks.
/// Until then the ring goes round the children, so ring neighbours of the restarting node dial too.
/// No link is dialled between two other nodes.
#[test]
fn a_restart_within_the_grace_dials_no_link_between_others() {
    for seed in 0..4 {
        for victim in 1..24 {
            let mut world = World::new(seed, Network::local());
            world.deploy(24, DeploymentTree::Binary, |_| {});
            exact(&mut world, seconds(60));
            world.run_for(seconds(20));
            let before = world.placements();
            let overlay = world.peer(victim).expect("up").overlay();
            let orphans: Vec<u32> = overlay.tree().children().collect();
            let (last, next) = (overlay.ring().predecessor, overlay.ring().successor);
            let near: BTreeSet<u32> = orphans.iter().copied().chain(last).chain(next).collect();
            world.restart(victim);
            world.take_dials();
            exact(&mut world, seconds(30));
            let dials = world.take_dials().into_iter();
            let links: BTreeSet<(u32, u32)> = dials.map(|(a, b)| (a.min(b), a.max(b))).collect();
            let others: Vec<_> = links
                .iter()
                .filter(|(a, b)| *a != victim && *b != victim)
                .collect();
            assert!(
                others.len() < links.len(),
                "{seed}, {victim}: nobody dialled it"
            );
            let is_near = |(a, b): &&(u32, u32)| near.contains(a) || near.contains(b);
            assert!(others.iter().all(is_near), "{seed}, {victim}: {others:?}");
            assert!(
                others.len() <= 2 * near.len(),
                "{seed}, {victim}: {others:?}"
            );
            assert_eq!(world.placements(), before, "seed {seed}, {victim}");
        }
    }
}

/// Between trees of the same weight the smallest id wins. A lone node has less weight than a
/// cluster.
#[test]
fn a_lone_restarted_node_with_the_smallest_id_does_not_move_the_cluster() {
    for seed in 0..10 {
        let mut world = World::new(seed, Network::local());
        start(&mut world, 5, None, &[]);
        for id in 6..21 {
            start(&mut world, id, Some(5), &[5]);
        }
        start(&mut world, 0, Some(7), &[5, 9]);
        exact(&mut world, seconds(60));
        let before = parents(&world);
        world.crash(0);
        exact(&mut world, seconds(60));
        // The node now has no configured parent, so it is a root until a seed has answered.
        start(&mut world, 0, None, &[9]);
        exact(&mut world, seconds(60));
        let mut after = parents(&world);
        assert!(
            after.remove(&0).flatten().is_some(),
            "seed {seed}: it joined"
        );
        let mut before = before;
        before.remove(&0);
        assert_eq!(after, before, "seed {seed}");
    }
}
