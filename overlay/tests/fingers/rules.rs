//! Tests of the rules of [BMG09] Algorithm 2.

use binomesh_overlay::fingers::{Fingers, Forwarding, Message, Rules};
use binomesh_overlay::stamp::Mark;
use binomesh_overlay::{Changed, Outbox, Population};

use super::bed::{mark, on, placed, population, run, sent};

/// A process as in the paper: its entries carry no marks.
type Plain = Fingers<u32, ()>;

fn up(level: u8, subject: u32) -> Message<u32, ()> {
    Message::Up {
        level,
        subject,
        mark: (),
    }
}

fn down(level: u8, subject: u32) -> Message<u32, ()> {
    Message::Down {
        level,
        subject,
        mark: (),
    }
}

/// Process 0 of `n`, whose ring neighbours are `n - 1` and 1.
fn zero(n: u32) -> Plain {
    let mut fingers = Plain::new(0, population(n), ());
    let mut out = Outbox::<u32, Message<u32, ()>>::new();
    let _ = fingers.set_ring(Some(1), Some(n - 1), Rules::default(), &mut out);
    fingers
}

#[test]
fn alg2_rule_1_introduces_the_ring_neighbours_to_each_other() {
    let mut fingers = Plain::new(0, population(8), ());
    let mut out = Outbox::<u32, Message<u32, ()>>::new();
    assert_eq!(
        fingers.set_ring(Some(1), None, Rules::default(), &mut out),
        Changed::YES
    );
    assert!(
        out.is_empty(),
        "one neighbour cannot be introduced to itself"
    );
    assert_eq!(
        fingers.set_ring(Some(1), Some(7), Rules::default(), &mut out),
        Changed::YES
    );
    assert_eq!(sent(&mut out), [(1, up(1, 7)), (7, down(1, 1))]);
    assert_eq!(
        fingers.set_ring(Some(1), Some(7), Rules::default(), &mut out),
        Changed::NO
    );
    assert!(out.is_empty(), "unchanged, it waits for the next round");
    fingers.refresh(Rules::default(), &mut out);
    assert_eq!(sent(&mut out), [(1, up(1, 7)), (7, down(1, 1))]);
}

#[test]
fn alg2_rule_1_needs_more_than_two_processes() {
    let mut lone = Plain::new(0, Population::ONE, ());
    let mut out = Outbox::<u32, Message<u32, ()>>::new();
    assert_eq!(
        lone.set_ring(Some(0), Some(0), Rules::default(), &mut out),
        Changed::NO
    );
    assert!(lone.is_complete() && lone.clockwise().is_empty());
    let mut fingers = Plain::new(0, population(2), ());
    let _ = fingers.set_ring(Some(1), Some(1), Rules::default(), &mut out);
    assert!(out.is_empty());
    assert!(fingers.is_complete());
    assert_eq!(fingers.clockwise(), [Some(1)]);
    assert_eq!(
        fingers.set_ring(Some(0), Some(0), Rules::default(), &mut out),
        Changed::YES
    );
    assert_eq!(fingers.clockwise(), [None], "nobody is its own neighbour");
}

#[test]
fn alg2_rule_2_stores_up_counterclockwise_and_waits_for_the_pair() {
    let mut fingers = zero(16);
    assert_eq!(on(&mut fingers, 15, up(1, 14)), []);
    assert_eq!(fingers.counterclockwise()[1], Some(14));
    // The message that completes the pair introduces both.
    let both = [(2, up(2, 14)), (14, down(2, 2))];
    assert_eq!(on(&mut fingers, 1, down(1, 2)), both);
}

#[test]
fn alg2_rule_2_up_begets_up_when_it_repeats() {
    let mut fingers = zero(16);
    on(&mut fingers, 15, up(1, 14));
    on(&mut fingers, 1, down(1, 2));
    assert_eq!(on(&mut fingers, 15, up(1, 14)), [(2, up(2, 14))]);
    // A message that changes the pair introduces both again.
    assert_eq!(
        on(&mut fingers, 15, up(1, 13)),
        [(2, up(2, 13)), (13, down(2, 2))]
    );
}

#[test]
fn alg2_rule_3_down_begets_down_when_it_repeats() {
    let mut fingers = zero(16);
    on(&mut fingers, 15, up(1, 14));
    on(&mut fingers, 1, down(1, 2));
    assert_eq!(on(&mut fingers, 1, down(1, 2)), [(14, down(2, 2))]);
}

