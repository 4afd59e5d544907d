//! A world of whole peers after forming, for commands that measure in virtual time.

use std::time::Duration;

use binomesh::world::{DeploymentTree, Id, Network, World};

use super::Failure;
use crate::record;

/// The longest time of forming.
const FORMING: Duration = Duration::from_secs(300);

/// This many peers in a local network, whose relays have the configuration `relay`. All are ready
/// and know all members.
pub(super) fn formed(
    nodes: u32,
    seed: u64,
    relay: binomesh_routing::Config,
) -> Result<World, Failure> {
    let mut world = World::new(seed, Network::local());
    *world.relay() = relay;
    world.deploy(nodes, DeploymentTree::Binomial, |_| {});
    record::progress(format_args!("{nodes} peers form"));
    let end = world.now() + FORMING;
    let is_formed = |world: &World| {
        let mut peers = world.peers();
        let is_complete = |roster: &binomesh_routing::roster::Roster<Id>| roster.is_complete();
        peers.all(|(_, peer)| peer.is_ready() && peer.relay().roster().is_some_and(is_complete))
    };
    // Looking at all peers after each message would take far longer.
    while !is_formed(&world) {
        if world.now() >= end {
            return Err(Failure::Run(
                "the simulated peers did not form an overlay in time".to_owned(),
            ));
        }
        world.run_for(Duration::from_millis(100));
    }
    Ok(world)
}
