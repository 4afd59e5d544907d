//! Broadcasts during the healing, and the members that got them.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{Id, World};
use binomesh_routing::packet::Confirmation;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Destination, PacketId, Publish, Topic};
use bytes::Bytes;
use rand::seq::IteratorRandom;

/// The time between two broadcasts.
const PERIOD: Duration = Duration::from_millis(100);

/// The longest time that the last broadcast may take.
const LAST: Duration = Duration::from_secs(5);

/// Broadcasts that go out one after another, each from a living node.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// How many broadcasts are left, and the time of the next.
    left: u32,
    next: Duration,
    sent: BTreeMap<PacketId<Id>, Sent>,
    /// How often each broadcast came to each life of a node.
    came: BTreeMap<(PacketId<Id>, Id, u64), u32>,
}

#[derive(Debug)]
struct Sent {
    at: Duration,
    last: Duration,
}

/// The result of the broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Delivered {
    /// The number of broadcasts that went out.
    pub(super) broadcasts: u64,
    /// Deliveries that never came, at living nodes.
    pub(super) lacking: u64,
    /// Repeated deliveries of a message.
    pub(super) repeated: u64,
    /// The longest time from a broadcast to its last delivery.
    pub(super) longest: Duration,
}

impl Traffic {
    /// This many broadcasts, from now on.
    pub(super) fn new(count: u32, now: Duration) -> Self {
        Self {
            left: count,
            next: now,
            ..Self::default()
        }
    }

    /// Send a broadcast if one is due, and note deliveries.
    pub(super) fn pass(&mut self, world: &mut World) {
        if self.left > 0 && world.now() >= self.next {
            self.send(world);
            self.next += PERIOD;
        }
        for told in world.take_events() {
            if let Event::Relay(routing::Event::Deliver(delivery)) = &told.event {
                for (id, ..) in delivery.messages() {
                    *self.came.entry((id, told.by, told.boot)).or_default() += 1;
                    if let Some(sent) = self.sent.get_mut(&id) {
                        sent.last = sent.last.max(told.at);
                    }
                }
            }
        }
    }

    /// Whether all broadcasts are out, and the last one has had its time.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.left == 0 && now >= self.next + LAST
    }

    /// Send a broadcast from a random node that has a placement. If no node has one, or the node
    /// does not accept the broadcast, another try follows a period later.
    fn send(&mut self, world: &mut World) {
        let peers = world.peers();
        let placed = peers.filter(|(_, peer)| peer.relay().placement().is_some());
        let placed: Vec<Id> = placed.map(|(id, _)| id).collect();
        let from = placed.into_iter().choose(world.rng());
        let (Some(from), Ok(topic)) = (from, Topic::new("heal")) else {
            return;
        };
        let publish = Publish {
            topic,
            payloads: Bytes::from_static(b"a word").into(),
            destination: Destination::All,
            strategy: Strategy::default(),
            due: None.into(),
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        };
        let at = world.now();
        if let Some(Ok(id)) = world.with_peer(from, |peer, out| peer.publish(publish, out)) {
            self.left -= 1;
            self.sent.insert(id, Sent { at, last: at });
        }
    }

    /// Compare the deliveries with the nodes that live now. A broadcast that was not sent counts as
    /// lacking at all these nodes.
    pub(super) fn judge(&self, world: &World) -> Delivered {
        let living: Vec<(Id, u64)> = world.peers().map(|(id, _)| (id, world.boot(id))).collect();
        let mut lacking = u64::from(self.left) * living.len() as u64;
        for id in self.sent.keys() {
            let others = living.iter().filter(|(node, _)| *node != id.origin);
            let missing =
                others.filter(|(node, boot)| !self.came.contains_key(&(*id, *node, *boot)));
            lacking += missing.count() as u64;
        }
        let lengths = self.sent.values().map(|sent| sent.last - sent.at);
        Delivered {
            broadcasts: self.sent.len() as u64,
            lacking,
            repeated: self.came.values().map(|times| u64::from(*times) - 1).sum(),
            longest: lengths.max().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use binomesh::world::{DeploymentTree, Network};

    use super::*;

    #[test]
    fn nodes_that_did_not_get_a_broadcast_are_counted() {
        let mut world = World::new(1, Network::local());
        world.deploy(8, DeploymentTree::Binomial, |_| {});
        world.run_for(Duration::from_secs(5));
        let mut traffic = Traffic::new(2, world.now());
        traffic.pass(&mut world);
        let unsent_and_under_way = 8 + 7;
        assert_eq!(traffic.judge(&world).lacking, unsent_and_under_way);
        world.run_for(PERIOD);
        traffic.pass(&mut world);
        world.run_for(PERIOD);
        traffic.pass(&mut world);
        let all = traffic.judge(&world);
        assert_eq!((all.broadcasts, all.lacking, all.repeated), (2, 0, 0));
        assert!(all.longest > Duration::ZERO);
        traffic.came.values_mut().for_each(|times| *times += 1);
        assert_eq!(traffic.judge(&world).repeated, 14);
    }
}
