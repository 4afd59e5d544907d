use super::*;
use crate::outbox::Effect;

type Out = Outbox<u32, Message<u32>>;

/// Node 5, which lists 3, 7 and 9; it has met all of them, and its messages are drained.
fn met() -> (Spanning<u32>, Out) {
    let (mut node, mut out) = (Spanning::new(5, [3, 7, 9, 5, 3]), Out::new());
    for peer in [3, 7, 9] {
        assert_eq!(node.handle(Input::Met(peer), &mut out), Outcome::Nothing);
    }
    assert_eq!(sent_claims(&mut out).len(), 3);
    (node, out)
}

fn sent_claims(out: &mut Out) -> Vec<(u32, Claim<u32>)> {
    let sent = out.drain().filter_map(|effect| match effect {
        Effect::Send {
            to,
            message: Message::Claim(claim),
        } => Some((to, claim)),
        _ => None,
    });
    sent.collect()
}

fn claim(degree: u32, path: &[u32], is_complete: bool) -> Claim<u32> {
    Claim {
        degree,
        path: path.to_vec(),
        is_complete,
    }
}

fn says(node: &mut Spanning<u32>, out: &mut Out, claim: Claim<u32>) -> Outcome<u32> {
    let from = *claim.path.last().unwrap();
    node.handle(Input::Claim { from, claim }, out)
}

#[test]
fn the_greater_degree_wins_then_the_smaller_root_the_shorter_path_the_smaller_neighbour() {
    let (mut node, mut out) = met();
    for (said, ancestors) in [
        // Its own list has three entries.
        (claim(2, &[1, 3], false), &[][..]),
        (claim(3, &[6, 3], false), &[]),
        (claim(3, &[4, 3], false), &[4, 3]),
        (claim(4, &[8, 2, 7], false), &[8, 2, 7]),
        (claim(4, &[1, 2, 4, 9], false), &[1, 2, 4, 9]),
        (claim(4, &[1, 2, 7], false), &[1, 2, 7]),
        (claim(4, &[1, 2, 3], false), &[1, 2, 3]),
        (claim(9, &[0, 5, 9], false), &[1, 2, 3]),
    ] {
        let _ = says(&mut node, &mut out, said.clone());
        assert_eq!(node.ancestors(), ancestors, "{said:?}");
    }
    assert!(
        sent_claims(&mut out)
            .iter()
            .all(|(_, claim)| claim.path.last() == Some(&5))
    );
}

#[test]
fn a_claim_ends_with_its_link_and_with_a_worse_one() {
    let (mut node, mut out) = met();
    let _ = says(&mut node, &mut out, claim(9, &[1, 3], false));
    let _ = says(&mut node, &mut out, claim(8, &[2, 7], false));
    assert_eq!(node.ancestors(), [1, 3]);
    let _ = says(&mut node, &mut out, claim(1, &[3], false));
    assert_eq!(node.ancestors(), [2, 7]);
    let _ = node.handle(Input::Lost(7), &mut out);
    assert_eq!(node.ancestors(), []);
}

#[test]
fn a_claim_that_goes_to_and_fro_is_told_some_times_before_the_next_tick_and_a_better_one_often() {
    let (mut node, mut out) = met();
    for round in 0..999 {
        let _ = says(&mut node, &mut out, claim(9 + round % 2, &[1, 3], false));
    }
    let turns = usize::from(BUDGET / TURN);
    assert!((2 * turns - 4..=2 * turns).contains(&(sent_claims(&mut out).len() / 3)));
    let _ = node.handle(Input::Tick, &mut out);
    let now = claim(9, &[1, 3, 5], false);
    assert_eq!(sent_claims(&mut out).last(), Some(&(9, now)));
    for degree in 10..9999 {
        let _ = says(&mut node, &mut out, claim(degree, &[1, 3], false));
    }
    assert_eq!(sent_claims(&mut out).len(), 3 * usize::from(BUDGET));
}

#[test]
fn a_listed_neighbour_that_was_given_up_is_one_again_when_it_can_be_spoken_to() {
    let (mut node, mut out) = (Spanning::new(5, [3, 7]), Out::new());
    let _ = says(&mut node, &mut out, claim(0, &[3], false));
    for _ in 0..2 {
        let _ = node.handle(Input::Tick, &mut out);
    }
    assert!(!node.has_neighbour(7));
    let _ = node.handle(Input::Met(7), &mut out);
    let _ = node.handle(Input::Placed(7), &mut out);
    let outcome = node.handle(Input::Tick, &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![7]));
}

#[test]
fn a_node_with_a_complete_subtree_tells_its_parent_alone() {
    let (mut node, mut out) = met();
    let _ = says(&mut node, &mut out, claim(9, &[1, 3], false));
    let _ = says(&mut node, &mut out, claim(9, &[1, 3, 5, 7], false));
    let _ = says(&mut node, &mut out, claim(9, &[1, 2, 9], false));
    let _ = sent_claims(&mut out);
    // Node 7, which hangs below node 5, was not complete and is so now; node 9 hangs elsewhere.
    let _ = says(&mut node, &mut out, claim(9, &[1, 3, 5, 7], true));
    assert_eq!(sent_claims(&mut out), [(3, claim(9, &[1, 3, 5], true))]);
    // Node 5 learns of another root: it is not complete any more.
    let _ = says(&mut node, &mut out, claim(10, &[0, 9], false));
    assert!(
        sent_claims(&mut out)
            .iter()
            .all(|(_, claim)| !claim.is_complete)
    );
}

