//! The metrics of one node for Prometheus, with a recorder of its own.
//!
//! Each scrape has a further recorder for the metrics of single neighbours, so the series of a
//! neighbour that is gone are absent from the next scrape.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::quic::LinkReport;
use metrics::with_local_recorder;
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

use crate::catalogue;
use crate::recorder::{SharedRecorder, recording};
use crate::report::{NodeReport, SlowPeer};
use crate::scrape::Scrape;

/// Buckets of all histograms, which are of times: from half a millisecond on a loopback to a minute
/// of repair.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// How often histograms are folded. Otherwise their samples would pile up until the next scrape.
const UPKEEP: Duration = Duration::from_secs(5);

/// The number of log lines of this process that were not written.
pub(crate) static LOG_LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// A node's recorder, and the handle that renders its metrics.
#[derive(Clone)]
pub struct Exporter {
    node: String,
    recorder: SharedRecorder,
    handle: PrometheusHandle,
}

impl Exporter {
    /// A recorder whose metrics carry the label `node`.
    pub fn new(node: &str) -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .add_global_label("node", node)
            .set_buckets(&SECONDS)?
            .build_recorder();
        let handle = recorder.handle();
        let recorder: SharedRecorder = Arc::new(recorder);
        recording(Some(&recorder), begin);
        let node = node.to_owned();
        Ok(Self {
            node,
            recorder,
            handle,
        })
    }

    /// The recorder for the node's metrics.
    pub fn recorder(&self) -> SharedRecorder {
        self.recorder.clone()
    }

    /// The text of a scrape, with the values of `scrape`.
    pub fn render(&self, scrape: &Scrape) -> String {
        recording(Some(&self.recorder), || {
            show_standing(&scrape.report);
            show_process();
        });
        let mut text = self.handle.render();
        text.push_str(&self.neighbours(scrape));
        text
    }

    fn neighbours(&self, scrape: &Scrape) -> String {
        let recorder = PrometheusBuilder::new()
            .add_global_label("node", &self.node)
            .build_recorder();
        with_local_recorder(&recorder, || {
            catalogue::NEIGHBOURS.begin();
            scrape.links.iter().for_each(show_link);
            scrape.slow.iter().for_each(show_slow);
            for (name, member) in &scrape.missing {
                let missing = catalogue::COLLECTIVE_MISSING.with([name.clone(), member.clone()]);
                missing.set(1.0);
            }
        });
        recorder.handle().render()
    }

    /// The text without new values of a scrape, for tests of counters.
    #[cfg(all(test, feature = "ca"))]
    pub(crate) fn text(&self) -> String {
        self.handle.render()
    }

    /// Fold histograms from time to time; runs until dropped.
    pub async fn upkeep(self) {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.handle.run_upkeep();
        }
    }
}

fn begin() {
    for registry in catalogue::ALL {
        registry.begin();
    }
    let version = env!("CARGO_PKG_VERSION");
    catalogue::BUILD_INFO.with([version]).set(1.0);
}

fn show_standing(report: &NodeReport) {
    let lost = LOG_LINES_LOST.load(Ordering::Relaxed);
    catalogue::LOG_LINES_LOST.get().absolute(lost);
    for (gauge, value) in [
        (&catalogue::HEALTHY, f64::from(report.healthy)),
        (&catalogue::READY, f64::from(report.ready)),
        (&catalogue::LOST_MEMBERS, f64::from(report.lost_count)),
        (&catalogue::RANK, report.rank.map_or(-1.0, f64::from)),
        (
            &catalogue::POPULATION,
            f64::from(report.population.unwrap_or(0)),
        ),
        (
            &catalogue::EPOCH,
            report.epoch.as_deref().map_or(0.0, number_of),
        ),
        (&catalogue::LINKS, report.links.len() as f64),
        (&catalogue::CHILDREN, report.children.len() as f64),
        (&catalogue::BOOT, report.boot as f64 / 1_000.0),
    ] {
        gauge.get().set(value);
    }
}

