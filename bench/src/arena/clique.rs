//! A fully connected system: many clique machines run at once, without losses.
//!
//! A round is a question of each node and its answer, so it takes two phases. In each phase all
//! messages under way arrive.

use binomesh_overlay::clique::{Clique, Input, Message, Outcome, Peers, Procedure};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::{Effect, Outbox, legitimate};

use super::member::Member;

/// One run of a fully connected system.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// The number of nodes.
    pub nodes: usize,
    /// The procedure by which the nodes make their ring.
    pub procedure: Procedure,
    /// The seed by which the nodes choose which peers to ask.
    pub seed: u64,
    /// The phase after which the run is given up.
    pub phase_limit: u64,
}

/// The result of a run. The rounds of a stage count from the end of the stage before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// How many cycles the successors form when the random linking ends. Nodes without a successor
    /// do not count.
    pub cycles: usize,
    /// Whether no node can link any more although one lacks a neighbour.
    pub is_stuck: bool,
    /// The rounds until the random linking ended. Only [FC] as written has such a stage.
    pub link_rounds: u64,
    /// The further rounds until there was one ring, if there ever was.
    pub ring_rounds: Option<u64>,
    /// The further rounds until all ranks were known.
    pub ranking_rounds: Option<u64>,
    /// The further rounds until the fingers of all levels were known.
    pub finger_rounds: Option<u64>,
    /// Whether lists, and ranks if there are any, are those of the binomial graph.
    pub is_exact: bool,
    /// How many messages were received.
    pub messages: u64,
}

impl Found {
    /// The rounds from the start to the end, if the run got there.
    pub fn all_rounds(&self) -> Option<u64> {
        let ranking = self.ranking_rounds.unwrap_or(0);
        Some(self.link_rounds + self.ring_rounds? + ranking + self.finger_rounds?)
    }
}

#[derive(Debug)]
struct Letter {
    to: Member,
    from: Member,
    message: Message<Member>,
}

/// All nodes, and the messages under way.
struct Simulation {
    nodes: Vec<Clique<Member>>,
    letters: Vec<Letter>,
    outbox: Outbox<Member, Message<Member>>,
    unformed: usize,
    phases: u64,
    received: u64,
}

impl Trial {
    /// Run the trial to its end.
    pub fn run(&self) -> Found {
        let mut simulation = Simulation::new(self);
        match self.procedure {
            Procedure::AsWritten => self.as_written(&mut simulation),
            Procedure::Corrected | Procedure::Sorted => self.stage_by_stage(&mut simulation),
        }
    }

    /// Run [FC] as written: link, and double if all are linked.
    fn as_written(&self, simulation: &mut Simulation) -> Found {
        let mut found = Found::default();
        while !simulation.is_linked() && !found.is_stuck && simulation.phases < self.phase_limit {
            simulation.phase();
            found.is_stuck = simulation.is_stuck();
        }
        found.link_rounds = simulation.rounds();
        found.cycles = simulation.cycles();
        found.messages = simulation.received;
        if !simulation.is_linked() {
            return found;
        }
        found.ring_rounds = (found.cycles == 1).then_some(0);
        simulation.letters.clear();
        simulation.double();
        while !simulation.letters.is_empty() && simulation.phases < self.phase_limit {
            simulation.phase();
        }
        let is_one = found.ring_rounds.is_some();
        found.finger_rounds = is_one.then(|| simulation.rounds() - found.link_rounds);
        found.is_exact = is_one && simulation.has_right_lists();
        found.messages = simulation.received;
        found
    }

    /// Run any other procedure, stage by stage.
    fn stage_by_stage(&self, simulation: &mut Simulation) -> Found {
        let mut found = Found {
            // The corrected procedure links no nodes at random: each node is a cycle at first.
            cycles: match self.procedure {
                Procedure::Corrected => self.nodes,
                _ => simulation.cycles(),
            },
            ..Found::default()
        };
        let until = |simulation: &mut Simulation, is_done: &dyn Fn(&Simulation) -> bool| {
            let before = simulation.rounds();
            while !is_done(simulation)
                && !simulation.letters.is_empty()
                && simulation.phases < self.phase_limit
            {
                simulation.phase();
            }
            is_done(simulation).then(|| simulation.rounds() - before)
        };
        found.ring_rounds = until(simulation, &Simulation::is_one_ring);
        found.ranking_rounds = until(simulation, &Simulation::has_all_ranks);
        found.finger_rounds = until(simulation, &|simulation| simulation.unformed == 0);
        let _ = until(simulation, &|_| false);
        found.is_exact = simulation.unformed == 0 && simulation.is_exact();
        found.messages = simulation.received;
        found
    }
}

