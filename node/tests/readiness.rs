//! Readiness: members of the cluster's overlay are ready, nodes on an island are not, in
//! the seeded world.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::world::{DeploymentTree, Network, World};
use binomesh_overlay::{Config, Island};
use rand::Rng;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn start(world: &mut World, id: u32, parent: Option<u32>, seeds: &[u32]) {
    start_with(world, id, parent, seeds, |_| {});
}

fn start_with(
    world: &mut World,
    id: u32,
    parent: Option<u32>,
    seeds: &[u32],
    adjust: impl FnOnce(&mut Config<u32>),
) {
    let mut config = Config::new(id, 1, world.rng().random());
    config.parent = parent;
    config.seeds = seeds.to_vec();
    adjust(&mut config);
    world.start(config);
}

fn ready(world: &World) -> Vec<u32> {
    let ready = world.peers().filter(|(_, peer)| peer.is_ready());
    ready.map(|(id, _)| id).collect()
}

fn island(world: &World, id: u32) -> Option<Island> {
    world.peer(id).and_then(|peer| peer.overlay().island())
}

fn lost(world: &World, id: u32) -> usize {
    world.peer(id).map_or(0, |peer| peer.lost_count())
}

fn are_all_ready(world: &World) -> bool {
    world.defect().is_none() && ready(world).len() == world.peers().count()
}

/// Wait until all live nodes are one overlay and ready.
#[track_caller]
fn all_ready(world: &mut World, limit: Duration) {
    let end = world.now() + limit;
    let is_so = world.run_until(end, are_all_ready);
    let islands: Vec<_> = world
        .peers()
        .map(|(id, peer)| (id, peer.overlay().health(), peer.overlay().island()))
        .collect();
    let (seed, defect) = (world.seed(), world.defect());
    assert!(is_so, "seed {seed}: {defect:?}, {islands:?}");
}

/// Checks that no node is ready at any moment of the next `length`.
#[track_caller]
fn none_ready(world: &mut World, length: Duration) {
    let end = world.now() + length;
    let is_any = world.run_until(end, |world| !ready(world).is_empty());
    let (seed, now) = (world.seed(), world.now());
    assert!(!is_any, "seed {seed}: {:?} at {now:?}", ready(world));
}

/// Node 3 is deployed under node 2, node 2 under node 1, and node 1 under node 0, which is dead.
/// The nodes start in every order and with several pauses, so that each node may become the root.
#[test]
fn an_island_is_unready_as_one_until_the_cluster_is_met() {
    let orders = [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ];
    for (seed, order) in (0..).zip(orders) {
        for pause in [0, 3, 45] {
            let mut world = World::new(seed, Network::local());
            for id in order {
                start(&mut world, id, Some(id - 1), &[]);
                none_ready(&mut world, seconds(pause));
            }
            none_ready(&mut world, seconds(120));
            assert_eq!(world.defect(), None, "one island, {order:?}");
            assert_eq!(island(&world, 3), Some(Island::Unmet));
            // The rest of the island is an island as well.
            world.crash(order[0]);
            none_ready(&mut world, seconds(120));
            world.restart(order[0]);
            none_ready(&mut world, seconds(60));
            start(&mut world, 0, None, &[]);
            all_ready(&mut world, seconds(60));
        }
    }
}

#[test]
fn the_first_is_ready_at_once_and_one_that_may_be_alone_after_ten_seconds() {
    let mut world = World::new(1, Network::local());
    start(&mut world, 0, None, &[0]);
    all_ready(&mut world, seconds(2));
    for (parent, seeds) in [(None, vec![7, 8, 9]), (Some(7), vec![]), (Some(7), vec![8])] {
        let mut world = World::new(1, Network::local());
        start_with(&mut world, 1, parent, &seeds, |config| config.alone = true);
        start(&mut world, 2, Some(1), &[]);
        none_ready(&mut world, seconds(10));
        all_ready(&mut world, seconds(60));
        let mut world = World::new(1, Network::local());
        start(&mut world, 1, parent, &seeds);
        none_ready(&mut world, seconds(120));
    }
}

