//! Packets from one node to another.

use binomesh_overlay::Rank;
use binomesh_routing::router::Hop;

use super::Study;
use super::cases::{Cases, Sets};
use super::tally::Tally;
use super::world::World;
use crate::record::CpuWatch;

/// Run the cases of one chunk.
pub(super) fn run(study: &Study, cases: &Cases, chunk: u64) -> Tally {
    let (mut tally, mut world) = (Tally::default(), World::new(study));
    for number in cases.chunk(chunk) {
        match cases.sets() {
            Sets::Exhaustive => {
                if let Some((dead, source)) = cases.unicasts(number) {
                    world.kill(dead);
                    to_all(&mut world, source, &mut tally);
                }
            }
            Sets::Sampled => {
                if let Some((dead, source, destination)) = cases.draw_unicast(study, number) {
                    world.kill(dead);
                    to_one(&mut world, source, destination, &mut tally);
                }
            }
        }
    }
    tally.decisions = world.decisions;
    tally
}

fn to_all(world: &mut World<'_>, source: Rank, tally: &mut Tally) {
    let shortest = world.breadth_first(source);
    let destinations: Vec<Rank> = world.live().filter(|rank| *rank != source).collect();
    let watch = CpuWatch::of_thread();
    for destination in &destinations {
        if let Some(hops) = walk(world, source, *destination) {
            tally.hops.add(hops);
        }
    }
    tally.deciding += world.elapsed(watch);
    for destination in &destinations {
        if let Some(length) = shortest[destination.0 as usize] {
            tally.connected += 1;
            tally.shortest.add(length);
        }
    }
    tally.cases += destinations.len() as u64;
    tally.live += destinations.len() as u64;
}

fn to_one(world: &mut World<'_>, source: Rank, destination: Rank, tally: &mut Tally) {
    let watch = CpuWatch::of_thread();
    let hops = walk(world, source, destination);
    tally.deciding += world.elapsed(watch);
    tally.cases += 1;
    tally.live += 1;
    if let Some(hops) = hops {
        tally.hops.add(hops);
    }
    let is_connected = || world.breadth_first(source)[destination.0 as usize].is_some();
    tally.connected += u64::from(hops.is_some() || is_connected());
}

/// The hops to the destination, if it is reached.
fn walk(world: &mut World<'_>, source: Rank, destination: Rank) -> Option<u32> {
    let mut packet = world.packet([destination]);
    let (mut here, mut hops) = (source, 0);
    loop {
        match world.choose(here, &mut packet) {
            Hop::Forward(next) | Hop::Back(next) => here = next,
            Hop::Arrived => return Some(hops),
            Hop::Lost(_) | Hop::Done => return None,
        }
        hops += 1;
    }
}
