//! The receivers' side.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::incoming::{Incoming, Sink, sweep};
use super::piece::{Answer, Head, Part};
use super::stream::{Answers, PushedStream, stream};
use super::{TOPIC, check_file_name, now};
use crate::node::{Node, SubscribeError};
use crate::subscription::{Message, Received, Room, Subscription};
use crate::topic::{Topic, TopicFilter};

/// How many files come at once; one more is refused.
const PUSHES_MAX: usize = 8;
/// How many of them of one origin.
const PUSHES_EACH: usize = 4;
/// How many that have failed are remembered. A guess: a few of each place.
const FAILED_MAX: usize = 64;
/// How many pieces wait for the disk before further ones are lost, and with them what
/// they are of. The windows of all that come fit, and of two that are just being refused.
const WAITING_MAX: usize = (PUSHES_MAX + 2) * super::BLOCKS;
/// How many bytes they have, heads included.
const WAITING_BYTES: usize = (PUSHES_MAX + 2) * super::WINDOW * (super::PIECE_BYTES + 1024);
/// A push of which nothing has come for so long is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// Where pushed files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Into {
    /// Into this folder.
    Folder(PathBuf),
    /// Nowhere: they are checked and forgotten. For measurements.
    Nowhere,
}

/// Where a receiver puts what comes.
#[derive(Debug)]
enum Target {
    Folder(PathBuf),
    Nowhere,
    /// To whoever reads it; at most [`PUSHES_MAX`] wait to be taken.
    Readers(mpsc::Sender<PushedStream>),
}

/// Takes the files that are pushed to a node, until it is dropped or the node stops.
#[derive(Debug)]
pub struct Receiver {
    task: JoinHandle<()>,
}

impl Receiver {
    /// Take what is pushed to `node`. One receiver per node: each would answer.
    pub async fn start(node: &Node, into: Into) -> Result<Self, SubscribeError> {
        let target = match into {
            Into::Folder(folder) => Target::Folder(folder),
            Into::Nowhere => Target::Nowhere,
        };
        Self::start_with(node, target).await
    }

    async fn start_with(node: &Node, target: Target) -> Result<Self, SubscribeError> {
        let topic = Topic::new(TOPIC).map_err(|_| SubscribeError::Stopped)?;
        let filter = TopicFilter::own(topic);
        let room = Room {
            messages: WAITING_MAX,
            bytes: WAITING_BYTES,
        };
        let pieces = node.subscribe_within(filter, room).await?;
        if let Target::Folder(folder) = &target
            && let Err(error) = sweep(folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "not swept");
        }
        let (answers, due) = mpsc::unbounded_channel();
        let desk = Desk {
            node: node.clone(),
            target,
            answers,
            open: BTreeMap::new(),
            failed: VecDeque::new(),
        };
        let task = tokio::spawn(desk.run(pieces, due));
        Ok(Self { task })
    }
}

/// What is pushed to a node, as streams that are read while they come, until it is dropped
/// or the node stops.
#[derive(Debug)]
pub struct PushedStreams {
    coming: mpsc::Receiver<PushedStream>,
    _receiver: Receiver,
}

impl PushedStreams {
    /// Take what is pushed to `node`, in the place of a [`Receiver`]: one per node.
    pub async fn start(node: &Node) -> Result<Self, SubscribeError> {
        let (sender, coming) = mpsc::channel(PUSHES_MAX);
        let receiver = Receiver::start_with(node, Target::Readers(sender)).await?;
        Ok(Self {
            coming,
            _receiver: receiver,
        })
    }

