//! The visits between the rounds of rule 1: one level at a time.

use Direction::{Clockwise, Counterclockwise};
use binomesh_overlay::Outbox;
use binomesh_overlay::fingers::{Direction, Fingers, Message, Rules};
use binomesh_overlay::stamp::Mark;

use super::bed::{Placed, mark, on, placed, population, sent};

fn asks(fingers: &mut Placed, level: usize) -> Vec<(u32, Message<u32, Mark<u32>>)> {
    let mut out = Outbox::new();
    fingers.confirm(level, 0, &[], &mut out);
    sent(&mut out)
}

/// Rank `rank` of 11 with its ring neighbours.
fn ringed(rank: u32) -> Placed {
    let mut fingers = placed(11, rank);
    let mut out = Outbox::<u32, Message<u32, Mark<u32>>>::new();
    let (next, previous) = (100 + (rank + 1) % 11, 100 + (rank + 10) % 11);
    let _ = fingers.set_ring(Some(next), Some(previous), Rules::default(), &mut out);
    fingers
}

#[test]
fn a_visit_confirms_a_right_finger_and_changes_nothing() {
    let (mut three, mut four) = (ringed(3), ringed(4));
    let before = four.clone();
    let asked = asks(&mut three, 0);
    let question = Message::Confirm {
        level: 0,
        direction: Clockwise,
        mark: mark(1, 3),
    };
    assert_eq!(asked[0], (104, question));
    let answered = on(&mut four, 103, question);
    let answer = Message::Confirmed {
        level: 0,
        direction: Clockwise,
        mark: mark(1, 4),
    };
    assert_eq!(answered, [(103, answer)]);
    assert_eq!(four, before);
    on(&mut three, 104, answer);
    assert!(!three.is_confirmed(0), "only one of the two has answered");
    let back = Message::Confirmed {
        level: 0,
        direction: Counterclockwise,
        mark: mark(1, 2),
    };
    on(&mut three, 102, back);
    assert!(three.is_confirmed(0));
}

#[test]
fn a_visit_mends_the_opposite_entry() {
    let mut four = placed(11, 4);
    let question = Message::Confirm {
        level: 1,
        direction: Clockwise,
        mark: mark(1, 2),
    };
    assert_eq!(on(&mut four, 102, question).len(), 1);
    assert_eq!(four.counterclockwise()[1], Some(102));
}

#[test]
fn a_visit_to_a_wrong_finger_is_denied_and_clears_it() {
    let (mut three, mut five) = (ringed(3), ringed(5));
    on(
        &mut three,
        104,
        Message::Down {
            level: 1,
            subject: 108,
            mark: mark(1, 5),
        },
    );
    let question = Message::Confirm {
        level: 1,
        direction: Clockwise,
        mark: mark(1, 3),
    };
    assert!(asks(&mut three, 1).contains(&(108, question)));
    let denial = |rank| Message::Deny {
        level: 1,
        direction: Clockwise,
        mark: mark(1, rank),
    };
    assert_eq!(on(&mut ringed(8), 103, question), [(103, denial(8))]);
    on(&mut three, 105, denial(5));
    assert_eq!(
        three.clockwise()[1],
        Some(108),
        "only the finger itself may deny"
    );
    let foreign = Message::Deny {
        level: 1,
        direction: Clockwise,
        mark: mark(2, 8),
    };
    on(&mut three, 108, foreign);
    assert_eq!(
        three.clockwise()[1],
        Some(108),
        "another epoch says nothing"
    );
    let sought = Message::Seek {
        level: 1,
        direction: Clockwise,
        mark: mark(1, 3),
    };
    assert_eq!(
        on(&mut three, 108, denial(8)),
        [(104, sought)],
        "asked for the right one"
    );
    assert_eq!(three.clockwise()[1], None);
    assert_eq!(
        on(
            &mut five,
            103,
            Message::Confirm {
                level: 1,
                direction: Clockwise,
                mark: mark(2, 3),
            }
        ),
        [],
        "of another epoch: not answered"
    );
}

