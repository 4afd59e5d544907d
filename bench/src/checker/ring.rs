//! [BMG09] Algorithm 1 as a protocol to check, on every small ordered tree.

use binomesh_overlay::ring::{Family, Message, Ring};
use binomesh_overlay::{Outbox, Planted, legitimate};

use super::channels::Letter;
use super::{Peer, Protocol, Timed};

/// One tree, numbered in preorder, and possibly a stranger: a leaf with a parent that does not list
/// it.
#[derive(Debug, Clone)]
pub struct RingOn {
    parent: Vec<Option<Peer>>,
    children: Vec<Vec<Peer>>,
    stranger_at: Option<Peer>,
    planted: Planted,
    legitimate: Vec<Letter<Message<Peer>>>,
}

impl RingOn {
    /// Every ordered tree of `nodes` processes: once with a stranger at each place, or once without
    /// a stranger.
    pub fn all(nodes: usize, has_stranger: bool, planted: Planted) -> Vec<Self> {
        let mut depths = vec![vec![0_usize]];
        for _ in 1..nodes {
            // In preorder the next process is at most one deeper than the last.
            let deeper = |known: &Vec<usize>| {
                let last = known.last().copied().unwrap_or(0);
                let known = known.clone();
                (1..=last + 1).map(move |depth| [known.clone(), vec![depth]].concat())
            };
            depths = depths.iter().flat_map(deeper).collect();
        }
        let places = |tree: Vec<usize>| {
            let places = if has_stranger { nodes } else { 1 };
            (0..places).map(move |at| {
                let stranger_at = has_stranger.then(|| Peer::at(at));
                Self::new(&tree, stranger_at, planted)
            })
        };
        depths.into_iter().flat_map(places).collect()
    }

    fn new(depths: &[usize], stranger_at: Option<Peer>, planted: Planted) -> Self {
        let parent: Vec<Option<Peer>> = (0..depths.len())
            .map(|i| {
                depths[..i]
                    .iter()
                    .rposition(|&depth| depth + 1 == depths[i])
            })
            .map(|parent| parent.map(Peer::at))
            .collect();
        let mut children = vec![Vec::new(); depths.len()];
        for (child, parent) in parent.iter().enumerate() {
            if let Some(parent) = parent {
                children[parent.index()].push(Peer::at(child));
            }
        }
        let mut ring = Self {
            parent,
            children,
            stranger_at,
            planted,
            legitimate: Vec::new(),
        };
        ring.legitimate = ring.legitimate_letters();
        ring
    }

    /// The parent of every process, for people.
    pub fn describe(&self) -> String {
        let parents: Vec<String> = self
            .parent
            .iter()
            .map(|parent| parent.map_or("-".to_owned(), |parent| parent.index().to_string()))
            .collect();
        let stranger = self.stranger_at.map(|at| format!(", a stranger at {at:?}"));
        format!(
            "parents {}{}",
            parents.join(" "),
            stranger.unwrap_or_default()
        )
    }

    /// The letters that [BMG09] definition A.3 (property C) allows in channels, and the letter of
    /// the stranger.
    fn legitimate_letters(&self) -> Vec<Letter<Message<Peer>>> {
        let mut letters = Vec::new();
        let mut allow = |from: Peer, to: Peer, message| letters.push(Letter { to, from, message });
        let last = |peer| self.last_leaf(peer);
        for (index, children) in self.children.iter().enumerate() {
            let me = Peer::at(index);
            if let Some(&first) = children.first() {
                allow(me, first, Message::FConnect);
            }
            for pair in children.windows(2) {
                allow(me, pair[1], Message::AskConnect(last(pair[0])));
                allow(pair[1], last(pair[0]), Message::BConnect);
            }
            for &child in children {
                allow(child, me, Message::Info(last(child)));
            }
        }
        let root = Peer::at(0);
        allow(root, last(root), Message::BConnect);
        if let Some(at) = self.stranger_at {
            let stranger = Peer::at(self.parent.len());
            allow(stranger, at, Message::Info(stranger));
        }
        letters
    }

    fn last_leaf(&self, mut peer: Peer) -> Peer {
        while let Some(&last) = self.children[peer.index()].last() {
            peer = last;
        }
        peer
    }

