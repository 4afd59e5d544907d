//! Pushes of files to all members: each member stores the whole file and checks it, or is named
//! with the reason.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use binomesh::cluster::Cluster;
use binomesh::push::{PushOptions, PushReport, PushedStreams, send};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};
use tokio::process::Command;
use tokio_util::io::InspectReader;

use crate::bed::{self, BINARY, PATIENCE, eventually, formed, member, ran, stop};
use crate::many_nodes;

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i * i % 251) as u8).collect()
}

fn folder(cluster: &Cluster, node: &str) -> PathBuf {
    cluster.dir().join(node).join("files")
}

/// The names in a node's folder for files, with files that are not whole yet.
fn listed(cluster: &Cluster, node: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder(cluster, node)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

async fn push(cluster: &Cluster, more: &[&str]) -> (Option<i32>, PushReport) {
    push_from(cluster, more, b"").await
}

async fn push_from(cluster: &Cluster, more: &[&str], stdin: &[u8]) -> (Option<i32>, PushReport) {
    let dir = cluster.dir().display().to_string();
    let always = ["push", "--cluster", &dir, "--node", "node-1", "--json"];
    let output = ran(&[&always[..], more].concat(), stdin).await;
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

fn file(cluster: &Cluster, name: &str, bytes: &[u8]) -> String {
    let path = cluster.dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_file_reaches_all_and_a_failure_at_one_node_is_named_and_holds_up_no_other() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(6)).await;
    let others = ["node-0", "node-2", "node-3", "node-4", "node-5"];
    let content = bytes((5 << 20) + 12_345);
    let path = file(&cluster, "data", &content);
    for strategy in ["auto", "binomial", "sibling-tree"] {
        let arguments = [path.as_str(), "--name", strategy, "--strategy", strategy];
        let (status, report) = push(&cluster, &arguments).await;
        assert_eq!(status, Some(0), "{report:?}");
        assert_eq!(report.stored, others);
        assert_eq!(report.blake3, blake3::hash(&content).to_hex().to_string());
        for node in others {
            let stored = std::fs::read(folder(&cluster, node).join(strategy)).unwrap();
            assert!(stored == content, "{node}: other bytes");
        }
    }

    // The same from a pipe, which has no length.
    let (status, report) = push_from(&cluster, &["-", "--name", "piped"], &content).await;
    assert_eq!(
        (status, &*report.stored),
        (Some(0), &others.map(str::to_owned)[..])
    );
    assert_eq!(report.size_bytes, content.len() as u64);
    for node in others {
        let stored = std::fs::read(folder(&cluster, node).join("piped")).unwrap();
        assert!(stored == content, "{node}: other bytes");
    }
    let dir = cluster.dir().display().to_string();
    let nameless = ran(&["push", "--cluster", &dir, "-"], b"x").await;
    assert_eq!(nameless.status.code(), Some(2), "{nameless:?}");

    // node-2 has a file of that name, and node-4 has lost its folder.
    let small = file(&cluster, "small", b"new");
    std::fs::write(folder(&cluster, "node-2").join("small"), "old").unwrap();
    std::fs::remove_dir_all(folder(&cluster, "node-4")).unwrap();
    let (status, report) = push(&cluster, &[&small]).await;
    assert_eq!(status, Some(1), "{report:?}");
    assert_eq!(report.stored, ["node-0", "node-3", "node-5"]);
    let [exists, lost] = report.failed.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(exists.name, "node-2");
    assert!(exists.reason.contains("exists") && exists.reason.contains("--replace"));
    assert_eq!(lost.name, "node-4");
    assert!(lost.reason.contains("cannot write in"), "{lost:?}");
    let kept = std::fs::read(folder(&cluster, "node-2").join("small")).unwrap();
    assert_eq!(kept, b"old");

    let (_, report) = push(&cluster, &[&small, "--replace"]).await;
    assert_eq!(report.stored, ["node-0", "node-2", "node-3", "node-5"]);
    let empty = file(&cluster, "empty", b"");
    let (_, report) = push(&cluster, &[&empty]).await;
    assert_eq!(report.stored_count, 4, "{report:?}");
    for node in ["node-0", "node-2", "node-3", "node-5"] {
        let expected = [
            "auto",
            "binomial",
            "empty",
            "piped",
            "sibling-tree",
            "small",
        ];
        assert_eq!(listed(&cluster, node), expected, "{node}");
        let small = std::fs::read(folder(&cluster, node).join("small")).unwrap();
        assert_eq!(small, b"new");
    }
    stop(cluster).await;
}

/// A log has no place for a progress bar, so the command prints lines.
#[tokio::test]
async fn a_push_that_takes_long_says_how_far_it_is() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(2)).await;
    let dir = cluster.dir().display().to_string();
    let mut pushing = Command::new(BINARY)
        .args(["push", "--cluster", &dir, "--node", "node-1"])
        .args(["-", "--name", "slow"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawned");
    let mut input = pushing.stdin.take().expect("piped");
    let output = pushing.stderr.take().expect("piped");
    input.write_all(b"the first of it").await.expect("taken");
    let mut lines = BufReader::new(output).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
    let line = line.expect("in time").expect("read").expect("said");
    assert_eq!(line, "sent 15 B");
    drop(input);
    assert!(pushing.wait().await.expect("ended").success());
    stop(cluster).await;
}

/// The dead node would have relayed pieces to others. They get these pieces all the same.
#[tokio::test]
async fn the_death_of_a_node_on_the_way_costs_only_that_node() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(8)).await;
    let content = bytes(24 << 20);
    let origin = member(&cluster, "node-0");
    let (mut tap, source) = tokio::io::duplex(1 << 20);
    let options = PushOptions::new("data", content.len() as u64);
    let pushing = tokio::spawn(async move { origin.client().push(source, &options, |_| ()).await });
    tap.write_all(&content[..12 << 20]).await.unwrap();
    eventually("some of it has come", async || {
        let coming = std::fs::read_dir(folder(&cluster, "node-4")).unwrap();
        let long = coming.filter(|one| one.as_ref().unwrap().metadata().unwrap().len() > 1 << 20);
        (long.count() == 1).then_some(())
    })
    .await;
    cluster.kill("node-4").await.unwrap();
    tap.write_all(&content[12 << 20..]).await.unwrap();
    drop(tap);
    let report = pushing.await.unwrap().unwrap();
    let rest = ["node-1", "node-2", "node-3", "node-5", "node-6", "node-7"];
    assert_eq!(report.stored, rest, "{report:?}");
    let failed: Vec<&str> = report.failed.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(failed, ["node-4"], "{report:?}");
    for node in rest {
        assert!(std::fs::read(folder(&cluster, node).join("data")).unwrap() == content);
        assert_eq!(listed(&cluster, node), ["data"], "{node}");
    }
    stop(cluster).await;
}

