//! The driver of a search: which method is tried when.

use super::super::bounds::lower_bound_while;
use super::super::plan::{Collective, Message, Model, Move, Ports, Schedule};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::instance::{Instance, KnownPaths};
use super::paths::Paths;
use super::restart::Start;
use super::symmetry::Group;
use super::tabu::{Gene, Tabu};
use super::umda::Umda;
use super::{Found, Method, NotFound, Options, Progress};

/// How many evaluations the first try of a search has; each later one has one and a half times as
/// many as the one before. Guess: a tenth of a second. With less patience early tries fail, with
/// more a hopeless try takes long.
const FIRST_PATIENCE: u64 = 1 << 23;
/// How many chromosomes the first try of an evolutionary search evaluates; each later one has twice
/// as many as the one before. A chromosome costs as much as many evaluations.
pub(super) const FIRST_GENERATIONS: u64 = 1 << 14;
/// How many groups of symmetries are tried per round.
const GROUPS_PER_ROUND: usize = 3;
/// How many lists a search may keep, one for each resource and step. They take some 40 bytes each:
/// 700 MB. Larger problems are left to the greedy methods. Guess: a larger number needs more
/// memory.
const CELLS_MAX: usize = 1 << 24;
/// The most rounds, so that a search ends even if the caller never stops it.
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
    let bound = options
        .lower_bound
        .unwrap_or_else(|| lower_bound_while(problem, &mut || goes_on(&Progress::BEFORE_SEARCH)));
    let paths = Paths::new(problem);
    let mut driver = Driver {
        problem,
        paths: &paths,
        options,
        goes_on,
        bound,
        goal: bound.max(options.steps_enough),
        evaluations: 0,
        is_stopped: false,
        best: None,
        reached_after: 0,
    };
    driver.search();
    let (steps, method, moves) = driver.best.ok_or(NotFound)?;
    Ok(Found {
        schedule: problem.schedule(steps, moves),
        lower_bound: driver.bound,
        method,
        evaluations: driver.evaluations,
        reached_after: driver.reached_after,
    })
}

/// Turn a gather into a scatter on the graph turned round, or back: every move goes the other way,
/// and the last step comes first.
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

pub(super) struct Driver<'a> {
    pub(super) problem: &'a Problem,
    pub(super) paths: &'a Paths<'a>,
    pub(super) options: &'a Options,
    goes_on: &'a mut dyn FnMut(&Progress) -> bool,
    pub(super) bound: u32,
    /// A schedule of this many steps is good enough.
    pub(super) goal: u32,
    evaluations: u64,
    pub(super) is_stopped: bool,
    pub(super) best: Option<(u32, Method, Vec<Move>)>,
    /// How many evaluations were made before the best schedule was found.
    reached_after: u64,
}

