//! Tests that break each rule once.

use binomesh::peer::Event;
use binomesh_routing::collective::{Number, Op, Operator, ReduceError, join_parts};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// The time at which all members call, long after the world has formed.
const BEGIN: Duration = Duration::from_secs(100);
const END: Duration = Duration::from_secs(1_000);
const MEMBERS: [Id; 3] = [4, 2, 7];

/// The books of a world of three members, and the terms of their operation.
struct Stage {
    books: Collectives,
    terms: Terms<Id>,
}

impl Stage {
    fn new(verb: Verb) -> Self {
        let mut books = Collectives::new(Duration::from_millis(10), false);
        for id in MEMBERS {
            books.on_turn(&turn(id, Duration::ZERO, true));
        }
        books.on_graph(SECOND, true);
        let key = Key {
            name: "x".parse().unwrap(),
            generation: 1,
        };
        let terms = Terms {
            key,
            members: MEMBERS.to_vec(),
            verb,
            on_loss: OnLoss::Survivors { at_least: 2 },
        };
        Self { books, terms }
    }

    fn call_with(&mut self, by: Id, at: Duration, value: Bytes) {
        let call = Call {
            id: by.into(),
            terms: self.terms.clone(),
            value,
            time: 10 * SECOND,
        };
        self.books.on_call(at, by, &call);
    }

    /// All members call with the values for this verb.
    fn called(verb: Verb) -> Self {
        let mut stage = Self::new(verb);
        for id in MEMBERS {
            stage.call_with(id, BEGIN, value(id));
        }
        stage
    }

    fn answer_at(&mut self, by: Id, at: Duration, outcome: Outcome<Id>) {
        let outcome = Ok(Box::new(outcome));
        let event = Event::Answer {
            call: by.into(),
            outcome: outcome.clone(),
        };
        let told = ReportedEvent {
            at,
            by,
            boot: 1,
            event,
        };
        self.books.on_answer(&told, by.into(), &outcome);
    }

    fn answer(&mut self, by: Id, outcome: Outcome<Id>) {
        self.answer_at(by, BEGIN + SECOND, outcome);
    }

    fn answer_all(&mut self, at: Duration, outcome: &Outcome<Id>) {
        for id in MEMBERS {
            self.answer_at(id, at, outcome.clone());
        }
    }

    fn outcome(&self) -> Outcome<Id> {
        Outcome {
            key: self.terms.key.clone(),
            agreed: true,
            end: Some(End::Completed),
            arrived: MEMBERS.to_vec(),
            values: Vec::new(),
            combined: None,
            missing: Vec::new(),
        }
    }

    /// An outcome in which the last member is missing.
    fn without(&self, class: Class) -> Outcome<Id> {
        Outcome {
            arrived: MEMBERS[..2].to_vec(),
            missing: vec![(MEMBERS[2], class)],
            ..self.outcome()
        }
    }

    fn kinds(self) -> Vec<&'static str> {
        let found = self.books.judge(END);
        found.iter().map(Violation::kind).collect()
    }
}

fn turn(id: Id, at: Duration, begins: bool) -> Turn {
    Turn {
        at,
        id,
        boot: 1,
        begins,
        goes_on: false,
    }
}

fn value(id: Id) -> Bytes {
    vec![id as u8; 8].into()
}

#[test]
fn a_barrier_that_all_reach_breaks_no_rule() {
    let mut stage = Stage::called(Verb::Barrier);
    let outcome = stage.outcome();
    stage.answer_all(BEGIN + SECOND, &outcome);
    assert_eq!(stage.books.counts(), (3, 3));
    assert_eq!(stage.kinds(), [""; 0]);
}

