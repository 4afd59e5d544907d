//! An arbitrary connected graph: many machines of [FC]'s second algorithm run at once, without
//! losses. In a round all messages under way arrive.

use std::cmp::Reverse;
use std::collections::VecDeque;

use binomesh_overlay::spanning::{Input, Message, Outcome, Spanning};
use binomesh_overlay::{Effect, Outbox};

use super::member::Member;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The round at whose end every node had its way to the right root.
    pub claim_rounds: Option<u64>,
    /// The round at whose end the root began the tree: it knew that every node had its way, or had
    /// waited long enough.
    pub echo_rounds: Option<u64>,
    /// The round at whose end all nodes had joined the tree.
    pub tree_rounds: Option<u64>,
    /// How many messages were received.
    pub messages: u64,
    /// The parent of each node; none at the root.
    pub parents: Vec<Option<usize>>,
    /// Whether `parents` is the breadth-first tree from the right root.
    pub is_exact: bool,
}

/// Facts about a graph, computed without the algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The right root: the first node with the longest list, or the node that was chosen.
    pub root: usize,
    /// The node that was chosen as root, if any.
    chosen: Option<usize>,
    /// The number of edges. An edge counts once, even if only one of its ends knows the other.
    pub edges: usize,
    /// The greatest distance between two nodes.
    pub diameter: u32,
    /// The parents in the breadth-first tree from the root; the smallest among several.
    parents: Vec<Option<usize>>,
}

impl Facts {
    /// The facts about the graph of these lists, which must be connected. A chosen root claims a
    /// longer list than it has.
    pub fn of(lists: &[Vec<u32>], chosen: Option<usize>) -> Self {
        let around = around(lists);
        let longest = |node: &usize| (Reverse(lists[*node].len()), *node);
        let highest = (0..lists.len()).min_by_key(longest);
        let root = chosen.or(highest).unwrap_or(0);
        let distances = distances(&around, root);
        let parent = |node: usize| {
            let nearer = |other: &usize| distances[*other] + 1 == distances[node];
            around[node].iter().copied().filter(nearer).min()
        };
        let farthest = |from| distances_max(&around, from);
        Self {
            root,
            chosen,
            edges: around.iter().map(Vec::len).sum::<usize>() / 2,
            diameter: (0..lists.len()).map(farthest).max().unwrap_or(0),
            parents: (0..lists.len()).map(parent).collect(),
        }
    }
}

/// The neighbours of each node, even if only one end knows the other.
fn around(lists: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut around = vec![Vec::new(); lists.len()];
    for (from, list) in lists.iter().enumerate() {
        for to in list.iter().map(|to| *to as usize) {
            around[from].push(to);
            around[to].push(from);
        }
    }
    for list in &mut around {
        list.sort_unstable();
        list.dedup();
    }
    around
}

fn distances(around: &[Vec<usize>], from: usize) -> Vec<u32> {
    let mut distances = vec![u32::MAX; around.len()];
    distances[from] = 0;
    let mut waiting = VecDeque::from([from]);
    while let Some(node) = waiting.pop_front() {
        for &next in &around[node] {
            if distances[next] == u32::MAX {
                distances[next] = distances[node] + 1;
                waiting.push_back(next);
            }
        }
    }
    distances
}

fn distances_max(around: &[Vec<usize>], from: usize) -> u32 {
    distances(around, from).into_iter().max().unwrap_or(0)
}

/// The most ticks: after so many, further ones do not help.
const TICKS_MAX: u32 = 16;

struct Letter {
    to: Member,
    from: Member,
    message: Message<Member>,
}

/// All nodes, and the messages under way.
struct Simulation {
    nodes: Vec<Spanning<Member>>,
    letters: Vec<Letter>,
    outbox: Outbox<Member, Message<Member>>,
    /// The parent of each node that has joined the tree; none at the root.
    ends: Vec<Option<Option<usize>>>,
    ticks: u32,
    received: u64,
}