impl Simulation {
    fn new(trial: &Trial) -> Self {
        let all = || (0..trial.nodes).map(Member::at);
        let mut noise = Noise::new(trial.seed);
        let mut simulation = Self {
            nodes: all().map(|me| Clique::new(me, noise.next())).collect(),
            letters: Vec::new(),
            outbox: Outbox::new(),
            unformed: trial.nodes,
            phases: 0,
            received: 0,
        };
        let peers = Peers::new(Member::at(0), all());
        for me in all() {
            let (procedure, peers) = (trial.procedure, &peers);
            simulation.hand(me, Input::Start { procedure, peers });
        }
        simulation
    }

    /// Deliver all messages under way.
    fn phase(&mut self) {
        self.phases += 1;
        self.received += self.letters.len() as u64;
        for letter in std::mem::take(&mut self.letters) {
            let Letter { to, from, message } = letter;
            self.hand(to, Input::Message { from, message });
        }
    }

    fn double(&mut self) {
        for index in 0..self.nodes.len() {
            self.hand(Member::at(index), Input::Double);
        }
    }

    fn hand(&mut self, me: Member, input: Input<'_, Member>) {
        let Some(node) = self.nodes.get_mut(me.index()) else {
            return;
        };
        if let Outcome::Formed(_) = node.handle(input, &mut self.outbox) {
            self.unformed -= 1;
        }
        for effect in self.outbox.drain() {
            if let Effect::Send { to, message } = effect {
                let from = me;
                self.letters.push(Letter { to, from, message });
            }
        }
    }

    /// The number of rounds so far. A question without its answer counts.
    const fn rounds(&self) -> u64 {
        self.phases.div_ceil(2)
    }

    fn successor(&self, of: Member) -> Option<Member> {
        self.nodes.get(of.index())?.successor()
    }

    fn is_linked(&self) -> bool {
        self.nodes.iter().all(|node| node.successor().is_some())
    }

    /// In [FC] as written, the last node without a neighbour finds only its own place free.
    fn is_stuck(&self) -> bool {
        let mut unlinked = self.nodes.iter().filter(|node| node.successor().is_none());
        match (unlinked.next(), unlinked.next()) {
            (Some(last), None) => last.predecessor().is_none(),
            _ => false,
        }
    }

    fn cycles(&self) -> usize {
        let mut seen = vec![false; self.nodes.len()];
        let mut cycles = 0;
        for start in (0..self.nodes.len()).map(Member::at) {
            let mut node = Some(start);
            while let Some(at) = node.filter(|at| !seen[at.index()]) {
                seen[at.index()] = true;
                node = self.successor(at);
                cycles += usize::from(node == Some(start));
            }
        }
        cycles
    }

    /// The members in the order of the ring, from the smallest.
    fn order(&self) -> Vec<Member> {
        let mut order = vec![Member::at(0)];
        while let Some(next) = order.last().and_then(|&last| self.successor(last)) {
            if next == Member::at(0) || order.len() == self.nodes.len() {
                break;
            }
            order.push(next);
        }
        order
    }

    fn is_one_ring(&self) -> bool {
        self.order().len() == self.nodes.len() && self.is_linked() && self.cycles() == 1
    }

    fn has_all_ranks(&self) -> bool {
        self.nodes.iter().all(|node| node.numbers().is_some())
    }

    /// Whether ring, ranks and fingers are those of [BMG09].
    fn is_exact(&self) -> bool {
        let order = self.order();
        let node = |member: Member| &self.nodes[member.index()];
        let population = self.nodes.len() as u32;
        let mut ranked = order.iter().zip(0..);
        // The predicate gives a lone node no neighbours. Here such a node is its own neighbour.
        let other = |peer: Option<Member>| peer.filter(|_| population > 1);
        legitimate::is_ring(
            &order,
            |m| other(node(m).successor()),
            |m| other(node(m).predecessor()),
        ) && ranked.all(|(&member, rank)| node(member).numbers() == Some((rank, population)))
            && legitimate::is_binomial_graph(
                &order,
                |m| node(m).fingers().clockwise(),
                |m| node(m).fingers().counterclockwise(),
            )
    }

    /// For [FC] as written: whether the lists hold the members at the distances 2^i < N and no
    /// others.
    fn has_right_lists(&self) -> bool {
        let order = self.order();
        let count = order.len();
        let distances = || {
            (0..)
                .map(|i| 1 << i)
                .take_while(move |&d: &usize| d < count)
        };
        let is_right = |(place, member): (usize, &Member)| {
            let written = self.nodes[member.index()].written();
            let ahead = distances().map(|distance| order[(place + distance) % count]);
            let behind = distances().map(|distance| order[(place + count - distance) % count]);
            ahead.eq(written.clockwise().iter().copied())
                && behind.eq(written.counterclockwise().iter().copied())
        };
        count == self.nodes.len() && order.iter().enumerate().all(is_right)
    }
}
