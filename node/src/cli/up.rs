//! The command `up`: runs a local cluster of real processes, and shows that it works as promised.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::Failure;
use super::arguments::UpFlags;
use super::descriptors;
use super::launch::shaped;
use super::output::{Output, Unwritten, note};
use crate::cluster::{Cluster, ClusterConfig, ClusterError, Member};
use crate::demo::{Demo, DemoError, Event, FEWEST};
use crate::settings::Bootstrap;
use crate::shape::Shape;

/// The time that the nodes have to leave.
const FAREWELL: Duration = Duration::from_secs(15);
/// How often this process checks whether its own parent and its nodes are alive.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct Ready<'a> {
    event: &'static str,
    elapsed_seconds: f64,
    cluster_dir: &'a Path,
    nodes: Vec<&'a Member>,
}

pub(super) async fn up(flags: UpFlags, mut output: Output) -> Result<(), Failure> {
    let config = supported(&flags)?;
    descriptors::check(config.nodes)?;
    let stop = stopped(flags.outlive_parent)?;
    tokio::pin!(stop);
    let started = now();
    let limit = Duration::from_secs(flags.timeout_seconds);
    let spawning = tokio::time::timeout(limit, Cluster::spawn(config));
    let spawned = tokio::select! {
        spawned = spawning => spawned,
        reason = &mut stop => {
            tracing::info!(reason, "stopping");
            return Ok(());
        }
    };
    let cluster = match spawned {
        Ok(Ok(cluster)) => cluster,
        Ok(Err(error @ ClusterError::Silent { .. })) => return Err(Failure::timeout(error)),
        Ok(Err(error)) => return Err(Failure::failed(error)),
        Err(_) => {
            return Err(Failure::timeout(
                "the nodes did not listen in time; give a larger \
                                               --timeout-seconds",
            ));
        }
    };
    let outcome = tokio::select! {
        outcome = present(&cluster, &flags, &mut output, started, limit) => outcome,
        reason = &mut stop => {
            if reason == ORPHANED {
                note(format_args!("the nodes are stopped, since {ORPHANED}; with --outlive-parent \
                                   they continue"));
            }
            tracing::info!(reason, "stopping");
            Ok(())
        }
    };
    if let Err(failure) = &outcome {
        keep_logs(&cluster, failure);
    }
    cluster.shutdown(FAREWELL).await;
    outcome
}

/// The cluster that the flags describe, if they are consistent.
fn supported(flags: &UpFlags) -> Result<ClusterConfig, Failure> {
    if flags.demo && flags.grace_seconds.is_some_and(|seconds| seconds != 0) {
        return Err(Failure::usage(
            "--demo needs a grace of 0 s, so that ranks are compacted at once; leave out \
             --grace-seconds",
        ));
    }
    let mut config = ClusterConfig::new(flags.nodes);
    config.bootstrap = flags.bootstrap;
    if let Some(lists) = lists(flags)? {
        config.nodes = u32::try_from(lists.len()).unwrap_or(u32::MAX);
        config.lists = (0..).zip(lists).collect();
    }
    config.shape = match shaped(flags.shape, flags.bootstrap)? {
        Shape::Balanced { .. } => Shape::Balanced {
            fanout: flags.fanout,
        },
        Shape::Random { .. } => Shape::Random { seed: flags.seed },
        other => other,
    };
    if flags.demo && config.nodes < FEWEST {
        return Err(Failure::usage(format!(
            "--demo kills three nodes and needs at least {FEWEST}; give --nodes {FEWEST} or more"
        )));
    }
    config.profile = flags.profile;
    config.router = flags.router;
    config.signatures = flags.signatures;
    config.fanout = flags.fanout.max(2);
    config.grace_seconds = match flags.demo {
        true => 0,
        false => flags.grace_seconds.unwrap_or(30),
    };
    config.log.clone_from(&flags.log);
    #[cfg(feature = "planted")]
    {
        config.planted = flags.planted.map(|bug| bug.to_string());
    }
    Ok(config)
}

/// The nodes that each node knows at its start. `None` unless `--bootstrap graph` is given.
fn lists(flags: &UpFlags) -> Result<Option<Vec<Vec<u32>>>, Failure> {
    let is_graph = flags.bootstrap == Bootstrap::Graph;
    match &flags.graph {
        None if is_graph => Err(Failure::usage(
            "--bootstrap graph needs a graph: give --graph, such as --graph mesh:4x4",
        )),
        None => Ok(None),
        Some(_) if !is_graph => Err(Failure::usage(
            "--graph is only for --bootstrap graph: add --bootstrap graph, or leave out --graph",
        )),
        Some(graph) => {
            let failed = |problem: String| Failure::usage(format!("--graph: {problem}"));
            let lists = graph.lists(flags.seed);
            let lists = lists.map_err(|error| failed(error.to_string()))?;
            match lists.len() {
                1..=4096 => Ok(Some(lists)),
                count => Err(failed(format!(
                    "{graph} has {count} nodes; give at most 4096"
                ))),
            }
        }
    }
}

