//! Collective operations among whole peers, in the seeded world.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::peer::{Event, Input};
use binomesh::world::{DeploymentTree, Fault, Id, Memory, Network, World};
use binomesh_routing::collective::{
    Call, CallError, Class, End, Key, OnLoss, Outcome, Terms, Verb,
};
use binomesh_routing::packet::Confirmation;
use binomesh_routing::relay::Due;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Destination, Publish, Topic};
use bytes::Bytes;

const TIME: Duration = Duration::from_secs(10);

/// The answer that a caller got.
type Answer = Result<Box<Outcome<Id>>, CallError>;

/// A world and the answers that its callers got.
struct Stage {
    world: World,
    answers: BTreeMap<(Id, u64), Answer>,
    next: u64,
}

impl Stage {
    fn formed(nodes: u32, seed: u64) -> Self {
        Self::with_window(nodes, seed, routing::Config::default().window)
    }

    fn with_window(nodes: u32, seed: u64, window: u64) -> Self {
        let mut world = World::new(seed, Network::local());
        world.relay().window = window;
        world.deploy(nodes, DeploymentTree::Binomial, |_| {});
        let end = world.now() + Duration::from_secs(90);
        let settled = world.run_until(end, |world| world.defect().is_none());
        assert!(settled, "seed {seed}: {:?}", world.defect());
        world.run_for(Duration::from_secs(5));
        Self {
            world,
            answers: BTreeMap::new(),
            next: 0,
        }
    }

    fn run(&mut self, time: Duration) {
        self.world.run_for(time);
        for told in self.world.take_events() {
            if let Event::Answer { call, outcome } = told.event {
                let told = self.answers.insert((told.by, call), outcome);
                assert!(told.is_none(), "answered twice");
            }
        }
    }

    fn call(&mut self, id: Id, terms: &Terms<Id>, value: Bytes) -> (Id, u64) {
        self.next += 1;
        let call = Call {
            id: self.next,
            terms: terms.clone(),
            value,
            time: TIME,
        };
        self.world.feed(id, Input::Call(Box::new(call)));
        (id, self.next)
    }

    fn calls(&mut self, of: impl IntoIterator<Item = Id>, terms: &Terms<Id>) -> Vec<(Id, u64)> {
        let of = of.into_iter().collect::<Vec<Id>>().into_iter();
        of.map(|id| self.call(id, terms, value(id))).collect()
    }

    #[track_caller]
    fn outcome(&self, call: (Id, u64)) -> &Outcome<Id> {
        match self.answers.get(&call) {
            Some(Ok(outcome)) => outcome,
            other => panic!("seed {}, {call:?}: {other:?}", self.world.seed()),
        }
    }
}

fn value(id: Id) -> Bytes {
    vec![id as u8; 300].into()
}

fn terms(members: impl IntoIterator<Item = Id>, generation: u64, verb: Verb) -> Terms<Id> {
    Terms {
        key: Key {
            name: "job".parse().unwrap(),
            generation,
        },
        members: members.into_iter().collect(),
        verb,
        on_loss: OnLoss::default(),
    }
}

#[test]
fn all_gather_gives_everybody_all_values() {
    for nodes in [1, 2, 3, 16, 33] {
        let mut stage = Stage::formed(nodes, nodes.into());
        let terms = terms(0..nodes, 1, Verb::AllGather);
        let calls = stage.calls(0..nodes, &terms);
        stage.run(Duration::from_secs(1));
        let all: Vec<(Id, Bytes)> = (0..nodes).map(|id| (id, value(id))).collect();
        for call in calls {
            let outcome = stage.outcome(call);
            assert!(outcome.agreed && outcome.values == all, "{nodes} nodes");
        }
    }
}

#[test]
fn a_few_members_are_enough_and_the_others_hear_nothing_of_it() {
    let mut stage = Stage::formed(16, 5);
    let members = [9, 2, 14];
    let terms = terms(members, 1, Verb::Barrier);
    let calls = stage.calls(members, &terms);
    stage.run(Duration::from_secs(1));
    for call in calls {
        assert_eq!(stage.outcome(call).arrived, members);
    }
    let knows = |id: Id| {
        stage
            .world
            .peer(id)
            .unwrap()
            .collectives()
            .operations()
            .count()
    };
    assert_eq!((0..16).map(knows).sum::<usize>(), 3);
}

