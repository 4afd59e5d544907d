//! `check --layer graph`: [FC]'s second algorithm, with the shipped machine.

use super::Check;
use super::clique::Row;
use crate::checker::clique::Faults;
use crate::checker::graph::{World, connected};
use crate::checker::search::search;
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// The most states of one graph that are judged, without `--states`.
const STATES: u64 = 200_000;

impl Check {
    /// Search all graphs, and print a row for each size and number of faults. Returns whether all
    /// results are as expected.
    pub(super) fn graphs(&self) -> Result<bool, Failure> {
        let mut is_good = true;
        let sizes =
            (2..=4).filter(|&nodes| self.nodes.is_none_or(|only| usize::from(only) == nodes));
        for nodes in sizes {
            for (faults, faults_max) in [(Faults::None, 0), (Faults::One, 1)] {
                let watch = Stopwatch::start();
                let graphs = connected(nodes);
                let mut row = Row::new("graph", "breadth-first", nodes, faults_max);
                for (number, lists) in graphs.iter().enumerate() {
                    record::progress(format_args!(
                        "{nodes} nodes, {faults_max} faults, graph {} of {}",
                        number + 1,
                        graphs.len()
                    ));
                    let limit = usize::try_from(self.states.unwrap_or(STATES));
                    let world = World::new(lists.clone(), faults, limit.unwrap_or(usize::MAX));
                    row.add(search(world, self.threads.into()));
                    if !row.ok {
                        break;
                    }
                }
                is_good &= row.ok;
                self.print_found(row.taken(&watch), Row::take_script)?;
            }
        }
        record::progress_done();
        Ok(is_good)
    }
}
