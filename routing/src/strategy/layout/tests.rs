//! All strategies in all small populations.

use super::*;

fn strategies() -> impl Iterator<Item = Strategy> {
    let trees = [2, 3, 4, 8].map(|fanout| Strategy::SiblingTree { fanout });
    let others = Choice::ALL.map(|choice| choice.strategy(5, 3));
    let blocks = [0, 1, 2, 7].map(Strategy::circulant);
    let lost = [3, 0, 5, 3, 9, 1].map(Rank);
    let without = blocks.map(|block| block.without(lost));
    trees.into_iter().chain(others).chain(blocks).chain(without)
}

fn layouts(most: u32) -> impl Iterator<Item = (u32, Layout)> {
    strategies().flat_map(move |strategy| {
        (1..=most).flat_map(move |n| {
            let population = Population::new(n).unwrap();
            let layout = move |origin| strategy.layout(population, Rank(origin)).unwrap();
            (0..n).map(move |origin| (n, layout(origin)))
        })
    })
}

#[test]
fn positions_are_all_the_ranks_and_the_first_is_the_origin() {
    for (n, layout) in layouts(40) {
        assert_eq!(layout.position(layout.origin), 0);
        for position in 0..n {
            let rank = layout.rank(position);
            assert_eq!(layout.position(rank), position, "{layout:?}");
            let distance = layout.origin.distance_to(rank, layout.population);
            assert_eq!(layout.distance(position), distance, "{layout:?}");
        }
    }
}

#[test]
fn parts_tile_the_span_and_everybody_gets_it_once() {
    for (n, layout) in layouts(40) {
        let mut times = vec![0; n as usize];
        let mut open = vec![Span::new(0, n)];
        while let Some(span) = open.pop() {
            times[span.start as usize] += 1;
            let mut rest = Span::new(span.start + 1, span.end);
            let mut parts = layout.parts(span.start, rest);
            open.extend(&parts);
            parts.sort_unstable();
            for part in parts {
                assert_eq!(part.start, rest.start);
                rest.start = part.end;
            }
            assert!(rest.is_empty(), "{layout:?}");
        }
        assert!(times.iter().all(|times| *times == 1), "{layout:?}");
    }
}

#[test]
fn down_the_tree_each_hands_to_its_children_and_the_origin_to_the_root_besides() {
    let population = Population::new(15).unwrap();
    for origin in (0..15).map(Rank) {
        let strategy = Strategy::SiblingTree { fanout: 2 };
        let layout = strategy.layout(population, origin).unwrap();
        let MemberOrder::Sibling(tree) = &layout.order else {
            panic!("no tree");
        };
        let shape = tree.shape;
        let mut open = vec![Span::new(0, 15)];
        while let Some(span) = open.pop() {
            let rank = layout.rank(span.start);
            let parts = layout.parts(span.start, Span::new(span.start + 1, span.end));
            let heads: Vec<Rank> = parts.iter().map(|part| layout.rank(part.start)).collect();
            let to_root = (rank == origin && origin != Rank(0)).then_some(Rank(0));
            let children = shape.children(rank).filter(|child| *child != origin);
            let expected: Vec<Rank> = children.chain(to_root).collect();
            assert_eq!(heads, expected, "origin {origin:?} at {rank:?}");
            open.extend(parts);
        }
    }
}

#[test]
fn along_a_chain_each_hands_everything_to_the_next() {
    let population = Population::new(5).unwrap();
    let layout = Strategy::Chain.layout(population, Rank(3)).unwrap();
    let ranks: Vec<u32> = (0..5).map(|at| layout.rank(at).0).collect();
    assert_eq!(ranks, [3, 4, 0, 1, 2]);
    for at in 0..4 {
        let rest = Span::new(at + 1, 5);
        assert_eq!(layout.parts(at, rest), [rest]);
    }
    assert!(layout.parts(4, Span::new(5, 5)).is_empty());
    assert_eq!(layout.heirs(1, Span::new(2, 5)), [Span::new(2, 5)]);
}

#[test]
fn a_lost_child_is_replaced_by_its_children_and_a_lost_finger_by_the_next_rank() {
    let population = Population::new(15).unwrap();
    let strategy = Strategy::SiblingTree { fanout: 2 };
    let tree = strategy.layout(population, Rank(0)).unwrap();
    // The subtree of rank 1 is 1 3 7 8 4 9 10.
    let heads = tree.heirs(1, Span::new(2, 8)).into_iter();
    let heads: Vec<Rank> = heads.map(|part| tree.rank(part.start)).collect();
    assert_eq!(heads, [Rank(3), Rank(4)]);
    let ring = Strategy::Binomial.layout(population, Rank(0)).unwrap();
    assert_eq!(ring.heirs(8, Span::new(9, 15)), [Span::new(9, 15)]);
    assert!(ring.heirs(8, Span::new(9, 9)).is_empty());
}

#[test]
fn impossible_trees_have_no_layout() {
    let population = Population::new(15).unwrap();
    for fanout in [0, 1, 1025, u32::MAX] {
        let strategy = Strategy::SiblingTree { fanout };
        assert!(strategy.layout(population, Rank(0)).is_none());
        assert!(!strategy.is_possible());
    }
}

#[test]
fn every_strategy_is_chosen_by_the_name_that_it_has() {
    for choice in Choice::ALL {
        let strategy = choice.strategy(2, 0);
        assert_eq!(choice.name().parse(), Ok(choice));
        assert!(choice == Choice::Auto || strategy.choice() == choice);
    }
    let error = "star".parse::<Choice>().unwrap_err().to_string();
    assert!(error.contains("star") && error.contains("flood"), "{error}");
}