/// Node 0 coordinates, and its window is full of messages that wait for a paused member. While they
/// wait, its relay takes no more messages.
#[test]
fn a_full_window_of_the_coordinator_holds_nobody_up() {
    for seed in 1..=6 {
        let mut stage = Stage::with_window(16, seed, 16);
        let paused = 9;
        stage.world.pause(paused, Duration::from_secs(8));
        for _ in 0..20 {
            let publish = Publish {
                topic: Topic::default(),
                payloads: Bytes::from_static(b"x").into(),
                destination: Destination::All,
                strategy: Strategy::Binomial,
                due: Due::Settled,
                confirmation: Confirmation::Relayed,
                is_ordered: false,
            };
            stage
                .world
                .with_peer(0, |peer, out| peer.publish(publish, out).ok());
        }
        let members = (0..16).filter(|id| *id != paused);
        let operation = terms(members.clone(), 1, Verb::Barrier);
        let calls = stage.calls(members, &operation);
        stage.run(Duration::from_millis(500));
        // One member may not have its answer yet: the short way to it leads through the paused
        // member.
        let told = calls.iter().filter(|call| stage.answers.contains_key(call));
        assert!(told.count() >= 14, "seed {seed}");
        stage.run(Duration::from_millis(2500));
        for call in calls {
            assert!(stage.outcome(call).agreed, "seed {seed}");
        }
    }
}

#[test]
fn three_members_are_killed_midway_the_root_among_them() {
    for seed in 1..=12 {
        let nodes = 16;
        let mut stage = Stage::formed(nodes, seed);
        let root = (seed % 16) as u32;
        let verb = match seed % 3 {
            0 => Verb::Barrier,
            1 => Verb::Gather { root },
            _ => Verb::AllGather,
        };
        let dead = [root, (root + 1) % nodes, (root + 7) % nodes];
        let operation = terms(0..nodes, 1, verb);
        let calls = stage.calls(0..nodes - 1, &operation);
        for node in dead {
            stage.run(Duration::from_micros(300 * seed));
            stage.world.act(
                &Fault::Crash {
                    node,
                    noticed: false,
                },
                |_| {},
            );
        }
        stage.run(Duration::from_secs(5));
        let last = stage.calls((nodes - 1)..nodes, &operation);
        stage.run(TIME);
        let calls: Vec<_> = calls.into_iter().chain(last).collect();
        let left = |(id, _): &&(Id, u64)| !dead.contains(id);
        let first = stage.outcome(*calls.iter().find(left).unwrap()).clone();
        for call in calls.iter().filter(left) {
            let outcome = stage.outcome(*call);
            assert!(outcome.agreed, "seed {seed}, {call:?}: {outcome:?}");
            assert_eq!(outcome.missing, first.missing, "seed {seed}");
            assert_eq!(outcome.end, first.end, "seed {seed}");
        }
        // The next generation completes without the dead members.
        let next = terms(0..nodes, 2, Verb::Barrier);
        let calls = stage.calls((0..nodes).filter(|id| !dead.contains(id)), &next);
        stage.run(Duration::from_secs(2));
        for call in calls {
            let outcome = stage.outcome(call);
            assert!(outcome.agreed, "seed {seed}: {outcome:?}");
            let missing: Vec<Id> = outcome.missing.iter().map(|(id, _)| *id).collect();
            let mut expected = dead.to_vec();
            expected.sort_unstable();
            assert_eq!(missing, expected, "seed {seed}");
            assert!(outcome.missing.iter().all(|(_, c)| *c == Class::Dead));
        }
    }
}

