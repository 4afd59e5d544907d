//! The peers this node deals with: those that have a link, a claim, a dial or
//! waiting frames.

use std::sync::Arc;

use dashmap::DashMap;

use super::peer::Peer;
use super::queue::QueueLimits;
use crate::PeerId;

/// All peers.
#[derive(Debug)]
pub(super) struct Table {
    peers: DashMap<PeerId, Arc<Peer>>,
    capacity: usize,
    limits: QueueLimits,
}

impl Table {
    pub(super) fn new(capacity: usize, limits: QueueLimits) -> Self {
        Self {
            peers: DashMap::new(),
            capacity,
            limits,
        }
    }

    /// The peer, entered if need be; `None` when the table is full.
    pub(super) fn enter(&self, id: PeerId) -> Option<Arc<Peer>> {
        if let Some(peer) = self.find(id) {
            return Some(peer);
        }
        if self.peers.len() >= self.capacity {
            return None;
        }
        let entry = self.peers.entry(id);
        let peer = entry.or_insert_with(|| Arc::new(Peer::new(id, self.limits)));
        Some(peer.clone())
    }

    /// The peer, if it is in the table.
    pub(super) fn find(&self, id: PeerId) -> Option<Arc<Peer>> {
        self.peers.get(&id).map(|peer| peer.clone())
    }

    /// All peers, by id.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        let mut all: Vec<_> = self.peers.iter().map(|peer| peer.clone()).collect();
        all.sort_by_key(|peer| peer.id);
        all
    }

    /// Take a peer out that nobody needs any more.
    pub(super) fn collect(&self, peer: &Arc<Peer>) {
        // A report under way holds the lock and collects when it is done.
        let Ok(reported) = peer.reported.try_lock() else {
            return;
        };
        if reported.is_none() && peer.retire() {
            let same = |_: &PeerId, entry: &Arc<Peer>| Arc::ptr_eq(entry, peer);
            self.peers.remove_if(&peer.id, same);
        }
    }
}
