//! The receiver's side of a push.

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
use super::piece::{Head, Part, PieceAnswer};
use super::stream::{PieceAnswers, PushedStream, stream};
use super::{TOPIC, check_file_name, now};
use crate::node::{Node, SubscribeError};
use crate::subscription::{Message, QueueBounds, Received, Subscription};
use crate::topic::{Topic, TopicFilter};

/// The most pushes that come at once; one more is refused.
const PUSHES_MAX: usize = 8;
/// The most pushes that come from one origin at once; one more is refused.
const PUSHES_EACH: usize = 4;
/// The number of failed pushes that are remembered. A guess: a few for each push that may come.
/// Later pieces of a forgotten push begin it again.
const FAILED_MAX: usize = 64;
/// The most pieces that wait for the disk. Pieces beyond are lost, and all pushes fail then. The
/// windows of all pushes fit, and of two more that are just being refused.
const WAITING_MAX: usize = (PUSHES_MAX + 2) * super::BLOCKS;
/// The most bytes of the pieces that wait for the disk, heads included.
const WAITING_BYTES: usize = (PUSHES_MAX + 2) * super::WINDOW * (super::PIECE_BYTES + 1024);
/// A push is given up when no piece of it has come for this long.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// The destination of pushed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Into {
    /// Files are stored in this folder.
    Folder(PathBuf),
    /// Nowhere: files are checked and dropped. For measurements.
    Nowhere,
}

/// The destination of pushes at a receiver.
#[derive(Debug)]
enum Target {
    Folder(PathBuf),
    Nowhere,
    /// To the application that reads them; at most [`PUSHES_MAX`] streams wait to be taken.
    Readers(mpsc::Sender<PushedStream>),
}

/// Takes the files that are pushed to a node, until the receiver is dropped or the node stops.
#[derive(Debug)]
pub struct Receiver {
    task: JoinHandle<()>,
}

impl Receiver {
    /// Take the files that are pushed to `node`. Only one receiver per node: each would answer.
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
        let bounds = QueueBounds {
            messages: WAITING_MAX,
            bytes: WAITING_BYTES,
        };
        let pieces = node.subscribe_within(filter, bounds).await?;
        if let Target::Folder(folder) = &target
            && let Err(error) = sweep(folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "the folder could not be cleared of interrupted pushes");
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

/// Pushes to a node as streams, which the application reads while they come, until this is dropped
/// or the node stops.
#[derive(Debug)]
pub struct PushedStreams {
    coming: mpsc::Receiver<PushedStream>,
    _receiver: Receiver,
}

impl PushedStreams {
    /// Take the pushes to `node`. This replaces a [`Receiver`]; a node has only one of either.
    pub async fn start(node: &Node) -> Result<Self, SubscribeError> {
        let (sender, coming) = mpsc::channel(PUSHES_MAX);
        let receiver = Receiver::start_with(node, Target::Readers(sender)).await?;
        Ok(Self {
            coming,
            _receiver: receiver,
        })
    }

    /// The next stream that begins, or `None` once the node has stopped. To refuse a push, drop its
    /// stream before the end: its origin is then told *failed*.
    pub async fn next(&mut self) -> Option<PushedStream> {
        self.coming.recv().await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A push: its origin, the origin's life, and the number of the push.
type Key = (PeerId, u64, u64);

/// A push, with the name of its origin.
struct Begun {
    key: Key,
    origin_name: Arc<str>,
}

/// Give a piece to its push. A push that fails is dropped, and its reader is told why.
fn put(mut incoming: Box<Incoming>, at: u64, bytes: &Bytes) -> Result<Box<Incoming>, String> {
    let written = incoming.write(at, bytes);
    if let Err(reason) = &written {
        incoming.give_up(reason);
    }
    written.map(|()| incoming)
}

/// Whether the first piece that comes lies beyond the first window: then this node joined later,
/// and no member still has the bytes before it.
const fn began_before(head: &Head) -> bool {
    matches!(head.part, Part::At(at) if at >= (super::WINDOW * super::PIECE_BYTES) as u64)
}

struct Desk {
    node: Node,
    target: Target,
    /// Takes the answers that streams give when their readers have read far enough. At most as many
    /// answers wait here as the streams owe.
    answers: PieceAnswers,
    /// The pushes that are coming; at most [`PUSHES_MAX`].
    open: BTreeMap<Key, (Box<Incoming>, Instant)>,
    /// The last [`FAILED_MAX`] pushes that failed, and why. Later pieces of a push that failed
    /// before these begin it again; it then fails at its end, since it is not whole.
    failed: VecDeque<(Key, String)>,
}

impl Desk {
    async fn run(
        mut self,
        mut pieces: Subscription,
        mut due: mpsc::UnboundedReceiver<(PacketId<PeerId>, PieceAnswer)>,
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
                // Answers go first: pieces without end would let them pile up.
                Some((to, answer)) = due.recv() => self.answer(to, &answer).await,
                received = pieces.next() => match received {
                    None => return,
                    Some(Received::Message(message)) => self.take(message).await,
                    Some(Received::Missed(count)) => self.fail_all(count),
                    // A gap needs no action: each piece says where it belongs.
                    Some(Received::Gap(_)) => {}
                },
                () = silence => {
                    let now = now();
                    let open = self.open.iter();
                    let silent = open.filter(|(_, (_, last))| *last + SILENCE <= now);
                    let silent: Vec<Key> = silent.map(|(key, _)| *key).collect();
                    for key in silent {
                        self.fail(key, "no piece of the file came for too long".to_owned());
                    }
                }
            }
        }
    }

