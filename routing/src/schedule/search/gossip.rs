//! Greedy broadcasts: in every step, each node that can learn a message learns it.
//!
//! First come single channels. For each receiver, a matching assigns its channels to messages that
//! it lacks and a neighbour holds, the rarest first. Then, in the wormhole model, come the
//! remaining channels: from any holder along the shortest free path that is allowed. The method
//! always ends. Its schedule is often optimal, but the method itself does not prove that.

use binomesh_overlay::noise::Noise;

use super::super::plan::{Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::paths::{Paths, shuffle};

/// A broadcast of one or more messages under construction.
pub(super) struct Gossip<'a> {
    problem: &'a Problem,
    paths: &'a Paths<'a>,
    /// Whether there is time to look for long paths.
    goes_on: &'a mut dyn FnMut() -> bool,
    is_late: bool,
    noise: Noise,
    /// The messages: the origin and the block of each.
    tokens: Vec<(Node, usize)>,
    /// For each token and node, whether the node held it before the present step. Only then can it
    /// send the token in this step.
    holds: Vec<Vec<bool>>,
    /// For each token and node, whether the node is a receiver without the token. Relays are never
    /// listed.
    lacks: Vec<Vec<bool>>,
    /// For each token how many nodes hold it.
    holders: Vec<usize>,
    missing: usize,
    moves: Vec<Move>,
}

/// One step under construction: the channels that are free, the nodes that send and receive, and
/// what the step tells.
struct Step {
    number: usize,
    is_free: Vec<bool>,
    sends: Vec<bool>,
    receives: Vec<bool>,
    learnt: Vec<(usize, Node)>,
    /// For each token and node, whether the step tells the node.
    is_told: Vec<bool>,
}

impl Step {
    fn has_told(&self, token: usize, to: Node) -> bool {
        self.is_told[token * self.sends.len() + to]
    }
}

