use super::*;
use crate::sibling_tree::Fanout;
use binomesh_overlay::Population;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeSet, VecDeque};

fn shape(n: u32, k: u32) -> SiblingTree {
    SiblingTree::new(Population::new(n).unwrap(), Fanout::new(k).unwrap())
}

/// The hops from every rank to `to` over all of these links, without the dead ranks.
fn breadth_first(
    shape: &SiblingTree,
    links: &[Links],
    to: Rank,
    dead: &BTreeSet<Rank>,
) -> Vec<Option<u32>> {
    let mut depth = vec![None; shape.population().get() as usize];
    depth[to.0 as usize] = Some(0);
    let mut open = VecDeque::from([to]);
    while let Some(rank) = open.pop_front() {
        let further = depth[rank.0 as usize].map(|depth| depth + 1);
        for next in links
            .iter()
            .flat_map(|links| shape.neighbours(rank, *links))
        {
            if depth[next.0 as usize].is_none() && !dead.contains(&next) {
                depth[next.0 as usize] = further;
                open.push_back(next);
            }
        }
    }
    depth
}

/// How a packet to one destination ends, and after how many hops.
fn walk(
    router: &(impl Router + ?Sized),
    shape: &SiblingTree,
    reserve: Reserve,
    from: Rank,
    mut packet: Itinerary,
    dead: &BTreeSet<Rank>,
) -> (bool, u32) {
    let (mut here, mut hops) = (from, 0);
    loop {
        match choose_hop(router, shape, reserve, here, &mut packet, |rank| {
            !dead.contains(&rank)
        }) {
            Hop::Forward(next) | Hop::Back(next) => here = next,
            Hop::Arrived => return (true, hops),
            Hop::Lost(_) | Hop::Done => return (false, hops),
        }
        hops += 1;
        if hops > 4 * shape.population().get() {
            return (false, hops);
        }
    }
}

fn packet_to(to: Rank, shape: &SiblingTree) -> Itinerary {
    Itinerary::new([to], shape.population().get() as usize)
}

/// This many dead ranks: scattered, consecutive, or from the top of a subtree on.
fn some_dead(shape: &SiblingTree, count: usize, rng: &mut ChaCha8Rng) -> BTreeSet<Rank> {
    let n = shape.population().get();
    let mut ranks: Vec<Rank> = (0..n).map(Rank).collect();
    match rng.random_range(0..3) {
        0 => ranks.shuffle(rng),
        1 => ranks.rotate_left(rng.random_range(0..n as usize)),
        _ => {
            let top = Rank(rng.random_range(0..n));
            ranks.sort_by_key(|rank| !shape.is_in_subtree(*rank, top));
        }
    }
    ranks.into_iter().take(count).collect()
}

#[test]
fn no_two_routers_have_the_same_name() {
    let names: BTreeSet<&str> = ROUTERS.iter().map(|router| router.name()).collect();
    assert_eq!(names.len(), ROUTERS.len());
}

#[test]
fn aware_finds_the_length_that_breadth_first_search_finds() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let worlds = if cfg!(debug_assertions) {
        1_500
    } else {
        30_000
    };
    for world in 0..worlds {
        let n = rng.random_range(2..=if world % 20 == 0 { 700 } else { 64 });
        let shape = shape(n, rng.random_range(2..=8));
        let count = rng.random_range(0..=n as usize * 2 / 5);
        let dead = some_dead(&shape, count, &mut rng);
        let list: Vec<Rank> = dead.iter().copied().collect();
        let set: RankSet = list.iter().copied().collect();
        let to = Rank(rng.random_range(0..n));
        let depth = breadth_first(&shape, &[Links::SiblingTree], to, &dead);
        for from in (0..n).map(Rank).filter(|from| *from != to) {
            if dead.contains(&to) || dead.contains(&from) {
                continue;
            }
            let found = aware::first_hop(&shape, from, to, [&set, &RankSet::default()]);
            let expected = depth[from.0 as usize];
            let context = format!("world {world}: {from:?} to {to:?}, dead {list:?} in {shape:?}");
            assert_eq!(found.map(|(_, length)| length), expected, "{context}");
            let onward = found.map(|(next, _)| depth[next.0 as usize].map(|depth| depth + 1));
            assert_eq!(onward.flatten(), expected, "{context}");
        }
    }
}

