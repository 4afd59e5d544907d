//! The judge of schedules. It knows the file and the graph, but not how a schedule was found.
//!
//! The groups of rules, in the order in which they are checked ([EVO] §2, §3.3):
//! - The header makes sense on the graph.
//! - For each move: the step and the message exist; the nodes exist and are healthy; the path is in
//!   the graph and not too long; it may end at its last node.
//! - For each step: a channel carries one message, and with one port a node sends one message and
//!   receives one.
//! - Over all steps: a sender holds the message since an earlier step, no node gets a message that
//!   it has, every receiver gets everything, and no step is empty.

mod defect;

use std::collections::{BTreeMap, BTreeSet};

use super::generator;
use super::plan::{Collective, Message, Model, Move, Ports, Schedule};
use super::problem::{Problem, Request};
use super::topology::{Node, Topology};
pub use defect::Defect;

/// Check that a schedule does what its header says, on this graph without faults.
///
/// A graph may have several names: `mesh:04x4` is `mesh:4x4`. The name of a file says nothing about
/// its edges. So two names of files count as equal, and the moves are judged on the graph that is
/// given.
pub fn verify(schedule: &Schedule, graph: &Topology) -> Result<(), Defect> {
    let is_same = generator::canonical(&schedule.graph) == generator::canonical(graph.name());
    if !is_same || !graph.faults().is_empty() {
        return Err(Defect::OtherGraph {
            schedule: schedule.graph.clone(),
            given: graph.name().to_owned(),
        });
    }
    let graph = graph.with_faults(&schedule.faults)?;
    let problem = Problem::new(graph, request(schedule))?;
    let judge = Judge {
        schedule,
        graph: problem.graph(),
        problem: &problem,
    };
    let mut moves = Vec::with_capacity(schedule.moves.len());
    let mut distances = BTreeMap::new();
    for (number, one) in (1..).zip(&schedule.moves) {
        let read = judge.read(number, one)?;
        let (from, hops) = (read.path[0], read.path.len() - 1);
        let known = distances
            .entry(from)
            .or_insert_with(|| judge.graph.distances_from(from));
        judge.check_length(number, hops, known[read.to()])?;
        moves.push(read);
    }
    moves.sort_by_key(|one| (one.step, one.number));
    judge.check_resources(&moves)?;
    judge.check_holders(&moves)?;
    let used: BTreeSet<u32> = moves.iter().map(|one| one.step).collect();
    match (1..=schedule.steps).find(|step| !used.contains(step)) {
        Some(step) => Err(Defect::EmptyStep(step)),
        None => Ok(()),
    }
}

/// A message: its origin, its destination (scatter and gather), and its block.
type Content = (Node, Option<Node>, u32);

/// A move, by the numbers of its nodes.
struct Read {
    number: usize,
    step: u32,
    path: Vec<Node>,
    content: Content,
}

impl Read {
    fn from(&self) -> Node {
        self.path[0]
    }

    fn to(&self) -> Node {
        self.path[self.path.len() - 1]
    }
}

struct Judge<'a> {
    schedule: &'a Schedule,
    graph: &'a Topology,
    problem: &'a Problem,
}

fn request(schedule: &Schedule) -> Request {
    Request {
        collective: schedule.collective,
        source: schedule.source.clone(),
        senders: schedule.senders.clone(),
        receivers: schedule.receivers.clone(),
        model: schedule.model,
        ports: schedule.ports,
        excess: schedule.excess,
        blocks: schedule.blocks,
    }
}

