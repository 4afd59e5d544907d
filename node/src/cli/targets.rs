//! The command `targets`: prints where the metrics of the cluster's nodes are, for Prometheus.

use std::path::{Path, PathBuf};
use std::pin::pin;

use clap::Args;
use futures_util::StreamExt;

use super::Failure;
use super::arguments::Target;
use super::ask::{answers_as_they_come, clients};
use super::output::{Output, note};
use crate::client::Client;
use crate::state::replace_as;
use crate::targets::TargetGroup;

/// The mode of the file: Prometheus reads it as another user.
const READABLE: u32 = 0o644;

#[derive(Debug, Args)]
#[command(
    after_help = "The output has the form of file_sd_configs of Prometheus. The metrics port of each node serves
the same list at /v1/targets, for http_sd_configs. The list has the members, the members that
were lost within a day, and the hosts that `expect` names. The label __meta_binomesh_state,
which only relabeling sees, tells them apart.

Examples:
  binomesh targets --admin /run/binomesh/admin.sock
  binomesh targets --admin http://127.0.0.1:9464 --out /etc/prometheus/binomesh.json"
)]
pub(super) struct TargetsFlags {
    #[command(flatten)]
    target: Target,
    /// The file of the targets, which is replaced at once, so that a reader never sees a part of
    /// it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the targets in one line.
    #[arg(long, conflicts_with = "out")]
    pub(super) json: bool,
}

/// Print the targets that the first answering node knows, or write them to the file of `--out`.
pub(super) async fn targets(flags: &TargetsFlags, mut output: Output) -> Result<(), Failure> {
    let ask = async |client: Client| client.targets().await;
    let mut answers = pin!(answers_as_they_come(clients(&flags.target)?, ask));
    let mut last = Failure::unreachable("no node answers; see that the nodes run");
    while let Some((_, answer)) = answers.next().await {
        match answer {
            Ok(found) => return write_targets(&found, flags.out.as_deref(), &mut output),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

fn write_targets(
    found: &[TargetGroup],
    out: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let pretty = serde_json::to_string_pretty(found).map_err(Failure::failed)?;
    let Some(out) = out else {
        return Ok(output.line(&found, |_| pretty)?);
    };
    replace_as(out, (pretty + "\n").as_bytes(), READABLE).map_err(|error| {
        let out = out.display();
        Failure::failed(format!(
            "cannot write {out}: {error}; check the path and its permissions"
        ))
    })?;
    note(format_args!(
        "{} has the targets, {} in all",
        out.display(),
        found.len()
    ));
    Ok(())
}
