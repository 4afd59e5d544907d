//! The collective operations of a scenario.
//!
//! They are drawn apart from everything else, so that the rest of a scenario is the same with and
//! without them.

use binomesh::world::Id;
use binomesh_routing::collective::{Name, Number, OnLoss, Op, Operator, Verb};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::command::chaos::operation::{Caller, Operation};
use crate::command::chaos::scenario::Timed;

/// This number xor the seed of a scenario is the seed of its operations, which are drawn apart from
/// everything else.
const OF_OPERATIONS: u64 = 0x9d2c_5680_ca7a_11ed;
/// The longest time between two operations.
const MOST_BETWEEN_MS: u64 = 20_000;
/// The length in bytes of a value that is too long to travel in the proposal itself, even if there
/// are few members.
const LONG: u32 = 5_000;

/// The operations of this seed, until this time.
pub(super) fn operations(seed: u64, nodes: u32, end_ms: u64) -> Vec<Timed<Operation>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ OF_OPERATIONS);
    let mut names: Vec<(Name, u64)> = ["first", "second"]
        .into_iter()
        .filter_map(|name| Some((name.parse().ok()?, 0)))
        .collect();
    let mut operations = Vec::new();
    let mut at_ms = rng.random_range(0..MOST_BETWEEN_MS);
    while at_ms < end_ms {
        let place = rng.random_range(0..names.len());
        if let Some((name, generation)) = names.get_mut(place) {
            *generation += rng.random_range(1..=3);
            let what = operation(name.clone(), *generation, nodes, &mut rng);
            operations.push(Timed { at_ms, what });
        }
        at_ms += rng.random_range(0..MOST_BETWEEN_MS);
    }
    operations
}

fn operation(name: Name, generation: u64, nodes: u32, rng: &mut ChaCha8Rng) -> Operation {
    let mut members: Vec<Id> = (0..nodes).collect();
    if rng.random_bool(0.5) {
        members.shuffle(rng);
        let most = nodes.min(9).max(nodes / 2);
        members.truncate(rng.random_range(1..=most) as usize);
    }
    let count = members.len() as u32;
    let verb = verb(count, rng);
    let on_loss = match rng.random_range(0..5) {
        0 => OnLoss::Survivors {
            at_least: rng.random_range(1..=count),
        },
        1 => OnLoss::Abort,
        2 => OnLoss::Wait,
        _ => OnLoss::default(),
    };
    let bytes = match rng.random_range(0..8) {
        0 => LONG,
        1 => 600,
        _ => rng.random_range(0..6) * 8,
    };
    let bytes = match verb.has_parts() {
        true => bytes / count.max(1) + 1,
        false => bytes,
    };
    let callers = callers(&members, rng);
    Operation {
        name,
        generation,
        members,
        verb,
        on_loss,
        bytes,
        callers,
    }
}

fn verb(count: u32, rng: &mut ChaCha8Rng) -> Verb {
    let root = rng.random_range(0..count.max(1));
    match rng.random_range(0..8) {
        0 => Verb::Barrier,
        1 => Verb::Agree,
        2 => Verb::AllGather,
        3 => Verb::Gather { root },
        4 => Verb::Scatter { root },
        5 => Verb::Reduce { root, op: op(rng) },
        6 => Verb::AllReduce { op: op(rng) },
        _ => Verb::AllToAll,
    }
}

fn op(rng: &mut ChaCha8Rng) -> Op {
    use Operator::{And, Max, Min, Or, Sum, Xor};
    if rng.random_ratio(1, 6) {
        return Op::User("concatenate".to_owned());
    }
    let operators = [Sum, Min, Max, And, Or, Xor];
    let numbers = [Number::U64, Number::I64, Number::F64];
    let operator = operators.choose(rng).copied().unwrap_or(Sum);
    let number = numbers.choose(rng).copied().unwrap_or(Number::U64);
    Op::Numbers(operator, number)
}

/// All members call. In half of the operations one member differs: it is late, never calls, or
/// calls again.
fn callers(members: &[Id], rng: &mut ChaCha8Rng) -> Vec<Caller> {
    let spread_ms = [1, 50, 500, 3_000].choose(rng).copied().unwrap_or(1);
    let time_ms = rng.random_range(500..=15_000);
    let mut callers: Vec<Caller> = Vec::new();
    for by in members {
        callers.push(Caller {
            by: *by,
            after_ms: rng.random_range(0..spread_ms),
            time_ms: time_ms + rng.random_range(0..500),
        });
    }
    let one = rng.random_range(0..members.len().max(1));
    match rng.random_range(0..8) {
        0 | 1 => {
            if let Some(late) = callers.get_mut(one) {
                late.after_ms = rng.random_range(500..12_000);
            }
        }
        2 => _ = callers.remove(one),
        3 => {
            let again = callers.get(one).map(|first| Caller {
                after_ms: first.after_ms + rng.random_range(500..8_000),
                ..first.clone()
            });
            callers.extend(again);
        }
        _ => {}
    }
    callers
}
