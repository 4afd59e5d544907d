//! The commands `barrier`, `agree`, `gather`, `reduce` and `collectives`.

use std::convert::Infallible;
use std::io::Read;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;

use super::Failure;
use super::arguments::{SECONDS_MAX, Target};
use super::ask::{answers, bounded, clients, one};
use super::host_list::fold;
use super::output::{Output, ended, note};
use crate::client::{Client, CollectiveAnswer, CollectiveRequest};
use crate::collective::{CollectiveView, Number, Op};

/// How much longer than its deadline an outcome is awaited.
const LATE: Duration = Duration::from_secs(10);
/// How often standard error names the members that are still missing.
const NOTICE: Duration = Duration::from_secs(10);

/// The value of this member.
#[derive(Debug, Clone, Args)]
struct ValueArguments {
    /// The value [default: standard input, unless --file is given].
    #[arg(conflicts_with = "file")]
    value: Option<String>,
    /// A file that holds the value.
    #[arg(long)]
    file: Option<PathBuf>,
}

impl ValueArguments {
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        match (&self.value, &self.file) {
            (Some(value), _) => bytes = value.clone().into_bytes(),
            (None, Some(path)) => {
                let read = std::fs::read(path);
                let failed = |error| {
                    Failure::failed(format!(
                        "cannot read the file of the value {}: \
                                                     {error}",
                        path.display()
                    ))
                };
                bytes = read.map_err(failed)?;
            }
            (None, None) => {
                let read = std::io::stdin().lock().read_to_end(&mut bytes);
                read.map_err(|error| {
                    Failure::failed(format!(
                        "cannot read the value from standard input: {error}"
                    ))
                })?;
            }
        }
        Ok(bytes)
    }
}

/// The name, the members and the time limit of a collective operation.
#[derive(Debug, Clone, Args)]
pub(super) struct Which {
    #[command(flatten)]
    target: Target,
    /// The name of the operation, the same at all callers.
    name: String,
    /// The number of the operation among those of its name, which callers count up. A number that
    /// was called before gives the same outcome again.
    #[arg(long, default_value_t = 0)]
    generation: u64,
    /// The members of the operation, such as c[001-128], the same at all callers. The default is
    /// the setting `expect` of the node, or else the members of its epoch.
    #[arg(long, value_name = "HOSTS")]
    members: Option<String>,
    /// The time after which the outcome is due at the latest.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    timeout_seconds: u64,
    /// The action if members are lost: survivors (the others continue), survivors:K (the
    /// others continue if at least K are left; else the operation fails), abort, or wait (for the
    /// return of the lost members).
    #[arg(long, default_value = "survivors", value_parser = |text: &str| crate::admin::collectives::on_loss(text).map(|_| text.to_owned()))]
    on_loss: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "All members call the barrier. The barrier ends when all members have called, or when some
are lost or late. Exit status 0: all members have called. 1: the members have decided that
some have not called. 4: the members have decided nothing in time, since a decision needs a
majority of them.

Examples:
  binomesh barrier step --generation 7 --admin /run/binomesh/admin.sock
  binomesh barrier epilog --generation 12 --members 'c[001-128]' --timeout-seconds 30 --json"
)]
pub(super) struct BarrierFlags {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Each caller prints the same value: that of the first member in the list that has called.
The exit status is that of `barrier`.

Example:
  binomesh agree leader --generation 3 \"$(hostname)\" --admin /run/binomesh/admin.sock"
)]
pub(super) struct AgreeFlags {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    value: ValueArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --root all members get all values. The exit status is that of `barrier`.

Examples:
  binomesh gather kernels --admin /run/binomesh/admin.sock \"$(uname -r)\"
  binomesh gather load --root c001 --generation 5 --json \"$(cat /proc/loadavg)\""
)]
pub(super) struct GatherFlags {
    #[command(flatten)]
    which: Which,
    /// The only member that gets the values.
    #[arg(long, value_name = "NAME")]
    root: Option<String>,
    #[command(flatten)]
    value: ValueArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Several numbers are combined place by place. Without --root all members get the result.
The exit status is that of `barrier`.

Examples:
  binomesh reduce free-cores --admin /run/binomesh/admin.sock 12
  binomesh reduce hottest --op max:f64 --root c001 71.5 64.25"
)]
pub(super) struct ReduceFlags {
    #[command(flatten)]
    which: Which,
    /// The only member that gets the result.
    #[arg(long, value_name = "NAME")]
    root: Option<String>,
    /// The operation that combines the numbers: sum, min, max, and, or, xor, with :u64 or :i64;
    /// sum, min and max also with :f64. Sums of whole numbers wrap.
    #[arg(long, default_value = "sum:u64")]
    op: Op,
    /// The numbers of this member.
    #[arg(required = true, allow_negative_numbers = true)]
    values: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  binomesh collectives --admin /run/binomesh/admin.sock
  binomesh collectives --cluster /tmp/binomesh-x --node node-3 --json")]
pub(super) struct CollectivesFlags {
    #[command(flatten)]
    target: Target,
    /// Print the decided collectives, too.
    #[arg(long)]
    all: bool,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

impl Which {
    fn request(&self, verb: &str) -> CollectiveRequest {
        CollectiveRequest {
            verb: verb.to_owned(),
            name: self.name.clone(),
            generation: self.generation,
            members: self.members.clone(),
            on_loss: Some(self.on_loss.clone()),
            time: Some(Duration::from_secs(self.timeout_seconds)),
            ..CollectiveRequest::default()
        }
    }

