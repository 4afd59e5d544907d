//! The metrics of one node for Prometheus, with a recorder of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binomesh_overlay::quic::Clock;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

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
        recording(Some(&recorder), describe);
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

    /// Fold histograms from time to time; runs until dropped.
    pub async fn upkeep(self, clock: Clock) {
        loop {
            clock.sleep(UPKEEP).await;
            self.handle.run_upkeep();
        }
    }
}

fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge};
    describe_gauge!(
        "binomesh_healthy",
        "1 if placed and every entry is set and linked"
    );
    describe_gauge!(
        "binomesh_ready",
        "1 if healthy and in the cluster's overlay rather than on an island"
    );
    describe_gauge!(
        "binomesh_lost_members",
        "former members that went without a goodbye and are not back"
    );
    describe_gauge!(
        "binomesh_credential_end_timestamp_seconds",
        Unit::Seconds,
        "when the `certificate`, the `authority` or the `revocation_list` of this node ends that ends first, in seconds since 1970"
    );
    describe_counter!(
        "binomesh_credential_reloads_total",
        "times that the credentials were read again: `ok`, or `failed`, after which the former ones stay"
    );
    describe_gauge!(
        "binomesh_credential_reload_timestamp_seconds",
        Unit::Seconds,
        "when they were read again last, in seconds since 1970, whatever came of it"
    );
    describe_counter!(
        "binomesh_unready_total",
        "times that the node has been unready for 5 s and said so in the log"
    );
    describe_counter!(
        "binomesh_log_lines_lost_total",
        "lines of the log that could not be written: nobody reads it any more, its disk is full, or there were more than 64 KiB a second"
    );
    describe_gauge!("binomesh_rank", "position in the ring; -1 without a place");
    describe_gauge!(
        "binomesh_population",
        "members of the current epoch; 0 without a place"
    );
    describe_gauge!("binomesh_links", "peers with a live authenticated link");
    describe_gauge!(
        "binomesh_slow_peer",
        "what a peer keeps waiting: parts of messages that it has not answered in time (`late`), copies that wait until it has (`held_back`), bytes on their way to it (`bytes`)"
    );
    describe_gauge!(
        "binomesh_slow_peers_unnamed",
        "slow peers beyond those 64 that have a series of their own"
    );
    describe_gauge!(
        "binomesh_collective_callers",
        "callers of collectives that wait at this node"
    );
    describe_gauge!(
        "binomesh_collective_missing",
        "1 while a caller here waits for this member to come to a collective of this name"
    );
    describe_gauge!(
        "binomesh_collective_missing_unnamed",
        "members that callers here wait for, beyond those 64 that have a series of their own"
    );
    describe_counter!(
        "binomesh_collectives_total",
        "answers to callers of collectives: all had come (`all`), it was decided without some (`missing`), nothing was decided in time (`undecided`), or the call was `refused`"
    );
    metrics::describe_histogram!(
        "binomesh_collective_seconds",
        Unit::Seconds,
        "from a call of a collective to its answer"
    );
    describe_counter!(
        "binomesh_collective_messages_dropped_total",
        "messages about collectives that found no room before the relay; who misses them asks again"
    );
    describe_counter!(
        "binomesh_votes_unrecorded_total",
        "votes of collectives that could not be recorded in the state folder, after which this node votes no more"
    );
    describe_gauge!("binomesh_children", "children in the deployment tree");
    describe_gauge!(
        "binomesh_overlay_entries",
        "how long a list of the overlay is; `relayed` counts the peers that are reached through others"
    );
    describe_gauge!("binomesh_overlay_entries_max", "how long it can become");
    describe_counter!(
        "binomesh_overlay_messages_total",
        "messages of the overlay to other nodes, by kind"
    );
    describe_gauge!(
        "binomesh_boot_milliseconds",
        Unit::Milliseconds,
        "the life of this process"
    );
    describe_counter!(
        "binomesh_subscribers_refused_total",
        "subscribers above the bound"
    );
    describe_counter!(
        "binomesh_rumours_dropped_total",
        "rumours that found no room where batches for one peer wait as one"
    );
    describe_counter!(
        "binomesh_sends_refused_total",
        "messages of local users refused for want of room among those that wait for their turn (`messages`) or for answers (`collections`)"
    );
    describe_counter!(
        "binomesh_admin_waits_total",
        "times that the admin API had as many connections with requests as it serves"
    );
    describe_counter!(
        "binomesh_admin_crowded_out_total",
        "connections to the admin API or the metrics port that had no request and made room for new ones"
    );
    describe_counter!(
        "binomesh_subscriber_missed_total",
        "messages that local subscribers had no room for, or panicked at"
    );
    describe_counter!(
        "binomesh_unclaimed_dropped_total",
        "messages to a node that was just started again for which no subscriber came in time (`late`), or that had no room (`full`)"
    );
    describe_counter!(
        "binomesh_listener_slow_total",
        "packets for whose messages a function was called that held up the node for 10 ms or more"
    );
    describe_counter!(
        "binomesh_listener_panics_total",
        "functions that were called for a message and have panicked"
    );
}

fn observe(report: &NodeReport) {
    use metrics::gauge;
    let lost = LOG_LINES_LOST.load(Ordering::Relaxed);
    metrics::counter!("binomesh_log_lines_lost_total").absolute(lost);
    gauge!("binomesh_healthy").set(if report.healthy { 1.0 } else { 0.0 });
    gauge!("binomesh_ready").set(if report.ready { 1.0 } else { 0.0 });
    gauge!("binomesh_lost_members").set(f64::from(report.lost_count));
    gauge!("binomesh_rank").set(report.rank.map_or(-1.0, f64::from));
    gauge!("binomesh_population").set(f64::from(report.population.unwrap_or(0)));
    gauge!("binomesh_links").set(report.links.len() as f64);
    gauge!("binomesh_children").set(report.children.len() as f64);
    gauge!("binomesh_boot_milliseconds").set(report.boot as f64);
}