/// A node that may be alone tries all its contacts before it takes itself for the cluster.
#[test]
fn a_node_that_may_be_alone_finds_the_last_of_its_contacts_first() {
    let mut world = World::new(1, Network::local());
    start(&mut world, 0, None, &[]);
    all_ready(&mut world, seconds(10));
    let seeds: Vec<u32> = (20..40).chain([0]).collect();
    start_with(&mut world, 1, None, &seeds, |config| config.alone = true);
    let end = world.now() + seconds(30);
    let is_ready = |world: &World| world.peer(1).is_some_and(|peer| peer.is_ready());
    assert!(world.run_until(end, is_ready));
    let placed = world.peer(1).and_then(|peer| peer.overlay().placement());
    assert_eq!(placed.map(|placement| placement.population.get()), Some(2));
}

/// Two former members that meet again are the cluster. The root may be the member that remembers
/// the cluster, or the member that has started again.
#[test]
fn one_member_that_remembers_makes_the_others_ready() {
    for restarted in [1, 2] {
        let mut world = World::new(restarted.into(), Network::local());
        start(&mut world, 0, None, &[]);
        start(&mut world, 1, Some(0), &[]);
        start(&mut world, 2, Some(0), &[]);
        all_ready(&mut world, seconds(60));
        world.crash(0);
        world.run_for(seconds(60));
        all_ready(&mut world, seconds(60));
        // The restarted node's parent is dead, so the other node finds the restarted node.
        world.restart(restarted);
        assert_eq!(island(&world, restarted), Some(Island::Unmet));
        world.run_for(seconds(1));
        all_ready(&mut world, seconds(120));
    }
}

/// A chain in which the children start before their parents.
#[test]
fn of_an_ordered_start_nobody_is_ready_before_the_first() {
    for (seed, pause) in [(1, 0), (2, 1), (3, 30)] {
        let mut world = World::new(seed, Network::local());
        for id in (1..6).rev() {
            start(&mut world, id, Some(id - 1), &[0]);
            none_ready(&mut world, seconds(pause));
        }
        none_ready(&mut world, seconds(40));
        start(&mut world, 0, None, &[]);
        all_ready(&mut world, seconds(60));
    }
}

#[test]
fn past_a_dead_parent_a_node_is_ready_as_its_root_is() {
    let mut world = World::new(1, Network::local());
    world.deploy(4, DeploymentTree::Binomial, |_| {});
    all_ready(&mut world, seconds(60));
    start(&mut world, 9, Some(99), &[2]);
    all_ready(&mut world, seconds(60));
}

/// The other nodes never take their overlay for an island. The restarted node is an island until it
/// has found a contact.
#[test]
fn a_rolling_restart_keeps_the_others_ready() {
    for seed in 0..4 {
        let mut world = World::new(seed, Network::local());
        world.deploy(7, DeploymentTree::Binary, |config| {
            config.seeds = vec![0, 1, 2];
        });
        all_ready(&mut world, seconds(60));
        for id in 0..7 {
            world.restart(id);
            assert_eq!(island(&world, id), Some(Island::Unmet));
            let end = world.now() + seconds(15);
            let is_back = world.run_until(end, |world| {
                let others = world.peers().filter(|(other, _)| *other != id);
                let unmet = others
                    .map(|(other, peer)| (other, peer.overlay().island()))
                    .find(|(_, island)| island.is_some());
                assert_eq!(unmet, None, "seed {seed}: while {id} restarts");
                are_all_ready(world)
            });
            assert!(is_back, "seed {seed}: {id}, {:?}", world.defect());
        }
    }
}