impl Judge<'_> {
    /// Check the rules that a single move can break, except for its length.
    fn read(&self, number: usize, one: &Move) -> Result<Read, Defect> {
        if !(1..=self.schedule.steps).contains(&one.step) {
            return Err(Defect::NoStep {
                number,
                step: one.step,
                steps: self.schedule.steps,
            });
        }
        let mut path = Vec::new();
        for name in &one.path {
            let node = self.node(name).ok_or_else(|| Defect::NoNode {
                number,
                node: name.chars().take(80).collect(),
            })?;
            if path.contains(&node) {
                let node = name.clone();
                return Err(Defect::Loop { number, node });
            }
            path.push(node);
        }
        if path.len() < 2 || one.path.first() != Some(&one.from) || one.path.last() != Some(&one.to)
        {
            return Err(Defect::Ends {
                number,
                from: one.from.chars().take(80).collect(),
                to: one.to.chars().take(80).collect(),
            });
        }
        if let Some(gap) = path.windows(2).find(|pair| !self.is_channel(pair)) {
            return Err(Defect::NoChannel {
                number,
                from: self.graph.node_name(gap[0]).to_owned(),
                to: self.graph.node_name(gap[1]).to_owned(),
            });
        }
        let content = self.content(number, one, &path)?;
        let read = Read {
            number,
            step: one.step,
            path,
            content,
        };
        match self.is_for(&read) {
            true => Ok(read),
            false => Err(Defect::NotFor {
                number,
                to: one.to.clone(),
            }),
        }
    }

    fn node(&self, name: &str) -> Option<Node> {
        let node = self.graph.node(name)?;
        (!self.graph.is_faulty(node)).then_some(node)
    }

    fn is_channel(&self, pair: &[Node]) -> bool {
        self.graph.channel(pair[0], pair[1]).is_some()
    }

    /// The message of a move, if the collective has such a message.
    fn content(&self, number: usize, one: &Move, path: &[Node]) -> Result<Content, Defect> {
        let schedule = self.schedule;
        let is_pair = !schedule.collective.is_broadcast();
        let origin = |name: &str| {
            let node = self.node(name);
            node.filter(|node| self.problem.senders().contains(node))
        };
        let alone = |name: &str| match is_pair {
            false => origin(name).map(|from| (from, None, 0)),
            // The destination is the end of the path. A relay learns no message that it could pass
            // on.
            true => origin(name).map(|from| (from, path.last().copied(), 0)),
        };
        let is_relayed = is_pair && schedule.model == Model::StoreForward;
        let content = match &one.message {
            Message::Block(block) if schedule.blocks > 1 => {
                let is_one = *block < schedule.blocks;
                let source = self.problem.source().filter(|_| is_one);
                source.map(|source| (source, None, *block))
            }
            _ if schedule.blocks > 1 => None,
            // In a collective without blocks a number is the name of a node.
            Message::Block(name) if !is_relayed => alone(&name.to_string()),
            Message::Of(name) if !is_relayed => alone(name),
            Message::Between(from, to) if is_relayed => {
                let ends = origin(from).zip(self.node(to));
                let ends =
                    ends.filter(|(from, to)| from != to && self.problem.receivers().contains(to));
                ends.map(|(from, to)| (from, Some(to), 0))
            }
            _ => None,
        };
        content.ok_or_else(|| Defect::NoMessage {
            number,
            message: one.message.clone(),
        })
    }

    /// Whether a move may end at its last node. In `store-forward` relays may learn messages; else
    /// paths end at receivers. No message goes back to its origin.
    fn is_for(&self, one: &Read) -> bool {
        let (origin, _, _) = one.content;
        let is_receiver = self.problem.receivers().contains(&one.to());
        let is_relay = self.schedule.model == Model::StoreForward;
        one.to() != origin && (is_receiver || is_relay)
    }

    fn check_length(
        &self,
        number: usize,
        channels: usize,
        shortest: Option<usize>,
    ) -> Result<(), Defect> {
        let most = match self.schedule.model {
            Model::Wormhole => shortest.unwrap_or(0) + usize::from(self.schedule.excess),
            Model::StoreForward => 1,
        };
        match channels <= most {
            true => Ok(()),
            false => Err(Defect::TooLong {
                number,
                channels,
                most,
            }),
        }
    }

    /// Check that each channel serves at most one message per step and, with one port, that each
    /// node sends at most one and receives at most one.
    fn check_resources(&self, moves: &[Read]) -> Result<(), Defect> {
        let mut channels = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for one in moves {
            for pair in one.path.windows(2) {
                let key = (one.step, pair[0], pair[1]);
                if let Some(first) = channels.insert(key, one.number) {
                    return Err(Defect::Conflict {
                        first,
                        second: one.number,
                        step: one.step,
                        from: self.graph.node_name(pair[0]).to_owned(),
                        to: self.graph.node_name(pair[1]).to_owned(),
                    });
                }
            }
            if self.schedule.ports == Ports::All {
                continue;
            }
            for (node, does) in [(one.from(), "sends"), (one.to(), "receives")] {
                if let Some(first) = ports.insert((one.step, node, does), one.number) {
                    return Err(Defect::Port {
                        first,
                        second: one.number,
                        node: self.graph.node_name(node).to_owned(),
                        does,
                        step: one.step,
                    });
                }
            }
        }
        Ok(())
    }

    /// Check that senders hold their messages, that no node gets a message twice, and that none is
    /// missing.
    fn check_holders(&self, moves: &[Read]) -> Result<(), Defect> {
        // The step in which a node gets a message. It can send the message in later steps.
        let mut since: BTreeMap<(Content, Node), u32> = BTreeMap::new();
        for one in moves {
            let (origin, _, _) = one.content;
            let start = since.get(&(one.content, one.from())).copied();
            let start = if one.from() == origin { Some(0) } else { start };
            if start.is_none_or(|start| start >= one.step) {
                return Err(Defect::NotHeld {
                    number: one.number,
                    from: self.graph.node_name(one.from()).to_owned(),
                    step: one.step,
                });
            }
            if since.insert((one.content, one.to()), one.step).is_some() {
                return Err(Defect::Twice {
                    number: one.number,
                    to: self.graph.node_name(one.to()).to_owned(),
                });
            }
        }
        for (origin, to) in self.problem.pairs() {
            let destination = (!self.schedule.collective.is_broadcast()).then_some(to);
            for block in 0..self.schedule.blocks {
                if !since.contains_key(&((origin, destination, block), to)) {
                    return Err(self.missing(origin, to, block));
                }
            }
        }
        Ok(())
    }

    fn missing(&self, origin: Node, to: Node, block: u32) -> Defect {
        let name = |node: Node| self.graph.node_name(node).to_owned();
        let is_pair = !matches!(self.schedule.collective, Collective::Oab | Collective::Aab);
        let message = match self.schedule.blocks {
            1 if is_pair => Message::Between(name(origin), name(to)),
            1 => Message::Of(name(origin)),
            _ => Message::Block(block),
        };
        Defect::Missing {
            to: name(to),
            message,
        }
    }
}

#[cfg(test)]
mod tests;
