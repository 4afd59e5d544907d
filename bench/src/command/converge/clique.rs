//! `converge --bootstrap clique`: many runs in a fully connected system.

use binomesh_overlay::clique::Procedure;
use clap::ValueEnum;
use serde::Serialize;

use super::Converge;
use crate::arena::clique::{Found, Trial};
use crate::parallel;
use crate::record::{self, Stopwatch};

/// The procedure that makes the ring of a fully connected system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ProcedureName {
    /// By exchanges of successors, which corrects [FC].
    Corrected,
    /// As [FC] prints the procedure.
    AsWritten,
    /// By the order of a list that all processes share.
    Sorted,
}

/// The results of many runs of one size. The rounds of a stage count from the end of the stage
/// before. Their means are over the runs that completed the stage. The means of the random linking,
/// of cycles and of messages are over all runs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CliqueRow {
    bootstrap: &'static str,
    procedure: ProcedureName,
    nodes: usize,
    pub(super) seeds: u64,
    first_seed: u64,
    one_ring_count: u64,
    pub(super) exact_count: u64,
    stuck_count: u64,
    cycles_mean: f64,
    /// The rounds from the end of the random linking until there is one ring.
    rounds_mean: Option<f64>,
    rounds_max: Option<u64>,
    link_rounds_mean: f64,
    ranking_rounds_mean: Option<f64>,
    finger_rounds_mean: Option<f64>,
    /// The rounds from the start to the end, over the runs that completed.
    all_rounds_mean: Option<f64>,
    messages_per_node_mean: f64,
    first_inexact_seed: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

impl Converge {
    /// Run many trials of one size.
    pub(super) fn clique(&self, nodes: usize, seeds: u64) -> CliqueRow {
        let watch = Stopwatch::start();
        let trial = |number: u64| Trial {
            nodes,
            procedure: match self.procedure {
                ProcedureName::Corrected => Procedure::Corrected,
                ProcedureName::AsWritten => Procedure::AsWritten,
                ProcedureName::Sorted => Procedure::Sorted,
            },
            seed: self.seed.wrapping_add(number),
            phase_limit: self.phase_limit,
        };
        let found = parallel::map(
            seeds,
            parallel::processors(),
            |number| trial(number).run(),
            |_| false,
            |all| record::progress(format_args!("{nodes} nodes, {} of {seeds} runs", all.len())),
        );
        let all: Vec<Found> = found.into_values().collect();
        let count = |is: fn(&Found) -> bool| all.iter().filter(|found| is(found)).count() as u64;
        let over = |of: fn(&Found) -> Option<u64>| mean(all.iter().filter_map(of));
        let inexact = all.iter().position(|found| !found.is_exact);
        CliqueRow {
            bootstrap: "clique",
            procedure: self.procedure,
            nodes,
            seeds,
            first_seed: self.seed,
            one_ring_count: count(|found| found.ring_rounds.is_some()),
            exact_count: count(|found| found.is_exact),
            stuck_count: count(|found| found.is_stuck),
            cycles_mean: over(|found| Some(found.cycles as u64)).unwrap_or(0.0),
            rounds_mean: over(|found| found.ring_rounds),
            rounds_max: all.iter().filter_map(|found| found.ring_rounds).max(),
            link_rounds_mean: over(|found| Some(found.link_rounds)).unwrap_or(0.0),
            ranking_rounds_mean: over(|found| found.ranking_rounds),
            finger_rounds_mean: over(|found| found.finger_rounds),
            all_rounds_mean: over(Found::all_rounds),
            messages_per_node_mean: over(|found| Some(found.messages)).unwrap_or(0.0)
                / nodes as f64,
            first_inexact_seed: inexact.map(|number| self.seed.wrapping_add(number as u64)),
            wall_seconds: watch.elapsed().as_secs_f64(),
            version: record::VERSION,
        }
    }
}

impl CliqueRow {
    /// Whether every run was exact. The procedure as written does not promise that, so its rows are
    /// always good.
    pub(super) fn is_good(&self) -> bool {
        self.procedure == ProcedureName::AsWritten || self.exact_count == self.seeds
    }
}

pub(super) fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum as f64 / f64::from(count))
}