/// A source that cannot be read.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Ready(Err(std::io::Error::other("broken")))
    }
}

/// A source, and the number of bytes that it has given.
fn counted(source: &[u8]) -> (impl AsyncRead + Unpin + use<>, Arc<AtomicU64>) {
    let given = Arc::new(AtomicU64::new(0));
    let counter = given.clone();
    let source = InspectReader::new(std::io::Cursor::new(source.to_vec()), move |bytes| {
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    });
    (source, given)
}

/// Through the library, receivers read bytes of unknown length while the source still gives more.
/// No node reads ahead without a bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_read_while_it_comes_and_waits_for_its_slowest_reader() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().unwrap();
    let all = many_nodes::start(dir.path(), 4);
    let mut inboxes = Vec::new();
    for housed in &all {
        let ready = tokio::time::timeout(PATIENCE, housed.node.ready(4)).await;
        ready.expect("formed in time").expect("running");
        inboxes.push(PushedStreams::start(&housed.node).await.expect("room"));
    }
    let origin = all[0].node.clone();

    // The receivers read the first bytes before the source writes more.
    let (mut tap, source) = tokio::io::duplex(1 << 20);
    let node = origin.clone();
    let options = PushOptions::new("talk", None);
    let pushing = tokio::spawn(async move { send(&node, source, &options, |_| ()).await });
    tap.write_all(b"first").await.unwrap();
    let mut streams = Vec::new();
    for inbox in &mut inboxes[1..] {
        let stream = tokio::time::timeout(PATIENCE, inbox.next()).await;
        let mut stream = stream.expect("in time").expect("running");
        assert_eq!((stream.name(), stream.size_bytes()), ("talk", None));
        assert_eq!(stream.origin_name(), "node-0");
        let mut word = [0; 5];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"first");
        streams.push(stream);
    }
    tap.write_all(b" and last").await.unwrap();
    drop(tap);
    for stream in &mut streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, " and last");
    }
    let report = pushing.await.unwrap().unwrap();
    assert_eq!(report.stored, ["node-1", "node-2", "node-3"], "{report:?}");
    let hash = blake3::hash(b"first and last");
    assert_eq!(report.blake3, hash.to_hex().to_string());

    // While two readers stand still, the source stands still too. The third reader goes away and is
    // named.
    let content = bytes(32 << 20);
    let (source, given) = counted(&content);
    let node = origin.clone();
    let mut options = PushOptions::new("long", None);
    options.patience = 2 * PATIENCE;
    let pushing = tokio::spawn(async move { send(&node, source, &options, |_| ()).await });
    let mut streams = Vec::new();
    for inbox in &mut inboxes[1..] {
        streams.push(inbox.next().await.expect("running"));
    }
    drop(streams.pop());
    let mut reading = Vec::new();
    for mut stream in streams {
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let content = content.clone();
        let read = tokio::spawn(async move {
            let mut first = vec![0; 1 << 20];
            stream.read_exact(&mut first).await.unwrap();
            let _ = gone.await;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            assert!(first == content[..1 << 20] && rest == content[1 << 20..]);
        });
        reading.push((go, read));
    }
    // The most that is read ahead: the window, the bytes at the readers, and the piece in reading.
    const AHEAD: u64 = (8 << 20) + (2 << 20) + (1 << 20);
    let mut before = 0;
    eventually("it stands still", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = given.load(Ordering::Relaxed);
        let still = now == before && now >= 2 << 20;
        before = now;
        still.then_some(())
    })
    .await;
    assert!(before <= AHEAD, "{before} bytes were read ahead");
    let (go, reading): (Vec<_>, Vec<_>) = reading.into_iter().unzip();
    go.into_iter().for_each(|go| go.send(()).unwrap());
    for read in reading {
        read.await.unwrap();
    }
    let report = pushing.await.unwrap().unwrap();
    assert_eq!(report.stored, ["node-1", "node-2"], "{report:?}");
    assert_eq!(report.failed.len(), 1);
    let failed = &report.failed[0];
    assert_eq!(failed.name, "node-3");
    assert!(failed.reason.contains("gone"), "{failed:?}");
    for housed in &all {
        housed.node.shutdown().await;
    }
}

