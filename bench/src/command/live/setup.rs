//! The cluster of a measurement: its options, how it is made and removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use binomesh::Profile;
use binomesh::cluster::{Cluster, ClusterConfig, Place};
use binomesh::demo::Demo;
use binomesh::shape::Shape;
use binomesh_overlay::config::Pace;
use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::command::{Failure, Finding};
use crate::record;
use folder::Folder;

mod folder;

/// What all workloads are told about their cluster.
#[derive(Debug, Clone, Args)]
pub struct Setup {
    /// How closely the nodes watch each other: default, fast or quiet.
    #[arg(long, default_value_t = Profile::Default)]
    pub profile: Profile,
    /// The deployment tree: binomial, binary, flat or random.
    #[arg(long, default_value_t = Shape::Binomial)]
    pub shape: Shape,
    /// How many seconds the rank of a dead node stays vacant [default: 30 for `pause`, `stall` and
    /// `uplink`, else 0].
    #[arg(long)]
    pub grace_seconds: Option<u64>,
    /// The seed of all random choices: victims, halves and origins.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The time limit of forming and of healing.
    #[arg(long, default_value_t = 120)]
    pub timeout_seconds: u64,
    /// The program of the nodes [default: `binomesh` beside this program].
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// The log filter of the nodes.
    #[arg(long, default_value = "info")]
    pub log: String,
    /// Copy the logs of the nodes to this folder before the run removes them.
    #[arg(long)]
    pub keep_logs: Option<PathBuf>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The fields about its run that every row has.
#[derive(Debug, Clone, Serialize)]
pub struct Context {
    /// The workload of the run.
    pub workload: &'static str,
    /// The number of nodes.
    pub nodes: u32,
    /// The profile of the nodes.
    pub profile: String,
    /// The deployment tree.
    pub shape: String,
    /// The seconds for which a dead node's rank stays vacant.
    pub grace_seconds: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of processors of this machine.
    pub cores: usize,
    /// The version of the code that ran.
    pub version: &'static str,
}

impl Setup {
    /// Use the grace that nodes have by default, unless another one was requested.
    pub fn take_usual_grace(&mut self) {
        let usual = Pace::default().grace.as_secs();
        self.grace_seconds.get_or_insert(usual);
    }

    /// The seconds for which a dead node's rank stays vacant.
    pub fn grace(&self) -> u64 {
        self.grace_seconds.unwrap_or(0)
    }

    /// The fields about this run that every row has.
    pub fn context(&self, workload: &'static str, nodes: u32) -> Context {
        Context {
            workload,
            nodes,
            profile: self.profile.to_string(),
            shape: self.shape.to_string(),
            grace_seconds: self.grace(),
            seed: self.seed,
            cores: cores(),
            version: record::VERSION,
        }
    }

    /// Print a row, one line of JSON or a table.
    pub fn print(&self, row: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            record::print_json(row)?;
        } else {
            record::print_table(row)?;
        }
        Ok(())
    }

    /// The longest time for forming and healing.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// The time from the death of a node until a neighbour takes it for down.
    pub fn detection(&self) -> Duration {
        let pace = match self.profile {
            Profile::Default => Pace::default(),
            Profile::Fast => Pace::fast(),
            Profile::Quiet => Pace::quiet(),
        };
        pace.detection()
    }

    /// Make a cluster, wait until it is the exact graph, run `body` with it, and remove it in any
    /// case.
    pub async fn with_cluster<T>(
        &self,
        nodes: u32,
        places: Vec<Place>,
        stop: &CancellationToken,
        body: impl AsyncFnOnce(&Cluster) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let folder = Folder::make().map_err(Failure::run)?;
        let mut config = self.config(nodes, places)?;
        config.folder = Some(folder.path().to_owned());
        let asked = || Failure::Run("the run was stopped by a signal before its end".to_owned());
        let cluster = tokio::select! {
            spawned = Cluster::spawn(config) => spawned.map_err(Failure::run)?,
            () = stop.cancelled() => return Err(asked()),
        };
        let work = async {
            verified(&cluster, self.timeout()).await?;
            body(&cluster).await
        };
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = stop.cancelled() => Err(asked()),
        };
        let names: Vec<String> = cluster.members().map(|one| one.name.clone()).collect();
        let killed = cluster.kill_all(&names).await;
        if let Some(folder) = &self.keep_logs {
            keep_logs(&cluster, folder)?;
        }
        killed.map_err(Failure::run)?;
        outcome
    }

    /// As [`Setup::with_cluster`], and print the row that `body` returns.
    pub async fn measure<T: Serialize>(
        &self,
        nodes: u32,
        places: Vec<Place>,
        stop: &CancellationToken,
        body: impl AsyncFnOnce(&Cluster) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let row = self.with_cluster(nodes, places, stop, body).await?;
        record::progress_done();
        self.print(&row)?;
        Ok(row)
    }

    fn config(&self, nodes: u32, places: Vec<Place>) -> Result<ClusterConfig, Failure> {
        let mut config = ClusterConfig::new(nodes);
        config.shape = match self.shape {
            Shape::Random { .. } => Shape::Random { seed: self.seed },
            shape => shape,
        };
        config.profile = self.profile;
        config.grace_seconds = self.grace();
        config.places = places;
        config.log.clone_from(&self.log);
        config.binary = Some(match &self.binary {
            Some(binary) => binary.clone(),
            None => beside()?,
        });
        Ok(config)
    }
}

/// Wait until the live nodes are one overlay whose tables are the exact graph.
pub async fn verified(cluster: &Cluster, patience: Duration) -> Result<(), Failure> {
    let begun = now();
    let mut demo = Demo::new(cluster, begun, begun + patience, |_| ());
    demo.formed().await.map_err(Failure::run)?;
    demo.verified().await.map_err(Failure::run)?;
    Ok(())
}

/// The nodes' program in the folder of this one.
fn beside() -> Result<PathBuf, Failure> {
    let me = std::env::current_exe().map_err(Failure::run)?;
    let found = me.with_file_name("binomesh");
    found.is_file().then_some(found).ok_or_else(|| {
        let dir = me.parent().unwrap_or(Path::new(".")).display();
        Failure::Usage(format!(
            "there is no `binomesh` in {dir}; build it (cargo build --release --workspace) or \
             name it with --binary"
        ))
    })
}

fn keep_logs(cluster: &Cluster, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::run)?;
    for member in cluster.members() {
        let to = folder.join(format!("{}.log", member.name));
        std::fs::copy(cluster.log_file(&member.name), to).map_err(Failure::run)?;
    }
    Ok(())
}

/// Run a measurement; its token is cancelled by SIGINT and SIGTERM.
pub fn block_on(
    body: impl AsyncFnOnce(&CancellationToken) -> Result<Finding, Failure>,
) -> Result<Finding, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::run)?;
    let stop = CancellationToken::new();
    let finding = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::run)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::run)?;
        let asked = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            asked.cancel();
        });
        body(&stop).await
    });
    record::progress_done();
    finding
}

/// The number of processors.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The clock of the measurements.
#[expect(
    clippy::disallowed_methods,
    reason = "real processes are measured by the clock"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// The smallest value that is not below this share of all values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    record::quantile(&sorted, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = [3.0, 1.0, 2.0, 4.0];
        for (share, expected) in [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (1.0, 4.0)] {
            assert_eq!(quantile(&values, share), Some(expected), "{share}");
        }
        assert_eq!(quantile(&[], 0.5), None);
    }
}
