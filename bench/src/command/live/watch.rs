//! Asking many nodes often and cheaply: one task and one open connection each,
//! and only answers that differ from the last are passed on.

use std::time::Duration;

use binomesh::cluster::Member;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::setup::now;
use super::sight::{Sight, Sights};

/// How long one answer is awaited; a paused node gives none.
const ANSWER: Duration = Duration::from_secs(5);
/// Answers that wait for the observer; when full, the asking pauses.
const WAITING: usize = 1024;

/// What one node said that it had not said before.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Who.
    pub name: String,
    /// When its answer had come.
    pub at: Instant,
    /// What it had said before.
    pub before: Option<Sight>,
}

/// Nodes that are asked all the time.
#[derive(Debug)]
pub struct Watch {
    answers: mpsc::Receiver<(String, Instant, Sight)>,
    latest: Sights,
    _readers: JoinSet<()>,
}

impl Watch {
    /// Ask these nodes, each once per `period`; returns when all have answered,
    /// or after `patience` with those that have.
    pub async fn open(members: &[Member], period: Duration, patience: Duration) -> Self {
        let (sender, answers) = mpsc::channel(WAITING);
        let mut readers = JoinSet::new();
        let begun = now();
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX).max(1);
        for (number, member) in (0..).zip(members) {
            // Not all in one moment: they share the processors.
            let first = begun + period * number / count;
            readers.spawn(read(member.clone(), first, period, sender.clone()));
        }
        let mut watch = Self {
            answers,
            latest: Sights::new(),
            _readers: readers,
        };
        let until = begun + patience;
        while watch.latest.len() < members.len() && watch.next(until).await.is_some() {}
        watch
    }

    /// What the nodes said last.
    pub const fn latest(&self) -> &Sights {
        &self.latest
    }

    /// The next news, `None` if there is none until then.
    pub async fn next(&mut self, until: Instant) -> Option<Seen> {
        let news = tokio::time::timeout_at(until, self.answers.recv()).await;
        let (name, at, sight) = news.ok()??;
        let before = self.latest.insert(name.clone(), sight);
        Some(Seen { name, at, before })
    }
}

async fn read(
    member: Member,
    first: Instant,
    period: Duration,
    news: mpsc::Sender<(String, Instant, Sight)>,
) {
    let mut session = member.client().session();
    let mut ticks = interval_at(first, period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        ticks.tick().await;
        let Ok(Ok(Some(sight))) = timeout(ANSWER, Sight::ask(&mut session)).await else {
            continue;
        };
        if last.as_ref() == Some(&sight) {
            continue;
        }
        let told = (member.name.clone(), now(), sight.clone());
        if news.send(told).await.is_err() {
            return;
        }
        last = Some(sight);
    }
}
