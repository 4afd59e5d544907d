//! The command `subscribe`: prints messages, and answers them.

use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use super::Failure;
use super::arguments::SubscribeFlags;
use super::ask::{bounded, one};
use super::output::{Output, in_a_line, note};
use crate::client::SubscriptionEvent;
use crate::report::{Delivery, GapView, Reply};

/// How long the remaining output of a command is read after its end.
const REST: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Subscribed {
    event: &'static str,
}

#[derive(Serialize)]
struct MissedLine {
    event: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct GapLine {
    event: &'static str,
    #[serde(flatten)]
    gap: GapView,
}

pub(super) async fn subscribe(flags: &SubscribeFlags) -> Result<(), Failure> {
    let reading = read(flags);
    let limited = async {
        match flags.timeout_seconds {
            None => reading.await,
            Some(seconds) => tokio::time::timeout(Duration::from_secs(seconds), reading)
                .await
                .unwrap_or_else(|_| {
                    Err(Failure::timeout(
                        "the time of --timeout-seconds is over; to wait for more messages, give a larger one",
                    ))
                }),
        }
    };
    tokio::select! {
        outcome = limited => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn read(flags: &SubscribeFlags) -> Result<(), Failure> {
    let client = one(&flags.target).await?;
    let mut output = Output::stdout(flags.json);
    let mut events = match flags.ordered {
        true => {
            let hold = flags.hold_ms.map(Duration::from_millis);
            client.subscribe_ordered(&flags.topic, hold).await?
        }
        false => client.subscribe(&flags.topic).await?,
    };
    if output.is_json() {
        output.line(
            &Subscribed {
                event: "subscribed",
            },
            |_| "",
        )?;
    } else {
        note(format_args!("subscribed to {}", flags.topic));
    }
    let mut left = flags.count;
    while left != Some(0) {
        match events.next().await {
            Some(Ok(SubscriptionEvent::Delivery(delivery))) => {
                output.line(&delivery, |delivery| {
                    let bytes = base64::engine::general_purpose::STANDARD
                        .decode(&delivery.payload_base64)
                        .unwrap_or_default();
                    let payload = String::from_utf8_lossy(&bytes);
                    let payload = in_a_line(&payload);
                    let late = if delivery.late { " (late)" } else { "" };
                    format!("{} {}{late} {payload}", delivery.origin, delivery.topic)
                })?;
                if delivery.wants_reply
                    && let Some(answer) = answer(flags, &delivery).await?
                    && let Err(failure) = bounded(client.reply(&delivery.id, answer)).await
                {
                    let Failure { message, .. } = failure;
                    note(format_args!(
                        "cannot answer the message {}: {message}",
                        delivery.id
                    ));
                }
                left = left.map(|left| left - 1);
            }
            Some(Ok(SubscriptionEvent::Missed(count))) => {
                let missed = MissedLine {
                    event: "missed",
                    count,
                };
                if output.is_json() {
                    output.line(&missed, |_| "")?;
                }
                note(format_args!(
                    "{count} messages were lost, since this command did not read \
                                   them in time"
                ));
            }
            Some(Ok(SubscriptionEvent::Gap(gap))) => {
                let line = GapLine { event: "gap", gap };
                output.line(&line, |GapLine { gap, .. }| {
                    let GapView {
                        origin,
                        topic,
                        count,
                        ..
                    } = gap;
                    format!(
                        "{origin} {topic} ({count} missing: {} to {})",
                        gap.from, gap.to
                    )
                })?;
            }
            Some(Err(error)) => return Err(error.into()),
            None => {
                return Err(Failure::unreachable(
                    "the node has stopped; start the node again",
                ));
            }
        }
    }
    Ok(())
}

/// The answer that the flags give to a message whose origin waits for one.
async fn answer(flags: &SubscribeFlags, delivery: &Delivery) -> Result<Option<Vec<u8>>, Failure> {
    let mut answer = match (&flags.reply, &flags.exec) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(command)) => {
            executed(command, delivery, Duration::from_secs(flags.exec_seconds)).await?
        }
        (None, None) => return Ok(None),
    };
    answer.truncate(Reply::MAX_BYTES);
    Ok(Some(answer))
}

/// The output of a command that gets this delivery; if the command fails, how it failed. After
/// `limit` the command is killed with all processes of its group, any of which could hold the
/// output open for ever.
async fn executed(command: &str, delivery: &Delivery, limit: Duration) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::failed(format!("cannot run {command:?}: {error}"));
    let payload = base64::engine::general_purpose::STANDARD
        .decode(&delivery.payload_base64)
        .unwrap_or_default();
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .env("BINOMESH_TOPIC", &delivery.topic)
        .env("BINOMESH_ORIGIN", &delivery.origin)
        .env("BINOMESH_ID", &delivery.id)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group::of(&child);
    let mut input = child.stdin.take();
    let feed = async {
        if let Some(input) = &mut input {
            // A command need not read its input.
            let _ = input.write_all(&payload).await;
        }
        drop(input);
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let ended = {
        let talk = async {
            tokio::join!(
                feed,
                drained(stdout, &mut output),
                drained(stderr, &mut errors)
            );
        };
        let both = async {
            let mut talk = pin!(talk);
            tokio::select! {
                () = &mut talk => child.wait().await,
                status = child.wait() => {
                    // The command's own output is in the pipes. Other processes that hold the pipes
                    // open are not waited for longer than this.
                    let _ = tokio::time::timeout(REST, talk).await;
                    status
                }
            }
        };
        tokio::time::timeout(limit, both).await
    };
    let Ok(status) = ended else {
        drop(group);
        let seconds = limit.as_secs();
        return Ok(
            format!("the command did not end within {seconds} s (--exec-seconds)\n").into_bytes(),
        );
    };
    group.leave();
    let status = status.map_err(failed)?;
    if status.success() {
        return Ok(output);
    }
    let mut text = format!("{status}\n").into_bytes();
    text.extend(errors);
    Ok(text)
}

/// All processes of a command; they are killed when this is dropped before the command has ended.
/// They form a process group of their own, so a terminal sends them no signals.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: &Child) -> Self {
        let pid = leader.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// The command has ended; processes that it left behind may go on.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // The processes may have ended just now.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Read all output, but keep only the beginning, up to the length of an answer. Closing the pipe
/// instead would end the command.
async fn drained(of: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut of) = of else {
        return;
    };
    let mut buffer = [0; 4096];
    // A failed read counts as the end.
    while let Ok(count @ 1..) = of.read(&mut buffer).await {
        let room = Reply::MAX_BYTES.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(count.min(room)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery() -> Delivery {
        serde_json::from_value(serde_json::json!({
            "id": "a:1", "origin": "a", "sequence": 1, "topic": "t", "size_bytes": 5,
            "blake3": "", "payload_base64": "aGVsbG8="
        }))
        .unwrap()
    }

    async fn said(command: &str) -> String {
        let said = executed(command, &delivery(), Duration::from_secs(20)).await;
        String::from_utf8(said.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn the_answer_of_a_command_is_its_output_or_its_failure() {
        assert_eq!(said("cat").await, "hello");
        let failed = said("echo no >&2; exit 3").await;
        assert!(
            failed.contains("exit status: 3") && failed.ends_with("no\n"),
            "{failed}"
        );
    }

    #[tokio::test]
    async fn more_than_an_answer_has_room_for_is_left_out_and_breaks_nothing() {
        let most = Reply::MAX_BYTES;
        assert_eq!(said("yes | head -c 1000000").await.len(), most);
        assert_eq!(said("yes | head -c 1000000; exit 0").await.len(), most);
    }

    #[tokio::test]
    async fn a_process_that_holds_the_output_of_a_command_is_not_waited_for() {
        let started =
            tokio::time::timeout(Duration::from_secs(15), said("sleep 60 & echo started $!"));
        let started = started.await.expect("it does not wait");
        let pid = started.strip_prefix("started ").unwrap().trim();
        let ended = std::process::Command::new("kill").arg(pid).status();
        assert!(ended.unwrap().success(), "it goes on: {pid}");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("sleep 60 & echo $! > {}; wait", file.display());
        let said = executed(&command, &delivery(), Duration::from_secs(1)).await;
        let said = String::from_utf8(said.unwrap()).unwrap();
        assert!(said.contains("--exec-seconds"), "{said}");
        let pid = std::fs::read_to_string(file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // The killed process is a zombie until its parent has collected its status.
        let is_over = || state().map_or(true, |state| state.contains(") Z "));
        let over = async {
            while !is_over() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let over = tokio::time::timeout(Duration::from_secs(15), over).await;
        assert!(over.is_ok(), "{pid}");
    }
}