    /// Call the operation, print the outcome, as JSON or as `text` formats it, and derive the exit
    /// status.
    async fn call(
        &self,
        request: &CollectiveRequest,
        value: Vec<u8>,
        text: impl FnOnce(&CollectiveAnswer) -> String,
    ) -> Result<(), Failure> {
        let client = one(&self.target).await?;
        let limit = Duration::from_secs(self.timeout_seconds) + LATE;
        let asking = client.collective(request, value);
        let asking = async {
            tokio::select! {
                answer = asking => answer,
                never = self.tell_who_is_missing(&client) => match never {},
            }
        };
        let answer = match tokio::time::timeout(limit, asking).await {
            Ok(answer) => answer?,
            Err(_) => {
                return Err(Failure::timeout(
                    "the node gave no outcome before the deadline",
                ));
            }
        };
        let written = Output::stdout(self.json).line(&answer, text);
        ended(self.outcome_status(&answer), written)
    }

    /// The exit status for an outcome.
    fn outcome_status(&self, answer: &CollectiveAnswer) -> Result<(), Failure> {
        match (answer.agreed, answer.missing.is_empty()) {
            (false, _) => Err(Failure::timeout(format!(
                "the members decided nothing within {} s{}",
                self.timeout_seconds,
                missing(answer)
            ))),
            (true, is_whole) => match (answer.end.as_deref(), is_whole) {
                (Some("completed"), true) => Ok(()),
                (Some("completed") | None, _) => Err(Failure::failed(format!(
                    "the operation ended without some members{}",
                    missing(answer)
                ))),
                // Here `late` members are those that had not arrived when the operation ended
                // early.
                (Some(end), _) => Err(Failure::failed(format!("{end}{}", missing(answer)))),
            },
        }
    }