#[test]
fn answers_come_once_in_time_and_only_to_callers() {
    let mut stage = Stage::called(Verb::Barrier);
    let outcome = stage.outcome();
    stage.answer_all(BEGIN + SECOND, &outcome);
    stage.answer(4, outcome.clone());
    stage.answer(9, outcome.clone());
    assert_eq!(stage.kinds(), ["collective-unasked"; 2]);
    let late = |pause: Option<u64>, is_up: bool| {
        let mut stage = Stage::called(Verb::Barrier);
        stage.answer_all(BEGIN + 13 * SECOND, &outcome);
        if let Some(seconds) = pause {
            let until = BEGIN + Duration::from_secs(seconds);
            MEMBERS
                .iter()
                .for_each(|id| stage.books.on_pause(*id, BEGIN, until));
        }
        if !is_up {
            let ends = MEMBERS.map(|id| turn(id, BEGIN + SECOND, false));
            ends.iter().for_each(|end| stage.books.on_turn(end));
        }
        let kinds = stage.kinds();
        kinds
            .iter()
            .filter(|kind| **kind == "collective-unanswered")
            .count()
    };
    assert_eq!((late(None, true), late(Some(9), true)), (3, 3));
    assert_eq!((late(Some(13), true), late(None, false)), (0, 0));
}

#[test]
fn no_call_is_refused() {
    let mut stage = Stage::called(Verb::Barrier);
    let error = CallError::Busy;
    let told = ReportedEvent {
        at: BEGIN,
        by: 4,
        boot: 1,
        event: Event::Answer {
            call: 4,
            outcome: Err(error.clone()),
        },
    };
    stage.books.on_answer(&told, 4, &Err(error));
    assert!(stage.kinds().contains(&"collective-refused"));
}

#[test]
fn outcomes_name_each_member_once_and_only_callers_as_come() {
    let all = Stage::new(Verb::Barrier).outcome();
    let not_called = {
        let mut stage = Stage::new(Verb::Barrier);
        stage.call_with(4, BEGIN, value(4));
        stage.answer(4, all.clone());
        stage.kinds()
    };
    assert!(not_called.contains(&"collective-phantom"));
    let one_less = Outcome {
        arrived: vec![4, 2],
        ..all.clone()
    };
    let other_order = Outcome {
        arrived: vec![2, 4, 7],
        ..all.clone()
    };
    let twice = Outcome {
        missing: vec![(4, Class::Late)],
        ..all
    };
    for bad in [one_less, other_order, twice] {
        let mut stage = Stage::called(Verb::Barrier);
        stage.answer_all(BEGIN + SECOND, &bad);
        assert!(stage.kinds().contains(&"collective-miscounted"), "{bad:?}");
    }
}

#[test]
fn the_end_fits_the_terms() {
    for end in [End::RootLost, End::Aborted, End::TooFew] {
        let mut stage = Stage::called(Verb::Barrier);
        let outcome = Outcome {
            end: Some(end),
            ..stage.outcome()
        };
        stage.answer_all(BEGIN + SECOND, &outcome);
        assert_eq!(stage.kinds(), ["collective-wrong-end"; 3], "{end:?}");
    }
}

#[test]
fn agreed_outcomes_are_equal_unless_a_disk_was_lost() {
    for loses_disk in [false, true] {
        let mut stage = Stage::called(Verb::Barrier);
        let (one, mut other) = (stage.outcome(), stage.without(Class::Late));
        other.missing = vec![(2, Class::Late)];
        other.arrived = vec![4, 7];
        stage.answer(4, one.clone());
        stage.answer(2, one);
        stage.answer_at(7, BEGIN + 11 * SECOND, other);
        if loses_disk {
            stage.books.on_loss(2, BEGIN + SECOND);
        }
        let is_found = stage.kinds().contains(&"collective-disagreement");
        assert_eq!(is_found, !loses_disk);
    }
}