    /// The next one that begins, or `None` once the node has stopped. One that is dropped
    /// is refused.
    pub async fn next(&mut self) -> Option<PushedStream> {
        self.coming.recv().await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whose push it is, and which.
type Key = (PeerId, u64, u64);

/// The same, with the name of whose it is.
struct Begun {
    key: Key,
    origin_name: Arc<str>,
}

/// Put a piece where it belongs. What takes no more is gone, and its reader told why.
fn put(mut incoming: Box<Incoming>, at: u64, bytes: &Bytes) -> Result<Box<Incoming>, String> {
    let written = incoming.write(at, bytes);
    if let Err(reason) = &written {
        incoming.give_up(reason);
    }
    written.map(|()| incoming)
}

/// Whether the first piece that comes is no piece of the first window: nobody has the
/// bytes before it for who joins later.
const fn began_before(head: &Head) -> bool {
    matches!(head.part, Part::At(at) if at >= (super::WINDOW * super::PIECE_BYTES) as u64)
}

struct Desk {
    node: Node,
    target: Target,
    /// For answers that wait for a reader; at most as many as the streams owe.
    answers: Answers,
    /// At most [`PUSHES_MAX`].
    open: BTreeMap<Key, (Box<Incoming>, Instant)>,
    /// What is no use going on with, and why; at most [`FAILED_MAX`], the last ones. What
    /// comes of older ones begins them anew, and is not whole at its end.
    failed: VecDeque<(Key, String)>,
}

impl Desk {
    async fn run(
        mut self,
        mut pieces: Subscription,
        mut due: mpsc::UnboundedReceiver<(PacketId<PeerId>, Answer)>,
    ) {
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
                // First: else pieces without end would let answers pile up.
                Some((to, answer)) = due.recv() => self.answer(to, &answer).await,
                received = pieces.next() => match received {
                    None => return,
                    Some(Received::Message(message)) => self.take(message).await,
                    Some(Received::Missed(count)) => self.fail_all(count),
                    // Pieces say where they belong.
                    Some(Received::Gap(_)) => {}
                },
                () = silence => {
                    let now = now();
                    let open = self.open.iter();
                    let silent = open.filter(|(_, (_, last))| *last + SILENCE <= now);
                    let silent: Vec<Key> = silent.map(|(key, _)| *key).collect();
                    for key in silent {
                        self.fail(key, "nothing came for long".to_owned());
                    }
                }
            }
        }
    }

    /// Pieces were lost, and nobody knows of which file.
    fn fail_all(&mut self, count: u64) {
        let files = self.open.len();
        tracing::warn!(
            count,
            files,
            "pieces were lost: the disk is slower than the network"
        );
        let all: Vec<Key> = self.open.keys().copied().collect();
        for key in all {
            self.fail(key, "pieces were lost here: it is too slow".to_owned());
        }
    }

    fn why_failed(&self, key: Key) -> Option<String> {
        let mut failed = self.failed.iter();
        let found = failed.find(|(other, _)| *other == key);
        found.map(|(_, reason)| reason.clone())
    }

    /// Nothing will come of a push.
    fn fail(&mut self, key: Key, reason: String) {
        if let Some((incoming, _)) = self.open.remove(&key) {
            incoming.give_up(&reason);
        }
        self.node.push_counts().files_failed.increment(1);
        if self.failed.len() >= FAILED_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((key, reason));
    }

    /// Nothing will come of a push, as its origin is told.
    fn refuse(&mut self, key: Key, reason: String) -> Answer {
        if self.why_failed(key).is_none() {
            self.fail(key, reason.clone());
        }
        Answer::failed(reason)
    }

    async fn take(&mut self, message: Message) {
        let Message {
            id,
            confirmation,
            payload,
            origin_name,
            ..
        } = message;
        let Some((head, bytes)) = Head::split(&payload) else {
            tracing::warn!(origin = %origin_name, "a piece that is not understood");
            return;
        };
        let key = (id.origin, id.boot, head.push);
        let begun = Begun { key, origin_name };
        let to = (confirmation == Confirmation::Acknowledged).then_some(id);
        let answer = match head.part {
            Part::At(at) => self.write(begun, head, at, bytes, to).await,
            Part::End { size, hash } => self.finish(begun, head, size, hash, to).await,
            Part::Abandoned => {
                if self.open.remove(&key).is_some() {
                    self.node.push_counts().files_failed.increment(1);
                }
                return;
            }
        };
        if let (Some(to), Some(answer)) = (to, answer) {
            self.answer(to, &answer).await;
        }
    }

