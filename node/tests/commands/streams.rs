//! Input, output and environment of the commands.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use binomesh::client::{Client, Endpoint};

use super::documents::sources;
use super::{binomesh, node, ran, signal, started, status};

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// The writing end of a pipe whose reading end is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Runs a command with its standard output going to `to`. Returns its exit code and its errors.
fn written_to(arguments: &[&str], to: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = binomesh(arguments);
    let Output { status, stderr, .. } = command.stdout(to).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn data_without_room_is_an_error_and_a_closed_pipe_hides_none() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let ca = dir.path().join("ca").display().to_string();
    let list = ["ca", "list", "--dir", &ca];
    let (code, text) = written_to(&list, full());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("standard output"), "{text}");
    assert_eq!(written_to(&list, closed()), (Some(0), String::new()));

    let (mut child, listening) = started(&config, &[], Stdio::null());
    let admin = listening.member.admin_socket.display().to_string();
    // The node is alone, so the broadcast reaches nobody.
    let broadcast = ["broadcast", "--admin", &admin, "hello"];
    for to in [closed(), full().into()] {
        let (code, text) = written_to(&broadcast, to);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("nothing was sent"), "{text}");
    }
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_node_goes_on_when_its_log_has_no_room_and_counts_the_lost_lines() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let mut command = binomesh(&["run", "--config", &config, "--log", "debug"]);
    command.stdout(Stdio::null()).stderr(full());
    let mut child = command.spawn().unwrap();
    let admin = dir.path().join("node-1/admin.sock");
    let wait = [
        "wait",
        "--members",
        "1",
        "--timeout-seconds",
        "50",
        "--admin",
    ];
    let found = ran(&[&wait[..], &[&admin.display().to_string()]].concat());
    assert!(found.status.success(), "{found:?}");
    let client = Client::new(Endpoint::Unix(admin));
    let metrics = client.text("/metrics").await.unwrap();
    let lost = metrics
        .lines()
        .find(|line| line.starts_with("binomesh_log_lines_lost_total"))
        .unwrap_or_else(|| panic!("{metrics}"));
    assert!(!lost.ends_with(" 0"), "{lost}");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn issued_credentials_run_a_node_and_refused_ones_are_in_no_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (ca, home) = (path("ca"), path("h1"));
    assert!(ran(&["ca", "init", "--dir", &ca]).status.success());
    let issue = ["ca", "issue", "--dir", &ca, "--name", "h1", "--out", &home];
    assert!(ran(&issue).status.success());
    let (code, text) = status(&issue);
    assert_eq!(code, 2, "{text}");
    let listed = || {
        let listed = ran(&["ca", "list", "--dir", &ca]);
        String::from_utf8(listed.stdout).unwrap()
    };
    assert_eq!(listed().lines().count(), 1, "{}", listed());
    assert!(listed().contains(" UTC until 20"), "{}", listed());

    let settings = path("h1/node.toml");
    let edited = std::fs::read_to_string(&settings).unwrap() + "# mine\n";
    std::fs::write(&settings, &edited).unwrap();
    assert!(ran(&[&issue[..], &["--force"]].concat()).status.success());
    assert_eq!(listed().lines().count(), 2, "{}", listed());
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), edited);
    let (mut child, _) = started(&settings, &["--bind", "127.0.0.1:0"], Stdio::null());
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // A certificate that cannot be written is not issued either.
    for (out, taken) in [("file/x", "file/x"), ("h2", "node.pem"), ("h3", "crl.pem")] {
        std::fs::write(path("file"), "").unwrap();
        if out != taken {
            std::fs::create_dir_all(path(out) + "/" + taken).unwrap();
        }
        let out = path(out);
        let refused = [
            "ca", "issue", "--dir", &ca, "--name", "h2", "--out", &out, "--force",
        ];
        let (code, text) = status(&refused);
        assert_eq!(code, 1, "{text}");
        assert_eq!(listed().lines().count(), 2, "{out}: {}", listed());
        assert!(!Path::new(&out).join("node.pem").is_file(), "{out}");
    }
    // `ca revoke` does not replace a pipe.
    let pipe = path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let revoke = ["ca", "revoke", "--dir", &ca, "--name", "h1", "--out", &pipe];
    let (code, text) = status(&revoke);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no file"), "{text}");
}

#[test]
fn a_low_limit_of_open_files_is_named_before_anything_is_begun() {
    for limit in [6, 12] {
        let command = format!("ulimit -n {limit}; exec \"$0\" status --admin /nowhere");
        let mut shell = Command::new("sh");
        shell.args(["-c", &command, env!("CARGO_BIN_EXE_binomesh")]);
        let refused = shell.output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(
            text.contains(&format!("is {limit}")) && text.contains("ulimit"),
            "{text}"
        );
    }
}

#[test]
fn help_without_room_is_an_error_and_a_folder_is_no_input() {
    let (code, text) = written_to(&["--help"], full());
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(written_to(&["--help"], closed()).0, Some(0));
    let folder = File::open("/").unwrap();
    let mut push = binomesh(&["push", "-", "--name", "x", "--admin", "/nowhere"]);
    let refused = push.stdin(folder).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    for topic in ["*", "jobs/*", "jobs/+", "a/>"] {
        let (code, text) = status(&["broadcast", "x", "--topic", topic, "--admin", "/nowhere"]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("subscribe to `jobs/#`"), "{text}");
    }
}

