//! A test of your own application against crashes, in virtual time.
//!
//! ```text
//! cargo run --example simulated --features simulator
//! ```
//!
//! The world runs the protocol code of real nodes. The network and the clock are simulated, so the
//! same seed gives the same run.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{DeploymentTree, Network, World};
use binomesh_routing::{self as routing, Destination, Due, Publish, Topic};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = 7;
    // One message in a hundred is lost; the others take 1 to 5 ms.
    let network = Network::new(
        Duration::from_millis(1),
        5 * Duration::from_millis(1),
        10_000,
    );
    let mut world = World::new(seed, network);
    world.deploy(12, DeploymentTree::Flat, |_| {});
    let is_formed = world.run_until(60 * SECOND, |world| world.defect().is_none());
    assert!(is_formed, "seed {seed}: {:?}", world.defect());

    // Node 5 dies while a message to all is on its way.
    let publish = Publish {
        topic: Topic::new("jobs")?,
        payloads: Bytes::from_static(b"start").into(),
        destination: Destination::All,
        strategy: routing::strategy::Strategy::default(),
        due: Due::Settled,
        confirmation: binomesh::Confirmation::default(),
        is_ordered: false,
    };
    let published = world.with_peer(0, |peer, out| peer.publish(publish, out));
    let id = published.ok_or("node 0 is up")??;
    world.crash(5);
    world.run_for(60 * SECOND);

    let mut delivered = 0;
    for told in world.take_events() {
        match told.event {
            Event::Relay(routing::Event::Deliver(delivery)) if delivery.first == id => {
                delivered += 1;
            }
            Event::Relay(routing::Event::Receipt(receipt)) if receipt.id == id => {
                println!(
                    "{} reached, not: {:?}",
                    receipt.reached_count, receipt.unreached
                );
                assert!(receipt.reached_count >= 10);
            }
            _ => {}
        }
    }
    println!("{delivered} members delivered it");
    assert!((10..=11).contains(&delivered), "seed {seed}");
    Ok(())
}
