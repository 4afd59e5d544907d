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

use super::incoming::{Incoming, sweep};
use super::piece::{Answer, Head, Part};
use super::{TOPIC, check_file_name};
use crate::node::{Node, SubscribeError};
use crate::subscription::{Message, Received, Room, Subscription};
use crate::topic::{Topic, TopicFilter};

/// How many files come at once; one more is refused.
const PUSHES_MAX: usize = 16;
/// How many of them of one origin.
const PUSHES_EACH: usize = 4;
/// How many pieces wait for the disk before further ones are lost, and with them what
/// they are of. The windows of four origins fit.
const WAITING_MAX: usize = 4 * super::WINDOW;
/// How many bytes they have, heads included.
const WAITING_BYTES: usize = WAITING_MAX * (super::PIECE_BYTES + 1024);
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
        let filter = TopicFilter::own(topic);
        let room = Room {
            messages: WAITING_MAX,
            bytes: WAITING_BYTES,
        };
        let pieces = node.subscribe_within(filter, room).await?;
        let folder = match into {
            Into::Folder(folder) => {
                if let Err(error) = sweep(&folder) {
                    tracing::warn!(folder = %folder.display(), %error, "not swept");
                }
                Some(folder)
            }
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

struct Desk {
    node: Node,
    folder: Option<PathBuf>,
    /// At most [`PUSHES_MAX`]. One that has failed keeps no place: what comes of it later
    /// begins it anew, and is not whole at its end.
    open: BTreeMap<Key, (Box<Incoming>, Instant)>,
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
                    // Pieces say where they belong.
                    Some(Received::Gap(_)) => {}
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
        let files = self.open.len();
        tracing::warn!(
            count,
            files,
            "pieces were lost: the disk is slower than the network"
        );
        self.open.clear();
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

    /// What has come of a push; the first piece begins it.
    fn coming(&mut self, key: Key, head: &Head) -> Result<Box<Incoming>, String> {
        if let Some((incoming, _)) = self.open.remove(&key) {
            return match incoming.is((head.size, head.replace)) {
                true => Ok(incoming),
                false => Err("pieces contradict each other".to_owned()),
            };
        }
        let others = self.open.keys();
        let of_origin = others.filter(|(origin, ..)| *origin == key.0).count();
        if self.open.len() >= PUSHES_MAX || of_origin >= PUSHES_EACH {
            return Err("too many other files come at the same time".to_owned());
        }
        check_file_name(&head.name).map_err(|error| error.to_string())?;
        let folder = self.folder.as_deref();
        Incoming::begin(folder, &head.name, (head.size, head.replace)).map(Box::new)
    }

    async fn write(&mut self, key: Key, head: Head, (at, bytes): (u64, Bytes)) -> Answer {
        let written = match self.coming(key, &head) {
            Ok(mut incoming) => {
                let writing = tokio::task::spawn_blocking(move || {
                    incoming.write(at, &bytes).map(|()| incoming)
                });
                writing.await.unwrap_or_else(|error| Err(error.to_string()))
            }
            Err(reason) => Err(reason),
        };
        match written {
            Ok(incoming) => {
                self.open.insert(key, (incoming, now()));
                Answer::Written
            }
            Err(reason) => {
                metrics::counter!("binomesh_file_pieces_refused_total").increment(1);
                tracing::warn!(name = head.name, reason, "a pushed file is not taken");
                Answer::failed(reason)
            }
        }
    }

    async fn finish(&mut self, key: Key, head: Head, hash: [u8; 32]) -> Answer {
        let incoming = match self.coming(key, &head) {
            Ok(incoming) => incoming,
            Err(reason) => return Answer::failed(reason),
        };
        let finishing = tokio::task::spawn_blocking(move || incoming.finish(hash));
        let finished = finishing
            .await
            .unwrap_or_else(|error| Err(error.to_string()));
        if let Err(reason) = finished {
            return Answer::failed(reason);
        }
        tracing::info!(
            name = head.name,
            size_bytes = head.size,
            "a file was pushed here"
        );
        metrics::counter!("binomesh_files_stored_total").increment(1);
        Answer::Stored
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
