//! The origin's side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use binomesh_routing::packet::Confirmation;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::piece::{Answer, Head, Part};
use super::{
    CHAIN_MAX, InvalidFileName, MARK_BYTES, PIECE_BYTES, PushFailure, PushOptions, PushReport,
    TOPIC, WINDOW, check_file_name,
};
use crate::command::{Due, SendError, SendOptions};
use crate::node::{Node, PublishHandle};
use crate::report::{Absent, Receipt};
use crate::settings::Strategy;
use crate::topic::Topic;

/// A push did not come to its end. Receivers have been told to forget it, and none has the
/// file.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidFileName),
    /// What is pushed cannot be read, or is shorter than was said.
    #[error("cannot read what is to be pushed: {0}")]
    Read(#[from] io::Error),
    /// A piece could not be sent.
    #[error("cannot send: {0}")]
    Send(#[from] SendError),
}

/// Push what `source` yields to all members, and say what became of it at each.
/// `progress` is told how many bytes are behind the window.
pub async fn send(
    node: &Node,
    mut source: impl AsyncRead + Unpin,
    options: &PushOptions,
    mut progress: impl FnMut(u64),
) -> Result<PushReport, PushError> {
    check_file_name(&options.name)?;
    let started = now();
    let mut push = Push::new(node, options);
    let hash = push.run(&mut source, &mut progress).await?;
    push.is_over = true;
    Ok(push.report(hash, started))
}

/// A piece on its way.
struct Sent {
    handle: PublishHandle,
    /// Where it ends.
    end: u64,
}

struct Push<'a> {
    node: &'a Node,
    options: &'a PushOptions,
    number: u64,
    sent: VecDeque<Sent>,
    stored: BTreeSet<String>,
    failed: BTreeMap<String, String>,
    absent: Vec<Absent>,
    /// Receivers keep nothing of it that is not whole.
    is_over: bool,
}

impl<'a> Push<'a> {
    fn new(node: &'a Node, options: &'a PushOptions) -> Self {
        Self {
            node,
            options,
            number: node.next_push(),
            sent: VecDeque::new(),
            stored: BTreeSet::new(),
            failed: BTreeMap::new(),
            absent: Vec::new(),
            is_over: false,
        }
    }

