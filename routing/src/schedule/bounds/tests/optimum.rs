//! The bounds compared with the true optimum of small random graphs, which is found by trying all
//! steps.

use std::collections::BTreeSet;

use binomesh_overlay::noise::Noise;

use super::super::super::problem::Request;
use super::super::super::topology::{Channel, Topology};
use super::super::*;

/// The most states that are kept, and the most steps that are tried from all of them. Guess: a case
/// beyond takes too long and is left out, so a smaller number checks fewer cases.
const STATES_MAX: usize = 20_000;
const STEPS_MAX: usize = 400_000;

/// Bit `message * nodes + node` is set if the node has the message.
type State = u128;

/// A message on a path: the node that must have it, the node that learns it, and the resources that
/// the path takes.
struct Way {
    needs: State,
    gives: State,
    channels: u64,
    ports: u64,
}

/// The possibilities of a problem, as bits.
struct World {
    ways: Vec<Way>,
    start: State,
    goal: State,
}

impl World {
    fn new(problem: &Problem) -> Self {
        let (request, nodes) = (problem.request(), problem.graph().node_count());
        let mut messages: Vec<(Node, Vec<Node>)> = Vec::new();
        for from in problem.senders() {
            let to = problem.receivers().iter().copied().filter(|to| to != from);
            match request.collective.is_broadcast() {
                true => {
                    let to: Vec<Node> = to.collect();
                    messages.extend((0..request.blocks).map(|_| (*from, to.clone())));
                }
                false => messages.extend(to.map(|to| (*from, vec![to]))),
            }
        }
        let bit = |message: usize, node: Node| 1 << (message * nodes + node);
        let mut world = Self {
            ways: Vec::new(),
            start: 0,
            goal: 0,
        };
        for (message, (origin, targets)) in messages.iter().enumerate() {
            world.start |= bit(message, *origin);
            let goals = targets.iter().map(|to| bit(message, *to));
            world.goal |= goals.fold(0, |sum, one: State| sum | one);
            for path in paths(problem) {
                let (from, to) = (path[0], path[path.len() - 1]);
                let is_for = match request.model {
                    Model::StoreForward => to != *origin,
                    Model::Wormhole => targets.contains(&to),
                };
                if !is_for {
                    continue;
                }
                let channel = |pair: &[Node]| problem.graph().channel(pair[0], pair[1]);
                let channels = path.windows(2).filter_map(channel);
                let ports = match request.ports {
                    Ports::One => 1 << from | 1 << (nodes + to),
                    Ports::All => 0,
                };
                world.ways.push(Way {
                    needs: bit(message, from),
                    gives: bit(message, to),
                    channels: channels.fold(0, |sum, channel: Channel| sum | 1 << channel),
                    ports,
                });
            }
        }
        world
    }

    /// Whether the goal can be reached in this many steps; `None` if that is too much to try.
    fn is_reached(&self, steps: u32) -> Option<bool> {
        let mut states = BTreeSet::from([self.start]);
        let mut tried = 0;
        for _ in 0..steps {
            let mut next = BTreeSet::new();
            for state in states {
                self.step(state, state, 0, (0, 0), &mut next, &mut tried);
                if next.len() > STATES_MAX || tried > STEPS_MAX {
                    return None;
                }
            }
            states = next;
            if states.iter().any(|state| state & self.goal == self.goal) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// All steps from a state. Ways from `first` on are added to what the nodes know `now`.
    fn step(
        &self,
        before: State,
        now: State,
        first: usize,
        (channels, ports): (u64, u64),
        found: &mut BTreeSet<State>,
        tried: &mut usize,
    ) {
        *tried += 1;
        let mut is_last = true;
        for (place, way) in self.ways.iter().enumerate() {
            let is_free = way.channels & channels == 0 && way.ports & ports == 0;
            let is_new = way.needs & before != 0 && way.gives & now == 0;
            if !is_free || !is_new || *tried > STEPS_MAX {
                continue;
            }
            is_last = false;
            if place >= first {
                let used = (channels | way.channels, ports | way.ports);
                self.step(before, now | way.gives, place + 1, used, found, tried);
            }
        }
        // To learn more never hurts, so only steps count to which no way can be added.
        if is_last {
            found.insert(now);
        }
    }
}

/// All paths that a message may take.
fn paths(problem: &Problem) -> Vec<Vec<Node>> {
    let graph = problem.graph();
    let mut open: Vec<Vec<Node>> = graph.healthy_nodes().map(|node| vec![node]).collect();
    let mut paths = Vec::new();
    while let Some(path) = open.pop() {
        let end = path[path.len() - 1];
        let hops = graph.distances_from(path[0])[end].unwrap_or(0);
        let most = match problem.request().model {
            Model::Wormhole => hops + usize::from(problem.request().excess),
            Model::StoreForward => 1,
        };
        if path.len() > 1 && path.len() - 1 <= most {
            paths.push(path.clone());
        }
        let nexts = graph
            .out(end)
            .iter()
            .map(|channel| graph.channels()[*channel].1);
        let nexts = nexts.filter(|next| !path.contains(next));
        open.extend(nexts.map(|next| [&path[..], &[next]].concat()));
    }
    paths
}

/// A random graph of this many nodes, and a random request on it; `None` if they make no problem,
/// such as when a receiver is cut off.
fn random(nodes: u64, noise: &mut Noise) -> Option<Problem> {
    let mut edges = String::new();
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        if from != to && noise.next() % 100 < 45 {
            edges += &format!("{from} > {to}\n");
        }
    }
    let graph = Topology::from_edges("file:random", &edges).ok()?;
    let mut pick = |count: u64| noise.next() % count;
    let collectives = [
        Collective::Oab,
        Collective::Aab,
        Collective::Oas,
        Collective::Aas,
        Collective::Aog,
    ];
    let collective = collectives[pick(5) as usize];
    let source = graph
        .node_name(pick(graph.node_count() as u64) as usize)
        .to_owned();
    let is_one = pick(2) == 0;
    let is_wormhole = pick(2) == 0;
    let request = Request {
        model: if is_wormhole {
            Model::Wormhole
        } else {
            Model::StoreForward
        },
        ports: if is_one { Ports::One } else { Ports::All },
        excess: pick(3) as u8,
        blocks: if collective == Collective::Oab {
            pick(3) as u32 + 1
        } else {
            1
        },
        ..Request::paper(collective, collective.has_source().then_some(source))
    };
    Problem::new(graph, request).ok()
}

#[test]
fn no_schedule_of_a_small_graph_is_shorter_than_the_bound() {
    let seed = 11;
    let mut noise = Noise::new(seed);
    let (mut checked, mut met) = (0, 0);
    for trial in 0..800 {
        let nodes = 3 + noise.next() % 3;
        let Some(problem) = random(nodes, &mut noise) else {
            continue;
        };
        let turned = match problem.request().collective {
            Collective::Aog => problem.turned(),
            _ => problem.clone(),
        };
        let world = World::new(&turned);
        let bound = lower_bound(&problem);
        let Some(is_reached) = world.is_reached(bound - 1) else {
            continue;
        };
        let (graph, request) = (problem.graph().channels(), problem.request());
        assert!(
            !is_reached,
            "seed {seed}, trial {trial}: a schedule is shorter than {bound} steps: {graph:?}, \
             {request:?}"
        );
        checked += 1;
        met += u32::from(world.is_reached(bound) == Some(true));
    }
    // With fewer cases the test would not notice a bound that is too high by one.
    assert!(checked >= 300 && met >= 250, "{checked} checked, {met} met");
}
