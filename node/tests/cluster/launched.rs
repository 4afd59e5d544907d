//! Nodes without settings files, each of which finds its place in a list by itself.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use binomesh::NodeReport;
use binomesh::certificate::{Authority, Validity};
use binomesh::client::{Client, Endpoint};
use binomesh::report::Status;
use binomesh::verify::verify;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::bed::{self, PATIENCE, eventually};
use crate::readiness::{authority, free};

/// Processes that were started with the same list. They end when this value is dropped.
struct Launched {
    dir: tempfile::TempDir,
    authority: Authority,
    children: Vec<Child>,
}

impl Launched {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            authority: authority(),
            children: Vec::new(),
        }
    }

    fn credentials(&self) -> PathBuf {
        self.dir.path().join("credentials")
    }

    fn certify(&self, name: &str) {
        let issued = self.authority.issue(name, Validity::days(1)).unwrap();
        issued.save(&self.credentials().join(name), false).unwrap();
    }

    fn home(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `run` of the node `name` with a certificate of its own, these flags and variables.
    fn command(&self, name: &str, flags: &[&str], variables: &[(&str, &str)]) -> Command {
        self.certify(name);
        let folder = self.credentials().display().to_string();
        self.uncertified(
            name,
            &[&["--credentials", &folder], flags].concat(),
            variables,
        )
    }

    /// As [`Launched::command`], without a certificate.
    fn uncertified(&self, name: &str, flags: &[&str], variables: &[(&str, &str)]) -> Command {
        let home = self.home(name);
        std::fs::create_dir_all(&home).unwrap();
        let log = std::fs::File::create(home.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_binomesh"));
        command.arg("run").args(["--profile", "fast"]);
        command.arg("--state-dir").arg(home.join("state"));
        command.arg("--admin-socket").arg(home.join("admin.sock"));
        command.args(flags).envs(variables.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        command
    }

    fn start(&mut self, name: &str, flags: &[&str], variables: &[(&str, &str)]) {
        let child = self.command(name, flags, variables).spawn().unwrap();
        self.children.push(child);
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.home(name).join("log")).unwrap_or_default()
    }

    fn socket(&self, name: &str) -> String {
        self.home(name).join("admin.sock").display().to_string()
    }

    fn client(&self, name: &str) -> Client {
        Client::new(Endpoint::Unix(self.home(name).join("admin.sock")))
    }

    /// Waits until these nodes are the exact graph of one overlay.
    async fn formed(&self, names: &[String]) -> Vec<NodeReport> {
        let first = self.socket(&names[0]);
        let count = names.len().to_string();
        let waited = bed::ran(
            &[
                "wait",
                "--admin",
                &first,
                "--members",
                &count,
                "--timeout-seconds",
                "60",
                "--json",
            ],
            b"",
        )
        .await;
        assert!(
            waited.status.success(),
            "{waited:?} {}",
            self.log(&names[0])
        );
        let status: Status = serde_json::from_slice(&waited.stdout).unwrap();
        assert!(status.ready && status.population == Some(names.len() as u32));
        eventually("the exact graph", async || {
            let mut reports = Vec::new();
            for name in names {
                reports.push(self.client(name).topology().await.ok()?);
            }
            verify(&reports, names.len() as u32).ok().map(|_| reports)
        })
        .await
    }
}

/// The names of the nodes of `host`.
fn names(host: &str, count: usize) -> Vec<String> {
    let name = |number| match number {
        0 => host.to_owned(),
        _ => format!("{host}.{number}"),
    };
    (0..count).map(name).collect()
}

fn list(host: &str, count: usize) -> String {
    let entry = |_| format!("{host}:{}", free().port());
    (0..count).map(entry).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn eight_processes_with_a_list_are_one_overlay() {
    let _turn = bed::turn().await;
    let (mut launched, peers) = (Launched::new(), list("127.0.0.1", 8));
    let names = names("127.0.0.1", 8);
    // The last node starts first, because no node may depend on the order of the starts.
    for (ordinal, name) in names.iter().enumerate().rev() {
        let ordinal = ordinal.to_string();
        launched.start(name, &["--ordinal", &ordinal, "--peers", &peers], &[]);
    }
    let reports = launched.formed(&names).await;
    let root = reports.iter().find(|report| report.parent.is_none());
    assert_eq!(root.map(|root| &root.name), Some(&names[0]));
}

/// Without a tree the ordinals are the ranks, whichever node starts first.
#[tokio::test]
async fn eight_processes_with_a_list_and_no_tree_have_their_ordinals_as_ranks() {
    let _turn = bed::turn().await;
    let (mut launched, peers) = (Launched::new(), list("127.0.0.1", 8));
    let names = names("127.0.0.1", 8);
    for (ordinal, name) in names.iter().enumerate().rev() {
        let ordinal = ordinal.to_string();
        let flags = [
            "--bootstrap",
            "clique",
            "--ordinal",
            &ordinal,
            "--peers",
            &peers,
        ];
        launched.start(name, &flags, &[]);
    }
    let mut reports = launched.formed(&names).await;
    reports.sort_by_key(|report| report.rank);
    assert!(reports.iter().map(|report| &report.name).eq(&names));
}

#[tokio::test]
async fn without_ordinal_0_the_smallest_one_is_root() {
    let _turn = bed::turn().await;
    let (mut launched, peers) = (Launched::new(), list("127.0.0.1", 6));
    let names = names("127.0.0.1", 6);
    for (ordinal, name) in names.iter().enumerate().skip(1) {
        let ordinal = ordinal.to_string();
        let flags = [
            "--ordinal",
            &ordinal,
            "--peers",
            &peers,
            "--shape",
            "binary",
        ];
        launched.start(name, &flags, &[]);
    }
    let reports = launched.formed(&names[1..]).await;
    let root = reports.iter().find(|report| report.parent.is_none());
    assert_eq!(root.map(|root| &root.name), Some(&names[1]));
}

/// Names of a list are DNS names. One of them has no address.
#[tokio::test]
async fn hosts_of_a_list_are_resolved_and_one_that_is_not_is_logged_once() {
    let _turn = bed::turn().await;
    let mut launched = Launched::new();
    let peers = format!("{},gone@nobody.invalid:7400", list("localhost", 3));
    let names = names("localhost", 3);
    for (ordinal, name) in names.iter().enumerate() {
        let ordinal = ordinal.to_string();
        let flags = ["--ordinal", &ordinal, "--peers", &peers, "--shape", "flat"];
        launched.start(name, &flags, &[]);
    }
    launched.formed(&names).await;
    let lines = |name: &str| {
        let log = launched.log(name);
        log.matches("`nobody.invalid` does not resolve").count()
    };
    let metric = "binomesh_transport_handshake_failures_total";
    eventually("several attempts of the root", async || {
        let client = launched.client(&names[0]);
        let failed = bed::counter(&client, metric, &["unresolved"]).await;
        (failed >= 3).then_some(())
    })
    .await;
    assert_eq!(lines(&names[0]), 1, "{}", launched.log(&names[0]));
}

/// Two hosts that run two tasks each, at addresses of this machine.
#[tokio::test]
async fn the_tasks_of_a_slurm_step_are_one_overlay() {
    let _turn = bed::turn().await;
    let mut launched = Launched::new();
    let port = two_free_ports().to_string();
    let mut all = Vec::new();
    for node in 0..2 {
        for (local, name) in names(&format!("127.0.0.{}", node + 1), 2)
            .into_iter()
            .enumerate()
        {
            let (node, local) = (node.to_string(), local.to_string());
            let variables = [
                ("SLURM_JOB_ID", "7"),
                ("SLURM_STEP_NODELIST", "127.0.0.[1-2]"),
                ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
                ("SLURM_NODEID", &node),
                ("SLURM_LOCALID", &local),
            ];
            let flags = ["--launch", "auto", "--port", &port, "--bind-own"];
            launched.start(&name, &flags, &variables);
            all.push(name);
        }
    }
    launched.formed(&all).await;
}

/// Four tasks of a job get the secret: two from a file and two from a variable. The fifth task is
/// of another job with the same secret.
#[tokio::test]
async fn the_tasks_of_a_job_need_a_secret_alone_and_another_job_is_a_stranger() {
    let _turn = bed::turn().await;
    let mut launched = Launched::new();
    let file = launched.dir.path().join("secret").display().to_string();
    let made = bed::ran(&["ca", "job-secret", "--out", &file], b"").await;
    assert!(made.status.success(), "{made:?}");
    let secret = std::fs::read_to_string(&file).unwrap();
    let peers = list("127.0.0.1", 5);
    let all = names("127.0.0.1", 5);
    for (ordinal, name) in all.iter().enumerate() {
        let ordinal = ordinal.to_string();
        let (source, job) = match ordinal.as_str() {
            "0" | "1" => (file.as_str(), "7-0"),
            "4" => (file.as_str(), "7-1"),
            _ => ("env:OUR_SECRET", "7-0"),
        };
        let flags = [
            "--ordinal",
            &ordinal,
            "--peers",
            &peers,
            "--job-secret",
            source,
            "--job-id",
        ];
        let script = "[ -z \"$OUR_SECRET\" ] && sleep 600";
        let command = ["--", "sh", "-c", script];
        let flags = [&flags[..], &[job], &command[..]].concat();
        let variable = [("OUR_SECRET", secret.as_str())];
        let count = usize::from(source.starts_with("env:"));
        let child = launched
            .uncertified(name, &flags, &variable[..count])
            .spawn();
        launched.children.push(child.unwrap());
    }
    launched.formed(&all[..4]).await;
    let stranger = eventually("a refusal", async || {
        let log = launched.log(&all[4]);
        log.contains("refused").then_some(log)
    });
    let logs = stranger.await
        + &all
            .iter()
            .map(|name| launched.log(name))
            .collect::<String>();
    assert!(!logs.contains(secret.trim()), "the secret is in a log");
    let stranger = launched.client(&all[4]).status().await.unwrap();
    assert!(!stranger.ready, "{stranger:?}");
    for child in &mut launched.children[..4] {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "its command saw the secret: {ended:?}");
    }
}

/// A port that is free at both addresses. The next port is free there too.
fn two_free_ports() -> u16 {
    let is_free = |port: u16| {
        let hosts = [1, 2].map(|host| Ipv4Addr::new(127, 0, 0, host));
        let sockets = hosts.map(|host| {
            UdpSocket::bind((host, port)).and_then(|_| UdpSocket::bind((host, port + 1)))
        });
        sockets.iter().all(Result::is_ok)
    };
    let found = (0..100)
        .map(|_| free().port())
        .find(|port| *port < u16::MAX && is_free(*port));
    found.expect("two free ports")
}

/// A node that is alone, with a command.
fn alone(launched: &Launched, script: &str) -> Command {
    let peers = list("127.0.0.1", 1);
    let flags = [
        "--ordinal",
        "0",
        "--peers",
        &peers,
        "--",
        "sh",
        "-c",
        script,
    ];
    launched.command("127.0.0.1", &flags, &[])
}

async fn line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    let read = tokio::time::timeout(PATIENCE, output.read_line(&mut line));
    read.await.expect("in time").expect("readable");
    line
}