#[test]
fn aware_with_a_complete_list_walks_shortest_paths_exhaustively() {
    for k in 2..=8 {
        for n in (2..=24).chain([31, 40, 63, 64]) {
            let shape = shape(n, k);
            for dead in (0..n).map(Rank) {
                let dead = BTreeSet::from([dead]);
                for to in (0..n).map(Rank).filter(|to| !dead.contains(to)) {
                    let depth = breadth_first(&shape, &[Links::SiblingTree], to, &dead);
                    for from in (0..n).map(Rank).filter(|from| !dead.contains(from)) {
                        let packet = packet_to(to, &shape).knowing(dead.iter().copied());
                        let (is_there, hops) =
                            walk(&Aware, &shape, Reserve::None, from, packet, &dead);
                        let expected = depth[from.0 as usize];
                        let context = format!("{from:?} to {to:?}, dead {dead:?} in {shape:?}");
                        assert_eq!(is_there.then_some(hops), expected, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_reachable_rank_is_reached_within_twice_as_many_hops_as_ranks() {
    let runs = if cfg!(debug_assertions) {
        4_000
    } else {
        100_000
    };
    for seed in 0..runs {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n = rng.random_range(2..=127);
        let shape = shape(n, rng.random_range(2..=8));
        let count = rng.random_range(0..=n as usize * 3 / 10);
        let dead = some_dead(&shape, count, &mut rng);
        let mut living = (0..n).map(Rank).filter(|rank| !dead.contains(rank));
        let from = living
            .clone()
            .nth(rng.random_range(0..n as usize - dead.len()))
            .unwrap();
        let to = living
            .nth(rng.random_range(0..n as usize - dead.len()))
            .unwrap();
        for router in ROUTERS {
            for reserve in [Reserve::None, Reserve::BinomialGraph] {
                let both = [router.links(), Links::BinomialGraph];
                let links = if reserve == Reserve::None {
                    &both[..1]
                } else {
                    &both[..]
                };
                let is_reachable =
                    breadth_first(&shape, links, to, &dead)[from.0 as usize].is_some();
                let packet = packet_to(to, &shape);
                let (is_there, hops) = walk(router, &shape, reserve, from, packet, &dead);
                let context = format!("seed {seed}, {}, {reserve:?}, {shape:?}", router.name());
                assert_eq!(is_there, is_reachable, "{context}");
                assert!(hops <= 2 * (n - 1), "{hops} hops: {context}");
            }
        }
    }
}

#[test]
fn a_full_transit_list_only_leads_back() {
    let shape = shape(63, 2);
    let dead = BTreeSet::from([Rank(1)]);
    for limit in 0..8 {
        let packet = Itinerary::new([Rank(31)], limit);
        let (is_there, hops) = walk(&Variant, &shape, Reserve::None, Rank(0), packet, &dead);
        assert!(
            hops as usize <= 2 * limit && !is_there || limit >= 5,
            "{limit}: {hops}"
        );
    }
}

#[test]
fn the_dead_beyond_the_bound_are_avoided_on_the_leg() {
    let shape = shape(5_000, 4_000);
    let (dead, from): (BTreeSet<Rank>, _) = ((1..4_000).map(Rank).collect(), Rank(0));
    let packet = packet_to(Rank(4_999), &shape);
    let (is_there, _) = walk(&Variant, &shape, Reserve::None, from, packet, &dead);
    assert!(!is_there);
}

#[test]
fn several_destinations_are_visited_nearest_first_with_lists_cleared() {
    let shape = shape(1023, 2);
    let mut packet = Itinerary::new([600, 3, 601, 4].map(Rank), 1023);
    let (mut here, mut reached, mut hops) = (Rank(0), Vec::new(), 0);
    loop {
        match choose_hop(&Variant, &shape, Reserve::None, here, &mut packet, |_| true) {
            Hop::Forward(next) | Hop::Back(next) => here = next,
            Hop::Arrived => {
                reached.push(here);
                assert!(packet.visited().is_empty());
                continue;
            }
            Hop::Lost(lost) => panic!("{lost:?}"),
            Hop::Done => break,
        }
        hops += 1;
    }
    assert_eq!(reached, [3, 4, 600, 601].map(Rank));
    assert_eq!(hops, 2 + 1 + shape.distance(Rank(4), Rank(600)) + 1);
}

#[test]
fn a_destination_found_dead_is_lost_and_the_others_are_not() {
    let shape = shape(15, 2);
    let mut packet = Itinerary::new([Rank(1), Rank(2)], 15);
    let is_live = |rank| rank != Rank(1);
    let hop = |packet: &mut Itinerary| {
        choose_hop(&Variant, &shape, Reserve::None, Rank(0), packet, is_live)
    };
    assert_eq!(hop(&mut packet), Hop::Lost(Rank(1)));
    assert_eq!(hop(&mut packet), Hop::Forward(Rank(2)));
    assert_eq!(packet.dead().iter().collect::<Vec<_>>(), [Rank(1)]);
}

#[test]
fn a_sender_that_died_is_not_gone_back_to() {
    let shape = shape(7, 2);
    let mut packet = packet_to(Rank(0), &shape);
    let first = choose_hop(
        &Variant,
        &shape,
        Reserve::None,
        Rank(3),
        &mut packet,
        |rank| rank == Rank(4),
    );
    assert_eq!(first, Hop::Forward(Rank(4)));
    let second = choose_hop(
        &Variant,
        &shape,
        Reserve::None,
        Rank(4),
        &mut packet,
        |_| false,
    );
    assert_eq!(second, Hop::Lost(Rank(0)));
}

/// A router that never knows a way.
struct Hopeless;

impl Router for Hopeless {
    fn name(&self) -> &'static str {
        "hopeless"
    }

    fn cost(&self, shape: &SiblingTree, from: Rank, to: Rank) -> u32 {
        shape.distance(from, to)
    }

    fn prefer(&self, _: &Step<'_>) -> Option<Rank> {
        None
    }
}

#[test]
fn the_reserve_is_fingers_first_and_then_any_neighbour() {
    let shape = shape(31, 2);
    let fingers: BTreeSet<Rank> = shape.neighbours(Rank(3), Links::BinomialGraph).collect();
    let hop = |reserve, dead: &BTreeSet<Rank>| {
        let mut packet = packet_to(Rank(17), &shape);
        let is_live = |rank| !dead.contains(&rank);
        choose_hop(&Hopeless, &shape, reserve, Rank(3), &mut packet, is_live)
    };
    assert_eq!(hop(Reserve::None, &BTreeSet::new()), Hop::Lost(Rank(17)));
    let Hop::Forward(finger) = hop(Reserve::BinomialGraph, &BTreeSet::new()) else {
        panic!("no finger was taken");
    };
    assert!(fingers.contains(&finger));
    // Of the neighbours of rank 3 in the tree, 6 and 8 are no fingers, and 8 is the parent of 17.
    assert_eq!(hop(Reserve::BinomialGraph, &fingers), Hop::Forward(Rank(8)));
}

#[test]
fn ranks_out_of_range_lead_nowhere_and_do_not_panic() {
    let shape = shape(10, 2);
    for router in ROUTERS {
        for (here, to) in [
            (Rank(3), Rank(10)),
            (Rank(u32::MAX), Rank(3)),
            (Rank(99), Rank(u32::MAX)),
        ] {
            let mut packet = packet_to(to, &shape);
            choose_hop(
                router,
                &shape,
                Reserve::BinomialGraph,
                here,
                &mut packet,
                |_| true,
            );
        }
    }
}
