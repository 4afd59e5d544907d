//! The receivers' side.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::incoming::Incoming;
use super::piece::{Answer, Head, Part};
use super::{TOPIC, check_file_name};
use crate::node::{Node, SubscribeError};
use crate::subscription::{Message, Received, Subscription};
use crate::topic::{Topic, TopicFilter};

/// How many files come at once; one more is refused.
const PUSHES_MAX: usize = 16;
/// How many pieces wait for the disk before further ones are lost, and with them what
/// they are of. Several origins with a window each fit.
const WAITING_MAX: usize = 8 * super::WINDOW;
/// A file of which nothing has come for so long is given up.
const SILENCE: Duration = Duration::from_secs(120);

/// Where pushed files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Into {
    /// Into this folder.
    Folder(PathBuf),
    /// Nowhere: they are checked and forgotten. For measurements.
    Nowhere,
}

/// Takes the files that are pushed to a node, until it is dropped or the node stops.
#[derive(Debug)]
pub struct Receiver {
    task: JoinHandle<()>,
}

impl Receiver {
    /// Take what is pushed to `node`. One receiver per node: each would answer.
    pub async fn start(node: &Node, into: Into) -> Result<Self, SubscribeError> {
        let topic = Topic::new(TOPIC).map_err(|_| SubscribeError::Stopped)?;
        let filter = TopicFilter::from(topic);
        let pieces = node.subscribe_bounded(filter, WAITING_MAX).await?;
        let folder = match into {
            Into::Folder(folder) => Some(folder),
            Into::Nowhere => None,
        };
        let desk = Desk {
            node: node.clone(),
            folder,
            open: BTreeMap::new(),
        };
        let task = tokio::spawn(desk.run(pieces));
        Ok(Self { task })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whose push it is, and which.
type Key = (PeerId, u64, u64);

/// What has become of a push so far.
#[derive(Debug)]
enum State {
    Coming(Box<Incoming>),
    Failed(String),
}

struct Desk {
    node: Node,
    folder: Option<PathBuf>,
    /// At most [`PUSHES_MAX`].
    open: BTreeMap<Key, (State, Instant)>,
}

impl Desk {
    async fn run(mut self, mut pieces: Subscription) {
        loop {
            let oldest = self.open.values().map(|(_, last)| *last + SILENCE).min();
            let silence = async {
                match oldest {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                received = pieces.next() => match received {
                    None => return,
                    Some(Received::Message(message)) => self.take(message).await,
                    Some(Received::Missed(count)) => self.fail_all(count),
                },
                () = silence => {
                    let now = now();
                    self.open.retain(|_, (_, last)| *last + SILENCE > now);
                }
            }
        }
    }

    /// Pieces were lost, and nobody knows of which file.
    fn fail_all(&mut self, count: u64) {
        for (state, _) in self.open.values_mut() {
            let reason = format!("{count} pieces were lost: the disk is slower than the network");
            *state = State::Failed(reason);
        }
    }

    async fn take(&mut self, message: Message) {
        let Message {
            id,
            confirmation,
            payload,
            ..
        } = message;
        let Some((head, bytes)) = Head::split(&payload) else {
            tracing::warn!(origin = %message.origin_name, "a piece that is not understood");
            return;
        };
        let key = (id.origin, id.boot, head.push);
        let answer = match head.part {
            Part::At(at) => self.write(key, head, (at, bytes)).await,
            Part::End(hash) => self.finish(key, head, hash).await,
            Part::Abandoned => {
                self.open.remove(&key);
                return;
            }
        };
        if confirmation == Confirmation::Acknowledged {
            self.answer(id, &answer).await;
        }
    }

    /// What is known of a push; the first piece begins it.
    fn state(&mut self, key: Key, head: &Head) -> State {
        if let Some((state, _)) = self.open.remove(&key) {
            return match state {
                State::Coming(incoming) if !incoming.is((head.size, head.replace)) => {
                    State::Failed("pieces contradict each other".to_owned())
                }
                state => state,
            };
        }
        if self.open.len() >= PUSHES_MAX {
            return State::Failed(format!("{PUSHES_MAX} other files come at the same time"));
        }
        if let Err(error) = check_file_name(&head.name) {
            return State::Failed(error.to_string());
        }
        let folder = self.folder.as_deref();
        match Incoming::begin(folder, &head.name, (head.size, head.replace)) {
            Ok(incoming) => State::Coming(Box::new(incoming)),
            Err(reason) => State::Failed(reason),
        }
    }

    async fn write(&mut self, key: Key, head: Head, (at, bytes): (u64, Bytes)) -> Answer {
        let (state, answer) = match self.state(key, &head) {
            State::Coming(mut incoming) => {
                let writing = tokio::task::spawn_blocking(move || {
                    let written = incoming.write(at, &bytes);
                    (incoming, written)
                });
                match writing.await {
                    Ok((incoming, Ok(()))) => (State::Coming(incoming), Answer::Written),
                    Ok((_, Err(reason))) => (State::Failed(reason.clone()), Answer::failed(reason)),
                    Err(error) => (State::Failed(error.to_string()), Answer::failed(error)),
                }
            }
            State::Failed(reason) => (State::Failed(reason.clone()), Answer::failed(reason)),
        };
        if let State::Failed(reason) = &state {
            tracing::warn!(name = head.name, reason, "a pushed file is not taken");
        }
        // A push beyond the bound has no place; each of its pieces is refused anew.
        if self.open.len() < PUSHES_MAX {
            self.open.insert(key, (state, now()));
        }
        answer
    }

    async fn finish(&mut self, key: Key, head: Head, hash: [u8; 32]) -> Answer {
        let state = self.state(key, &head);
        self.open.remove(&key);
        let incoming = match state {
            State::Coming(incoming) => incoming,
            State::Failed(reason) => return Answer::failed(reason),
        };
        let finishing = tokio::task::spawn_blocking(move || incoming.finish(hash));
        match finishing.await {
            Ok(Ok(())) => {
                tracing::info!(
                    name = head.name,
                    size_bytes = head.size,
                    "a file was pushed here"
                );
                metrics::counter!("binomesh_files_stored_total").increment(1);
                Answer::Stored
            }
            Ok(Err(reason)) => Answer::failed(reason),
            Err(error) => Answer::failed(error),
        }
    }

    async fn answer(&self, to: PacketId<PeerId>, answer: &Answer) {
        if let Err(error) = self.node.reply(to, answer.bytes()).await {
            tracing::warn!(%error, "a push is not answered");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is silent for long is given up"
)]
fn now() -> Instant {
    Instant::now()
}
