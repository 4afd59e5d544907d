//! A problem as a search sees it: deliveries, the ways of each, and what a way
//! takes for one step.
//!
//! ```text
//!   item   (token, receiver): a delivery; it has a step and a choice
//!   choice who tells, along which path: a set of resources for one step
//!   [EVO] §3.2: an item is a gene, (source,) path and step are its parts
//! ```
//!
//! A resource serves one message per step. It is a channel or a port; with a group
//! of symmetries (see `symmetry.rs`) it stands for all images of one, an item for
//! all images of a delivery, and a schedule of the items is a schedule of all.

use std::collections::BTreeMap;
use std::ops::Range;

use binomesh_overlay::noise::Noise;

use super::super::plan::{Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::paths::Paths;
use super::symmetry::Group;

/// A goal for how many paths are kept in all; each delivery has at least a few, so it
/// is passed on large graphs. With 1,024 nodes and long paths they may take gigabytes.
/// Guess.
const PATHS_GOAL: usize = 1 << 18;

/// One delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) token: usize,
    pub(super) to: Node,
    /// Its choices: a range in [`Instance::choices`].
    first: u32,
    end: u32,
}

impl Item {
    pub(super) const fn choices(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// Who tells, and what that takes.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) path: Vec<Node>,
    pub(super) resources: Vec<u32>,
    /// How many channels it has more than a shortest path.
    pub(super) extra: u32,
}

/// From when on the sender of a choice can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    /// It has the message from the start.
    Origin,
    /// It learns it by this item.
    Item(usize),
    /// It never has it.
    Nobody,
}

/// A problem, ready to be searched.
pub(super) struct Instance {
    pub(super) items: Vec<Item>,
    pub(super) choices: Vec<Choice>,
    pub(super) resources: usize,
    /// What is sent: the origin and the block.
    tokens: Vec<(Node, usize)>,
    is_broadcast: bool,
    /// Broadcast: by token and node the item that tells the node.
    item_of: Vec<Option<usize>>,
    nodes: usize,
    group: Group,
}

impl Instance {
    /// The deliveries of a problem, one for each orbit of a group that leaves the
    /// problem as it is.
    pub(super) fn new(problem: &Problem, paths: &Paths<'_>, group: Group, seed: u64) -> Self {
        let request = problem.request();
        let mut instance = Self {
            items: Vec::new(),
            choices: Vec::new(),
            resources: 0,
            tokens: Vec::new(),
            is_broadcast: request.collective.is_broadcast(),
            item_of: Vec::new(),
            nodes: problem.graph().node_count(),
            group,
        };
        let senders = problem.senders().iter().copied();
        let senders = senders.filter(|node| instance.group.is_first(*node));
        let blocks = request.blocks as usize;
        let tokens = senders.flat_map(|from| (0..blocks).map(move |block| (from, block)));
        instance.tokens = tokens.collect();
        let mut noise = Noise::new(seed);
        let mut needs = Needs::new(problem, &instance.group);
        if instance.is_broadcast {
            instance.add_broadcast(problem, paths, &mut needs, &mut noise);
        } else {
            instance.add_scatter(problem, paths, &mut needs, &mut noise);
        }
        instance.resources = needs.count();
        instance
    }

    /// The origin of an item's message.
    pub(super) fn origin(&self, item: usize) -> Node {
        self.tokens[self.items[item].token].0
    }

    /// Whether receivers pass on what they got.
    pub(super) const fn is_broadcast(&self) -> bool {
        self.is_broadcast
    }

    /// Whether every item has a choice. With symmetries some may have none: all of
    /// their paths are in conflict with their own images.
    pub(super) fn has_choices(&self) -> bool {
        (0..self.items.len()).all(|item| {
            let mut choices = self.items[item].choices();
            choices.any(|choice| self.teller(item, choice) != Teller::Nobody)
        })
    }

    /// From when on an item can be told by this choice.
    pub(super) fn teller(&self, item: usize, choice: usize) -> Teller {
        let from = self.choices[choice].path[0];
        let token = self.items[item].token;
        if from == self.tokens[token].0 {
            return Teller::Origin;
        }
        let told = self.item_of.get(token * self.nodes + from);
        match told.copied().flatten() {
            Some(told) if told != item => Teller::Item(told),
            _ => Teller::Nobody,
        }
    }

    /// The item of each (origin, block, receiver). With symmetries one item stands for
    /// several deliveries, and only the one it is written as is listed.
    pub(super) fn find(&self) -> BTreeMap<(Node, usize, Node), usize> {
        let items = self.items.iter().enumerate();
        let keys = items.map(|(item, one)| {
            let (origin, block) = self.tokens[one.token];
            ((origin, block, one.to), item)
        });
        keys.collect()
    }

    /// The moves of a schedule that gives each item a choice and a step from 0.
    pub(super) fn moves(&self, problem: &Problem, genes: &[(usize, usize)]) -> Vec<Move> {
        let mut moves = Vec::new();
        for (item, (choice, step)) in self.items.iter().zip(genes) {
            let (origin, block) = self.tokens[item.token];
            for image in self.group.elements() {
                let path = &self.choices[*choice].path;
                let path: Vec<Node> = path.iter().map(|node| image[*node]).collect();
                let ends = (image[origin], image[item.to]);
                moves.push(problem.step_move(*step, &path, ends, block));
            }
        }
        moves
    }

