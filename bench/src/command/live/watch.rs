//! Asks many nodes often and at low cost: with one task and one open connection for each. Only
//! answers that differ from the last one are passed on.

use std::time::Duration;

use binomesh::cluster::Member;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::observation::{Observation, Observations};
use super::setup::now;

/// The longest wait for an answer. A paused node gives none.
const ANSWER: Duration = Duration::from_secs(5);
/// The most answers that wait for the observer. While so many wait, a node with news is not asked
/// again.
const WAITING: usize = 1024;

/// The news of one node: an answer that differs from the one before.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The name of the node.
    pub name: String,
    /// The time at which the answer came.
    pub at: Instant,
    /// The node's answer before this one, if there was one.
    pub before: Option<Observation>,
}

/// Nodes that are asked periodically.
#[derive(Debug)]
pub struct Watch {
    answers: mpsc::Receiver<(String, Instant, Observation)>,
    latest: Observations,
    _readers: JoinSet<()>,
}

impl Watch {
    /// Ask each of these nodes once per `period`. Returns when all have answered, or after
    /// `patience` with those that have.
    pub async fn open(members: &[Member], period: Duration, patience: Duration) -> Self {
        let (sender, answers) = mpsc::channel(WAITING);
        let mut readers = JoinSet::new();
        let begun = now();
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX).max(1);
        for (number, member) in (0..).zip(members) {
            // The questions are spread over the period, since all nodes share the processors.
            let first = begun + period * number / count;
            readers.spawn(read(member.clone(), first, period, sender.clone()));
        }
        let mut watch = Self {
            answers,
            latest: Observations::new(),
            _readers: readers,
        };
        let until = begun + patience;
        while watch.latest.len() < members.len() && watch.next(until).await.is_some() {}
        watch
    }

    /// The last answers of the nodes.
    pub const fn latest(&self) -> &Observations {
        &self.latest
    }

    /// The next news; `None` if there is none until this time.
    pub async fn next(&mut self, until: Instant) -> Option<Seen> {
        let news = tokio::time::timeout_at(until, self.answers.recv()).await;
        let (name, at, observation) = news.ok()??;
        let before = self.latest.insert(name.clone(), observation);
        Some(Seen { name, at, before })
    }
}

async fn read(
    member: Member,
    first: Instant,
    period: Duration,
    news: mpsc::Sender<(String, Instant, Observation)>,
) {
    let mut session = member.client().session();
    let mut ticks = interval_at(first, period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        ticks.tick().await;
        let Ok(Ok(Some(observation))) = timeout(ANSWER, Observation::ask(&mut session)).await
        else {
            continue;
        };
        if last.as_ref() == Some(&observation) {
            continue;
        }
        let told = (member.name.clone(), now(), observation.clone());
        if news.send(told).await.is_err() {
            return;
        }
        last = Some(observation);
    }
}
