//! The commands that ask nodes: `status`, `topology`, `send`, `broadcast`, `leave`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use binomesh_routing::packet::Confirmation;
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use serde::Serialize;

use super::Failure;
use super::arguments::{BroadcastFlags, LeaveFlags, Payload, SendFlags, Target};
use super::host_list::fold;
use super::output::{Output, ended, note};
use crate::client::{Client, ClientError, Endpoint};
use crate::cluster::Directory;
use crate::command::{Due, SendOptions};
use crate::expiry::{CredentialTerm, Stage};
use crate::report::{NodeReport, Receipt, Status};
use crate::settings::NodeConfig;
use crate::state::wall_clock_seconds;
use crate::topic;

/// The time that a node has to answer a question about itself.
const ANSWER: Duration = Duration::from_secs(10);
/// When one node that answers is looked for, the time after which the next is asked as well.
const STAGGER: Duration = Duration::from_millis(20);
/// The admin socket of a host that runs one node.
const USUAL_SOCKET: &str = "/run/binomesh/admin.sock";
/// The most nodes that are asked at once.
const AT_ONCE: usize = 256;
/// How much longer than its deadline a receipt, or the end of a node that leaves, is awaited.
const LATE: Duration = Duration::from_secs(10);

/// The clients of the nodes that [`whom`] finds, each with a name to show: one node, or all nodes
/// of a cluster.
pub(super) fn clients(target: &Target) -> Result<Vec<(String, Client)>, Failure> {
    let dir = match whom(target, |name| std::env::var(name).ok())? {
        Whom::Node(endpoint) => {
            return Ok(vec![(endpoint.to_string(), Client::new(endpoint))]);
        }
        Whom::Cluster(dir) => dir,
    };
    let directory = Directory::open(&dir).map_err(Failure::unreachable)?;
    let wanted = |name: &str| target.node.as_ref().is_none_or(|node| node == name);
    let found: Vec<(String, Client)> = directory
        .nodes
        .into_iter()
        .filter(|node| wanted(&node.name))
        .map(|node| (node.name, Client::new(Endpoint::Unix(node.admin_socket))))
        .collect();
    match (found.is_empty(), &target.node) {
        (false, _) => Ok(found),
        (true, Some(node)) => Err(Failure::usage(format!(
            "the cluster has no node {node}; `binomesh status` lists the nodes"
        ))),
        (true, None) => Err(Failure::usage(
            "the cluster has no nodes; give the folder of another cluster with --cluster DIR",
        )),
    }
}

/// The nodes to ask.
#[derive(Debug, PartialEq, Eq)]
enum Whom {
    /// One node, by its admin API.
    Node(Endpoint),
    /// The nodes of a local cluster, by its folder.
    Cluster(PathBuf),
}

/// The nodes that the flags name, else the environment, else the usual socket if it exists.
fn whom(target: &Target, variable: impl Fn(&str) -> Option<String>) -> Result<Whom, Failure> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(endpoint) = &target.admin {
        return Ok(Whom::Node(endpoint.clone()));
    }
    if let Some(dir) = &target.cluster {
        return Ok(Whom::Cluster(dir.clone()));
    }
    let cluster = variable("BINOMESH_CLUSTER").map(|dir| Whom::Cluster(dir.into()));
    if target.node.is_some() {
        return cluster.ok_or_else(|| {
            Failure::usage(
                "--node names a node of a local cluster; give the folder of the \
                            cluster with --cluster DIR",
            )
        });
    }
    if let Some(admin) = variable("BINOMESH_ADMIN") {
        let endpoint = admin.parse().map_err(|error| {
            Failure::usage(format!("environment variable BINOMESH_ADMIN: {error}"))
        })?;
        return Ok(Whom::Node(endpoint));
    }
    let usual = Path::new(USUAL_SOCKET);
    let usual = || {
        usual
            .exists()
            .then(|| Whom::Node(Endpoint::Unix(usual.to_owned())))
    };
    cluster.or_else(usual).ok_or_else(|| {
        Failure::usage(format!(
            "no node is named, and the usual socket {USUAL_SOCKET} does not exist; give --cluster \
             DIR or --admin SOCKET"
        ))
    })
}

/// The node that the flags name, or the first of a cluster that answers. The next node is asked
/// when one fails, and also when one takes long, since it may hang.
pub(super) async fn one(target: &Target) -> Result<Client, Failure> {
    first(clients(target)?).await
}

