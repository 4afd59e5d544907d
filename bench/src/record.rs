//! The fields that every recorded row has besides its figures, and how rows are printed.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use serde::Serialize;

/// A clock for the wall time of a run.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Start the watch.
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark measures wall time; no machine reads this clock"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock for processor time, which other processes on a busy machine do not
/// lengthen.
#[derive(Debug, Clone, Copy)]
pub struct CpuWatch {
    clock: ClockId,
    start: Duration,
}

impl CpuWatch {
    /// A watch for the processor time of this thread, from now on.
    pub fn of_thread() -> Self {
        Self::start(ClockId::ThreadCPUTime)
    }

    /// A watch for the processor time of this process, from now on.
    pub fn of_process() -> Self {
        Self::start(ClockId::ProcessCPUTime)
    }

    /// The time that reading the clock of a thread adds to an interval: some 200 ns.
    pub fn overhead() -> Duration {
        let readings = (0..64).map(|_| Self::of_thread().elapsed());
        readings.min().unwrap_or_default()
    }

    /// The processor time since the start. A watch of a thread must be asked in that thread.
    pub fn elapsed(&self) -> Duration {
        read(self.clock).saturating_sub(self.start)
    }

    fn start(clock: ClockId) -> Self {
        let start = read(clock);
        Self { clock, start }
    }
}

fn read(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// A clock in nanoseconds that all processes of this machine share: the time since the machine was
/// started.
pub fn uptime_ns() -> u64 {
    u64::try_from(read(ClockId::Monotonic).as_nanos()).unwrap_or(u64::MAX)
}

/// How often threads of this process have gone to sleep voluntarily.
pub fn wakeups() -> io::Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile is not counted.
        let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        sum += field(&status, "voluntary_ctxt_switches:");
    }
    Ok(sum)
}

/// The number behind a name at the beginning of a line; 0 if there is none.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The most memory that this process has had resident, if the system tells.
pub fn peak_rss_bytes() -> Option<u64> {
    let memory = Memory::now().ok()?;
    Some(memory.peak_kib * 1024)
}

/// The version of the code that ran.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Standard output could not be written. With a type of its own, no other error of input or output
/// is taken for this one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unprinted(#[from] pub io::Error);

/// Print one row as one line of JSON and flush it.
pub fn print_json(row: &impl Serialize) -> Result<(), Unprinted> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, row).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Print one line and flush it.
pub fn print_line(line: &str) -> Result<(), Unprinted> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Print one row for people: a name and a value per line.
pub fn print_table(row: &impl Serialize) -> Result<(), Unprinted> {
    let mut out = io::stdout().lock();
    let row = serde_json::to_value(row).map_err(io::Error::from)?;
    if let serde_json::Value::Object(fields) = row {
        for (name, value) in fields {
            match value {
                serde_json::Value::Null => writeln!(out, "  {name:<32} -")?,
                serde_json::Value::String(text) => writeln!(out, "  {name:<32} {text}")?,
                value => writeln!(out, "  {name:<32} {value}")?,
            }
        }
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Overwrite the progress line on stderr, if that is a terminal.
pub fn progress(line: std::fmt::Arguments<'_>) {
    use io::IsTerminal;
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        // A broken stderr must not end a run.
        let _ = write!(err, "\r\x1b[2K{line}").and_then(|()| err.flush());
    }
}

/// Tell on stderr how far a long run is, if stderr is no terminal. On a terminal the progress line
/// tells it.
pub fn milestone(line: std::fmt::Arguments<'_>) {
    use io::IsTerminal;
    let mut err = io::stderr().lock();
    if !err.is_terminal() {
        // A broken stderr must not end a run.
        let _ = writeln!(err, "{line}");
    }
}

/// Write a note to stderr.
pub fn note(line: std::fmt::Arguments<'_>) {
    // A broken stderr must not end a run.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Clear the progress line.
pub fn progress_done() {
    progress(format_args!(""));
}

/// The smallest value that is not below this share of all.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// The memory that a process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The resident memory of this process at present.
    pub rss_kib: u64,
    /// The most memory since the start, or since the peak was reset.
    pub peak_kib: u64,
}

impl Memory {
    /// The memory of this process, as the kernel counts it.
    pub fn now() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The memory of another process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Self {
            rss_kib: field(&status, "VmRSS:"),
            peak_kib: field(&status, "VmHWM:"),
        })
    }

    /// Count the peak from the present memory on.
    pub fn reset_peak() -> io::Result<()> {
        std::fs::write("/proc/self/clear_refs", "5")
    }
}
