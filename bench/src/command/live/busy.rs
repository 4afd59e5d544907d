//! A process that does nothing but keep one core busy.

use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::{Child, ChildStdin, Command};

use crate::command::{Failure, Finding};

/// Busy processes that this process has started. They end when this value is dropped, and when this
/// process ends, as each watches its standard input.
#[derive(Debug)]
pub struct Busy(Vec<(Child, Option<ChildStdin>)>);

impl Busy {
    /// Start this many processes.
    pub fn start(count: usize) -> Result<Self, Failure> {
        let me = std::env::current_exe().map_err(Failure::run)?;
        let mut children = Vec::new();
        for _ in 0..count {
            let mut child = Command::new(&me)
                .args(["live", "busy"])
                .stdin(Stdio::piped())
                .kill_on_drop(true)
                .process_group(0)
                .spawn()
                .map_err(|error| Failure::Run(format!("cannot start a busy process: {error}")))?;
            let stdin = child.stdin.take();
            children.push((child, stdin));
        }
        Ok(Self(children))
    }

    /// The process ids of the busy processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter_map(|(child, _)| child.id())
    }
}

/// Keep one core busy until standard input closes.
pub fn run() -> Result<Finding, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
        over.store(true, Ordering::Relaxed);
    });
    let mut value = 1_u64;
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..1_000_000 {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
        }
    }
    Ok(Finding::Good)
}
