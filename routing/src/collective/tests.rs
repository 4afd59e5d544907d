//! Members in virtual time, whose messages are delayed, lost and reordered.

mod membership;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lives::Record;
use binomesh_overlay::noise::Noise;

use super::*;

type Id = u8;

const MS: Duration = Duration::from_millis(1);
const TIME: Duration = Duration::from_secs(10);

enum Due {
    Message { from: Id, message: Message<Id> },
    Timer(Timer),
    Verdict { on: Id, is_down: bool },
}

/// The answer that a caller gets.
type Answer = Result<Box<Outcome<Id>>, CallError>;

/// The members, the messages and timers under way, and the answers to callers.
struct Net {
    noise: Noise,
    now: Duration,
    serial: u64,
    members: BTreeMap<Id, Collectives<Id>>,
    /// Messages, timers and verdicts by time. Timers and verdicts are for one life of a member.
    queue: BTreeMap<(Duration, u64), (Id, u64, Due)>,
    timers: BTreeMap<(Id, Timer), (Duration, u64)>,
    boots: BTreeMap<Id, u64>,
    paused: BTreeMap<Id, Duration>,
    /// Pairs of members: the second hears nothing of the first.
    cut: BTreeSet<(Id, Id)>,
    loss_percent: u64,
    config: Config,
    answers: BTreeMap<(Id, u64), Answer>,
    next_call: u64,
    sent: BTreeMap<&'static str, u64>,
    /// The records of each member. A restart may take them for lost.
    records: BTreeMap<Id, BTreeMap<Name, u64>>,
}

impl Net {
    fn new(members: u8, seed: u64) -> Self {
        Self::with(members, seed, Config::default())
    }

