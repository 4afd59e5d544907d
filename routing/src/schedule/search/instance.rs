//! A problem as a search sees it: deliveries, the ways of each, and what a way
//! takes for one step.
//!
//! ```text
//!   item   (token, receiver): a delivery; it has a step and a choice
//!   choice who tells, along which path: a set of resources for one step
//!   [EVO] §3.2: an item is a gene, (source,) path and step are its parts
//! ```
//!
//! A resource serves one message per step. It is a channel or a port. With a group of
//! symmetries (see `symmetry.rs`) a resource stands for all images of a channel or port, an
//! item for all images of a delivery, and a schedule of the items is one of all deliveries.

use std::collections::BTreeMap;
use std::ops::Range;

use binomesh_overlay::noise::Noise;

use super::super::plan::{Model, Move, Ports};
use super::super::problem::Problem;
use super::super::topology::Node;
use super::paths::Paths;
use super::symmetry::Group;

/// A goal for the number of paths that are kept. Each delivery has at least a few, so large graphs
/// exceed it. Guess: with fewer paths good schedules may be missed, with more a search takes more
/// memory and time.
const PATHS_GOAL: usize = 1 << 18;
/// A goal for the number of nodes of all kept paths, so that long paths take no more than some 300
/// MB. It is exceeded if one path from each sender to each receiver does so, or if paths of an old
/// schedule are added.
const PATH_NODES_GOAL: usize = 1 << 25;
/// `goes_on` is asked once in this many deliveries or pairs of nodes.
const ASKS_EVERY: usize = 64;

/// A delivery that a search places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) token: usize,
    pub(super) to: Node,
    /// The choices of the item: a range in [`Instance::choices`].
    first: u32,
    end: u32,
}