    /// Fail all open pushes: pieces were lost, and nobody knows of which push.
    fn fail_all(&mut self, count: u64) {
        let files = self.open.len();
        tracing::warn!(
            count,
            files,
            "pieces of pushed files were lost, since the disk is slower than the network"
        );
        let all: Vec<Key> = self.open.keys().copied().collect();
        for key in all {
            self.fail(
                key,
                "pieces of the file were lost here, since this node is too slow".to_owned(),
            );
        }
    }

    fn why_failed(&self, key: Key) -> Option<String> {
        let mut failed = self.failed.iter();
        let found = failed.find(|(other, _)| *other == key);
        found.map(|(_, reason)| reason.clone())
    }

    /// Drop a push as failed, and remember why.
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

    /// Fail a push, and return the answer that tells its origin.
    fn refuse(&mut self, key: Key, reason: String) -> PieceAnswer {
        if self.why_failed(key).is_none() {
            self.fail(key, reason.clone());
        }
        PieceAnswer::failed(reason)
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
            tracing::warn!(origin = %origin_name, "a malformed piece of a pushed file was ignored");
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

    /// Take the push of this piece out of the open ones; the first piece begins it.
    fn coming(&mut self, begun: Begun, head: &Head) -> Result<Box<Incoming>, String> {
        let key = begun.key;
        if let Some((incoming, _)) = self.open.remove(&key) {
            if incoming.is(head.size, head.replace) {
                return Ok(incoming);
            }
            let reason = "the pieces of the file contradict each other";
            incoming.give_up(reason);
            return Err(reason.to_owned());
        }
        if let Some(reason) = self.why_failed(key) {
            return Err(reason);
        }
        let others = self.open.keys();
        let of_origin = others.filter(|(origin, ..)| *origin == key.0).count();
        if self.open.len() >= PUSHES_MAX || of_origin >= PUSHES_EACH {
            return Err("too many other files are being pushed at the same time".to_owned());
        }
        check_file_name(&head.name).map_err(|error| error.to_string())?;
        let sink = match &self.target {
            Target::Nowhere => Sink::Nowhere,
            Target::Folder(folder) => Sink::file(folder, &head.name, head.replace)?,
            Target::Readers(_) if began_before(head) => {
                return Err("the push had begun before this node could take it".to_owned());
            }
            Target::Readers(readers) => {
                let answers = self.answers.clone();
                let name = begun.origin_name;
                let (feed, reader) = stream(&head.name, head.size, key.0, name, answers);
                let offered = readers.try_send(reader);
                offered
                    .map_err(|_| "the application of the node takes no more streams".to_owned())?;
                Sink::Reader(feed)
            }
        };
        let incoming = Incoming::begin(sink, head.size, head.replace);
        Ok(Box::new(incoming))
    }

    /// Give a piece to its push. Returns the answer to the origin's question `to`; `None` if the
    /// answer has to wait until a reader has read so far.
    async fn write(
        &mut self,
        begun: Begun,
        head: Head,
        at: u64,
        bytes: Bytes,
        to: Option<PacketId<PeerId>>,
    ) -> Option<PieceAnswer> {
        let (key, length) = (begun.key, bytes.len() as u64);
        let end = at.saturating_add(length);
        let written = match self.coming(begun, &head) {
            // This hashes for about 50 us. Handing it to a thread and back would add half as much.
            Ok(incoming) if incoming.is_quick(bytes.len()) => {
                let written = put(incoming, at, &bytes);
                // Other tasks have their turn between two pieces, even if many pieces wait.
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
                let is_pending = feed
                    .map(|(feed, to)| feed.answer_when_read(end, to))
                    .is_some();
                self.open.insert(key, (incoming, now()));
                (!is_pending).then_some(PieceAnswer::Written)
            }
            Err(reason) => {
                self.node.push_counts().pieces_refused.increment(1);
                if self.why_failed(key).is_none() {
                    tracing::warn!(name = head.name, reason, "a pushed file is refused");
                }
                Some(self.refuse(key, reason))
            }
        }
    }

    /// Finish a push. Returns the answer to the origin's question `to`; `None` if it has to wait
    /// until a reader has read all.
    async fn finish(
        &mut self,
        begun: Begun,
        head: Head,
        size: u64,
        hash: [u8; 32],
        to: Option<PacketId<PeerId>>,
    ) -> Option<PieceAnswer> {
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
                feed.answer_at_end(to);
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
        Some(PieceAnswer::Stored)
    }

    async fn answer(&self, to: PacketId<PeerId>, answer: &PieceAnswer) {
        if let Err(error) = self.node.reply(to, answer.bytes()).await {
            tracing::warn!(%error, "a push could not be answered");
        }
    }
}
