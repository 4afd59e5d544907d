//! The best lengths, by a linear program.
//!
//! ```text
//!   maximise  Σ over senders s of z(s)
//!   where     Σ over channels c of length(c) = 1
//!             z(s) ≤ Σ over c of load(c) · length(c)   for every tree of paths from s
//! ```
//!
//! There are too many trees to list. Those that are shortest for some lengths are added
//! until no shorter one is found: cutting planes. The solver's numbers are rounded to
//! whole lengths and handed to the router, so a mistake of the solver costs strength,
//! and never makes the bound wrong.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::{Router, SCALE};

/// How often trees are added. Guess: the bound stops rising before. With fewer rounds it may be
/// lower.
const ROUNDS: usize = 60;
/// The most channels and senders together: BMG(64) has 768 and takes ten seconds, BMG(128)
/// has 1,792 and takes minutes.
const SIZE_MAX: usize = 1000;
/// By how much the solver's optimum may be wrong.
const TOLERANCE: f64 = 1e-6;

/// Which channels a tree of paths from a sender uses, and how often.
struct Tree {
    sender: usize,
    load: Vec<(usize, f64)>,
}

/// A bound of at least `best`, beginning with trees for these lengths. Once `goes_on` denies, no
/// further program is solved.
pub(super) fn bound(
    router: &mut Router<'_>,
    best: usize,
    starts: &[Vec<u64>],
    goes_on: &mut dyn FnMut() -> bool,
) -> usize {
    let channels = router.graph.channels().len();
    let senders = router.problem.senders().len();
    if channels + senders > SIZE_MAX || !goes_on() {
        return best;
    }
    let mut best = best;
    let mut trees = Vec::new();
    for lengths in starts {
        best = best.max(add_trees(router, lengths, &mut trees));
    }
    for _ in 0..ROUNDS {
        if !goes_on() {
            break;
        }
        let Some((optimum, lengths)) = solve(channels, senders, &trees) else {
            break;
        };
        // More trees only lower the optimum, so the bound cannot rise any more.
        if (optimum - TOLERANCE).ceil() as usize <= best {
            break;
        }
        let longest = lengths.iter().copied().fold(0.0, f64::max).max(TOLERANCE);
        let whole = lengths
            .iter()
            .map(|length| (length / longest * SCALE).round() as u64);
        let whole: Vec<u64> = whole.collect();
        let before = trees.len();
        best = best.max(add_trees(router, &whole, &mut trees));
        if trees.len() == before {
            break;
        }
    }
    best
}

/// Add the trees that are shortest for these lengths. Returns the bound that the lengths give.
fn add_trees(router: &mut Router<'_>, lengths: &[u64], trees: &mut Vec<Tree>) -> usize {
    let mut total = 0;
    for sender in 0..router.problem.senders().len() {
        let (length, load) = router.route(sender, lengths);
        total += length;
        let load = load.into_iter().enumerate().filter(|(_, load)| *load > 0);
        let load = load.map(|(channel, load)| (channel, load as f64)).collect();
        let is_same = |tree: &Tree| tree.sender == sender && tree.load == load;
        if !trees.iter().any(is_same) {
            trees.push(Tree { sender, load });
        }
    }
    let room: u64 = lengths.iter().sum();
    total.div_ceil(room.max(1)) as usize
}

/// The optimum for these trees, and the lengths that reach it; `None` if the solver fails.
fn solve(channels: usize, senders: usize, trees: &[Tree]) -> Option<(f64, Vec<f64>)> {
    let mut program = Problem::new(OptimizationDirection::Maximize);
    let mut variables = |count: usize, weight: f64, most: f64| -> Vec<Variable> {
        let variables = (0..count).map(|_| program.add_var(weight, (0.0, most)));
        variables.collect()
    };
    let lengths = variables(channels, 0.0, 1.0);
    let sums = variables(senders, 1.0, f64::INFINITY);
    let all: Vec<(Variable, f64)> = lengths.iter().map(|length| (*length, 1.0)).collect();
    program.add_constraint(&all[..], ComparisonOp::Eq, 1.0);
    for tree in trees {
        let load = tree
            .load
            .iter()
            .map(|(channel, load)| (lengths[*channel], -load));
        let terms: Vec<(Variable, f64)> = load.chain([(sums[tree.sender], 1.0)]).collect();
        program.add_constraint(&terms[..], ComparisonOp::Le, 0.0);
    }
    let solution = program.solve().ok()?.into_solution().ok()?;
    let lengths = lengths.into_iter().map(|length| solution.var_value(length));
    let lengths = lengths.map(|length| length.max(0.0)).collect();
    Some((solution.objective(), lengths))
}

#[cfg(test)]
mod tests {
    use super::super::super::super::plan::Collective;
    use super::super::super::super::problem::{self, Request};
    use super::super::super::super::topology::Topology;
    use super::*;

    /// The bound by equal lengths, and the bound after the linear program while `goes_on` allows.
    fn bounds_while(name: &str, goes_on: &mut dyn FnMut() -> bool) -> (usize, usize) {
        let graph = Topology::generate(name).unwrap();
        let equal = vec![vec![1; graph.channels().len()]];
        let request = Request::paper(Collective::Aas, None);
        let problem = problem::Problem::new(graph, request).unwrap();
        let mut router = Router::new(&problem);
        let by_equal = router.bound(&equal[0]).0;
        (by_equal, bound(&mut router, 1, &equal, goes_on))
    }

    fn bounds(name: &str) -> (usize, usize) {
        bounds_while(name, &mut || true)
    }

    #[test]
    fn the_best_lengths_are_found_without_a_hint() {
        assert_eq!(bounds("mesh:4x4"), (14, 16));
        // A path of three nodes with equal lengths: 8 hops over 4 channels.
        assert_eq!(bounds("mesh:1x3"), (2, 2));
        assert_eq!(bounds("kautz:3,2"), (7, 7));
        assert_eq!(bounds("sibling:2,15").1, 10);
    }

    #[test]
    fn once_denied_the_bound_so_far_stays() {
        assert_eq!(bounds_while("mesh:4x4", &mut || false), (14, 1));
        let mut asked = 0;
        let mut once = || {
            asked += 1;
            asked <= 1
        };
        assert_eq!(bounds_while("mesh:4x4", &mut once), (14, 14));
        assert_eq!(asked, 2);
    }
}
