//! Whole peers in virtual time, in one program: the machines are compiled once.

mod arbitrary_state;
mod blocks;
mod collectives;
mod formation;
mod gathering;
mod joins_and_restarts;
mod launched;
mod leaving;
mod lives;
mod membership;
mod readiness;
mod survey;
mod vacancy;

use std::time::Duration;

use binomesh::world::{Conditions, Latency, Network, World};

/// Runs until all nodes that are up form the binomial graph, in which ranks of the dead may be
/// vacant, and returns the time that this took.
#[track_caller]
fn settle(world: &mut World, what: &str) -> Duration {
    let start = world.now();
    let settled = world.run_until(start + Duration::from_secs(60), |w| w.defect().is_none());
    let (seed, defect) = (world.seed(), world.defect());
    assert!(settled, "seed {seed}, {what}: {defect:?}");
    world.now() - start
}

/// A network that loses, doubles and reorders some messages.
fn lossy() -> Network {
    Network::with(Conditions {
        latency: Latency::Uniform {
            min_us: 50,
            max_us: 20_000,
        },
        loss_per_million: 50_000,
        duplicated_per_million: 10_000,
        reordered_per_million: 50_000,
    })
}