    fn with(members: u8, seed: u64, config: Config) -> Self {
        let all = 0..members;
        Self {
            noise: Noise::new(seed),
            now: Duration::ZERO,
            serial: 0,
            members: all
                .clone()
                .map(|id| {
                    (
                        id,
                        Collectives::new(id, 1, Record::Kept(BTreeMap::new()), config),
                    )
                })
                .collect(),
            queue: BTreeMap::new(),
            timers: BTreeMap::new(),
            boots: all.map(|id| (id, 1)).collect(),
            paused: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss_percent: 0,
            config,
            answers: BTreeMap::new(),
            next_call: 0,
            sent: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.noise.next() % bound
    }

    fn schedule(&mut self, after: Duration, to: Id, due: Due) {
        self.serial += 1;
        let boot = self.boots[&to];
        let at = (self.now + after, self.serial);
        if let Due::Timer(timer) = due {
            self.timers.insert((to, timer), at);
        }
        self.queue.insert(at, (to, boot, due));
    }

    fn feed(&mut self, to: Id, input: Input<Id>) {
        let Some(member) = self.members.get_mut(&to) else {
            return;
        };
        let mut out = Vec::new();
        member.handle(input, &mut out);
        for effect in out {
            match effect {
                Effect::Send { to: all, message } => {
                    *self.sent.entry(message.name()).or_default() += all.len() as u64;
                    for receiver in all {
                        self.carry(to, receiver, message.clone());
                    }
                }
                Effect::Frame { .. } => unreachable!("nobody has a place in a graph"),
                Effect::Arm { timer, after } => {
                    self.disarm(to, timer);
                    self.schedule(after, to, Due::Timer(timer));
                }
                Effect::Disarm(timer) => self.disarm(to, timer),
                Effect::Record(key) => {
                    let record = self.records.entry(to).or_default();
                    let greatest = record.entry(key.name).or_default();
                    *greatest = key.generation.max(*greatest);
                }
                Effect::Answer { call, outcome } => {
                    let told = self.answers.insert((to, call), outcome);
                    assert!(told.is_none(), "answered twice");
                }
            }
        }
    }

    fn disarm(&mut self, of: Id, timer: Timer) {
        if let Some(at) = self.timers.remove(&(of, timer)) {
            self.queue.remove(&at);
        }
    }

    fn carry(&mut self, from: Id, to: Id, message: Message<Id>) {
        assert_ne!(from, to);
        if self.cut.contains(&(from, to)) || self.below(100) < self.loss_percent {
            return;
        }
        let delay = MS * (1 + self.below(5) as u32);
        self.schedule(delay, to, Due::Message { from, message });
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some((&at, _)) = self.queue.first_key_value() {
            if at.0 > until {
                break;
            }
            let (to, boot, due) = self.queue.remove(&at).unwrap();
            self.now = at.0;
            if let Due::Timer(timer) = due {
                self.timers.remove(&(to, timer));
            }
            if self.boots[&to] != boot && !matches!(due, Due::Message { .. }) {
                continue;
            }
            if let Some(end) = self.paused.get(&to).copied()
                && end > self.now
            {
                let left = end - self.now;
                self.schedule(left, to, due);
                continue;
            }
            match due {
                Due::Message { from, message } => self.feed(to, Input::Message { from, message }),
                Due::Timer(timer) => self.feed(to, Input::Timer(timer)),
                Due::Verdict { on, is_down: true } => self.feed(to, Input::Down(on)),
                Due::Verdict { on, .. } => self.feed(to, Input::Up(on)),
            }
        }
        self.now = until;
    }

    /// The members of `among`, except `on` itself, hear the verdict on `on`, each at another time.
    fn spread(&mut self, on: Id, is_down: bool, after: Duration, among: &[Id]) {
        for to in among.iter().copied().filter(|to| *to != on) {
            let later = MS * self.below(300) as u32;
            self.schedule(after + later, to, Due::Verdict { on, is_down });
        }
    }

    fn everybody(&self) -> Vec<Id> {
        self.boots.keys().copied().collect()
    }

    fn kill(&mut self, id: Id) {
        self.members.remove(&id);
        *self.boots.get_mut(&id).unwrap() += 1;
        let all = self.everybody();
        self.spread(id, true, MS * 1200, &all);
    }

    fn restart(&mut self, id: Id) {
        let record = self.records.get(&id).cloned().unwrap_or_default();
        self.restart_with(id, Record::Kept(record));
    }

    fn restart_with(&mut self, id: Id, record: Record) {
        let boot = self.boots.get_mut(&id).unwrap();
        *boot += 1;
        let member = Collectives::new(id, *boot, record, self.config);
        self.members.insert(id, member);
        let all = self.everybody();
        self.spread(id, false, MS * 300, &all);
    }

    /// Two sides hear nothing of each other, and after a while call each other down.
    fn split(&mut self, one: &[Id], other: &[Id]) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(|b| (*a, *b))) {
            self.cut.extend([(a, b), (b, a)]);
        }
        for on in other {
            self.spread(*on, true, MS * 1500, one);
        }
        for on in one {
            self.spread(*on, true, MS * 1500, other);
        }
    }

    fn heal(&mut self) {
        for (a, b) in std::mem::take(&mut self.cut) {
            self.spread(b, false, MS * 200, &[a]);
        }
    }

    fn terms(&self, generation: u64, verb: Verb) -> Terms<Id> {
        Terms {
            key: Key {
                name: "job".parse().unwrap(),
                generation,
            },
            members: self.everybody(),
            verb,
            on_loss: OnLoss::default(),
        }
    }

    fn call(&mut self, id: Id, terms: &Terms<Id>, value: Bytes, time: Duration) -> (Id, u64) {
        self.next_call += 1;
        let call = Call {
            id: self.next_call,
            terms: terms.clone(),
            value,
            time,
        };
        self.feed(id, Input::Call(call));
        (id, self.next_call)
    }

    fn outcome(&self, call: (Id, u64)) -> &Outcome<Id> {
        match self.answers.get(&call) {
            Some(Ok(outcome)) => outcome,
            other => panic!("{call:?}: {other:?}"),
        }
    }
}

/// The value that a member brings.
fn value(id: Id, size: usize) -> Bytes {
    (0..size).map(|i| (i as u8).wrapping_mul(31) ^ id).collect()
}

/// The parts that all agreed outcomes of an operation have in common.
fn essence(outcome: &Outcome<Id>) -> (Option<End>, &[Id], &[(Id, Class)]) {
    (outcome.end, &outcome.arrived, &outcome.missing)
}

