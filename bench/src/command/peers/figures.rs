//! Measured figures, and the rows that are made of them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

use serde::Serialize;

use crate::record::{Unprinted, VERSION, quantile};

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Node 0 has a QUIC connection to every other.
    Star,
    /// A static binary tree of QUIC connections: node n is below node (n − 1) / 2.
    Tree,
    /// A Binomesh cluster.
    Ours,
}

impl System {
    /// The name of the system in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Star => "quinn-star",
            Self::Tree => "quinn-tree",
            Self::Ours => "binomesh",
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = [Self::Star, Self::Tree, Self::Ours].into_iter();
        let found = all.find(|system| system.name() == text);
        found.ok_or_else(|| "expected quinn-star, quinn-tree or binomesh".to_owned())
    }
}

/// A figure of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    /// The time until all nodes are connected, or settled in one epoch and verified.
    FormationSeconds,
    /// The processor time of the formation.
    FormationCpuSeconds,
    /// The processor time of the formation per link; for the tree, this is the cost of a handshake.
    FormationCpuMsPerLink,
    /// By how much the process has grown during the formation, per node. Memory that an earlier
    /// system has freed is used again, so this figure is exact only for the first system.
    RssKibPerNode,
    /// The median time from sending one message until the last node has it.
    LatencyP50Ms,
    /// The slowest of the best 99 in 100 times from sending one message until the last node has it.
    LatencyP99Ms,
    /// Processor time per delivery, one message at a time.
    CpuUsPerSingleDelivery,
    /// IP packets per delivery, one message at a time.
    PacketsPerSingleDelivery,
    /// Payload delivered per second, back to back, by all receivers together.
    ThroughputMbPerS,
    /// Processor time per 10^9 bytes of payload delivered.
    CpuSecondsPerGb,
    /// Processor time per delivery, back to back.
    CpuUsPerDelivery,
    /// Bytes of IP packets per byte of payload delivered.
    WireBytesPerPayloadByte,
    /// IP packets per delivery, back to back; a packet may hold several datagrams, which the kernel
    /// would separate on a real link.
    PacketsPerDelivery,
    /// The most memory of the whole process, with all nodes.
    PeakRssMib,
    /// The instructions of the nodes' own code while no message is sent, without those of the
    /// kernel.
    IdleInstructionsPerSecond,
    /// Instructions per delivery, one message at a time, less the instructions of idle nodes.
    InstructionsPerSingleDelivery,
    /// Instructions per delivery, back to back, less the instructions of idle nodes.
    InstructionsPerDelivery,
    /// IP packets per delivery while instructions were counted, one message at a time. If there are
    /// more than otherwise, a timer has fired that does not fire at full speed.
    CountedPacketsPerSingleDelivery,
    /// IP packets per delivery while instructions were counted, back to back.
    CountedPacketsPerDelivery,
    /// How often threads of a node's process go to sleep while no message is sent.
    IdleWakeupsPerSecondPerNode,
    /// The share of a core that a node's process takes while no message is sent, in percent.
    IdleCorePercentPerNode,
}

impl Figure {
    const fn name_and_unit(self) -> (&'static str, &'static str) {
        match self {
            Self::FormationSeconds => ("formation_seconds", "s"),
            Self::FormationCpuSeconds => ("formation_cpu_seconds", "s"),
            Self::FormationCpuMsPerLink => ("formation_cpu_ms_per_link", "ms"),
            Self::RssKibPerNode => ("rss_kib_per_node", "KiB"),
            Self::LatencyP50Ms => ("latency_p50_ms", "ms"),
            Self::LatencyP99Ms => ("latency_p99_ms", "ms"),
            Self::CpuUsPerSingleDelivery => ("cpu_us_per_single_delivery", "us"),
            Self::PacketsPerSingleDelivery => ("packets_per_single_delivery", "1"),
            Self::ThroughputMbPerS => ("throughput_mb_per_s", "MB/s"),
            Self::CpuSecondsPerGb => ("cpu_seconds_per_gb", "s"),
            Self::CpuUsPerDelivery => ("cpu_us_per_delivery", "us"),
            Self::WireBytesPerPayloadByte => ("wire_bytes_per_payload_byte", "1"),
            Self::PacketsPerDelivery => ("packets_per_delivery", "1"),
            Self::PeakRssMib => ("peak_rss_mib", "MiB"),
            Self::IdleInstructionsPerSecond => ("idle_instructions_per_second", "1/s"),
            Self::InstructionsPerSingleDelivery => ("instructions_per_single_delivery", "1"),
            Self::InstructionsPerDelivery => ("instructions_per_delivery", "1"),
            Self::CountedPacketsPerSingleDelivery => ("counted_packets_per_single_delivery", "1"),
            Self::CountedPacketsPerDelivery => ("counted_packets_per_delivery", "1"),
            Self::IdleWakeupsPerSecondPerNode => ("idle_wakeups_per_second_per_node", "1/s"),
            Self::IdleCorePercentPerNode => ("idle_core_percent_per_node", "%"),
        }
    }
}

/// The workload name of the formation, which sends no payload.
pub(super) const FORMATION: &str = "formation";
/// The workload name of a time in which no message is sent.
pub(super) const IDLE: &str = "idle";

/// The values of all repeats.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// The workloads, in the order in which they came.
    workloads: Vec<String>,
    values: BTreeMap<(usize, Figure, System), Vec<f64>>,
}

