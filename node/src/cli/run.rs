//! The command `run`: runs one node until the node is asked to leave or ends by itself, or until
//! the command that runs with it ends. On SIGHUP the node's credentials are read again.

use std::convert::Infallible;
use std::io::Read;
use std::task::Poll;
use std::time::Duration;

use rustix::process::Signal as Signalled;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::arguments::RunFlags;
use super::job::{Job, JobEnd};
use super::launch::{LaunchFlags, check_stdin, name_of};
use super::output::Output;
use super::{Failure, runtime, service, start_log};
use crate::admin::{Admin, Admission, AdmissionError, MetricsPort};
use crate::catalogue;
use crate::cluster::{Listening, Member};
use crate::config::{Layer, Layers, bootstrap, load};
use crate::credentials::{Credentials, CredentialsError};
use crate::exporter::Exporter;
use crate::node::{Ended, Node};
use crate::push::{Into, Receiver};
use crate::recorder::{SharedRecorder, recording};
use crate::settings::{Bootstrap, NodeConfig, SecretSource};
use crate::state::wall_clock_seconds;

/// After how long the credentials of a job are renewed: a third of their validity.
const JOB_RENEWAL: Duration = Duration::from_secs(10 * 24 * 3600);
/// The pause before a failed renewal of a job's credentials is tried again.
const NEXT_TRY: Duration = Duration::from_secs(3600);
/// How much longer than its drain time a leave may take.
const GOODBYE: Duration = Duration::from_secs(10);

pub(super) fn run(flags: &RunFlags) -> Result<(), Failure> {
    let (config, place) = settings(flags)?;
    check_stdin(&config, !flags.command.is_empty())?;
    start_log(&config.log, config.log_json)?;
    let job = (!flags.command.is_empty()).then(|| Job {
        command: flags.command.clone(),
        place,
        admin_socket: config.admin_socket.clone(),
        secret: match &config.job_secret {
            Some(SecretSource::Variable(name)) => Some(name.clone()),
            _ => None,
        },
    });
    let runtime = runtime(config.threads)?;
    let ended = runtime.block_on(serve(config, job));
    // Do not wait for ever for a file on a disk that hangs.
    runtime.shutdown_timeout(GOODBYE);
    ended
}

async fn serve(mut config: NodeConfig, job: Option<Job>) -> Result<(), Failure> {
    let exporter = Exporter::new(&config.name).map_err(Failure::failed)?;
    let recorder = exporter.recorder();
    // Signals must be handled before any other process can know this one and signal it.
    let hangups = listen(SignalKind::hangup())?;
    let mut stop = Stop::new(config.watch_stdin, job.is_some())?;
    let port = MetricsPort::bind(&mut config).await;
    let port = port.map_err(Failure::failed)?;
    let node =
        Node::start_recorded(config.clone(), exporter.recorder()).map_err(Failure::failed)?;
    let _files = receiver(&node, &config).await?;
    let admin = Admin::serve(node.clone(), exporter, &config, port)
        .await
        .map_err(Failure::failed)?;
    tracing::info!(name = node.name(), id = %node.id(), address = %node.address(), "listening");
    let member = Member {
        name: node.name().to_owned(),
        id: node.id().to_string(),
        pid: std::process::id(),
        address: node.address(),
        admin_socket: config.admin_socket.clone().unwrap_or_default(),
        metrics_url: admin.metrics_url().unwrap_or_default(),
    };
    let listening = Listening {
        event: "listening".to_owned(),
        member,
    };
    if job.is_none() {
        // The node goes on even if standard output is closed.
        let _ = Output::stdout(true).line(&listening, |_| "");
    }
    let drain = Duration::from_secs(config.drain_seconds);
    let outcome = tokio::select! {
        outcome = lived(&node, job, &mut stop, drain) => outcome,
        never = renew(&node, &admin, &config, hangups, recorder) => match never {},
        never = service::tell(&node) => match never {},
    };
    admin.stop().await;
    outcome
}

/// Wait until the node ends: by itself, on request, or with its job.
async fn lived(
    node: &Node,
    job: Option<Job>,
    stop: &mut Stop,
    drain: Duration,
) -> Result<(), Failure> {
    let Some(job) = job else {
        let ended = tokio::select! {
            ended = node.stopped() => ended,
            reason = stop.asked() => {
                tracing::info!(reason, "leaving");
                leave(node, stop, drain).await
            }
        };
        return outcome(node, ended);
    };
    let ended = tokio::select! {
        ended = node.stopped() => {
            return outcome(node, ended).and(Err(Failure::failed(
                "the node ended before its command could start",
            )));
        }
        signal = stop.passed_on() => Ok(JobEnd::before_start(signal)),
        // `ready` fails when the node ends, so the command is not started then.
        Ok(_) = node.ready(1) => match job.start() {
            Err(failure) => Err(failure),
            Ok(mut running) => tokio::select! {
                ended = running.ended(stop) => ended,
                ended = node.stopped() => {
                    tracing::warn!("the node has ended, so its command is ended too");
                    running.end().await;
                    return outcome(node, ended).and(Err(Failure::failed(
                        "the node ended before its command ended",
                    )));
                }
            },
        },
    };
    tracing::info!("leaving, since the command has ended");
    leave(node, stop, drain).await;
    ended?.outcome()
}

