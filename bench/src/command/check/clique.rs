//! `check --layer clique`: [FC], corrected, with the shipped machine.

use binomesh_overlay::clique::Procedure;
use serde::Serialize;

use super::Check;
use crate::checker::clique::{Faults, World};
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// How many states of one world are judged.
const STATES: u64 = 2_000_000;

/// What was found in one world.
#[derive(Debug, Clone, Serialize)]
struct Row {
    layer: &'static str,
    procedure: &'static str,
    nodes: usize,
    faults_max: usize,
    states: usize,
    depth: usize,
    exhaustive: bool,
    ok: bool,
    counterexample: Option<String>,
    peak_rss_bytes: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

impl Check {
    /// Search all worlds and print their rows; whether they are as they should be.
    pub(super) fn cliques(&self) -> Result<bool, Failure> {
        let mut is_good = true;
        let sizes =
            (2..=4).filter(|&nodes| self.nodes.is_none_or(|only| usize::from(only) == nodes));
        let procedures = [
            (Procedure::Corrected, "corrected"),
            (Procedure::Sorted, "sorted"),
        ];
        let faults = [(Faults::None, 0), (Faults::One, 1)];
        for nodes in sizes {
            for (procedure, name) in procedures {
                for (faults, faults_max) in faults {
                    let title = format!("{name}, {nodes} nodes, {faults_max} faults");
                    record::progress(format_args!("{title}"));
                    let watch = Stopwatch::start();
                    let limit = usize::try_from(self.states.unwrap_or(STATES));
                    let world = World::new(nodes, procedure, faults, limit.unwrap_or(usize::MAX));
                    let found = world.search(self.threads.into());
                    let row = Row {
                        layer: "clique",
                        procedure: name,
                        nodes,
                        faults_max,
                        states: found.states,
                        depth: found.depth,
                        exhaustive: found.is_exhaustive,
                        ok: found.counterexample.is_none(),
                        counterexample: found.counterexample,
                        peak_rss_bytes: record::peak_rss_bytes(),
                        wall_seconds: watch.elapsed().as_secs_f64(),
                        version: record::VERSION,
                    };
                    is_good &= row.ok;
                    self.print_world(row)?;
                }
            }
        }
        record::progress_done();
        Ok(is_good)
    }

    fn print_world(&self, row: Row) -> Result<(), Failure> {
        record::progress_done();
        if self.json {
            record::print_json(&row)?;
            return Ok(());
        }
        let script = row.counterexample.clone();
        record::print_table(&Row {
            counterexample: None,
            ..row
        })?;
        if let Some(script) = script {
            println!("{script}");
        }
        Ok(())
    }
}
