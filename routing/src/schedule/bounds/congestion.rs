//! All-to-all scatter: how long the busiest channel must work.
//!
//! Give every channel a length. A message needs at least the length of its
//! shortest path, and in one step all channels together offer the sum of their
//! lengths. So for *any* lengths
//!
//! ```text
//!   steps ≥ ( Σ over messages of the shortest length ) ÷ ( Σ over channels of the length )
//! ```
//!
//! All lengths 1: the paper's Σ / Pd. Length 1 on the channels of a cut, else 0: its bisection
//! bound, without the need for Δ. The best lengths are the optimum of the linear program dual to
//! the least congestion (if only shortest paths are allowed, over the paths with the fewest hops).
//! They are approached by multiplying the length of busy channels, and with the feature `solver`
//! found by cutting planes. Whichever whole-number lengths come out, the bound is computed from
//! them without rounding, so it holds.

#[cfg(feature = "solver")]
mod program;

use super::super::plan::{Model, Ports};
use super::super::problem::Problem;
use super::super::topology::{Channel, Node, Topology};

/// How often lengths are multiplied. Guess: the bound stops rising long before. With fewer rounds
/// it may be lower.
const ROUNDS: usize = 400;
/// The share by which the length of the busiest channel grows per round. Guess: if it is too large
/// the best lengths are missed, if too small they are not reached.
const RATE: f64 = 0.1;
/// The work after which no more lengths are tried: a second or so. Each sender in each round counts
/// as four times the number of channels.
const WORK_MAX: usize = 400_000_000;
/// The length that the longest channel gets.
const SCALE: f64 = 10_000.0;

/// A lower bound by congestion. Once `goes_on` denies, no more lengths are tried.
pub(super) fn bound(problem: &Problem, goes_on: &mut dyn FnMut() -> bool) -> usize {
    let graph = problem.graph();
    let count = graph.channels().len();
    let mut router = Router::new(problem);
    let mut best = router.bound(&vec![1; count]).0;
    for inside in super::regions(problem, goes_on) {
        let leaves = |(from, to): &(Node, Node)| u64::from(inside[*from] && !inside[*to]);
        let lengths: Vec<u64> = graph.channels().iter().map(leaves).collect();
        best = best.max(router.bound(&lengths).0);
        if router.work > WORK_MAX || !goes_on() {
            break;
        }
    }
    let mut weights = vec![1.0f64; count];
    #[cfg(feature = "solver")]
    let mut starts = vec![vec![1; count]];
    for _ in 0..ROUNDS {
        let heaviest = weights.iter().copied().fold(0.0, f64::max);
        let lengths: Vec<u64> = weights
            .iter()
            .map(|weight| (weight / heaviest * SCALE) as u64)
            .collect();
        let (bound, load) = router.bound(&lengths);
        best = best.max(bound);
        #[cfg(feature = "solver")]
        starts.splice(1.., [lengths]);
        if router.work > WORK_MAX || !goes_on() {
            break;
        }
        let busiest = load.iter().copied().max().unwrap_or(1).max(1) as f64;
        for (weight, load) in weights.iter_mut().zip(load) {
            *weight = (*weight / heaviest) * (1.0 + RATE * load as f64 / busiest);
        }
    }
    #[cfg(feature = "solver")]
    let best = program::bound(&mut router, best, &starts, goes_on);
    best.max(sends(problem))
}

/// With one port and store-forward, each hop of a message takes one of its node's turns to send.
fn sends(problem: &Problem) -> usize {
    let request = problem.request();
    if request.ports == Ports::All || request.model == Model::Wormhole {
        return 0;
    }
    let graph = problem.graph();
    let hops = problem.senders().iter().map(|from| {
        let distances = graph.distances_from(*from);
        let to = problem.receivers().iter().filter_map(|to| distances[*to]);
        to.sum::<usize>()
    });
    hops.sum::<usize>()
        .div_ceil(graph.healthy_nodes().count().max(1))
}

