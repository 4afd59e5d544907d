//! The program that valgrind counts. One system goes through stretches of work with a mark at the
//! end of each, so neither its start nor its formation is counted.
//!
//! ```text
//!   forming │ idle │ warming up │ single │ single │ … │ back to back │ … │ stopping
//!           1      2            3        4        5   marks
//! ```

use std::hint::black_box;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::credentials::CredentialsFolder;
use super::figures::System;
use super::measure::{Network, Workload};
use super::{Failure, Peers};
use crate::command::live::counters::Loopback;
use crate::record::{Stopwatch, print_json};

/// A part of the name of [`instruction_mark`], by which valgrind knows it.
pub(super) const MARK: &str = "instruction_mark";

/// The length of the idle stretch: two beats of the quiet profile.
const IDLE: Duration = Duration::from_millis(7200);
/// For each size, the number of stretches of single messages, and of stretches back to back.
const REPEATS: usize = 3;
/// About how many bytes a stretch sends, if the number of messages is then at least [`LEAST`] and
/// at most [`SINGLES`] or [`MANY`].
const BYTES: usize = 8 << 20;
const LEAST: usize = 16;
/// The most messages of a stretch of single messages. As many messages are sent to warm up as in
/// such a stretch.
const SINGLES: usize = 64;
/// The most messages of a stretch back to back. Messages only share packets in long rows.
const MANY: usize = 1024;

/// A stretch of work before a mark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stretch {
    /// The kind of work.
    pub(super) work: Work,
    /// The size of the messages; empty if none were sent.
    pub(super) workload: String,
    /// The number of messages that arrived, over all receivers; 0 for preparation.
    pub(super) deliveries: u64,
    /// How many seconds the stretch took.
    pub(super) seconds: f64,
    /// How many packets crossed the loopback interface.
    pub(super) packets: u64,
}

/// The kind of work in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// Preparation, which is not reported.
    Preparing,
    /// The nodes are idle: no message is sent.
    Idle,
    /// One message at a time.
    Single,
    /// Messages are sent back to back.
    BackToBack,
}

/// Run all stretches, and print each one when it is over.
pub(super) async fn run(system: System, peers: &Peers) -> Result<(), Failure> {
    let home = CredentialsFolder::new(peers.nodes, peers.profile, peers.signatures)?.slow();
    let limit = Duration::from_secs(peers.timeout_seconds);
    let within = |what: &'static str| {
        move |_| Failure::Run(format!("{what} took longer than {} s", limit.as_secs()))
    };
    let forming = tokio::time::timeout(limit, Network::form(system, &home, peers));
    let mut network = forming.await.map_err(within("forming"))??;
    let mut course = Course {
        receivers: u64::from(peers.nodes) - 1,
        marks: 0,
        last: (Stopwatch::start(), Loopback::read()?.packets),
    };
    course.mark(Work::Preparing, "", 0)?;
    tokio::time::sleep(IDLE).await;
    course.mark(Work::Idle, "", 0)?;
    for workload in &peers.workload {
        let working = tokio::time::timeout(limit, course.work(&mut network, workload));
        working.await.map_err(within("a workload"))??;
    }
    network.stop().await;
    Ok(())
}

struct Course {
    receivers: u64,
    marks: u64,
    /// The time of the last mark, and the number of packets until then.
    last: (Stopwatch, u64),
}

impl Course {
    async fn work(&mut self, network: &mut Network, workload: &Workload) -> Result<(), Failure> {
        let payload = workload.payload();
        let at_most = |most| (BYTES / payload.len()).clamp(LEAST, most) as u64;
        let (singles, many) = (at_most(SINGLES), at_most(MANY));
        network.send_many(&payload, singles, self.receivers).await?;
        self.mark(Work::Preparing, workload.name(), 0)?;
        for _ in 0..REPEATS {
            for _ in 0..singles {
                network.send_one(&payload, self.receivers).await?;
            }
            self.mark(Work::Single, workload.name(), singles)?;
        }
        for _ in 0..REPEATS {
            network.send_many(&payload, many, self.receivers).await?;
            self.mark(Work::BackToBack, workload.name(), many)?;
        }
        Ok(())
    }

    /// End a stretch of this work with a mark.
    fn mark(&mut self, work: Work, workload: &str, messages: u64) -> Result<(), Failure> {
        let (clock, packets) = (self.last.0.elapsed(), Loopback::read()?.packets);
        self.marks += instruction_mark(1);
        print_json(&Stretch {
            work,
            workload: workload.to_owned(),
            deliveries: messages * self.receivers,
            seconds: clock.as_secs_f64(),
            packets: packets - self.last.1,
        })?;
        // Start the clock after the mark, since valgrind takes time to write.
        self.last = (Stopwatch::start(), packets);
        Ok(())
    }
}

/// At the entry of this function valgrind writes down its counts.
#[inline(never)]
fn instruction_mark(one: u64) -> u64 {
    black_box(one)
}
