//! The links of a rank in the sibling tree and in the binomial graph, and which end dials a link of
//! the tree.

use binomesh_overlay::Rank;

use super::SiblingTree;

/// The links that a packet may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Links {
    /// Parent, children and the two ring neighbours.
    SiblingTree,
    /// The fingers: rank ± 2^i.
    BinomialGraph,
}

impl SiblingTree {
    /// The neighbours of a rank, each once. In the sibling tree there are at most k + 3: the
    /// children first, then the ring, then the parent.
    pub fn neighbours(
        &self,
        rank: Rank,
        links: Links,
    ) -> impl Iterator<Item = Rank> + Clone + use<> {
        let tree = (links == Links::SiblingTree).then(|| self.siblings_and_kin(rank));
        let fingers = (links == Links::BinomialGraph).then(|| self.fingers(rank));
        tree.into_iter()
            .flatten()
            .chain(fingers.into_iter().flatten())
    }

    /// The ranks that a rank says `hello` to ([SFT06] §3.1): its parent and its left neighbour, and
    /// for the rightmost rank the leftmost one.
    ///
    /// Departure: by the paper's rule the leftmost and the rightmost rank dial each other. Here the
    /// leftmost does not dial the rightmost, so every link is dialled from one end. A ring of two
    /// has one link.
    pub fn hellos(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let place = self.place(rank);
        let size = self.size_of(place.level);
        let left = if place.offset > 0 {
            self.left(rank)
        } else {
            None
        };
        let is_end = size > 2 && place.offset + 1 == size;
        let leftmost = if is_end { self.right(rank) } else { None };
        self.parent(rank).into_iter().chain(left).chain(leftmost)
    }

    fn siblings_and_kin(&self, rank: Rank) -> impl Iterator<Item = Rank> + Clone + use<> {
        let left = self.left(rank);
        let right = self.right(rank).filter(|right| Some(*right) != left);
        let ring = left.into_iter().chain(right);
        self.children(rank).chain(ring).chain(self.parent(rank))
    }

    fn fingers(&self, rank: Rank) -> impl Iterator<Item = Rank> + Clone + use<> {
        let n = self.population().get();
        let at = rank.0 % n;
        // Where 2^i + 2^j = N, 2^i one way and 2^j the other way lead to the same rank.
        let powers = (0..self.population().levels()).map(|level| 1 << level);
        let ahead = powers.clone();
        let behind = powers.map(move |power| n - power);
        let behind = behind.filter(|distance: &u32| !distance.is_power_of_two());
        ahead.chain(behind).map(move |distance| {
            let there = at + distance;
            Rank(if there < n { there } else { there - n })
        })
    }
}