fn assert_one_decision(net: &Net, calls: &[(Id, u64)], seed: u64) {
    let told = calls.iter().filter_map(|call| net.answers.get(call));
    let agreed: Vec<_> = told
        .filter_map(|answer| answer.as_ref().ok())
        .filter(|outcome| outcome.agreed)
        .collect();
    for outcome in &agreed {
        assert_eq!(essence(outcome), essence(agreed[0]), "seed {seed}");
    }
}

#[test]
fn all_verbs_give_what_a_reference_computes() {
    for (members, size) in [(1, 8), (2, 0), (3, 8), (7, 40_000), (16, 8), (5, 600_000)] {
        let verbs = |op: &str| {
            let op: Op = op.parse().unwrap();
            let root = u32::from(members) / 2;
            [
                Verb::Barrier,
                Verb::Agree,
                Verb::AllGather,
                Verb::Gather { root },
                Verb::Scatter { root },
                Verb::Reduce {
                    root,
                    op: op.clone(),
                },
                Verb::AllReduce { op },
                Verb::AllToAll,
            ]
        };
        for verb in verbs("sum:u64") {
            check_verb(members, size, &verb);
        }
    }
}

fn check_verb(members: u8, size: usize, verb: &Verb) {
    let mut net = Net::new(members, 7);
    let terms = net.terms(1, verb.clone());
    let whole = |id: Id| match verb.has_parts() {
        false => value(id, size),
        true => join_parts(
            &(0..members)
                .map(|to| (to.into(), value(id ^ to, size)))
                .collect(),
        ),
    };
    let calls: Vec<_> = (0..members)
        .map(|id| net.call(id, &terms, whole(id), TIME))
        .collect();
    net.run(Duration::from_secs(9));
    let what = format!("{verb:?}, {members} members, {size} bytes");
    let sum = |_: ()| {
        let mut all = value(0, size).to_vec();
        let op: Op = "sum:u64".parse().unwrap();
        for id in 1..members {
            op.combine(&mut all, &value(id, size)).unwrap();
        }
        Bytes::from(all)
    };
    let root = verb.root().map(|root| root as u8);
    for call in calls {
        let (outcome, me) = (net.outcome(call), call.0);
        assert!(outcome.agreed, "{what}");
        assert_eq!(outcome.end, Some(End::Completed), "{what}");
        assert_eq!(outcome.arrived, terms.members, "{what}");
        assert_eq!(outcome.missing, [], "{what}");
        let all: Vec<(Id, Bytes)> = (0..members).map(|id| (id, value(id, size))).collect();
        let (values, combined) = match verb {
            Verb::Barrier => (vec![], None),
            Verb::Agree => (vec![all[0].clone()], None),
            Verb::AllGather => (all, None),
            Verb::Gather { .. } if root == Some(me) => (all, None),
            Verb::Gather { .. } => (vec![], None),
            Verb::Scatter { .. } => {
                let root = root.unwrap();
                (vec![(root, value(root ^ me, size))], None)
            }
            Verb::Reduce { .. } if root == Some(me) => (vec![], Some(Ok(sum(())))),
            Verb::Reduce { .. } => (vec![], None),
            Verb::AllReduce { .. } => (vec![], Some(Ok(sum(())))),
            Verb::AllToAll => (
                (0..members).map(|id| (id, value(id ^ me, size))).collect(),
                None,
            ),
        };
        assert!(outcome.values == values, "{what}: values of {me}");
        assert!(outcome.combined == combined, "{what}: combined at {me}");
    }
}

#[test]
fn long_values_come_through_a_network_that_loses() {
    for seed in 0..40 {
        let mut net = Net::new(7, seed);
        net.loss_percent = 20;
        let verb = [Verb::AllGather, Verb::AllToAll, Verb::Gather { root: 3 }];
        let terms = net.terms(1, verb[seed as usize % 3].clone());
        let calls: Vec<_> = (0..7)
            .map(|id| {
                let parts = (0..7).map(|to| (to, value(id, 40_000))).collect();
                net.call(id, &terms, join_parts(&parts), TIME * 3)
            })
            .collect();
        net.run(TIME * 3);
        for call in calls {
            let outcome = net.outcome(call);
            let what = format!(
                "seed {seed}, {call:?}: {outcome:.300?}; sent {:?}",
                net.sent
            );
            assert!(outcome.agreed && outcome.missing.is_empty(), "{what}");
        }
    }
}

