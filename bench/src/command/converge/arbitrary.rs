//! `converge --arbitrary`: many arbitrary states of one size.

use serde::Serialize;

use super::{Converge, Reading, SchedulerName};
use crate::arena::arbitrary::Trial;
use crate::arena::mailbox::Discipline;
use crate::arena::tree::TreeShape;
use crate::record::{self, Stopwatch};

/// The results for many arbitrary states of one size.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ArbitraryRow {
    /// The shape of the trees; none if they have any shape.
    shape: Option<TreeShape>,
    nodes: usize,
    scheduler: SchedulerName,
    reading: Reading,
    stamped: bool,
    garbage: usize,
    census_phases: u64,
    backoff_minimum: u32,
    backoff_maximum: u32,
    pub(super) seeds: u64,
    first_seed: u64,
    pub(super) converged: u64,
    first_failing_seed: Option<u64>,
    phases_mean: f64,
    phases_max: u64,
    /// The most phases that a trial took beyond the depth of its tree.
    phases_beyond_depth_max: i64,
    quiet_messages_per_process_phase: f64,
    quiet_up_dn_per_process_phase: f64,
    wall_seconds: f64,
    version: &'static str,
}

impl Converge {
    /// Run many arbitrary states of one size.
    pub(super) fn arbitrary(&self, nodes: usize, seeds: u64, reading: Reading) -> ArbitraryRow {
        let watch = Stopwatch::start();
        let limits = self.limits();
        let mut row = ArbitraryRow {
            shape: self.shape,
            nodes,
            scheduler: self.scheduler,
            reading,
            stamped: self.stamped,
            garbage: self.garbage,
            census_phases: self.census_phases,
            backoff_minimum: limits.minimum,
            backoff_maximum: limits.maximum,
            seeds,
            first_seed: self.seed,
            converged: 0,
            first_failing_seed: None,
            phases_mean: 0.0,
            phases_max: 0,
            phases_beyond_depth_max: i64::MIN,
            quiet_messages_per_process_phase: 0.0,
            quiet_up_dn_per_process_phase: 0.0,
            wall_seconds: 0.0,
            version: record::VERSION,
        };
        for seed in (0..seeds).map(|n| self.seed.wrapping_add(n)) {
            record::progress(format_args!("{nodes} processes, seed {seed}"));
            let outcome = self.trial(nodes, seed, reading).run();
            if let Some(phases) = outcome.phases {
                row.converged += 1;
                row.phases_mean += phases as f64;
                row.phases_max = row.phases_max.max(phases);
                let beyond = phases as i64 - i64::from(outcome.depth);
                row.phases_beyond_depth_max = row.phases_beyond_depth_max.max(beyond);
                row.quiet_messages_per_process_phase += outcome.quiet_traffic;
                row.quiet_up_dn_per_process_phase += outcome.quiet_introductions;
            } else {
                row.first_failing_seed.get_or_insert(seed);
            }
        }
        let share = 1.0 / row.converged.max(1) as f64;
        row.phases_mean *= share;
        row.quiet_messages_per_process_phase *= share;
        row.quiet_up_dn_per_process_phase *= share;
        row.wall_seconds = watch.elapsed().as_secs_f64();
        row
    }

    fn trial(&self, nodes: usize, seed: u64, reading: Reading) -> Trial {
        Trial {
            nodes,
            seed,
            shape: self.shape,
            garbage: self.garbage,
            census_phases: self.census_phases,
            rules: self.rules(),
            limits: self.limits(),
            visit_period: if self.stamped { 8 } else { 0 },
            phase_limit: self.phase_limit.min(20_000),
            asynchronous: match reading {
                Reading::SamePhase | Reading::NextPhase => None,
                Reading::Channels => Some(Discipline::Channels),
                Reading::Inbox => Some(Discipline::Inbox),
                Reading::Slots => Some(Discipline::Slots),
            },
            is_stamped: self.stamped,
        }
    }
}
