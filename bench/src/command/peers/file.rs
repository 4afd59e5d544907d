//! A file to all nodes: by the bare systems as messages back to back, by ours as a push,
//! with hashes and answers.

use binomesh::push::{self, Into, PushOptions, Receiver};
use bytes::Bytes;

use super::figures::{Figure, Figures, System};
use super::home::Home;
use super::measure::Network;
use crate::command::Failure;
use crate::record::{CpuWatch, Memory, Stopwatch};

/// How long the messages of the bare systems are: as long as the pieces of a push.
const PIECE: usize = 256 << 10;

/// What becomes of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// They are forgotten; by us after they are checked.
    Memory,
    /// A file at each node. The bare systems have none.
    Disk,
}

impl Sink {
    pub(super) const ALL: [Self; 2] = [Self::Memory, Self::Disk];

    fn workload(self, mib: u32) -> String {
        match self {
            Self::Memory => format!("{mib}MiB-file"),
            Self::Disk => format!("{mib}MiB-file-to-disk"),
        }
    }
}

/// Send a file and note what it took.
pub(super) async fn measure(
    network: &mut Network,
    (mib, sink): (u32, Sink),
    home: &Home,
    (system, figures): (System, &mut Figures),
) -> Result<(), Failure> {
    let size = u64::from(mib) << 20;
    let is_bare = matches!(network, Network::Bare(_));
    if is_bare && sink == Sink::Disk {
        return Ok(());
    }
    let receivers = receivers(network, home, sink).await?;
    Memory::reset_peak()?;
    let (clock, cpu) = (Stopwatch::start(), CpuWatch::of_process());
    match network {
        Network::Bare(_) => stream(network, size, home).await?,
        Network::Ours(ours) => {
            let mut options = PushOptions::new("file", size);
            options.replace = true;
            let source = tokio::io::AsyncReadExt::take(tokio::io::repeat(0x5a), size);
            let report = push::send(&ours.nodes()[0], source, &options, |_| ()).await;
            let report = report.map_err(Failure::run)?;
            if !report.is_complete() {
                return Err(Failure::Run(format!(
                    "a file did not reach all: {report:?}"
                )));
            }
        }
    }
    let (took, cpu) = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let peak = Memory::now()?.peak_kib as f64 / 1024.0;
    drop(receivers);
    let bytes = size as f64 * f64::from(home.nodes() - 1);
    let workload = sink.workload(mib);
    figures.add(
        system,
        &workload,
        Figure::ThroughputMbPerS,
        bytes / took / 1e6,
    );
    figures.add(
        system,
        &workload,
        Figure::CpuSecondsPerGb,
        cpu / bytes * 1e9,
    );
    figures.add(system, &workload, Figure::PeakRssMib, peak);
    Ok(())
}

/// Those of our nodes that take files; none of the others.
async fn receivers(network: &Network, home: &Home, sink: Sink) -> Result<Vec<Receiver>, Failure> {
    let mut receivers = Vec::new();
    let Network::Ours(ours) = network else {
        return Ok(receivers);
    };
    for (number, node) in (0u32..).zip(ours.nodes()).skip(1) {
        let into = match sink {
            Sink::Memory => Into::Nowhere,
            Sink::Disk => Into::Folder(home.folder(number)),
        };
        let receiver = Receiver::start(node, into).await;
        receivers.push(receiver.map_err(Failure::run)?);
    }
    Ok(receivers)
}

async fn stream(network: &mut Network, size: u64, home: &Home) -> Result<(), Failure> {
    let pieces = size.div_ceil(PIECE as u64);
    let receivers = u64::from(home.nodes()) - 1;
    let wanted = network.arrivals().count() + pieces * receivers;
    for _ in 0..pieces {
        // Read and kept apart, as a file would be.
        network.send(Bytes::from(vec![0x5a; PIECE])).await?;
    }
    network.arrivals().wait_for(wanted).await;
    Ok(())
}
