//! Messages on topics: two subscribers, one publisher, and a receipt.
//!
//! ```text
//! cargo run --example publish_subscribe
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod support;

use binomesh::Received;
use support::{LIMIT, Outcome, start};

#[tokio::main]
async fn main() -> Outcome {
    let nodes = start(3).await?;
    // A filter is a topic, or the beginning of topics followed by `#`.
    let mut jobs = nodes.all[1].subscribe("jobs/#".parse()?).await?;
    let mut one_job = nodes.all[2].subscribe("jobs/a".parse()?).await?;
    let topic = nodes.all[0].topic("jobs/a".parse()?);
    // The receipt says which members have the message. A sender need not wait for it.
    let receipt = topic.publish("start").await?;
    println!(
        "{} of {} have it",
        receipt.reached_count, receipt.expected_count
    );
    for subscription in [&mut jobs, &mut one_job] {
        match tokio::time::timeout(LIMIT, subscription.next()).await? {
            Some(Received::Message(message)) => {
                let text = String::from_utf8_lossy(&message.payload);
                println!("{} says {text:?} on {}", message.origin_name, message.topic);
                assert_eq!(text, "start");
            }
            // A slow subscriber loses messages, and is told how many.
            other => return Err(format!("no message but {other:?}").into()),
        }
    }
    Ok(())
}