#[test]
fn of_two_sides_only_a_majority_decides() {
    for (seed, one) in [(1, 9), (2, 8)] {
        let mut stage = Stage::formed(16, seed);
        let groups = vec![(0..one).collect(), (one..16).collect()];
        let ms = TIME.as_millis() as u64 + 2000;
        stage.world.act(&Fault::Partition { groups, ms }, |_| {});
        stage.run(Duration::from_secs(1));
        let operation = terms(0..16, 1, Verb::Barrier);
        let calls = stage.calls(0..16, &operation);
        stage.run(TIME);
        for call in &calls {
            let is_decided = one == 9 && call.0 < one;
            let outcome = stage.outcome(*call);
            assert_eq!(outcome.agreed, is_decided, "seed {seed}: {call:?}");
        }
        stage.run(Duration::from_secs(30));
        let again = stage.calls(0..16, &operation);
        stage.run(TIME);
        let first = stage.outcome(again[0]).clone();
        for call in calls.into_iter().chain(again) {
            let outcome = stage.outcome(call);
            if outcome.agreed {
                assert_eq!(outcome.missing, first.missing, "seed {seed}: {call:?}");
            }
        }
        assert!(first.agreed, "seed {seed}");
    }
}

#[test]
fn members_that_return_take_part_again() {
    let mut stage = Stage::formed(8, 3);
    let first = terms(0..8, 1, Verb::Barrier);
    stage.calls(0..8, &first);
    stage.run(Duration::from_secs(1));
    for node in [0, 3, 5] {
        stage.world.act(
            &Fault::Restart {
                node,
                memory: Memory::Boot,
            },
            |_| {},
        );
    }
    stage.run(Duration::from_secs(20));
    let second = terms(0..8, 2, Verb::AllGather);
    let calls = stage.calls(0..8, &second);
    stage.run(Duration::from_secs(3));
    for call in calls {
        let outcome = stage.outcome(call);
        assert_eq!(outcome.end, Some(End::Completed));
        assert_eq!(outcome.missing, [], "{call:?}");
    }
}

/// Arrivals and votes go up, proposals and decisions go down, each in one frame over each link of
/// the tree. The beats of the overlay are subtracted.
#[test]
fn a_barrier_takes_four_frames_for_each_member() {
    for nodes in [16, 33, 64] {
        let mut stage = Stage::formed(nodes, 4);
        stage.run(Duration::from_secs(30));
        let mut quiet = u64::MAX;
        for _ in 0..10 {
            let before = stage.world.sent();
            stage.run(Duration::from_millis(20));
            quiet = quiet.min(stage.world.sent() - before);
        }
        let mut least = u64::MAX;
        for generation in 1..=10 {
            let operation = terms(0..nodes, generation, Verb::Barrier);
            let before = stage.world.sent();
            let calls = stage.calls(0..nodes, &operation);
            stage.run(Duration::from_millis(20));
            least = least.min(stage.world.sent() - before - quiet);
            assert!(calls.iter().all(|call| stage.outcome(*call).agreed));
        }
        // The nodes may have sent a few beats more than in the quietest interval.
        let most = 4 * u64::from(nodes - 1) + u64::from(nodes) / 8;
        assert!(least <= most, "{nodes} nodes: {least}");
    }
}

/// A process that lost its state has a smaller boot than before. It begins another life when it
/// meets a peer that knew the former life.
#[test]
fn callers_wait_on_while_their_process_begins_another_life() {
    for (nodes, lost) in [(3, 2), (7, 3), (16, 5)] {
        let mut stage = Stage::formed(nodes, nodes.into());
        stage.world.crash_noticed(lost);
        stage.run(Duration::from_secs(8));
        stage.world.restart_with(lost, Memory::Lost);
        let before = stage.world.boot(lost);
        let terms = terms(0..nodes, 1, Verb::AllGather);
        let mut calls = stage.calls([lost], &terms);
        stage.run(Duration::from_secs(5));
        assert!(
            stage.world.boot(lost) > before + 1,
            "{nodes} nodes: no other life"
        );
        calls.extend(stage.calls((0..nodes).filter(|id| *id != lost), &terms));
        stage.run(Duration::from_secs(4));
        let all: Vec<(Id, Bytes)> = (0..nodes).map(|id| (id, value(id))).collect();
        for call in calls {
            let outcome = stage.outcome(call);
            assert!(
                outcome.agreed && outcome.values == all,
                "{nodes} nodes, {call:?}"
            );
        }
    }
}
