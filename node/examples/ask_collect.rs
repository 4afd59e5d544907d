//! A question to all members, and their answers.
//!
//! ```text
//! cargo run --example ask_collect
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod support;

use std::sync::Arc;

use binomesh::{Confirmation, Due, Node, Received, SendOptions};
use support::{LIMIT, Outcome, start};

#[tokio::main]
async fn main() -> Outcome {
    let nodes = start(4).await?;
    let mut nodes = nodes.all.into_iter();
    let asker = nodes.next().ok_or("there is a first node")?;
    for node in nodes {
        let node = Arc::new(node);
        let mut questions = node.subscribe("load".parse()?).await?;
        tokio::spawn(async move {
            while let Some(received) = questions.next().await {
                if let Received::Message(question) = received {
                    answer(&node, &question).await;
                }
            }
        });
    }
    let options = SendOptions {
        topic: "load".parse()?,
        // The application of each member has to answer.
        confirmation: Confirmation::Acknowledged,
        // The receipt waits for answers at most this long.
        due: Due::Within(LIMIT),
        ..SendOptions::default()
    };
    let receipt = asker.publish("how busy are you?", options).await?;
    for reply in &receipt.replies {
        let text = String::from_utf8_lossy(&reply.reply);
        println!("{:?}: {text}", reply.names);
    }
    println!("without an answer: {:?}", receipt.unacknowledged);
    assert!(receipt.unacknowledged.is_empty());
    Ok(())
}

/// An answer has at most 4,096 bytes. Only the first answer of a node counts.
async fn answer(node: &Node, question: &binomesh::Message) {
    let load = format!("{} is idle", node.name());
    if let Err(error) = node.reply(question.id, load).await {
        println!("no answer: {error}");
    }
}