    /// What has come of a push; the first piece begins it.
    fn coming(&mut self, begun: Begun, head: &Head) -> Result<Box<Incoming>, String> {
        let key = begun.key;
        if let Some((incoming, _)) = self.open.remove(&key) {
            if incoming.is(head.size, head.replace) {
                return Ok(incoming);
            }
            let reason = "pieces contradict each other";
            incoming.give_up(reason);
            return Err(reason.to_owned());
        }
        if let Some(reason) = self.why_failed(key) {
            return Err(reason);
        }
        let others = self.open.keys();
        let of_origin = others.filter(|(origin, ..)| *origin == key.0).count();
        if self.open.len() >= PUSHES_MAX || of_origin >= PUSHES_EACH {
            return Err("too many other files come at the same time".to_owned());
        }
        check_file_name(&head.name).map_err(|error| error.to_string())?;
        let sink = match &self.target {
            Target::Nowhere => Sink::Nowhere,
            Target::Folder(folder) => Sink::file(folder, &head.name, head.replace)?,
            Target::Readers(_) if began_before(head) => {
                return Err("it had begun before this node took it".to_owned());
            }
            Target::Readers(readers) => {
                let answers = self.answers.clone();
                let name = begun.origin_name;
                let (feed, reader) = stream(&head.name, head.size, key.0, name, answers);
                let offered = readers.try_send(reader);
                offered.map_err(|_| "its application takes no more streams".to_owned())?;
                Sink::Reader(feed)
            }
        };
        let incoming = Incoming::begin(sink, head.size, head.replace);
        Ok(Box::new(incoming))
    }

    /// The answer, unless a reader owes it `to` the origin.
    async fn write(
        &mut self,
        begun: Begun,
        head: Head,
        at: u64,
        bytes: Bytes,
        to: Option<PacketId<PeerId>>,
    ) -> Option<Answer> {
        let (key, length) = (begun.key, bytes.len() as u64);
        let end = at.saturating_add(length);
        let written = match self.coming(begun, &head) {
            // Some 50 us of hashing: to hand it to a thread and back would be half as much again.
            Ok(incoming) if incoming.is_quick(bytes.len()) => {
                let written = put(incoming, at, &bytes);
                // However many have come, others have their turn between two of them.
                tokio::task::yield_now().await;
                written
            }
            Ok(incoming) => {
                let writing = tokio::task::spawn_blocking(move || put(incoming, at, &bytes));
                writing.await.unwrap_or_else(|error| Err(error.to_string()))
            }
            Err(reason) => Err(reason),
        };
        match written {
            Ok(incoming) => {
                self.node.push_counts().bytes_received.increment(length);
                let feed = incoming.feed().zip(to);
                let is_owed = feed.map(|(feed, to)| feed.owe(end, to)).is_some();
                self.open.insert(key, (incoming, now()));
                (!is_owed).then_some(Answer::Written)
            }
            Err(reason) => {
                self.node.push_counts().pieces_refused.increment(1);
                if self.why_failed(key).is_none() {
                    tracing::warn!(name = head.name, reason, "what is pushed is not taken");
                }
                Some(self.refuse(key, reason))
            }
        }
    }

    /// The answer, unless a reader owes it.
    async fn finish(
        &mut self,
        begun: Begun,
        head: Head,
        size: u64,
        hash: [u8; 32],
        to: Option<PacketId<PeerId>>,
    ) -> Option<Answer> {
        let key = begun.key;
        let incoming = match self.coming(begun, &head) {
            Ok(incoming) => incoming,
            Err(reason) => return Some(self.refuse(key, reason)),
        };
        let finishing = tokio::task::spawn_blocking(move || incoming.finish(size, hash));
        let finished = finishing
            .await
            .unwrap_or_else(|error| Err(error.to_string()));
        match (finished, to) {
            (Err(reason), _) => return Some(self.refuse(key, reason)),
            (Ok(Some(feed)), Some(to)) => {
                feed.owe_at_end(to);
                return None;
            }
            (Ok(_), _) => {}
        }
        tracing::info!(
            name = head.name,
            size_bytes = size,
            "a file was pushed here"
        );
        self.node.push_counts().files_stored.increment(1);
        Some(Answer::Stored)
    }

    async fn answer(&self, to: PacketId<PeerId>, answer: &Answer) {
        if let Err(error) = self.node.reply(to, answer.bytes()).await {
            tracing::warn!(%error, "a push is not answered");
        }
    }
}