#[test]
fn after_a_power_cut_without_the_first_seeds_or_expected_hosts_make_ready() {
    type Adjust = fn(&mut Config<u32>);
    let by_seeds: Adjust = |config| config.seeds = vec![0, 1, 2, 3];
    let by_expect: Adjust = |config| {
        config.seeds = Vec::new();
        config.expect = (0..7).collect();
    };
    let by_nothing: Adjust = |config| config.seeds = Vec::new();
    for (seed, adjust, is_ready) in [
        (1, by_seeds, true),
        (2, by_expect, true),
        (3, by_nothing, false),
    ] {
        let mut world = World::new(seed, Network::local());
        world.deploy(7, DeploymentTree::Chain, adjust);
        all_ready(&mut world, seconds(60));
        (0..7).for_each(|id| world.crash(id));
        world.run_for(seconds(1));
        (1..7).for_each(|id| world.restart(id));
        if is_ready {
            all_ready(&mut world, seconds(120));
        } else {
            none_ready(&mut world, seconds(120));
        }
    }
}

/// In a chain most nodes have no contact next to them. Evidence passes up and the root's word
/// passes down through all nodes, at once and not with a later beat.
#[test]
fn contacts_anywhere_in_the_overlay_make_ready_soon() {
    for seed in 0..8 {
        let mut world = World::new(seed, Network::local());
        for id in 1..=6 {
            start_with(&mut world, id, None, &[5, 6], |config| {
                config.limits.max_children = 1;
            });
        }
        let end = world.now() + seconds(60);
        assert!(world.run_until(end, |world| world.defect().is_none()));
        all_ready(&mut world, seconds(5));
    }
}

/// The first node yields to a heavier island. Until the common epoch counts the node, it has only
/// its own epoch of one member, and it is unready.
#[test]
fn a_node_that_joins_another_overlay_is_unready_until_it_is_counted_there() {
    let mut world = World::new(1, Network::local());
    for id in 1..4 {
        start(&mut world, id, Some(id - 1), &[]);
    }
    none_ready(&mut world, seconds(60));
    start(&mut world, 0, None, &[]);
    let mut has_joined = false;
    let end = world.now() + seconds(60);
    let is_counted = world.run_until(end, |world| {
        let Some(peer) = world.peer(0) else {
            return false;
        };
        let placed = peer.overlay().placement();
        let is_alone = placed.is_some_and(|placement| placement.population.get() == 1);
        let knows_better = peer.overlay().census().in_force().is_some();
        has_joined |= is_alone && knows_better;
        assert!(!(is_alone && knows_better && peer.is_ready()));
        are_all_ready(world)
    });
    assert!(is_counted && has_joined);
}

/// Half of the expected nodes, or fewer, are not the cluster.
#[test]
fn more_than_half_of_the_expected_are_needed() {
    for (members, is_ready) in [(3, false), (4, true)] {
        let mut world = World::new(1, Network::local());
        for id in 1..=members {
            start_with(&mut world, id, Some(id - 1), &[], |config| {
                config.expect = (1..7).collect();
            });
        }
        if is_ready {
            all_ready(&mut world, seconds(120));
        } else {
            none_ready(&mut world, seconds(120));
        }
    }
}

#[test]
fn both_parts_of_a_partition_stay_ready_and_count_the_lost() {
    for (seed, count, cut) in [(1, 12, 5), (2, 12, 10), (3, 4, 2), (4, 40, 20)] {
        let mut world = World::new(seed, Network::local());
        world.deploy(count, DeploymentTree::Binomial, |_| {});
        all_ready(&mut world, seconds(60));
        let groups: [Vec<u32>; 2] = [(0..cut).collect(), (cut..count).collect()];
        let until = world.now() + seconds(90);
        world.network().partition_until(&groups, until);
        let is_island = world.run_until(until - seconds(1), |world| {
            world
                .peers()
                .any(|(_, peer)| peer.overlay().island().is_some())
        });
        assert!(!is_island, "seed {seed}");
        assert_eq!(ready(&world).len(), count as usize, "seed {seed}");
        for id in 0..count {
            let other = if id < cut { count - cut } else { cut };
            assert_eq!(lost(&world, id), other as usize, "seed {seed}: {id}");
        }
        world.run_for(seconds(1));
        all_ready(&mut world, seconds(60));
        world.run_for(seconds(10));
        let lost: BTreeSet<usize> = (0..count).map(|id| lost(&world, id)).collect();
        assert_eq!(lost, BTreeSet::from([0]), "seed {seed}");
    }
}

