//! The problem of a search: a collective on a graph, checked to make sense.

use super::plan::{Collective, Message, Model, Move, Ports, Schedule};
use super::topology::{Node, Topology};

/// The most channels that a path may have beyond a shortest one.
pub const EXCESS_MAX: u8 = 3;
/// The most blocks of a broadcast. Guess: 64 MiB in blocks of 64 KiB. Requests for more are
/// refused.
pub const BLOCKS_MAX: u32 = 1024;
/// The most (message, receiver) pairs. Guess: a search beyond takes hours. Requests for more are
/// refused.
pub const DELIVERIES_MAX: usize = 1 << 17;

/// The most channels of all shortest paths of a scatter together. A schedule names each
/// node of each path, in some 60 bytes, so it takes at most 700 MB. By `store-forward` each
/// channel is a move of its own and counts four times.
pub const PATH_CHANNELS_MAX: usize = 12_000_000;

/// A request of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather.
    pub source: Option<String>,
    /// The nodes that send; `None`: all healthy nodes, or only the source.
    pub senders: Option<Vec<String>>,
    /// The nodes that receive; `None`: all healthy nodes, or only the root of a gather.
    pub receivers: Option<Vec<String>>,
    /// How a message crosses the network.
    pub model: Model,
    /// How many messages a node sends and receives at once.
    pub ports: Ports,
    /// How many channels more than a shortest path a path may have.
    pub excess: u8,
    /// The number of blocks of a one-to-all broadcast.
    pub blocks: u32,
}

impl Request {
    /// A collective in the paper's model: wormhole, all ports, shortest paths, and all nodes take
    /// part ([EVO] §2).
    pub const fn paper(collective: Collective, source: Option<String>) -> Self {
        Self {
            collective,
            source,
            senders: None,
            receivers: None,
            model: Model::Wormhole,
            ports: Ports::All,
            excess: 0,
            blocks: 1,
        }
    }
}

/// Why a request makes no sense on its graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// No source is given, but the collective needs one.
    #[error("{collective} needs a source; give a node such as {example:?}")]
    NoSource {
        /// The collective that was asked for.
        collective: Collective,
        /// The name of a node that exists.
        example: String,
    },
    /// A source is given although all nodes are sources.
    #[error("{0} has no single source; give senders instead, or leave out the source")]
    NeedlessSource(Collective),
    /// A list of senders or receivers is given although the source is the only one.
    #[error("the {what} of {collective} is its source; leave out the list of {what}s")]
    NeedlessList {
        /// The collective that was asked for.
        collective: Collective,
        /// The list that was given: of senders or of receivers.
        what: &'static str,
    },
    /// No healthy node has this name.
    #[error(
        "{what} {name:?} is no healthy node of {graph}; its nodes have names such as {example:?}"
    )]
    NoNode {
        /// The role of the node: source, sender or receiver.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The name of the graph.
        graph: String,
        /// The name of a node that exists.
        example: String,
    },
    /// A list is empty, or names no node but the source.
    #[error("no sender has a receiver; name at least one sender and another node as a receiver")]
    NothingToSend,
    /// A receiver cannot be reached.
    #[error(
        "no path leads from {from} to {to} in {graph} with these faults; remove a fault, or leave out {to}"
    )]
    Unreachable {
        /// The name of the sender.
        from: String,
        /// The name of the receiver.
        to: String,
        /// The name of the graph.
        graph: String,
    },
    /// The excess is too large.
    #[error("an excess of {0} channels is too large; give 0 to {EXCESS_MAX}")]
    Excess(u8),
    /// The number of blocks is out of range.
    #[error("the number of blocks, {0}, is out of range; give 1 to {BLOCKS_MAX}")]
    Blocks(u32),
    /// Blocks are given, but the collective is no one-to-all broadcast.
    #[error("only a one-to-all broadcast (oab) is cut into blocks; leave out the blocks of {0}")]
    NeedlessBlocks(Collective),
    /// There are more deliveries than a search can handle.
    #[error(
        "{0} deliveries are more than the limit of {DELIVERIES_MAX}; choose a smaller graph, or fewer blocks, senders or receivers"
    )]
    TooLarge(usize),
    /// A schedule would take too much memory.
    #[error(
        "the shortest paths of all deliveries have {0} channels together (with store-forward each counts four times), more than the limit of {PATH_CHANNELS_MAX}; choose a smaller graph, or fewer senders or receivers"
    )]
    TooLong(usize),
}

/// A valid request on a graph: every sender reaches every receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    graph: Topology,
    request: Request,
    source: Option<Node>,
    senders: Vec<Node>,
    receivers: Vec<Node>,
}