    const fn around(&self, me: Peer) -> Around<'_> {
        Around { tree: self, me }
    }
}

/// The tree as seen by one process.
struct Around<'a> {
    tree: &'a RingOn,
    me: Peer,
}

impl Family<Peer> for Around<'_> {
    fn me(&self) -> Peer {
        self.me
    }

    fn parent(&self) -> Option<Peer> {
        let listed = self.tree.parent.get(self.me.index()).copied();
        listed.unwrap_or(self.tree.stranger_at)
    }

    fn first_child(&self) -> Option<Peer> {
        self.tree.children.get(self.me.index())?.first().copied()
    }

    fn next_sibling_of(&self, child: Peer) -> Option<Option<Peer>> {
        let children = self.tree.children.get(self.me.index())?;
        let place = children.iter().position(|&known| known == child)?;
        Some(children.get(place + 1).copied())
    }
}

impl Protocol for RingOn {
    type Node = Timed<Ring<Peer>>;
    type Message = Message<Peer>;

    fn members(&self) -> usize {
        self.parent.len()
    }

    fn strangers(&self) -> usize {
        usize::from(self.stranger_at.is_some())
    }

    fn planted(&self) -> Planted {
        self.planted
    }

    fn start(&self, _index: usize, choice: usize) -> Option<Self::Node> {
        let known = self.members() + 1;
        let somebody = |choice: usize| choice.checked_sub(1).map(Peer::at);
        (choice < known * known).then(|| {
            Timed::new(Ring {
                predecessor: somebody(choice / known),
                successor: somebody(choice % known),
            })
        })
    }

    fn clean(&self, _index: usize) -> Self::Node {
        Timed::new(Ring::default())
    }

    fn garbage(&self, to: Peer) -> Vec<Letter<Self::Message>> {
        let others = (0..self.members()).map(Peer::at).filter(|&from| from != to);
        let subjects = || (0..self.members()).map(Peer::at);
        others
            .flat_map(|from| {
                let mut messages = vec![Message::FConnect, Message::BConnect];
                messages.extend(subjects().map(Message::Info));
                messages.extend(subjects().map(Message::AskConnect));
                messages
                    .into_iter()
                    .map(move |message| Letter { to, from, message })
            })
            .collect()
    }

    fn describe(&self, node: &Self::Node) -> String {
        let Ring {
            predecessor,
            successor,
        } = node.machine;
        let name =
            |peer: Option<Peer>| peer.map_or("-".to_owned(), |peer| peer.index().to_string());
        format!(
            "predecessor {}, successor {}",
            name(predecessor),
            name(successor)
        )
    }

    fn apply_spontaneous(
        &self,
        me: Peer,
        node: &mut Self::Node,
        out: &mut Outbox<Peer, Self::Message>,
    ) {
        if node.fire(self.planted) {
            let _ = node.machine.apply_spontaneous(&self.around(me), out);
        }
    }

    fn on_message(
        &self,
        me: Peer,
        node: &mut Self::Node,
        from: Peer,
        message: Self::Message,
        out: &mut Outbox<Peer, Self::Message>,
    ) {
        let family = self.around(me);
        let ring = &mut node.machine;
        let _ = ring.on_message(from, message, &family, self.planted, out);
    }

    fn is_right(&self, nodes: &[Self::Node]) -> bool {
        // Numbered in preorder, the tree's ring is 0, 1, 2, …
        let all: Vec<Peer> = (0..self.members()).map(Peer::at).collect();
        let ring = |peer: Peer| nodes[peer.index()].machine;
        let follows = |peer: Peer| {
            let next = Peer::at((peer.index() + 1) % all.len());
            all.len() == 1 || ring(peer).successor == Some(next)
        };
        all.iter().all(|&peer| follows(peer))
            && legitimate::is_ring(&all, |p| ring(p).successor, |p| ring(p).predecessor)
    }

    fn is_legitimate(&self, letter: &Letter<Self::Message>) -> bool {
        self.legitimate.contains(letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_ordered_trees_as_catalan_numbers() {
        let counts = [1, 2, 3, 4, 5].map(|n| RingOn::all(n, false, Planted::default()).len());
        assert_eq!(counts, [1, 1, 2, 5, 14]);
    }
}
