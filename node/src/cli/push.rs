//! The command `push`: sends a file, or standard input, to all nodes.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::Failure;
use super::arguments::PushFlags;
use super::ask::{nobody, one};
use super::host_list::fold;
use super::output::{Output, ended, in_a_line, note};
use crate::push::{PushOptions, PushReport};

/// A push is given up if the source has bytes and the node takes none of them for twice the
/// receivers' patience and this time.
const SILENCE: Duration = Duration::from_secs(60);
/// How often the progress is printed as a line, where no bar can be drawn.
const NOTICE: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "patience is wall time")]
fn now() -> Instant {
    Instant::now()
}

pub(super) async fn push(flags: &PushFlags) -> Result<(), Failure> {
    let (source, own, size) = open(&flags.file).await?;
    let Some(name) = flags.name.clone().or(own) else {
        return Err(Failure::usage(
            "data from standard input has no file name; give --name NAME",
        ));
    };
    let mut options = PushOptions::new(name, size);
    options.replace = flags.replace;
    options.strategy = flags.strategy;
    options.patience = Duration::from_secs(flags.patience_seconds);

    let client = one(&flags.target).await?;
    // The bar is drawn on standard error if that is a terminal.
    let (bar, style) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {bytes} {bytes_per_sec}",
        ),
    };
    bar.set_style(ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()));
    let last = Cell::new(now());
    let source = Attended::new(source);
    let is_awaited = source.is_awaited.clone();
    let pushing = client.push(source, &options, |bytes| {
        last.set(now());
        bar.set_position(bytes);
    });
    let limit = options.patience.saturating_mul(2) + SILENCE;
    let silent = silence(&last, &is_awaited, limit);
    let telling = async {
        loop {
            tokio::time::sleep(NOTICE).await;
            if bar.is_hidden() {
                note(progress(bar.position(), size));
            }
        }
    };
    let pushed = tokio::select! {
        pushed = pushing => Some(pushed),
        () = silent => None,
        () = telling => None,
    };
    bar.finish_and_clear();
    let Some(pushed) = pushed else {
        return Err(Failure::timeout(format!(
            "the node took no data for {} s, and gave no report",
            limit.as_secs()
        )));
    };
    let report = pushed?;
    let written = Output::stdout(flags.json).line(&report, described);
    ended(report_status(&report, flags.allow_none), written)
}

/// A source, and whether the push waits for its next bytes.
struct Attended<S> {
    source: S,
    is_awaited: Rc<Cell<bool>>,
}

impl<S> Attended<S> {
    fn new(source: S) -> Self {
        let is_awaited = Rc::default();
        Self { source, is_awaited }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = Pin::new(&mut self.source).poll_read(context, buffer);
        self.is_awaited.set(read.is_pending());
        read
    }
}

/// Ends once `limit` has passed since `last`, when the node last took a byte, and the push does not
/// wait for bytes of the source then. A source may be silent for as long as it likes.
async fn silence(last: &Cell<Instant>, is_awaited: &Cell<bool>, limit: Duration) {
    while let Some(left) = (last.get() + limit).checked_duration_since(now()) {
        tokio::time::sleep(left.max(Duration::from_millis(1))).await;
        if is_awaited.get() {
            last.set(now());
        }
    }
}

fn progress(bytes: u64, size: Option<u64>) -> String {
    let sent = HumanBytes(bytes);
    match size {
        Some(size) => format!("sent {sent} of {}", HumanBytes(size)),
        None => format!("sent {sent}"),
    }
}

/// The command's outcome: success if all nodes that were to get the file have stored it, and no
/// host of the inventory is absent. Without any such node it is a success only if the push
/// `may_be_for_none`.
fn report_status(report: &PushReport, may_be_for_none: bool) -> Result<(), Failure> {
    if report.is_complete() {
        return match report.stored_count == 0 && !may_be_for_none {
            true => Err(nobody()),
            false => Ok(()),
        };
    }
    let (failed, absent) = (report.failed.len(), report.absent.len());
    Err(Failure::failed(format!(
        "the push failed at {failed} nodes, and {absent} expected nodes were absent"
    )))
}

type Source = Box<dyn AsyncRead + Send + Unpin>;

/// The source of a push, with its file name and its length, as far as both are known.
async fn open(file: &Path) -> Result<(Source, Option<String>, Option<u64>), Failure> {
    if file == Path::new("-") {
        let unreadable = |error| Failure::usage(format!("cannot read standard input: {error}"));
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = std::fs::File::from(input.map_err(unreadable)?);
        if input.metadata().map_err(unreadable)?.is_dir() {
            return Err(Failure::usage(
                "standard input is a folder; push an archive of it, as in `tar -c FOLDER | \
                 binomesh push --name NAME -`",
            ));
        }
        return Ok((Box::new(tokio::fs::File::from_std(input)), None, None));
    }
    let path = file.display();
    let unreadable = |error| {
        Failure::usage(format!(
            "cannot read {path}: {error}; name a file that you may read, or write the data into \
             `binomesh push --name NAME -`"
        ))
    };
    // Checked first, since opening a pipe would wait for its writer.
    let metadata = tokio::fs::metadata(file).await.map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!(
            "{path} is no file; push an archive of a folder, as in `tar -c FOLDER | binomesh push \
             --name NAME -`, or write the data of a pipe into that command"
        )));
    }
    let source = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let name = file.file_name();
    let name = name.map(|name| name.to_string_lossy().into_owned());
    // Files that the kernel makes during the read have length 0 before, so 0 counts as unknown.
    let size = Some(metadata.len()).filter(|length| *length > 0);
    Ok((Box::new(source), name, size))
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
        text.push_str(&format!("\n  failed: {names}: {}", in_a_line(reason)));
    }
    for one in &report.absent {
        let left = if one.left { " (left)" } else { "" };
        text.push_str(&format!("\n  absent{left}: {}", one.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(180);

    #[tokio::test(start_paused = true)]
    async fn a_silent_source_is_waited_for_and_a_silent_node_is_not() {
        let (last, is_awaited) = (Cell::new(now()), Cell::new(true));
        let silence = silence(&last, &is_awaited, LIMIT);
        tokio::pin!(silence);
        let waited = tokio::time::timeout(10 * LIMIT, &mut silence).await;
        assert!(waited.is_err(), "the source is silent");
        is_awaited.set(false);
        let began = now();
        silence.await;
        // The clock of tests counts whole milliseconds.
        let most = LIMIT + Duration::from_secs(1);
        assert!(now() - began <= most, "the node is silent");
    }

    #[tokio::test]
    async fn a_source_is_awaited_while_it_has_no_byte() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut tap, source) = tokio::io::duplex(8);
        let mut source = Attended::new(source);
        let is_awaited = source.is_awaited.clone();
        let mut bytes = [0; 1];
        let read = tokio::time::timeout(Duration::ZERO, source.read(&mut bytes)).await;
        assert!(read.is_err() && is_awaited.get());
        tap.write_all(b"x").await.expect("room");
        assert_eq!(source.read(&mut bytes).await.expect("a byte"), 1);
        assert!(!is_awaited.get());
    }
}
