//! `verify`: whether running nodes, taken together, are the exact binomial graph.

use std::path::PathBuf;
use std::time::Duration;

use binomesh::client::{Client, Endpoint};
use binomesh::report::NodeReport;
use binomesh::verify::verify;
use clap::Args;

use super::live::setup::block_on;
use super::{Failure, Finding};
use crate::record::{Stopwatch, note, print_json, print_table};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Check that running nodes together form the exact binomial graph.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  binomesh-bench verify /run/user/1000/binomesh/*/admin.sock --timeout-seconds 30")]
pub struct Verify {
    /// The admin sockets of all members.
    #[arg(required = true, value_name = "SOCKET")]
    pub sockets: Vec<PathBuf>,
    /// How many seconds the nodes may take to form the exact graph.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub timeout_seconds: u64,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

impl Verify {
    /// Look until the nodes are the exact graph, or the time is over.
    pub fn run(self) -> Result<Finding, Failure> {
        block_on(async |stop| {
            tokio::select! {
                found = self.look() => found,
                () = stop.cancelled() => Err(Failure::Run("interrupted".to_owned())),
            }
        })
    }

    async fn look(&self) -> Result<Finding, Failure> {
        let count = u32::try_from(self.sockets.len()).unwrap_or(u32::MAX);
        let watch = Stopwatch::start();
        loop {
            let found = match self.reports().await {
                Ok(reports) => verify(&reports, count).map_err(|defects| {
                    let shown = defects.iter().take(8).map(ToString::to_string);
                    shown.collect::<Vec<_>>().join("\n")
                }),
                Err(silent) => Err(silent),
            };
            match found {
                Ok(verified) => {
                    let print = if self.json { print_json } else { print_table };
                    print(&verified)?;
                    return Ok(Finding::Good);
                }
                Err(defects) if watch.elapsed().as_secs() >= self.timeout_seconds => {
                    note(format_args!("{defects}"));
                    return Ok(Finding::Bad);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn reports(&self) -> Result<Vec<NodeReport>, String> {
        let mut reports = Vec::new();
        for socket in &self.sockets {
            let asked = Client::new(Endpoint::Unix(socket.clone())).topology().await;
            reports.push(asked.map_err(|error| format!("{}: {error}", socket.display()))?);
        }
        Ok(reports)
    }
}
