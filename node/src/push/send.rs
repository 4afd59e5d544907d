//! The origin's side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::piece::{Answer, Head, Part};
use super::{
    CHAIN_MAX, InvalidFileName, MARK_BYTES, PIECE_BYTES, PushFailure, PushOptions, PushReport,
    TOPIC, WINDOW, check_file_name,
};
use crate::command::{Destination, Due, SendError, SendOptions};
use crate::node::{Node, PublishHandle};
use crate::report::{Absent, Receipt};
use crate::settings::Strategy;
use crate::topic::Topic;

/// The fewest pieces on their way: at 1 MiB in 30 s, the default patience, none is late.
const WINDOW_LEAST: usize = 4;
/// A piece that is everywhere after this is no sign of a narrow link. A guess.
const SOON: Duration = Duration::from_secs(2);
/// How long a busy node is left alone.
const AGAIN: Duration = Duration::from_millis(50);
/// No head is longer: a name, and numbers.
const HEAD_MAX: usize = 512;

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
    if node.max_payload_bytes() <= HEAD_MAX {
        return Err(PushError::Send(SendError::TooLarge {
            size_bytes: HEAD_MAX + 1,
            max_bytes: node.max_payload_bytes(),
        }));
    }
    let started = now();
    let mut push = Push::new(node, options);
    let hash = push.run(&mut source, &mut progress).await?;
    push.is_over = true;
    Ok(push.report(hash, started))
}

/// A piece on its way.
struct Sent {
    handle: PublishHandle,
    payload: Bytes,
    is_marked: bool,
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
    /// Who has got at least one piece.
    reached: BTreeSet<String>,
    piece_bytes: usize,
    /// How many pieces may be on their way: few where they take long, so that the last
    /// of them is not late.
    window: usize,
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
            reached: BTreeSet::new(),
            // The head needs its place, too.
            piece_bytes: PIECE_BYTES.min(node.max_payload_bytes().saturating_sub(HEAD_MAX)),
            window: WINDOW_LEAST,
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
            let length = (size - at).min(self.piece_bytes as u64);
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
            while self.sent.len() >= self.window {
                self.settle_oldest(progress).await?;
            }
            let payload = Bytes::from(payload);
            self.sent.push_back(Sent {
                handle: self.publish(payload.clone(), is_marked),
                payload,
                is_marked,
                end: at,
            });
        }
        while !self.sent.is_empty() {
            self.settle_oldest(progress).await?;
        }
        let hash = hasher.finalize();
        let end = self.head(Part::End(*hash.as_bytes())).buffer();
        let end = Bytes::from(end);
        self.sent.push_back(Sent {
            handle: self.publish(end.clone(), true),
            payload: end,
            is_marked: true,
            end: size,
        });
        self.settle_oldest(progress).await?;
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

    /// Send a piece: to all, or once somebody has failed to those who have not.
    fn publish(&self, payload: Bytes, is_marked: bool) -> PublishHandle {
        let options = self.options_of(is_marked);
        let excused: Arc<[String]> = self.failed.keys().cloned().collect();
        let to = (!excused.is_empty()).then(|| self.remaining());
        let to = to.filter(|to| !to.is_empty());
        self.node.publish_own(payload, options, (to, excused))
    }

    /// Who has got something and has not failed.
    fn remaining(&self) -> Vec<Destination> {
        let well = self.reached.iter();
        let well = well.filter(|name| !self.failed.contains_key(*name));
        well.map(|name| name.as_str().into()).collect()
    }

    fn options_of(&self, is_marked: bool) -> SendOptions {
        SendOptions {
            topic: Topic::new(TOPIC).unwrap_or_default(),
            due: Due::Within(self.options.patience),
            confirmation: if is_marked {
                Confirmation::Acknowledged
            } else {
                Confirmation::Relayed
            },
            strategy: self.strategy(),
            is_ordered: false,
        }
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
        let until = now() + self.options.patience;
        loop {
            let Some(oldest) = self.sent.front_mut() else {
                return Ok(());
            };
            // It stays in its place until then, should this be given up meanwhile.
            match (&mut oldest.handle).await {
                Ok(receipt) => {
                    progress(oldest.end);
                    self.sent.pop_front();
                    self.resize(&receipt);
                    self.note(&receipt);
                    return Ok(());
                }
                // It went to nobody.
                Err(SendError::UnknownPeers(gone)) if now() < until => {
                    for name in gone {
                        let reason = "it is no member any more".to_owned();
                        self.failed.entry(name).or_insert(reason);
                    }
                }
                Err(SendError::Busy | SendError::NotReady) if now() < until => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
            self.send_again();
        }
    }

    /// Pieces that are soon everywhere may be more at once.
    fn resize(&mut self, receipt: &Receipt) {
        let took = Duration::from_secs_f64(receipt.elapsed_seconds.max(0.0));
        self.window = match took < SOON {
            true => (self.window + 1).min(WINDOW),
            false => (self.window / 2).max(WINDOW_LEAST),
        };
    }

    fn send_again(&mut self) {
        let oldest = self.sent.front();
        let oldest = oldest.map(|oldest| (oldest.payload.clone(), oldest.is_marked));
        let handle = oldest.map(|(payload, is_marked)| self.publish(payload, is_marked));
        if let (Some(handle), Some(oldest)) = (handle, self.sent.front_mut()) {
            oldest.handle = handle;
        }
    }

    /// What a receipt says of the receivers. The first reason of each stands.
    fn note(&mut self, receipt: &Receipt) {
        self.reached.extend(receipt.reached.iter().cloned());
        if !receipt.absent.is_empty() {
            self.absent.clone_from(&receipt.absent);
        }
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
        let options = self.options_of(false);
        runtime.spawn(async move {
            for piece in sent {
                // Whatever became of it, it is on its way no more.
                let _ = piece.handle.await;
            }
            let _ = node
                .publish_own(word.into(), options, (None, Arc::default()))
                .await;
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
