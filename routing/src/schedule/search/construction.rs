//! First schedules, which are found quickly and which the other methods improve: by a flow, by the
//! circulant pattern or trees, by greedy methods, or by trying everything on small graphs.

use super::super::plan::{Collective, Model, Move};
use super::driver::Driver;
use super::instance::{Instance, KnownPaths};
use super::scatter::{self, Ways};
use super::{Method, circulant, exhaustion, gossip, packing, trees};

/// How often a greedy method is tried. Guess: with fewer trials the first schedule may be longer;
/// more cost time.
const GREEDY_TRIALS: u64 = 24;

impl Driver<'_> {
    /// Schedule a one-to-all scatter by a flow. The lower bound comes from the same flow, so the
    /// schedule is optimal. With an excess, its paths may turn out too long. Then the schedule is
    /// one over shortest paths, which may have more steps.
    pub(super) fn flow(&mut self) {
        let request = self.problem.request();
        // A method that the user chose takes the place of the flow, where schedules can be
        // improved.
        let is_chosen = self.options.method.is_some() && self.can_be_improved();
        if request.collective != Collective::Oas || is_chosen {
            return;
        }
        let is_wormhole = request.model == Model::Wormhole;
        let (problem, bound) = (self.problem, self.bound as usize);
        let mut has_time = || self.asks(Method::Flow, bound, 0);
        let mut tries = vec![(Ways::Shortest, bound)];
        if is_wormhole && request.excess > 0 {
            let steps = scatter::least_steps(problem, Ways::Shortest, bound, &mut has_time);
            tries = vec![(Ways::Any, bound), (Ways::Shortest, steps)];
        }
        for (ways, steps) in tries {
            let mut has_time = || self.asks(Method::Flow, bound, 0);
            let moves = scatter::moves(problem, ways, steps, &mut has_time);
            let moves = moves.filter(|moves| !is_wormhole || self.are_short(moves));
            if let Some(moves) = moves {
                self.keep(steps, Method::Flow, || moves);
            }
        }
    }

    fn are_short(&self, moves: &[Move]) -> bool {
        let graph = self.problem.graph();
        let excess = usize::from(self.problem.request().excess);
        moves.iter().all(|one| {
            let ends = graph.node(&one.from).zip(graph.node(&one.to));
            let hops = ends.and_then(|(from, to)| self.paths.hops(from, to));
            hops.is_some_and(|hops| one.path.len() <= hops + excess + 1)
        })
    }

    /// Broadcasts by construction: the circulant pattern and trees. Returns whether the user asked
    /// for one of these methods and it has found a schedule.
    pub(super) fn construct(&mut self) -> bool {
        let chosen = self.options.method;
        let (problem, goal) = (self.problem, self.goal as usize);
        let mut is_alone = false;
        for method in [Method::Circulant, Method::Trees] {
            if chosen.is_some_and(|chosen| chosen != method) || self.is_done() {
                continue;
            }
            let found = match method {
                Method::Circulant => circulant::broadcast(problem),
                _ => trees::broadcast(problem, &mut || self.asks(method, goal, 0)),
            };
            if let Some((steps, moves)) = found {
                self.keep(steps, method, || moves);
                is_alone = chosen.is_some();
            }
        }
        is_alone
    }

    /// Find a first schedule with a greedy method.
    pub(super) fn greedy(&mut self) {
        let request = self.problem.request();
        let most = self.steps_max();
        let instance = match (request.collective.is_broadcast(), request.model) {
            (false, Model::Wormhole) => Some(self.instance(self.trivial(), 0, &KnownPaths::new())),
            _ => None,
        };
        for trial in 0..GREEDY_TRIALS {
            let seed = self.seed(trial);
            if let Some(instance) = &instance {
                let mut has_time = || self.asks(Method::Packing, 0, 0);
                let (steps, genes) = packing::first_fit(instance, seed, &mut has_time);
                let problem = self.problem;
                self.keep(steps, Method::Packing, || instance.moves(problem, &genes));
            } else if request.collective.is_broadcast() {
                let (problem, paths) = (self.problem, self.paths);
                let mut has_time = || self.asks(Method::Gossip, 0, 0);
                let found = gossip::broadcast(problem, paths, seed, most, &mut has_time);
                if let Some((steps, moves)) = found {
                    self.keep(steps, Method::Gossip, || moves);
                }
            } else if let Some((steps, moves)) =
                packing::relay(self.problem, self.paths, seed, most)
            {
                self.keep(steps, Method::Relay, || moves);
            }
            let steps = self.goal as usize;
            if self.is_done() || !self.asks(Method::Gossip, steps, 1) {
                return;
            }
        }
    }

    /// Look for a one-to-all broadcast in as many steps as the goal, by trying all largest sets of
    /// nodes that can be told in a step.
    pub(super) fn exhaust(&mut self) {
        let is_broadcast = self.problem.request().collective == Collective::Oab;
        if !is_broadcast || self.is_done() {
            return;
        }
        let steps = self.goal as usize;
        let source = self.problem.source();
        let problem = self.problem;
        let mut has_time = || self.asks(Method::Exhaustion, steps, 0);
        let moves =
            source.and_then(|source| exhaustion::moves(problem, source, steps, &mut has_time));
        if let Some(moves) = moves {
            self.keep(steps, Method::Exhaustion, || moves);
        }
    }

    /// More steps than any greedy method takes: one for each delivery and node.
    fn steps_max(&self) -> usize {
        let blocks = self.problem.request().blocks as usize;
        let deliveries = self.problem.pairs().count().saturating_mul(blocks);
        deliveries.saturating_mul(self.problem.graph().node_count())
    }

    /// Try more greedy broadcasts: each is a new chance, and costs little.
    pub(super) fn gossip_again(&mut self, round: u32) {
        for trial in 0..GREEDY_TRIALS {
            let most = match &self.best {
                Some((steps, _, _)) if self.problem.request().collective.is_broadcast() => {
                    *steps as usize - 1
                }
                _ => return,
            };
            let seed = self.seed(u64::from(round) * GREEDY_TRIALS + trial);
            let (problem, paths) = (self.problem, self.paths);
            let mut has_time = || self.asks(Method::Gossip, 0, 0);
            let found = gossip::broadcast(problem, paths, seed, most, &mut has_time);
            if let Some((steps, moves)) = found {
                self.keep(steps, Method::Gossip, || moves);
            }
            if self.is_done() || !self.asks(Method::Gossip, most, 1) {
                return;
            }
        }
    }

    /// First fit with symmetries, for scatters: often better than without.
    pub(super) fn pack(&mut self, instance: &Instance) {
        if !instance.is_broadcast() && !self.is_done() {
            let (problem, seed) = (self.problem, self.seed(0));
            let mut has_time = || self.asks(Method::Orbits, 0, 0);
            let (steps, genes) = packing::first_fit(instance, seed, &mut has_time);
            self.keep(steps, Method::Orbits, || instance.moves(problem, &genes));
        }
    }
}