impl Problem {
    /// A request on a graph from which the faults have been taken out.
    pub fn new(graph: Topology, request: Request) -> Result<Self, ProblemError> {
        let collective = request.collective;
        check_numbers(&request)?;
        let source = source(&graph, &request)?;
        let mut senders = participants(&graph, request.senders.as_deref(), "sender")?;
        let mut receivers = participants(&graph, request.receivers.as_deref(), "receiver")?;
        if let Some(source) = source {
            let (side, what, is_listed) = match collective {
                Collective::Aog => (&mut receivers, "receiver", request.receivers.is_some()),
                _ => (&mut senders, "sender", request.senders.is_some()),
            };
            if is_listed {
                return Err(ProblemError::NeedlessList { collective, what });
            }
            *side = vec![source];
        }
        let problem = Self {
            graph,
            request,
            source,
            senders,
            receivers,
        };
        problem.check_size()?;
        problem.check_ways()?;
        Ok(problem)
    }

    /// The graph without its faulty links and nodes.
    pub const fn graph(&self) -> &Topology {
        &self.graph
    }

    /// The request that was made.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// The source, or the root of a gather.
    pub const fn source(&self) -> Option<Node> {
        self.source
    }

    /// The nodes that send, in ascending order.
    pub fn senders(&self) -> &[Node] {
        &self.senders
    }

    /// The nodes that receive, in ascending order.
    pub fn receivers(&self) -> &[Node] {
        &self.receivers
    }

    /// Whether all healthy nodes send and receive.
    pub fn is_complete(&self) -> bool {
        let healthy = self.graph.healthy_nodes().count();
        self.senders.len() == healthy && self.receivers.len() == healthy
    }

    /// Each (origin, destination) with a message to send; blocks are not counted.
    pub fn pairs(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        let from = self.senders.iter().copied();
        from.flat_map(|from| {
            let to = self.receivers.iter().copied();
            to.filter(move |to| *to != from).map(move |to| (from, to))
        })
    }

    /// A gather turned into the scatter from its root with all channels turned round.
    pub fn turned(&self) -> Self {
        let mut turned = self.clone();
        turned.graph = self.graph.reversed();
        turned.request.collective = Collective::Oas;
        std::mem::swap(&mut turned.senders, &mut turned.receivers);
        turned
    }

    /// The schedule of this problem with these moves.
    pub(super) fn schedule(&self, steps: u32, mut moves: Vec<Move>) -> Schedule {
        moves.sort_unstable();
        let request = &self.request;
        Schedule {
            graph: self.graph.name().to_owned(),
            collective: request.collective,
            source: request.source.clone(),
            faults: self.graph.faults().to_vec(),
            model: request.model,
            ports: request.ports,
            excess: request.excess,
            blocks: request.blocks,
            senders: request.senders.clone(),
            receivers: request.receivers.clone(),
            steps,
            moves,
        }
    }

    /// One move, by the numbers of its nodes. `origin` and `destination` are those of the message.
    /// If there are several blocks, the message is `block`.
    pub(super) fn step_move(
        &self,
        step: usize,
        path: &[Node],
        origin: Node,
        destination: Node,
        block: usize,
    ) -> Move {
        let name = |node: Node| self.graph.node_name(node).to_owned();
        let request = &self.request;
        let is_broadcast = request.collective.is_broadcast();
        let message = match request.model {
            _ if request.blocks > 1 => Message::Block(block as u32),
            Model::StoreForward if !is_broadcast => {
                Message::Between(name(origin), name(destination))
            }
            _ => Message::Of(name(origin)),
        };
        Move {
            step: step as u32 + 1,
            from: path.first().map_or_else(String::new, |node| name(*node)),
            to: path.last().map_or_else(String::new, |node| name(*node)),
            path: path.iter().map(|node| name(*node)).collect(),
            message,
        }
    }

    fn check_size(&self) -> Result<(), ProblemError> {
        let pairs = self.pairs().count();
        let deliveries = pairs.saturating_mul(self.request.blocks as usize);
        match deliveries {
            0 => Err(ProblemError::NothingToSend),
            1..=DELIVERIES_MAX => Ok(()),
            _ => Err(ProblemError::TooLarge(deliveries)),
        }
    }

    fn check_ways(&self) -> Result<(), ProblemError> {
        let mut channels = 0;
        for from in &self.senders {
            let distances = self.graph.distances_from(*from);
            if let Some(to) = self.receivers.iter().find(|to| distances[**to].is_none()) {
                return Err(ProblemError::Unreachable {
                    from: self.graph.node_name(*from).to_owned(),
                    to: self.graph.node_name(*to).to_owned(),
                    graph: self.graph.name().to_owned(),
                });
            }
            let hops = self.receivers.iter().filter_map(|to| distances[*to]);
            channels += hops.sum::<usize>();
        }
        if self.request.model == Model::StoreForward {
            channels *= 4;
        }
        match self.request.collective.is_broadcast() || channels <= PATH_CHANNELS_MAX {
            true => Ok(()),
            false => Err(ProblemError::TooLong(channels)),
        }
    }
}

fn check_numbers(request: &Request) -> Result<(), ProblemError> {
    if request.excess > EXCESS_MAX {
        return Err(ProblemError::Excess(request.excess));
    }
    match (request.blocks, request.collective) {
        (1, _) | (2..=BLOCKS_MAX, Collective::Oab) => Ok(()),
        (2..=BLOCKS_MAX, other) => Err(ProblemError::NeedlessBlocks(other)),
        (blocks, _) => Err(ProblemError::Blocks(blocks)),
    }
}

