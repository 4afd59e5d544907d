//! One system: formed, measured with one workload, and stopped.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use binomesh::NodeConfig;
use bytes::Bytes;

use super::arrivals::Arrivals;
use super::credentials::CredentialsFolder;
use super::figures::{FORMATION, Figure, Figures, System};
use super::{Peers, bare, cluster, file};
use crate::command::Failure;
use crate::command::live::counters::Loopback;
use crate::record::{CpuWatch, Memory, Stopwatch, quantile};

/// How many messages are sent before measuring, so that windows grow and caches warm.
const WARM_UP: u64 = 20;
/// The most messages for a measurement of latency. With fewer, the 99th percentile depends on
/// whether the kernel puts two of the runtimes' threads on one core for some milliseconds. A guess,
/// like the numbers below.
const SINGLES: u64 = 2000;
/// The time after which no further single message is sent, if there were [`SINGLES_AT_LEAST`].
const SINGLES_TAKE: Duration = Duration::from_secs(1);
/// The fewest messages for a measurement of latency, unless the workload has fewer.
const SINGLES_AT_LEAST: u64 = 300;
/// The most deliveries of one measurement, but at least four messages are sent, and each to all
/// receivers.
const DELIVERIES: u64 = 2_000_000;

/// A workload: a size of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    name: String,
    bytes: usize,
}

impl Workload {
    /// The workload as it was written.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A message of this size.
    pub(super) fn payload(&self) -> Bytes {
        Bytes::from(vec![0x5a; self.bytes])
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("B", 1)];
        let parsed = units.iter().find_map(|(unit, factor)| {
            let number: usize = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*factor)
        });
        let fits = |bytes: &usize| (1..=NodeConfig::MAX_PAYLOAD_BYTES).contains(bytes);
        let name = text.to_owned();
        parsed
            .filter(fits)
            .map(|bytes| Self { name, bytes })
            .ok_or_else(|| "expected a size from 1B to 16MiB, such as 64KiB".to_owned())
    }
}

/// A task that a system is measured with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task<'a> {
    Workload(&'a Workload),
    /// A file of this many MiB.
    File(u32),
}

impl fmt::Display for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(workload) => write!(f, "{}", workload.name),
            Self::File(mib) => write!(f, "a file of {mib} MiB"),
        }
    }
}

/// A network of either kind.
pub(super) enum Network {
    Bare(bare::Network),
    Ours(cluster::Network),
}

impl Network {
    pub(super) async fn form(
        system: System,
        home: &CredentialsFolder,
        peers: &Peers,
    ) -> Result<Self, Failure> {
        Ok(match system {
            System::Star => Self::Bare(bare::Network::form(home, |_| 0).await?),
            System::Tree => Self::Bare(bare::Network::form(home, |node| (node - 1) / 2).await?),
            System::Ours => {
                let window_bytes = (peers.window_mib as usize) << 20;
                Self::Ours(cluster::Network::form(home, window_bytes, peers.queued).await?)
            }
        })
    }

    pub(super) fn arrivals(&self) -> &Arrivals {
        match self {
            Self::Bare(network) => network.arrivals(),
            Self::Ours(network) => network.arrivals(),
        }
    }

    pub(super) async fn send(&mut self, payload: Bytes) -> Result<(), Failure> {
        match self {
            Self::Bare(network) => network.send(payload).await,
            Self::Ours(network) => network.send(payload).await,
        }
    }

    /// The number of links of the network.
    fn links(&self, home: &CredentialsFolder) -> usize {
        match self {
            Self::Bare(_) => home.nodes() as usize - 1,
            Self::Ours(network) => network.links(),
        }
    }

    /// Send one message, and wait until this many receivers have it and its receipt, if any, has
    /// come. Returns how long the last receiver had to wait.
    pub(super) async fn send_one(
        &mut self,
        payload: &Bytes,
        receivers: u64,
    ) -> Result<Duration, Failure> {
        self.arrivals().expect(receivers);
        let sent = self.arrivals().now();
        self.send(payload.clone()).await?;
        let reached = self.arrivals().wait().await;
        self.settle().await?;
        Ok(reached.saturating_sub(sent))
    }

