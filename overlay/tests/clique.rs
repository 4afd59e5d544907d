//! The corrected procedure of [FC] and the order of the list: one test per promise, with messages
//! in any order.

use std::collections::BTreeMap;

use binomesh_overlay::clique::{Body, Clique, Input, Message, Outcome, Peers, Place, Procedure};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::{Effect, Outbox, legitimate};

type Letter = (u32, u32, Message<u32>);

/// Nodes and the messages under way between them. The noise picks the message that arrives next.
struct Network {
    nodes: BTreeMap<u32, Clique<u32>>,
    letters: Vec<Letter>,
    places: BTreeMap<u32, Place<u32>>,
    failed: BTreeMap<u32, Option<u32>>,
    noise: Noise,
    context: String,
}

impl Network {
    /// `lists` has, for each node, the peers that it has met.
    fn new(procedure: Procedure, lists: &BTreeMap<u32, Vec<u32>>, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let new = |&me: &u32| (me, Clique::new(me, noise.next()));
        let mut network = Self {
            nodes: lists.keys().map(new).collect(),
            letters: Vec::new(),
            places: BTreeMap::new(),
            failed: BTreeMap::new(),
            noise,
            context: format!("{procedure:?}, {} nodes, seed {seed}", lists.len()),
        };
        // The nodes start one after the other, so some messages reach a node before its start.
        let mut waiting: Vec<u32> = lists.keys().copied().collect();
        while !waiting.is_empty() {
            let drawn = network.noise.next() as usize % waiting.len();
            let me = waiting.swap_remove(drawn);
            let peers = &Peers::new(me, lists[&me].clone());
            network.hand(me, Input::Start { procedure, peers });
            (0..network.noise.next() % 3).for_each(|_| network.arrive());
        }
        network
    }

    /// Nodes that have all met each other.
    fn of(procedure: Procedure, nodes: u32, seed: u64) -> Self {
        let all: Vec<u32> = (0..nodes).map(|n| n * 7 % 64).collect();
        let lists = all.iter().map(|&me| (me, all.clone())).collect();
        Self::new(procedure, &lists, seed)
    }

    fn hand(&mut self, me: u32, input: Input<'_, u32>) {
        let mut out = Outbox::<u32, Message<u32>>::new();
        let Some(node) = self.nodes.get_mut(&me) else {
            return;
        };
        match node.handle(input, &mut out) {
            Outcome::Formed(place) => {
                let before = self.places.insert(me, place);
                assert_eq!(before, None, "{}: {me} formed twice", self.context);
            }
            Outcome::Failed(contact) => {
                self.failed.insert(me, contact);
            }
            Outcome::Nothing | Outcome::Progress => {}
        }
        self.letters
            .extend(out.drain().filter_map(|effect| match effect {
                Effect::Send { to, message } => Some((to, me, message)),
                _ => None,
            }));
    }

    /// Lets one message arrive.
    fn arrive(&mut self) {
        if !self.letters.is_empty() {
            let drawn = self.noise.next() as usize % self.letters.len();
            let (to, from, message) = self.letters.swap_remove(drawn);
            self.hand(to, Input::Message { from, message });
        }
    }

    fn arrive_all(&mut self) {
        let mut steps = 0..100_000;
        while !self.letters.is_empty() && steps.next().is_some() {
            self.arrive();
        }
        assert!(self.letters.is_empty(), "{}: no end", self.context);
    }

    /// Hands `Silence` to each node without a result, in turn and some times over. Then every node
    /// must have formed or failed.
    fn wait_in_vain(&mut self) {
        for _ in 0..5 {
            let all: Vec<u32> = self.nodes.keys().copied().collect();
            for me in all {
                if !self.places.contains_key(&me) && !self.failed.contains_key(&me) {
                    self.hand(me, Input::Silence);
                }
                self.arrive_all();
            }
        }
        let through = self.places.len() + self.failed.len();
        assert_eq!(
            through,
            self.nodes.len(),
            "{}: somebody waits",
            self.context
        );
    }

    /// A node that failed asks no node for a place, or one with a smaller id, so no two nodes wait
    /// for each other.
    fn assert_contacts_lead_down(&self) {
        for (me, contact) in &self.failed {
            let context = &self.context;
            assert!(
                contact.is_none_or(|contact| contact < *me),
                "{context}: {me} → {contact:?}"
            );
        }
    }