    async fn run(
        &mut self,
        source: &mut (impl AsyncRead + Unpin),
        progress: &mut impl FnMut(u64),
    ) -> Result<blake3::Hash, PushError> {
        let size = self.options.size_bytes;
        let mut hasher = blake3::Hasher::new();
        let (mut at, mut mark) = (0, MARK_BYTES);
        while at < size {
            let mut payload = self.head(Part::At(at)).buffer();
            let begin = payload.len();
            let length = (size - at).min(PIECE_BYTES as u64);
            payload.reserve_exact(length as usize);
            source.take(length).read_to_end(&mut payload).await?;
            let Some(bytes) = payload.get(begin..) else {
                break;
            };
            if (bytes.len() as u64) < length {
                let came = at + bytes.len() as u64;
                let short = format!("it ends after {came} of {size} bytes");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, short).into());
            }
            hasher.update(bytes);
            at += length;
            let is_marked = at >= mark;
            if is_marked {
                mark += MARK_BYTES;
            }
            while self.sent.len() >= WINDOW {
                self.settle_oldest(progress).await?;
            }
            let handle = self.publish(payload, is_marked);
            self.sent.push_back(Sent { handle, end: at });
        }
        while !self.sent.is_empty() {
            self.settle_oldest(progress).await?;
        }
        let hash = hasher.finalize();
        let end = self.head(Part::End(*hash.as_bytes())).buffer();
        let receipt = self.publish(end, true).await?;
        self.absent.clone_from(&receipt.absent);
        self.note(&receipt);
        Ok(hash)
    }

    fn head(&self, part: Part) -> Head {
        Head {
            push: self.number,
            name: self.options.name.clone(),
            size: self.options.size_bytes,
            replace: self.options.replace,
            part,
        }
    }

    /// Send a piece; who failed before is not waited for.
    fn publish(&self, payload: Vec<u8>, is_marked: bool) -> PublishHandle {
        let (options, excused) = self.options_of(is_marked);
        self.node.publish_own(payload, options, excused)
    }

    fn options_of(&self, is_marked: bool) -> (SendOptions, Arc<[String]>) {
        let options = SendOptions {
            topic: Topic::new(TOPIC).unwrap_or_default(),
            due: Due::Within(self.options.patience),
            confirmation: if is_marked {
                Confirmation::Acknowledged
            } else {
                Confirmation::Relayed
            },
            strategy: self.strategy(),
        };
        (options, self.failed.keys().cloned().collect())
    }

    fn strategy(&self) -> Strategy {
        let population = self
            .node
            .placement()
            .borrow()
            .as_ref()
            .map(|at| at.population);
        match self.options.strategy {
            Strategy::Auto if population.is_none_or(|n| n <= CHAIN_MAX) => Strategy::Chain,
            Strategy::Auto => Strategy::SiblingTree,
            chosen => chosen,
        }
    }

    async fn settle_oldest(&mut self, progress: &mut impl FnMut(u64)) -> Result<(), PushError> {
        if let Some(Sent { handle, end }) = self.sent.pop_front() {
            let receipt = handle.await?;
            self.note(&receipt);
            progress(end);
        }
        Ok(())
    }

    /// What a receipt says of the receivers. The first reason of each stands.
    fn note(&mut self, receipt: &Receipt) {
        let mut failed = Vec::new();
        for one in &receipt.unreached {
            failed.push((
                &one.name,
                format!("a piece did not reach it ({})", one.reason),
            ));
        }
        for one in &receipt.unacknowledged {
            let reason = match one.reason.as_str() {
                "no-subscriber" => "it takes no files; set `push_dir`".to_owned(),
                "no-answer" => "it did not write in time".to_owned(),
                reason => reason.to_owned(),
            };
            failed.push((&one.name, reason));
        }
        for reply in &receipt.replies {
            match Answer::parse(&reply.reply) {
                Answer::Written => {}
                Answer::Stored => self.stored.extend(reply.names.iter().cloned()),
                Answer::Failed(reason) => {
                    failed.extend(reply.names.iter().map(|name| (name, reason.clone())));
                }
            }
        }
        for (name, reason) in failed {
            self.failed.entry(name.clone()).or_insert(reason);
        }
    }

    fn report(&self, hash: blake3::Hash, started: Instant) -> PushReport {
        let elapsed = (now() - started).as_secs_f64();
        let size = self.options.size_bytes;
        // Who failed once may have got it all the same.
        let failed = self.failed.iter();
        let failed = failed.filter(|(name, _)| !self.stored.contains(*name));
        PushReport {
            name: self.options.name.clone(),
            size_bytes: size,
            blake3: hash.to_hex().to_string(),
            stored_count: self.stored.len() as u32,
            failed: failed
                .map(|(name, reason)| PushFailure {
                    name: name.clone(),
                    reason: reason.clone(),
                })
                .collect(),
            stored: self.stored.iter().cloned().collect(),
            absent: self.absent.clone(),
            elapsed_seconds: elapsed,
            bytes_per_second: size as f64 / elapsed.max(f64::EPSILON),
        }
    }
}

/// Given up: receivers need not wait for more. They are told when no piece is on its way
/// any more, for one that came later would begin the file anew.
impl Drop for Push<'_> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.is_over {
            return;
        }
        let (node, sent) = (self.node.clone(), std::mem::take(&mut self.sent));
        let word = self.head(Part::Abandoned).buffer();
        let (options, excused) = self.options_of(false);
        runtime.spawn(async move {
            for piece in sent {
                // Whatever became of it, it is on its way no more.
                let _ = piece.handle.await;
            }
            let _ = node.publish_own(word, options, excused).await;
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the report says how long it took"
)]
fn now() -> Instant {
    Instant::now()
}
