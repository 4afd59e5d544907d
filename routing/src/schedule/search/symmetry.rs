//! Symmetries of a graph, which turn a search for many deliveries into one for few.
//!
//! A symmetry renames the nodes so that channels stay channels. Take a group of symmetries in which
//! only the identity keeps any healthy node in place. A schedule that looks the same under the
//! whole group is fixed by one delivery of each orbit: in BMG(64), turned by every number of
//! places, by the deliveries of node 0. The search is as many times smaller as the group has
//! elements, and its result is an ordinary schedule.

use std::collections::BTreeSet;

use binomesh_overlay::noise::Noise;

use super::super::problem::Problem;
use super::super::topology::{Node, Topology};
use super::paths::{below, shuffle};

/// The most nodes of a graph whose symmetries are looked for. The table of joined nodes has as many
/// entries as the square of this number.
const NODES_MAX: usize = 256;
/// How many images of nodes the search for one symmetry tries at most.
const TRIES_MAX: usize = 20_000;
/// How many images of nodes the searches for all symmetries try at most: a second or so.
const TRIES_IN_ALL: usize = 400_000;
/// How often a random symmetry is drawn at most.
const DRAWS: usize = 400;
/// With this many groups or more, no further symmetry is drawn.
const GROUPS_MAX: usize = 48;

/// A group of symmetries in which only the identity keeps a healthy node in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The symmetries, each as the image of every node. The identity is the first.
    elements: Vec<Vec<Node>>,
}

impl Group {
    /// The group of the identity alone.
    pub(super) fn trivial(nodes: usize) -> Self {
        Self {
            elements: vec![(0..nodes).collect()],
        }
    }

    /// All symmetries of the group.
    pub(super) fn elements(&self) -> &[Vec<Node>] {
        &self.elements
    }

    /// Whether the node has the smallest number of its orbit.
    pub(super) fn is_first(&self, node: Node) -> bool {
        self.elements.iter().all(|image| image[node] >= node)
    }

    /// Distinct groups, the largest first, without the trivial one. Empty unless all healthy nodes
    /// send and receive, there is no single source, and the graph has at most [`NODES_MAX`] nodes.
    /// Once `goes_on` denies, those that were found so far.
    pub(super) fn of(problem: &Problem, seed: u64, goes_on: &mut dyn FnMut() -> bool) -> Vec<Self> {
        let graph = problem.graph();
        let is_possible = problem.is_complete() && problem.source().is_none();
        if !is_possible || graph.node_count() > NODES_MAX {
            return Vec::new();
        }
        let mut noise = Noise::new(seed);
        let search = Search::new(graph);
        let healthy: Vec<Node> = graph.healthy_nodes().collect();
        let mut groups: Vec<Self> = Vec::new();
        let mut tries = TRIES_IN_ALL;
        for _ in 0..DRAWS {
            let image = healthy[below(healthy.len(), &mut noise)];
            let Some(drawn) = search.symmetry(image, &mut tries, &mut noise) else {
                continue;
            };
            // Half of the time, the largest group so far is extended.
            let largest = groups.iter().max_by_key(|group| group.elements.len());
            let base = match below(4, &mut noise) {
                0 => None,
                1 => groups.get(below(groups.len(), &mut noise)),
                _ => largest,
            };
            let base = base.cloned();
            let base = base.unwrap_or_else(|| Self::trivial(graph.node_count()));
            for power in powers(&drawn, healthy.len()) {
                if !goes_on() {
                    break;
                }
                // A symmetry that the group has already does not extend it.
                if base.elements.contains(&power) {
                    continue;
                }
                let larger = base.with(&power, &healthy);
                let larger = larger.filter(|larger| !groups.contains(larger));
                groups.extend(larger.filter(|larger| larger.elements.len() > 1));
            }
            if groups.len() >= GROUPS_MAX || !goes_on() {
                break;
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.elements.len()));
        groups
    }

    /// The least group that contains this group and the symmetry. `None` if an element other than
    /// the identity keeps a healthy node in place.
    fn with(&self, symmetry: &[Node], healthy: &[Node]) -> Option<Self> {
        let mut elements = BTreeSet::new();
        let mut waiting = vec![self.elements[0].clone()];
        let generators = [&self.elements[..], &[symmetry.to_vec()]].concat();
        while let Some(element) = waiting.pop() {
            if elements.contains(&element) {
                continue;
            }
            let is_identity = element == self.elements[0];
            let is_moving = healthy.iter().all(|node| element[*node] != *node);
            let is_full = elements.len() >= healthy.len();
            if is_full || !(is_identity || is_moving) {
                return None;
            }
            let products = generators.iter().map(|one| after(&element, one));
            waiting.extend(products.filter(|product| !elements.contains(product)));
            elements.insert(element);
        }
        Some(Self {
            elements: elements.into_iter().collect(),
        })
    }
}

/// The symmetry that does `first`, then `then`.
fn after(first: &[Node], then: &[Node]) -> Vec<Node> {
    first.iter().map(|node| then[*node]).collect()
}

