//! Arbitrary graphs: whole peers that start with some neighbours and no parent.

use std::time::Duration;

use binomesh::graph::Graph;
use binomesh::world::{DeploymentTree, Fault, Id, Lie, Network, World};
use binomesh_overlay::Config;
use binomesh_overlay::config::Gather;

use crate::{lossy, settle};

fn lists(graph: &str) -> Vec<Vec<Id>> {
    graph.parse::<Graph>().unwrap().lists(1).unwrap()
}

/// Each node starts with its list.
fn deployed(seed: u64, network: Network, lists: &[Vec<Id>]) -> World {
    let mut world = World::new(seed, network);
    world.deploy(lists.len() as u32, DeploymentTree::Flat, |config| {
        let list = lists[config.me as usize].clone();
        survey(config, list);
    });
    world
}

fn survey(config: &mut Config<Id>, list: Vec<Id>) {
    config.parent = None;
    config.slot = None;
    config.seeds.clone_from(&list);
    config.limits.max_children = 16;
    config.survey = Some(Gather::new(list));
}

fn root(world: &World) -> Option<Id> {
    let mut roots = world
        .peers()
        .filter(|(_, peer)| peer.overlay().tree().is_root());
    roots.next().map(|(id, _)| id)
}

/// The node with the longest list. Of several such nodes, the one with the smallest id.
fn highest(lists: &[Vec<Id>]) -> Option<Id> {
    let all = lists.iter().zip(0..);
    let highest = all.min_by_key(|(list, id)| (std::cmp::Reverse(list.len()), *id));
    highest.map(|(_, id)| id)
}

const GRAPHS: [&str; 10] = [
    "ring:1",
    "ring:2",
    "ring:21",
    "mesh:4x6",
    "star:15",
    "star:40",
    "cliques:17",
    "caterpillar:18",
    "random:30,3",
    "random:9,4",
];

#[test]
fn any_connected_graph_becomes_the_binomial_graph_below_a_node_of_highest_degree() {
    for graph in GRAPHS {
        let lists = lists(graph);
        let mut world = deployed(7, Network::local(), &lists);
        let took = settle(&mut world, graph);
        assert!(took < Duration::from_secs(6), "{graph}: {took:?}");
        assert_eq!(root(&world), highest(&lists), "{graph}");
    }
}

#[test]
fn a_node_that_nobody_lists_back_is_found_by_the_nodes_that_it_lists() {
    for seed in 0..10 {
        let count = 12 + seed as u32;
        let lists: Vec<Vec<Id>> = (0..count).map(|me| vec![(me + 1) % count]).collect();
        let mut world = deployed(seed, Network::local(), &lists);
        settle(&mut world, "each lists one other");
        // Nobody lists node 0, and node 4 lists nobody.
        let lists = [vec![1], vec![2, 4], vec![1, 3], vec![4], vec![]];
        let mut world = deployed(seed, Network::local(), &lists);
        settle(&mut world, "one lists nobody");
    }
}

#[test]
fn a_graph_that_is_longer_than_a_tree_may_be_deep_is_one_overlay() {
    let lists = lists("ring:170");
    let mut world = deployed(3, Network::local(), &lists);
    let took = settle(&mut world, "a ring of 170");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (deepest, most) = (
        |world: &World| world.peers().map(|(_, p)| p.overlay().tree().depth()).max(),
        |world: &World| {
            world
                .peers()
                .map(|(_, p)| p.overlay().tree().children().len())
                .max()
        },
    );
    assert!(deepest(&world) < Some(64) && most(&world) <= Some(16));
}

#[test]
fn silent_neighbours_keep_nobody_out() {
    for seed in 0..20 {
        let mut lists = lists("mesh:4x5");
        // 20 and 21 are listed and never start.
        lists[seed as usize % 20].push(20);
        lists[(seed as usize * 7 + 3) % 20].extend([21, 21]);
        let mut world = deployed(seed, Network::local(), &lists);
        let took = settle(&mut world, "two are silent");
        assert!(took < Duration::from_secs(15), "seed {seed}: {took:?}");
    }
}

