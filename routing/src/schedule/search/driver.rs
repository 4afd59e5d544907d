//! Which method is tried when.

use super::super::bounds::lower_bound;
use super::super::plan::{Collective, Message, Model, Move, Ports, Schedule};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::instance::Instance;
use super::paths::Paths;
use super::scatter::{self, Ways};
use super::symmetry::Group;
use super::tabu::{Gene, Tabu};
use super::umda::Umda;
use super::{
    Found, Method, NotFound, Options, Progress, circulant, exhaustion, gossip, packing, trees,
};

/// How often a greedy method is tried. Guess.
const GREEDY_TRIALS: u64 = 24;
/// How many evaluations the first try of a search has; each later one has half as
/// many again. Guess: a tenth of a second.
const FIRST_PATIENCE: u64 = 1 << 23;
/// The same for chromosomes, of which each costs as much as many evaluations.
const FIRST_GENERATIONS: u64 = 1 << 14;
/// How many groups of symmetries are tried per round.
const GROUPS_PER_ROUND: usize = 3;
/// How many rounds there are at most, so that a search ends whatever the caller says.
const ROUNDS: u32 = 1 << 16;

pub(super) fn find(
    problem: &Problem,
    options: &Options,
    goes_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Found, NotFound> {
    if problem.request().collective == Collective::Aog {
        let turned = problem.turned();
        let options = Options {
            start: options.start.as_ref().map(|start| turn(&turned, start)),
            ..options.clone()
        };
        let found = find(&turned, &options, goes_on)?;
        return Ok(Found {
            schedule: turn(problem, &found.schedule),
            ..found
        });
    }
    let paths = Paths::new(problem);
    let mut driver = Driver {
        problem,
        paths: &paths,
        options,
        goes_on,
        bound: lower_bound(problem),
        evaluations: 0,
        is_stopped: false,
        best: None,
    };
    driver.search();
    let (steps, method, moves) = driver.best.ok_or(NotFound)?;
    Ok(Found {
        schedule: problem.schedule(steps, moves),
        lower_bound: driver.bound,
        method,
        evaluations: driver.evaluations,
    })
}

/// A gather as a scatter on the graph turned round, and back: every move the other
/// way, and the last step first.
fn turn(problem: &Problem, schedule: &Schedule) -> Schedule {
    let moves = schedule.moves.iter().map(|one| Move {
        step: (schedule.steps - one.step.min(schedule.steps)).saturating_add(1),
        from: one.to.clone(),
        to: one.from.clone(),
        path: one.path.iter().rev().cloned().collect(),
        message: match &one.message {
            Message::Between(from, to) => Message::Between(to.clone(), from.clone()),
            _ => Message::Of(one.to.clone()),
        },
    });
    problem.schedule(schedule.steps, moves.collect())
}

struct Driver<'a> {
    problem: &'a Problem,
    paths: &'a Paths<'a>,
    options: &'a Options,
    goes_on: &'a mut dyn FnMut(&Progress) -> bool,
    bound: u32,
    evaluations: u64,
    is_stopped: bool,
    best: Option<(u32, Method, Vec<Move>)>,
}