#[tokio::test]
async fn a_push_that_ends_early_is_an_error_and_leaves_nothing_behind() {
    let _turn = bed::turn().await;
    let cluster = formed(bed::config(4)).await;
    let origin = member(&cluster, "node-0");
    let content = bytes(3 << 20);
    let options = PushOptions::new("data", 4 << 20);
    let refused = origin.client().push(&content[..], &options, |_| ()).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("3145728 of 4194304"), "{error}");
    // For a push without a length an error of the source is not the end.
    let (mut tap, torn) = tokio::io::duplex(1 << 20);
    let source = torn.chain(Broken);
    let options = PushOptions::new("torn", None);
    let origin_client = origin.client();
    let pushing = tokio::spawn(async move { origin_client.push(source, &options, |_| ()).await });
    tap.write_all(b"some of it").await.unwrap();
    eventually("it has begun to come", async || {
        (!listed(&cluster, "node-2").is_empty()).then_some(())
    })
    .await;
    drop(tap);
    let error = pushing.await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("cannot read") || error.contains("cannot reach"),
        "{error}"
    );
    let named = PushOptions::new("../data", 1);
    let refused = origin.client().push(&content[..], &named, |_| ()).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("../data"), "{error}");
    for node in ["node-1", "node-2", "node-3"] {
        eventually("it is forgotten", async || {
            listed(&cluster, node).is_empty().then_some(())
        })
        .await;
    }
    stop(cluster).await;
}
