//! Broadcast of n blocks among p nodes in n − 1 + ⌈log₂ p⌉ rounds, in which each node sends at most
//! one block and receives at most one: no schedule has fewer ([CIR]).
//!
//! ```text
//!   p = 5, skips 1 2 3        round   0     1     2     0     1     2  …
//!   the source, rank 0, sends block   0     1     2     3     4     5  …
//!                          to rank    1     2     3     1     2     3  …
//! ```
//!
//! The rounds go round a dial of q = ⌈log₂ p⌉ skips. In a round with skip s, rank r sends to r + s
//! and receives from r − s, both modulo p: all nodes follow the same pattern, like dancers who
//! change partners at the same beat. Which block it is depends on the rank, and repeats every q
//! rounds with block numbers larger by q. A node works out its own sends and receipts, without a
//! word to the others.
//!
//! Ranks are relative to the source, which is rank 0. This module knows no graph
//! and no faults: the links from r to r + s must be there. [`Circulant::binomial`]
//! has skips that are links of the binomial graph.
//!
//! [CIR]: Träff, *Optimal Broadcast Schedules in Logarithmic Time with Applications
//! to Broadcast, All-Broadcast, Reduction and All-Reduction*, arXiv 2407.18004.

mod binomial;

use std::num::NonZeroU32;

use super::topology::NODES_MAX;

/// The pattern that all nodes follow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Circulant {
    nodes: u32,
    /// The skip of each round of a phase, and behind them the number of nodes.
    skips: Vec<u32>,
    /// The block that each rank receives in each round of a phase, if the search for a single rank
    /// does not work.
    table: Option<Vec<Vec<i64>>>,
}

/// The timetable of one node: what it sends and receives in each round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timetable {
    nodes: u32,
    rank: u32,
    skips: Vec<u32>,
    send: Vec<i64>,
    receive: Vec<i64>,
}

/// The sends and receipts of one node in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Round {
    /// The receiver, and the block that is sent to it.
    pub send: Option<(u32, u32)>,
    /// The sender, and the block that comes from it.
    pub receive: Option<(u32, u32)>,
}

impl Circulant {
    /// The pattern for this many nodes: skips by repeated halving, rounded up ([CIR]).
    pub fn new(nodes: NonZeroU32) -> Self {
        let mut skips = vec![nodes.get()];
        while let Some(last) = skips.last().copied().filter(|last| *last > 1) {
            skips.push(last.div_ceil(2));
        }
        skips.reverse();
        Self {
            nodes: nodes.get(),
            skips,
            table: None,
        }
    }

    /// The pattern of as few rounds as [`Circulant::new`] over the links of a binomial graph: all
    /// skips are powers of two. Every BMG(p) of up to 1,024 nodes has one; `None` beyond.
    ///
    /// For p < 3/4 · 2^⌈log₂ p⌉ this works out what all ranks receive, a table of O(p log p)
    /// blocks; keep the pattern rather than making it again.
    pub fn binomial(nodes: NonZeroU32) -> Option<Self> {
        let nodes = nodes.get();
        if nodes as usize > NODES_MAX {
            return None;
        }
        let mut skips = binomial::ascending(nodes);
        let is_near = u64::from(nodes) * 4 >= 3 << skips.len();
        let table = match is_near {
            true => None,
            false => {
                skips = binomial::farthest_first(nodes);
                Some(binomial::solve(nodes, &skips)?)
            }
        };
        skips.push(nodes);
        Some(Self {
            nodes,
            skips,
            table,
        })
    }

    /// The number of nodes.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The skip of each round of a phase; there are ⌈log₂ p⌉.
    pub fn skips(&self) -> &[u32] {
        &self.skips[..self.skips.len() - 1]
    }

    /// The number of rounds until all nodes have all blocks: n − 1 + ⌈log₂ p⌉; 0 if the source is
    /// alone or there is no block.
    pub fn rounds(&self, blocks: u32) -> u64 {
        rounds(self.skips().len(), blocks)
    }

    /// The timetable of a rank, in O(log² p) steps; `None` if there is no such rank.
    ///
    /// Departure: [CIR] computes the blocks that a node sends in O(log p) as well. Here a node
    /// computes which block each of its ⌈log₂ p⌉ receivers expects, in O(log p) each. That takes
    /// microseconds, and the block that is sent is always the one that is expected.
    pub fn timetable(&self, rank: u32) -> Option<Timetable> {
        if rank >= self.nodes {
            return None;
        }
        let skips = self.skips();
        let expected = |(round, skip): (usize, &u32)| {
            let to = (u64::from(rank) + u64::from(*skip)) % u64::from(self.nodes);
            self.receive(to as u32)[round]
        };
        let send = match rank {
            0 => (0..).zip(skips).map(|(block, _)| block).collect(),
            _ => skips.iter().enumerate().map(expected).collect(),
        };
        Some(Timetable {
            nodes: self.nodes,
            rank,
            skips: skips.to_vec(),
            send,
            receive: self.receive(rank),
        })
    }

