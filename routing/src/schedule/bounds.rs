//! Lower bounds on the steps of a schedule: [EVO] Table 1, made right for graphs that are
//! irregular, directed or faulty.
//!
//! | collective | the bound is the largest of |
//! |---|---|
//! | all | distance (store-forward); one message per port and step (one-port) |
//! | oab | growth: each informed node tells one node per channel in a step; where few sets of nodes can be told, all of them are tried |
//! | aab | what a receiver takes in over its channels; cuts; growth for each sender |
//! | oas, aog | the flow that serves all receivers: exact, see `search/scatter.rs` |
//! | aas | congestion: the length of all paths over the room of all channels, for lengths found by linear-programming duality |
//!
//! Departure: Table 1 divides by one degree d. Here each node has its own; in the
//! 4 × 4 mesh with a corner that has lost a link, the one channel into the corner
//! forces 15 steps of an all-to-all broadcast.

mod broadcast;
mod congestion;

use std::collections::BTreeSet;

use super::plan::{Collective, Model, Ports};
use super::problem::Problem;
use super::search::exhaustion;
use super::search::scatter::{Ways, least_steps};
use super::topology::Node;

/// About how many sets of nodes of each kind are looked at; all sets around the last node are still
/// added. They take some 60 MB where there are 1,024 nodes. Guess: with fewer sets the bound may be
/// lower, so that an optimal schedule is not known to be optimal.
const REGIONS_MAX: usize = 1 << 14;

/// A number of steps below which no schedule exists; at least 1.
pub fn lower_bound(problem: &Problem) -> u32 {
    lower_bound_while(problem, &mut || true)
}