#[test]
fn a_missing_finger_is_sought_one_level_below() {
    let (mut three, mut four) = (ringed(3), ringed(4));
    let question = Message::Seek {
        level: 1,
        direction: Clockwise,
        mark: mark(1, 3),
    };
    assert_eq!(asks(&mut three, 1)[0], (104, question));
    let found = Message::Down {
        level: 1,
        subject: 105,
        mark: mark(1, 5),
    };
    assert_eq!(on(&mut four, 103, question), [(103, found)]);
    on(&mut three, 104, found);
    assert_eq!(three.clockwise()[1], Some(105));
    let forged = Message::Seek {
        level: 1,
        direction: Clockwise,
        mark: mark(1, 9),
    };
    assert_eq!(on(&mut four, 109, forged), []);
}

#[test]
fn without_marks_a_visit_contradicts_nobody() {
    let mut fingers: Fingers<u32, ()> = Fingers::new(0, population(8), ());
    let mut out = Outbox::<u32, Message<u32, ()>>::new();
    let _ = fingers.set_ring(Some(1), Some(7), Rules::default(), &mut out);
    let question = Message::Confirm {
        level: 0,
        direction: Clockwise,
        mark: (),
    };
    let denied = Message::Deny {
        level: 0,
        direction: Clockwise,
        mark: (),
    };
    assert_eq!(on(&mut fingers, 3, question), [(3, denied)]);
    assert_eq!(fingers.counterclockwise()[0], Some(7));
}

/// Lets every process visit its fingers of `level`, and delivers all messages that follow.
fn visit_all(members: &mut [Placed], level: usize) {
    let mut waiting = Vec::new();
    for (rank, fingers) in members.iter_mut().enumerate() {
        let from = 100 + rank as u32;
        waiting.extend(
            asks(fingers, level)
                .into_iter()
                .map(|(to, m)| (from, to, m)),
        );
    }
    // At most ten steps: a question, its answer, a search, its result, and one introduction for
    // each level above.
    for _ in 0..10 {
        for (from, to, message) in std::mem::take(&mut waiting) {
            let answers = on(&mut members[to as usize - 100], from, message);
            waiting.extend(answers.into_iter().map(|(next, m)| (to, next, m)));
        }
    }
    assert!(waiting.is_empty(), "a visit ends: {waiting:?}");
}

fn is_right(members: &[Placed]) -> bool {
    let order: Vec<u32> = (100..100 + members.len() as u32).collect();
    let at = |name: u32| &members[name as usize - 100];
    let (ahead, behind) = (
        |name| at(name).clockwise(),
        |name| at(name).counterclockwise(),
    );
    binomesh_overlay::legitimate::is_binomial_graph(&order, ahead, behind)
}

#[test]
fn visits_to_each_level_in_turn_repair_every_link() {
    for n in [3, 4, 5, 8, 11, 16, 33] {
        let levels = population(n).levels();
        let name = |rank: u32| Some(100 + rank % n);
        let tables = |rank: u32, wrong: u32| {
            let mut tables = [[None; binomesh_overlay::placement::MAX_LEVELS]; 2];
            let [ahead, behind] = &mut tables;
            let entries = ahead.iter_mut().zip(behind).enumerate();
            for (level, (ahead, behind)) in entries.take(levels) {
                // Level 0 is the ring. Above it some entries are wrong and some are missing.
                let is_wrong = level > 0 && (rank + level as u32).is_multiple_of(3);
                let is_missing = level > 0 && (rank + level as u32) % 3 == 1;
                let shift = if is_wrong { wrong } else { 0 };
                *ahead = name(rank + (1 << level) + shift).filter(|_| !is_missing);
                *behind = name(rank + 64 * n - (1 << level) + shift);
            }
            tables.map(|table| table.map(|entry| entry.filter(|&peer| Some(peer) != name(rank))))
        };
        for wrong in 1..3 {
            let mut members: Vec<Placed> = (0..n)
                .map(|rank| {
                    let [ahead, behind] = tables(rank, wrong);
                    let placement = *placed(n, rank).stamp();
                    Placed::corrupted(100 + rank, population(n), placement, ahead, behind)
                })
                .collect();
            assert!(!is_right(&members), "N={n}: nothing to repair");
            (0..levels).for_each(|level| visit_all(&mut members, level));
            assert!(is_right(&members), "N={n}, wrong by {wrong}");
        }
    }
}