impl Driver<'_> {
    fn search(&mut self) {
        self.flow();
        if self.construct() {
            return;
        }
        let mut start = None;
        if !self.is_done() && self.can_be_improved() {
            start = self.restart();
        }
        // A method that was asked for shall show what it can do alone.
        let is_chosen = self.options.method.is_some() && self.can_be_improved();
        if !self.is_done() && !is_chosen {
            self.greedy();
            self.exhaust();
        }
        if self.can_be_improved() {
            self.improve(start);
        }
        if self.best.is_none() {
            self.greedy();
        }
    }

    /// How many steps the best schedule so far has.
    pub(super) fn steps(&self) -> Option<usize> {
        self.best.as_ref().map(|(steps, _, _)| *steps as usize)
    }

    pub(super) fn is_done(&self) -> bool {
        let is_optimal = matches!(&self.best, Some((steps, _, _)) if *steps <= self.goal);
        is_optimal || self.is_stopped
    }

    /// Keep a schedule if it has fewer steps than the best one so far.
    pub(super) fn keep(&mut self, steps: usize, method: Method, moves: impl FnOnce() -> Vec<Move>) {
        let steps = steps as u32;
        if self.best.as_ref().is_none_or(|(best, _, _)| steps < *best) {
            self.best = Some((steps, method, moves()));
            self.reached_after = self.evaluations;
        }
    }

    /// Count these evaluations, and ask the caller whether to go on. False from the first denial
    /// on, and after the most evaluations that the options allow.
    pub(super) fn asks(&mut self, method: Method, trying: usize, evaluations: u64) -> bool {
        self.evaluations += evaluations;
        let progress = Progress {
            steps: self.best.as_ref().map(|(steps, _, _)| *steps),
            lower_bound: self.bound,
            trying: trying as u32,
            method: Some(method),
            evaluations: self.evaluations,
        };
        let is_over = self.evaluations >= self.options.evaluations_max;
        self.is_stopped |= is_over || !(self.goes_on)(&progress);
        !self.is_stopped
    }

    pub(super) fn can_be_improved(&self) -> bool {
        let request = self.problem.request();
        let is_everybody =
            self.problem.receivers().len() == self.problem.graph().healthy_nodes().count();
        match request.model {
            Model::Wormhole => true,
            // The search cannot plan relays that are no receivers.
            Model::StoreForward => request.collective.is_broadcast() && is_everybody,
        }
    }

    /// Try the goal, and one step less than the best schedule, with growing patience. Every second
    /// round begins from the old schedule, if there is one.
    fn improve(&mut self, start: Option<Start>) {
        if self.is_done() {
            return;
        }
        let method = self.options.method;
        let goal = self.goal as usize;
        let asked = method.unwrap_or(Method::Tabu);
        let groups = self.groups();
        let (mut alone, old) = match start {
            Some(start) => (Some(start.instance), start.genes),
            None => (None, Vec::new()),
        };
        let mut patience = FIRST_PATIENCE;
        for round in 0..ROUNDS {
            if self.is_done() || (round > 0 && !self.asks(asked, goal, 0)) {
                return;
            }
            if method.is_none() && round > 0 {
                self.gossip_again(round);
            }
            let is_usable = self.improve_orbits(&groups, patience, round);
            // Without a usable group, search without symmetries.
            if method == Some(Method::Orbits) && is_usable {
                patience = patience.saturating_add(patience / 2);
                continue;
            }
            let instance = match alone.take() {
                Some(instance) => instance,
                None => self.instance(self.trivial(), 0, &KnownPaths::new()),
            };
            let is_too_large = Tabu::cells(&instance, goal) > CELLS_MAX;
            if is_too_large && !is_usable && !instance.is_broadcast() {
                return;
            }
            let start = if round % 2 == 1 { &old[..] } else { &[] };
            let (method, most) = match method {
                Some(Method::Umda) => (Method::Umda, FIRST_GENERATIONS << round.min(20)),
                _ => (Method::Tabu, patience),
            };
            self.attempts(method, &instance, start, most, round);
            alone = Some(instance);
            patience = patience.saturating_add(patience / 2);
        }
    }

    /// Groups of symmetries to search with, if the method uses them.
    fn groups(&mut self) -> Vec<Group> {
        let (problem, seed, goal) = (self.problem, self.options.seed, self.goal as usize);
        let method = self.options.method;
        let mut has_time = || self.asks(Method::Orbits, goal, 0);
        match method {
            None | Some(Method::Orbits) => Group::of(problem, seed, &mut has_time),
            _ => Vec::new(),
        }
    }

    /// Search with the groups of this round. Returns whether one of them could be used.
    fn improve_orbits(&mut self, groups: &[Group], patience: u64, round: u32) -> bool {
        let mut is_usable = false;
        for place in 0..GROUPS_PER_ROUND.min(groups.len()) {
            if self.is_done() {
                break;
            }
            let place = (round as usize * GROUPS_PER_ROUND + place) % groups.len();
            let group = groups[place].clone();
            let instance = self.instance(group, u64::from(round), &KnownPaths::new());
            if instance.has_choices() {
                is_usable = true;
                self.pack(&instance);
                self.attempts(Method::Orbits, &instance, &[], patience, round);
            }
        }
        is_usable
    }

    fn attempts(
        &mut self,
        method: Method,
        instance: &Instance,
        start: &[Option<Gene>],
        patience: u64,
        round: u32,
    ) {
        if self.is_done() {
            return;
        }
        let goal = self.goal as usize;
        if self.attempt(method, instance, goal, start, patience) {
            return;
        }
        // As long as there is no schedule, try ever more steps, as in [EVO] §3.3.
        let next = |best: &Option<(u32, Method, Vec<Move>)>| {
            let before = best.as_ref().map(|(steps, _, _)| *steps as usize - 1);
            before.unwrap_or(goal + 1 + round as usize)
        };
        while next(&self.best) > goal && !self.is_done() {
            let steps = next(&self.best);
            if !self.attempt(method, instance, steps, start, patience) {
                return;
            }
        }
    }

    /// Search for a schedule in this many steps, and keep it if it is the best. Returns whether one
    /// was found. A search with more than [`CELLS_MAX`] lists is not made.
    pub(super) fn attempt(
        &mut self,
        method: Method,
        instance: &Instance,
        steps: usize,
        start: &[Option<Gene>],
        patience: u64,
    ) -> bool {
        if Tabu::cells(instance, steps) > CELLS_MAX {
            return false;
        }
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

    pub(super) fn instance(&mut self, group: Group, salt: u64, known: &KnownPaths) -> Instance {
        let (problem, paths, seed) = (self.problem, self.paths, self.seed(salt));
        let goal = self.goal as usize;
        let mut has_time = || self.asks(Method::Tabu, goal, 0);
        Instance::new(problem, paths, group, seed, known, &mut has_time)
    }

    pub(super) fn trivial(&self) -> Group {
        Group::trivial(self.problem.graph().node_count())
    }

    pub(super) fn seed(&self, salt: u64) -> u64 {
        let salt = salt.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.options.seed ^ salt
    }
}

/// Leave out steps without a move. Returns the genes and the number of steps.
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