fn outcome(node: &Node, ended: Ended) -> Result<(), Failure> {
    match ended {
        Ended::Asked => Ok(()),
        Ended::Panicked => Err(Failure::failed(
            "a bug: the loop of the node panicked; see the log lines above",
        )),
        Ended::Superseded { address } => Err(Failure::superseded(format!(
            "a newer process at {address} has the identity of this node; stop one of the two \
             processes, or give one a certificate of its own"
        ))),
        Ended::TransportFailed => Err(Failure::failed(format!(
            "the socket at {} failed; see the log lines above",
            node.address()
        ))),
    }
}

/// Take files that are pushed to this node, if a folder for them is set.
async fn receiver(node: &Node, config: &NodeConfig) -> Result<Option<Receiver>, Failure> {
    let Some(folder) = &config.push_dir else {
        return Ok(None);
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        let folder = folder.display();
        Failure::failed(format!(
            "cannot create the folder `push_dir`, {folder}: {error}; choose another folder"
        ))
    })?;
    let taking = Receiver::start(node, Into::Folder(folder.clone())).await;
    taking.map(Some).map_err(Failure::failed)
}

/// Read the credentials again at each SIGHUP, and renew those of a job in time. If credentials
/// cannot be used, that is logged, and the node keeps the former ones. If only the token of the
/// metrics port cannot be used, just that port keeps its former rules.
async fn renew(
    node: &Node,
    admin: &Admin,
    config: &NodeConfig,
    mut hangups: Signal,
    recorder: SharedRecorder,
) -> Infallible {
    let is_job = config.job_secret.is_some();
    let mut pause = if is_job { JOB_RENEWAL } else { Duration::MAX };
    loop {
        tokio::select! {
            Some(()) = hangups.recv() => {}
            () = tokio::time::sleep(pause) => {}
        }
        let renewed = renew_once(node, admin, config.clone()).await;
        let outcome = if renewed.is_ok() { "ok" } else { "failed" };
        recording(Some(&recorder), || {
            catalogue::CREDENTIAL_RELOADS.with([outcome]).increment(1);
            catalogue::CREDENTIAL_RELOAD
                .get()
                .set(wall_clock_seconds() as f64);
        });
        match renewed {
            Ok(()) => {
                tracing::info!("credentials renewed");
                pause = if is_job { JOB_RENEWAL } else { Duration::MAX };
            }
            Err(problem) => {
                match problem {
                    NotRenewed::Refused(error) => {
                        tracing::error!(
                            error,
                            "the credentials could not be renewed; the node \
                                                continues with the former ones"
                        );
                    }
                    NotRenewed::MetricsPort(error) => tracing::error!(
                        %error,
                        "the links use the new credentials, but the metrics port still uses the \
                         former ones"
                    ),
                }
                pause = if is_job { NEXT_TRY } else { Duration::MAX };
            }
        }
    }
}

/// Why a renewal failed, wholly or in part.
enum NotRenewed {
    /// The node keeps its former credentials, for this reason.
    Refused(String),
    /// Links use the new credentials, but the metrics port does not: a bad token must not keep a
    /// new revocation list from the links.
    MetricsPort(AdmissionError),
}

async fn renew_once(node: &Node, admin: &Admin, config: NodeConfig) -> Result<(), NotRenewed> {
    let load = move || {
        let credentials = Credentials::load(&config)?;
        let admission = Admission::of(&config, &credentials);
        Ok::<_, CredentialsError>((credentials, admission))
    };
    let refused = |error: &dyn ToString| NotRenewed::Refused(error.to_string());
    // Reading files may be slow, and this may be the node's only thread.
    let loaded = tokio::task::spawn_blocking(load).await;
    let loaded = loaded.map_err(|panic| refused(&panic))?;
    let (credentials, admission) = loaded.map_err(|error| refused(&error))?;
    let renewed = node.renew(credentials).await;
    renewed.map_err(|error| refused(&error))?;
    admin.renew(admission.map_err(NotRenewed::MetricsPort)?);
    Ok(())
}

