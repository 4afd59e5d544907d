//! A collective operation of a scenario: its terms, its callers and their times.

use std::collections::BTreeMap;

use binomesh::world::Id;
use binomesh_overlay::noise::Noise;
use binomesh_routing::collective::{Key, Name, Number, OnLoss, Op, Terms, Verb, join_parts};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An operation to call. The scenario has its time; each caller comes then or later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The name of the operation.
    pub name: Name,
    /// The generation of the operation.
    pub generation: u64,
    /// The members that are listed.
    pub members: Vec<Id>,
    /// The verb of the operation.
    pub verb: Verb,
    /// What happens if members are lost.
    pub on_loss: OnLoss,
    /// The length in bytes of each member's value. With scatter and all-to-all, where a value has a
    /// part for each member, the length of one part.
    pub bytes: u32,
    /// The callers. A caller does not call if its node is then down, paused or leaving, or if the
    /// faults of the scenario have ended by then.
    pub callers: Vec<Caller>,
}

/// A caller of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// The node of the caller.
    pub by: Id,
    /// How long after the operation's time it calls.
    pub after_ms: u64,
    /// How long it waits for the outcome.
    pub time_ms: u64,
}

impl Operation {
    /// The terms that all callers give.
    pub fn terms(&self) -> Terms<Id> {
        Terms {
            key: Key {
                name: self.name.clone(),
                generation: self.generation,
            },
            members: self.members.clone(),
            verb: self.verb.clone(),
            on_loss: self.on_loss,
        }
    }

    /// A value that fits the verb, drawn from this seed.
    pub fn value(&self, seed: u64) -> Bytes {
        let mut noise = Noise::new(seed);
        match &self.verb {
            Verb::Barrier => Bytes::new(),
            Verb::Scatter { .. } | Verb::AllToAll => {
                let places = 0..self.members.len() as u32;
                let parts = places.map(|place| (place, self.random(&mut noise)));
                join_parts(&parts.collect::<BTreeMap<u32, Bytes>>())
            }
            Verb::Reduce {
                op: Op::Numbers(_, number),
                ..
            }
            | Verb::AllReduce {
                op: Op::Numbers(_, number),
            } => {
                let words = (0..self.bytes / 8).map(|_| word(*number, &mut noise));
                words.flatten().collect()
            }
            _ => self.random(&mut noise),
        }
    }

    fn random(&self, noise: &mut Noise) -> Bytes {
        (0..self.bytes).map(|_| noise.next() as u8).collect()
    }
}

/// A number of 64 bits. Floating-point numbers are quarters, whose sums are exact.
fn word(number: Number, noise: &mut Noise) -> [u8; 8] {
    match number {
        Number::U64 | Number::I64 => noise.next().to_le_bytes(),
        Number::F64 => {
            let quarters = (noise.next() % 10_000) as f64 - 5_000.0;
            (quarters / 4.0).to_le_bytes()
        }
    }
}