async fn present(
    cluster: &Cluster,
    flags: &UpFlags,
    output: &mut Output,
    started: Instant,
    limit: Duration,
) -> Result<(), Failure> {
    let ready = Ready {
        event: "ready",
        elapsed_seconds: 0.0,
        cluster_dir: cluster.dir(),
        nodes: cluster.members().collect(),
    };
    let mut closed = Ok(());
    let mut tell = |output: &mut Output, event: &Event| {
        if closed.is_ok() {
            closed = output.line(event, described);
        }
    };
    let deadline = started + limit;
    if flags.demo {
        let mut demo = Demo::new(cluster, started, deadline, |event: &Event| {
            tell(output, event);
        });
        demo.run().await?;
        return written_status(closed);
    }
    let mut demo = Demo::new(cluster, started, deadline, |event: &Event| {
        tell(output, event);
    });
    demo.formed().await?;
    demo.verified().await?;
    written_status(closed)?;
    let elapsed_seconds = started.elapsed().as_secs_f64();
    let ready = Ready {
        elapsed_seconds,
        ..ready
    };
    let written = output.line(&ready, |ready| {
        let dir = ready.cluster_dir.display();
        format!(
            "ready: {} nodes in {dir}\n  binomesh topology --cluster {dir}\n  \
             binomesh broadcast --cluster {dir} hello\n  \
             binomesh targets --cluster {dir}\nCtrl-C stops them",
            ready.nodes.len()
        )
    });
    written_status(written)?;
    watch(cluster).await
}

/// Explain why the nodes end when standard output is closed: they end with this command, and the
/// command ends with its reader.
fn written_status(written: Result<(), Unwritten>) -> Result<(), Failure> {
    if matches!(written, Err(Unwritten::Closed)) {
        note(
            "the reader of standard output has closed it, so the nodes are stopped; write the \
              output to a file instead",
        );
    }
    Ok(written?)
}

/// Report when a node has died, which the user may intend; end when no node is left.
async fn watch(cluster: &Cluster) -> Result<(), Failure> {
    let mut known: Vec<String> = cluster.live().map(|member| member.name.clone()).collect();
    while !known.is_empty() {
        tokio::time::sleep(LOOK).await;
        let live: Vec<String> = cluster.live().map(|member| member.name.clone()).collect();
        for gone in known.iter().filter(|name| !live.contains(name)) {
            note(format_args!("{gone} has ended"));
        }
        known = live;
    }
    Err(Failure::failed(
        "every node has ended; see the logs of the nodes",
    ))
}

fn described(event: &Event) -> String {
    let mut text = format!("{:8.3} s  {:<10}", event.elapsed_seconds, event.event);
    let nodes = event.nodes.unwrap_or(0);
    let name = event.name.as_deref().unwrap_or("?");
    let rank = event
        .rank
        .map_or_else(|| "no".to_owned(), |rank| rank.to_string());
    text.push_str(&match event.event {
        "formed" => format!("{nodes} nodes are one overlay"),
        "verified" => format!(
            "BMG verified: {} entries of {nodes} nodes are right, agree and are linked",
            event.entries.unwrap_or(0)
        ),
        "broadcast" => format!(
            "from {name} (rank {rank}) reached {} of {}, duplicates {}",
            event.reached_count.unwrap_or(0),
            event.expected_count.unwrap_or(0),
            event.duplicates.unwrap_or(0)
        ),
        "killed" => format!(
            "kill -9 of {name}, {} of rank {rank}; {nodes} nodes left",
            event.role.unwrap_or("node")
        ),
        "healed" => format!("{nodes} nodes are one overlay under the root {name}"),
        _ => format!(
            "{nodes} nodes, duplicates {}",
            event.duplicates.unwrap_or(0)
        ),
    });
    if let Some(bytes) = event.pss_bytes {
        text.push_str(&format!(", {} MiB", bytes >> 20));
    }
    if let Some(seconds) = event.step_seconds {
        text.push_str(&format!(" ({seconds:.3} s)"));
    }
    if event.ok == Some(false) {
        text.push_str("  FAILED");
    }
    text
}