/// The [`lower_bound`] within the time that `goes_on` allows. Once `goes_on` denies, the parts of
/// the bound that are not computed yet are left out. The result may then be smaller, and is still a
/// lower bound.
pub fn lower_bound_while(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> u32 {
    let bound = match problem.request().collective {
        Collective::Oab => one_to_all(problem, goes_on),
        Collective::Aab => all_to_all(problem, goes_on),
        Collective::Oas => scatter(problem, goes_on),
        Collective::Aog => scatter(&problem.turned(), goes_on),
        Collective::Aas => congestion::bound(problem, goes_on).max(endpoints(problem)),
    };
    bound.max(hops(problem)).max(1) as u32
}

/// Steps for the longest way of a message: in store-forward one per hop, by wormhole 1.
fn hops(problem: &Problem) -> usize {
    if problem.request().model == Model::Wormhole {
        return 1;
    }
    let farthest = problem.senders().iter().map(|from| {
        let distances = problem.graph().distances_from(*from);
        let hops = problem.receivers().iter().filter_map(|to| distances[*to]);
        hops.max().unwrap_or(0)
    });
    farthest.max().unwrap_or(0)
}

/// Steps until the busiest sender has sent all of its messages, and until the busiest receiver has
/// taken in all of its own: one message per step and channel, or per step with one port.
fn endpoints(problem: &Problem) -> usize {
    let is_broadcast = problem.request().collective.is_broadcast();
    let blocks = problem.request().blocks as usize;
    let (senders, receivers) = (problem.senders(), problem.receivers());
    let others = |all: &[Node], node: Node| all.len() - usize::from(all.contains(&node));
    let received = receivers.iter().map(|node| {
        let messages = others(senders, *node) * blocks;
        messages.div_ceil(width(problem, problem.graph().into(*node).len()))
    });
    let sent = senders.iter().map(|node| {
        let messages = match is_broadcast {
            true => blocks * usize::from(others(receivers, *node) > 0),
            false => others(receivers, *node),
        };
        messages.div_ceil(width(problem, problem.graph().out(*node).len()))
    });
    received.chain(sent).max().unwrap_or(0)
}

/// How many messages a node with this many channels sends or takes in per step.
fn width(problem: &Problem, channels: usize) -> usize {
    match problem.request().ports {
        Ports::One => 1,
        Ports::All => channels.max(1),
    }
}

fn one_to_all(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> usize {
    let Some(source) = problem.source() else {
        return 0;
    };
    // Each channel carries one block per step, with one port each node takes in one, and each
    // receiver takes in all blocks.
    let blocks = problem.request().blocks as usize;
    let deliveries = problem.pairs().count() * blocks;
    let room = match problem.request().ports {
        Ports::One => problem.graph().healthy_nodes().count(),
        Ports::All => problem.graph().channels().len(),
    };
    let last = (blocks - 1) / width(problem, problem.graph().out(source).len());
    let growth = broadcast::growth(problem, source) + last;
    let first = broadcast::growth(problem, source);
    let tried = exhaustion::bound(problem, source, first, goes_on);
    let growth = growth.max(tried.unwrap_or(0));
    growth
        .max(endpoints(problem))
        .max(deliveries.div_ceil(room.max(1)))
}

fn all_to_all(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> usize {
    let graph = problem.graph();
    let growth = problem
        .senders()
        .iter()
        .map(|from| broadcast::growth(problem, *from));
    let growth = growth.max().unwrap_or(0);
    let deliveries = problem.pairs().count();
    let room = match problem.request().ports {
        Ports::One => graph.healthy_nodes().count(),
        Ports::All => graph.channels().len(),
    };
    let cuts = regions(problem, goes_on)
        .into_iter()
        .map(|inside| entering(problem, &inside));
    let cuts = cuts.max().unwrap_or(0);
    growth
        .max(endpoints(problem))
        .max(deliveries.div_ceil(room.max(1)))
        .max(cuts)
}

/// Regions: sets of nodes that often have few channels into them, so that many messages must pass
/// through few channels. They are: for each node and radius, the nodes within this many hops; for
/// each channel, the nodes nearer to its start than to its end; and for each of these sets, all
/// other nodes. There are at most about [`REGIONS_MAX`] of each kind, and none are added once
/// `goes_on` denies.
fn regions(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> Vec<Vec<bool>> {
    let graph = problem.graph();
    let nodes = 0..graph.node_count();
    let distances: Vec<Vec<Option<usize>>> = nodes
        .clone()
        .map(|node| graph.distances_from(node))
        .collect();
    let mut sets = BTreeSet::new();
    for center in graph.healthy_nodes() {
        if sets.len() > REGIONS_MAX || !goes_on() {
            break;
        }
        let farthest = distances[center].iter().flatten().copied().max();
        for radius in 0..farthest.unwrap_or(0) {
            let inside = |hops: &Option<usize>| hops.is_some_and(|hops| hops <= radius);
            sets.insert(distances[center].iter().map(inside).collect::<Vec<bool>>());
        }
    }
    for (one, other) in graph.channels() {
        if sets.len() > 2 * REGIONS_MAX || !goes_on() {
            break;
        }
        let is_near = |node: Node| distances[node][*one] < distances[node][*other];
        sets.insert(nodes.clone().map(is_near).collect());
    }
    let rests = sets
        .iter()
        .map(|set| set.iter().map(|is_inside| !is_inside).collect());
    let rests: Vec<Vec<bool>> = rests.collect();
    sets.extend(rests);
    sets.into_iter().collect()
}

/// Steps until every message from outside a set of nodes has entered the set once; 0 if no receiver
/// is in it.
fn entering(problem: &Problem, inside: &[bool]) -> usize {
    let is_wanted = problem.receivers().iter().any(|node| inside[*node]);
    let outside = problem.senders().iter().filter(|node| !inside[**node]);
    let channels = problem.graph().channels().iter();
    let entrances = channels
        .filter(|(from, to)| !inside[*from] && inside[*to])
        .count();
    match is_wanted {
        true => outside.count().div_ceil(entrances.max(1)),
        false => 0,
    }
}

fn scatter(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> usize {
    let first = endpoints(problem).max(hops(problem));
    let ways = match problem.request().excess {
        0 => Ways::Shortest,
        _ => Ways::Any,
    };
    least_steps(problem, ways, first, goes_on)
}

#[cfg(test)]
mod tests;