#[test]
fn values_are_those_that_members_came_with_and_the_same_for_all() {
    let told = |verb: Verb, by: Id, values: Vec<(Id, Bytes)>| -> Vec<&'static str> {
        let mut stage = Stage::called(verb);
        // Another life of member 2 came with another value.
        stage.call_with(2, BEGIN, value(9));
        let right: Vec<(Id, Bytes)> = MEMBERS.map(|id| (id, value(id))).to_vec();
        let right = Outcome {
            values: right,
            ..stage.outcome()
        };
        let outcome = Outcome {
            values,
            ..stage.outcome()
        };
        if by != 4 {
            stage.answer(4, right);
        }
        stage.answer(by, outcome);
        let kinds = stage.kinds().into_iter();
        kinds
            .filter(|kind| kind.contains("value") || kind.contains("sources"))
            .collect()
    };
    let of = |ids: &[(Id, Id)]| -> Vec<(Id, Bytes)> {
        ids.iter().map(|(id, of)| (*id, value(*of))).collect()
    };
    let none: Vec<&str> = Vec::new();
    let all = || Verb::AllGather;
    assert_eq!(told(all(), 7, of(&[(4, 4), (2, 2), (7, 7)])), none);
    assert_eq!(told(all(), 4, of(&[(4, 4), (2, 9), (7, 7)])), none);
    let wrong = ["collective-wrong-value"];
    assert_eq!(told(all(), 7, of(&[(4, 4), (2, 9), (7, 7)])), wrong);
    assert_eq!(told(all(), 7, of(&[(4, 4), (2, 2), (7, 8)])), wrong);
    let sources = ["collective-wrong-sources"];
    assert_eq!(told(all(), 7, of(&[(4, 4), (7, 7)])), sources);
    assert_eq!(told(Verb::Agree, 4, of(&[(4, 4)])), none);
    assert_eq!(told(Verb::Agree, 4, of(&[(2, 2)])), sources);
    let gather = || Verb::Gather { root: 0 };
    assert_eq!(told(gather(), 7, of(&[(4, 4), (2, 2), (7, 7)])), sources);
}

#[test]
fn parts_are_those_for_their_receiver() {
    let parts = |id: Id| {
        let part = |place: u32| (place, Bytes::from(vec![id as u8 + 100 * place as u8; 200]));
        join_parts(&(0..3).map(part).collect())
    };
    for (place, is_right) in [(1_u8, true), (2, false)] {
        let mut stage = Stage::new(Verb::Scatter { root: 0 });
        for id in MEMBERS {
            stage.call_with(id, BEGIN, parts(id));
        }
        let outcome = Outcome {
            values: vec![(4, vec![4 + 100 * place; 200].into())],
            ..stage.outcome()
        };
        stage.answer(2, outcome);
        let is_found = stage.kinds().contains(&"collective-wrong-value");
        assert_eq!(is_found, !is_right);
    }
}

#[test]
fn combined_values_are_those_of_the_reference() {
    let op = Op::Numbers(Operator::Sum, Number::U64);
    let sum = |of: [u64; 3]| Bytes::from((of.iter().sum::<u64>()).to_le_bytes().to_vec());
    let verb = Verb::Reduce { root: 0, op };
    for (by, combined, is_right) in [
        (4, Some(Ok(sum([1, 2, 3]))), true),
        (4, Some(Ok(sum([1, 2, 4]))), false),
        (4, None, false),
        (4, Some(Err(ReduceError::User)), false),
        (2, Some(Ok(sum([1, 2, 3]))), false),
        (2, None, true),
    ] {
        let mut stage = Stage::new(verb.clone());
        for (id, number) in MEMBERS.into_iter().zip(1_u64..) {
            stage.call_with(id, BEGIN, number.to_le_bytes().to_vec().into());
        }
        let outcome = Outcome {
            combined,
            ..stage.outcome()
        };
        stage.answer(by, outcome);
        let is_found = stage.kinds().contains(&"collective-wrong-sum");
        assert_eq!(is_found, !is_right, "{by}");
    }
}

#[test]
fn a_process_owes_nothing_to_callers_of_the_one_that_ended_when_it_began() {
    for is_of_former in [false, true] {
        let mut stage = Stage::new(Verb::Barrier);
        if is_of_former {
            stage.call_with(4, BEGIN, value(4));
        }
        stage.books.on_turn(&turn(4, BEGIN, false));
        stage.books.on_turn(&turn(4, BEGIN, true));
        if !is_of_former {
            stage.call_with(4, BEGIN, value(4));
        }
        let is_found = stage.kinds().contains(&"collective-unanswered");
        assert_eq!(is_found, !is_of_former);
    }
}