#[test]
fn alg2_rules_2_and_3_stop_below_n() {
    // N = 8: level 2 is the last, as 2^3 is not < 8; the paper's ≤ would go on.
    let mut fingers = zero(8);
    for message in [up(1, 6), down(1, 2), up(2, 4)] {
        on(&mut fingers, 1, message);
    }
    assert_eq!(on(&mut fingers, 2, down(2, 4)), []);
    assert!(fingers.is_complete());
}

#[test]
fn alg2_a_level_out_of_range_is_ignored() {
    let mut fingers = zero(8);
    let before = fingers.clone();
    for level in [0, 3, 4, 23, 24, 31, 32, 63, 64, 255] {
        assert_eq!(on(&mut fingers, 1, up(level, 4)), []);
        assert_eq!(on(&mut fingers, 1, down(level, 4)), []);
    }
    assert_eq!(fingers, before);
}

#[test]
fn alg2_nobody_is_its_own_finger_nor_introduced_to_itself() {
    let mut fingers = zero(16);
    assert_eq!(on(&mut fingers, 15, up(1, 0)), []);
    assert_eq!(fingers.counterclockwise()[1], None);
    on(&mut fingers, 15, up(1, 9));
    assert_eq!(
        on(&mut fingers, 1, down(1, 9)),
        [],
        "9 is not 4 away from 9"
    );
}

#[test]
fn alg2_literal_forwarding_begets_both() {
    let rules = Rules {
        forwarding: Forwarding::Literal,
        ..Rules::default()
    };
    let mut fingers = zero(16);
    assert_eq!(
        run(&mut fingers, 15, up(1, 14), rules),
        [],
        "an unset destination"
    );
    run(&mut fingers, 1, down(1, 2), rules);
    let both = [(2, up(2, 14)), (14, down(2, 2))];
    assert_eq!(run(&mut fingers, 15, up(1, 14), rules), both);
}

#[test]
fn an_introduction_counts_only_if_the_arithmetic_holds() {
    let mut fingers = placed(11, 3);
    let one = |mark| Message::Up {
        level: 1,
        subject: 101,
        mark,
    };
    for wrong in [mark(2, 1), mark(1, 0), mark(1, 5), mark(1, u32::MAX)] {
        on(&mut fingers, 102, one(wrong));
        assert_eq!(fingers.counterclockwise()[1], None, "{wrong:?}");
    }
    on(&mut fingers, 102, one(mark(1, 1)));
    assert_eq!(fingers.counterclockwise()[1], Some(101));
}

#[test]
fn an_introduction_carries_the_subjects_mark() {
    let mut fingers = placed(11, 0);
    let mut out = Outbox::<u32, Message<u32, Mark<u32>>>::new();
    let _ = fingers.set_ring(Some(101), Some(110), Rules::default(), &mut out);
    let introduced = [
        (
            101,
            Message::Up {
                level: 1,
                subject: 110,
                mark: mark(1, 10),
            },
        ),
        (
            110,
            Message::Down {
                level: 1,
                subject: 101,
                mark: mark(1, 1),
            },
        ),
    ];
    assert_eq!(sent(&mut out), introduced);
}

#[test]
fn a_new_numbering_clears_the_levels_it_does_not_have() {
    let mut fingers = zero(16);
    for message in [
        up(1, 14),
        down(1, 2),
        up(2, 12),
        down(2, 4),
        up(3, 8),
        down(3, 8),
    ] {
        on(&mut fingers, 1, message);
    }
    assert!(fingers.is_complete());
    assert_eq!(fingers.renumber(population(5), ()), Changed::YES);
    assert_eq!(fingers.clockwise(), [Some(1), Some(2), Some(4)]);
    assert_eq!(fingers.forget(2), Changed::YES);
    assert_eq!(fingers.clockwise(), [Some(1), None, Some(4)]);
}

#[cfg(feature = "planted")]
#[test]
fn planted_level_bound_goes_red() {
    let rules = Rules {
        planted: binomesh_overlay::Planted::new(binomesh_overlay::Bug::LevelBound),
        ..Rules::default()
    };
    let mut fingers = zero(8);
    for message in [up(1, 6), down(1, 2), up(2, 4)] {
        run(&mut fingers, 1, message, rules);
    }
    let beyond = run(&mut fingers, 2, down(2, 4), rules);
    assert_ne!(
        beyond,
        [],
        "the clause test of rules 2 and 3 would not notice"
    );
}