    fn order(&self) -> Vec<u32> {
        let mut ranked: Vec<_> = self
            .places
            .iter()
            .map(|(&me, place)| (place.rank, me))
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, me)| me).collect()
    }

    fn assert_exact(&self) {
        let (order, context) = (self.order(), &self.context);
        let count = self.nodes.len() as u32;
        assert_eq!(order.len() as u32, count, "{context}: {:?}", self.failed);
        let node = |me: u32| &self.nodes[&me];
        assert!(
            legitimate::is_ring(
                &order,
                // The predicate gives a lone node no neighbours; here a lone node is its own
                // neighbour.
                |me| node(me).successor().filter(|_| count > 1),
                |me| node(me).predecessor().filter(|_| count > 1),
            ),
            "{context}: no ring in {order:?}"
        );
        assert!(
            legitimate::is_binomial_graph(
                &order,
                |me| node(me).fingers().clockwise(),
                |me| node(me).fingers().counterclockwise(),
            ),
            "{context}: no binomial graph on {order:?}"
        );
        for (rank, me) in (0..).zip(&order) {
            let place = self.places[me];
            assert_eq!(
                (place.rank, place.members),
                (rank, count),
                "{context}: {me}"
            );
            let parent = rank & rank.saturating_sub(1);
            let parent = order.get(parent as usize).filter(|_| rank > 0);
            assert_eq!(place.parent.as_ref(), parent, "{context}: {me}");
        }
    }

    /// Checks that the successors are a permutation of the nodes. Successors in messages under way
    /// count as well.
    fn assert_permutation(&self) {
        let held = self.nodes.values();
        let held = held.flat_map(|node| {
            node.successor()
                .into_iter()
                .chain(node.offered_successors())
        });
        let sent = self
            .letters
            .iter()
            .filter_map(|(_, _, message)| match message.body {
                Body::Exchange { successor } | Body::Exchanged { successor, .. } => Some(successor),
                _ => None,
            });
        let mut all: Vec<u32> = held.chain(sent).collect();
        all.sort_unstable();
        assert!(
            all.iter().eq(self.nodes.keys()),
            "{}: {all:?}",
            self.context
        );
    }
}

#[test]
fn every_order_of_messages_ends_in_the_exact_graph() {
    for nodes in 1..=33 {
        for seed in 0..20 {
            for procedure in [Procedure::Corrected, Procedure::Sorted] {
                let mut network = Network::of(procedure, nodes, seed);
                network.arrive_all();
                network.assert_exact();
            }
        }
    }
}

#[test]
fn successors_are_a_permutation_at_every_moment() {
    for seed in 0..200 {
        let mut network = Network::of(Procedure::Corrected, 3 + seed as u32 % 17, seed);
        network.assert_permutation();
        while !network.letters.is_empty() {
            network.arrive();
            network.assert_permutation();
        }
        network.assert_exact();
    }
}

#[test]
fn the_order_of_the_list_gives_the_ranks() {
    let list = vec![9, 4, 7, 1, 30];
    let lists = list.iter().map(|&me| (me, list.clone())).collect();
    let mut network = Network::new(Procedure::Sorted, &lists, 1);
    network.arrive_all();
    network.assert_exact();
    assert_eq!(network.order(), list);
}

#[test]
fn lists_in_different_orders_lead_to_exchanges_and_the_exact_graph_or_a_contact() {
    for seed in 0..200 {
        let all: Vec<u32> = (0..4 + seed as u32 % 9).collect();
        let mut lists: BTreeMap<u32, Vec<u32>> = all.iter().map(|&me| (me, all.clone())).collect();
        lists.values_mut().take(2).for_each(|list| list.reverse());
        let mut network = Network::new(Procedure::Sorted, &lists, seed);
        network.arrive_all();
        network.wait_in_vain();
        let context = &network.context;
        let has_contact = network.failed.values().all(Option::is_some);
        assert!(
            !network.places.is_empty() && has_contact,
            "{context}: {:?}",
            network.failed
        );
    }
}

#[test]
fn the_loss_of_any_message_leaves_nobody_waiting() {
    for seed in 0..300 {
        let mut network = Network::of(Procedure::Corrected, 2 + seed as u32 % 15, seed);
        let before = network.noise.next() % 100;
        (0..before).for_each(|_| network.arrive());
        network.letters.pop();
        network.arrive_all();
        network.wait_in_vain();
        network.assert_contacts_lead_down();
    }
}

