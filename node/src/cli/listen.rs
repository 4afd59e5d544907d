//! The command that subscribes, and answers.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::Failure;
use super::arguments::SubscribeFlags;
use super::ask::one;
use super::output::Output;
use crate::client::SubscriptionEvent;
use crate::report::{Delivery, GapView, Reply};

#[derive(Serialize)]
struct Subscribed {
    event: &'static str,
}

#[derive(Serialize)]
struct Missed {
    event: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Missing {
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
                .unwrap_or_else(|_| Err(Failure::timeout("not enough messages in time"))),
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
        eprintln!("subscribed to {}", flags.topic);
    }
    let mut left = flags.count;
    while left != Some(0) {
        match events.next().await {
            Some(Ok(SubscriptionEvent::Delivery(delivery))) => {
                output.line(&delivery, |delivery| {
                    let bytes = base64::engine::general_purpose::STANDARD
                        .decode(&delivery.payload_base64)
                        .unwrap_or_default();
                    let payload = String::from_utf8_lossy(&bytes).into_owned();
                    let late = if delivery.late { " (late)" } else { "" };
                    format!("{} {}{late} {payload}", delivery.origin, delivery.topic)
                })?;
                if delivery.wants_reply
                    && let Some(answer) = answer(flags, &delivery).await?
                    && let Err(error) = client.reply(&delivery.id, answer).await
                {
                    eprintln!("{} is not answered: {error}", delivery.id);
                }
                left = left.map(|left| left - 1);
            }
            Some(Ok(SubscriptionEvent::Missed(count))) => {
                let missed = Missed {
                    event: "missed",
                    count,
                };
                if output.is_json() {
                    output.line(&missed, |_| "")?;
                }
                eprintln!("{count} messages were not read in time");
            }
            Some(Ok(SubscriptionEvent::Gap(gap))) => {
                let line = Missing { event: "gap", gap };
                output.line(&line, |Missing { gap, .. }| {
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
            None => return Err(Failure::unreachable("the node has stopped")),
        }
    }
    Ok(())
}

/// What the flags say to a message whose origin waits for an answer.
async fn answer(flags: &SubscribeFlags, delivery: &Delivery) -> Result<Option<Vec<u8>>, Failure> {
    let mut answer = match (&flags.reply, &flags.exec) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(command)) => executed(command, delivery).await?,
        (None, None) => return Ok(None),
    };
    answer.truncate(Reply::MAX_BYTES);
    Ok(Some(answer))
}

/// What a command prints; if it fails, how.
async fn executed(command: &str, delivery: &Delivery) -> Result<Vec<u8>, Failure> {
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
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let mut input = child.stdin.take();
    let feed = async {
        if let Some(input) = &mut input {
            // A command need not read its input.
            let _ = input.write_all(&payload).await;
        }
        drop(input);
    };
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    // Beyond that nothing is taken, and whoever writes on is told so by its pipe.
    let ((), output, errors) = tokio::join!(feed, beginning(output), beginning(errors));
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(output);
    }
    let mut text = format!("{status}\n").into_bytes();
    text.extend(errors);
    Ok(text)
}

/// What is written first, as long as an answer may be.
async fn beginning(of: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(of) = of {
        // What cannot be read is not there.
        let _ = of
            .take(Reply::MAX_BYTES as u64)
            .read_to_end(&mut bytes)
            .await;
    }
    bytes
}
