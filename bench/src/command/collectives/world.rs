//! A barrier and an all-gather among whole peers in virtual time: messages, bytes and duration.

use std::time::Duration;

use binomesh::peer::{Event, Input};
use binomesh::world::World;
use binomesh_routing::collective::{Call, Key, OnLoss, Terms, Verb};
use bytes::Bytes;
use serde::Serialize;

use crate::command::Failure;
use crate::record;

/// The longest time of one operation.
const TIME: Duration = Duration::from_secs(60);

/// The cost of one operation.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    nodes: u32,
    system: &'static str,
    operation: &'static str,
    bytes: u32,
    seed: u64,
    /// All messages between peers during the operation, those of the overlay included.
    messages: u64,
    messages_per_member: f64,
    /// The bytes of these messages together.
    sent_bytes: u64,
    virtual_ms: f64,
}

impl Row {
    /// The row as a line of the table.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<10} {:<24} {:>6} {:>9} messages, {:.2} for each member, {} bytes, {:.3} ms",
            self.system,
            self.operation,
            self.bytes,
            self.messages,
            self.messages_per_member,
            self.sent_bytes,
            self.virtual_ms
        )
    }
}

/// Measure a barrier and an all-gather of this many peers that call at once, in a local network.
pub(super) fn measure(nodes: u32, bytes: u32, seed: u64) -> Result<Vec<Row>, Failure> {
    let mut world =
        crate::command::world::formed(nodes, seed, binomesh_routing::Config::default())?;
    world.set_uplinks(None);
    let mut rows = Vec::new();
    for (name, verb, bytes) in [
        ("barrier", Verb::Barrier, 0),
        ("all-gather", Verb::AllGather, bytes),
    ] {
        record::progress(format_args!("{name}"));
        let operation = Operation { name, verb, bytes };
        rows.push(one(&mut world, nodes, operation)?);
    }
    record::progress_done();
    Ok(rows)
}

/// The operation that all members call.
struct Operation {
    name: &'static str,
    verb: Verb,
    /// The length of each member's value.
    bytes: u32,
}

fn one(world: &mut World, nodes: u32, operation: Operation) -> Result<Row, Failure> {
    let Operation { name, verb, bytes } = operation;
    let terms = Terms {
        key: Key {
            name: name.parse().map_err(Failure::run)?,
            generation: 1,
        },
        members: (0..nodes).collect(),
        verb,
        on_loss: OnLoss::default(),
    };
    world.take_events();
    let (began, sent, bytes_before) = (world.now(), world.sent(), world.bytes_sent());
    for id in 0..nodes {
        let call = Call {
            id: 1,
            terms: terms.clone(),
            value: Bytes::from(vec![id as u8; bytes as usize]),
            time: TIME,
        };
        world.feed(id, Input::Call(Box::new(call)));
    }
    let (mut answered, mut last) = (0, began);
    while answered < nodes && world.now() < began + TIME {
        world.run_for(Duration::from_micros(100));
        for told in world.take_events() {
            let Event::Answer { outcome, .. } = told.event else {
                continue;
            };
            let outcome = outcome.map_err(Failure::run)?;
            if !outcome.agreed || !outcome.missing.is_empty() {
                return Err(Failure::Run(format!(
                    "the collective {name} ended without some members"
                )));
            }
            answered += 1;
            last = told.at;
        }
    }
    let messages = world.sent() - sent;
    Ok(Row {
        nodes,
        system: "world",
        operation: name,
        bytes,
        seed: world.seed(),
        messages,
        messages_per_member: messages as f64 / f64::from(nodes),
        sent_bytes: world.bytes_sent() - bytes_before,
        virtual_ms: (last - began).as_secs_f64() * 1000.0,
    })
}
