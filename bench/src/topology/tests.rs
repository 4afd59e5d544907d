use super::connectivity::vertex_connectivity;
use super::distance::Distances;
use super::failure::Trials;
use super::routing::Comparison;
use super::*;
use binomesh_overlay::legitimate::is_binomial_graph;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TRIALS: Trials = Trials {
    count: 400,
    seed: 1,
    threads: 2,
};

fn graph(name: Name, nodes: u32, fanout: u32) -> Topology {
    let (population, fanout) = (Population::new(nodes), Fanout::new(fanout));
    Topology::new(name, population.unwrap(), fanout.unwrap())
}

/// A graph with these links, or with these arcs if it is directed.
fn drawn(nodes: u32, links: &[(u32, u32)], is_directed: bool) -> Topology {
    let population = Population::new(nodes).unwrap();
    let ahead = Arcs::new(population, |rank, ends| {
        ends.extend(
            links
                .iter()
                .filter(|link| link.0 == rank.0)
                .map(|link| Rank(link.1)),
        );
        let back = links.iter().filter(|link| link.1 == rank.0 && !is_directed);
        ends.extend(back.map(|link| Rank(link.0)));
    });
    Topology {
        name: Name::Sibling,
        back: is_directed.then(|| ahead.reversed()),
        ahead,
    }
}

fn connectivity(topology: &Topology) -> usize {
    vertex_connectivity(topology, 2, |_, _| {})
}

fn distances(topology: &Topology) -> (u32, f64) {
    let found = Distances::of(topology, 2, |_, _| {}).unwrap();
    (found.diameter, found.mean.unwrap())
}

/// Whether the other nodes all reach each other without `failed`, a set of bits.
fn is_connected_without(topology: &Topology, failed: u32) -> bool {
    let reached = |ends: &dyn Fn(u32) -> Vec<u32>| {
        let all = (1_u32 << topology.nodes()) - 1;
        let live = all & !failed;
        let mut seen = live & live.wrapping_neg();
        loop {
            let grown = (0..topology.nodes() as u32)
                .filter(|node| seen & 1 << node != 0)
                .flat_map(ends)
                .fold(seen, |seen, end| seen | 1 << end & live);
            if grown == seen {
                break seen == live;
            }
            seen = grown;
        }
    };
    reached(&|node| topology.neighbours(node).to_vec())
        && reached(&|node| topology.senders(node).to_vec())
}

/// The fewest nodes whose removal disconnects the others, by trying all sets.
fn least_cut(topology: &Topology) -> usize {
    let nodes = topology.nodes();
    let sets = (0..1_u32 << nodes).filter(|set| (set.count_ones() as usize) < nodes - 1);
    let cuts = sets.filter(|set| !is_connected_without(topology, *set));
    let least = cuts.map(|set| set.count_ones() as usize).min();
    least.unwrap_or(nodes - 1)
}

#[test]
fn the_binomial_graph_is_the_one_that_the_overlay_builds() {
    for nodes in 1..=200_u32 {
        let population = Population::new(nodes).unwrap();
        let order: Vec<u32> = (0..nodes).collect();
        let topology = graph(Name::Bmg, nodes, 2);
        // Two levels may lead to the same neighbour. Tables are filled from the graph.
        let table = |me: u32, there: fn(Rank, u32, Population) -> Rank| -> Vec<Option<u32>> {
            let fingers =
                (0..population.levels()).map(|level| there(Rank(me), 1 << level, population));
            let is_linked = |rank: &Rank| topology.neighbours(me).contains(&rank.0);
            fingers
                .map(|rank| Some(rank).filter(is_linked).map(|rank| rank.0))
                .collect()
        };
        let (ahead, behind) = (|me| table(me, Rank::ahead), |me| table(me, Rank::behind));
        assert!(is_binomial_graph(&order, ahead, behind), "N={nodes}");
        for me in 0..nodes {
            let mut fingers: Vec<_> = ahead(me).into_iter().chain(behind(me)).flatten().collect();
            fingers.sort_unstable();
            fingers.dedup();
            assert_eq!(topology.neighbours(me), fingers, "N={nodes} rank {me}");
        }
    }
}

#[test]
fn chord_with_links_used_both_ways_is_the_binomial_graph() {
    for nodes in 2..=200 {
        let (chord, bmg) = (graph(Name::Chord, nodes, 2), graph(Name::Bmg, nodes, 2));
        for node in 0..nodes {
            let mut both = [chord.neighbours(node), chord.senders(node)].concat();
            both.sort_unstable();
            both.dedup();
            assert_eq!(bmg.neighbours(node), both, "N={nodes}");
        }
    }
}

#[test]
fn connectivity_is_that_of_trying_all_sets() {
    for nodes in 2..=11 {
        for name in Name::value_variants() {
            for fanout in [2, 3] {
                let topology = graph(*name, nodes, fanout);
                let expected = least_cut(&topology);
                assert_eq!(
                    connectivity(&topology),
                    expected,
                    "{name:?} N={nodes} k={fanout}"
                );
            }
        }
    }
}

