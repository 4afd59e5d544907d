//! Greedy scatters: in the wormhole model every message in the first step that has room for it, in
//! `store-forward` the messages with the farthest way first.

use binomesh_overlay::noise::Noise;

use super::super::plan::{Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::instance::Instance;
use super::paths::{Paths, shuffle};
use super::tabu::Gene;

/// First fit: the items whose shortest paths are the longest come first, each in the earliest step
/// in which one of its paths is free. Returns the number of steps and the genes. Once `goes_on`
/// denies, only new steps and the last ones, fewer than 64, are looked at.
pub(super) fn first_fit(
    instance: &Instance,
    seed: u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> (usize, Vec<Gene>) {
    let mut order: Vec<usize> = (0..instance.items.len()).collect();
    shuffle(&mut order, &mut Noise::new(seed));
    let length = |item: &usize| {
        let choices = instance.items[*item].choices();
        let lengths = choices.map(|choice| instance.resources_of(choice).len());
        std::cmp::Reverse(lengths.min().unwrap_or(0))
    };
    order.sort_by_cached_key(length);
    let mut genes = vec![(0, 0); instance.items.len()];
    let mut occupancy = Occupancy {
        busy: vec![Vec::new(); instance.resources],
    };
    let (mut steps, mut is_late) = (0, false);
    for item in order {
        is_late = is_late || !goes_on();
        let first_word = if is_late { steps / 64 } else { 0 };
        let choices = instance.items[item].choices();
        let places = choices.map(|choice| {
            let step = occupancy.first_free_step(instance.resources_of(choice), first_word);
            (step, choice)
        });
        let (step, choice) = places.min().unwrap_or_default();
        occupancy.take(instance.resources_of(choice), step);
        genes[item] = (choice, step);
        steps = steps.max(step + 1);
    }
    (steps, genes)
}

/// For each resource a bit for each step in which it is in use, in words of 64. Missing words are
/// 0.
struct Occupancy {
    busy: Vec<Vec<u64>>,
}

impl Occupancy {
    /// The first step, from this word on, in which all of these resources are free.
    fn first_free_step(&self, resources: &[u32], first_word: usize) -> usize {
        let in_use = |one: &u32, word| self.busy[*one as usize].get(word).copied().unwrap_or(0);
        let mut word = first_word;
        loop {
            let busy = resources.iter().fold(0, |all, one| all | in_use(one, word));
            if busy != u64::MAX {
                return word * 64 + busy.trailing_ones() as usize;
            }
            word += 1;
        }
    }

    fn take(&mut self, resources: &[u32], step: usize) {
        for resource in resources {
            let words = &mut self.busy[*resource as usize];
            if words.len() <= step / 64 {
                words.resize(step / 64 + 1, 0);
            }
            words[step / 64] |= 1 << (step % 64);
        }
    }
}

/// A scatter in store-forward: in each step the messages with the farthest way move first, over any
/// free channel that brings them nearer. Returns the number of steps and the moves, or `None` if
/// there are more than `most` steps.
pub(super) fn relay(
    problem: &Problem,
    paths: &Paths<'_>,
    seed: u64,
    most: usize,
) -> Option<(usize, Vec<Move>)> {
    let graph = problem.graph();
    let is_one_port = problem.request().ports == Ports::One;
    let mut noise = Noise::new(seed);
    // The place of each message, with its origin and destination.
    let mut waiting: Vec<(Node, (Node, Node))> = problem
        .pairs()
        .map(|(from, to)| (from, (from, to)))
        .collect();
    let mut moves = Vec::new();
    let mut step = 0;
    while !waiting.is_empty() {
        if step == most {
            return None;
        }
        let mut is_free = vec![true; graph.channels().len()];
        let mut sends = vec![false; graph.node_count()];
        let mut receives = vec![false; graph.node_count()];
        shuffle(&mut waiting, &mut noise);
        waiting.sort_by_key(|(at, (_, to))| std::cmp::Reverse(paths.hops(*at, *to)));
        for (at, ends) in &mut waiting {
            let nearer = graph.out(*at).iter().copied().find(|channel| {
                let next = graph.channels()[*channel].1;
                let is_busy = is_one_port && (sends[*at] || receives[next]);
                let is_nearer = paths.hops(next, ends.1) < paths.hops(*at, ends.1);
                is_free[*channel] && !is_busy && is_nearer && paths.hops(next, ends.1).is_some()
            });
            if let Some(channel) = nearer {
                let next = graph.channels()[channel].1;
                is_free[channel] = false;
                sends[*at] = true;
                receives[next] = true;
                moves.push(problem.step_move(step, &[*at, next], ends.0, ends.1, 0));
                *at = next;
            }
        }
        waiting.retain(|(at, (_, to))| at != to);
        step += 1;
    }
    Some((step, moves))
}
