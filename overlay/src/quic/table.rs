//! The peers with which this node deals: those that have a link, a claim, a dial or waiting frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::{DashMap, Entry};

use super::budget::{ByteBudget, Share};
use super::limits::TransportLimits;
use super::peer::Peer;
use super::queue::QueueLimits;
use crate::PeerId;

/// The table of peers. Each part of the map has a lock of its own, so no guard of the map is held
/// during another access to it, or across an `await`.
#[derive(Debug)]
pub(super) struct Table {
    peers: DashMap<PeerId, Arc<Peer>>,
    /// The number of places that are taken, at most `capacity`. A place is taken before a peer
    /// enters the map, and given back after the peer has left.
    taken: AtomicUsize,
    capacity: usize,
    limits: QueueLimits,
    /// The room to assemble large bodies in, and a peer's share of it.
    assembly: ByteBudget,
    share: usize,
}

impl Table {
    pub(super) fn new(limits: &TransportLimits) -> Self {
        let queue = QueueLimits {
            slots: limits.slots,
            control_frames: limits.control_frames,
            packet_frames: limits.packet_frames,
            bytes: limits.queue_bytes,
        };
        Self {
            peers: DashMap::new(),
            taken: AtomicUsize::new(0),
            capacity: limits.peers,
            limits: queue,
            assembly: ByteBudget::new(limits.assembly_bytes),
            share: limits.peer_assembly_bytes,
        }
    }

    /// The peer, which enters the table if necessary; `None` when the table is full.
    pub(super) fn enter(&self, id: PeerId) -> Option<Arc<Peer>> {
        if let Some(peer) = self.find(id) {
            return Some(peer);
        }
        if !self.take_place() {
            // Another task may have entered the peer meanwhile.
            return self.find(id);
        }
        match self.peers.entry(id) {
            Entry::Vacant(place) => Some(place.insert(Arc::new(self.made(id))).clone()),
            Entry::Occupied(there) => {
                self.give_place_back();
                Some(there.get().clone())
            }
        }
    }

    fn take_place(&self) -> bool {
        let next = |taken: usize| (taken < self.capacity).then_some(taken + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.taken.fetch_update(set, fetch, next).is_ok()
    }

    fn give_place_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }

    fn made(&self, id: PeerId) -> Peer {
        let share = Share::new(self.share, &self.assembly);
        Peer::new(id, self.limits, share)
    }

    /// The peer, if it is in the table.
    pub(super) fn find(&self, id: PeerId) -> Option<Arc<Peer>> {
        self.peers.get(&id).map(|peer| peer.clone())
    }

    /// All peers, in the order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        let mut peers: Vec<Arc<Peer>> = self.peers.iter().map(|peer| peer.clone()).collect();
        peers.sort_unstable_by_key(|peer| peer.id);
        peers
    }

    /// Remove the peer if it is no longer needed.
    pub(super) fn collect(&self, peer: &Arc<Peer>) {
        // A report under way holds this lock, and collects the peer when it is done.
        let Ok(reported) = peer.reported.try_lock() else {
            return;
        };
        if reported.is_none() && peer.retire() {
            let is_same = |_: &PeerId, there: &Arc<Peer>| Arc::ptr_eq(there, peer);
            if self.peers.remove_if(&peer.id, is_same).is_some() {
                self.give_place_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(capacity: usize) -> Table {
        Table::new(&TransportLimits {
            peers: capacity,
            ..TransportLimits::default()
        })
    }

    fn id(number: usize) -> PeerId {
        PeerId::of_uri(&format!("spiffe://mesh.example/node/{number}"))
    }

    #[test]
    fn a_full_table_has_room_again_once_a_peer_is_collected() {
        let table = table(2);
        let first = table.enter(id(1)).expect("room");
        let again = table.enter(id(1)).expect("it is there");
        assert!(Arc::ptr_eq(&first, &again));
        table.enter(id(2)).expect("room");
        assert!(table.enter(id(3)).is_none());
        assert!(table.enter(id(2)).is_some(), "it has a place");
        table.collect(&first);
        assert!(table.find(id(1)).is_none());
        table.collect(&first);
        assert!(table.enter(id(3)).is_some());
        assert!(
            table.enter(id(4)).is_none(),
            "only one place was given back"
        );
    }

    #[test]
    fn all_peers_come_by_their_ids() {
        let table = table(64);
        for number in 0..64 {
            table.enter(id(number)).expect("room");
        }
        let ids: Vec<PeerId> = table.all().iter().map(|peer| peer.id).collect();
        assert!(ids.is_sorted() && ids.len() == 64);
    }

    #[test]
    fn threads_that_enter_and_collect_the_same_peers_never_exceed_the_bound() {
        const CAPACITY: usize = 7;
        let table = table(CAPACITY);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        if let Some(peer) = table.enter(id((round * 7 + thread) % 16)) {
                            assert!(table.peers.len() <= CAPACITY);
                            table.collect(&peer);
                        }
                    }
                });
            }
        });
        let left = table.all();
        assert_eq!(table.taken.load(Ordering::Acquire), left.len());
        left.iter().for_each(|peer| table.collect(peer));
        let entered = (0..16).filter(|number| table.enter(id(*number)).is_some());
        assert_eq!(entered.count(), CAPACITY);
    }
}
