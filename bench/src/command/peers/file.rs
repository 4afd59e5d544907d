//! A file for all nodes: by all systems as messages back to back, and by ours also as a push, with
//! hashes and answers.

use binomesh::push::{self, Into, PushOptions, Receiver};
use bytes::Bytes;

use super::credentials::CredentialsFolder;
use super::figures::{Figure, Figures, System};
use super::measure::Network;
use crate::command::Failure;
use crate::record::{CpuWatch, Memory, Stopwatch};

/// The length of the messages that a file is cut into. A push has pieces of this length at two
/// nodes or above 1,024. Between these numbers `auto` takes the strategy `circulant`, whose pieces
/// have 64 KiB.
pub(super) const PIECE: usize = 256 << 10;

/// How a file is sent, and what its receivers do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As broadcast messages, by ours with receipts. The receivers forget them.
    Messages,
    /// As a push that is checked and forgotten. The bare systems send messages for comparison.
    Push,
    /// As a push into a file at each node. The bare systems do not have it.
    PushToDisk,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Messages, Self::Push, Self::PushToDisk];

    fn workload(self, mib: u32) -> String {
        match self {
            Self::Messages => format!("{mib}MiB-messages"),
            Self::Push => format!("{mib}MiB-push"),
            Self::PushToDisk => format!("{mib}MiB-push-to-disk"),
        }
    }
}

/// Send a file and note its cost.
pub(super) async fn measure(
    network: &mut Network,
    mib: u32,
    way: Way,
    home: &CredentialsFolder,
    system: System,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let size = u64::from(mib) << 20;
    let is_bare = matches!(network, Network::Bare(_));
    if is_bare && way == Way::PushToDisk {
        return Ok(());
    }
    let receivers = receivers(network, home, way).await?;
    Memory::reset_peak().map_err(Failure::run)?;
    let (clock, cpu) = (Stopwatch::start(), CpuWatch::of_process());
    match network {
        Network::Ours(ours) if way != Way::Messages => {
            let mut options = PushOptions::new("file", size);
            options.replace = true;
            let source = tokio::io::AsyncReadExt::take(tokio::io::repeat(0x5a), size);
            let report = push::send(&ours.nodes()[0], source, &options, |_| ()).await;
            let report = report.map_err(Failure::run)?;
            if !report.is_complete() {
                return Err(Failure::Run(format!(
                    "a file did not reach all nodes: {report:?}"
                )));
            }
        }
        _ => stream(network, size, home).await?,
    }
    let (took, cpu) = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let peak = Memory::now().map_err(Failure::run)?.peak_kib as f64 / 1024.0;
    drop(receivers);
    let bytes = size as f64 * f64::from(home.nodes() - 1);
    let workload = way.workload(mib);
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

/// The receivers of a push at our nodes; none for messages and for the other systems.
async fn receivers(
    network: &Network,
    home: &CredentialsFolder,
    way: Way,
) -> Result<Vec<Receiver>, Failure> {
    let mut receivers = Vec::new();
    let Network::Ours(ours) = network else {
        return Ok(receivers);
    };
    for (number, node) in (0u32..).zip(ours.nodes()).skip(1) {
        let into = match way {
            Way::Messages => break,
            Way::Push => Into::Nowhere,
            Way::PushToDisk => Into::Folder(home.folder(number)),
        };
        let receiver = Receiver::start(node, into).await;
        receivers.push(receiver.map_err(Failure::run)?);
    }
    Ok(receivers)
}

async fn stream(network: &mut Network, size: u64, home: &CredentialsFolder) -> Result<(), Failure> {
    let pieces = size.div_ceil(PIECE as u64);
    let receivers = u64::from(home.nodes()) - 1;
    network.arrivals().expect(pieces * receivers);
    for _ in 0..pieces {
        // Each piece has memory of its own, like a piece that was read from a file.
        network.send(Bytes::from(vec![0x5a; PIECE])).await?;
    }
    network.arrivals().wait().await;
    network.settle().await
}
