//! `binomesh-bench hosts`: nodes in network namespaces, and faults of their network. The tests
//! need root, or user namespaces.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use binomesh::client::{Client, Endpoint};
use binomesh::push::PushOptions;
use binomesh::report::NodeReport;
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_binomesh-bench");
/// Long enough for a loaded machine. A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time within which a member at another address is a member again.
const BACK: Duration = Duration::from_secs(10);

/// The time for which a host is cut. Tests in an optimised build may take longer.
const CUT: &str = if cfg!(debug_assertions) { "2s" } else { "60s" };

/// One cluster runs at a time: clusters compete for the processor, and deaths are noticed by
/// the clock.
static ALONE: Mutex<()> = Mutex::new(());

#[expect(clippy::disallowed_methods, reason = "patience is wall time")]
fn now() -> Instant {
    Instant::now()
}

fn pause() {
    let _ = channel::<()>().1.recv_timeout(Duration::from_millis(20));
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        pause();
    }
}

/// A run of `binomesh-bench hosts`, which is killed when dropped.
struct Bed {
    bench: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Value>,
    nodes: Vec<Node>,
    dir: PathBuf,
    runtime: tokio::runtime::Runtime,
    _alone: MutexGuard<'static, ()>,
}

struct Node {
    pid: u32,
    address: String,
    namespace: PathBuf,
    client: Client,
}

