//! [BMG09] Algorithm 2 as a protocol to check, on a ring that stands.

use binomesh_overlay::fingers::{Fingers, Message, Rules};
use binomesh_overlay::placement::MAX_LEVELS;
use binomesh_overlay::{Outbox, Planted, Population, legitimate};

use super::channels::Letter;
use super::{Peer, Protocol, Timed};

/// A ring of processes, numbered along it. Every finger above level 0 may be anything at the start.
#[derive(Debug, Clone)]
pub struct FingersOn {
    population: Population,
    rules: Rules,
}

impl FingersOn {
    /// A ring of `nodes` processes.
    pub fn new(nodes: usize, rules: Rules) -> Self {
        let population = Population::new(nodes as u32).unwrap_or(Population::ONE);
        Self { population, rules }
    }

    fn at(&self, me: Peer, distance: i64) -> Peer {
        let n = i64::from(self.population.get());
        Peer::at((me.index() as i64 + distance).rem_euclid(n) as usize)
    }
}

impl Protocol for FingersOn {
    type Node = Timed<Fingers<Peer, ()>>;
    type Message = Message<Peer, ()>;

    fn members(&self) -> usize {
        self.population.get() as usize
    }

    fn strangers(&self) -> usize {
        0
    }

    fn planted(&self) -> Planted {
        self.rules.planted
    }

    fn start(&self, index: usize, choice: usize) -> Option<Self::Node> {
        let mut rest = choice;
        let known = self.members() + 1;
        let mut tables = [[None; MAX_LEVELS]; 2];
        for table in &mut tables {
            for entry in &mut table[1..self.population.levels().max(1)] {
                *entry = (rest % known).checked_sub(1).map(Peer::at);
                rest /= known;
            }
        }
        let me = Peer::at(index);
        let [clockwise, counterclockwise] = tables;
        let node = Fingers::corrupted(me, self.population, (), clockwise, counterclockwise);
        (rest == 0).then(|| Timed::new(node))
    }

    fn clean(&self, index: usize) -> Self::Node {
        Timed::new(Fingers::new(Peer::at(index), self.population, ()))
    }

    fn garbage(&self, to: Peer) -> Vec<Letter<Self::Message>> {
        let mut letters = Vec::new();
        for from in (0..self.members()).map(Peer::at).filter(|&from| from != to) {
            for subject in (0..self.members()).map(Peer::at) {
                for level in 0..=self.population.levels() as u8 {
                    let mark = ();
                    let up = Message::Up {
                        level,
                        subject,
                        mark,
                    };
                    let down = Message::Down {
                        level,
                        subject,
                        mark,
                    };
                    letters.extend([up, down].map(|message| Letter { to, from, message }));
                }
            }
        }
        letters
    }

    fn describe(&self, node: &Self::Node) -> String {
        let names = |table: &[Option<Peer>]| -> String {
            let name = |peer: &Option<Peer>| {
                peer.map_or(" -".to_owned(), |peer| format!(" {}", peer.index()))
            };
            table.iter().map(name).collect()
        };
        let (ahead, behind) = (node.machine.clockwise(), node.machine.counterclockwise());
        format!(
            "clockwise{}, counterclockwise{}",
            names(ahead),
            names(behind)
        )
    }

    fn apply_spontaneous(
        &self,
        me: Peer,
        node: &mut Self::Node,
        out: &mut Outbox<Peer, Self::Message>,
    ) {
        if !node.fire(self.rules.planted) {
            return;
        }
        let (next, previous) = (self.at(me, 1), self.at(me, -1));
        let fingers = &mut node.machine;
        let changed = fingers.set_ring(Some(next), Some(previous), self.rules, out);
        if !changed.0 {
            fingers.refresh(self.rules, out);
        }
    }

    fn on_message(
        &self,
        _me: Peer,
        node: &mut Self::Node,
        from: Peer,
        message: Self::Message,
        out: &mut Outbox<Peer, Self::Message>,
    ) {
        let _ = node.machine.on_message(from, message, self.rules, out);
    }

    fn is_right(&self, nodes: &[Self::Node]) -> bool {
        let order: Vec<Peer> = (0..self.members()).map(Peer::at).collect();
        legitimate::is_binomial_graph(
            &order,
            |peer| nodes[peer.index()].machine.clockwise(),
            |peer| nodes[peer.index()].machine.counterclockwise(),
        )
    }

    /// [BMG09] definition A.5: an UP goes 2^(i-1) places clockwise and names the process that is as
    /// many places behind its sender. A DN does so the other way round.
    fn is_legitimate(&self, letter: &Letter<Self::Message>) -> bool {
        let (level, subject, sign) = match letter.message {
            Message::Up { level, subject, .. } => (level, subject, 1),
            Message::Down { level, subject, .. } => (level, subject, -1),
            _ => return false,
        };
        let is_level = level > 0 && self.population.has_level(usize::from(level));
        let half = sign << level >> 1;
        is_level
            && letter.to == self.at(letter.from, half)
            && subject == self.at(letter.from, -half)
    }
}