fn source(graph: &Topology, request: &Request) -> Result<Option<Node>, ProblemError> {
    match (&request.source, request.collective.has_source()) {
        (Some(name), true) => Ok(Some(healthy(graph, name, "source")?)),
        (None, true) => Err(ProblemError::NoSource {
            collective: request.collective,
            example: graph.node_name(0).to_owned(),
        }),
        (Some(_), false) => Err(ProblemError::NeedlessSource(request.collective)),
        (None, false) => Ok(None),
    }
}

fn participants(
    graph: &Topology,
    names: Option<&[String]>,
    what: &'static str,
) -> Result<Vec<Node>, ProblemError> {
    let Some(names) = names else {
        return Ok(graph.healthy_nodes().collect());
    };
    let nodes = names.iter().map(|name| healthy(graph, name, what));
    let mut nodes = nodes.collect::<Result<Vec<Node>, _>>()?;
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

fn healthy(graph: &Topology, name: &str, what: &'static str) -> Result<Node, ProblemError> {
    let node = graph.node(name).filter(|node| !graph.is_faulty(*node));
    node.ok_or_else(|| ProblemError::NoNode {
        what,
        name: name.chars().take(80).collect(),
        graph: graph.name().to_owned(),
        example: graph
            .node_name(graph.healthy_nodes().next().unwrap_or(0))
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &str, faults: &[&str], request: Request) -> Result<Problem, ProblemError> {
        let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let graph = Topology::generate(name)
            .unwrap()
            .with_faults(&faults)
            .unwrap();
        Problem::new(graph, request)
    }

    fn from(collective: Collective, source: &str) -> Request {
        Request::paper(collective, Some(source.to_owned()))
    }

    #[test]
    fn only_pairs_of_a_sender_and_a_receiver_are_scheduled() {
        let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let request = Request {
            senders: some(&["0", "2"]),
            receivers: some(&["2", "3", "3"]),
            ..Request::paper(Collective::Aas, None)
        };
        let pairs = problem("ring:5", &[], request).unwrap();
        assert_eq!(pairs.pairs().collect::<Vec<_>>(), [(0, 2), (0, 3), (2, 3)]);
        assert!(!pairs.is_complete());
    }

    #[test]
    fn faulty_nodes_take_no_part() {
        let all = problem(
            "mesh:4x4",
            &["node:11"],
            Request::paper(Collective::Aab, None),
        )
        .unwrap();
        assert_eq!((all.senders().len(), all.is_complete()), (15, true));
        let error = problem("mesh:4x4", &["node:11"], from(Collective::Oab, "11")).unwrap_err();
        assert!(error.to_string().contains("\"11\""), "{error}");
    }

    #[test]
    fn a_cut_off_receiver_is_named_unless_it_takes_no_part() {
        let faults = ["link:00-01", "link:00-10"];
        let error = problem("mesh:4x4", &faults, from(Collective::Oab, "33")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no path leads from 33 to 00 in mesh:4x4 with these faults; remove a fault, or leave out 00"
        );
        let request = Request {
            receivers: Some(vec!["11".to_owned()]),
            ..from(Collective::Oab, "33")
        };
        assert!(problem("mesh:4x4", &faults, request).is_ok());
    }

    #[test]
    fn a_scatter_over_very_long_paths_is_refused_with_the_limit() {
        let request = |senders: usize, model| Request {
            senders: Some((0..senders).map(|node| node.to_string()).collect()),
            model,
            ..Request::paper(Collective::Aas, None)
        };
        for (senders, model, is_allowed) in [
            (40, Model::Wormhole, true),
            (60, Model::Wormhole, false),
            (11, Model::StoreForward, true),
            (12, Model::StoreForward, false),
        ] {
            // In a ring of 1,024 nodes a sender is 256 channels from the others on average.
            let made = problem("ring:1024", &[], request(senders, model));
            assert_eq!(made.is_ok(), is_allowed, "{senders} {model}");
            if let Err(error) = made {
                assert!(
                    error.to_string().contains("the limit of 12000000"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let aab = Request::paper(Collective::Aab, None);
        let oab = from(Collective::Oab, "0");
        let listed = Some(vec!["0".to_owned()]);
        for request in [
            Request::paper(Collective::Oab, None),
            from(Collective::Aas, "0"),
            from(Collective::Oab, "9"),
            Request {
                excess: 4,
                ..aab.clone()
            },
            Request {
                blocks: 2,
                ..aab.clone()
            },
            Request {
                blocks: 0,
                ..aab.clone()
            },
            Request {
                blocks: 1025,
                ..oab.clone()
            },
            Request {
                senders: listed.clone(),
                ..oab.clone()
            },
            Request {
                receivers: listed,
                ..oab
            },
            Request {
                receivers: Some(vec![]),
                ..aab
            },
            Request::paper(Collective::Aog, None),
        ] {
            assert!(
                problem("ring:5", &[], request.clone()).is_err(),
                "{request:?}"
            );
        }
    }
}
