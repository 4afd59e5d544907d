//! One ring out of single nodes: the corrected form of [FC] steps 1 and 2.
//!
//! ```text
//!   a → b → a     x → y → x      two cycles
//!       a asks x for its successor and gives its own:
//!   a → y → x → b → a            one cycle
//! ```
//!
//! At the start every node is a cycle of its own. It asks one random node with a smaller
//! identifier, once, to exchange successors. An exchange between two cycles joins them; an exchange
//! within one cycle would split it. A split never happens. Every question goes to a smaller
//! identifier, so the questions are the edges of a tree. Each exchange joins the two parts that its
//! edge connects, whatever the order of the exchanges.
//!
//! Departure: [FC] asks any random node for a free place and keeps the first answer. That
//! gives one ring in about e/N of all runs, and a last node may find only itself free.
//!
//! A node that waits for the answer has no successor to give, so it keeps the questions of other
//! nodes until then. Nodes wait for smaller identifiers only, hence never in a circle.
//!
//! Not here: the ranks of the members ([`ranking`](super::ranking)).

use super::message::Body;
use super::peers::Peers;
use crate::id::Id;
use crate::noise::Noise;
use crate::outbox::Outbox;

/// The state of one node while the ring is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Joining<I> {
    me: I,
    /// The next node of the cycle; none while this node waits for the exchange that it asked for.
    successor: Option<I>,
    /// The node that this node asked for an exchange.
    asked: Option<I>,
    /// The smallest identifier of the cycle, once this node's exchange is done or it has no node to
    /// ask. The node with this identifier is the only one of the cycle that asked no other.
    root: Option<I>,
    /// The nodes whose question was answered, each with the number of nodes that joined through it.
    joined: Vec<(I, u32)>,
    /// The nodes that wait for an answer, each with the successor that it gave.
    waiting: Vec<(I, I)>,
    /// How many nodes the root counted, once it has closed the ring. From then on no node joins
    /// this ring.
    members: Option<u32>,
}

/// The outcome of an input.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The input changed nothing.
    Nothing,
    /// A question was sent, taken or answered, or a count has grown.
    Progress,
    /// The ring is final.
    Complete,
}

impl<I: Id> Joining<I> {
    /// A cycle of one node, which has asked no other node.
    pub(super) const fn new(me: I) -> Self {
        Self {
            me,
            successor: Some(me),
            asked: None,
            root: None,
            joined: Vec::new(),
            waiting: Vec::new(),
            members: None,
        }
    }