#[test]
fn nobody_is_called_dead_before_somebody_was_told_so() {
    for is_told in [false, true] {
        let mut stage = Stage::called(Verb::Barrier);
        stage.books.on_turn(&turn(7, BEGIN, false));
        if is_told {
            stage.books.on_word(BEGIN, 7, Class::Dead);
        }
        let outcome = stage.without(Class::Dead);
        stage.answer(4, outcome);
        let is_found = stage.kinds().contains(&"collective-unfounded");
        assert_eq!(is_found, !is_told);
    }
}

#[test]
fn nobody_is_late_before_time_is_over() {
    for (seconds, is_hasty) in [(8, true), (9, false)] {
        let mut stage = Stage::new(Verb::Barrier);
        stage.call_with(4, BEGIN, value(4));
        stage.call_with(2, BEGIN, value(2));
        let outcome = stage.without(Class::Late);
        stage.answer_at(4, BEGIN + SECOND * seconds, outcome.clone());
        stage.answer_at(2, BEGIN + SECOND * 9, outcome);
        let expected: &[&str] = if is_hasty { &["collective-hasty"] } else { &[] };
        assert_eq!(stage.kinds(), expected);
    }
}

/// Each row tells how member 7 is missing in the outcome, a disturbance, and whether the judge says
/// that the member was left out.
#[test]
fn a_member_that_was_there_in_time_may_not_be_left_out() {
    type Done = fn(&mut Collectives);
    let cases: [(Class, Done, bool); 7] = [
        (Class::Late, |_| {}, true),
        (Class::Dead, |_| {}, true),
        (
            Class::Dead,
            |books| books.on_word(BEGIN, 7, Class::Dead),
            false,
        ),
        (
            Class::Late,
            |books| {
                books.on_turn(&turn(7, BEGIN - SECOND, false));
                books.on_turn(&turn(7, BEGIN - SECOND / 2, true));
                books.on_graph(BEGIN, true);
            },
            false,
        ),
        (
            Class::Dead,
            |books| {
                let these = Concerned::These([7].into());
                books.on_disturbance(BEGIN - SECOND, BEGIN, these);
            },
            false,
        ),
        (
            Class::Dead,
            |books| {
                let these = Concerned::These([2].into());
                books.on_disturbance(BEGIN - SECOND, BEGIN, these);
            },
            true,
        ),
        (
            Class::Late,
            |books| books.on_disturbance(BEGIN + SECOND * 5, BEGIN + SECOND * 6, Concerned::Lives),
            false,
        ),
    ];
    for (number, (class, done, is_left_out)) in cases.into_iter().enumerate() {
        let mut stage = Stage::called(Verb::Barrier);
        stage.books.on_word(SECOND, 7, Class::Dead);
        done(&mut stage.books);
        let outcome = stage.without(class);
        stage.answer_all(BEGIN + SECOND * 9, &outcome);
        let is_found = stage.kinds().contains(&"collective-left-out");
        assert_eq!(is_found, is_left_out, "case {number}");
    }
}

fn gone(books: &mut Collectives, id: Id) {
    books.on_turn(&turn(id, BEGIN + SECOND, false));
    books.on_graph(BEGIN + SECOND * 2, true);
}

/// Each row is a disturbance of a world in which no member hears of an agreed outcome, and how many
/// should have.
#[test]
fn an_undisturbed_majority_agrees() {
    type Done = fn(&mut Collectives);
    let cases: [(Done, usize); 5] = [
        (|_| {}, 3),
        (|books| gone(books, 7), 2),
        (
            |books| MEMBERS[1..].iter().for_each(|id| gone(books, *id)),
            0,
        ),
        (
            |books| {
                let these = Concerned::These([9].into());
                books.on_disturbance(BEGIN + SECOND * 5, BEGIN + SECOND * 6, these);
            },
            0,
        ),
        (|books| books.on_graph(BEGIN + SECOND * 5, false), 0),
    ];
    for (number, (done, expected)) in cases.into_iter().enumerate() {
        let mut stage = Stage::called(Verb::Barrier);
        done(&mut stage.books);
        let outcome = Outcome {
            agreed: false,
            end: None,
            ..stage.outcome()
        };
        stage.answer_all(BEGIN + SECOND * 10, &outcome);
        let expected = vec!["collective-not-agreed"; expected];
        assert_eq!(stage.kinds(), expected, "case {number}");
    }
}
