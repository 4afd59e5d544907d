//! Pushes a file to all members.
//!
//! ```text
//! cargo run --example push_receive
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod support;

use binomesh::push::{self, Into, PushOptions, Receiver};
use support::{Outcome, start};

#[tokio::main]
async fn main() -> Outcome {
    let nodes = start(3).await?;
    let home = tempfile::tempdir()?;
    let mut receivers = Vec::new();
    for node in &nodes.all[1..] {
        let folder = home.path().join(node.name());
        std::fs::create_dir(&folder)?;
        // A member takes files only while it has a receiver.
        receivers.push(Receiver::start(node, Into::Folder(folder)).await?);
    }
    let file = vec![7_u8; 1 << 20];
    let options = PushOptions::new("image", file.len() as u64);
    let report = push::send(&nodes.all[0], &file[..], &options, |bytes| {
        println!("{bytes} bytes are everywhere");
    });
    let report = report.await?;
    println!("{report:#?}");
    assert!(report.is_complete());
    for node in &nodes.all[1..] {
        let copy = std::fs::read(home.path().join(node.name()).join("image"))?;
        assert_eq!(copy, file);
    }
    Ok(())
}
