//! Fixtures of the cluster tests: clusters, two at a time, single processes, and questions that are
//! repeated until the answer is right.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use binomesh::certificate::{Authority, Validity};
use binomesh::client::{Client, Endpoint};
use binomesh::cluster::{Cluster, ClusterConfig, Listening, Member};
use binomesh::demo::Demo;
use binomesh::verify::Verified;
use binomesh::{NodeConfig, NodeReport, Profile};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Long enough for a loaded machine. A step that takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_binomesh");

/// At most two clusters run at a time, because clusters compete for the processor and nodes notice
/// deaths by the clock. Two are possible, because a test spends most of its time waiting.
static TURNS: Semaphore = Semaphore::const_new(2);

pub(crate) async fn turn() -> SemaphorePermit<'static> {
    TURNS.acquire().await.expect("never closed")
}

#[expect(clippy::disallowed_methods, reason = "patience is wall time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Ask until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until = now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(now() < until, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

pub(crate) fn config(nodes: u32) -> ClusterConfig {
    let mut config = ClusterConfig::new(nodes);
    config.binary = Some(BINARY.into());
    config.profile = Profile::Fast;
    config
}

/// A cluster whose tables were verified.
pub(crate) async fn formed(config: ClusterConfig) -> Cluster {
    let cluster = Cluster::spawn(config).await.expect("started");
    verified(&cluster).await;
    cluster
}

/// Waits until the live nodes are one overlay, and checks that the overlay is the exact graph.
pub(crate) async fn verified(cluster: &Cluster) -> (Vec<NodeReport>, Verified) {
    let mut demo = Demo::new(cluster, now(), now() + PATIENCE, |_| ());
    let reports = demo.formed().await.unwrap_or_else(|e| panic!("{e}"));
    let verified = demo.verified().await.unwrap_or_else(|e| panic!("{e}"));
    (reports, verified)
}

pub(crate) async fn stop(cluster: Cluster) {
    cluster.shutdown(PATIENCE).await;
}

pub(crate) fn member(cluster: &Cluster, name: &str) -> Member {
    let found = cluster.members().find(|member| member.name == name);
    found.expect("a member").clone()
}

/// The value of a counter, summed over the series that contain all `labels`.
pub(crate) async fn counter(client: &Client, name: &str, labels: &[&str]) -> u64 {
    let text = client.text("/metrics").await.unwrap_or_default();
    let wanted = |line: &&str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let values = text.lines().filter(wanted);
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// Send a signal to a process that this test has started.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// Run a command of the binary to its end.
pub(crate) async fn ran(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut command = std::process::Command::new(BINARY);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("spawned");
    let (mut input, bytes) = (child.stdin.take().expect("piped"), stdin.to_vec());
    let ended = tokio::task::spawn_blocking(move || {
        // A command that does not read its input is fine.
        let _ = input.write_all(&bytes);
        drop(input);
        child.wait_with_output()
    });
    ended.await.expect("no panic").expect("ended")
}

/// One process outside any [`Cluster`].
pub(crate) struct Lone {
    pub(crate) config: NodeConfig,
    /// The network namespace of the process. Without a value, the namespace of the test.
    pub(crate) namespace: Option<PathBuf>,
    /// The file that the process sees as `/etc/hosts`. Without a value, the file of the test's
    /// host.
    pub(crate) hosts: Option<PathBuf>,
    home: PathBuf,
    child: Option<Child>,
}

impl Lone {
    /// Prepare a node below `dir` with a certificate of `authority`.
    pub(crate) fn prepare(dir: &Path, name: &str, authority: &Authority) -> Self {
        let home = dir.join(name);
        let issued = authority.issue(name, Validity::days(1)).expect("issued");
        issued.save(&home, false).expect("saved");
        let mut config = NodeConfig::new(name, &home, home.join("state"));
        config.bind = ([127, 0, 0, 1], 0).into();
        config.profile = Profile::Fast;
        config.admin_socket = Some(home.join("admin.sock"));
        config.watch_stdin = true;
        Self {
            config,
            namespace: None,
            hosts: None,
            home,
            child: None,
        }
    }

    /// The folder of its state.
    pub(crate) fn state(&self) -> &Path {
        &self.config.state_dir
    }

    /// Write the settings file of the node.
    pub(crate) fn write(&self) -> PathBuf {
        let file = self.home.join("node.toml");
        let text = toml::to_string(&self.config).expect("TOML");
        std::fs::write(&file, text).expect("written");
        file
    }

    /// Waits for the end of the process and returns the exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("started");
        // Waiting would close the input, and then the process would leave.
        let _input = child.stdin.take();
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        ended.expect("in time").expect("waited").code()
    }

    /// Start it and wait until it listens.
    pub(crate) async fn start(&mut self) -> Member {
        let file = self.write();
        let log = std::fs::File::create(self.home.join("log")).expect("a log");
        let mut command = match (&self.namespace, &self.hosts) {
            (None, None) => Command::new(BINARY),
            (None, Some(hosts)) => {
                let mut command = Command::new("unshare");
                let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
                command.args(["--mount", "--", "sh", "-c", script]);
                command.arg(hosts).arg(BINARY);
                command
            }
            (Some(namespace), _) => {
                let mut command = Command::new("nsenter");
                let option = format!("--net={}", namespace.display());
                command.args([&option, "--", BINARY]);
                command
            }
        };
        command
            .args([Path::new("run"), Path::new("--config"), &file])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command.spawn().expect("spawned");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let line = line.expect("in time").expect("readable");
        let line = line.unwrap_or_else(|| panic!("{}", self.log()));
        let listening: Listening = serde_json::from_str(&line).expect("an event");
        self.child = Some(child);
        listening.member
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Endpoint::Unix(self.home.join("admin.sock")))
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub(crate) async fn kill(&mut self) {
        let mut child = self.child.take().expect("started");
        child.kill().await.expect("killed");
    }

    /// Sends SIGTERM, and returns the exit code.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        self.stop().await
    }

    /// As [`Lone::terminate`], but the node may be started again.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.ended().await
    }

    /// Send a signal to its process.
    pub(crate) fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("started");
        signal(child.id().expect("running"), name);
    }
}
