//! Blocks to all members, limited by the uplink of each member.

use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{DeploymentTree, Network, World};
use binomesh_routing::packet::Confirmation;
use binomesh_routing::relay::Due;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Destination, Publish, Topic};
use bytes::Bytes;

const BLOCK: usize = 16 << 10;
const BYTES_PER_SECOND: u64 = 50_000_000 / 8;

/// The time until the live members of `nodes` have all `blocks` blocks, in multiples of the time
/// that one block takes on one uplink. The ranks of the `dead` are vacant.
fn block_times(nodes: u32, blocks: u32, strategy: fn(u32) -> Strategy, dead: &[u32]) -> f64 {
    let mut world = World::new(nodes.into(), Network::local());
    world.deploy(nodes, DeploymentTree::Binomial, |_| {});
    let end = world.now() + Duration::from_secs(120);
    let settled = world.run_until(end, |world| world.defect().is_none());
    assert!(settled, "{nodes} nodes: {:?}", world.defect());
    world.run_for(Duration::from_secs(5));
    dead.iter().for_each(|id| world.crash(*id));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.defect_or_vacancy().is_some(), !dead.is_empty());
    world.set_uplinks(Some(BYTES_PER_SECOND));
    world.take_events();
    let began = world.now();
    for left in (0..blocks).rev() {
        let publish = Publish {
            topic: Topic::default(),
            payloads: Bytes::from(vec![0; BLOCK]).into(),
            destination: Destination::All,
            strategy: strategy(left),
            due: Due::Settled,
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        };
        let published = world.with_peer(0, |peer, out| peer.publish(publish, out).is_ok());
        assert_eq!(published, Some(true));
    }
    world.run_for(Duration::from_secs(10));
    let told = world.take_events().into_iter();
    let deliveries = told.filter(|told| {
        told.by != 0 && matches!(told.event, Event::Relay(routing::Event::Deliver(_)))
    });
    let times: Vec<Duration> = deliveries.map(|told| told.at - began).collect();
    let others = nodes - 1 - dead.len() as u32;
    assert_eq!(times.len() as u32, others * blocks, "{nodes} nodes");
    let last = times.into_iter().max().unwrap_or_default();
    last.as_secs_f64() * BYTES_PER_SECOND as f64 / BLOCK as f64
}

#[test]
fn all_uplinks_are_busy_all_the_time() {
    for (nodes, blocks) in [(3u32, 30), (13, 64), (24, 50), (64, 64)] {
        let least = f64::from(blocks - 1 + nodes.next_power_of_two().ilog2());
        let took = block_times(nodes, blocks, Strategy::circulant, &[]);
        let case = format!("{nodes} nodes, {blocks} blocks: {took} for {least}");
        assert!((least..1.1 * least).contains(&took), "{case}");
        let chain = block_times(nodes, blocks, |_| Strategy::Chain, &[]);
        assert!(chain > took, "{case}, along a chain {chain}");
    }
}

#[test]
fn the_blocks_of_dead_senders_are_shared_evenly_by_the_others() {
    let cases: [(u32, &[u32]); 5] = [
        (16, &[3]),
        (16, &[8]),
        (13, &[12]),
        (24, &[5, 6, 7]),
        (64, &[1]),
    ];
    for (nodes, dead) in cases {
        let least = f64::from(63 + nodes.next_power_of_two().ilog2());
        let took = block_times(nodes, 64, Strategy::circulant, dead);
        let case = format!("{nodes} nodes without {dead:?}: {took} for {least}");
        assert!((least..1.2 * least).contains(&took), "{case}");
    }
}