impl Driver<'_> {
    fn search(&mut self) {
        self.flow();
        if self.construct() {
            return;
        }
        if !self.is_done() && self.can_be_improved() && self.options.start.is_some() {
            self.restart();
        }
        // A method that is asked for is to show what it can do alone.
        let is_chosen = self.options.method.is_some() && self.can_be_improved();
        if !self.is_done() && !is_chosen {
            self.greedy();
            self.exhaust();
        }
        if self.can_be_improved() {
            self.improve();
        }
        if self.best.is_none() {
            self.greedy();
        }
    }

    fn is_done(&self) -> bool {
        let is_optimal = matches!(&self.best, Some((steps, _, _)) if *steps <= self.bound);
        is_optimal || self.is_stopped
    }

    /// Keep a schedule if it is the best.
    fn keep(&mut self, steps: usize, method: Method, moves: impl FnOnce() -> Vec<Move>) {
        let steps = steps as u32;
        if self.best.as_ref().is_none_or(|(best, _, _)| steps < *best) {
            self.best = Some((steps, method, moves()));
        }
    }

    /// Ask the caller.
    fn asks(&mut self, method: Method, trying: usize, evaluations: u64) -> bool {
        self.evaluations += evaluations;
        let progress = Progress {
            steps: self.best.as_ref().map(|(steps, _, _)| *steps),
            lower_bound: self.bound,
            trying: trying as u32,
            method,
            evaluations: self.evaluations,
        };
        let is_over = self.evaluations >= self.options.evaluations_max;
        self.is_stopped |= is_over || !(self.goes_on)(&progress);
        !self.is_stopped
    }

    /// One-to-all scatter. The bound is the flow's own, so what it finds is optimal;
    /// with an excess its paths may turn out too long.
    fn flow(&mut self) {
        let request = self.problem.request();
        // A chosen method goes first only where it can do something.
        let is_chosen = self.options.method.is_some() && self.can_be_improved();
        if request.collective != Collective::Oas || is_chosen {
            return;
        }
        let is_wormhole = request.model == Model::Wormhole;
        let mut tries = vec![(Ways::Shortest, self.bound as usize)];
        if is_wormhole && request.excess > 0 {
            let steps = scatter::least_steps(self.problem, Ways::Shortest, self.bound as usize);
            tries = vec![(Ways::Any, self.bound as usize), (Ways::Shortest, steps)];
        }
        for (ways, steps) in tries {
            let moves = scatter::moves(self.problem, ways, steps);
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

    /// Broadcasts by construction: the circulant pattern, and trees; whether nothing else
    /// was asked for.
    fn construct(&mut self) -> bool {
        type Construct = fn(&Problem) -> Option<(usize, Vec<Move>)>;
        let chosen = self.options.method;
        let methods: [(Method, Construct); 2] = [
            (Method::Circulant, circulant::broadcast),
            (Method::Trees, trees::broadcast),
        ];
        let mut is_alone = false;
        for (method, construct) in methods {
            if chosen.is_some_and(|chosen| chosen != method) || self.is_done() {
                continue;
            }
            if let Some((steps, moves)) = construct(self.problem) {
                self.keep(steps, method, || moves);
                is_alone = chosen.is_some();
            }
        }
        is_alone
    }

    /// A first schedule.
    fn greedy(&mut self) {
        let request = self.problem.request();
        let most = self.steps_max();
        let instance = match (request.collective.is_broadcast(), request.model) {
            (false, Model::Wormhole) => Some(self.instance(self.trivial(), 0)),
            _ => None,
        };
        for trial in 0..GREEDY_TRIALS {
            let seed = self.seed(trial);
            if let Some(instance) = &instance {
                let (steps, genes) = packing::first_fit(instance, seed);
                self.keep(steps, Method::Packing, || {
                    instance.moves(self.problem, &genes)
                });
            } else if request.collective.is_broadcast() {
                if let Some((steps, moves)) =
                    gossip::broadcast(self.problem, self.paths, seed, most)
                {
                    self.keep(steps, Method::Gossip, || moves);
                }
            } else if request.collective == Collective::Aas
                && let Some((steps, moves)) = packing::relay(self.problem, self.paths, seed, most)
            {
                self.keep(steps, Method::Relay, || moves);
            }
            let steps = self.bound as usize;
            if self.is_done() || !self.asks(Method::Gossip, steps, 1) {
                return;
            }
        }
    }

    /// One-to-all broadcast: try everything, if that is little.
    fn exhaust(&mut self) {
        let is_broadcast = self.problem.request().collective == Collective::Oab;
        if !is_broadcast || self.is_done() {
            return;
        }
        let steps = self.bound as usize;
        let source = self.problem.source();
        let moves = source.and_then(|source| exhaustion::moves(self.problem, source, steps));
        if let Some(moves) = moves {
            self.keep(steps, Method::Exhaustion, || moves);
        }
    }

    /// More steps than any greedy method takes: one delivery and hop at a time.
    fn steps_max(&self) -> usize {
        let blocks = self.problem.request().blocks as usize;
        let deliveries = self.problem.pairs().count().saturating_mul(blocks);
        deliveries.saturating_mul(self.problem.graph().node_count())
    }

    fn can_be_improved(&self) -> bool {
        let request = self.problem.request();
        let is_everybody =
            self.problem.receivers().len() == self.problem.graph().healthy_nodes().count();
        match request.model {
            Model::Wormhole => true,
            // Relays that need not be told are no part of the search.
            Model::StoreForward => request.collective.is_broadcast() && is_everybody,
        }
    }

    /// From the old schedule, with as many steps as it takes.
    fn restart(&mut self) {
        let Some(old) = &self.options.start else {
            return;
        };
        let instance = self.instance(self.trivial(), 0);
        let start = self.genes_of(old, &instance);
        let mut patience = FIRST_PATIENCE;
        for round in 0..8 {
            let steps = self.bound as usize + round;
            let is_umda = self.options.method == Some(Method::Umda);
            let method = if is_umda { Method::Umda } else { Method::Tabu };
            let known = if is_umda { FIRST_GENERATIONS } else { patience };
            if self.attempt(method, &instance, steps, &start, known) || self.is_stopped {
                return;
            }
            patience += patience / 2;
        }
    }

    /// The choices and steps of an old schedule, where they still exist.
    fn genes_of(&self, old: &Schedule, instance: &Instance) -> Vec<Option<Gene>> {
        let graph = self.problem.graph();
        let mut genes = vec![None; instance.items.len()];
        let items = instance.find();
        for one in &old.moves {
            let path = one.path.iter().map(|name| graph.node(name));
            let Some(path) = path.collect::<Option<Vec<Node>>>() else {
                continue;
            };
            let (origin, block) = match &one.message {
                Message::Block(block) if old.blocks > 1 => (self.problem.source(), *block as usize),
                Message::Block(name) => (graph.node(&name.to_string()), 0),
                Message::Of(name) | Message::Between(name, _) => (graph.node(name), 0),
            };
            let ends = origin.zip(path.last().copied());
            let item = ends.and_then(|(origin, to)| items.get(&(origin, block, to)));
            if let Some(item) = item {
                let mut choices = instance.items[*item].choices();
                let choice = choices.find(|choice| instance.choices[*choice].path == path);
                genes[*item] = choice.map(|choice| (choice, one.step.saturating_sub(1) as usize));
            }
        }
        genes
    }

    /// Try the bound, and one step less than the best, with ever more patience.
    fn improve(&mut self) {
        let method = self.options.method;
        let groups = match method {
            None | Some(Method::Orbits) => Group::of(self.problem, self.options.seed),
            _ => Vec::new(),
        };
        let groups: Vec<Group> = groups;
        let mut alone: Option<Instance> = None;
        let mut patience = FIRST_PATIENCE;
        for round in 0..ROUNDS {
            let bound = self.bound as usize;
            let asked = method.unwrap_or(Method::Tabu);
            if self.is_done() || (round > 0 && !self.asks(asked, bound, 0)) {
                return;
            }
            if method.is_none() && round > 0 {
                self.gossip_again(round);
            }
            let mut is_usable = false;
            for place in 0..GROUPS_PER_ROUND.min(groups.len()) {
                let place = (round as usize * GROUPS_PER_ROUND + place) % groups.len();
                let instance = self.instance(groups[place].clone(), u64::from(round));
                if instance.has_choices() {
                    is_usable = true;
                    self.pack(&instance);
                    self.attempts(Method::Orbits, &instance, patience, round);
                }
            }
            // Without a usable group there is nothing but to search without.
            if method != Some(Method::Orbits) || !is_usable {
                let instance = match alone.take() {
                    Some(instance) => instance,
                    None => self.instance(self.trivial(), 0),
                };
                match method {
                    Some(Method::Umda) => {
                        let most = FIRST_GENERATIONS << round.min(20);
                        self.attempts(Method::Umda, &instance, most, round);
                    }
                    _ => self.attempts(Method::Tabu, &instance, patience, round),
                }
                alone = Some(instance);
            }
            patience = patience.saturating_add(patience / 2);
        }
    }

    /// More greedy broadcasts: each is a new chance, and costs little.
    fn gossip_again(&mut self, round: u32) {
        for trial in 0..GREEDY_TRIALS {
            let most = match &self.best {
                Some((steps, _, _)) if self.problem.request().collective.is_broadcast() => {
                    *steps as usize - 1
                }
                _ => return,
            };
            let seed = self.seed(u64::from(round) * GREEDY_TRIALS + trial);
            if let Some((steps, moves)) = gossip::broadcast(self.problem, self.paths, seed, most) {
                self.keep(steps, Method::Gossip, || moves);
            }
            if self.is_done() || !self.asks(Method::Gossip, most, 1) {
                return;
            }
        }
    }

    /// First fit with symmetries: often better than without.
    fn pack(&mut self, instance: &Instance) {
        if !instance.is_broadcast() && !self.is_done() {
            let (steps, genes) = packing::first_fit(instance, self.seed(0));
            self.keep(steps, Method::Orbits, || {
                instance.moves(self.problem, &genes)
            });
        }
    }

    fn attempts(&mut self, method: Method, instance: &Instance, patience: u64, round: u32) {
        if self.is_done() {
            return;
        }
        let bound = self.bound as usize;
        if self.attempt(method, instance, bound, &[], patience) {
            return;
        }
        // Without any schedule yet: ever more steps, as in [EVO] §3.3.
        let next = |best: &Option<(u32, Method, Vec<Move>)>| {
            let before = best.as_ref().map(|(steps, _, _)| *steps as usize - 1);
            before.unwrap_or(bound + 1 + round as usize)
        };
        while next(&self.best) > bound && !self.is_done() {
            let steps = next(&self.best);
            if !self.attempt(method, instance, steps, &[], patience) {
                return;
            }
        }
    }

    /// Search for a schedule in so many steps.
    fn attempt(
        &mut self,
        method: Method,
        instance: &Instance,
        steps: usize,
        start: &[Option<Gene>],
        patience: u64,
    ) -> bool {
        let seed = self.seed(self.evaluations);
        let genes = if method == Method::Umda {
            let problem = self.problem;
            let width = |node: Node| match problem.request().ports {
                Ports::One => 1,
                Ports::All => problem.graph().out(node).len(),
            };
            let mut search = Umda::new(instance, steps, &width, start, seed);
            let found = search.run(patience, &mut |count| self.asks(method, steps, count));
            found.then(|| search.genes().to_vec())
        } else {
            let mut search = Tabu::new(instance, steps, start, seed);
            let found = search.run(patience, &mut |count| self.asks(method, steps, count));
            found.then(|| search.genes().to_vec())
        };
        match genes {
            Some(genes) => {
                let used = genes.iter().map(|(_, step)| step + 1).max().unwrap_or(1);
                let genes = squeeze(genes, used);
                let steps = genes.1;
                self.keep(steps, method, || instance.moves(self.problem, &genes.0));
                true
            }
            None => false,
        }
    }

    fn instance(&self, group: Group, salt: u64) -> Instance {
        Instance::new(self.problem, self.paths, group, self.seed(salt))
    }

    fn trivial(&self) -> Group {
        Group::trivial(self.problem.graph().node_count())
    }

    fn seed(&self, salt: u64) -> u64 {
        let salt = salt.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.options.seed ^ salt
    }
}

/// Leave out steps in which nothing happens; the genes and the number of steps.
fn squeeze(genes: Vec<Gene>, steps: usize) -> (Vec<Gene>, usize) {
    let mut is_used = vec![false; steps];
    for (_, step) in &genes {
        is_used[*step] = true;
    }
    let numbers: Vec<usize> = is_used
        .iter()
        .scan(0, |count, is_used| {
            let number = *count;
            *count += usize::from(*is_used);
            Some(number)
        })
        .collect();
    let count = is_used.iter().filter(|is_used| **is_used).count();
    let genes = genes
        .into_iter()
        .map(|(choice, step)| (choice, numbers[step]));
    (genes.collect(), count)
}