async fn started(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

async fn code(child: &mut Child) -> Option<i32> {
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    ended.expect("in time").unwrap().code()
}

#[tokio::test]
async fn a_command_starts_when_the_node_is_a_member_and_its_status_is_that_of_run() {
    let _turn = bed::turn().await;
    let (mut launched, peers) = (Launched::new(), list("127.0.0.1", 2));
    let names = names("127.0.0.1", 2);
    let binary = env!("CARGO_BIN_EXE_binomesh");
    let script = format!(
        "{binary} status >/dev/null || exit 8
         {binary} wait --members 2 --timeout-seconds 60
         echo $BINOMESH_ORDINAL $BINOMESH_SIZE; exit 7"
    );
    let flags = [
        "--ordinal",
        "1",
        "--peers",
        &peers,
        "--",
        "sh",
        "-c",
        &script,
    ];
    let (mut child, mut output) = started(launched.command(&names[1], &flags, &[])).await;
    launched.start(&names[0], &["--ordinal", "0", "--peers", &peers], &[]);
    let mut text = String::new();
    let read = tokio::time::timeout(PATIENCE, output.read_to_string(&mut text));
    read.await.expect("in time").expect("readable");
    assert!(
        text.ends_with("\n1 2\n"),
        "{text:?} {}",
        launched.log(&names[1])
    );
    assert_eq!(code(&mut child).await, Some(7));
    // The node has said goodbye.
    eventually("the other one is alone", async || {
        let status = launched.client(&names[0]).status().await.ok()?;
        (status.population == Some(1) && status.lost_count == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_command_gets_the_signals_and_dies_with_its_node() {
    let _turn = bed::turn().await;
    let launched = Launched::new();
    let script = "trap 'exit 9' TERM; trap 'echo one' USR1; echo up; while :; do sleep 0.05; done";
    let (mut child, mut output) = started(alone(&launched, script)).await;
    assert_eq!(line(&mut output).await, "up\n");
    let pid = child.id().unwrap();
    bed::signal(pid, "USR1");
    assert_eq!(line(&mut output).await, "one\n");
    bed::signal(pid, "TERM");
    assert_eq!(code(&mut child).await, Some(9));
    assert!(!Path::new(&launched.socket("127.0.0.1")).exists());

    let launched = Launched::new();
    let (mut child, mut output) = started(alone(&launched, "echo up; kill -9 $$")).await;
    assert_eq!(line(&mut output).await, "up\n");
    assert_eq!(code(&mut child).await, Some(128 + 9));

    // The output closes when the last process that holds it ends.
    let launched = Launched::new();
    let (mut child, mut output) = started(alone(&launched, "echo up; exec sleep 1000")).await;
    assert_eq!(line(&mut output).await, "up\n");
    child.kill().await.unwrap();
    assert_eq!(line(&mut output).await, "", "the end of the output");

    let launched = Launched::new();
    let peers = list("127.0.0.1", 1);
    let flags = ["--ordinal", "0", "--peers", &peers, "--", "no-such-program"];
    let mut child = launched.command("127.0.0.1", &flags, &[]).spawn().unwrap();
    assert_eq!(code(&mut child).await, Some(127));
    assert!(launched.log("127.0.0.1").contains("no-such-program"));
}

/// A node that is no member yet, because its parent in the list has not started.
async fn waiting(launched: &Launched) -> Child {
    let peers = list("127.0.0.1", 2);
    let name = &names("127.0.0.1", 2)[1];
    let flags = ["--ordinal", "1", "--peers", &peers, "--", "true"];
    let child = launched.command(name, &flags, &[]).spawn().unwrap();
    eventually("the node serves", async || {
        launched.client(name).status().await.ok()
    })
    .await;
    child
}

#[tokio::test]
async fn a_node_that_ends_before_its_command_starts_has_failed() {
    let _turn = bed::turn().await;
    for (signal, status) in [("USR1", 10), ("QUIT", 3), ("TERM", 15)] {
        let launched = Launched::new();
        let mut child = waiting(&launched).await;
        bed::signal(child.id().unwrap(), signal);
        assert_eq!(code(&mut child).await, Some(128 + status), "{signal}");
        let socket = launched.socket("127.0.0.1.1");
        assert!(!Path::new(&socket).exists(), "{signal}: it has ended well");
    }
    let launched = Launched::new();
    let mut child = waiting(&launched).await;
    let left = bed::ran(&["leave", "--admin", &launched.socket("127.0.0.1.1")], b"").await;
    assert!(left.status.success(), "{left:?}");
    assert_eq!(code(&mut child).await, Some(1));
    let log = launched.log("127.0.0.1.1");
    assert!(log.contains("before its command could start"), "{log}");
}

#[tokio::test]
async fn wait_says_what_is_missing_and_ends_with_4() {
    let _turn = bed::turn().await;
    let (mut launched, peers) = (Launched::new(), list("127.0.0.1", 1));
    launched.start("127.0.0.1", &["--ordinal", "0", "--peers", &peers], &[]);
    let socket = launched.socket("127.0.0.1");
    let of = ["wait", "--admin", &socket, "--members"];
    let there = bed::ran(&[&of[..], &["1"]].concat(), b"").await;
    assert!(there.status.success(), "{there:?}");
    let late = bed::ran(&[&of[..], &["2", "--timeout-seconds", "1"]].concat(), b"").await;
    let text = String::from_utf8(late.stderr).unwrap();
    assert_eq!(late.status.code(), Some(4), "{text}");
    assert!(
        text.contains("counts 1 of 2 members") && late.stdout.is_empty(),
        "{text}"
    );
    let nowhere = launched.dir.path().join("none").display().to_string();
    let waited = [
        "wait",
        "--cluster",
        &nowhere,
        "--members",
        "1",
        "--timeout-seconds",
        "1",
    ];
    let late = bed::ran(&waited, b"").await;
    assert_eq!(late.status.code(), Some(4), "{late:?}");
}
