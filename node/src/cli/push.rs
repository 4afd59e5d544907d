//! `push`: a file to all nodes.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use super::arguments::PushFlags;
use super::ask::one;
use super::fold::fold;
use super::output::Output;
use crate::push::{PushOptions, PushReport};

pub(super) async fn push(flags: &PushFlags) -> Result<(), Failure> {
    let path = flags.file.display();
    let unreadable = |error| Failure::usage(format!("cannot read {path}: {error}"));
    let file = tokio::fs::File::open(&flags.file)
        .await
        .map_err(unreadable)?;
    let metadata = file.metadata().await.map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!(
            "{path} is no file; pack it first, with tar"
        )));
    }
    let own = flags
        .file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = flags.name.clone().or(own).unwrap_or_default();
    let mut options = PushOptions::new(name, metadata.len());
    options.replace = flags.replace;
    options.strategy = flags.strategy;
    options.patience = Duration::from_secs(flags.patience_seconds);

    let client = one(&flags.target).await?;
    // Draws on standard error, and only on a terminal.
    let bar = ProgressBar::new(metadata.len());
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()));
    let pushed = client
        .push(file, &options, |bytes| bar.set_position(bytes))
        .await;
    bar.finish_and_clear();
    let report = pushed?;
    Output::stdout(flags.json).line(&report, described)?;
    if report.is_complete() {
        return Ok(());
    }
    let (failed, absent) = (report.failed.len(), report.absent.len());
    Err(Failure::failed(format!(
        "{failed} nodes have not got it, {absent} are absent"
    )))
}

fn described(report: &PushReport) -> String {
    let mut text = format!(
        "{} ({} bytes, BLAKE3 {}) stored by {} in {:.3} s",
        report.name, report.size_bytes, report.blake3, report.stored_count, report.elapsed_seconds
    );
    let mut reasons: Vec<&str> = report
        .failed
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let failed = report.failed.iter().filter(|one| one.reason == reason);
        let names = fold(failed.map(|one| one.name.as_str()));
        text.push_str(&format!("\n  failed: {names}: {reason}"));
    }
    for one in &report.absent {
        text.push_str(&format!("\n  absent: {}", one.name));
    }
    text
}