async fn first(clients: Vec<(String, Client)>) -> Result<Client, Failure> {
    let ask = async |client: Client| bounded(client.status()).await.map(|_| client);
    let mut clients = clients.into_iter().map(|(_, client)| client);
    let mut asked = FuturesUnordered::new();
    let mut last = Failure::unreachable("no node answers; see that the nodes run");
    loop {
        if asked.len() < AT_ONCE
            && let Some(client) = clients.next()
        {
            asked.push(ask(client));
        }
        let more = async {
            match clients.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(STAGGER).await,
            }
        };
        tokio::select! {
            answer = asked.next() => match answer {
                Some(Ok(client)) => return Ok(client),
                Some(Err(failure)) => last = failure,
                None => return Err(last),
            },
            () = more => {}
        }
    }
}

pub(super) async fn bounded<T>(
    asking: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER, asking).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::timeout(format!(
            "the node gave no answer within {} s",
            ANSWER.as_secs()
        ))),
    }
}

/// The answers of these nodes, in the nodes' order. Up to [`AT_ONCE`] nodes are asked at once,
/// since some may hang.
pub(super) fn answers<T, A>(
    clients: Vec<(String, Client)>,
    ask: impl Fn(Client) -> A,
) -> impl Stream<Item = (String, Result<T, Failure>)>
where
    A: Future<Output = Result<T, ClientError>>,
{
    stream::iter(asked(clients, ask)).buffered(AT_ONCE)
}

/// The answers of these nodes, in the order in which they come.
pub(super) fn answers_as_they_come<T, A>(
    clients: Vec<(String, Client)>,
    ask: impl Fn(Client) -> A,
) -> impl Stream<Item = (String, Result<T, Failure>)>
where
    A: Future<Output = Result<T, ClientError>>,
{
    stream::iter(asked(clients, ask)).buffer_unordered(AT_ONCE)
}

fn asked<T, A>(
    clients: Vec<(String, Client)>,
    ask: impl Fn(Client) -> A,
) -> impl Iterator<Item = impl Future<Output = (String, Result<T, Failure>)>>
where
    A: Future<Output = Result<T, ClientError>>,
{
    clients.into_iter().map(move |(name, client)| {
        let asking = ask(client);
        async move { (name, bounded(asking).await) }
    })
}

pub(super) async fn status(target: &Target, mut output: Output) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let mut written = Ok(());
    let ask = async |client: Client| client.status().await;
    let mut answers = pin!(answers(clients(target)?, ask));
    while let Some((name, answer)) = answers.next().await {
        match answer {
            Ok(status) => {
                if written.is_ok() {
                    written = output.line(&status, described);
                }
                if !status.ready && outcome.is_ok() {
                    outcome = Err(Failure::failed(format!(
                        "node {} is not ready",
                        status.name
                    )));
                }
            }
            Err(failure) => {
                note(format_args!("{name}: {}", failure.message));
                outcome = Err(Failure::new(failure.status, ""));
            }
        }
    }
    ended(outcome, written)
}

pub(super) fn described(status: &Status) -> String {
    let rank = status
        .rank
        .map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let population = status.population.unwrap_or(0);
    let health = match (&status.reason, status.ready) {
        (_, true) => "healthy",
        (Some(reason), false) => reason,
        (None, false) => "not ready",
    };
    let lost = match status.lost_count {
        0 => String::new(),
        1 => ", 1 former member is lost".to_owned(),
        count => format!(", {count} former members are lost"),
    };
    let Status {
        name,
        pid,
        address,
        links,
        ..
    } = status;
    let gone: String = status
        .addresses_gone
        .iter()
        .map(|address| format!("; this host no longer has {}", address.ip()))
        .collect();
    let now = wall_clock_seconds();
    let ends: String = status
        .credentials
        .iter()
        .filter_map(|term| ending(term, now))
        .collect();
    let unmet = match &status.unmet[..] {
        [] => String::new(),
        unmet => format!(
            "; listed and never met: {}",
            fold(unmet.iter().map(String::as_str))
        ),
    };
    format!(
        "{name:<12} rank {rank:>4} of {population:<4} links {links:<3} pid {pid:<8} {address:<22} {health}{gone}{lost}{unmet}{ends}"
    )
}