    /// Send this many messages, and wait until each has arrived at all receivers and has its
    /// receipt, if there are receipts.
    pub(super) async fn send_many(
        &mut self,
        payload: &Bytes,
        count: u64,
        receivers: u64,
    ) -> Result<(), Failure> {
        self.arrivals().expect(count * receivers);
        for _ in 0..count {
            self.send(payload.clone()).await?;
        }
        self.arrivals().wait().await;
        self.settle().await
    }

    /// Wait until every message has its receipt; a bare network has no receipts.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        match self {
            Self::Bare(_) => Ok(()),
            Self::Ours(network) => network.settle().await,
        }
    }

    pub(super) async fn stop(self) {
        match self {
            Self::Bare(network) => network.stop().await,
            Self::Ours(network) => network.stop().await,
        }
    }
}

/// The turn of a system.
pub(super) struct Round<'a> {
    pub(super) system: System,
    pub(super) peers: &'a Peers,
    pub(super) home: &'a CredentialsFolder,
    pub(super) figures: &'a mut Figures,
}

impl Round<'_> {
    /// Form the system, measure it, and stop it.
    pub(super) async fn run(&mut self, task: Task<'_>) -> Result<(), Failure> {
        let mut network = self.form().await?;
        match task {
            Task::Workload(workload) => self.workload(&mut network, workload).await?,
            Task::File(mib) => self.file(&mut network, mib).await?,
        }
        network.stop().await;
        Ok(())
    }

    async fn form(&mut self) -> Result<Network, Failure> {
        let rss = Memory::now().map_err(Failure::run)?.rss_kib;
        let (clock, cpu) = (Stopwatch::start(), CpuWatch::of_process());
        let forming = Network::form(self.system, self.home, self.peers);
        let formed = within(self.limit(), forming).await;
        let network = formed.ok_or_else(|| self.late(&"forming"))??;
        let (took, cpu) = (clock.elapsed(), cpu.elapsed());
        let per_link = cpu.as_secs_f64() * 1e3 / network.links(self.home) as f64;
        let now = Memory::now().map_err(Failure::run)?;
        let grown = now.rss_kib.saturating_sub(rss) as f64;
        for (figure, value) in [
            (Figure::FormationSeconds, took.as_secs_f64()),
            (Figure::FormationCpuSeconds, cpu.as_secs_f64()),
            (Figure::FormationCpuMsPerLink, per_link),
            (Figure::RssKibPerNode, grown / f64::from(self.home.nodes())),
        ] {
            self.figures.add(self.system, FORMATION, figure, value);
        }
        Ok(network)
    }

    async fn workload(
        &mut self,
        network: &mut Network,
        workload: &Workload,
    ) -> Result<(), Failure> {
        let receivers = u64::from(self.home.nodes()) - 1;
        let volume = u64::from(self.peers.volume_mib) << 20;
        let deliveries = (volume / workload.bytes as u64).min(DELIVERIES);
        let count = deliveries.div_ceil(receivers).max(4);
        let limit = self.limit();
        let mut run = Run {
            system: self.system,
            workload,
            receivers,
            network,
            figures: self.figures,
        };
        let measured = within(limit, run.all(count)).await;
        measured.ok_or_else(|| self.late(&workload.name))?
    }

    async fn file(&mut self, network: &mut Network, mib: u32) -> Result<(), Failure> {
        let receivers = u64::from(self.home.nodes()) - 1;
        let piece = Bytes::from(vec![0x5a; file::PIECE]);
        let warming = network.send_many(&piece, WARM_UP, receivers);
        let warm = within(self.limit(), warming).await;
        warm.ok_or_else(|| self.late(&"warming up"))??;
        for way in file::Way::ALL {
            let (limit, figures) = (self.limit(), &mut *self.figures);
            let sending = file::measure(network, mib, way, self.home, self.system, figures);
            let sent = within(limit, sending).await;
            sent.ok_or_else(|| self.late(&Task::File(mib)))??;
        }
        Ok(())
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.peers.timeout_seconds)
    }

    fn late(&self, what: &dyn fmt::Display) -> Failure {
        let (name, seconds) = (self.system.name(), self.peers.timeout_seconds);
        Failure::Run(format!(
            "{name}: {what} took more than {seconds} s; give a larger --timeout-seconds"
        ))
    }
}

