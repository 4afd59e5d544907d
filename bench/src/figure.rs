//! The figures of the papers, drawn from rows that `binomesh-bench` prints.
//!
//! ```text
//!   Figure ── curves ──▶ command lines ──▶ Laboratory: a row for each
//!      ▲                                        │
//!      └── charts and claims, from the rows ◀───┘
//! ```
//!
//! A point of a curve is a command line and two fields of its row, so whoever
//! doubts it can run it again. A claim is a text of a paper, or of ours, and a
//! judgement that is computed from the same rows.
//!
//! Not here: any simulation of its own.

pub mod chart;
pub mod laboratory;
pub mod report;

mod convergence;
mod fit;
mod graphs;
mod growth;
mod random_trees;
mod schedules;
mod sibling_tree;
mod start;

use chart::Chart;
use laboratory::Laboratory;

/// A figure: what was said, what is drawn, and what comes of it.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Part of the names of its files.
    pub key: &'static str,
    /// Which figure of which paper it stands for.
    pub source: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How it was made, in a sentence or two.
    pub method: String,
    /// What is drawn.
    pub charts: Vec<Chart>,
    /// Lines whose rows the claims need and no curve has.
    pub extra: Vec<String>,
    /// What is judged.
    pub claims: fn(&Scale, &Laboratory) -> Vec<Claim>,
}

/// A text and whether it holds here.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What the paper says, or we do.
    pub said: String,
    /// Whether the rows agree.
    pub holds: bool,
    /// What they show.
    pub found: String,
    /// Why they differ, where they do.
    pub because: &'static str,
}

/// How much is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Less of everything: a look, not a measurement.
    pub is_quick: bool,
    /// The most processes of a clean start.
    pub nodes_max: u32,
    /// Draws the trees, the failures and the packets.
    pub seed: u64,
}

/// The sizes of the papers end here.
const PAPER: u32 = 65_536;

impl Scale {
    /// The exponents e of the sizes 2^e of a clean start.
    pub fn exponents(self) -> std::ops::RangeInclusive<u32> {
        2..=self.nodes_max.max(8).ilog2()
    }

    /// The largest size that is both here and in the papers' figures.
    pub fn paper_nodes(self) -> u32 {
        1 << self.nodes_max.clamp(8, PAPER).ilog2()
    }
}

impl Figure {
    /// All of them, in the order of the report.
    pub fn all(scale: &Scale) -> Vec<Self> {
        vec![
            convergence::asynchronous(scale),
            convergence::synchronous(scale),
            convergence::messages(scale),
            convergence::corrections(scale),
            random_trees::synchronous(scale),
            random_trees::asynchronous(scale),
            sibling_tree::unicast(scale),
            sibling_tree::broadcast(scale),
            start::figure(scale),
            growth::figure(scale),
            graphs::figure(scale),
            schedules::faults(scale),
            schedules::restarts(scale),
            schedules::evolution(scale),
        ]
    }

    /// The lines whose rows it needs.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        let curves = self.charts.iter().flat_map(|chart| &chart.curves);
        curves.flat_map(|curve| &curve.lines).chain(&self.extra)
    }

    /// The fields of those rows that are drawn, each once.
    pub fn fields(&self) -> Vec<&'static str> {
        let curves = self.charts.iter().flat_map(|chart| &chart.curves);
        let mut fields: Vec<&'static str> = curves.flat_map(|curve| [curve.x, curve.y]).collect();
        let mut seen = Vec::new();
        fields.retain(|field| {
            let is_new = !seen.contains(field);
            seen.push(*field);
            is_new
        });
        fields
    }
}

impl Claim {
    /// A claim that holds if `holds`; else `because`.
    pub fn new(
        said: impl Into<String>,
        holds: bool,
        found: impl Into<String>,
        because: &'static str,
    ) -> Self {
        Self {
            said: said.into(),
            holds,
            found: found.into(),
            because,
        }
    }

    /// In one word.
    pub const fn verdict(&self) -> &'static str {
        if self.holds { "holds" } else { "differs" }
    }

    /// In one sentence, or two if it differs.
    pub fn sentence(&self) -> String {
        match self.holds {
            true => format!("Holds: {}.", self.found),
            false if self.because.is_empty() => format!("Differs: {}.", self.found),
            false => format!("Differs: {}. {}", self.found, self.because),
        }
    }
}

/// The lines that run one at a time, as their time and memory are drawn.
pub fn measured_alone(scale: &Scale) -> Vec<String> {
    growth::lines(scale)
}

/// The verdict on a whole figure.
pub fn verdict(claims: &[Claim]) -> &'static str {
    let holding = claims.iter().filter(|claim| claim.holds).count();
    match claims.len() - holding {
        0 => "holds",
        differing if differing == claims.len() => "differs",
        _ => "holds in part",
    }
}

#[cfg(test)]
mod tests;
