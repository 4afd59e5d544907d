//! The peers this node deals with: those that have a link, a claim, a dial or
//! waiting frames.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::peer::Peer;
use super::queue::QueueLimits;
use crate::PeerId;

/// All peers.
#[derive(Debug)]
pub(super) struct Table {
    peers: RwLock<BTreeMap<PeerId, Arc<Peer>>>,
    capacity: usize,
    limits: QueueLimits,
}

impl Table {
    pub(super) const fn new(capacity: usize, limits: QueueLimits) -> Self {
        Self {
            peers: RwLock::new(BTreeMap::new()),
            capacity,
            limits,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<PeerId, Arc<Peer>>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<PeerId, Arc<Peer>>> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer, entered if need be; `None` when the table is full.
    pub(super) fn enter(&self, id: PeerId) -> Option<Arc<Peer>> {
        if let Some(peer) = self.find(id) {
            return Some(peer);
        }
        let mut peers = self.write();
        if peers.len() >= self.capacity && !peers.contains_key(&id) {
            return None;
        }
        let peer = peers
            .entry(id)
            .or_insert_with(|| Arc::new(Peer::new(id, self.limits)));
        Some(peer.clone())
    }

    /// The peer, if it is in the table.
    pub(super) fn find(&self, id: PeerId) -> Option<Arc<Peer>> {
        self.read().get(&id).cloned()
    }

    /// All peers, by id.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        self.read().values().cloned().collect()
    }

    /// Take a peer out that nobody needs any more.
    pub(super) fn collect(&self, peer: &Arc<Peer>) {
        // A report under way holds the lock and collects when it is done.
        let Ok(reported) = peer.reported.try_lock() else {
            return;
        };
        if reported.is_none() && peer.retire() {
            let mut peers = self.write();
            if peers
                .get(&peer.id)
                .is_some_and(|there| Arc::ptr_eq(there, peer))
            {
                peers.remove(&peer.id);
            }
        }
    }
}
