//! The figures of the papers, drawn from rows that `binomesh-bench` prints.
//!
//! ```text
//!   Figure ── curves ──▶ command lines ──▶ Laboratory: a row for each
//!      ▲                                        │
//!      └── charts and claims, from the rows ◀───┘
//! ```
//!
//! A point of a curve is a command line and two fields of its row, so a reader can run it again. A
//! claim is a text of a paper, or of ours, and a judgement that is computed from the same rows.
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

/// A figure: its charts, and the claims that its rows are judged by.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The figure's unique name, in the report's anchors and in the record.
    pub key: &'static str,
    /// The figure or other piece of a paper that is drawn again; else a note that there is none.
    pub source: &'static str,
    /// The title of the figure.
    pub title: &'static str,
    /// The method in a sentence or two.
    pub method: String,
    /// The charts of the figure.
    pub charts: Vec<Chart>,
    /// Command lines whose rows are needed by claims but by no curve.
    pub extra: Vec<String>,
    /// The claims of the figure, judged by the rows.
    pub claims: fn(&Scale, &Laboratory) -> Vec<Claim>,
}

/// A claim, and whether it holds here.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The claim of the paper, or ours.
    pub said: String,
    /// Whether the rows agree.
    pub holds: bool,
    /// The values that the rows show.
    pub found: String,
    /// The reason why the values differ from the claim. It counts only if the claim does not hold.
    pub because: &'static str,
}

/// The scale of the simulations.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Whether everything is smaller: a look, not a measurement.
    pub is_quick: bool,
    /// The greatest number of processes of a clean start.
    pub nodes_max: u32,
    /// The seed of the trees, the failures and the packets.
    pub seed: u64,
}

/// The largest size in the papers.
const PAPER: u32 = 65_536;

impl Scale {
    /// The exponents e of the sizes 2^e of a clean start.
    pub fn exponents(self) -> std::ops::RangeInclusive<u32> {
        2..=self.nodes_max.max(8).ilog2()
    }

    /// The largest size that is simulated here and is in the papers' figures too.
    pub fn paper_nodes(self) -> u32 {
        1 << self.nodes_max.clamp(8, PAPER).ilog2()
    }
}

impl Figure {
    /// All figures, in the order of the report.
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

    /// The command lines whose rows the figure needs.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        let curves = self.charts.iter().flat_map(|chart| &chart.curves);
        curves.flat_map(|curve| &curve.lines).chain(&self.extra)
    }

    /// The fields of the figure's rows that are drawn, each once.
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
    /// A claim that holds if `holds`. Else `because` is the reason.
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

    /// The verdict in one word.
    pub const fn verdict(&self) -> &'static str {
        if self.holds { "holds" } else { "differs" }
    }

    /// The verdict in one sentence, or two if the claim differs.
    pub fn sentence(&self) -> String {
        match self.holds {
            true => format!("Holds: {}.", self.found),
            false if self.because.is_empty() => format!("Differs: {}.", self.found),
            false => format!("Differs: {}. {}", self.found, self.because),
        }
    }
}

/// The command lines that run one at a time, since their time and memory are drawn.
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
