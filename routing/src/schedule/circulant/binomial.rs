//! Circulant schedules on the binomial graph BMG(p), whose links are r ± 2^i.
//!
//! The skips of [CIR], by repeated halving, are links of BMG(p) for few p, such as 2^q and 2^q − 1.
//! But other skips carry a schedule of as few rounds. A pattern of q skips works if each rank r
//! other than 0 can be given one block per round under these rules:
//!
//! 1. The q blocks of a rank have different residues modulo q. A phase is q rounds. The blocks from
//!    0 on are of the phase at hand, the blocks −q to −1 of the one before. Exactly one block is of
//!    the phase at hand.
//! 2. The sender r − s has the block. If the block is of the same phase for both, the sender got it
//!    in an earlier round. Else it is the sender's only block of its own phase, whatever the round
//!    in which the sender gets it, and the receiver gets it one phase later.
//! 3. Rank 0 sends block k in round k.
//!
//! All p from 3 to 1,024 were carried out, and a test repeats some of them. The powers of two below
//! p work if those with the longest way round the ring come first. For 3/4 · 2^q ≤ p the search of
//! [CIR] works with ascending powers of two as well, and a rank needs to know nothing of the
//! others. For smaller p the table of all ranks is solved here: blocks that no sender can have are
//! excluded, and no choice has to be taken back.

use std::collections::BTreeSet;

/// The powers of two below p in ascending order.
pub(super) fn ascending(nodes: u32) -> Vec<u32> {
    let powers = (0..u32::BITS).map(|bit| 1 << bit);
    powers.take_while(|power| *power < nodes).collect()
}

/// The powers of two below p, those with the longest way round a ring of p nodes first.
pub(super) fn farthest_first(nodes: u32) -> Vec<u32> {
    let mut skips = ascending(nodes);
    skips.sort_by_key(|skip| std::cmp::Reverse(((*skip).min(nodes - skip), *skip)));
    skips
}

/// The block that each rank receives in each round of a phase; a negative number is a block of the
/// phase before. `None` if no schedule with these skips is found.
pub(super) fn solve(nodes: u32, skips: &[u32]) -> Option<Vec<Vec<i64>>> {
    let mut table = Table::new(nodes as usize, skips)?;
    let every: BTreeSet<usize> = (1..table.nodes).collect();
    table.exclude(every)?;
    for rank in 1..table.nodes {
        for round in 0..skips.len() {
            while table.cells[rank][round].count_ones() > 1 {
                let lowest = table.cells[rank][round].trailing_zeros();
                table.cells[rank][round] &= !(1 << lowest);
                table.exclude(BTreeSet::from([rank]))?;
            }
        }
    }
    let length = skips.len() as i64;
    let block = |cell: &u64| {
        let value = i64::from(cell.trailing_zeros());
        if value < length {
            value
        } else {
            value - 2 * length
        }
    };
    let rows = table
        .cells
        .iter()
        .map(|row| row.iter().map(block).collect());
    Some(rows.collect())
}

/// The blocks that each rank may still receive in each round, as bits: bit c is block c of this
/// phase, and bit q + c is block c − q.
struct Table {
    nodes: usize,
    skips: Vec<usize>,
    cells: Vec<Vec<u64>>,
}

impl Table {
    fn new(nodes: usize, skips: &[u32]) -> Option<Self> {
        let length = skips.len();
        if length == 0 || length > 31 || skips.iter().any(|skip| *skip as usize >= nodes) {
            return None;
        }
        let before = ((1 << length) - 1) << length;
        let row = (0..length).map(|round| ((2 << round) - 1) | before);
        let row: Vec<u64> = row.collect();
        let mut cells = vec![row; nodes];
        for (round, skip) in skips.iter().enumerate() {
            cells[*skip as usize][round] &= 1 << round;
        }
        Some(Self {
            nodes,
            skips: skips.iter().map(|skip| *skip as usize).collect(),
            cells,
        })
    }

    fn sender(&self, rank: usize, round: usize) -> usize {
        (rank + self.nodes - self.skips[round]) % self.nodes
    }

    /// Exclude all blocks that break a rule, beginning with these ranks, until nothing changes.
    /// `None` if a round is left without a block.
    fn exclude(&mut self, mut changed: BTreeSet<usize>) -> Option<()> {
        while let Some(rank) = changed.pop_first() {
            let before = self.cells[rank].clone();
            self.exclude_in_row(rank)?;
            for round in 0..self.skips.len() {
                let sender = self.sender(rank, round);
                if sender != 0 && self.exclude_without_sender(rank, round, sender)? {
                    changed.insert(sender);
                }
            }
            if self.cells[rank] != before {
                changed.insert(rank);
            }
            if changed.contains(&rank) || self.cells[rank] != before {
                let receivers = self.skips.iter().map(|skip| (rank + skip) % self.nodes);
                changed.extend(receivers.filter(|receiver| *receiver != 0));
            }
        }
        Some(())
    }

    /// Rule 1 for one rank.
    fn exclude_in_row(&mut self, rank: usize) -> Option<()> {
        let length = self.skips.len();
        let of_this_phase = (1_u64 << length) - 1;
        let groups = (0..length).map(|residue| (1 << residue) | (1 << (residue + length)));
        for group in groups.chain([of_this_phase]) {
            let row = &mut self.cells[rank];
            let places = (0..length).filter(|round| row[*round] & group != 0);
            let places: Vec<usize> = places.collect();
            let is_certain = |round: &usize| row[*round] & !group == 0;
            match (places[..].first(), places.iter().copied().find(is_certain)) {
                (None, _) => return None,
                (Some(only), _) if places.len() == 1 => row[*only] &= group,
                (_, Some(certain)) => {
                    let others = (0..length).filter(|round| *round != certain);
                    others.for_each(|round| row[round] &= !group);
                }
                _ => {}
            }
        }
        self.cells[rank].iter().all(|cell| *cell != 0).then_some(())
    }

    /// Rule 2 for one rank and round. Returns whether it follows that the sender has received the
    /// block in one certain round, which was not known before.
    fn exclude_without_sender(&mut self, rank: usize, round: usize, sender: usize) -> Option<bool> {
        let length = self.skips.len();
        for value in 0..2 * length {
            if self.cells[rank][round] & (1 << value) == 0 {
                continue;
            }
            let earlier = (0..round).map(|place| (place, 1_u64 << value));
            let any = if value < length { 0..0 } else { 0..length };
            let later = any.map(|place| (place, 1_u64 << (value % length)));
            let has = |(place, bit): &(usize, u64)| self.cells[sender][*place] & bit != 0;
            let mut sources = earlier.chain(later).filter(has);
            match (sources.next(), sources.next()) {
                (None, _) => self.cells[rank][round] &= !(1 << value),
                (Some((place, bit)), None) if self.cells[rank][round] == 1 << value => {
                    let is_new = self.cells[sender][place] != bit;
                    self.cells[sender][place] = bit;
                    if is_new {
                        return Some(true);
                    }
                }
                _ => {}
            }
        }
        (self.cells[rank][round] != 0).then_some(false)
    }
}