async fn within<T>(limit: Duration, doing: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, doing).await.ok()
}

/// One workload on one network.
struct Run<'a> {
    system: System,
    workload: &'a Workload,
    receivers: u64,
    network: &'a mut Network,
    figures: &'a mut Figures,
}

impl Run<'_> {
    async fn all(&mut self, count: u64) -> Result<(), Failure> {
        let payload = self.workload.payload();
        for _ in 0..WARM_UP.min(count) {
            self.network.send_one(&payload, self.receivers).await?;
        }
        self.singles(&payload, count.min(SINGLES)).await?;
        self.back_to_back(&payload, count).await
    }

    async fn singles(&mut self, payload: &Bytes, count: u64) -> Result<(), Failure> {
        let wire = Loopback::read()?;
        let cpu = CpuWatch::of_process();
        let (clock, mut latencies) = (Stopwatch::start(), Vec::new());
        for number in 0..count {
            if number >= SINGLES_AT_LEAST && clock.elapsed() >= SINGLES_TAKE {
                break;
            }
            latencies.push(self.network.send_one(payload, self.receivers).await?);
        }
        let cpu = cpu.elapsed();
        let packets = Loopback::read()?.packets - wire.packets;
        latencies.sort_unstable();
        let at = |share| quantile(&latencies, share).map_or(0.0, |at| at.as_secs_f64() * 1e3);
        let (p50, p99) = (at(0.5), at(0.99));
        self.note(Figure::LatencyP50Ms, p50);
        self.note(Figure::LatencyP99Ms, p99);
        let deliveries = (latencies.len() as u64 * self.receivers) as f64;
        self.note(
            Figure::CpuUsPerSingleDelivery,
            cpu.as_secs_f64() * 1e6 / deliveries,
        );
        self.note(
            Figure::PacketsPerSingleDelivery,
            packets as f64 / deliveries,
        );
        Ok(())
    }

    async fn back_to_back(&mut self, payload: &Bytes, count: u64) -> Result<(), Failure> {
        let wire = Loopback::read()?;
        let (clock, cpu) = (Stopwatch::start(), CpuWatch::of_process());
        let sending = self.network.send_many(payload, count, self.receivers);
        sending.await?;
        let (took, cpu) = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
        let sent = Loopback::read()?;
        let deliveries = (count * self.receivers) as f64;
        let bytes = deliveries * payload.len() as f64;
        let (wire_bytes, packets) = (sent.bytes - wire.bytes, sent.packets - wire.packets);
        self.note(Figure::ThroughputMbPerS, bytes / took / 1e6);
        self.note(Figure::CpuSecondsPerGb, cpu / bytes * 1e9);
        self.note(Figure::CpuUsPerDelivery, cpu * 1e6 / deliveries);
        self.note(Figure::WireBytesPerPayloadByte, wire_bytes as f64 / bytes);
        self.note(Figure::PacketsPerDelivery, packets as f64 / deliveries);
        Ok(())
    }

    fn note(&mut self, figure: Figure, value: f64) {
        let workload = &self.workload.name;
        self.figures.add(self.system, workload, figure, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit_and_bounds() {
        for (text, bytes) in [("1B", 1), ("64KiB", 65_536), ("16MiB", 16 << 20)] {
            assert_eq!(text.parse::<Workload>().unwrap().bytes, bytes, "{text}");
        }
        for text in ["", "0B", "1", "17MiB", "-1KiB", "99999999999999999999MiB"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }
}
