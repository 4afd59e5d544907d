//! A barrier: each member waits until all members have arrived, or the missing ones are lost or
//! late.
//!
//! ```text
//! cargo run --example barrier
//! ```
//!
//! All members call the same operation: the same name, generation and list. A majority decides the
//! outcome, so no two members get different agreed outcomes.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod support;

use std::time::Duration;

use support::{LIMIT, Outcome, start};

#[tokio::main]
async fn main() -> Outcome {
    let nodes = start(3).await?;
    let names = ["node-0", "node-1", "node-2"];
    let mut members = Vec::new();
    for (node, number) in nodes.all.into_iter().zip(0..) {
        members.push(tokio::spawn(async move {
            // Each member does some other work first.
            tokio::time::sleep(Duration::from_millis(50 * number)).await;
            let step = node.collective("step").generation(1).among(names);
            let outcome = step.deadline(LIMIT).barrier().await;
            (node, outcome)
        }));
    }
    for member in members {
        let (node, outcome) = member.await?;
        let outcome = outcome?;
        println!("{}: {} have come", node.name(), outcome.arrived_count);
        assert!(outcome.agreed && outcome.missing.is_empty());
    }
    Ok(())
}