#[test]
fn members_that_die_are_missing_and_the_others_agree() {
    for seed in 0..60 {
        let mut net = Net::new(16, seed);
        let verb = match seed % 3 {
            0 => Verb::Barrier,
            1 => Verb::AllGather,
            _ => Verb::Gather { root: 5 },
        };
        let terms = net.terms(1, verb);
        let dead: BTreeSet<Id> = [0, 5, (seed % 16) as u8].into();
        let mut calls = Vec::new();
        for id in 0..16 {
            calls.push(net.call(id, &terms, value(id, 300), TIME));
            let pause = net.below(3) as u32;
            net.run(MS * pause);
            if dead.contains(&id) {
                net.kill(id);
            }
        }
        net.run(TIME);
        assert_one_decision(&net, &calls, seed);
        for call in calls.iter().filter(|(id, _)| !dead.contains(id)) {
            let outcome = net.outcome(*call);
            assert!(outcome.agreed, "seed {seed}, {call:?}: {outcome:?}");
        }
    }
}

#[test]
fn one_late_member_is_named_alone_and_learns_it() {
    for late in 0..5 {
        let mut net = Net::new(5, 3);
        for generation in 1..=5 {
            let late = (late + generation as u8) % 5;
            let terms = net.terms(generation, Verb::AllGather);
            let there = (0..5).filter(|id| *id != late);
            let calls: Vec<_> = there
                .map(|id| net.call(id, &terms, value(id, 9), MS * 500))
                .collect();
            net.run(MS * 500);
            let call = net.call(late, &terms, value(late, 9), TIME);
            net.run(MS * 100);
            for call in calls.iter().chain([&call]) {
                let outcome = net.outcome(*call);
                assert!(outcome.agreed, "{call:?}");
                assert_eq!(outcome.missing, [(late, Class::Late)]);
                assert_eq!(outcome.values.len(), 4);
            }
        }
    }
}

#[test]
fn only_a_majority_decides_and_the_others_learn_it_after_healing() {
    for (nine, seed) in [(9, 1), (9, 2), (8, 3), (8, 4)] {
        let mut net = Net::new(16, seed);
        let all = net.everybody();
        let (one, other) = all.split_at(nine);
        net.split(other, one);
        let terms = net.terms(1, Verb::Barrier);
        let calls: Vec<_> = (0..16)
            .map(|id| net.call(id, &terms, Bytes::new(), TIME))
            .collect();
        net.run(TIME);
        for (id, call) in &calls {
            let is_majority = nine == 9 && one.contains(id);
            assert_eq!(net.outcome((*id, *call)).agreed, is_majority, "{id}");
        }
        net.heal();
        net.run(Duration::from_secs(5));
        let again: Vec<_> = (0..16)
            .map(|id| net.call(id, &terms, Bytes::new(), TIME))
            .collect();
        net.run(MS * 9500);
        assert_one_decision(&net, &[calls, again.clone()].concat(), seed);
        for call in again {
            assert!(net.outcome(call).agreed, "{nine}: {call:?}");
        }
    }
}

#[test]
fn with_half_of_the_members_dead_nothing_is_agreed() {
    let mut net = Net::new(16, 1);
    for id in 3..12 {
        net.kill(id);
    }
    let terms = net.terms(1, Verb::Barrier);
    let calls = [0, 1, 2, 12, 13, 14, 15].map(|id| net.call(id, &terms, Bytes::new(), TIME));
    net.run(TIME);
    for call in calls {
        let outcome = net.outcome(call);
        assert!(!outcome.agreed);
        let dead: Vec<_> = (3..12).map(|id| (id, Class::Dead)).collect();
        assert_eq!(outcome.missing, dead);
    }
}

