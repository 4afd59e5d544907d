//! [FC], corrected: one test per promise, with messages in any order.

use std::collections::BTreeMap;

use binomesh_overlay::clique::{Body, Clique, Input, Message, Outcome, Peers, Place, Procedure};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::{Effect, Outbox, legitimate};

type Letter = (u32, u32, Message<u32>);

/// Nodes with what is on its way between them; the noise says what arrives next.
struct Room {
    nodes: BTreeMap<u32, Clique<u32>>,
    letters: Vec<Letter>,
    places: BTreeMap<u32, Place<u32>>,
    failed: BTreeMap<u32, Option<u32>>,
    noise: Noise,
    context: String,
}

impl Room {
    /// `lists` says whom each node has met.
    fn new(procedure: Procedure, lists: &BTreeMap<u32, Vec<u32>>, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let new = |&me: &u32| (me, Clique::new(me, noise.next()));
        let mut room = Self {
            nodes: lists.keys().map(new).collect(),
            letters: Vec::new(),
            places: BTreeMap::new(),
            failed: BTreeMap::new(),
            noise,
            context: format!("{procedure:?}, {} nodes, seed {seed}", lists.len()),
        };
        // They do not begin at once: some messages come before the start.
        let mut waiting: Vec<u32> = lists.keys().copied().collect();
        while !waiting.is_empty() {
            let drawn = room.noise.next() as usize % waiting.len();
            let me = waiting.swap_remove(drawn);
            let peers = &Peers::new(me, lists[&me].clone());
            room.hand(me, Input::Start { procedure, peers });
            (0..room.noise.next() % 3).for_each(|_| room.arrive());
        }
        room
    }

    /// A system in which all nodes have met each other.
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

    /// Let one message arrive at its receiver.
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

    /// Who is not through waits in vain, in turn, until all are.
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

    /// Whoever failed asks a smaller node for a place, so no two wait for each other.
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
                // The predicate gives a lone node no neighbours; here it is its own.
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

    /// The successors of all, those that travel counted.
    fn assert_permutation(&self) {
        let held = self.nodes.values();
        let held = held.flat_map(|node| node.successor().into_iter().chain(node.waiting()));
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
                let mut room = Room::of(procedure, nodes, seed);
                room.arrive_all();
                room.assert_exact();
            }
        }
    }
}

#[test]
fn successors_are_a_permutation_at_every_moment() {
    for seed in 0..200 {
        let mut room = Room::of(Procedure::Corrected, 3 + seed as u32 % 17, seed);
        room.assert_permutation();
        while !room.letters.is_empty() {
            room.arrive();
            room.assert_permutation();
        }
        room.assert_exact();
    }
}

#[test]
fn the_order_of_the_list_gives_the_ranks() {
    let list = vec![9, 4, 7, 1, 30];
    let lists = list.iter().map(|&me| (me, list.clone())).collect();
    let mut room = Room::new(Procedure::Sorted, &lists, 1);
    room.arrive_all();
    room.assert_exact();
    assert_eq!(room.order(), list);
}

#[test]
fn lists_in_different_orders_lead_to_exchanges_and_the_exact_graph_or_a_contact() {
    for seed in 0..200 {
        let all: Vec<u32> = (0..4 + seed as u32 % 9).collect();
        let mut lists: BTreeMap<u32, Vec<u32>> = all.iter().map(|&me| (me, all.clone())).collect();
        lists.values_mut().take(2).for_each(|list| list.reverse());
        let mut room = Room::new(Procedure::Sorted, &lists, seed);
        room.arrive_all();
        room.wait_in_vain();
        let context = &room.context;
        let has_contact = room.failed.values().all(Option::is_some);
        assert!(
            !room.places.is_empty() && has_contact,
            "{context}: {:?}",
            room.failed
        );
    }
}

#[test]
fn the_loss_of_any_message_leaves_nobody_waiting() {
    for seed in 0..300 {
        let mut room = Room::of(Procedure::Corrected, 2 + seed as u32 % 15, seed);
        let before = room.noise.next() % 100;
        (0..before).for_each(|_| room.arrive());
        room.letters.pop();
        room.arrive_all();
        room.wait_in_vain();
        room.assert_contacts_lead_down();
    }
}

#[test]
fn the_crash_of_any_node_leaves_nobody_waiting() {
    for seed in 0..300 {
        let mut room = Room::of(Procedure::Corrected, 2 + seed as u32 % 15, seed);
        let before = room.noise.next() % 100;
        (0..before).for_each(|_| room.arrive());
        let victim = room.noise.next() as usize % room.nodes.len();
        let victim = room.nodes.keys().nth(victim).copied().expect("a node");
        room.nodes.remove(&victim);
        room.places.remove(&victim);
        room.failed.remove(&victim);
        room.arrive_all();
        room.wait_in_vain();
        room.assert_contacts_lead_down();
    }
}

#[test]
fn a_latecomer_is_sent_to_a_member() {
    let mut room = Room::of(Procedure::Corrected, 5, 3);
    room.arrive_all();
    room.assert_exact();
    room.nodes.insert(63, Clique::new(63, 1));
    let peers = &Peers::new(63, room.places.keys().copied().collect::<Vec<_>>());
    let procedure = Procedure::Corrected;
    room.hand(63, Input::Start { procedure, peers });
    room.arrive_all();
    let contact = room.failed.get(&63).copied().flatten();
    assert!(contact.is_some_and(|contact| room.places.contains_key(&contact)));
}

#[test]
fn who_is_met_by_half_of_the_nodes_belongs_to_the_ring() {
    for seed in 0..100 {
        let all: Vec<u32> = (0..12).collect();
        let mut noise = Noise::new(seed);
        // Meeting is mutual. Node 0 has met everybody, so it is the only root.
        let mut lists: BTreeMap<u32, Vec<u32>> = all.iter().map(|&me| (me, vec![me])).collect();
        for &a in &all {
            for &b in all.iter().filter(|&&b| b > a) {
                if a == 0 || noise.one_in(2) {
                    lists.entry(a).or_default().push(b);
                    lists.entry(b).or_default().push(a);
                }
            }
        }
        let mut room = Room::new(Procedure::Corrected, &lists, seed);
        room.arrive_all();
        room.assert_exact();
    }
}

/// Of those that have no place yet, all give up the order of the list when one does; nobody
/// needs a silence of its own for that.
#[test]
fn one_that_falls_back_takes_the_others_with_it() {
    for seed in 0..100 {
        let mut room = Room::of(Procedure::Sorted, 3 + seed as u32 % 9, seed);
        let me = *room.nodes.keys().next().expect("a node");
        room.hand(me, Input::Silence);
        room.arrive_all();
        // Without those that had a place already the root closes the ring after a silence.
        let formed = room.places.len();
        if formed > 0 {
            room.wait_in_vain();
        }
        let through = room.places.len() + room.failed.len();
        assert_eq!(through, room.nodes.len(), "{}", room.context);
        room.assert_contacts_lead_down();
    }
}

#[test]
fn nonsense_from_a_peer_is_survived() {
    for seed in 0..200 {
        let mut room = Room::of(Procedure::Corrected, 9, seed);
        for _ in 0..20 {
            let mut noise = Noise::new(room.noise.next());
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
            room.hand(to, Input::Message { from, message });
            room.arrive();
        }
        room.arrive_all();
        room.wait_in_vain();
    }
}
