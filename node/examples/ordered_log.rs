//! A log: one member writes, the others read its entries in order.
//!
//! ```text
//! cargo run --example ordered_log
//! ```
//!
//! Messages have no order unless both ends ask for one. A missing entry is reported in its place,
//! so a reader knows when to ask for a copy of the log.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod support;

use binomesh::{Hold, Received, SendOptions};
use support::{LIMIT, Outcome, start};

const ENTRIES: u64 = 20;

#[tokio::main]
async fn main() -> Outcome {
    let nodes = start(3).await?;
    let filter = || "log".parse();
    // An entry waits at most 2 seconds for earlier entries that are still on their way.
    let mut reader = nodes.all[1]
        .subscribe_ordered(filter()?, Hold::default())
        .await?;
    let options = SendOptions {
        topic: "log".parse()?,
        is_ordered: true,
        ..SendOptions::default()
    };
    let writer = &nodes.all[0];
    let entries = (0..ENTRIES).map(|entry| writer.publish(entry.to_string(), options.clone()));
    // All entries are on their way at once.
    let receipts: Vec<_> = entries.collect();
    for entry in 0..ENTRIES {
        match tokio::time::timeout(LIMIT, reader.next()).await? {
            Some(Received::Message(message)) => {
                assert_eq!(message.payload, entry.to_string());
            }
            Some(Received::Gap(gap)) => println!("missing here: {gap:?}"),
            other => return Err(format!("no entry but {other:?}").into()),
        }
    }
    println!("{ENTRIES} entries, in order");
    for receipt in receipts {
        receipt.await?;
    }
    Ok(())
}
