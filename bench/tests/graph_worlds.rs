//! Exhaustive searches of small graphs, and runs of larger ones.
//! `binomesh-bench check --layer graph` searches further.

use binomesh::graph::Graph;
use binomesh_bench::arena::graph::{Facts, run};
use binomesh_bench::checker::clique::Faults;
use binomesh_bench::checker::graph::{World, connected};
use binomesh_bench::checker::search::search;

#[test]
fn up_to_four_nodes_agree_on_one_root_in_every_order() {
    for (nodes, count) in [(1, 1), (2, 1), (3, 4), (4, 38)] {
        let graphs = connected(nodes);
        assert_eq!(graphs.len(), count);
        for lists in graphs.into_iter().filter(|lists| lists.len() > 1) {
            let found = search(World::new(lists, Faults::None, 100_000), 2);
            assert_eq!(found.counterexample, None);
            assert!(found.is_exhaustive || nodes == 4, "{found:?}");
        }
    }
}

#[test]
fn three_nodes_go_into_the_tree_after_any_single_fault() {
    for lists in connected(3) {
        let found = search(World::new(lists, Faults::One, 200_000), 2);
        assert_eq!(found.counterexample, None);
        assert!(found.is_exhaustive, "{found:?}");
    }
}

#[test]
fn every_kind_of_graph_ends_with_the_breadth_first_tree_of_a_node_of_highest_degree() {
    for text in [
        "ring:1",
        "ring:2",
        "ring:100",
        "mesh:9x13",
        "star:50",
        "cliques:31",
        "caterpillar:80",
        "random:150,3",
        "random:150,8",
    ] {
        for seed in 0..5 {
            let lists = text.parse::<Graph>().unwrap().lists(seed).unwrap();
            let facts = Facts::of(&lists, None);
            let found = run(&lists, &facts, 100_000);
            assert!(found.is_exact, "{text}, seed {seed}: {found:?}");
            // Claims go out, echoes come back, and the tree follows the claims.
            let rounds = found.claim_rounds.zip(found.tree_rounds);
            let diameter = u64::from(facts.diameter);
            let is_quick = |(claim, tree)| claim <= diameter + 1 && tree <= 3 * diameter + 3;
            assert!(rounds.is_some_and(is_quick), "{text}: {found:?}");
        }
    }
}