    /// The block that a rank other than the source receives in each round of a phase; `None` if
    /// there is no such rank. A negative number is a block of the phase before.
    pub(crate) fn receipts(&self, rank: u32) -> Option<Vec<i64>> {
        (1..self.nodes).contains(&rank).then(|| self.receive(rank))
    }

    /// The block that a rank receives in each round of a phase. A negative number is a block of the
    /// phase before. For a rank other than the source, each residue modulo ⌈log₂ p⌉ comes once, and
    /// exactly one number is not negative: the base block.
    fn receive(&self, rank: u32) -> Vec<i64> {
        if let Some(table) = &self.table {
            return table[rank as usize].clone();
        }
        let length = self.skips().len();
        let base = self.base(rank);
        let mut search = Search {
            skips: &self.skips,
            target: u64::from(self.nodes) + u64::from(rank),
            is_used: vec![false; length + 1],
            last: 2 * u64::from(self.nodes),
            found: Vec::with_capacity(length),
        };
        search.is_used[base] = true;
        search.descend(0, length + 1);
        let blocks = search.found.into_iter().map(|skip| match skip {
            skip if skip == length => base as i64,
            skip => skip as i64 - length as i64,
        });
        blocks.collect()
    }

    /// The base block of a rank: the first block that it receives. It is the number of the last
    /// skip on the path from the source to the rank, on which the largest possible skip comes first
    /// ([CIR]). For the source it is the number behind the last block of a phase.
    fn base(&self, rank: u32) -> usize {
        let mut left = rank;
        for (round, skip) in self.skips().iter().enumerate().rev() {
            if *skip == left {
                return round;
            }
            if *skip < left {
                left -= skip;
            }
        }
        self.skips().len()
    }
}

/// The search of [CIR]. The block that a rank receives in round k is the base block of a rank
/// between skips k and k + 1 behind it, of the same phase or the one before. Ranks of the later
/// phase count on from p. The depth-first search comes to these ranks in descending order, each
/// along its path of descending skips from rank 0, and takes every base block once. The search
/// makes about six steps per round.
struct Search<'a> {
    skips: &'a [u32],
    target: u64,
    is_used: Vec<bool>,
    /// The rank that was taken last.
    last: u64,
    /// The base block of each round found so far.
    found: Vec<usize>,
}

impl Search<'_> {
    /// Search the ranks behind `at` over skips below `top`. The depth is at most the number of
    /// skips.
    fn descend(&mut self, at: u64, top: usize) {
        for place in (0..top).rev() {
            let next = at + u64::from(self.skips[place]);
            if self.is_over() || self.is_used[place] || next >= self.last || next > self.behind(0) {
                continue;
            }
            if next <= self.behind(1) {
                self.descend(next, place);
            }
            if self.is_over() || at > self.behind(1) {
                return;
            }
            self.last = next;
            self.found.push(place);
            self.is_used[place] = true;
        }
    }

    /// Whether all rounds have a block.
    fn is_over(&self) -> bool {
        self.found.len() + 1 == self.skips.len()
    }

    /// The rank behind the target by the skip of a later round: `rounds` after the one that is
    /// looked for.
    fn behind(&self, rounds: usize) -> u64 {
        self.target - u64::from(self.skips[self.found.len() + rounds])
    }
}

impl Timetable {
    /// The rank that this timetable is for.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of rounds until all nodes have all blocks.
    pub fn rounds(&self, blocks: u32) -> u64 {
        rounds(self.skips.len(), blocks)
    }

    /// The sends and receipts in a round, from 0, of a broadcast of this many blocks. A block is
    /// sent only after its sender has received it, and no node receives a block twice.
    ///
    /// Some rounds of the first phase are left out, so that the last round ends a phase. Block
    /// numbers behind the last block mean the last block ([CIR]).
    pub fn round(&self, round: u64, blocks: u32) -> Round {
        if round >= self.rounds(blocks) {
            return Round::default();
        }
        let length = self.skips.len() as u64;
        let last = u64::from(blocks) - 1;
        let left_out = (length - last % length) % length;
        let number = round + left_out;
        let place = (number % length) as usize;
        let before = (number - number % length) as i64 - left_out as i64;
        let block = |of: &[i64]| {
            let block = u64::try_from(of[place] + before).ok()?;
            u32::try_from(block.min(last)).ok()
        };
        let (rank, nodes) = (u64::from(self.rank), u64::from(self.nodes));
        let skip = u64::from(self.skips[place]) % nodes;
        let to = ((rank + skip) % nodes) as u32;
        let from = ((rank + nodes - skip) % nodes) as u32;
        Round {
            // Nothing is sent to the source, which has all blocks.
            send: block(&self.send)
                .map(|block| (to, block))
                .filter(|(to, _)| *to != 0),
            receive: block(&self.receive)
                .map(|block| (from, block))
                .filter(|_| self.rank != 0),
        }
    }
}

fn rounds(phase: usize, blocks: u32) -> u64 {
    match (phase, blocks) {
        (0, _) | (_, 0) => 0,
        _ => u64::from(blocks) - 1 + phase as u64,
    }
}

#[cfg(test)]
mod tests;