/// The last of two members is cut off if the other one died, and alone if the other one said
/// goodbye.
#[test]
fn a_former_member_is_unready_alone_unless_all_others_said_goodbye() {
    for survivor in 0..2 {
        let other = 1 - survivor;
        let pair = |seeds: &[u32]| {
            let mut world = World::new(1, Network::local());
            start(&mut world, 0, None, seeds);
            start(&mut world, 1, Some(0), &[]);
            all_ready(&mut world, seconds(60));
            world
        };
        let mut world = pair(&[]);
        world.crash(other);
        world.run_for(seconds(60));
        none_ready(&mut world, seconds(10));
        assert_eq!(island(&world, survivor), Some(Island::Deserted));
        assert_eq!(lost(&world, survivor), 1);
        world.restart(other);
        all_ready(&mut world, seconds(60));
        assert_eq!(lost(&world, survivor), 0);

        let mut world = pair(&[]);
        world.leave(other, seconds(1));
        world.run_for(seconds(3));
        all_ready(&mut world, seconds(60));
        assert_eq!(lost(&world, survivor), 0);
        // The other member returns and dies. The goodbye of an earlier life does not count for this
        // life.
        world.restart(other);
        all_ready(&mut world, seconds(60));
        world.crash(other);
        world.run_for(seconds(60));
        none_ready(&mut world, seconds(10));
    }
}

#[test]
fn a_member_whose_network_is_gone_is_unready_and_the_others_are_not() {
    let mut world = World::new(1, Network::local());
    world.deploy(6, DeploymentTree::Binomial, |_| {});
    all_ready(&mut world, seconds(60));
    for cut in [0, 3] {
        let others: Vec<u32> = (0..6).filter(|id| *id != cut).collect();
        let until = world.now() + seconds(120);
        world
            .network()
            .partition_until(&[vec![cut], others.clone()], until);
        world.run_for(seconds(60));
        assert_eq!(ready(&world), others);
        assert_eq!(island(&world, cut), Some(Island::Deserted));
        world.run_for(seconds(60));
        all_ready(&mut world, seconds(60));
    }
}

/// The root mends the census of scrambled members.
#[test]
fn scrambled_members_are_ready_again() {
    for seed in 0..20 {
        let mut world = World::new(seed, Network::local());
        world.deploy(8, DeploymentTree::Binomial, |_| {});
        all_ready(&mut world, seconds(60));
        let nodes = (0..8).filter(|_| world.rng().random()).collect();
        world.act(&binomesh::world::Fault::Scramble { nodes, seed }, |_| {});
        all_ready(&mut world, seconds(300));
    }
}

/// A member is stopped for ten seconds, and the others count it out meanwhile. At most 100 ms after
/// the member goes on, it is unready or counted again.
#[test]
fn a_paused_member_is_unready_until_it_is_counted_again() {
    for seed in 0..24 {
        let nodes = [3, 5, 8, 16][seed as usize % 4];
        let mut world = World::new(seed, Network::local());
        let shape = [
            DeploymentTree::Flat,
            DeploymentTree::Binary,
            DeploymentTree::Binomial,
        ][seed as usize % 3];
        world.deploy(nodes, shape, |_| {});
        all_ready(&mut world, seconds(20));
        let paused = world.rng().random_range(0..nodes);
        world.pause(paused, seconds(10));
        world.run_for(seconds(10));
        let from = world.now();
        let is_right = |world: &World| {
            let epoch = |id| {
                let placement = world.peer(id).unwrap().overlay().placement();
                placement.map(|place| place.epoch)
            };
            let is_counted = (0..nodes).all(|id| epoch(id) == epoch(paused));
            is_counted || !ready(world).contains(&paused)
        };
        let found_out = world.run_until(from + Duration::from_millis(100), is_right);
        assert!(found_out, "seed {seed}, {nodes} nodes, {shape:?}: {paused}");
        all_ready(&mut world, seconds(10));
    }
}
