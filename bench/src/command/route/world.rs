//! One tree with its dead nodes, and packets in it.

use std::collections::VecDeque;
use std::time::Duration;

use binomesh_overlay::Rank;
use binomesh_routing::router::{Hop, Itinerary, Reserve, choose_hop};
use binomesh_routing::sibling_tree::Links;

use super::Study;
use crate::record::CpuWatch;

/// A tree and its dead nodes.
pub(super) struct World<'a> {
    pub(super) study: &'a Study,
    list: Vec<Rank>,
    is_dead: Vec<u64>,
    pub(super) decisions: u64,
    /// The time that reading the clock adds to an interval.
    overhead: Duration,
}

impl<'a> World<'a> {
    /// A world in which all nodes live.
    pub(super) fn new(study: &'a Study) -> Self {
        let words = study.shape.population().get() as usize / 64 + 1;
        Self {
            study,
            list: Vec::new(),
            is_dead: vec![0; words],
            decisions: 0,
            overhead: CpuWatch::overhead(),
        }
    }

    /// Let exactly these nodes be dead.
    pub(super) fn kill(&mut self, dead: impl IntoIterator<Item = Rank>) {
        for rank in self.list.drain(..) {
            self.is_dead[rank.0 as usize / 64] = 0;
        }
        self.list.extend(dead);
        for rank in &self.list {
            self.is_dead[rank.0 as usize / 64] |= 1 << (rank.0 % 64);
        }
    }

    pub(super) fn is_live(&self, rank: Rank) -> bool {
        self.is_dead[rank.0 as usize / 64] & 1 << (rank.0 % 64) == 0
    }

    pub(super) fn live(&self) -> impl Iterator<Item = Rank> {
        let all = (0..self.study.shape.population().get()).map(Rank);
        all.filter(|rank| self.is_live(*rank))
    }

    /// A packet to these destinations, with the knowledge that packets have at the start.
    pub(super) fn packet(&self, destinations: impl IntoIterator<Item = Rank>) -> Itinerary {
        let limit = self.study.shape.population().get() as usize;
        let packet = Itinerary::new(destinations, limit);
        match self.study.knows {
            true => packet.knowing(self.list.iter().copied()),
            false => packet,
        }
    }

    pub(super) fn choose(&mut self, here: Rank, packet: &mut Itinerary) -> Hop {
        self.decisions += 1;
        let Study {
            router,
            shape,
            reserve,
            ..
        } = self.study;
        choose_hop(*router, shape, *reserve, here, packet, |rank| {
            self.is_live(rank)
        })
    }

    /// The time since the watch was started, without the time of reading it.
    pub(super) fn elapsed(&self, watch: CpuWatch) -> Duration {
        watch.elapsed().saturating_sub(self.overhead)
    }

    /// The hops from `from` to every node by a shortest path over the links in use; none for dead
    /// and unreachable nodes.
    pub(super) fn breadth_first(&self, from: Rank) -> Vec<Option<u32>> {
        let Study {
            router,
            shape,
            reserve,
            ..
        } = self.study;
        let both = [router.links(), Links::BinomialGraph];
        let links = match reserve {
            Reserve::None => &both[..1],
            Reserve::BinomialGraph => &both[..],
        };
        let mut depth = vec![None; shape.population().get() as usize];
        depth[from.0 as usize] = Some(0);
        let mut open = VecDeque::from([from]);
        while let Some(rank) = open.pop_front() {
            let further = depth[rank.0 as usize].map(|depth| depth + 1);
            for next in links
                .iter()
                .flat_map(|links| shape.neighbours(rank, *links))
            {
                if depth[next.0 as usize].is_none() && self.is_live(next) {
                    depth[next.0 as usize] = further;
                    open.push_back(next);
                }
            }
        }
        depth
    }
}