/// A router that sends all messages along paths of least length.
struct Router<'a> {
    problem: &'a Problem,
    graph: &'a Topology,
    /// Hops from each sender to each node, if only shortest paths are allowed.
    hops: Option<Vec<Vec<Option<usize>>>>,
    work: usize,
}

impl<'a> Router<'a> {
    fn new(problem: &'a Problem) -> Self {
        let graph = problem.graph();
        let request = problem.request();
        let is_shortest = request.excess == 0 && request.model == Model::Wormhole;
        let senders = problem.senders().iter();
        let hops = is_shortest.then(|| senders.map(|from| graph.distances_from(*from)).collect());
        Self {
            problem,
            graph,
            hops,
            work: 0,
        }
    }

    /// The bound that these lengths give, and how many messages went over each channel.
    fn bound(&mut self, lengths: &[u64]) -> (usize, Vec<u64>) {
        let (mut total, mut load) = (0, vec![0; lengths.len()]);
        for place in 0..self.problem.senders().len() {
            let (length, used) = self.route(place, lengths);
            total += length;
            load.iter_mut().zip(used).for_each(|(sum, one)| *sum += one);
        }
        let room: u64 = lengths.iter().sum();
        (total.div_ceil(room.max(1)) as usize, load)
    }

    /// The length of all paths from one sender, given by its place in the list, and how many of
    /// them go over each channel.
    fn route(&mut self, place: usize, lengths: &[u64]) -> (u64, Vec<u64>) {
        let (mut total, mut load) = (0, vec![0; lengths.len()]);
        let from = self.problem.senders()[place];
        let (distances, last, order) = match &self.hops {
            Some(hops) => self.by_hops(from, &hops[place], lengths),
            None => self.by_length(from, lengths),
        };
        let mut through = vec![0; distances.len()];
        for to in self.problem.receivers().iter().filter(|to| **to != from) {
            total += distances[*to];
            through[*to] = 1;
        }
        for node in order.into_iter().rev() {
            if let Some(channel) = last[node] {
                load[channel] += through[node];
                through[self.graph.channels()[channel].0] += through[node];
            }
        }
        self.work += self.graph.channels().len() * 4;
        (total, load)
    }

    /// The least lengths over paths with the fewest hops.
    fn by_hops(
        &self,
        from: Node,
        hops: &[Option<usize>],
        lengths: &[u64],
    ) -> (Vec<u64>, Vec<Option<Channel>>, Vec<Node>) {
        let mut distances = vec![u64::MAX; hops.len()];
        let mut last = vec![None; hops.len()];
        distances[from] = 0;
        let mut order: Vec<Node> = (0..hops.len())
            .filter(|node| hops[*node].is_some())
            .collect();
        order.sort_by_key(|node| hops[*node]);
        for node in &order {
            for channel in self.graph.out(*node) {
                let next = self.graph.channels()[*channel].1;
                let length = distances[*node] + lengths[*channel];
                let is_onward = hops[next] == hops[*node].map(|hops| hops + 1);
                if is_onward && length < distances[next] {
                    (distances[next], last[next]) = (length, Some(*channel));
                }
            }
        }
        (distances, last, order)
    }

    /// The least lengths over all paths: Dijkstra's algorithm.
    fn by_length(
        &self,
        from: Node,
        lengths: &[u64],
    ) -> (Vec<u64>, Vec<Option<Channel>>, Vec<Node>) {
        let count = self.graph.node_count();
        let mut distances = vec![u64::MAX; count];
        let mut last = vec![None; count];
        let mut order = Vec::with_capacity(count);
        let mut waiting = std::collections::BTreeSet::from([(0, from)]);
        distances[from] = 0;
        while let Some((distance, node)) = waiting.pop_first() {
            order.push(node);
            for channel in self.graph.out(node) {
                let next = self.graph.channels()[*channel].1;
                let length = distance + lengths[*channel];
                if length < distances[next] {
                    waiting.remove(&(distances[next], next));
                    waiting.insert((length, next));
                    (distances[next], last[next]) = (length, Some(*channel));
                }
            }
        }
        (distances, last, order)
    }
}