/// A warning if a credential ends soon, or has ended.
fn ending(term: &CredentialTerm, now: i64) -> Option<String> {
    let (document, left) = (term.document.replace('_', " "), term.left(now));
    match term.stage(now) {
        Stage::Good => None,
        Stage::Ending => Some(format!("; its {document} ends in {left}")),
        Stage::Ended => Some(format!("; its {document} ended {left} ago")),
    }
}

#[derive(Serialize)]
struct Topology {
    nodes: Vec<NodeReport>,
}

/// Print the tables of the nodes. Nodes that do not answer are left out, each with a line on
/// standard error, and the command fails at its end.
pub(super) async fn topology(target: &Target, mut output: Output) -> Result<(), Failure> {
    let mut nodes = Vec::new();
    let mut outcome = Ok(());
    let ask = async |client: Client| client.topology().await;
    let mut answers = pin!(answers(clients(target)?, ask));
    while let Some((name, answer)) = answers.next().await {
        match answer {
            Ok(report) => nodes.push(report),
            Err(failure) => {
                note(format_args!("{name}: {}", failure.message));
                outcome = Err(Failure::new(failure.status, ""));
            }
        }
    }
    if let (true, Err(failure)) = (nodes.is_empty(), &outcome) {
        return Err(Failure::new(
            failure.status,
            "no node answers; see that the nodes run",
        ));
    }
    let written = output.line(&Topology { nodes }, |topology| {
        let mut nodes: Vec<&NodeReport> = topology.nodes.iter().collect();
        nodes.sort_by_key(|node| node.rank);
        let lines: Vec<String> = nodes.into_iter().map(drawn).collect();
        lines.join("\n")
    });
    ended(outcome, written)
}

fn drawn(node: &NodeReport) -> String {
    let row = |entries: &[Option<String>]| {
        let shown: Vec<&str> = entries
            .iter()
            .map(|one| one.as_deref().unwrap_or("-"))
            .collect();
        shown.join(" ")
    };
    let rank = node
        .rank
        .map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    format!(
        "{rank:>4} {:<12} parent {:<12} clockwise [{}] counterclockwise [{}]{}",
        node.name,
        node.parent.as_deref().unwrap_or("(root)"),
        row(&node.clockwise),
        row(&node.counterclockwise),
        match (node.healthy, node.ready) {
            (_, true) => "",
            (true, false) => "  not ready",
            (false, false) => "  not healthy",
        },
    )
}

fn payload(message: &Payload) -> Result<Vec<u8>, Failure> {
    let failed =
        |from: &str, error| Failure::usage(format!("cannot read the payload from {from}: {error}"));
    if let Some(text) = &message.payload {
        return Ok(text.clone().into_bytes());
    }
    let Some(path) = &message.file else {
        let read = whole(std::io::stdin().lock());
        return read.map_err(|error| failed("standard input", error));
    };
    let unopened = |error| {
        let path = path.display();
        Failure::usage(format!(
            "cannot open the file of the payload {path}: {error}; name a file that you may read, \
             or write the payload to standard input"
        ))
    };
    let file = std::fs::File::open(path).map_err(unopened)?;
    whole(file).map_err(|error| failed(&path.display().to_string(), error))
}