    /// Ask one of the smaller `peers`. The smallest node asks no other: it is the root.
    pub(super) fn start<T, E>(
        &mut self,
        peers: &Peers<I>,
        noise: &mut Noise,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Step {
        if self.asked.is_some() || self.root.is_some() {
            return Step::Nothing;
        }
        let Some(to) = peers.smaller_than(self.me, noise) else {
            self.root = Some(self.me);
            self.answer_waiting(out);
            return match peers.count() {
                1 => self.close(out),
                _ => Step::Progress,
            };
        };
        if let Some(successor) = self.successor.take() {
            self.asked = Some(to);
            out.send(to, Body::Exchange { successor });
        }
        Step::Progress
    }

    /// `from` asks for an exchange. Only a greater identifier may, and only once.
    pub(super) fn on_exchange<T, E>(
        &mut self,
        from: I,
        successor: I,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Step {
        if self.members.is_some() || has(&self.joined, from) {
            out.send(from, Body::Closed);
            return Step::Nothing;
        }
        let is_full = self.joined.len() + self.waiting.len() >= Peers::<I>::MAX;
        if from <= self.me || has(&self.waiting, from) || is_full {
            return Step::Nothing;
        }
        self.waiting.push((from, successor));
        if self.root.is_some() {
            self.answer_waiting(out);
        }
        Step::Progress
    }

    /// The answer of the node that this one asked.
    pub(super) fn on_exchanged<T, E>(
        &mut self,
        from: I,
        successor: I,
        root: I,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Step {
        if self.asked != Some(from) || self.successor.is_some() {
            return Step::Nothing;
        }
        self.successor = Some(successor);
        self.root = Some(root);
        self.answer_waiting(out);
        out.send(
            from,
            Body::Joined {
                nodes: self.nodes(),
            },
        );
        Step::Progress
    }

    /// Whether `from` owes this node an exchange.
    pub(super) fn is_waiting_for(&self, from: I) -> bool {
        self.asked == Some(from) && self.root.is_none()
    }

    /// `nodes` nodes have joined through `from`. The root closes the ring when all `expected` nodes
    /// are in it.
    pub(super) fn on_joined<T, E>(
        &mut self,
        from: I,
        nodes: u32,
        expected: usize,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Step {
        let entry = self.joined.iter_mut().find(|(peer, _)| *peer == from);
        let Some(entry) = entry.filter(|entry| entry.1 < nodes) else {
            return Step::Nothing;
        };
        entry.1 = nodes;
        let nodes = self.nodes();
        match self.asked {
            Some(asked) => out.send(asked, Body::Joined { nodes }),
            None if nodes as usize >= expected => return self.close(out),
            None => {}
        }
        Step::Progress
    }

    /// If this node is the root and has not closed the ring yet, close it with the nodes that have
    /// joined.
    pub(super) fn close<T, E>(&mut self, out: &mut Outbox<I, Body<I>, T, E>) -> Step {
        match self.root == Some(self.me) && self.members.is_none() {
            true => self.complete(self.nodes(), out),
            false => Step::Nothing,
        }
    }

    /// The node that this one asked says that the root counted `members` members.
    pub(super) fn on_complete<T, E>(
        &mut self,
        from: I,
        members: u32,
        out: &mut Outbox<I, Body<I>, T, E>,
    ) -> Step {
        let is_due = self.asked == Some(from) && self.root.is_some() && self.members.is_none();
        match is_due {
            true => self.complete(members, out),
            false => Step::Nothing,
        }
    }

    /// The successor; none while this node waits for the exchange that it asked for.
    pub(super) const fn successor(&self) -> Option<I> {
        self.successor
    }

    /// The successors that the waiting nodes gave.
    pub(super) fn offered_successors(&self) -> impl Iterator<Item = I> + '_ {
        self.waiting.iter().map(|&(_, successor)| successor)
    }

    /// The node that this node asked for an exchange.
    pub(super) const fn asked(&self) -> Option<I> {
        self.asked
    }

    /// The smallest identifier of the cycle.
    pub(super) const fn root(&self) -> Option<I> {
        self.root
    }

    /// How many members the final ring has.
    pub(super) const fn members(&self) -> Option<u32> {
        self.members
    }

    /// How many nodes have joined through this one, including itself.
    fn nodes(&self) -> u32 {
        let nodes = self.joined.iter().map(|&(_, nodes)| nodes);
        nodes.fold(1, u32::saturating_add)
    }

    fn complete<T, E>(&mut self, members: u32, out: &mut Outbox<I, Body<I>, T, E>) -> Step {
        self.members = Some(members);
        for &(peer, _) in &self.joined {
            out.send(peer, Body::Complete { members });
        }
        self.turn_away(out);
        Step::Complete
    }

    /// Tell the waiting nodes that they get no exchange from this node.
    pub(super) fn turn_away<T, E>(&mut self, out: &mut Outbox<I, Body<I>, T, E>) {
        for (peer, _) in std::mem::take(&mut self.waiting) {
            out.send(peer, Body::Closed);
        }
    }

    /// Exchange successors with all waiting nodes, one after the other.
    fn answer_waiting<T, E>(&mut self, out: &mut Outbox<I, Body<I>, T, E>) {
        let (Some(root), Some(mut mine)) = (self.root, self.successor) else {
            return;
        };
        for (peer, theirs) in std::mem::take(&mut self.waiting) {
            let successor = std::mem::replace(&mut mine, theirs);
            out.send(peer, Body::Exchanged { successor, root });
            self.joined.push((peer, 0));
        }
        self.successor = Some(mine);
    }
}

fn has<I: Id, T>(list: &[(I, T)], peer: I) -> bool {
    list.iter().any(|(known, _)| *known == peer)
}
