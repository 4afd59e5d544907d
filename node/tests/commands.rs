//! The commands as a user meets them: exit status, streams, signals, and the end
//! of children whose parent has died.

#[path = "commands/dependency_cycles.rs"]
mod dependency_cycles;
#[path = "commands/document_parser.rs"]
mod document_parser;
#[path = "commands/documents.rs"]
mod documents;
#[path = "commands/examples.rs"]
mod examples;
#[path = "commands/literals.rs"]
mod literals;
#[path = "commands/metrics.rs"]
mod metrics;
#[path = "commands/sentences.rs"]
mod sentences;
#[path = "commands/streams.rs"]
mod streams;
#[path = "commands/texts.rs"]
mod texts;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use binomesh::cluster::{Directory, Listening};

fn binomesh(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_binomesh"));
    command.args(arguments).env_remove("BINOMESH_LOG");
    command
}

/// Runs a command to its end. A command that does not end is killed after a minute and has no
/// status.
fn ran(arguments: &[&str]) -> Output {
    output_of(binomesh(arguments))
}

fn output_of(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if end.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-s", "KILL", &pid]).status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    output
}

fn status(arguments: &[&str]) -> (i32, String) {
    let output = ran(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    let Some(code) = output.status.code() else {
        panic!("{arguments:?} did not end: {text}");
    };
    assert!(output.stdout.is_empty(), "errors are not data");
    (code, text)
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// Issue a node's credentials and write its settings.
fn node(dir: &Path, name: &str) -> String {
    let ca = dir.join("ca").display().to_string();
    let home = dir.join(name).display().to_string();
    if !dir.join("ca").exists() {
        assert!(ran(&["ca", "init", "--dir", &ca]).status.success());
    }
    let issued = ran(&["ca", "issue", "--dir", &ca, "--name", name, "--out", &home]);
    assert!(issued.status.success(), "{issued:?}");
    let file = dir.join(name).join("node.toml");
    let text = format!(
        "name = \"{name}\"\nbind = \"127.0.0.1:0\"\ncertificate = \"node.pem\"\nkey = \"node.key\"\n\
         ca = \"ca.pem\"\nstate_dir = \"state\"\nadmin_socket = \"admin.sock\"\nlog = \"error\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Start `run` and read where it listens.
fn started(config: &str, more: &[&str], stdin: Stdio) -> (Child, Listening) {
    let mut command = binomesh(&["run", "--config", config]);
    command.args(more).stdin(stdin).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    let listening = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (child, listening)
}

#[test]
fn usage_is_2_unreachable_is_3() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("none").display().to_string();
    let clique = dir.path().join("clique.toml");
    std::fs::write(&clique, "bootstrap = \"clique\"\n").unwrap();
    let clique = clique.display().to_string();
    for (arguments, code, word) in [
        (&["up", "--nodes", "0"][..], 2, "1..=4096"),
        (
            &["up", "--bootstrap", "clique", "--shape", "flat"],
            2,
            "leave out --shape",
        ),
        (&["status"], 2, "--cluster"),
        (&["run", "--config", &nowhere], 2, "cannot be read"),
        (&["run"], 2, "--launch"),
        (
            &["run", "--launch", "auto"],
            2,
            "none of OMPI_COMM_WORLD_RANK",
        ),
        (&["run", "--launch", "slurm"], 2, "start the node with srun"),
        (&["run", "--ordinal", "1"], 2, "--peers"),
        (
            &["run", "--ordinal", "1", "--peers", "c[1-"],
            2,
            "brackets do not match",
        ),
        (
            &["run", "--ordinal", "2", "--peers", "a,b"],
            2,
            "the list in flag --peers has 2 nodes",
        ),
        (
            &["run", "--ordinal", "0", "--hostfile", &nowhere],
            2,
            "give the file that lists the hosts",
        ),
        (
            &["run", "--peers", "a", "--ordinal", "0", "--shape", "random"],
            2,
            "binomial, binary or flat",
        ),
        (
            &[
                "run",
                "--peers",
                "a",
                "--ordinal",
                "0",
                "--bootstrap",
                "clique",
                "--shape",
                "flat",
            ],
            2,
            "leave out --shape",
        ),
        (
            &[
                "run",
                "--config",
                &clique,
                "--peers",
                "a",
                "--ordinal",
                "0",
                "--shape",
                "flat",
            ],
            2,
            "leave out --shape",
        ),
        (&["wait", "--members", "1"], 2, "--cluster"),
        (&["status", "--admin", &nowhere], 3, "cannot reach"),
        (&["broadcast", "--admin", &nowhere, "x"], 3, "cannot reach"),
        (&["topology", "--cluster", &nowhere], 3, "cluster.json"),
        (&["broadcast", "--file", &nowhere], 2, "to standard input"),
        (&["push", &nowhere], 2, "`binomesh push --name NAME -`"),
    ] {
        let (found, text) = status(arguments);
        assert_eq!(found, code, "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn bad_settings_and_credentials_are_clear_errors() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    node(dir.path(), "node-2");
    let (code, text) = status(&["run", "--config", &config, "--name", "node-2"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("is the certificate of `node-1`"), "{text}");
    let keys = [
        dir.path().join("node-2/node.key"),
        dir.path().join("node-1/node.key"),
    ];
    std::fs::copy(&keys[0], &keys[1]).unwrap();
    let (code, text) = status(&["run", "--config", &config]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("does not match the certificate"), "{text}");
    let good = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, good.clone() + "colour = 3\n").unwrap();
    let (code, text) = status(&["run", "--config", &config]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("node.toml: `colour`"), "{text}");
    let ca = dir.path().join("ca").display().to_string();
    let (code, text) = status(&["ca", "init", "--dir", &ca]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("--force"), "{text}");
}

#[test]
fn a_node_serves_and_leaves_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let (mut child, listening) = started(&config, &[], Stdio::null());
    assert_eq!(listening.member.name, "node-1");
    let socket = listening.member.admin_socket.display().to_string();
    // A lone root names its first epoch after a moment. Each question takes a moment as well.
    let healthy = (0..200)
        .map(|_| ran(&["status", "--admin", &socket, "--json"]))
        .find(|output| output.status.success());
    let output = healthy.expect("healthy after 200 questions");
    assert_eq!(
        output.stdout.iter().filter(|byte| **byte == b'\n').count(),
        1
    );
    let output = ran(&["send", "--admin", &socket, "--to", "nobody", "x"]);
    assert_eq!(output.status.code(), Some(1));
    let (code, text) = status(&["run", "--config", &config]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("another running node uses this folder"),
        "{text}"
    );
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&socket).exists());
}

/// A service manager is told that the node has started, its rank, that its event loop answers, and
/// that it leaves.
#[test]
fn a_service_manager_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let path = dir.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut command = binomesh(&["run", "--config", &config]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "300000");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = |wanted: &str| {
        let mut text = [0; 4096];
        for _ in 0..1000 {
            let length = socket.recv(&mut text).expect(wanted);
            let text = String::from_utf8_lossy(&text[..length]);
            if text.contains(wanted) {
                return text.into_owned();
            }
        }
        panic!("never {wanted}");
    };
    told("READY=1");
    let standing = told("rank 0 of 1; ready");
    assert!(standing.contains("WATCHDOG=1"), "{standing}");
    signal(&child, "TERM");
    told("STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_revoked_node_is_listed_and_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    node(dir.path(), "node-2");
    let ca = dir.path().join("ca").display().to_string();
    let crl = dir.path().join("node-1/crl.pem").display().to_string();
    let (code, text) = status(&["ca", "revoke", "--dir", &ca, "--name", "node-9"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("ca list"), "{text}");
    let revoked = ran(&[
        "ca", "revoke", "--dir", &ca, "--name", "node-1", "--out", &crl,
    ]);
    assert!(revoked.status.success(), "{revoked:?}");
    let listed = ran(&["ca", "list", "--dir", &ca, "--json"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    let states: Vec<(String, bool)> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|entry| {
            let name = entry["name"].as_str().unwrap().to_owned();
            (name, entry["revoked"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(states, [("node-1".into(), true), ("node-2".into(), false)]);
    let good = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, good + "crl = \"crl.pem\"\n").unwrap();
    let (code, text) = status(&["run", "--config", &config]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("revoked"), "{text}");
}

#[test]
fn an_address_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, text) = status(&["run", "--config", &config, "--bind", &address]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains(&address) && text.contains("choose another"),
        "{text}"
    );
}

#[test]
fn leave_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let (mut child, listening) = started(&config, &[], Stdio::null());
    let socket = listening.member.admin_socket.display().to_string();
    let output = ran(&["leave", "--admin", &socket]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_child_leaves_when_its_standard_input_closes() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let (mut child, _) = started(&config, &["--watch-stdin"], Stdio::piped());
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Reads the events of `up` as far as `ready`. Returns the reader and the event `ready`.
fn ready(child: &mut Child) -> (BufReader<std::process::ChildStdout>, serde_json::Value) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(
            reader.read_line(&mut line).unwrap(),
            0,
            "ended before ready"
        );
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(event["elapsed_seconds"].is_number(), "{line}");
        if event["event"] == "ready" {
            return (reader, event);
        }
    }
}

#[test]
fn up_stops_its_nodes_on_sigint() {
    let mut command = binomesh(&["up", "--nodes", "1", "--json"]);
    let mut up = command.stdout(Stdio::piped()).spawn().unwrap();
    let (_reader, event) = ready(&mut up);
    let dir = event["cluster_dir"].as_str().unwrap().to_owned();
    let directory = Directory::open(Path::new(&dir)).unwrap();
    assert_eq!(directory.nodes.len(), 1);
    let broadcast = ["broadcast", "--cluster", &dir, "--json", "hello"];
    let refused = ran(&broadcast);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("--allow-none"), "{text}");
    let output = ran(&[&broadcast[..], &["--allow-none"]].concat());
    assert!(output.status.success(), "{output:?}");
    let receipt: binomesh::Receipt = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((receipt.expected_count, receipt.reached_count), (0, 0));
    signal(&up, "INT");
    assert_eq!(up.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&dir).exists());
}

/// A subscription at the child ends when the child does, so the test need not poll.
#[test]
fn children_notice_that_up_was_killed() {
    let mut command = binomesh(&["up", "--nodes", "1", "--json"]);
    let mut up = command.stdout(Stdio::piped()).spawn().unwrap();
    let (_reader, event) = ready(&mut up);
    let pid = event["nodes"][0]["pid"].as_u64().unwrap();
    let dir = event["cluster_dir"].as_str().unwrap().to_owned();
    let member = Directory::open(Path::new(&dir)).unwrap().nodes.remove(0);
    // An open subscription ends when the child does.
    let socket = member.admin_socket.display().to_string();
    let mut command = binomesh(&["subscribe", "--admin", &socket, "--json"]);
    let mut subscriber = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(subscriber.stdout.take().unwrap());
    let mut line = String::new();
    events.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"event\":\"subscribed\"}\n");
    up.kill().unwrap();
    up.wait().unwrap();
    events.read_to_string(&mut line).unwrap();
    assert_eq!(
        subscriber.wait().unwrap().code(),
        Some(3),
        "pid {pid} has ended"
    );
    let gone = ran(&["status", "--admin", &socket]);
    assert_eq!(gone.status.code(), Some(3));
    std::fs::remove_dir_all(dir).unwrap();
}