    /// Print from time to time which members have not arrived, as far as the node knows.
    async fn tell_who_is_missing(&self, client: &Client) -> Infallible {
        loop {
            tokio::time::sleep(NOTICE).await;
            // If the node does not answer, there is nothing to print.
            let views = bounded(client.collectives()).await.unwrap_or_default();
            let is_this = |view: &&CollectiveView| {
                view.name == self.name && view.generation == self.generation
            };
            if let Some(view) = views.iter().find(is_this) {
                note(described(view));
            }
        }
    }
}

/// The missing members, by reason.
fn missing(answer: &CollectiveAnswer) -> String {
    let mut text = String::new();
    for state in ["dead", "left", "late", "lost"] {
        let of = answer.missing.iter().filter(|one| one.state == state);
        let names: Vec<&str> = of.map(|one| one.name.as_str()).collect();
        if !names.is_empty() {
            text += &format!("; {state}: {}", fold(names));
        }
    }
    text
}

fn counted(answer: &CollectiveAnswer) -> String {
    format!(
        "{} of {} have come, after {:.3} s",
        answer.arrived_count,
        answer.arrived_count + answer.missing.len(),
        answer.elapsed_seconds
    )
}

pub(super) async fn barrier(flags: &BarrierFlags) -> Result<(), Failure> {
    let request = flags.which.request("barrier");
    flags.which.call(&request, Vec::new(), counted).await
}

pub(super) async fn agree(flags: &AgreeFlags) -> Result<(), Failure> {
    let request = flags.which.request("agree");
    let value = flags.value.bytes()?;
    let text = |answer: &CollectiveAnswer| match answer.values.first() {
        Some(value) => String::from_utf8_lossy(&value.bytes()).into_owned(),
        None => counted(answer),
    };
    flags.which.call(&request, value, text).await
}

pub(super) async fn gather(flags: &GatherFlags) -> Result<(), Failure> {
    let verb = match flags.root {
        Some(_) => "gather",
        None => "all-gather",
    };
    let mut request = flags.which.request(verb);
    request.root = flags.root.clone();
    let value = flags.value.bytes()?;
    let text = |answer: &CollectiveAnswer| {
        if answer.values.is_empty() {
            return counted(answer);
        }
        let lines = answer.values.iter();
        let lines: Vec<String> = lines
            .map(|value| {
                format!(
                    "{}: {}",
                    value.name,
                    String::from_utf8_lossy(&value.bytes())
                )
            })
            .collect();
        lines.join("\n")
    };
    flags.which.call(&request, value, text).await
}

pub(super) async fn reduce(flags: &ReduceFlags) -> Result<(), Failure> {
    let verb = match flags.root {
        Some(_) => "reduce",
        None => "all-reduce",
    };
    let mut request = flags.which.request(verb);
    request.root = flags.root.clone();
    request.op = Some(flags.op.to_string());
    let number = match &flags.op {
        Op::Numbers(_, number) => *number,
        Op::User(_) => {
            return Err(Failure::usage(
                "--op has no function that a program defines; \
                                                  give one of sum, min, max, and, or and xor",
            ));
        }
    };
    let mut value = Vec::new();
    for text in &flags.values {
        value.extend(bytes_of(text, number)?);
    }
    let text = |answer: &CollectiveAnswer| match answer.result() {
        Some(bytes) => numbers_of(&bytes, number),
        None => counted(answer),
    };
    flags.which.call(&request, value, text).await
}

fn bytes_of(text: &str, number: Number) -> Result<[u8; 8], Failure> {
    let bytes = match number {
        Number::U64 => text.parse().ok().map(u64::to_le_bytes),
        Number::I64 => text.parse().ok().map(i64::to_le_bytes),
        Number::F64 => text.parse().ok().map(f64::to_le_bytes),
    };
    let kind = match number {
        Number::U64 => "a whole number without a sign",
        Number::I64 => "a whole number",
        Number::F64 => "a number",
    };
    let hint = "; give another kind with --op, such as sum:i64 or sum:f64";
    bytes.ok_or_else(|| Failure::usage(format!("{text:?} is not {kind} of 64 bits{hint}")))
}

fn numbers_of(bytes: &[u8], number: Number) -> String {
    let one = |bytes: &[u8; 8]| match number {
        Number::U64 => u64::from_le_bytes(*bytes).to_string(),
        Number::I64 => i64::from_le_bytes(*bytes).to_string(),
        Number::F64 => f64::from_le_bytes(*bytes).to_string(),
    };
    let all: Vec<String> = bytes.as_chunks::<8>().0.iter().map(one).collect();
    all.join(" ")
}

pub(super) async fn collectives(flags: &CollectivesFlags) -> Result<(), Failure> {
    let mut output = Output::stdout(flags.json);
    let mut shown = std::collections::BTreeSet::new();
    let mut outcome = Ok(());
    let ask = async |client: Client| client.collectives().await;
    let mut answers = pin!(answers(clients(&flags.target)?, ask));
    while let Some((name, answer)) = answers.next().await {
        let views = answer.unwrap_or_else(|failure| {
            note(format_args!("{name}: {}", failure.message));
            outcome = Err(Failure::new(failure.status, ""));
            Vec::new()
        });
        for view in views {
            let is_new = shown.insert((view.name.clone(), view.generation));
            if is_new && (flags.all || view.state == "open") {
                let written = output.line(&view, described);
                if written.is_err() {
                    return ended(outcome, written);
                }
            }
        }
    }
    outcome
}

fn described(view: &CollectiveView) -> String {
    let names = view.missing.iter().map(|missing| missing.name.as_str());
    let missing = match view.missing.is_empty() {
        true => String::new(),
        false => format!("; waits for {}", fold(names)),
    };
    let missing = match view.state == "open" {
        true => missing,
        false => missing.replace("waits for", "without"),
    };
    format!(
        "{:<20} generation {:<8} {:<11} {:<8} {} of {} have come{missing}",
        view.name, view.generation, view.verb, view.state, view.arrived_count, view.members_count
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written() {
        for (text, number) in [
            ("7", Number::U64),
            ("-7", Number::I64),
            ("-0.25", Number::F64),
        ] {
            let bytes = bytes_of(text, number).unwrap();
            assert_eq!(numbers_of(&bytes, number), text);
        }
        assert_eq!(bytes_of("-7", Number::U64).unwrap_err().status, 2);
        assert_eq!(bytes_of("x", Number::F64).unwrap_err().status, 2);
    }
}