#[test]
fn a_file_without_a_length_is_pushed_whole_and_a_pipe_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let (mut child, listening) = started(&config, &[], Stdio::null());
    let admin = listening.member.admin_socket.display().to_string();
    let push = ["push", "--admin", &admin, "--allow-none", "--json"];
    let pushed = ran(&[&push[..], &["/proc/cpuinfo"]].concat());
    assert!(pushed.status.success(), "{pushed:?}");
    let report: serde_json::Value = serde_json::from_slice(&pushed.stdout).unwrap();
    assert_ne!(report["size_bytes"], 0, "{report}");

    let pipe = dir.path().join("pipe").display().to_string();
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (code, text) = status(&[&push[..], &[&pipe]].concat());
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("push -"), "{text}");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn variables_for_other_programs_stop_no_command() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    // Kubernetes sets such variables beside a Service called `binomesh`.
    let mut command = binomesh(&["run", "--config", &config]);
    command.envs([
        ("BINOMESH_SERVICE_HOST", "10.0.0.1"),
        ("BINOMESH_SERVICE_PORT", "7400"),
        ("BINOMESH_SERVICE_PORT_MESH", "7400"),
        ("BINOMESH_PORT", "udp://10.0.0.1:7400"),
        ("BINOMESH_PORT_7400_UDP", "udp://10.0.0.1:7400"),
        ("BINOMESH_PORT_7400_UDP_PROTO", "udp"),
        // These variables come from a Service called `binomesh-metrics`.
        ("BINOMESH_METRICS_SERVICE_HOST", "10.0.0.2"),
        ("BINOMESH_METRICS_PORT", "tcp://10.0.0.2:9464"),
        // The parent process emptied these variables.
        ("BINOMESH_SHAPE", ""),
        ("BINOMESH_PROFILE", ""),
        ("BINOMESH_OTHER", ""),
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert!(line.contains("listening"), "{line}");

    let admin = dir.path().join("node-1/admin.sock").display().to_string();
    let mut asked = binomesh(&["status", "--admin", &admin]);
    let asked = asked.env("BINOMESH_CLUSTER", "/nowhere").output().unwrap();
    assert!(
        String::from_utf8_lossy(&asked.stdout).contains("node-1"),
        "{asked:?}"
    );
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Starts `up` from a shell that ends as soon as `up` is ready.
fn orphaned(more: &str) -> (std::process::Child, serde_json::Value) {
    let script = format!("\"$0\" up --nodes 1 --json {more} & read line");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_binomesh")]);
    let mut shell = shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (reader, event) = super::ready(&mut shell);
    shell.stdout = Some(reader.into_inner());
    drop(shell.stdin.take());
    (shell, event)
}

#[test]
fn up_ends_with_its_parent_and_says_so_unless_it_is_told_to_go_on() {
    let (shell, event) = orphaned("");
    // `up` holds the streams of the shell, so they end when `up` has ended.
    let output = shell.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--outlive-parent"), "{text}");
    let dir = event["cluster_dir"].as_str().unwrap().to_owned();
    assert!(!Path::new(&dir).exists());

    let (mut shell, event) = orphaned("--outlive-parent");
    shell.wait().unwrap();
    let dir = event["cluster_dir"].as_str().unwrap().to_owned();
    // `up` checks twice a second whether it is orphaned.
    let wait = ["subscribe", "--timeout-seconds", "4", "--cluster", &dir];
    assert_eq!(ran(&wait).status.code(), Some(4));
    assert!(ran(&["status", "--cluster", &dir]).status.success());
    let text = std::fs::read_to_string(format!("{dir}/cluster.json")).unwrap();
    let cluster: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pid = cluster["pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    shell.wait_with_output().unwrap();
    assert!(!Path::new(&dir).exists());
}

#[test]
fn leave_says_so_in_json() {
    let dir = tempfile::tempdir().unwrap();
    let config = node(dir.path(), "node-1");
    let (mut child, listening) = started(&config, &[], Stdio::null());
    let admin = listening.member.admin_socket.display().to_string();
    let left = ran(&["leave", "--admin", &admin, "--json"]);
    let event: serde_json::Value = serde_json::from_slice(&left.stdout).unwrap();
    assert_eq!(event["event"], "left", "{left:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The names of `BINOMESH_*` variables that the sources give to commands or read as options.
fn variables_of_commands() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli"),
        &mut files,
    );
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("readable");
        for before in ["env(\"", "env = \"", "variable(\""] {
            for part in text.split(before).skip(1) {
                let name = part.split('"').next().unwrap_or_default();
                names.extend(name.starts_with("BINOMESH_").then(|| name.to_owned()));
            }
        }
    }
    names
}

#[test]
fn a_node_starts_in_the_environment_of_any_command_of_ours() {
    let names = variables_of_commands();
    for one in ["BINOMESH_SIZE", "BINOMESH_TOPIC", "BINOMESH_PEERS"] {
        assert!(names.contains(one), "{one} is not among {names:?}");
    }
    let variables = names.into_iter().map(|name| (name, "1".to_owned()));
    binomesh::config::Layer::environment(variables).expect("all are known");
}
