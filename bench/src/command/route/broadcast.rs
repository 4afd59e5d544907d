//! Broadcasts from the root to all nodes, with one packet per node and step.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use binomesh_overlay::Rank;
use binomesh_routing::router::{Hop, Itinerary};
use binomesh_routing::strategy::{Handover, ROOT, heirs, sibling_tree};

use super::Study;
use super::cases::Cases;
use super::tally::Tally;
use super::world::World;
use crate::record::CpuWatch;

/// Run the cases of one chunk.
pub(super) fn run(study: &Study, cases: &Cases, chunk: u64) -> Tally {
    let (mut tally, mut world) = (Tally::default(), World::new(study));
    for number in cases.chunk(chunk) {
        world.kill(cases.broadcast(study, number));
        let mut play = Play::new(&mut world);
        play.run();
        play.count(&mut tally);
    }
    tally.decisions = world.decisions;
    tally
}

/// One broadcast in progress.
struct Play<'w, 's> {
    world: &'w mut World<'s>,
    nodes: Vec<Node>,
    /// The packets that nodes forward. They go before broadcasts to the node's children, since they
    /// have the longest way.
    transit: BTreeMap<Rank, VecDeque<Packet>>,
    /// The nodes that may have something to send.
    busy: Vec<Rank>,
    /// The packets that were sent in this step, each with its receiver.
    sent: Vec<(Rank, Sent)>,
    step: u32,
    last_delivery: u32,
    deciding: Duration,
}

#[derive(Clone, Default)]
struct Node {
    /// The hops from the root, if the node has the broadcast.
    hops: Option<u32>,
    /// How many children of the node were served.
    served: usize,
    is_busy: bool,
}

enum Sent {
    /// A packet down the tree, with the number of hops from the root.
    Broadcast(u32),
    /// A packet round dead nodes.
    Encapsulated(Packet),
}

/// An encapsulated broadcast, with the number of hops from the root.
struct Packet {
    itinerary: Itinerary,
    hops: u32,
}

impl<'w, 's> Play<'w, 's> {
    fn new(world: &'w mut World<'s>) -> Self {
        let n = world.study.shape.population().get() as usize;
        Self {
            world,
            nodes: vec![Node::default(); n],
            transit: BTreeMap::new(),
            busy: Vec::new(),
            sent: Vec::new(),
            step: 0,
            last_delivery: 0,
            deciding: Duration::ZERO,
        }
    }

    fn run(&mut self) {
        self.deliver(ROOT, 0);
        while !self.busy.is_empty() {
            self.step += 1;
            for rank in std::mem::take(&mut self.busy) {
                self.nodes[rank.0 as usize].is_busy = false;
                if self.send_one(rank) {
                    self.make_busy(rank);
                }
            }
            for (to, sent) in std::mem::take(&mut self.sent) {
                match sent {
                    Sent::Broadcast(hops) => self.deliver(to, hops),
                    Sent::Encapsulated(packet) => self.on_packet(to, packet),
                }
            }
        }
    }

    fn count(&self, tally: &mut Tally) {
        let live = self.world.live().count() as u64;
        let reached = self.nodes.iter().filter_map(|node| node.hops);
        let mut delivered = 0;
        for hops in reached {
            tally.hops.add(hops);
            delivered += 1;
        }
        let is_complete = delivered == live;
        let connected = || {
            let depths = self.world.breadth_first(ROOT);
            depths.into_iter().flatten().count() as u64
        };
        tally.cases += 1;
        tally.live += live;
        tally.connected += if is_complete { live } else { connected() };
        tally.complete += u64::from(is_complete);
        tally.steps.add(self.last_delivery);
        tally.deciding += self.deciding;
    }

    /// Let a node send one packet. Returns whether it had one to send.
    fn send_one(&mut self, rank: Rank) -> bool {
        while let Some(packet) = self.next_in_transit(rank) {
            if self.forward(rank, packet) {
                return true;
            }
        }
        while let Some(handover) = self.next_handover(rank) {
            let hops = self.nodes[rank.0 as usize].hops.unwrap_or(0);
            let is_sent = match handover {
                Handover::Child(child) => {
                    self.sent.push((child, Sent::Broadcast(hops + 1)));
                    true
                }
                Handover::Heirs(dead) => {
                    let itinerary = self.encapsulated(dead);
                    self.forward(rank, Packet { itinerary, hops })
                }
            };
            if is_sent {
                return true;
            }
        }
        false
    }

    fn next_in_transit(&mut self, rank: Rank) -> Option<Packet> {
        let waiting = self.transit.get_mut(&rank)?;
        let packet = waiting.pop_front();
        if waiting.is_empty() {
            self.transit.remove(&rank);
        }
        packet
    }

    fn next_handover(&mut self, rank: Rank) -> Option<Handover> {
        let node = &mut self.nodes[rank.0 as usize];
        node.hops?;
        let is_live = |rank| self.world.is_live(rank);
        let next = sibling_tree(&self.world.study.shape, rank, is_live).nth(node.served);
        node.served += usize::from(next.is_some());
        next
    }

    fn encapsulated(&self, dead: Rank) -> Itinerary {
        let Self { world, .. } = self;
        let study = world.study;
        let packet = world.packet(heirs(&study.shape, dead, study.encapsulation, 0));
        match study.knows {
            true => packet,
            false => packet.knowing([dead]),
        }
    }

    /// Forward a packet. Returns whether the packet left the node.
    fn forward(&mut self, rank: Rank, mut packet: Packet) -> bool {
        let watch = CpuWatch::of_thread();
        let study = self.world.study;
        let next = loop {
            match self.world.choose(rank, &mut packet.itinerary) {
                Hop::Forward(next) | Hop::Back(next) => break Some(next),
                Hop::Arrived => self.deliver(rank, packet.hops),
                Hop::Lost(lost) => {
                    for heir in heirs(&study.shape, lost, study.encapsulation, 1) {
                        packet.itinerary.add(heir);
                    }
                }
                Hop::Done => break None,
            }
        };
        self.deciding += self.world.elapsed(watch);
        if let Some(next) = next {
            packet.hops += 1;
            self.sent.push((next, Sent::Encapsulated(packet)));
        }
        next.is_some()
    }

    fn on_packet(&mut self, rank: Rank, packet: Packet) {
        if packet.itinerary.destinations().contains(&rank) {
            self.deliver(rank, packet.hops);
        }
        self.transit.entry(rank).or_default().push_back(packet);
        self.make_busy(rank);
    }

    fn deliver(&mut self, rank: Rank, hops: u32) {
        let node = &mut self.nodes[rank.0 as usize];
        if node.hops.is_none() {
            node.hops = Some(hops);
            self.last_delivery = self.step;
            self.make_busy(rank);
        }
    }

    fn make_busy(&mut self, rank: Rank) {
        let node = &mut self.nodes[rank.0 as usize];
        if !std::mem::replace(&mut node.is_busy, true) {
            self.busy.push(rank);
        }
    }
}
