//! The rules of the census, on the census alone.

use super::*;
use crate::outbox::Effect;

fn population(n: u32) -> Population {
    Population::new(n).unwrap()
}

fn epoch(counter: u64) -> Epoch<u32> {
    Epoch {
        root: 0,
        boot: 1,
        counter,
        nonce: 0,
    }
}

fn in_force(epoch: Epoch<u32>, population: Population, belongs: bool) -> InForce<u32> {
    InForce {
        epoch,
        population,
        belongs,
    }
}

fn sent(out: &mut Out<u32>) -> impl Iterator<Item = (u32, Message<u32>)> + '_ {
    out.drain().filter_map(|effect| match effect {
        Effect::Send {
            to,
            message: crate::Message::Census(message),
        } => Some((to, message)),
        _ => None,
    })
}

fn places(out: &mut Out<u32>) -> Vec<(u32, u32, u64)> {
    let places = sent(out).filter_map(|(to, message)| match message {
        Message::Place {
            placement, version, ..
        } => Some((to, placement.rank.0, version)),
        _ => None,
    });
    places.collect()
}

/// The standing of a child that holds these ranks of epoch 1.
fn standing(first: u32, last: u32, count: u32) -> Option<Standing<u32>> {
    let placement = Placement {
        epoch: epoch(1),
        population: population(6),
        rank: Rank(first),
    };
    Some(Standing {
        last: Rank(last),
        count,
        ..Standing::of(&placement)
    })
}