    fn add_scatter(
        &mut self,
        problem: &Problem,
        paths: &Paths<'_>,
        needs: &mut Needs<'_>,
        noise: &mut Noise,
    ) {
        let receivers = problem.receivers();
        let count = self.tokens.len() * receivers.len();
        let most = (PATHS_GOAL / count.max(1)).clamp(8, 48);
        for token in 0..self.tokens.len() {
            let origin = self.tokens[token].0;
            for to in receivers.iter().copied().filter(|to| *to != origin) {
                let first = self.choices.len() as u32;
                self.add_choices(paths.between(origin, to, most, noise).0, needs);
                self.add_item(token, to, first);
            }
        }
    }

    /// The choices of a receiver are the same whatever it is told.
    fn add_broadcast(
        &mut self,
        problem: &Problem,
        paths: &Paths<'_>,
        needs: &mut Needs<'_>,
        noise: &mut Noise,
    ) {
        let receivers = problem.receivers();
        let mut tellers = [problem.senders(), receivers].concat();
        tellers.sort_unstable();
        tellers.dedup();
        let most = (PATHS_GOAL / (tellers.len() * receivers.len()).max(1)).clamp(2, 12);
        let is_relayed = problem.request().model == Model::StoreForward;
        self.item_of = vec![None; self.tokens.len() * self.nodes];
        for to in receivers.iter().copied() {
            let first = self.choices.len() as u32;
            for from in tellers.iter().copied().filter(|from| *from != to) {
                if !is_relayed || paths.hops(from, to) == Some(1) {
                    let (mut ways, _) = paths.between(from, to, most, noise);
                    ways.retain(|path| !is_relayed || path.len() == 2);
                    self.add_choices(ways, needs);
                }
            }
            for token in 0..self.tokens.len() {
                if self.tokens[token].0 != to {
                    self.item_of[token * self.nodes + to] = Some(self.items.len());
                    self.add_item(token, to, first);
                }
            }
        }
    }

    fn add_item(&mut self, token: usize, to: Node, first: u32) {
        let end = self.choices.len() as u32;
        self.items.push(Item {
            token,
            to,
            first,
            end,
        });
    }

    fn add_choices(&mut self, paths: Vec<Vec<Node>>, needs: &mut Needs<'_>) {
        let shortest = paths.iter().map(Vec::len).min().unwrap_or(0);
        let choices = paths.into_iter().filter_map(|path| {
            let resources = needs.of(&path)?;
            let extra = (path.len() - shortest) as u32;
            Some(Choice {
                path,
                resources,
                extra,
            })
        });
        self.choices.extend(choices);
    }
}

/// What paths need.
struct Needs<'a> {
    problem: &'a Problem,
    /// By channel the number of its orbit.
    channels: Vec<u32>,
    channel_orbits: usize,
    /// By node the number of its orbit.
    nodes: Vec<u32>,
    node_orbits: usize,
}

impl<'a> Needs<'a> {
    fn new(problem: &'a Problem, group: &Group) -> Self {
        let graph = problem.graph();
        let mut channels = vec![u32::MAX; graph.channels().len()];
        let mut channel_orbits = 0;
        for (channel, (from, to)) in graph.channels().iter().enumerate() {
            if channels[channel] != u32::MAX {
                continue;
            }
            for image in group.elements() {
                if let Some(other) = graph.channel(image[*from], image[*to]) {
                    channels[other] = channel_orbits;
                }
            }
            channel_orbits += 1;
        }
        let mut nodes = vec![u32::MAX; graph.node_count()];
        let mut node_orbits = 0;
        for node in 0..nodes.len() {
            if nodes[node] != u32::MAX {
                continue;
            }
            for image in group.elements() {
                nodes[image[node]] = node_orbits;
            }
            node_orbits += 1;
        }
        Self {
            problem,
            channels,
            channel_orbits: channel_orbits as usize,
            nodes,
            node_orbits: node_orbits as usize,
        }
    }

    fn count(&self) -> usize {
        match self.problem.request().ports {
            Ports::All => self.channel_orbits,
            Ports::One => self.channel_orbits + 2 * self.node_orbits,
        }
    }

    /// `None` if the path is in conflict with one of its own images.
    fn of(&self, path: &[Node]) -> Option<Vec<u32>> {
        let graph = self.problem.graph();
        let channels = path.windows(2).map(|pair| graph.channel(pair[0], pair[1]));
        let channels = channels.map(|channel| Some(self.channels[channel?]));
        let mut resources = channels.collect::<Option<Vec<u32>>>()?;
        if self.problem.request().ports == Ports::One {
            let (from, to) = (path[0], path[path.len() - 1]);
            let sends = self.channel_orbits as u32 + self.nodes[from];
            let receives = (self.channel_orbits + self.node_orbits) as u32 + self.nodes[to];
            resources.extend([sends, receives]);
        }
        let mut sorted = resources.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (sorted.len() == resources.len()).then_some(resources)
    }
}
