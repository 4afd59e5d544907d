//! The command `wait`: waits until a node is ready in an overlay of enough members.

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use tokio::time::Instant;

use super::Failure;
use super::arguments::{SECONDS_MAX, Target};
use super::ask::{answers_as_they_come, clients, described};
use super::output::{Output, note};
use crate::client::Client;
use crate::report::Status;

/// The pause before the nodes are asked again.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(
    after_help = "The wait ends when one of the asked nodes is ready and counts at least this number of members.
Exit status 4: not in time.

Examples:
  binomesh wait --members 16 --timeout-seconds 30 --admin /run/binomesh/admin.sock
  srun -n 64 binomesh run --launch slurm --job-secret job.secret -- sh -c 'binomesh wait --members 64 && ./work'"
)]
pub(super) struct WaitFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// The number of members.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) members: u32,
    /// Give up after this time.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub(super) timeout_seconds: u64,
    /// Print the status of the node as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Wait until one of the named nodes is ready and counts enough members. A node that does not
/// answer may still start.
pub(super) async fn wait(flags: &WaitFlags) -> Result<(), Failure> {
    let limit = Duration::from_secs(flags.timeout_seconds);
    let until = now() + limit;
    let mut told = String::new();
    let mut why = "no node has answered".to_owned();
    loop {
        let looking = look(&flags.target, flags.members, &mut why);
        let state = tokio::time::timeout_at(until, looking).await;
        match state {
            Ok(Ok(Some(status))) => {
                Output::stdout(flags.json).line(&status, described)?;
                return Ok(());
            }
            Ok(Err(failure)) if failure.status == 2 => return Err(failure),
            // The folder of a cluster may not exist yet.
            Ok(Err(failure)) => why = failure.message,
            Ok(Ok(None)) | Err(_) => {}
        }
        if why != told {
            note(&why);
            told.clone_from(&why);
        }
        if now() + PAUSE >= until {
            return Err(Failure::timeout(format!(
                "no asked node was ready with {} members after {} s: {why}",
                flags.members, flags.timeout_seconds
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The status of a node that is ready and counts enough members, if there is one. Otherwise `why`
/// gets the state of the node that is closest to that, or why none has answered.
async fn look(target: &Target, members: u32, why: &mut String) -> Result<Option<Status>, Failure> {
    let mut farthest: Option<Status> = None;
    let ask = async |client: Client| client.status().await;
    let mut answers = pin!(answers_as_they_come(clients(target)?, ask));
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(status) if is_there(&status, members) => return Ok(Some(status)),
            Ok(status) => {
                let rank = |status: &Status| (status.population, status.ready);
                if farthest
                    .as_ref()
                    .is_none_or(|far| rank(far) < rank(&status))
                {
                    *why = progress(&status, members);
                    farthest = Some(status);
                }
            }
            Err(failure) if farthest.is_none() => *why = failure.message,
            Err(_) => {}
        }
    }
    Ok(None)
}

fn is_there(status: &Status, members: u32) -> bool {
    status.ready && status.population.is_some_and(|count| count >= members)
}

fn progress(status: &Status, members: u32) -> String {
    let name = &status.name;
    let count = status.population.unwrap_or(0);
    let reason = match (&status.reason, status.ready) {
        (_, true) => String::new(),
        (Some(reason), false) => format!(", and is not ready: {reason}"),
        (None, false) => ", and is not ready".to_owned(),
    };
    format!("{name} counts {count} of {members} members{reason}")
}

#[expect(clippy::disallowed_methods, reason = "patience is wall time")]
fn now() -> Instant {
    Instant::now()
}