#[test]
fn connectivity_of_random_graphs_is_that_of_trying_all_sets() {
    for seed in 0..400 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (share, is_directed) = (random.random_range(0.2..0.9), random.random());
        let links = (0..8).flat_map(|from| (0..8).map(move |to| (from, to)));
        let links: Vec<_> = links.filter(|_| random.random_bool(share)).collect();
        let topology = drawn(8, &links, is_directed);
        assert_eq!(connectivity(&topology), least_cut(&topology), "seed {seed}");
    }
}

#[test]
fn a_cut_may_take_the_node_with_the_fewest_links() {
    // Two cliques of six nodes, and one node between them with two links to each.
    let six = |first: u32| (first..first + 6).flat_map(move |a| (first..a).map(move |b| (a, b)));
    let between = [(12, 0), (12, 1), (12, 6), (12, 7)];
    let links: Vec<_> = six(0).chain(six(6)).chain(between).collect();
    assert_eq!(connectivity(&drawn(13, &links, false)), 1);
}

#[test]
fn nodes_linked_in_one_direction_are_not_connected() {
    let share = |is_directed| TRIALS.connected_share(&drawn(3, &[(0, 1), (1, 2)], is_directed), 0);
    assert_eq!((share(false), share(true)), (1.0, 0.0));
}

#[test]
fn connectivity_of_the_binomial_graph_is_its_degree() {
    for nodes in 3..=128 {
        let topology = graph(Name::Bmg, nodes, 2);
        assert_eq!(connectivity(&topology), topology.degree(), "N={nodes}");
    }
}

#[test]
fn a_sibling_tree_is_not_as_connected_as_the_paper_says() {
    // [SFT06] says k. A full tree has min(k, 3), and a last level of one node hangs on one parent.
    for (nodes, fanout, expected) in [(31, 2, 2), (40, 3, 3), (85, 4, 3), (32, 2, 1), (86, 4, 1)] {
        let found = connectivity(&graph(Name::Sibling, nodes, fanout));
        assert_eq!(found, expected, "N={nodes} k={fanout}");
    }
}

#[test]
fn distances_of_1024_are_known() {
    let close = |(diameter, mean): (u32, f64)| (diameter, (mean * 1000.0).round() / 1000.0);
    assert_eq!(close(distances(&graph(Name::Bmg, 1024, 2))), (5, 3.448));
    // A hop for each bit that is set: on average half of 10. The source is no destination.
    assert_eq!(close(distances(&graph(Name::Chord, 1024, 2))), (10, 5.005));
    assert_eq!(close(distances(&graph(Name::Ring, 1024, 2))), (512, 256.25));
    assert_eq!(graph(Name::Bmg, 1024, 2).degree(), 19);
}

#[test]
fn one_source_of_a_transitive_graph_stands_for_all() {
    for nodes in [2, 3, 12, 31, 64, 100] {
        for name in Name::value_variants() {
            let topology = graph(*name, nodes, 2);
            let sums = (0..nodes).map(|node| {
                let depths = distance::breadth_first(&topology, node).into_iter();
                depths.map(|depth| depth.unwrap()).sum::<u32>()
            });
            let sums: Vec<u32> = sums.collect();
            let mean = f64::from(sums.iter().sum::<u32>()) / f64::from(nodes * (nodes - 1));
            assert!(
                (distances(&topology).1 - mean).abs() < 1e-9,
                "{name:?} N={nodes}"
            );
            let is_one = sums.iter().all(|sum| *sum == sums[0]);
            assert!(is_one || !name.is_vertex_transitive(), "{name:?} N={nodes}");
        }
    }
}

#[test]
fn minimal_routing_is_as_short_as_breadth_first_search() {
    // Every size up to 300, then every 61st; `graph --check-routing 4096` takes all.
    for nodes in (1..300).chain((300..=4096).step_by(61)).chain([4095, 4096]) {
        let found = Comparison::of(Population::new(nodes).unwrap());
        assert_eq!(
            (found.differing, found.routed),
            (0, found.shortest),
            "N={nodes}"
        );
    }
}

#[test]
fn failures_that_are_survived_are_those_of_the_definition() {
    // Half of the nodes of a tree are leaves; two failures in a ring are neighbours
    // in 2 of 63 cases.
    for (name, nodes, expected) in [(Name::Binary, 63, 0), (Name::Ring, 64, 1)] {
        let topology = graph(name, nodes, 2);
        assert_eq!(
            TRIALS.survived(&topology, 0.99, |_| {}),
            expected,
            "{name:?}"
        );
    }
    let bmg = graph(Name::Bmg, 64, 2);
    let survived = TRIALS.survived(&bmg, 0.99, |_| {});
    assert!(
        survived >= 10,
        "as many as the connectivity less one: {survived}"
    );
    assert!(TRIALS.connected_share(&bmg, survived) >= 0.99);
    assert!(TRIALS.connected_share(&bmg, survived + 1) < 0.99);
    // All nodes are linked to each other.
    assert_eq!(TRIALS.survived(&graph(Name::Bmg, 5, 2), 0.99, |_| {}), 4);
}

#[test]
fn threads_change_nothing_and_seeds_do() {
    let topology = graph(Name::Bmg, 64, 2);
    let share = |trials: Trials| trials.connected_share(&topology, 45);
    let one = Trials {
        threads: 1,
        ..TRIALS
    };
    assert_eq!(share(one), share(TRIALS));
    assert_ne!(share(Trials { seed: 2, ..TRIALS }), share(TRIALS));
}
