//! Greedy scatters: every message in the first step that has room for it.

use binomesh_overlay::noise::Noise;

use super::super::plan::{Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::instance::Instance;
use super::paths::{Paths, shuffle};
use super::tabu::Gene;

/// First fit: those with the longest paths first, each in the earliest step in which
/// one of its paths is free. The number of steps and the genes. Once `goes_on` denies,
/// every message left has a step of its own, after all others.
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
    // By step, whether a resource is in use.
    let mut used: Vec<Vec<bool>> = Vec::new();
    let mut alone = 0;
    for item in order {
        if alone > 0 || !goes_on() {
            genes[item] = (instance.items[item].choices().start, used.len() + alone);
            alone += 1;
            continue;
        }
        let free = |step: &Vec<bool>| {
            instance.items[item].choices().find(|choice| {
                let resources = instance.resources_of(*choice);
                resources.iter().all(|resource| !step[*resource as usize])
            })
        };
        let fitting = used.iter().enumerate();
        let fitting = fitting
            .filter_map(|(number, step)| Some((free(step)?, number)))
            .next();
        let gene = fitting.unwrap_or_else(|| {
            used.push(vec![false; instance.resources]);
            (instance.items[item].choices().start, used.len() - 1)
        });
        for resource in instance.resources_of(gene.0) {
            used[gene.1][*resource as usize] = true;
        }
        genes[item] = gene;
    }
    (used.len() + alone, genes)
}

/// Store-forward, all to all: in each step the messages with the farthest to go move
/// first, over any free channel that brings them nearer. The number of steps and the
/// moves; `None` if it takes more than `most` steps.
pub(super) fn relay(
    problem: &Problem,
    paths: &Paths<'_>,
    seed: u64,
    most: usize,
) -> Option<(usize, Vec<Move>)> {
    let graph = problem.graph();
    let is_one_port = problem.request().ports == Ports::One;
    let mut noise = Noise::new(seed);
    // Where each message is, with its origin and destination.
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
                moves.push(problem.step_move(step, &[*at, next], *ends, 0));
                *at = next;
            }
        }
        waiting.retain(|(at, (_, to))| at != to);
        step += 1;
    }
    Some((step, moves))
}
