//! One-to-all broadcast on a small graph, by trying all largest sets.
//!
//! The first step tells some set of nodes, the second step some more, and the last
//! step must tell all receivers that are left. Whether one step can tell a set of nodes is a
//! question for a flow, if paths may be longer than the problem allows. All sets of the
//! largest size that such a flow can tell are tried, and no others: each smaller set is part
//! of one of these, and the more nodes know the message, the more nodes they can tell.
//!
//! This search is used in two ways. For the lower bound, all steps but the last may use such longer
//! paths. That makes a broadcast easier, so if even then there is none in so many steps, there is
//! none with allowed paths. For finding a schedule, every step must use allowed paths only. Then
//! some largest sets cannot be told, smaller sets are not tried, and a schedule may be missed.

use binomesh_overlay::noise::Noise;

use super::super::flow::Network;
use super::super::plan::{Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::paths::Paths;

/// The most flows or choices that are tried, times the number of channels: a second or two.
const WORK_MAX: usize = 5_000_000;
/// `goes_on` is asked once in this many flows and choices, and after each phase of a flow.
const ASKS_EVERY: usize = 64;
/// With this many allowed paths between two nodes, a step is not examined.
const PATHS_MAX: usize = 1000;

/// The least number of steps, from `first` up, in which a broadcast is not ruled out. When the work
/// runs out or `goes_on` denies, it is the number that is looked at then, or `None` at `first`.
/// Also `None` if the problem has `store-forward` or several blocks.
pub(in super::super) fn bound(
    problem: &Problem,
    source: Node,
    first: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<usize> {
    let mut spread = Spread::new(problem, false, goes_on)?;
    for steps in first..problem.graph().node_count() {
        match spread.reaches_all(&mut vec![source], steps) {
            Some(false) => {}
            Some(true) => return Some(steps),
            None => return (steps > first).then_some(steps),
        }
    }
    None
}

/// The moves of a broadcast in this many steps. `None` if none is found before the work runs out or
/// `goes_on` denies, or if the problem has `store-forward` or several blocks.
pub(super) fn moves(
    problem: &Problem,
    source: Node,
    steps: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Move>> {
    let mut spread = Spread::new(problem, true, goes_on)?;
    if spread.reaches_all(&mut vec![source], steps) != Some(true) {
        return None;
    }
    let mut moves = Vec::new();
    for (step, paths) in spread.plan.iter().enumerate() {
        for path in paths {
            let to = path.last().copied().unwrap_or(source);
            moves.push(problem.step_move(step, path, source, to, 0));
        }
    }
    Some(moves)
}

struct Spread<'a> {
    problem: &'a Problem,
    paths: Paths<'a>,
    /// Whether every step must use allowed paths only.
    is_search: bool,
    /// The paths of each step, in a search for a schedule.
    plan: Vec<Vec<Vec<Node>>>,
    /// How many flows or choices may still be tried.
    work: usize,
    /// Whether there is time for more.
    goes_on: &'a mut dyn FnMut() -> bool,
}

/// Whether some nodes can tell certain others in one step.
enum Step {
    /// The step is possible, over these paths.
    Paths(Vec<Vec<Node>>),
    Impossible,
    /// Unknown: there are too many paths or channels to look at all.
    Unknown,
}

impl<'a> Spread<'a> {
    fn new(
        problem: &'a Problem,
        is_search: bool,
        goes_on: &'a mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        let request = problem.request();
        let is_possible = request.model == Model::Wormhole && request.blocks == 1;
        is_possible.then(|| Self {
            problem,
            paths: Paths::new(problem),
            is_search,
            plan: Vec::new(),
            work: WORK_MAX / problem.graph().channels().len().max(1),
            goes_on,
        })
    }

    /// Count one more flow or choice. `None` if there were too many, or `goes_on` denies.
    fn spend(&mut self) -> Option<()> {
        self.work = self.work.checked_sub(1)?;
        (!self.work.is_multiple_of(ASKS_EVERY) || (self.goes_on)()).then_some(())
    }

    /// Whether the told nodes can tell all other receivers in this many steps. For a bound, *yes*
    /// may be wrong. In a search, *no* may be wrong. `None` if that takes too long to find out, or
    /// `goes_on` denies. The recursion goes one level deeper per step and per node that is told.
    fn reaches_all(&mut self, told: &mut Vec<Node>, steps: usize) -> Option<bool> {
        let receivers = self.problem.receivers().iter().copied();
        let others: Vec<Node> = receivers.filter(|node| !told.contains(node)).collect();
        let most = self.told_at_most(told, &others)?;
        if steps <= 1 {
            return match most == others.len() {
                true => self.tells(told, &others, true),
                false => Some(false),
            };
        }
        let mut chosen = Vec::new();
        match most {
            0 => Some(others.is_empty()),
            _ => self.chooses(told, &others, most, &mut chosen, steps),
        }
    }

    /// Whether one step can tell these nodes. A search for a schedule notes the paths, and takes
    /// *unknown* for *no*. For a bound, *unknown* is *yes*. So is any step but the last, since a
    /// flow was found for it.
    fn tells(&mut self, told: &[Node], others: &[Node], is_last: bool) -> Option<bool> {
        if !is_last && !self.is_search {
            return Some(true);
        }
        match self.step(told, others)? {
            Step::Paths(paths) => self.plan.push(paths),
            Step::Impossible => return Some(false),
            Step::Unknown => return Some(!self.is_search),
        }
        Some(true)
    }

    /// Go through the sets of `most` other nodes that a flow can tell in one step. Returns whether
    /// after one of these the rest can be told in time.
    fn chooses(
        &mut self,
        told: &mut Vec<Node>,
        others: &[Node],
        most: usize,
        chosen: &mut Vec<Node>,
        steps: usize,
    ) -> Option<bool> {
        if chosen.len() == most {
            let (count, planned) = (told.len(), self.plan.len());
            if !self.tells(told, chosen, false)? {
                return Some(false);
            }
            told.extend(chosen.iter().copied());
            let reaches = self.reaches_all(told, steps - 1)?;
            told.truncate(count);
            if !reaches {
                self.plan.truncate(planned);
            }
            return Some(reaches);
        }
        for (place, node) in others.iter().enumerate() {
            if others.len() - place < most - chosen.len() {
                break;
            }
            chosen.push(*node);
            let is_possible = self.told_at_most(told, chosen)? == chosen.len();
            if is_possible && self.chooses(told, &others[place + 1..], most, chosen, steps)? {
                return Some(true);
            }
            chosen.pop();
        }
        Some(false)
    }

    /// How many of these nodes a flow can tell in one step. `None` if too many flows or choices
    /// were tried, or `goes_on` denies.
    fn told_at_most(&mut self, told: &[Node], others: &[Node]) -> Option<usize> {
        self.spend()?;
        let graph = self.problem.graph();
        let mut network = Network::default();
        let nodes: Vec<usize> = (0..graph.node_count()).map(|_| network.node()).collect();
        let (start, end) = (network.node(), network.node());
        let at_once = match self.problem.request().ports {
            Ports::One => 1,
            Ports::All => Network::UNLIMITED,
        };
        for node in told {
            network.edge(start, nodes[*node], at_once);
        }
        for (from, to) in graph.channels() {
            if self.is_onward(told, *from, *to) {
                network.edge(nodes[*from], nodes[*to], 1);
            }
        }
        for node in others {
            network.edge(nodes[*node], end, 1);
        }
        network
            .maximize(start, end, self.goes_on)
            .map(|count| count as usize)
    }

    /// Whether a flow may use a channel: any channel if the problem has an excess, else one that
    /// leads away from a told node.
    fn is_onward(&self, told: &[Node], from: Node, to: Node) -> bool {
        let hops = |start: Node, end: Node| self.paths.hops(start, end);
        let leads_on = |start: &Node| hops(*start, from).map(|hops| hops + 1) == hops(*start, to);
        self.problem.request().excess > 0 || told.iter().any(leads_on)
    }

    /// Whether allowed paths from the told nodes to all the others fit into one step.
    fn step(&mut self, told: &[Node], others: &[Node]) -> Option<Step> {
        let graph = self.problem.graph();
        if graph.channels().len() > u128::BITS as usize {
            return Some(Step::Unknown);
        }
        let mut noise = Noise::new(0);
        let mut ways = Vec::with_capacity(others.len());
        let mut are_all = true;
        for to in others {
            let mut all = Vec::new();
            for from in told {
                let (paths, gave_up) = self.paths.between(*from, *to, PATHS_MAX, &mut noise);
                are_all &= !gave_up;
                if paths.len() >= PATHS_MAX {
                    return Some(Step::Unknown);
                }
                all.extend(paths.into_iter().map(|path| {
                    let pairs = path.windows(2);
                    let channels = pairs.filter_map(|pair| graph.channel(pair[0], pair[1]));
                    let channels = channels.fold(0, |all, channel| all | 1u128 << channel);
                    Way { channels, path }
                }));
            }
            ways.push(all);
        }
        let mut chosen = vec![None; ways.len()];
        let fits = self.fits(&ways, &mut chosen, 0)?;
        let paths = ways.into_iter().zip(chosen);
        let paths = paths.filter_map(|(ways, place)| Some(ways.get(place?)?.path.clone()));
        Some(match fits {
            true => Step::Paths(paths.collect()),
            // Paths that were not looked at might have fitted.
            false if !are_all => Step::Unknown,
            false => Step::Impossible,
        })
    }

    /// Whether all remaining receivers can have ways at once that share no channel and, with one
    /// port, no sender. Receivers with the fewest free ways come first. The recursion is as deep as
    /// the number of receivers.
    fn fits(
        &mut self,
        ways: &[Vec<Way>],
        chosen: &mut [Option<usize>],
        used: u128,
    ) -> Option<bool> {
        self.spend()?;
        let mut senders = Vec::new();
        if self.problem.request().ports == Ports::One {
            let busy = ways.iter().zip(chosen.iter());
            senders.extend(busy.filter_map(|(ways, place)| Some(ways[(*place)?].path[0])));
        }
        let is_free = |way: &Way| way.channels & used == 0 && !senders.contains(&way.path[0]);
        let left = (0..ways.len()).filter(|place| chosen[*place].is_none());
        let free = |place: &usize| ways[*place].iter().filter(|way| is_free(way)).count();
        let Some(place) = left.min_by_key(free) else {
            return Some(true);
        };
        for (number, way) in ways[place].iter().enumerate() {
            if is_free(way) {
                chosen[place] = Some(number);
                if self.fits(ways, chosen, used | way.channels)? {
                    return Some(true);
                }
            }
        }
        chosen[place] = None;
        Some(false)
    }
}

/// A path and its channels, one bit for each.
struct Way {
    channels: u128,
    path: Vec<Node>,
}