/// An epoch's name as a number that a float holds exactly: 48 bits of its hash. Two epochs hardly
/// ever have the same number.
fn number_of(epoch: &str) -> f64 {
    let hash = blake3::hash(epoch.as_bytes());
    let high = hash.as_bytes().iter().take(6);
    high.fold(0.0, |number, byte| number * 256.0 + f64::from(*byte))
}

/// Show what the operating system tells of this process. A value that it does not tell is left out.
fn show_process() {
    let process = metrics_process::collector::collect();
    if let Some(seconds) = process.cpu_seconds_total {
        catalogue::PROCESS_CPU.get().absolute(seconds as u64);
    }
    for (gauge, value) in [
        (&catalogue::PROCESS_MEMORY, process.resident_memory_bytes),
        (
            &catalogue::PROCESS_VIRTUAL_MEMORY,
            process.virtual_memory_bytes,
        ),
        (&catalogue::PROCESS_OPEN_FDS, process.open_fds),
        (&catalogue::PROCESS_MAX_FDS, process.max_fds),
        (&catalogue::PROCESS_THREADS, process.threads),
        (&catalogue::PROCESS_START, process.start_time_seconds),
    ] {
        if let Some(value) = value {
            gauge.get().set(value as f64);
        }
    }
}

fn show_link(link: &LinkReport) {
    for (gauge, value) in [
        (&catalogue::LINK_UP_SECONDS, link.up_for.as_secs_f64()),
        (&catalogue::LINK_RTT_SECONDS, link.rtt.as_secs_f64()),
        (
            &catalogue::LINK_CONGESTION_WINDOW,
            link.congestion_window as f64,
        ),
        (&catalogue::LINK_MTU, f64::from(link.mtu)),
        (&catalogue::LINK_QUEUE_BYTES, link.queued_bytes as f64),
    ] {
        gauge.with([link.name.clone()]).set(value);
    }
    for (counter, value) in [
        (&catalogue::LINK_DATAGRAMS_SENT, link.datagrams_out),
        (&catalogue::LINK_PACKETS_LOST, link.packets_lost),
        (&catalogue::LINK_CONGESTION_EVENTS, link.congestion_events),
        (&catalogue::LINK_BLACK_HOLES, link.black_holes),
    ] {
        counter.with([link.name.clone()]).absolute(value);
    }
}

fn show_slow(peer: &SlowPeer) {
    for (kind, value) in [
        ("late", peer.late as u64),
        ("held_back", peer.held_back as u64),
        ("bytes", peer.bytes),
    ] {
        let series = catalogue::SLOW_PEER.with([peer.name.clone(), kind.to_owned()]);
        series.set(value as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_histograms_whose_series_are_known_begin_at_0() {
        let exporter = Exporter::new("node-0").expect("its buckets are fine");
        let text = exporter.handle.render();
        let (mut counters, mut histograms) = (0, 0);
        for metric in catalogue::ALL.iter().flat_map(|registry| registry.metrics) {
            let (description, kind) = (metric.description(), metric.kind());
            let is_known = description.labels.iter().all(|one| !one.values.is_empty());
            let begun = match kind {
                "counter" => format!("\n{}{{", description.name),
                "histogram" => format!("\n{}_count{{", description.name),
                _ => continue,
            };
            let lines = text.match_indices(&begun).map(|(at, _)| &text[at + 1..]);
            let lines: Vec<&str> = lines.filter_map(|rest| rest.lines().next()).collect();
            let wanted = description.labels.iter().map(|one| one.values.len());
            let wanted: usize = wanted.product();
            assert_eq!(lines.len(), if is_known { wanted } else { 0 }, "{begun}");
            assert!(lines.iter().all(|line| line.ends_with(" 0")), "{lines:?}");
            match kind {
                "counter" => counters += 1,
                _ => histograms += 1,
            }
        }
        assert!(counters > 50 && histograms >= 5, "{counters} {histograms}");
    }
}