/// Let the node leave. At a signal meanwhile, or when leaving takes too long, the node stops at
/// once, without a goodbye.
async fn leave(node: &Node, stop: &mut Stop, drain: Duration) -> Ended {
    service::stopping();
    let leaving = tokio::time::timeout(drain.saturating_add(GOODBYE), node.leave(drain));
    tokio::select! {
        left = leaving => {
            if left.is_err() {
                tracing::warn!("leaving took too long; the node stops now");
            }
        }
        signal = stop.signalled() => tracing::warn!(?signal, "a signal came while the node was leaving, so the node stops at once"),
    }
    node.shutdown().await;
    node.stopped().await
}

/// The settings, and the node's place and the number of nodes, if it has a place.
fn settings(flags: &RunFlags) -> Result<(NodeConfig, Option<(u32, u32)>), Failure> {
    let placement = flags.place.placement()?;
    let mut settings = flags.settings.clone();
    let name = name_of(placement.as_ref(), settings.name.as_ref());
    // The sibling tree needs at least two children per node, while the shape may be a chain.
    let least = if placement.is_some() { 2 } else { 0 };
    settings.fanout = settings.fanout.map(|fanout| fanout.max(least));
    let secret = flags.place.job_secret.as_ref().map(ToString::to_string);
    let given = Layer::flags(&settings).map_err(Failure::usage)?;
    let given = given.and(flags.place.certified(name.as_deref())).and([
        ("job_secret", secret),
        ("job_id", flags.place.job_id.clone()),
    ]);
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Layer::environment(variables).map_err(Failure::usage)?;
    let mut layers = Layers {
        environment,
        flags: given,
        ..Layers::default()
    };
    if let Some(placement) = &placement {
        let file = flags.config.as_deref();
        let given = flags.place.bootstrap;
        let bootstrap = given.or_else(|| bootstrap(file, &layers.environment));
        let bootstrap = bootstrap.unwrap_or(Bootstrap::Tree);
        layers.placed = flags
            .place
            .placed(placement, bootstrap, flags.settings.fanout)?;
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_both = (settings.state_dir.is_some() || is_set("BINOMESH_STATE_DIR"))
            && (settings.admin_socket.is_some() || is_set("BINOMESH_ADMIN_SOCKET"));
        layers.defaults = LaunchFlags::defaults(placement, flags.config.is_some() || has_both)?;
    }
    let config = load(flags.config.as_deref(), layers).map_err(Failure::usage)?;
    let place = placement.map(|placement| (placement.ordinal, placement.size()));
    Ok((config, place))
}

/// All the ways in which a daemon is asked to stop.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    orphaned: Option<oneshot::Receiver<()>>,
    /// Further signals for the command. Without a command they end this process, as they end any
    /// other.
    others: Vec<(Signalled, Signal)>,
}

impl Stop {
    fn new(watch_stdin: bool, has_command: bool) -> Result<Self, Failure> {
        let others = [
            (Signalled::USR1, SignalKind::user_defined1()),
            (Signalled::USR2, SignalKind::user_defined2()),
            (Signalled::QUIT, SignalKind::quit()),
        ];
        let others = others.into_iter().filter(|_| has_command);
        let listened = others.map(|(signal, kind)| Ok((signal, listen(kind)?)));
        Ok(Self {
            others: listened.collect::<Result<_, Failure>>()?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            orphaned: watch_stdin.then(stdin_closed),
        })
    }

    async fn asked(&mut self) -> &'static str {
        let orphaned = async {
            match self.orphaned.as_mut() {
                Some(orphaned) => drop(orphaned.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = orphaned => "standard input closed",
        }
    }

    /// The next signal to pass on to the command.
    pub(super) async fn passed_on(&mut self) -> Signalled {
        let others = &mut self.others;
        let other = std::future::poll_fn(|context| {
            let came = others
                .iter_mut()
                .find_map(|(name, signal)| signal.poll_recv(context).is_ready().then_some(*name));
            came.map_or(Poll::Pending, Poll::Ready)
        });
        tokio::select! {
            _ = self.terminate.recv() => Signalled::TERM,
            _ = self.interrupt.recv() => Signalled::INT,
            signal = other => signal,
        }
    }

    /// The next of the two signals that ask a process to end.
    async fn signalled(&mut self) -> Signalled {
        tokio::select! {
            _ = self.terminate.recv() => Signalled::TERM,
            _ = self.interrupt.recv() => Signalled::INT,
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")))
}

/// Completes when standard input ends. It reads in a thread of its own, which ends with the
/// process: a runtime would wait for a blocked read.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (sender, closed) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
        let _ = sender.send(());
    });
    closed
}