/// A root at rank 0 of 6 with children at 1 (three members) and 4 (two).
fn root_of_six() -> Census<u32> {
    let mut census = Census::new(0, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.on_size(5, 50, population(2), None, 0, Evidence::Unmet);
    census.recount([7, 5].into_iter());
    census.open_epoch(epoch(1), &[7, 5], &mut Out::new());
    census.on_size(7, 70, population(3), standing(1, 3, 3), 0, Evidence::Unmet);
    census.on_size(5, 50, population(2), standing(4, 5, 2), 0, Evidence::Unmet);
    census
}

#[test]
fn a_death_leaves_a_rank_vacant() {
    let mut census = root_of_six();
    census.on_size(7, 71, population(2), standing(1, 2, 2), 0, Evidence::Unmet);
    census.recount([7, 5].into_iter());
    assert_eq!(census.need(), Need::Vacant(1));
    // The member is back, under another parent, and has no rank yet.
    census.on_size(5, 51, population(3), standing(4, 5, 2), 0, Evidence::Unmet);
    census.recount([7, 5].into_iter());
    assert_eq!(census.need(), Need::Recall);
}

#[test]
fn a_newcomer_needs_an_epoch_and_ranks_out_of_order_are_a_disorder() {
    let mut newcomer = root_of_six();
    newcomer.on_size(5, 51, population(3), standing(4, 5, 2), 0, Evidence::Unmet);
    newcomer.recount([7, 5].into_iter());
    assert_eq!(newcomer.need(), Need::Epoch);
    let mut disorder = root_of_six();
    disorder.on_size(7, 71, population(3), standing(1, 5, 3), 0, Evidence::Unmet);
    disorder.recount([7, 5].into_iter());
    assert_eq!(disorder.need(), Need::Disorder);
}

#[test]
fn a_returning_member_is_no_newcomer_until_it_has_had_time_to_find_its_rank() {
    let mut census = root_of_six();
    // The member and its child hang under another parent, and are still counted at their old place.
    census.on_size(5, 51, population(4), standing(4, 5, 2), 1, Evidence::Unmet);
    census.recount([7, 5].into_iter());
    assert_eq!(census.need(), Need::Recall);
    census.on_size(5, 52, population(4), standing(4, 5, 2), 0, Evidence::Unmet);
    assert_eq!(census.need(), Need::Epoch);
}

#[test]
fn a_member_counted_twice_keeps_its_first_rank() {
    let mut census: Census<u32> = Census::new(0, false);
    let mut out = Out::new();
    let mut told = |counter, rank| {
        let placement = Placement {
            epoch: epoch(counter),
            population: population(6),
            rank: Rank(rank),
        };
        let is_new = census.on_place(placement, 0, false, &[], &mut out);
        (is_new, census.placement().map(|mine| mine.rank.0))
    };
    assert_eq!(told(1, 3), (true, Some(3)));
    assert_eq!(
        told(1, 5),
        (false, Some(3)),
        "its new parent counted it too"
    );
    assert_eq!(told(1, 3), (false, Some(3)));
    assert_eq!(told(2, 5), (true, Some(5)), "an epoch numbers anew");
}

#[test]
fn a_rank_is_recalled_only_between_the_ranks_of_the_neighbours() {
    let back = || {
        let mut census: Census<u32> = Census::new(0, false);
        census.on_in_force(
            in_force(epoch(1), population(6), false),
            &[],
            &mut Out::new(),
        );
        census
    };
    for (claim, before, after, is_taken) in [
        (3, 2, 4, true),
        (3, 1, 5, true),
        (0, 5, 1, true),
        (3, 3, 4, false),
        (3, 2, 3, false),
        (4, 2, 4, false),
        (3, 2, 2, true),
        (2, 2, 2, false),
        (6, 5, 1, false),
    ] {
        let mut census = back();
        let taken = census.recall(&[Rank(claim)], Rank(before), Rank(after));
        assert_eq!(taken, is_taken, "{claim} between {before} and {after}");
        let rank = census.placement().map(|placement| placement.rank.0);
        assert_eq!(rank, is_taken.then_some(claim));
    }
}

#[test]
fn the_place_of_an_unknown_count_is_one_to_recall() {
    let mut census: Census<u32> = Census::new(100, false);
    let placement = Placement {
        epoch: epoch(1),
        population: population(6),
        rank: Rank(3),
    };
    assert!(!census.on_place(placement, 9, false, &[], &mut Out::new()));
    assert!(census.recall(&[], Rank(2), Rank(4)));
    // A recalled rank is for one node alone: its children are told what is in force.
    let mut out = Out::new();
    census.beat(&[8], &mut out);
    let told: Vec<_> = sent(&mut out).collect();
    let expected = Message::InForce {
        epoch: epoch(1),
        population: population(6),
        belongs: false,
    };
    assert_eq!(told, [(8, expected)]);
}

#[test]
fn ranks_follow_the_order_of_children_and_their_sizes() {
    let mut census = Census::new(0, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.on_size(5, 50, population(2), None, 0, Evidence::Unmet);
    assert!(census.recount([7, 5].into_iter()));
    assert_eq!(census.size(), population(6));
    let mut out = Out::new();
    census.open_epoch(epoch(1), &[7, 5], &mut out);
    assert_eq!(places(&mut out), [(7, 1, 70), (5, 4, 50)]);
    assert_eq!(census.need(), Need::Nothing);
}

#[test]
fn a_join_during_the_wave_is_given_no_rank() {
    let mut census = Census::new(100, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.recount([7].into_iter());
    census.on_size(5, 50, population(2), None, 0, Evidence::Unmet);
    census.recount([5, 7].into_iter());
    let placement = Placement {
        epoch: epoch(1),
        population: population(9),
        rank: Rank(4),
    };
    let mut out = Out::new();
    // The root has counted this subtree by version 101, which did not include node 5 yet.
    assert!(census.on_place(placement, 101, false, &[5, 7], &mut out));
    assert_eq!(places(&mut out), [(7, 5, 70)]);
    let (epoch, population) = (placement.epoch, placement.population);
    assert!(out.is_empty() && census.in_force().is_none());
    census.beat(&[5, 7], &mut out);
    let told: Vec<_> = sent(&mut out).collect();
    let unknown = Message::InForce {
        epoch,
        population,
        belongs: false,
    };
    assert!(told.contains(&(5, unknown)), "{told:?}");
}

#[test]
fn a_place_for_an_unknown_count_or_one_too_narrow_is_ignored() {
    let mut census: Census<u32> = Census::new(100, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.recount([7].into_iter());
    let mut out = Out::new();
    let place = |rank| Placement {
        epoch: epoch(1),
        population: population(9),
        rank: Rank(rank),
    };
    assert!(!census.on_place(place(4), 99, false, &[7], &mut out));
    assert!(!census.on_place(place(6), 101, false, &[7], &mut out));
    assert!(census.placement().is_none() && out.is_empty());
}

/// Which children are told whether the overlay is the cluster's, and what they are told.
fn words(out: &mut Out<u32>) -> Vec<(u32, bool)> {
    let words = sent(out).filter_map(|(to, message)| match message {
        Message::Place { belongs, .. } | Message::InForce { belongs, .. } => Some((to, belongs)),
        Message::Size { .. } => None,
    });
    words.collect()
}

#[test]
fn the_good_word_of_the_root_is_passed_on_at_once_and_remembered() {
    let mut census = Census::new(100, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.recount([7].into_iter());
    let place = Placement {
        epoch: epoch(1),
        population: population(9),
        rank: Rank(4),
    };
    let mut out = Out::new();
    assert!(census.on_place(place, 101, false, &[7], &mut out));
    assert_eq!(
        (words(&mut out), census.belongs()),
        (vec![(7, false)], false)
    );
    assert!(!census.on_place(place, 101, true, &[7], &mut out));
    assert_eq!((words(&mut out), census.belongs()), (vec![(7, true)], true));
    assert!(!census.on_place(place, 101, true, &[7], &mut out));
    assert_eq!(words(&mut out), [], "no news");
    // The next root does not know that the overlay is the cluster's, and learns it from below.
    census.on_in_force(
        in_force(place.epoch, place.population, false),
        &[7],
        &mut out,
    );
    assert_eq!((words(&mut out), census.belongs()), (vec![], false));
    census.beat(&[7], &mut out);
    assert_eq!(words(&mut out), [(7, false)], "with the beat");
    assert_eq!(census.evidence(), Evidence::Member);
    // A word about another epoch does not count for this one.
    census.on_in_force(in_force(epoch(2), place.population, true), &[7], &mut out);
    assert!(!census.belongs() && out.is_empty());
}

#[test]
fn a_child_without_a_report_may_have_met_nobody() {
    let mut census: Census<u32> = Census::new(0, false);
    census.find(Evidence::Met);
    census.recount([7].into_iter());
    assert_eq!(census.evidence(), Evidence::Unmet);
    for (said, evidence) in [
        (Evidence::Unmet, Evidence::Unmet),
        (Evidence::Met, Evidence::Met),
        (Evidence::Member, Evidence::Member),
    ] {
        census.on_size(7, 70, Population::ONE, None, 0, said);
        census.recount([7].into_iter());
        assert_eq!(census.evidence(), evidence);
    }
    census.recount(std::iter::empty());
    assert_eq!(
        census.evidence(),
        Evidence::Met,
        "that of a former child is forgotten"
    );
}

#[test]
fn the_report_of_a_former_child_is_forgotten() {
    let mut census = Census::new(0, false);
    census.on_size(7, 70, population(3), None, 0, Evidence::Unmet);
    census.recount([7].into_iter());
    assert!(census.recount(std::iter::empty()));
    assert_eq!((census.size(), census.size_of(7)), (Population::ONE, 0));
}