/// No node tries all the paths to dead roots, one by one.
#[test]
fn roots_that_die_in_turn_while_it_forms_are_survived() {
    for graph in ["cliques:24", "star:20", "random:24,5"] {
        for after in [1, 3, 20, 400] {
            let mut lists = lists(graph);
            let root = highest(&lists).expect("a root");
            // Without the root the other nodes still know each other.
            let count = lists.len() as u32;
            for (list, me) in lists.iter_mut().zip(0..) {
                list.push((me + 1) % count);
                list.push((me + 2) % count);
            }
            let mut world = deployed(after, Network::local(), &lists);
            let mut roots: Vec<Id> = (0..count).collect();
            roots.sort_by_key(|id| (std::cmp::Reverse(lists[*id as usize].len()), *id));
            assert!(roots[..3].contains(&root));
            for victim in &roots[..3] {
                world.run_for(Duration::from_millis(after));
                world.crash(*victim);
            }
            let took = settle(&mut world, graph);
            let each = world.sent() / u64::from(count);
            assert!(
                took < Duration::from_secs(25),
                "{graph}, {after} ms: {took:?}"
            );
            assert!(each < 2000, "{graph}, {after} ms: {each} messages of each");
        }
    }
}

#[test]
fn losses_and_crashes_while_it_forms_heal() {
    const RUNS: u64 = 100;
    let mut all = Duration::ZERO;
    for seed in 0..RUNS {
        let mut lists = lists("random:17,5");
        lists.iter_mut().for_each(|list| list.extend([0, 16]));
        let mut world = deployed(seed, lossy(), &lists);
        world.run_for(Duration::from_millis(1 + seed * 3));
        world.crash(1 + seed as u32 % 15);
        let took = settle(&mut world, "a crash on the way");
        assert!(took < Duration::from_secs(40), "seed {seed}: {took:?}");
        assert_eq!(world.peers().count(), 16);
        all += took;
    }
    let mean = all / RUNS as u32;
    assert!(mean < Duration::from_secs(11), "{mean:?}");
}

#[test]
fn a_liar_holds_the_others_up_for_a_while_and_keeps_nobody_out() {
    for lie in [
        Lie::Weight,
        Lie::Path,
        Lie::Goodbyes,
        Lie::Fingers,
        Lie::Alive,
    ] {
        for seed in 0..6 {
            let lists = lists("random:14,4");
            let mut world = deployed(seed, Network::local(), &lists);
            let (node, ms) = (seed as Id * 5 % 14, 12_000);
            let fault = Fault::Lie {
                node,
                lie,
                ms,
                seed,
            };
            world.act(&fault, |_| {});
            let took = settle(&mut world, &format!("{lie:?}"));
            assert!(
                took < Duration::from_secs(40),
                "{lie:?}, seed {seed}: {took:?}"
            );
            let each = world.sent() / 14;
            assert!(
                each < 10_000,
                "{lie:?}, seed {seed}: {each} messages of each"
            );
        }
    }
}

#[test]
fn a_node_that_starts_a_little_later_counts_by_its_degree() {
    // `apart_ms` is the time between two starts. The last of twelve nodes starts after about one
    // second, or after about three.
    for (seed, apart_ms) in (0..20).zip([80, 270].into_iter().cycle()) {
        let lists = lists("mesh:3x4");
        let count = lists.len() as u32;
        let mut world = World::new(seed, Network::local());
        for step in 0..count {
            let me = (step * 5 + seed as u32) % count;
            let mut config = Config::new(me, 1, seed << 8 | u64::from(me));
            survey(&mut config, lists[me as usize].clone());
            world.start(config);
            world.run_for(Duration::from_millis(apart_ms));
        }
        settle(&mut world, "starts one after the other");
        assert_eq!(root(&world), highest(&lists), "seed {seed}, {apart_ms} ms");
    }
}

#[test]
fn a_latecomer_is_admitted_by_its_neighbours_and_moves_no_root() {
    let lists = lists("mesh:3x3");
    let mut world = deployed(5, Network::local(), &lists);
    settle(&mut world, "9 nodes");
    let before = root(&world);
    world.run_for(Duration::from_secs(15));
    let mut late = Config::new(9, 1, 9);
    // The latecomer has the longest list of all.
    survey(&mut late, (0..9).collect());
    world.start(late);
    let took = settle(&mut world, "with the latecomer");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!((root(&world), world.peers().count()), (before, 10));
}