/// The powers of a symmetry before the identity, at most `most` of them.
fn powers(symmetry: &[Node], most: usize) -> Vec<Vec<Node>> {
    let mut powers = vec![symmetry.to_vec()];
    let mut last = symmetry.to_vec();
    for _ in 1..most {
        last = after(&last, symmetry);
        if last.iter().enumerate().all(|(node, image)| node == *image) {
            break;
        }
        powers.push(last.clone());
    }
    powers
}

/// A search for symmetries by trying images node by node.
struct Search<'a> {
    graph: &'a Topology,
    /// The healthy nodes that are connected with the first one, in an order in which each, after
    /// the first, has an earlier neighbour.
    order: Vec<Node>,
    is_joined: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Topology) -> Self {
        let count = graph.node_count();
        let mut is_joined = vec![false; count * count];
        for (from, to) in graph.channels() {
            is_joined[from * count + to] = true;
        }
        let mut order: Vec<Node> = graph.healthy_nodes().take(1).collect();
        let mut place = 0;
        while place < order.len() {
            for next in neighbours(graph, order[place]) {
                if !order.contains(&next) {
                    order.push(next);
                }
            }
            place += 1;
        }
        Self {
            graph,
            order,
            is_joined,
        }
    }

    /// A random symmetry that maps the first node of the order to `there`. `None` if there is none,
    /// if healthy nodes are not connected, or if [`TRIES_MAX`] or `left` tries are used up. The
    /// tries are taken from `left`.
    fn symmetry(&self, there: Node, left: &mut usize, noise: &mut Noise) -> Option<Vec<Node>> {
        if self.order.len() != self.graph.healthy_nodes().count() {
            return None;
        }
        let mut images: Vec<Node> = (0..self.graph.node_count()).collect();
        let mut taken = vec![false; images.len()];
        // For each node in order, the images that are still to be tried.
        let mut open = vec![vec![there]];
        let mut tries = TRIES_MAX;
        while let Some(place) = open.len().checked_sub(1) {
            let Some(image) = open[place].pop() else {
                open.pop();
                let before = open.len().checked_sub(1)?;
                taken[images[self.order[before]]] = false;
                continue;
            };
            tries = tries.checked_sub(1)?;
            *left = left.checked_sub(1)?;
            if taken[image] || !self.fits(place, image, &images) {
                continue;
            }
            images[self.order[place]] = image;
            if place + 1 == self.order.len() {
                return Some(images);
            }
            taken[image] = true;
            open.push(self.candidates(place + 1, &images, noise));
        }
        None
    }

    /// Possible images of a node: neighbours of the image of an earlier neighbour.
    fn candidates(&self, place: usize, images: &[Node], noise: &mut Noise) -> Vec<Node> {
        let node = self.order[place];
        let before = self.order[..place].iter();
        let known = before
            .copied()
            .find(|other| self.joined(*other, node) || self.joined(node, *other));
        let mut candidates =
            known.map_or_else(Vec::new, |known| neighbours(self.graph, images[known]));
        shuffle(&mut candidates, noise);
        candidates
    }

    fn fits(&self, place: usize, image: Node, images: &[Node]) -> bool {
        let node = self.order[place];
        let graph = self.graph;
        let has_degree = graph.out(node).len() == graph.out(image).len()
            && graph.into(node).len() == graph.into(image).len();
        has_degree
            && self.order[..place].iter().all(|other| {
                let there = images[*other];
                self.joined(node, *other) == self.joined(image, there)
                    && self.joined(*other, node) == self.joined(there, image)
            })
    }

    fn joined(&self, from: Node, to: Node) -> bool {
        self.is_joined[from * self.graph.node_count() + to]
    }
}

/// The nodes with a channel to or from this one, each once.
fn neighbours(graph: &Topology, node: Node) -> Vec<Node> {
    let out = graph
        .out(node)
        .iter()
        .map(|channel| graph.channels()[*channel].1);
    let into = graph
        .into(node)
        .iter()
        .map(|channel| graph.channels()[*channel].0);
    let mut neighbours: Vec<Node> = out.chain(into).collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    neighbours
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::Collective;
    use super::super::super::problem::Request;
    use super::*;

    fn largest(name: &str) -> usize {
        let graph = Topology::generate(name).unwrap();
        let problem = Problem::new(graph.clone(), Request::paper(Collective::Aas, None)).unwrap();
        let groups = Group::of(&problem, 1, &mut || true);
        for group in &groups {
            for image in group.elements() {
                for (from, to) in graph.channels() {
                    assert!(graph.channel(image[*from], image[*to]).is_some());
                }
            }
        }
        groups.first().map_or(1, |group| group.elements().len())
    }

    #[test]
    fn groups_are_as_large_as_the_graph_where_it_looks_the_same_from_each_node() {
        for (name, size) in [
            ("ring:8", 8),
            ("bmg:12", 12),
            ("bmg:16", 16),
            ("hypercube:4", 16),
            ("kautz:3,2", 12),
            ("mesh:4x4", 4),
            ("mesh:3x3", 1),
        ] {
            assert_eq!(largest(name), size, "{name}");
        }
    }
}