/// All bytes of a source, if they are not too many for one message.
fn whole(from: impl Read) -> std::io::Result<Vec<u8>> {
    const MAX: usize = NodeConfig::MAX_PAYLOAD_BYTES;
    let mut bytes = Vec::new();
    from.take(MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX {
        let text = format!(
            "the payload is longer than {MAX} bytes, the limit of a message; use \
                            `binomesh push`"
        );
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

pub(super) async fn send(flags: &SendFlags) -> Result<(), Failure> {
    let options = options(&flags.message)?;
    let payload = payload(&flags.message)?;
    let client = one(&flags.target).await?;
    let sending = client.send_with(&flags.to, payload, &options);
    receipt(sending, &flags.message, false).await
}

pub(super) async fn broadcast(flags: &BroadcastFlags) -> Result<(), Failure> {
    let mut options = options(&flags.message)?;
    let payload = payload(&flags.message)?;
    let client = one(&flags.target).await?;
    options.strategy = flags.strategy;
    if flags.collect {
        options.confirmation = Confirmation::Acknowledged;
    }
    let sending = client.broadcast_with(payload, &options);
    receipt(sending, &flags.message, flags.allow_none).await
}

/// The failure of a message without any receiver.
pub(super) fn nobody() -> Failure {
    Failure::failed(
        "nothing was sent, since this node knows no other member; see `binomesh status`, or give \
         --allow-none to end with status 0",
    )
}

fn due(message: &Payload) -> Due {
    let within = Due::Within(Duration::from_secs(message.timeout_seconds));
    let until = message.until_seconds.map(Duration::from_secs);
    until.map_or(within, Due::Until)
}

fn options(message: &Payload) -> Result<SendOptions, Failure> {
    let topic = topic::target(&message.topic);
    Ok(SendOptions {
        topic: topic.map_err(Failure::usage)?,
        due: due(message),
        confirmation: message.confirm,
        is_ordered: message.ordered,
        ..SendOptions::default()
    })
}

async fn receipt(
    sending: impl Future<Output = Result<Receipt, ClientError>>,
    message: &Payload,
    may_be_for_none: bool,
) -> Result<(), Failure> {
    let limit = due(message).time().unwrap_or_default().saturating_add(LATE);
    let answer = tokio::time::timeout(limit, sending).await;
    let receipt = answer.map_err(|_| {
        Failure::timeout("the node gave no receipt in time; read the log of the node")
    })??;
    let written = Output::stdout(message.json).line(&receipt, receipt_text);
    ended(receipt_status(&receipt, may_be_for_none), written)
}

fn receipt_text(receipt: &Receipt) -> String {
    let mut text = format!(
        "{} reached {} of {} in {:.3} s",
        receipt.id, receipt.reached_count, receipt.expected_count, receipt.elapsed_seconds
    );
    for one in &receipt.unreached {
        text.push_str(&format!(
            "\n  {:?}: {} ({})",
            one.state, one.name, one.reason
        ));
    }
    for one in &receipt.replaced {
        text.push_str(&format!("\n  replaced: {one}"));
    }
    for one in &receipt.absent {
        let seen = one
            .last_seen_seconds
            .map(|ago| format!(" (a member {ago:.0} s ago)"));
        text.push_str(&format!(
            "\n  absent{}: {}{}",
            if one.left { " (left)" } else { "" },
            one.name,
            seen.unwrap_or_default()
        ));
    }
    for one in &receipt.unacknowledged {
        text.push_str(&format!("\n  {}: {}", one.reason, one.name));
    }
    for reply in &receipt.replies {
        let names = fold(reply.names.iter().map(String::as_str));
        let said = String::from_utf8_lossy(&reply.reply);
        text.push_str(&format!(
            "\n{names} ({}):\n  {}",
            reply.count,
            // Indented, so that no line of an answer looks like a line of this command.
            said.trim_end().replace('\n', "\n  ")
        ));
    }
    text
}

/// The command's outcome: success if all members that were to get the message have it and have
/// confirmed as asked, and no host of the inventory is absent. Without any such member it is a
/// success only if the message `may_be_for_none`.
fn receipt_status(receipt: &Receipt, may_be_for_none: bool) -> Result<(), Failure> {
    if receipt.is_complete() {
        let is_for_none = receipt.expected_count == 0;
        return match is_for_none && !may_be_for_none {
            true => Err(nobody()),
            false => Ok(()),
        };
    }
    let (reached, expected) = (receipt.reached_count, receipt.expected_count);
    let mut lacks = format!("the message reached {reached} of {expected} members");
    for (count, what) in [
        (receipt.absent.len(), "absent"),
        (
            receipt.unacknowledged.len(),
            "without the requested confirmation",
        ),
    ] {
        if count > 0 {
            lacks.push_str(&format!(", {count} {what}"));
        }
    }
    Err(Failure::failed(lacks))
}

#[derive(Serialize)]
struct Left<'a> {
    event: &'static str,
    name: &'a str,
}

pub(super) async fn leave(flags: &LeaveFlags) -> Result<(), Failure> {
    let clients = clients(&flags.target)?;
    let [(name, client)] = clients.as_slice() else {
        return Err(Failure::usage(
            "several nodes could leave; name one of them with --node NAME",
        ));
    };
    // The node is reported by its name, not by the socket through which it was asked.
    let status = bounded(client.status()).await;
    let name = &status.map_or_else(|_| name.clone(), |status| status.name);
    let drain = Duration::from_secs(flags.drain_seconds);
    let leaving = client.leave(Some(drain));
    match tokio::time::timeout(drain.saturating_add(LATE), leaving).await {
        Ok(left) => left?,
        Err(_) => {
            return Err(Failure::timeout(format!(
                "{name} did not leave in time; read the log of the node, or end its process"
            )));
        }
    }
    if flags.json {
        let left = Left {
            event: "left",
            name,
        };
        return Ok(Output::stdout(true).line(&left, |_| "")?);
    }
    note(format_args!("{name} has left"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(admin: Option<&str>, cluster: Option<&Path>, node: Option<&str>) -> Target {
        Target {
            cluster: cluster.map(Path::to_owned),
            node: node.map(str::to_owned),
            admin: admin.map(|text| text.parse().unwrap()),
        }
    }

    #[test]
    fn no_more_is_read_than_may_be_sent() {
        assert_eq!(whole(&b"abc"[..]).unwrap(), b"abc");
        let most = std::io::repeat(7).take(16 << 20);
        assert_eq!(whole(most).unwrap().len(), 16 << 20);
        let error = whole(std::io::repeat(7)).unwrap_err().to_string();
        assert!(error.contains("16777216"), "{error}");
    }

    /// The nodes accept connections but never answer, like paused processes.
    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the clock of the test is paused")]
    async fn nodes_that_hang_are_waited_for_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut hung = Vec::new();
        let clients = (0..6).map(|number| {
            let path = dir.path().join(number.to_string());
            hung.push(std::os::unix::net::UnixListener::bind(&path).unwrap());
            (number.to_string(), Client::new(Endpoint::Unix(path)))
        });
        let clients: Vec<_> = clients.collect();
        let began = tokio::time::Instant::now();
        let failure = first(clients.clone()).await.unwrap_err();
        assert_eq!(failure.status, 4);
        assert!(began.elapsed() < 2 * ANSWER, "{:?}", began.elapsed());
        let began = tokio::time::Instant::now();
        let ask = async |client: Client| client.status().await;
        let answers: Vec<_> = answers(clients, ask).collect().await;
        let names: Vec<&str> = answers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5"]);
        assert!(
            answers
                .iter()
                .all(|(_, answer)| answer.as_ref().is_err_and(|it| it.status == 4))
        );
        assert!(began.elapsed() < 2 * ANSWER, "{:?}", began.elapsed());
    }

    #[test]
    fn flags_count_more_than_the_environment_and_a_socket_more_than_a_cluster() {
        let both = |name: &str| match name {
            "BINOMESH_ADMIN" => Some("/a".to_owned()),
            "BINOMESH_CLUSTER" => Some("/c".to_owned()),
            _ => None,
        };
        let node = |path: &str| Whom::Node(path.parse().unwrap());
        let cluster = |path: &str| Whom::Cluster(path.into());
        let found = |target: &Target| whom(target, both).unwrap();
        assert_eq!(found(&target(Some("/b"), None, None)), node("/b"));
        assert_eq!(
            found(&target(None, Some(Path::new("/d")), None)),
            cluster("/d")
        );
        assert_eq!(found(&target(None, None, None)), node("/a"));
        assert_eq!(found(&target(None, None, Some("n"))), cluster("/c"));
        let none = |_: &str| Some(String::new());
        let failure = whom(&target(None, None, Some("n")), none).unwrap_err();
        assert_eq!(failure.status, 2);
        assert!(failure.message.contains("--cluster"), "{failure:?}");
    }

    #[tokio::test]
    async fn exit_status_tells_unreachable_from_usage() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("s").display().to_string();
        let failure = status(&target(None, None, None), Output::stdout(true)).await;
        assert_eq!(failure.unwrap_err().status, 2);
        let failure = topology(&target(Some(&nowhere), None, None), Output::stdout(true)).await;
        assert_eq!(failure.unwrap_err().status, 3);
        let failure = clients(&target(None, Some(dir.path()), None))
            .err()
            .unwrap();
        assert_eq!(failure.status, 3, "no cluster.json: no cluster");
        let empty = r#"{"pid":1,"nodes":[]}"#;
        std::fs::write(dir.path().join("cluster.json"), empty).unwrap();
        let failure = clients(&target(None, Some(dir.path()), Some("n")))
            .err()
            .unwrap();
        assert_eq!(failure.status, 2);
    }
}
