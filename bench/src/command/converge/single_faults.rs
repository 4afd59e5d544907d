//! `converge --single-faults`: the single faults that [`Quiet::faults`] lists, in a quiet
//! legitimate system.

use serde::Serialize;

use super::{BackoffLimits, Converge};
use crate::arena::single_fault::Quiet;
use crate::arena::tree::{Tree, TreeShape};
use crate::record::Stopwatch;
use crate::{parallel, record};

/// The results for all faults that were applied to one system.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SingleFaultsRow {
    shape: TreeShape,
    nodes: usize,
    backoff_minimum: u32,
    backoff_maximum: u32,
    /// The number of faults that [`Quiet::faults`] lists.
    pub(super) faults: usize,
    pub(super) recovered: usize,
    first_failing: Option<String>,
    phases_mean: f64,
    phases_max: u64,
    wall_seconds: f64,
    version: &'static str,
}

impl Converge {
    /// Apply each fault that [`Quiet::faults`] lists, one at a time, to a system of this many
    /// nodes. `None` if the graph does not stand after a clean start.
    pub(super) fn single_faults(&self, nodes: usize) -> Option<SingleFaultsRow> {
        let watch = Stopwatch::start();
        let limits: BackoffLimits = self.limits();
        let shape = self.clean_shape();
        let tree = Tree::new(shape, nodes, self.randomness());
        let quiet = Quiet::on(tree, self.rules(), limits)?;
        let faults = quiet.faults();
        let limit = 4 * u64::from(limits.maximum);
        let found = parallel::map(
            faults.len() as u64,
            parallel::processors(),
            |n| quiet.recovery(faults[n as usize], limit),
            |_| false,
            |done| record::progress(format_args!("{} of {} faults", done.len(), faults.len())),
        );
        let phases: Vec<u64> = found.values().filter_map(|phases| *phases).collect();
        let failing = found.iter().find(|(_, phases)| phases.is_none());
        Some(SingleFaultsRow {
            shape,
            nodes,
            backoff_minimum: limits.minimum,
            backoff_maximum: limits.maximum,
            faults: faults.len(),
            recovered: phases.len(),
            first_failing: failing.map(|(&n, _)| format!("{:?}", faults[n as usize])),
            phases_mean: phases.iter().sum::<u64>() as f64 / phases.len().max(1) as f64,
            phases_max: phases.iter().copied().max().unwrap_or(0),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        })
    }
}
