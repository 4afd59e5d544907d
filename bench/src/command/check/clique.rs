//! `check --layer clique`: [FC], corrected, with the shipped machine.

use binomesh_overlay::clique::Procedure;
use serde::Serialize;

use super::Check;
use crate::checker::clique::{Faults, World};
use crate::checker::search::{Found, search};
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// The most states of one world that are judged, without `--states`.
const STATES: u64 = 2_000_000;

/// The result for one world, or for all worlds of one size.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    layer: &'static str,
    procedure: &'static str,
    nodes: usize,
    faults_max: usize,
    worlds: usize,
    states: usize,
    depth: usize,
    exhaustive: bool,
    pub(super) ok: bool,
    counterexample: Option<String>,
    peak_rss_bytes: Option<u64>,
    wall_seconds: f64,
    version: &'static str,
}

impl Row {
    pub(super) const fn new(
        layer: &'static str,
        procedure: &'static str,
        nodes: usize,
        faults_max: usize,
    ) -> Self {
        Self {
            layer,
            procedure,
            nodes,
            faults_max,
            worlds: 0,
            states: 0,
            depth: 0,
            exhaustive: true,
            ok: true,
            counterexample: None,
            peak_rss_bytes: None,
            wall_seconds: 0.0,
            version: record::VERSION,
        }
    }

    pub(super) fn add(&mut self, found: Found) {
        self.worlds += 1;
        self.states += found.states;
        self.depth = self.depth.max(found.depth);
        self.exhaustive &= found.is_exhaustive;
        self.ok &= found.counterexample.is_none();
        self.counterexample = self.counterexample.take().or(found.counterexample);
    }

    pub(super) const fn take_script(&mut self) -> Option<String> {
        self.counterexample.take()
    }

    /// The same row with the resources that the search took.
    pub(super) fn taken(self, watch: &Stopwatch) -> Self {
        Self {
            peak_rss_bytes: record::peak_rss_bytes(),
            wall_seconds: watch.elapsed().as_secs_f64(),
            ..self
        }
    }
}

impl Check {
    /// Search all worlds and print their rows. Returns whether all results are as expected.
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
                    let found = search(world, self.threads.into());
                    let mut row = Row::new("clique", name, nodes, faults_max);
                    row.add(found);
                    is_good &= row.ok;
                    self.print_found(row.taken(&watch), Row::take_script)?;
                }
            }
        }
        record::progress_done();
        Ok(is_good)
    }
}