/// Run until all nodes are in the tree, or neither messages nor ticks lead on, for at most
/// `round_limit` rounds.
pub fn run(lists: &[Vec<u32>], facts: &Facts, round_limit: u64) -> Found {
    let mut simulation = Simulation::new(lists, facts.chosen);
    let (mut claim_rounds, mut echo_rounds, mut tree_rounds) = (None, None, None);
    for round in 0..=round_limit {
        if claim_rounds.is_none() && simulation.has_claims(facts) {
            claim_rounds = Some(round);
        }
        if echo_rounds.is_none() && simulation.ends.contains(&Some(None)) {
            echo_rounds = Some(round);
        }
        if simulation.ends.iter().all(Option::is_some) {
            tree_rounds = Some(round);
            break;
        }
        if simulation.letters.is_empty() && !simulation.wait() {
            break;
        }
        simulation.round();
    }
    let is_exact = tree_rounds.is_some();
    let parents: Vec<_> = simulation.ends.into_iter().map(Option::flatten).collect();
    Found {
        claim_rounds,
        echo_rounds,
        tree_rounds,
        messages: simulation.received,
        is_exact: is_exact && parents == facts.parents,
        parents,
    }
}

impl Simulation {
    /// The nodes with these lists. The chosen root claims to have the longest list.
    fn new(lists: &[Vec<u32>], chosen: Option<usize>) -> Self {
        let listed = |list: &[u32]| -> Vec<Member> {
            list.iter().map(|peer| Member::at(*peer as usize)).collect()
        };
        let machine = |(me, list): (usize, &Vec<u32>)| {
            let machine = Spanning::new(Member::at(me), listed(list));
            match chosen == Some(me) {
                true => machine.claiming(u32::MAX),
                false => machine,
            }
        };
        let mut simulation = Self {
            nodes: lists.iter().enumerate().map(machine).collect(),
            letters: Vec::new(),
            outbox: Outbox::new(),
            ends: vec![None; lists.len()],
            ticks: 0,
            received: 0,
        };
        for (me, list) in lists.iter().enumerate() {
            for peer in listed(list) {
                simulation.hand(Member::at(me), Input::Met(peer));
            }
        }
        simulation
    }

    /// Deliver all messages under way.
    fn round(&mut self) {
        self.received += self.letters.len() as u64;
        for letter in std::mem::take(&mut self.letters) {
            let Letter { to, from, message } = letter;
            match message {
                Message::Claim(claim) => self.hand(to, Input::Claim { from, claim }),
                Message::Placed => self.hand(to, Input::Placed(from)),
            }
        }
    }

    /// When no message is under way, let all waiting nodes tick. Returns whether a node waits and a
    /// tick may help.
    fn wait(&mut self) -> bool {
        self.ticks += 1;
        let waiting: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.ends[*node].is_none())
            .collect();
        let is_news = !waiting.is_empty() && self.ticks <= TICKS_MAX;
        for node in waiting {
            self.hand(Member::at(node), Input::Tick);
        }
        is_news
    }

    fn hand(&mut self, me: Member, input: Input<Member>) {
        let (node, end) = (&mut self.nodes[me.index()], &mut self.ends[me.index()]);
        if end.is_some() {
            return;
        }
        if let Outcome::Formed(ancestors) = node.handle(input, &mut self.outbox) {
            *end = Some(ancestors.last().map(|parent| parent.index()));
            for peer in node.neighbours() {
                self.outbox.send(peer, Message::Placed);
            }
        }
        for effect in self.outbox.drain() {
            if let Effect::Send { to, message } = effect {
                let from = me;
                self.letters.push(Letter { to, from, message });
            }
        }
    }

    /// Whether every node has its way to the right root, along the breadth-first tree.
    fn has_claims(&self, facts: &Facts) -> bool {
        let mut nodes = self.nodes.iter().zip(&facts.parents).enumerate();
        nodes.all(|(me, (node, parent))| {
            let ancestors = node.ancestors();
            let root = ancestors.first().map_or(me, |root| root.index());
            root == facts.root && ancestors.last().map(|last| last.index()) == *parent
        })
    }
}
