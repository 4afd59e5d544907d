//! The log of a process, on standard error.
//!
//! Peers supply parts of it: topics, file names, reasons. So a message stays one line of bounded
//! length; an overlong line of JSON is replaced by a notice. The bytes per second are bounded as
//! well, except for debug and trace lines.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::Failure;
use super::output::{SHOWN, in_a_line};
use crate::exporter::LOG_LINES_LOST;

/// The most bytes per second of log lines above the debug levels, after a burst of ten seconds'
/// worth. Further lines are left out and counted. A guess: a busy node writes a hundredth. With
/// less, real problems are lost; with more, a liar fills the disk sooner.
const BYTES_PER_SECOND: f64 = 65_536.0;
const BURST: f64 = 10.0 * BYTES_PER_SECOND;

pub(super) fn start_log(filter: &str, json: bool) -> Result<(), Failure> {
    let remedy = "use levels and targets such as `info,binomesh=debug`";
    let filter: Targets = filter
        .parse()
        .map_err(|error| Failure::usage(format!("log filter {filter:?}: {error}; {remedy}")))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(Log {
        json,
        budget: Mutex::new(Budget::new(now())),
    });
    let registry = tracing_subscriber::registry().with(filter);
    let started = if json {
        registry.with(lines.json()).try_init()
    } else {
        registry.with(lines.with_ansi(false)).try_init()
    };
    started.map_err(|error| Failure::failed(format!("cannot start the log: {error}")))
}

#[expect(clippy::disallowed_methods, reason = "the log is bounded per second")]
fn now() -> Instant {
    Instant::now()
}

struct Log {
    json: bool,
    budget: Mutex<Budget>,
}

/// The bytes that may be written now.
#[derive(Debug)]
struct Budget {
    left: f64,
    since: Instant,
}

impl Budget {
    const fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
        }
    }

    /// Whether a line of `bytes` bytes may be written; if so, they are taken from the budget.
    fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(self.since);
        self.since = now;
        self.left = (self.left + passed.as_secs_f64() * BYTES_PER_SECOND).min(BURST);
        let has_room = self.left >= bytes as f64;
        if has_room {
            self.left -= bytes as f64;
        }
        has_room
    }
}

/// The writer of one line of the log.
struct Line<'a> {
    log: &'a Log,
    is_bounded: bool,
}

impl Write for Line<'_> {
    /// Write a line. If that fails the line is lost and counted: a node must go on when its log has
    /// no reader any more, or its disk is full.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = if self.log.json {
            whole(&text)
        } else {
            one_line(&text)
        };
        let may_go = || {
            let budget = self.log.budget.lock();
            let mut budget = budget.unwrap_or_else(PoisonError::into_inner);
            !self.is_bounded || budget.take(text.len(), now())
        };
        if !may_go() || io::stderr().lock().write_all(text.as_bytes()).is_err() {
            LOG_LINES_LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Standard error has no buffer.
        Ok(())
    }
}

fn one_line(text: &str) -> Cow<'_, str> {
    match in_a_line(text.strip_suffix('\n').unwrap_or(text)) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(line) => Cow::Owned(line + "\n"),
    }
}

/// A line of JSON, which contains no line break. If it is too long, another line tells its length,
/// since a part of it would not be JSON.
fn whole(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    let bytes = text.len();
    Cow::Owned(format!(
        "{{\"level\":\"WARN\",\"fields\":{{\"message\":\"a log line of {bytes} bytes is left out, since it is too long\"}}}}\n"
    ))
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            log: self,
            is_bounded: true,
        }
    }

    /// The number of debug and trace lines is not bounded: a user who debugs wants all of them.
    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line {
            log: self,
            is_bounded: *metadata.level() <= Level::INFO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_peers_is_escaped_and_cut_in_a_log_line() {
        assert_eq!(one_line("all right\n"), "all right\n");
        let forged = one_line("a name=x\nWARN forged \u{1b}[2J\n");
        assert_eq!(forged, "a name=x\\nWARN forged \\u{1b}[2J\n");
        let long = one_line(&"ü".repeat(1_000_000)).into_owned();
        assert!(long.len() < SHOWN + 40, "{}", long.len());
        assert!(long.ends_with("bytes\n") && long.lines().count() == 1);
        let escaped = one_line(&"\u{1b}".repeat(100_000)).into_owned();
        assert!(escaped.len() < SHOWN + 40, "{}", escaped.len());
    }

    #[test]
    fn json_that_is_too_long_is_still_json() {
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(SHOWN));
        let left_out = whole(&long).into_owned();
        let value: serde_json::Value = serde_json::from_str(&left_out).unwrap();
        let message = value["fields"]["message"].as_str().unwrap();
        assert!(message.contains(&long.len().to_string()), "{message}");
        assert_eq!(whole("{}\n"), "{}\n");
    }

    #[test]
    fn a_flood_is_cut_to_so_many_bytes_a_second() {
        let start = now();
        let mut budget = Budget::new(start);
        let count = |budget: &mut Budget, at| {
            (0..10_000).filter(|_| budget.take(1024, at)).count() as f64 * 1024.0
        };
        assert_eq!(count(&mut budget, start), BURST);
        assert_eq!(count(&mut budget, start), 0.0);
        let later = start + Duration::from_secs(2);
        assert_eq!(count(&mut budget, later), 2.0 * BYTES_PER_SECOND);
    }
}
