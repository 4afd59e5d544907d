//! A search that begins from an old schedule, such as that of the graph before a fault.
//!
//! Most of the old schedule still holds. A fault breaks the deliveries over channels that are gone,
//! and those that the receivers of these would have sent. Tabu search places only the broken
//! deliveries anew. Then it removes the conflicts, at first with little patience.

use super::super::plan::{Message, Move, Schedule};
use super::super::topology::Node;
use super::Method;
use super::driver::{Driver, FIRST_GENERATIONS};
use super::instance::{Instance, KnownPaths};
use super::tabu::Gene;

/// How many evaluations a try of tabu search has in the first round; in each later round it has
/// twice as many. Guess: with fewer, more repairs are left to the ordinary search.
const FIRST_PATIENCE: u64 = 1 << 16;
/// How many rounds of tries there are, each from the goal upwards. Guess: afterwards the ordinary
/// search goes on.
const TRIES: u32 = 6;
/// How many numbers of steps, from the goal up, are tried until there is a schedule. Guess: a
/// schedule that needs more steps is left to the ordinary search.
const MORE_STEPS_MAX: usize = 8;

/// An old schedule as a search sees it.
pub(super) struct Start {
    pub(super) instance: Instance,
    pub(super) genes: Vec<Option<Gene>>,
}

impl Driver<'_> {
    /// Search from the old schedule, if there is one, for as few steps as possible.
    pub(super) fn restart(&mut self) -> Option<Start> {
        let old = self.options.start.as_ref()?;
        let paths = self.known_paths(old);
        let instance = self.instance(self.trivial(), 0, &paths);
        let genes = self.genes_of(old, &instance);
        let start = Start { instance, genes };
        let is_umda = self.options.method == Some(Method::Umda);
        let method = if is_umda { Method::Umda } else { Method::Tabu };
        for number in 0..TRIES {
            let patience = match is_umda {
                true => FIRST_GENERATIONS << number,
                false => FIRST_PATIENCE << number,
            };
            let goal = self.goal as usize;
            let end = self.steps().unwrap_or(goal + MORE_STEPS_MAX);
            for steps in goal..end {
                let is_found = self.attempt(method, &start.instance, steps, &start.genes, patience);
                if self.is_done() {
                    return Some(start);
                }
                if is_found {
                    break;
                }
            }
        }
        Some(start)
    }

    /// The paths of the old schedule whose nodes the graph has, faulty nodes included.
    fn known_paths(&self, old: &Schedule) -> KnownPaths {
        let mut paths = KnownPaths::new();
        for path in old.moves.iter().filter_map(|one| self.path_of(one)) {
            if let (Some(from), Some(to)) = (path.first(), path.last()) {
                let known = paths.entry((*from, *to)).or_default();
                if !known.contains(&path) {
                    known.push(path);
                }
            }
        }
        paths
    }

    fn path_of(&self, one: &Move) -> Option<Vec<Node>> {
        let graph = self.problem.graph();
        one.path.iter().map(|name| graph.node(name)).collect()
    }

    /// For each item its choice and step in the old schedule. `None` if the old schedule lacks the
    /// item, or its path is no choice any more.
    fn genes_of(&self, old: &Schedule, instance: &Instance) -> Vec<Option<Gene>> {
        let graph = self.problem.graph();
        let mut genes = vec![None; instance.items.len()];
        let items = instance.find();
        for one in &old.moves {
            let Some(path) = self.path_of(one) else {
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
                let choice = choices.find(|choice| instance.path(*choice).eq(path.iter().copied()));
                genes[*item] = choice.map(|choice| (choice, one.step.saturating_sub(1) as usize));
            }
        }
        genes
    }
}