/// Keep the logs of a failed cluster, since its folder is removed.
fn keep_logs(cluster: &Cluster, failure: &Failure) {
    if failure.status == 0 {
        return;
    }
    let logs = cluster
        .members()
        .map(|member| (member.name.as_str(), cluster.log_file(&member.name)));
    if let Ok(kept) = copied(logs, &std::env::temp_dir()) {
        note(format_args!("the nodes' logs are in {}", kept.display()));
    }
}

/// Copy logs to a new folder in `dir`, with a name that no other user can have prepared.
fn copied<'a>(
    logs: impl Iterator<Item = (&'a str, PathBuf)>,
    dir: &Path,
) -> std::io::Result<PathBuf> {
    let kept = tempfile::Builder::new()
        .prefix("binomesh-logs-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(dir)?;
    for (name, log) in logs {
        std::fs::copy(log, kept.path().join(format!("{name}.log")))?;
    }
    Ok(kept.keep())
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::TimedOut { .. } => Self::timeout(error),
            DemoError::Client(error) => error.into(),
            DemoError::Failed { .. } | DemoError::Cluster(_) => Self::failed(error),
        }
    }
}

/// The reason for stopping when the process that started this one has ended.
const ORPHANED: &str = "the process that started this command has ended";

/// Completes when a signal asks this process to stop, or when its parent process has ended, unless
/// it outlives its parent. A signal after that ends the process at once.
fn stopped(outlives_parent: bool) -> Result<impl Future<Output = &'static str>, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let parent = rustix::process::getppid();
    Ok(async move {
        let orphaned = async {
            while outlives_parent || rustix::process::getppid() == parent {
                tokio::time::sleep(LOOK).await;
            }
        };
        let reason = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            () = orphaned => ORPHANED,
        };
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            note(format_args!("stopping at once"));
            std::process::exit(1);
        });
        reason
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "formation is measured by the clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::arguments::{Arguments, Command};
    use super::super::output::Unwritten;
    use super::*;

    fn parsed(line: &str) -> Result<ClusterConfig, Failure> {
        let words = ["binomesh", "up"]
            .into_iter()
            .chain(line.split_whitespace());
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Up(flags) => supported(&flags),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_that_do_not_go_together_are_a_usage_error_with_a_remedy() {
        for (line, remedy) in [
            ("--demo --grace-seconds 30", "leave out --grace-seconds"),
            ("--demo --nodes 4", "--nodes 5"),
            ("--demo --bootstrap graph --graph ring:4", "--nodes 5"),
            ("--bootstrap graph", "give --graph"),
            ("--graph ring:4", "add --bootstrap graph"),
            ("--bootstrap graph --graph ring:5000", "at most 4096"),
            ("--bootstrap graph --graph file:/none", "cannot be read"),
        ] {
            let failure = parsed(line).err().unwrap();
            assert_eq!(failure.status, 2, "{line}");
            assert!(failure.message.contains(remedy), "{failure:?}");
        }
        let config = parsed("--shape binary --fanout 3 --nodes 7").unwrap();
        assert_eq!(
            (config.shape, config.nodes),
            (Shape::Balanced { fanout: 3 }, 7)
        );
        let config = parsed("--router aware --fanout 4").unwrap();
        let router = (config.router.to_string(), config.fanout);
        assert_eq!(router, ("aware".to_owned(), 4));
    }

    #[test]
    fn failures_of_the_demo_have_their_exit_status() {
        let step = "forming".to_owned();
        let late = DemoError::TimedOut {
            step: step.clone(),
            missing: "node-3".into(),
        };
        assert_eq!(Failure::from(late).status, 4);
        let wrong = DemoError::Failed {
            step,
            problem: "node-3".into(),
        };
        assert_eq!(Failure::from(wrong).status, 1);
    }

    #[test]
    fn logs_are_kept_in_a_folder_of_their_own_that_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "said").unwrap();
        let copy = || copied([("node-1", log.clone())].into_iter(), dir.path()).unwrap();
        let (one, other) = (copy(), copy());
        assert_ne!(one, other);
        let text = std::fs::read_to_string(one.join("node-1.log")).unwrap();
        assert_eq!(text, "said");
        let mode = std::fs::metadata(&one).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let guessable = format!("binomesh-logs-{}", std::process::id());
        assert_ne!(one.file_name().unwrap(), guessable.as_str());
    }

    #[test]
    fn broken_pipes_are_quiet() {
        assert_eq!(Failure::from(Unwritten::Closed), Failure::new(0, ""));
    }
}
