//! The peers this node deals with: those that have a link, a claim, a dial or
//! waiting frames.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::limits::Limits;
use super::peer::Peer;
use super::queue::QueueLimits;
use super::room::{Room, Share};
use crate::PeerId;

/// All peers.
#[derive(Debug)]
pub(super) struct Table {
    peers: RwLock<BTreeMap<PeerId, Arc<Peer>>>,
    capacity: usize,
    limits: QueueLimits,
    /// Room to assemble large bodies in, and a peer's share of it.
    assembly: Room,
    share: usize,
}

impl Table {
    pub(super) fn new(limits: &Limits) -> Self {
        let queue = QueueLimits {
            slots: limits.slots,
            control_frames: limits.control_frames,
            packet_frames: limits.packet_frames,
            bytes: limits.queue_bytes,
        };
        Self {
            peers: RwLock::new(BTreeMap::new()),
            capacity: limits.peers,
            limits: queue,
            assembly: Room::new(limits.assembly_bytes),
            share: limits.peer_assembly_bytes,
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
        let peer = peers.entry(id).or_insert_with(|| Arc::new(self.made(id)));
        Some(peer.clone())
    }

    fn made(&self, id: PeerId) -> Peer {
        let share = Share::new(self.share, &self.assembly);
        Peer::new(id, self.limits, share)
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