/// Tell all receivers all messages. Returns the number of steps and the moves, or `None` if there
/// are more than `most` steps. Once `goes_on` denies, a step takes a path of several channels only
/// if single channels tell no node anything, and then only one such path.
pub(super) fn broadcast(
    problem: &Problem,
    paths: &Paths<'_>,
    seed: u64,
    most: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<(usize, Vec<Move>)> {
    let mut gossip = Gossip::new(problem, paths, seed, goes_on);
    let mut steps = 0;
    while gossip.missing > 0 {
        if steps == most || !gossip.step(steps) {
            return None;
        }
        steps += 1;
    }
    Some((steps, gossip.moves))
}

impl<'a> Gossip<'a> {
    fn new(
        problem: &'a Problem,
        paths: &'a Paths<'a>,
        seed: u64,
        goes_on: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let nodes = problem.graph().node_count();
        let blocks = problem.request().blocks as usize;
        let senders = problem.senders().iter();
        let tokens = senders.flat_map(|from| (0..blocks).map(move |block| (*from, block)));
        let tokens: Vec<(Node, usize)> = tokens.collect();
        let mut holds = vec![vec![false; nodes]; tokens.len()];
        let mut lacks = vec![vec![false; nodes]; tokens.len()];
        let mut missing = 0;
        for (token, (origin, _)) in tokens.iter().enumerate() {
            holds[token][*origin] = true;
            for to in problem.receivers().iter().filter(|to| *to != origin) {
                lacks[token][*to] = true;
                missing += 1;
            }
        }
        Self {
            problem,
            paths,
            goes_on,
            is_late: false,
            noise: Noise::new(seed),
            holders: vec![1; tokens.len()],
            tokens,
            holds,
            lacks,
            missing,
            moves: Vec::new(),
        }
    }

    /// Make one step. Returns whether a node learnt something.
    fn step(&mut self, number: usize) -> bool {
        let nodes = self.problem.graph().node_count();
        let mut step = Step {
            number,
            is_free: vec![true; self.problem.graph().channels().len()],
            sends: vec![false; nodes],
            receives: vec![false; nodes],
            learnt: Vec::new(),
            is_told: vec![false; nodes * self.tokens.len()],
        };
        let mut receivers: Vec<Node> = self.problem.graph().healthy_nodes().collect();
        shuffle(&mut receivers, &mut self.noise);
        for to in receivers {
            self.tell_over_channels(to, &mut step);
        }
        match self.problem.request().model {
            Model::Wormhole => self.tell_over_paths(&mut step),
            Model::StoreForward if step.learnt.is_empty() => self.tell_relays(&mut step),
            Model::StoreForward => {}
        }
        for (token, node) in &step.learnt {
            self.holds[*token][*node] = true;
            self.holders[*token] += 1;
            self.missing -= usize::from(std::mem::take(&mut self.lacks[*token][*node]));
        }
        !step.learnt.is_empty()
    }

    /// Sort tokens: those that the fewest nodes hold come first, in random order among equals.
    fn rarest(&mut self, tokens: &mut [usize]) {
        shuffle(tokens, &mut self.noise);
        tokens.sort_by_key(|token| self.holders[*token]);
    }

    /// Match the channels of a receiver with the tokens that it lacks.
    fn tell_over_channels(&mut self, to: Node, step: &mut Step) {
        let graph = self.problem.graph();
        let is_one_port = self.problem.request().ports == Ports::One;
        let usable = |channel: &usize| {
            let from = graph.channels()[*channel].0;
            step.is_free[*channel] && !(is_one_port && step.sends[from])
        };
        let mut channels: Vec<usize> = graph.into(to).iter().copied().filter(usable).collect();
        shuffle(&mut channels, &mut self.noise);
        let mut wanted: Vec<usize> = (0..self.tokens.len())
            .filter(|token| self.lacks[*token][to])
            .collect();
        self.rarest(&mut wanted);
        let mut matched: Vec<Option<usize>> = vec![None; channels.len()];
        let most = if is_one_port { 1 } else { channels.len() };
        let mut count = 0;
        for token in wanted {
            if count == most {
                break;
            }
            let mut seen = vec![false; channels.len()];
            count += usize::from(self.matches(token, &channels, &mut matched, &mut seen));
        }
        for (channel, token) in channels.into_iter().zip(matched) {
            if let Some(token) = token {
                let from = graph.channels()[channel].0;
                self.tell(token, &[from, to], step);
            }
        }
    }

    /// Give a token a channel, and move other tokens if necessary. The depth is at most the number
    /// of channels.
    fn matches(
        &self,
        token: usize,
        channels: &[usize],
        matched: &mut [Option<usize>],
        seen: &mut [bool],
    ) -> bool {
        for (place, channel) in channels.iter().enumerate() {
            let from = self.problem.graph().channels()[*channel].0;
            if seen[place] || !self.holds[token][from] {
                continue;
            }
            seen[place] = true;
            let is_free = match matched[place] {
                Some(other) => self.matches(other, channels, matched, seen),
                None => true,
            };
            if is_free {
                matched[place] = Some(token);
                return true;
            }
        }
        false
    }

    /// Tell nodes that still lack tokens along paths of free channels, the rarest tokens first.
    fn tell_over_paths(&mut self, step: &mut Step) {
        let mut tokens: Vec<usize> = (0..self.tokens.len()).collect();
        self.rarest(&mut tokens);
        for token in tokens {
            let nodes = 0..self.problem.graph().node_count();
            let mut lacking: Vec<Node> = nodes.filter(|node| self.lacks[token][*node]).collect();
            shuffle(&mut lacking, &mut self.noise);
            for to in lacking {
                if step.has_told(token, to) {
                    continue;
                }
                self.is_late = self.is_late || !(self.goes_on)();
                if self.is_late && !step.learnt.is_empty() {
                    return;
                }
                if let Some(path) = self.free_path(token, to, step) {
                    self.tell(token, &path, step);
                }
            }
        }
    }

    /// The shortest allowed path of free channels to a receiver from a holder of the token that can
    /// still send. It is searched backwards from the receiver, breadth first.
    fn free_path(&self, token: usize, to: Node, step: &Step) -> Option<Vec<Node>> {
        let graph = self.problem.graph();
        let is_one_port = self.problem.request().ports == Ports::One;
        let excess = usize::from(self.problem.request().excess);
        if is_one_port && step.receives[to] {
            return None;
        }
        let mut next = vec![None; graph.node_count()];
        let mut level = vec![to];
        next[to] = Some(to);
        for hops in 1..=graph.node_count() {
            let mut above = Vec::new();
            for node in level {
                for channel in graph
                    .into(node)
                    .iter()
                    .filter(|channel| step.is_free[**channel])
                {
                    let from = graph.channels()[*channel].0;
                    if next[from].is_some() {
                        continue;
                    }
                    next[from] = Some(node);
                    above.push(from);
                    let is_near = self.paths.hops(from, to)? + excess >= hops;
                    let can_send = self.holds[token][from] && !(is_one_port && step.sends[from]);
                    if is_near && can_send {
                        return Some(follow(from, to, &next));
                    }
                }
            }
            if above.is_empty() {
                break;
            }
            level = above;
        }
        None
    }

    /// A step by store-forward in which no node that lacks a token has a neighbour with that token:
    /// for each node that lacks a token, tell the token to a node that is one hop nearer than the
    /// nearest holder, if the channel and the ports are free.
    fn tell_relays(&mut self, step: &mut Step) {
        let graph = self.problem.graph();
        for token in 0..self.tokens.len() {
            let nodes = 0..graph.node_count();
            let lacking: Vec<Node> = nodes.filter(|node| self.lacks[token][*node]).collect();
            for to in lacking {
                let holders = (0..graph.node_count()).filter(|node| self.holds[token][*node]);
                // Holders without a path to the receiver are left out.
                let holders = holders.filter_map(|node| Some((self.paths.hops(node, to)?, node)));
                let Some((hops, from)) = holders.min() else {
                    continue;
                };
                let nearer = graph.out(from).iter().find(|channel| {
                    let next = graph.channels()[**channel].1;
                    self.paths.hops(next, to).is_some_and(|rest| rest < hops)
                });
                let Some(channel) = nearer.copied() else {
                    continue;
                };
                let next = graph.channels()[channel].1;
                let is_one_port = self.problem.request().ports == Ports::One;
                let is_busy = is_one_port && (step.sends[from] || step.receives[next]);
                let is_told = step.has_told(token, next);
                if step.is_free[channel] && !is_busy && !is_told {
                    self.tell(token, &[from, next], step);
                }
            }
        }
    }

    fn tell(&mut self, token: usize, path: &[Node], step: &mut Step) {
        let graph = self.problem.graph();
        for pair in path.windows(2) {
            if let Some(channel) = graph.channel(pair[0], pair[1]) {
                step.is_free[channel] = false;
            }
        }
        let to = path[path.len() - 1];
        step.sends[path[0]] = true;
        step.receives[to] = true;
        step.learnt.push((token, to));
        let place = token * step.sends.len() + to;
        step.is_told[place] = true;
        let (origin, block) = self.tokens[token];
        let one = self.problem.step_move(step.number, path, origin, to, block);
        self.moves.push(one);
    }
}

/// The path from a node, following `next`.
fn follow(from: Node, to: Node, next: &[Option<Node>]) -> Vec<Node> {
    let mut path = vec![from];
    let mut node = from;
    while node != to && path.len() <= next.len() {
        node = next[node].unwrap_or(to);
        path.push(node);
    }
    path
}