impl Bed {
    fn formed(arguments: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
        let nodes = Path::new(BENCH).with_file_name("binomesh");
        assert!(
            nodes.is_file(),
            "no {}: build the workspace",
            nodes.display()
        );
        let mut bench = Command::new(BENCH)
            .args(["hosts", "--json"])
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let stdout = BufReader::new(bench.stdout.take().expect("piped"));
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.expect("text");
                let event = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
                let _ = sender.send(event);
            }
        });
        let stdin = bench.stdin.take();
        let mut bed = Self {
            bench,
            stdin,
            events,
            nodes: Vec::new(),
            dir: PathBuf::new(),
            runtime: tokio::runtime::Runtime::new().expect("a runtime"),
            _alone: alone,
        };
        let ready = bed.event("ready");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        bed.dir = text(&ready["cluster_dir"]).into();
        let nodes = ready["nodes"].as_array().expect("nodes").iter();
        let node = |(number, node): (usize, &Value)| {
            assert_eq!(node["name"], format!("node-{number}"));
            let socket = text(&node["admin_socket"]).into();
            Node {
                pid: node["pid"].as_u64().expect("a pid") as u32,
                address: text(&node["address"]),
                namespace: text(&node["namespace"]).into(),
                client: Client::new(Endpoint::Unix(socket)),
            }
        };
        bed.nodes = nodes.enumerate().map(node).collect();
        bed
    }

    /// Waits for the next event, which must have this name.
    fn event(&self, name: &str) -> Value {
        let event = self.events.recv_timeout(2 * PATIENCE);
        let event = event.unwrap_or_else(|_| panic!("no {name} in time"));
        assert_eq!(event["event"], name, "{event}");
        event
    }

    /// Sends a step, and waits for the event that it is done.
    fn step(&mut self, line: &str) -> Value {
        self.say(line);
        self.event("fault")
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("read");
    }

    fn report(&self, node: usize) -> Option<NodeReport> {
        let client = &self.nodes[node].client;
        self.runtime.block_on(client.topology()).ok()
    }

    /// Waits until these nodes are one overlay, none of them is down, and no message between
    /// nodes takes a detour.
    fn whole(&self, nodes: &[usize]) {
        until(&format!("{nodes:?} are one overlay"), || {
            for node in nodes {
                let report = self.report(*node)?;
                let is_one = |name: &String| {
                    let number = name.strip_prefix("node-").and_then(|it| it.parse().ok());
                    number.is_some_and(|number| nodes.contains(&number))
                };
                let is_whole = report.healthy
                    && report.population == Some(nodes.len() as u32)
                    && !report.down.iter().any(is_one)
                    && report.relayed.is_empty();
                is_whole.then_some(())?;
            }
            Some(())
        });
    }

    /// Waits until all nodes are one overlay and a broadcast of each node reaches all others. A
    /// dead link carries no broadcast.
    fn all_heard(&self) {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        until("broadcasts reach all", || {
            self.whole(&all);
            let is_heard = |node: &usize| self.reached(*node) == all.len() - 1;
            all.iter().all(is_heard).then_some(())
        });
    }

    /// Checks that a broadcast of this node reaches all others.
    fn heard(&self, from: usize) {
        assert_eq!(self.reached(from), self.nodes.len() - 1);
    }

    /// The number of other nodes that a broadcast of this node reaches.
    fn reached(&self, from: usize) -> usize {
        let client = &self.nodes[from].client;
        let sent = client.broadcast("t", "word", Some(PATIENCE));
        let receipt = self.runtime.block_on(sent).expect("a receipt");
        receipt.reached_count as usize
    }

    /// The time that a file of this many bytes takes from one node to all others.
    fn pushed(&self, from: usize, name: &str, bytes: usize) -> Duration {
        let options = PushOptions::new(name.to_owned(), bytes as u64);
        let file = vec![7; bytes];
        let begun = now();
        let pushed = self.nodes[from].client.push(&file[..], &options, |_| ());
        let report = self.runtime.block_on(pushed).expect("pushed");
        assert!(report.is_complete(), "{report:?}");
        begun.elapsed()
    }

    /// The output of a command in the namespace of the bridge.
    fn at_bridge(&self, line: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", self.bench.id()))
            .arg("--")
            .args(line.split_whitespace())
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .output()
            .expect("nsenter (util-linux) runs");
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn signal(&self, signal: &str) {
        let pid = self.bench.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends the run by a signal, checks that nothing is left, and returns the exit status.
    fn ended_by(mut self, signal: &str) -> Option<i32> {
        let processes = descendants(self.bench.id());
        let mut namespaces: BTreeSet<PathBuf> = self.nodes.iter().map(|it| net(it.pid)).collect();
        namespaces.insert(net(self.bench.id()));
        assert_eq!(namespaces.len(), self.nodes.len() + 1);
        // The nodes, the processes that hold their namespaces, and the process that removes
        // their folder.
        assert!(processes.len() > 2 * self.nodes.len(), "{processes:?}");
        assert!(self.dir.is_dir());
        self.signal(signal);
        let ended = now();
        let status = self.bench.wait().expect("ended");
        until("all processes are gone", || {
            (!processes.iter().any(lives)).then_some(())
        });
        // A node that leaves needs this time for its drain alone, so no node has left.
        assert!(ended.elapsed() < BACK, "{:?}", ended.elapsed());
        let left = pids()
            .into_iter()
            .find(|pid| namespaces.contains(&net(*pid)));
        assert_eq!(left, None, "a process holds a namespace");
        let top = self.dir.parent().expect("a folder of the run");
        assert!(!self.dir.exists() && !top.exists(), "{}", top.display());
        status.code()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.bench.kill();
        let _ = self.bench.wait();
    }
}

fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The network namespace of a process; nothing if it is gone.
fn net(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap_or_default()
}

/// The state of a process, such as `S`, and its parent; nothing if it is gone.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether a process runs. A zombie does not: the first process of a container may never ask
/// for its exit status.
fn lives(pid: &u32) -> bool {
    stat(*pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// All processes below this one.
fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut above = vec![pid];
    while let Some(parent) = above.pop() {
        for child in pids() {
            let is_child = stat(child).is_some_and(|(_, of)| of == parent);
            if is_child && found.insert(child) {
                above.push(child);
            }
        }
    }
    found
}

/// The links of this machine's own network, and its named namespaces.
fn outside() -> (BTreeSet<String>, usize) {
    let links = std::fs::read_dir("/sys/class/net").expect("/sys");
    let links = links.map(|link| link.expect("a link").file_name());
    let links = links.filter_map(|link| link.into_string().ok()).collect();
    let named = std::fs::read_dir("/run/netns").map_or(0, |named| named.count());
    (links, named)
}

#[test]
fn the_others_heal_round_a_host_that_is_cut_and_all_are_one_afterwards() {
    let mut bed = Bed::formed("--nodes 4 --grace-seconds 0");
    let addresses: Vec<&str> = bed.nodes.iter().map(|node| &*node.address).collect();
    assert_eq!(addresses[..2], ["10.77.0.1:7700", "10.77.0.2:7700"]);
    assert_ne!(net(bed.nodes[0].pid), net(bed.nodes[1].pid));
    let namespace = std::fs::read_link(&bed.nodes[3].namespace).expect("a namespace");
    assert_eq!(namespace, net(bed.nodes[3].pid));
    let fault = bed.step("cut 3");
    assert_eq!(
        (&fault["fault"], &fault["host"]),
        (&"cut".into(), &3.into())
    );
    bed.whole(&[0, 1, 2]);
    // This cut takes the place of the former one.
    bed.step(&format!("cut 3 {CUT}"));
    let mended = bed.event("mended");
    assert_eq!(mended["host"], 3);
    bed.whole(&[0, 1, 2, 3]);
    bed.heard(3);

    // A step that cannot be done changes nothing, and says why.
    for (line, reason) in [
        ("cut 4", "the hosts are 0 to 3"),
        ("pull 3", "`pull` is no kind of fault"),
        ("delay 1 50ms", "--relay"),
        ("address 2 10.77.0.1", "another host has this address"),
        ("address 2 192.0.2.1", "10.77.0.254"),
        ("address 2 fd77::99", "of this family"),
    ] {
        bed.say(line);
        let refused = bed.event("refused");
        assert_eq!(refused["line"], line);
        let said = refused["reason"].as_str().expect("a reason");
        assert!(said.contains(reason), "{line}: {said}");
    }
    assert_eq!(bed.ended_by("TERM"), Some(0));
}

#[test]
fn a_rate_is_kept_and_losses_are_made_up_for() {
    const BYTES: usize = 2 << 20;
    let mut bed = Bed::formed("--nodes 3 --fault restore");
    bed.event("fault");
    let fast = bed.pushed(1, "fast", BYTES);
    bed.step("rate 1 8mbit");
    let slow = bed.pushed(1, "slow", BYTES);
    // A byte takes a microsecond. The file is sent once, or twice if both other nodes get it
    // from this node.
    let one = Duration::from_micros(BYTES as u64);
    println!("{fast:?}, {slow:?} at {one:?}");
    assert!(fast < one.mul_f64(0.9), "no limit: {fast:?}");
    assert!(slow > one.mul_f64(0.9), "no limit: {slow:?}");
    assert!(slow < 4 * one, "much slower: {slow:?}");
    bed.step("restore");
    bed.step("drop 2 5%");
    bed.pushed(1, "lossy", BYTES);
    let rules = bed.at_bridge("nft list table bridge losses");
    let lost = rules.split("packets ").skip(1);
    let lost = lost.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(lost.sum::<u64>() > 0, "{rules}");
    bed.step("drop 2 100%");
    until("host 2 is silent", || {
        (bed.report(0)?.down == ["node-2"]).then_some(())
    });
    bed.step("restore");
    bed.whole(&[0, 1, 2]);
}

/// The address of a host is replaced under its running node. Then the addresses of two hosts
/// are replaced at once.
#[test]
fn a_member_at_another_address_is_one_again_within_ten_seconds() {
    let mut bed = Bed::formed("--nodes 4");
    for step in [
        &["address 3 10.77.0.99"][..],
        &["address 0 10.77.0.100"],
        &["address 1 10.77.0.101", "address 2 10.77.0.102"],
    ] {
        let begun = now();
        for line in step {
            bed.step(line);
        }
        bed.all_heard();
        println!("{step:?}: back after {:?}", begun.elapsed());
        // Two nodes that have lost each other meet over the other nodes, which may take longer.
        if step.len() == 1 {
            assert!(begun.elapsed() < BACK, "{step:?}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn hosts_of_ipv6_alone_and_of_both_families_are_one_overlay() {
    let mut bed = Bed::formed("--nodes 3 --ipv6");
    assert_eq!(bed.nodes[2].address, "[fd77::3]:7700");
    bed.step("address 2 fd77::99");
    bed.all_heard();
    assert_eq!(bed.ended_by("INT"), Some(0));

    let bed = Bed::formed("--nodes 4 --mixed");
    let addresses: Vec<&str> = bed.nodes.iter().map(|node| &*node.address).collect();
    assert_eq!(addresses[1..3], ["[fd77::2]:7700", "10.77.0.3:7700"]);
    bed.heard(1);
}

#[test]
fn datagrams_are_delayed_and_doubled_by_the_relay() {
    let mut bed = Bed::formed("--nodes 3 --relay");
    assert_eq!(bed.nodes[1].address, "10.77.1.2:7700");
    let timed = |bed: &Bed| {
        let begun = now();
        bed.heard(1);
        begun.elapsed()
    };
    bed.step("delay 1 200ms");
    bed.step("duplicate 1 50%");
    // The delay counts there and back.
    let delayed = timed(&bed);
    assert!(delayed >= Duration::from_millis(400), "{delayed:?}");
    bed.step("restore");
    bed.whole(&[0, 1, 2]);
    bed.say("address 1 10.77.0.99");
    assert!(
        bed.event("refused")["reason"]
            .to_string()
            .contains("--relay")
    );
}

#[test]
fn nothing_is_left_after_a_kill() {
    let before = outside();
    let mut bed = Bed::formed("--nodes 3");
    // A stopped node notices nothing by itself.
    bed.step("cut 2");
    let stopped = bed.nodes[1].pid.to_string();
    let stopped = Command::new("kill").args(["-s", "STOP", &stopped]).status();
    assert!(stopped.expect("kill runs").success());
    assert_eq!(outside(), before, "it is seen outside");
    assert_eq!(bed.ended_by("KILL"), None);
    assert_eq!(outside(), before);
}

/// A node that heeds nothing never becomes a member. The program is killed while it waits for the
/// nodes to become members.
#[test]
fn a_node_that_heeds_nothing_is_killed_with_the_program() {
    const STUB: &str = r#"#!/bin/sh
home=$(dirname "$3"); name=$(basename "$home")
echo "{\"event\":\"listening\",\"name\":\"$name\",\"id\":\"00\",\"pid\":$$,\"address\":\"127.0.0.1:1\",\"admin_socket\":\"$home/admin.sock\",\"metrics_url\":\"\"}"
trap '' HUP INT TERM
exec sleep 1000"#;
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let dir = tempfile::tempdir().expect("a folder");
    let stub = dir.path().join("stub");
    std::fs::write(&stub, STUB).expect("written");
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&stub, mode).expect("set");
    let mut bench = Command::new(BENCH)
        .args(["hosts", "--nodes", "2", "--binary"])
        .arg(&stub)
        .stdin(Stdio::null())
        .spawn()
        .expect("started");
    let is_node = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == b"sleep\x001000\x00"
    };
    let nodes = until("two nodes run", || {
        let mut found = descendants(bench.id());
        found.retain(is_node);
        (found.len() == 2).then_some(found)
    });
    bench.kill().expect("killed");
    bench.wait().expect("ended");
    until("the nodes are gone", || {
        (!nodes.iter().any(lives)).then_some(())
    });
}

#[test]
fn nothing_is_left_when_the_parent_has_died() {
    let alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let line = format!("{BENCH} hosts --nodes 2 --json & echo $!; read -r _; kill -9 $$");
    let mut parent = Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut lines = BufReader::new(parent.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let bench: u32 = line().parse().expect("a pid");
    assert!(line().contains("ready"));
    let processes = descendants(bench);
    drop(parent.stdin.take());
    parent.wait().expect("ended");
    until("all processes are gone", || {
        (!lives(&bench) && !processes.iter().any(lives)).then_some(())
    });
    drop(alone);
}

#[test]
fn a_scenario_that_cannot_be_played_is_usage() {
    for (arguments, said) in [
        (&["--nodes", "0"][..], "1..=254"),
        (&["--ipv6", "--mixed"], "--mixed"),
        (&["--fault", "cut 4"], "'cut 4': host 4 does not exist"),
        (&["--fault", "cut 1 5"], "`5` is no length of time"),
        (&["--fault", "delay 1 5ms"], "start with --relay"),
        (
            &["--relay", "--fault", "address 1 10.77.0.9"],
            "start without --relay",
        ),
    ] {
        let output = Command::new(BENCH).arg("hosts").args(arguments).output();
        let output = output.expect("ended");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}