/// The row of one figure of one system.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    system: &'static str,
    nodes: u32,
    workload: String,
    figure: &'static str,
    value: f64,
    min: f64,
    max: f64,
    repeats: usize,
    unit: &'static str,
    /// The median ratio of a repeat's value to that of the tree.
    ratio_to_tree: Option<f64>,
    ratio_min: Option<f64>,
    ratio_max: Option<f64>,
    /// The quartiles of the ratios to the tree: at least a quarter of the ratios are not above the
    /// first, and at least a quarter not below the second.
    ratio_quartiles: Option<[f64; 2]>,
    /// Whether receivers of ours are subscribers, not listeners.
    queued: bool,
    version: &'static str,
}

impl Figures {
    /// Note the value of a figure.
    pub(super) fn add(&mut self, system: System, workload: &str, figure: Figure, value: f64) {
        let known = self.workloads.iter().position(|name| name == workload);
        let at = known.unwrap_or_else(|| {
            self.workloads.push(workload.to_owned());
            self.workloads.len() - 1
        });
        let values = self.values.entry((at, figure, system)).or_default();
        values.push(value);
    }

    /// A row for each figure.
    pub(super) fn rows(&self, nodes: u32, queued: bool) -> Vec<Row> {
        let rows = self.values.iter().filter_map(|(key, values)| {
            let (at, figure, system) = *key;
            let (value, min, max) = spread(values)?;
            let tree = self.values.get(&(at, figure, System::Tree));
            // Memory that was freed before is used again, so memory is not compared.
            let tree = tree.filter(|_| figure != Figure::RssKibPerNode);
            let all_ratios = tree.map(|tree| ratios(values, tree));
            let ratios = all_ratios.as_deref().and_then(spread);
            let ratio_quartiles = all_ratios.as_deref().and_then(quartiles);
            let (name, unit) = figure.name_and_unit();
            Some(Row {
                system: system.name(),
                nodes,
                workload: self.workloads.get(at)?.clone(),
                figure: name,
                value,
                min,
                max,
                repeats: values.len(),
                unit,
                ratio_to_tree: ratios.map(|(ratio, _, _)| ratio),
                ratio_min: ratios.map(|(_, min, _)| min),
                ratio_max: ratios.map(|(_, _, max)| max),
                ratio_quartiles,
                queued,
                version: VERSION,
            })
        });
        rows.collect()
    }
}

/// The ratios of values of the same repeats.
fn ratios(values: &[f64], of: &[f64]) -> Vec<f64> {
    let pairs = values.iter().zip(of).filter(|(_, of)| **of > 0.0);
    pairs.map(|(value, of)| value / of).collect()
}

/// The lower and the upper quartile.
fn quartiles(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let lower = quantile(&sorted, 0.25)?;
    sorted.reverse();
    Some([lower, quantile(&sorted, 0.25)?])
}

/// The median, the least and the greatest value.
fn spread(values: &[f64]) -> Option<(f64, f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // For an even number of values, the mean of the middle two: the lower one would favour one
    // side.
    let below = quantile(&sorted, 0.5)?;
    let above = *sorted.get(sorted.len() / 2)?;
    Some(((below + above) / 2.0, *sorted.first()?, *sorted.last()?))
}

/// Print the rows as a table for people.
pub(super) fn print_table(rows: &[Row]) -> Result<(), Unprinted> {
    let mut out = io::stdout().lock();
    let mut last = ("", "");
    for row in rows {
        let title = (row.workload.as_str(), row.figure);
        if title != last {
            writeln!(out, "{} {} ({})", row.workload, row.figure, row.unit)?;
            last = title;
        }
        let bounds = row.ratio_min.zip(row.ratio_max).zip(row.ratio_quartiles);
        let ratio = match (row.ratio_to_tree, bounds) {
            (Some(ratio), Some(((min, max), [low, high]))) => {
                format!(
                    "{ratio:>8.2} x tree ({min:.2} to {max:.2}, half of them {low:.2} to {high:.2})"
                )
            }
            _ => String::new(),
        };
        let (value, min, max) = (row.value, row.min, row.max);
        let name = row.system;
        writeln!(
            out,
            "  {name:<12}{value:>12.4}  ({min:.4} to {max:.4}){ratio}"
        )?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_values_as_far_from_either_end() {
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), Some([1.0, 4.0]));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(quartiles(&ten), Some([3.0, 8.0]));
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn a_row_has_the_median_and_that_of_the_ratios_to_the_tree_of_the_same_repeat() {
        let mut figures = Figures::default();
        for (tree, ours) in [(4.0, 8.0), (1.0, 3.0), (2.0, 8.0), (0.0, 9.0)] {
            figures.add(System::Tree, "1KiB", Figure::LatencyP50Ms, tree);
            figures.add(System::Ours, "1KiB", Figure::LatencyP50Ms, ours);
        }
        figures.add(System::Ours, "64KiB", Figure::LatencyP50Ms, 1.0);
        let rows = figures.rows(16, false);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.system, row.value, row.max, row.ratio_to_tree))
            .collect();
        let expected = [
            ("quinn-tree", 1.5, 4.0, Some(1.0)),
            ("binomesh", 8.0, 9.0, Some(3.0)),
            ("binomesh", 1.0, 1.0, None),
        ];
        assert_eq!(told, expected);
    }
}