/// With random crashes, returns, cuts, pauses and losses, all agreed outcomes of an operation are
/// the same.
#[test]
fn no_two_members_ever_agree_on_different_outcomes() {
    assert!(agreed_at_random(0..400, None) > 2000);
}

/// As above, while one member loses its record each time that it is killed.
#[test]
fn a_lost_record_makes_no_second_decision() {
    assert!(agreed_at_random(400..800, Some(1)) > 2000);
}

fn agreed_at_random(seeds: std::ops::Range<u64>, forgetful: Option<Id>) -> usize {
    let mut agreed = 0;
    for seed in seeds {
        let members = 3 + (seed % 5) as u8;
        let mut net = Net::new(members, seed);
        net.loss_percent = [0, 10, 40][seed as usize % 3];
        let mut calls: BTreeMap<u64, Vec<(Id, u64)>> = BTreeMap::new();
        for _ in 0..30 {
            let id = net.below(members.into()) as u8;
            match net.below(8) {
                0 if net.members.len() > 1 => net.kill(id),
                1 | 2 if !net.members.contains_key(&id) => match forgetful == Some(id) {
                    true => net.restart_with(id, Record::Lost),
                    false => net.restart(id),
                },
                3 => {
                    let (at, all) = (net.below(members.into()) as usize, net.everybody());
                    let (one, other) = all.split_at(at);
                    net.split(one, other);
                }
                4 | 5 => net.heal(),
                6 => {
                    let end = net.now + MS * net.below(3000) as u32;
                    net.paused.insert(id, end);
                }
                _ => {
                    for id in net.members.keys().copied().collect::<Vec<_>>() {
                        let generation = 1 + net.below(3);
                        let terms = net.terms(generation, Verb::AllGather);
                        let time = MS * (50 + net.below(4000)) as u32;
                        let boot = net.boots[&id] as u8;
                        let call = net.call(id, &terms, value(id ^ boot << 4, 5), time);
                        calls.entry(generation).or_default().push(call);
                    }
                }
            }
            let pause = net.below(700) as u32;
            net.run(MS * pause);
        }
        net.heal();
        net.run(TIME);
        for calls in calls.values() {
            assert_one_decision(&net, calls, seed);
            let told = calls.iter().filter_map(|call| net.answers.get(call));
            agreed += told.flatten().filter(|outcome| outcome.agreed).count();
        }
    }
    agreed
}

#[test]
fn callers_that_differ_are_told_what_differs() {
    let mut net = Net::new(3, 1);
    let terms = net.terms(1, Verb::Barrier);
    let other = net.terms(1, Verb::Agree);
    let good = net.call(0, &terms, Bytes::new(), TIME);
    net.run(MS * 100);
    let bad = net.call(1, &other, Bytes::new(), TIME);
    net.run(MS * 100);
    let refused = Err(CallError::Differs("the operation"));
    assert_eq!(net.answers.get(&bad), Some(&refused));
    let calls = [1, 2].map(|id| net.call(id, &terms, Bytes::new(), TIME));
    net.run(MS * 200);
    for call in [good, calls[0], calls[1]] {
        assert!(net.outcome(call).missing.is_empty());
    }
}

#[test]
fn a_forgotten_generation_is_too_old_for_every_member() {
    let mut net = Net::new(3, 1);
    let most = Config::MAX_GENERATIONS as u64;
    for generation in 1..=most + 2 {
        let terms = net.terms(generation, Verb::Barrier);
        for id in 0..3 {
            net.call(id, &terms, Bytes::new(), TIME);
        }
        net.run(MS * 100);
    }
    let terms = net.terms(2, Verb::Barrier);
    let call = net.call(1, &terms, Bytes::new(), TIME);
    assert_eq!(net.answers.get(&call), Some(&Err(CallError::TooOld(2))));
    net.restart(1);
    let call = net.call(1, &terms, Bytes::new(), TIME);
    net.run(MS * 100);
    assert_eq!(net.answers.get(&call), Some(&Err(CallError::TooOld(2))));
}

