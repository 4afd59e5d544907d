//! Arbitrary states of the tree layer, as a transient fault may leave them.

use super::{Ancestor, Child, ParentSearch, RootKey, SiblingOrder, Tree};
use crate::tree::{Claim, MAX_HEIRS};
use crate::{Id, noise::Noise};

impl<I: Id> Tree<I> {
    /// Overwrite this layer's knowledge of other nodes with noise over `peers`. The configuration,
    /// and a command to leave, stay.
    pub fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        let mut few = |most: u64| -> Vec<I> {
            let count = noise.next() % (most + 1);
            (0..count).filter_map(|_| noise.pick(peers)).collect()
        };
        let (parents, children) = (few(1), few(4));
        let (path, heirs) = (few(5), few(MAX_HEIRS as u64));
        let (roots, waiting) = (few(1), few(2));
        let mut order = || SiblingOrder::slot(noise.next() as u32 % 5);
        let place = |id, order| Child { id, order };
        self.parent = parents.first().copied();
        self.children = children.into_iter().map(|id| place(id, order())).collect();
        self.path = path
            .into_iter()
            .map(|id| Ancestor { id, order: order() })
            .collect();
        self.waiting = waiting.into_iter().map(|id| (id, order())).collect();
        self.order = order();
        self.former = self.parent.map(|id| (id, order()));
        self.restarted = self.parent;
        self.heirs = heirs.into_iter().collect();
        self.root = RootKey {
            weight: noise.next() as u8,
            priority: noise.next() as u32,
            id: roots.first().copied().unwrap_or(self.me),
        };
        self.anchored = noise.one_in(2);
        self.established = noise.one_in(2);
        self.seek = (noise.one_in(3)).then(|| ParentSearch::new(Claim::Orphan, []));
    }
}
