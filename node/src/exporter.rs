//! The metrics of one node for Prometheus, with a recorder of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::quic::Clock;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::catalogue;
use crate::recorded::{SharedRecorder, recording};
use crate::report::NodeReport;

/// From a loopback's half millisecond to a minute of repair.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];
/// From one frame to the largest payload.
const BYTES: [f64; 8] = [
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    1_048_576.0,
    16_777_216.0,
];
/// Counts: hops, batch sizes, levels.
const COUNTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0];

/// How often histograms are folded; otherwise their samples pile up until the
/// next scrape.
const UPKEEP: Duration = Duration::from_secs(5);

/// How many lines of this process's log could not be written.
pub(crate) static LOG_LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// A node's recorder and what renders it.
#[derive(Clone)]
pub struct Exporter {
    recorder: SharedRecorder,
    handle: PrometheusHandle,
}

impl Exporter {
    /// A recorder whose metrics carry the label `node`.
    pub fn new(node: &str) -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .add_global_label("node", node)
            .set_buckets(&COUNTS)?
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .set_buckets_for_metric(Matcher::Suffix("_bytes".to_owned()), &BYTES)?
            .build_recorder();
        let handle = recorder.handle();
        let recorder: SharedRecorder = Arc::new(recorder);
        recording(Some(&recorder), begin);
        Ok(Self { recorder, handle })
    }

    /// Where the node's metrics are to go.
    pub fn recorder(&self) -> SharedRecorder {
        self.recorder.clone()
    }

    /// The text of a scrape, with the gauges of `report` brought up to date.
    pub fn render(&self, report: &NodeReport) -> String {
        recording(Some(&self.recorder), || observe(report));
        self.handle.render()
    }

    /// The text as of the last time, for tests of what counts by itself.
    #[cfg(all(test, feature = "ca"))]
    pub(crate) fn text(&self) -> String {
        self.handle.render()
    }

    /// Fold histograms from time to time; runs until dropped.
    pub async fn upkeep(self, clock: Clock) {
        loop {
            clock.sleep(UPKEEP).await;
            self.handle.run_upkeep();
        }
    }
}

fn begin() {
    for registry in catalogue::ALL {
        registry.begin();
    }
}

fn observe(report: &NodeReport) {
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
        (&catalogue::LINKS, report.links.len() as f64),
        (&catalogue::CHILDREN, report.children.len() as f64),
        (&catalogue::BOOT, report.boot as f64 / 1_000.0),
    ] {
        gauge.get().set(value);
    }
}