#[test]
fn one_peer_cannot_take_all_names() {
    let config = Config {
        max_names: 8,
        max_names_per_peer: 3,
        ..Config::default()
    };
    let mut net = Net::with(3, 1, config);
    let call = |net: &mut Net, id: Id, name: &str| {
        let mut terms = net.terms(1, Verb::Barrier);
        terms.key.name = name.parse().unwrap();
        let call = net.call(id, &terms, Bytes::new(), MS * 900);
        net.run(MS);
        call
    };
    for name in ["a", "b", "c"] {
        call(&mut net, 1, name);
    }
    net.run(MS * 50);
    let full = call(&mut net, 1, "d");
    net.run(MS * 50);
    let refused = Err(CallError::TooManyNames);
    assert_eq!(net.answers.get(&full), Some(&refused));
    let calls = [0, 2, 1].map(|id| call(&mut net, id, "e"));
    net.run(MS * 50);
    assert!(net.outcome(calls[0]).agreed);
}

#[test]
fn a_barrier_of_n_members_takes_four_messages_for_each() {
    let mut net = Net::new(64, 1);
    let terms = net.terms(1, Verb::Barrier);
    for id in 0..64 {
        net.call(id, &terms, Bytes::new(), TIME);
    }
    net.run(MS * 200);
    let expected = ["arrive", "propose", "vote", "decided"].map(|kind| (kind, 63));
    assert_eq!(net.sent, BTreeMap::from(expected));
}

#[test]
fn a_coordinator_that_takes_over_closes_at_the_deadline_of_the_first_caller() {
    for seed in 0..20 {
        let mut net = Net::new(5, seed);
        let terms = net.terms(1, Verb::Barrier);
        // The two members that coordinate first have no caller, and the last member never comes.
        let calls = [2, 3].map(|id| net.call(id, &terms, Bytes::new(), TIME));
        net.run(MS * 4000);
        net.kill(0);
        net.run(MS * 5990);
        for call in calls {
            let outcome = net.outcome(call);
            assert!(outcome.agreed, "seed {seed}: {outcome:?}");
            let missing = [(0, Class::Dead), (1, Class::Late), (4, Class::Late)];
            assert_eq!(outcome.missing, missing, "seed {seed}");
        }
    }
}

#[test]
fn values_that_cannot_be_combined_are_told_to_all() {
    let mut net = Net::new(4, 1);
    let op: Op = "sum".parse().unwrap();
    let terms = net.terms(1, Verb::AllReduce { op });
    let calls: Vec<_> = (0..4)
        .map(|id| net.call(id, &terms, value(id, 80_000 + 8 * usize::from(id)), TIME))
        .collect();
    net.run(MS * 3000);
    for call in calls {
        let told = Some(Err(ReduceError::Lengths(80_000, 80_008)));
        assert_eq!(net.outcome(call).combined, told);
    }
}

#[test]
fn generations_of_a_name_are_bounded_in_whatever_order_they_come() {
    let mut net = Net::new(3, 1);
    let most = Config::MAX_GENERATIONS;
    for generation in (1..200).rev().chain(1000..1200) {
        let terms = net.terms(generation, Verb::Barrier);
        net.call(1, &terms, Bytes::new(), MS);
        net.run(MS * 20);
    }
    for member in net.members.values() {
        assert!(member.operations().count() <= most + 1);
    }
}

#[test]
fn a_ballot_of_another_member_or_an_absurd_round_is_not_heard() {
    let mut net = Net::new(3, 1);
    let terms = net.terms(1, Verb::Barrier);
    for (round, proposer) in [(u32::MAX, 1), (7, 2)] {
        let ballot = voting::Ballot {
            round,
            proposer,
            boot: 1,
        };
        let terms = terms.clone();
        let message = Message::Prepare { terms, ballot };
        net.feed(0, Input::Message { from: 1, message });
    }
    let calls: Vec<_> = (0..3)
        .map(|id| net.call(id, &terms, Bytes::new(), TIME))
        .collect();
    net.run(MS * 200);
    for call in calls {
        assert!(net.outcome(call).agreed);
    }
    assert_eq!(net.sent.get("promise"), None);
}