#[test]
fn a_node_goes_below_a_placed_neighbour_the_one_of_its_claim_if_that_comes_in_time() {
    let (mut node, mut out) = met();
    let _ = says(&mut node, &mut out, claim(9, &[1, 3], false));
    let _ = says(&mut node, &mut out, claim(9, &[1, 2, 9], false));
    for placed in [4, 9] {
        let outcome = node.handle(Input::Placed(placed), &mut out);
        assert_eq!(outcome, Outcome::Nothing, "{placed}");
    }
    let outcome = node.clone().handle(Input::Placed(3), &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![1, 3]));
    let outcome = node.clone().handle(Input::Tick, &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![9]));
    let outcome = node.handle(Input::Lost(3), &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![1, 2, 9]));
}

#[test]
fn the_silent_are_waited_for_until_nobody_further_speaks() {
    let (mut node, mut out) = met();
    // No neighbour has spoken: the others may not have started.
    for _ in 0..9 {
        assert_eq!(node.handle(Input::Tick, &mut out), Outcome::Nothing);
    }
    let _ = says(&mut node, &mut out, claim(3, &[5, 3], true));
    let _ = says(&mut node, &mut out, claim(3, &[5, 4], true));
    assert!(node.has_neighbour(4), "whoever speaks is introduced");
    assert_eq!(node.handle(Input::Tick, &mut out), Outcome::Nothing);
    assert!(node.has_neighbour(7), "somebody has just spoken");
    let outcome = node.handle(Input::Tick, &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![]));
    assert!(!node.has_neighbour(7) && node.has_neighbour(3));
}

#[test]
fn a_neighbour_that_does_not_repeat_its_claim_is_gone() {
    let (mut node, mut out) = met();
    let _ = says(&mut node, &mut out, claim(9, &[1, 3], false));
    for _ in 0..SILENCES_MAX {
        assert_eq!(node.ancestors(), [1, 3]);
        let _ = says(&mut node, &mut out, claim(1, &[7], false));
        assert_eq!(node.handle(Input::Tick, &mut out), Outcome::Nothing);
    }
    assert!(!node.has_neighbour(3) && node.has_neighbour(7));
    assert_eq!(node.ancestors(), []);
}

#[test]
fn a_neighbour_that_agrees_with_nobody_holds_the_root_up_for_some_ticks_alone() {
    let (mut node, mut out) = met();
    for _ in 0..STEADY {
        let _ = says(&mut node, &mut out, claim(0, &[3], false));
        assert_eq!(node.handle(Input::Tick, &mut out), Outcome::Nothing);
    }
    let outcome = node.handle(Input::Tick, &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![]));
}

#[test]
fn a_longer_way_to_a_root_that_was_near_is_taken_after_a_tick() {
    let (mut node, mut out) = met();
    let _ = says(&mut node, &mut out, claim(9, &[3], false));
    let _ = says(&mut node, &mut out, claim(9, &[3, 7], false));
    let _ = says(&mut node, &mut out, claim(4, &[1, 9], false));
    assert_eq!(node.ancestors(), [3]);
    let _ = node.handle(Input::Lost(3), &mut out);
    assert_eq!(node.ancestors(), [1, 9], "a root of lower degree");
    // The first path is back. It is no longer than the shortest one was.
    let _ = says(&mut node, &mut out, claim(9, &[3], false));
    assert_eq!(node.ancestors(), [3]);
    let _ = node.handle(Input::Lost(3), &mut out);
    let _ = node.handle(Input::Tick, &mut out);
    assert_eq!(node.ancestors(), [3, 7]);
}

#[test]
fn of_many_roots_the_best_are_remembered() {
    let (mut node, mut out) = met();
    let count = MAX_ROOTS as u32 + 9;
    for degree in 4..4 + count {
        let _ = says(&mut node, &mut out, claim(degree, &[3], false));
        assert!(node.nearest.len() <= MAX_ROOTS);
    }
    let best = node.nearest.first_key_value();
    assert_eq!(best, Some((&(Reverse(3 + count), 3), &1)));
    assert_eq!(node.nearest.len(), MAX_ROOTS);
}

#[test]
fn a_node_that_knows_nobody_waits_one_tick_for_a_neighbour() {
    let (mut node, mut out) = (Spanning::new(5, []), Out::new());
    assert_eq!(node.handle(Input::Lost(1), &mut out), Outcome::Nothing);
    let outcome = node.handle(Input::Tick, &mut out);
    assert_eq!(outcome, Outcome::Formed(vec![]));
}

#[test]
fn invalid_claims_change_nothing_and_strangers_are_bounded() {
    let (mut node, mut out) = met();
    let long: Vec<u32> = (10..10 + Claim::<u32>::MAX_PATH as u32)
        .chain([3])
        .collect();
    for path in [&[][..], &[1, 4], &long] {
        let claim = claim(9, path, false);
        let _ = node.handle(Input::Claim { from: 3, claim }, &mut out);
        assert_eq!(node.ancestors(), []);
    }
    for stranger in 100..100 + 2 * MAX_STRANGERS as u32 {
        let _ = node.handle(Input::Met(stranger), &mut out);
        assert!(!node.has_neighbour(stranger), "it has said nothing");
        let _ = says(&mut node, &mut out, claim(1, &[stranger], false));
    }
    assert_eq!(node.neighbours().len(), 3 + MAX_STRANGERS);
}

#[test]
fn a_long_path_introduces_its_ends() {
    let long: Vec<u32> = (0..100).collect();
    let introduced = Message::Claim(claim(1, &long, false)).introduces();
    assert!(introduced.iter().copied().eq((0..32).chain(96..100)));
    let short = Message::Claim(claim(1, &[1, 2], false)).introduces();
    assert_eq!(short, [1, 2]);
}