impl Item {
    pub(super) const fn choices(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// A choice: a path, which begins at the node that tells, and the resources that it takes. Both are
/// in the lists of all choices; here is where they end. They begin where those of the choice before
/// end.
#[derive(Debug, Clone, Copy)]
struct Choice {
    nodes_end: u32,
    resources_end: u32,
    /// How many channels the path has more than a shortest one.
    extra: u32,
}

/// Paths that shall be among the choices, by their ends.
pub(super) type KnownPaths = BTreeMap<(Node, Node), Vec<Vec<Node>>>;

/// When the sender of a choice can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    /// From the start: the sender is the origin.
    Origin,
    /// After the step of this item, which tells the sender the message.
    Item(usize),
    /// Never: the sender does not get the message from any item.
    Nobody,
}

/// A problem, prepared for a search.
pub(super) struct Instance {
    pub(super) items: Vec<Item>,
    pub(super) resources: usize,
    choices: Vec<Choice>,
    /// The nodes of all paths. The number of a node fits into 16 bits.
    path_nodes: Vec<u16>,
    /// The resources of all paths.
    path_resources: Vec<u32>,
    /// The messages: the origin and the block of each.
    tokens: Vec<(Node, usize)>,
    is_broadcast: bool,
    /// In a broadcast, for each token and node, the item that tells the node.
    item_of: Vec<Option<usize>>,
    nodes: usize,
    group: Group,
}

impl Instance {
    /// The deliveries of a problem, one for each orbit of a group that leaves the problem
    /// unchanged. Once `goes_on` denies, each remaining delivery has a single path per sender, and
    /// the known ones.
    pub(super) fn new(
        problem: &Problem,
        paths: &Paths<'_>,
        group: Group,
        seed: u64,
        known: &KnownPaths,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Self {
        let request = problem.request();
        let mut instance = Self {
            items: Vec::new(),
            resources: 0,
            choices: Vec::new(),
            path_nodes: Vec::new(),
            path_resources: Vec::new(),
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
        let mut ways = Ways {
            paths,
            needs: Needs::new(problem, &instance.group),
            known,
            noise: Noise::new(seed),
            goes_on,
            is_late: false,
            asked: 0,
        };
        if instance.is_broadcast {
            instance.add_broadcast(problem, &mut ways);
        } else {
            instance.add_scatter(problem, &mut ways);
        }
        instance.resources = ways.needs.count();
        instance
    }

    /// The nodes of a choice's path, both ends included.
    pub(super) fn path(&self, choice: usize) -> impl ExactSizeIterator<Item = Node> + '_ {
        let start = choice
            .checked_sub(1)
            .map_or(0, |before| self.choices[before].nodes_end);
        let nodes = &self.path_nodes[start as usize..self.choices[choice].nodes_end as usize];
        nodes.iter().map(|node| Node::from(*node))
    }

    /// The resources that a choice takes in its step.
    pub(super) fn resources_of(&self, choice: usize) -> &[u32] {
        let start = choice
            .checked_sub(1)
            .map_or(0, |before| self.choices[before].resources_end);
        &self.path_resources[start as usize..self.choices[choice].resources_end as usize]
    }

    /// How many channels a choice's path has more than a shortest one.
    pub(super) fn extra(&self, choice: usize) -> u32 {
        self.choices[choice].extra
    }

    /// The origin of an item's message.
    pub(super) fn origin(&self, item: usize) -> Node {
        self.tokens[self.items[item].token].0
    }

    /// Whether receivers pass on the messages that they got.
    pub(super) const fn is_broadcast(&self) -> bool {
        self.is_broadcast
    }

    /// Whether every item has a choice whose sender can get the message. With symmetries, an item
    /// has no choice if all of its paths are in conflict with their own images.
    pub(super) fn has_choices(&self) -> bool {
        (0..self.items.len()).all(|item| {
            let mut choices = self.items[item].choices();
            choices.any(|choice| self.teller(item, choice) != Teller::Nobody)
        })
    }

    /// When the sender of this choice can send the item's message.
    pub(super) fn teller(&self, item: usize, choice: usize) -> Teller {
        let from = self.path(choice).next().unwrap_or(0);
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

    /// The index of the item for each delivery (origin, block, receiver). With symmetries an item
    /// stands for a whole orbit of deliveries; only the delivery that it stores is a key.
    pub(super) fn find(&self) -> BTreeMap<(Node, usize, Node), usize> {
        let items = self.items.iter().enumerate();
        let keys = items.map(|(item, one)| {
            let (origin, block) = self.tokens[one.token];
            ((origin, block, one.to), item)
        });
        keys.collect()
    }

    /// The moves of a schedule that gives each item a choice and a step, from 0.
    pub(super) fn moves(&self, problem: &Problem, genes: &[(usize, usize)]) -> Vec<Move> {
        let mut moves = Vec::new();
        for (item, (choice, step)) in self.items.iter().zip(genes) {
            let (origin, block) = self.tokens[item.token];
            for image in self.group.elements() {
                let path: Vec<Node> = self.path(*choice).map(|node| image[node]).collect();
                let (from, to) = (image[origin], image[item.to]);
                moves.push(problem.step_move(*step, &path, from, to, block));
            }
        }
        moves
    }

    fn add_scatter(&mut self, problem: &Problem, ways: &mut Ways<'_, '_>) {
        let receivers = problem.receivers();
        let count = (self.tokens.len() * receivers.len()).max(1);
        let most = (PATHS_GOAL / count).clamp(8, 48);
        let nodes_most = PATH_NODES_GOAL / count;
        for token in 0..self.tokens.len() {
            let origin = self.tokens[token].0;
            for to in receivers.iter().copied().filter(|to| *to != origin) {
                let first = self.choices.len() as u32;
                let found = ways.between(origin, to, most, nodes_most);
                self.add_choices(found, ways);
                self.add_item(token, to, first);
            }
        }
    }

    /// Add the items of a broadcast. The choices of a receiver are the same for every message.
    /// Paths from senders come first and then those from the nearest other nodes, since there may
    /// be room only for the paths from a few nodes.
    fn add_broadcast(&mut self, problem: &Problem, ways: &mut Ways<'_, '_>) {
        let receivers = problem.receivers();
        let mut tellers = [problem.senders(), receivers].concat();
        tellers.sort_unstable();
        tellers.dedup();
        let pairs = (tellers.len() * receivers.len()).max(1);
        let most = (PATHS_GOAL / pairs).clamp(2, 12);
        let is_relayed = problem.request().model == Model::StoreForward;
        self.item_of = vec![None; self.tokens.len() * self.nodes];
        for to in receivers.iter().copied() {
            let first = self.choices.len() as u32;
            let start = self.path_nodes.len();
            let is_relay = |from: &Node| !problem.senders().contains(from);
            tellers.sort_by_cached_key(|from| (is_relay(from), ways.paths.hops(*from, to), *from));
            for from in tellers.iter().copied().filter(|from| *from != to) {
                let is_full = self.path_nodes.len() - start > PATH_NODES_GOAL / receivers.len();
                if is_full && is_relay(&from) {
                    break;
                }
                if !is_relayed || ways.paths.hops(from, to) == Some(1) {
                    let mut found = ways.between(from, to, most, PATH_NODES_GOAL / pairs);
                    found.retain(|path| !is_relayed || path.len() == 2);
                    self.add_choices(found, ways);
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

    fn add_choices(&mut self, paths: Vec<Vec<Node>>, ways: &Ways<'_, '_>) {
        let shortest = paths.iter().map(Vec::len).min().unwrap_or(0);
        for path in paths {
            if let Some(resources) = ways.needs.of(&path) {
                self.path_nodes.extend(path.iter().map(|node| *node as u16));
                self.path_resources.extend(resources);
                self.choices.push(Choice {
                    nodes_end: self.path_nodes.len() as u32,
                    resources_end: self.path_resources.len() as u32,
                    extra: (path.len() - shortest) as u32,
                });
            }
        }
    }
}

/// A finder of the paths for an instance.
struct Ways<'a, 'b> {
    paths: &'a Paths<'b>,
    needs: Needs<'a>,
    known: &'a KnownPaths,
    noise: Noise,
    goes_on: &'a mut dyn FnMut() -> bool,
    /// Whether `goes_on` has denied.
    is_late: bool,
    asked: usize,
}

impl Ways<'_, '_> {
    /// At most `most` paths with about `nodes_most` nodes together, but at least one path, and only
    /// one once `goes_on` has denied. The known paths that the problem allows are added.
    fn between(&mut self, from: Node, to: Node, most: usize, nodes_most: usize) -> Vec<Vec<Node>> {
        self.asked += 1;
        if self.asked.is_multiple_of(ASKS_EVERY) && !self.is_late {
            self.is_late = !(self.goes_on)();
        }
        let length = self.paths.hops(from, to).map_or(1, |hops| hops + 1);
        let most = match self.is_late {
            true => 1,
            false => most.min(nodes_most / length).max(1),
        };
        let (mut found, _) = self.paths.between(from, to, most, &mut self.noise);
        for path in self.known.get(&(from, to)).into_iter().flatten() {
            if !found.contains(path) && self.paths.allows(path) {
                found.push(path.clone());
            }
        }
        found
    }
}

/// The resources that paths need.
struct Needs<'a> {
    problem: &'a Problem,
    /// For each channel the number of its orbit.
    channels: Vec<u32>,
    channel_orbits: usize,
    /// For each node the number of its orbit.
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

    /// The resources of a path. `None` if the graph lacks one of its channels, or if the path is in
    /// conflict with one of its own images.
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