#[test]
fn the_crash_of_any_node_leaves_nobody_waiting() {
    for seed in 0..300 {
        let mut network = Network::of(Procedure::Corrected, 2 + seed as u32 % 15, seed);
        let before = network.noise.next() % 100;
        (0..before).for_each(|_| network.arrive());
        let victim = network.noise.next() as usize % network.nodes.len();
        let victim = network.nodes.keys().nth(victim).copied().expect("a node");
        network.nodes.remove(&victim);
        network.places.remove(&victim);
        network.failed.remove(&victim);
        network.arrive_all();
        network.wait_in_vain();
        network.assert_contacts_lead_down();
    }
}

#[test]
fn a_latecomer_is_sent_to_a_member() {
    let mut network = Network::of(Procedure::Corrected, 5, 3);
    network.arrive_all();
    network.assert_exact();
    network.nodes.insert(63, Clique::new(63, 1));
    let peers = &Peers::new(63, network.places.keys().copied().collect::<Vec<_>>());
    let procedure = Procedure::Corrected;
    network.hand(63, Input::Start { procedure, peers });
    network.arrive_all();
    let contact = network.failed.get(&63).copied().flatten();
    assert!(contact.is_some_and(|contact| network.places.contains_key(&contact)));
}

#[test]
fn a_node_that_half_of_the_nodes_have_met_belongs_to_the_ring() {
    for seed in 0..100 {
        let all: Vec<u32> = (0..12).collect();
        let mut noise = Noise::new(seed);
        // Meeting is mutual. Node 0 has met all nodes, so it is the only root.
        let mut lists: BTreeMap<u32, Vec<u32>> = all.iter().map(|&me| (me, vec![me])).collect();
        for &a in &all {
            for &b in all.iter().filter(|&&b| b > a) {
                if a == 0 || noise.one_in(2) {
                    lists.entry(a).or_default().push(b);
                    lists.entry(b).or_default().push(a);
                }
            }
        }
        let mut network = Network::new(Procedure::Corrected, &lists, seed);
        network.arrive_all();
        network.assert_exact();
    }
}

/// When one node gives up the order of the list, all nodes without a place give it up too. None of
/// them needs a silence of its own for that.
#[test]
fn one_that_falls_back_takes_the_others_with_it() {
    for seed in 0..100 {
        let mut network = Network::of(Procedure::Sorted, 3 + seed as u32 % 9, seed);
        let me = *network.nodes.keys().next().expect("a node");
        network.hand(me, Input::Silence);
        network.arrive_all();
        // If some nodes had a place already, the root closes the ring without them after a silence.
        let formed = network.places.len();
        if formed > 0 {
            network.wait_in_vain();
        }
        let through = network.places.len() + network.failed.len();
        assert_eq!(through, network.nodes.len(), "{}", network.context);
        network.assert_contacts_lead_down();
    }
}

#[test]
fn nonsense_from_a_peer_is_survived() {
    for seed in 0..200 {
        let mut network = Network::of(Procedure::Corrected, 9, seed);
        for _ in 0..20 {
            let mut noise = Noise::new(network.noise.next());
            let mut any = || (noise.next() % 64) as u32;
            let (to, from, peer) = (any() * 7 % 63, any(), any());
            let numbers = [0, 1, any(), u32::MAX - any()];
            let number = numbers[any() as usize % 4];
            let body = match any() % 11 {
                7 => Body::Request,
                8 => Body::Current(peer),
                9 => Body::CurrentClockwise(peer),
                10 => Body::Differs,
                0 => Body::Exchange { successor: peer },
                1 => Body::Exchanged {
                    successor: peer,
                    root: any(),
                },
                2 => Body::Closed,
                3 => Body::Joined { nodes: number },
                4 => Body::Complete { members: number },
                5 => Body::Ahead {
                    distance: number,
                    members: any(),
                },
                _ => Body::AheadIs {
                    peer,
                    distance: number,
                },
            };
            let message = Message {
                attempt: any() % 3,
                body,
            };
            network.hand(to, Input::Message { from, message });
            network.arrive();
        }
        network.arrive_all();
        network.wait_in_vain();
    }
}
