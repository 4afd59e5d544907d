//! The values that callers got: whether they are of the right members, and whether each member
//! called with its value.
//!
//! A member that was started again may have called with two values, of which one counts. Each value
//! that a caller got excludes some of them; at least one must remain. A combined value must follow
//! from one choice of a value for each member.

use std::collections::BTreeMap;

use binomesh::world::Id;
use binomesh_routing::collective::{End, Number, Op, Operator, Outcome, ReduceError, Verb};
use bytes::Bytes;

use super::{Breach, Operation};

/// How many choices of values a combined value is compared with. If there are as many or more,
/// every combined value counts as right.
const MAX_CHOICES: usize = 256;

/// The values that each member may have brought.
type Choices = BTreeMap<Id, Vec<Bytes>>;

/// Judge all values that the callers of an operation got. `is_one`: no listed member has lost its
/// disk, so each member must have the same value in all outcomes.
pub(super) fn judge(operation: &Operation, is_one: bool, found: &mut Vec<Breach>) {
    let mut choices = Choices::new();
    for call in &operation.calls {
        let values = choices.entry(call.by).or_default();
        values.push(call.value.clone());
    }
    for call in &operation.calls {
        if let Some((_, outcome)) = call.outcome() {
            let mut own = choices.clone();
            let kept = if is_one { &mut choices } else { &mut own };
            judge_values(operation, call.by, outcome, kept, found);
        }
    }
    for call in &operation.calls {
        if let Some((_, outcome)) = call.outcome() {
            judge_sum(operation, call.by, outcome, &choices, found);
        }
    }
}

fn judge_values(
    operation: &Operation,
    by: Id,
    outcome: &Outcome<Id>,
    choices: &mut Choices,
    found: &mut Vec<Breach>,
) {
    let of: Vec<Id> = outcome.values.iter().map(|(of, _)| *of).collect();
    if of != sources(operation, by, outcome) {
        return found.push(Breach::WrongSources { by, of });
    }
    let place = operation.terms.place(by).unwrap_or(u32::MAX);
    for (of, value) in &outcome.values {
        let left = choices.entry(*of).or_default();
        left.retain(|whole| match operation.terms.verb.has_parts() {
            true => part(whole, place) == *value,
            false => whole == value,
        });
        if left.is_empty() {
            found.push(Breach::WrongValue { by, of: *of });
        }
    }
}

/// The members whose values a caller should get.
fn sources(operation: &Operation, by: Id, outcome: &Outcome<Id>) -> Vec<Id> {
    let terms = &operation.terms;
    let is_completed = outcome.agreed && outcome.end == Some(End::Completed);
    let root = terms.verb.root();
    let root = root.and_then(|root| terms.members.get(root as usize).copied());
    let is_root = root == Some(by);
    let all = || outcome.arrived.clone();
    match &terms.verb {
        _ if !is_completed => Vec::new(),
        Verb::Agree => outcome.arrived.iter().take(1).copied().collect(),
        Verb::AllGather | Verb::AllToAll | Verb::AllReduce { op: Op::User(_) } => all(),
        Verb::Gather { .. }
        | Verb::Reduce {
            op: Op::User(_), ..
        } if is_root => all(),
        Verb::Scatter { .. } => root.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn judge_sum(
    operation: &Operation,
    by: Id,
    outcome: &Outcome<Id>,
    choices: &Choices,
    found: &mut Vec<Breach>,
) {
    let terms = &operation.terms;
    let is_completed = outcome.agreed && outcome.end == Some(End::Completed);
    let place = terms.place(by);
    let op = match &terms.verb {
        Verb::Reduce { root, op } if Some(*root) == place => Some(op),
        Verb::AllReduce { op } => Some(op),
        _ => None,
    };
    let op = op.filter(|_| is_completed && !outcome.arrived.is_empty());
    let is_right = match (op, &outcome.combined) {
        (None, combined) => combined.is_none(),
        (Some(Op::Numbers(operator, number)), Some(Ok(sum))) => {
            let sums = sums(*operator, *number, &outcome.arrived, choices);
            sums.len() >= MAX_CHOICES || sums.contains(sum)
        }
        (Some(Op::User(_)), Some(combined)) => {
            let is_alone = outcome.arrived.len() == 1;
            is_alone || *combined == Err(ReduceError::User)
        }
        (Some(_), _) => false,
    };
    if !is_right {
        found.push(Breach::WrongSum { by });
    }
}

/// The possible combined values, combined in the order of the list; at most [`MAX_CHOICES`].
fn sums(operator: Operator, number: Number, arrived: &[Id], choices: &Choices) -> Vec<Bytes> {
    let mut sums: Vec<Option<Bytes>> = vec![None];
    for member in arrived {
        let values = choices.get(member).map(Vec::as_slice).unwrap_or_default();
        let with = |sum: &Option<Bytes>, value: &Bytes| match sum {
            None => value.clone(),
            Some(sum) => fold(operator, number, sum, value),
        };
        let all = sums
            .iter()
            .flat_map(|sum| values.iter().map(move |value| with(sum, value)));
        sums = all.map(Some).take(MAX_CHOICES).collect();
    }
    sums.into_iter().flatten().collect()
}

/// Combine two values number by number, in an implementation of its own: the reference.
fn fold(operator: Operator, number: Number, one: &[u8], other: &[u8]) -> Bytes {
    let words = |bytes: &[u8]| -> Vec<u64> {
        let words = bytes.chunks_exact(8).map(|word| {
            let word = word.iter().rev();
            word.fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
        });
        words.collect()
    };
    let pairs = words(one).into_iter().zip(words(other));
    let all = pairs.map(|(a, b)| match (number, operator) {
        (_, Operator::And) => a & b,
        (_, Operator::Or) => a | b,
        (_, Operator::Xor) => a ^ b,
        (Number::F64, operator) => {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let is_first = match operator {
                Operator::Sum => return (x + y).to_bits(),
                Operator::Min => x <= y,
                _ => x >= y,
            };
            if is_first { a } else { b }
        }
        (_, Operator::Sum) => a.wrapping_add(b),
        (Number::U64, Operator::Min) => a.min(b),
        (Number::U64, Operator::Max) => a.max(b),
        (Number::I64, operator) => {
            let is_less = a.cast_signed() < b.cast_signed();
            if is_less == (operator == Operator::Min) {
                a
            } else {
                b
            }
        }
    });
    all.flat_map(u64::to_le_bytes).collect()
}

/// The part for the member at a place. Parts are written as a count, and then for each its place,
/// its length and its bytes.
fn part(whole: &Bytes, place: u32) -> Bytes {
    let mut rest = &whole[..];
    let count = number(&mut rest);
    for _ in 0..count {
        let (at, length) = (number(&mut rest), number(&mut rest) as usize);
        let (bytes, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        if at == u64::from(place) {
            return Bytes::copy_from_slice(bytes);
        }
    }
    Bytes::new()
}

/// A number in groups of seven bits, the lowest first.
fn number(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let Some((byte, behind)) = rest.split_first() else {
            break;
        };
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
