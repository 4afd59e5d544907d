//! The origin's side of a push.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::cutter::{Cut, Cutter};
use super::piece::{Head, Part, PieceAnswer};
use super::plan::Plan;
use super::{
    InvalidFileName, MARK_BYTES, PushFailure, PushOptions, PushReport, TOPIC, check_file_name, now,
};
use crate::command::{Destination, Due, SendError, SendOptions};
use crate::node::{Node, PublishHandle, Unasked};
use crate::report::{Absent, Receipt};
use crate::topic::Topic;

/// A piece that has reached all members within this time shows no narrow link. A guess: with less,
/// links with long delays shrink the window; with more, pieces on a narrow link become late.
const SOON: Duration = Duration::from_secs(2);
/// Reasons for an unreached member that say nothing about a narrow link: the member is gone.
const GONE: [&str; 2] = ["down", "left"];
/// The pause before a piece is sent again that this node itself has refused: it is busy, or not
/// ready.
const AGAIN: Duration = Duration::from_millis(50);
/// The most bytes of a head: a name and numbers.
const HEAD_MAX: usize = 512;

/// Why a push did not come to its end. Receivers are told to forget it. None has the file, unless
/// the node stopped while the end was on its way.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidFileName),
    /// The source cannot be read, or is shorter than the declared length.
    #[error("cannot read the data to push: {0}")]
    Read(#[from] io::Error),
    /// A piece could not be sent.
    #[error("cannot send: {0}")]
    Send(#[from] SendError),
}

/// Push the bytes of `source` to all members, and report the result for each member. The source is
/// read no faster than pieces get away, at most 8 MiB ahead of the slowest receiver that is waited
/// for. Bytes of a slow source go after a short pause. `progress` is told the number of bytes that
/// have their receipts.
pub async fn send(
    node: &Node,
    source: impl AsyncRead + Unpin,
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
    let (size, hash) = push.run(source, &mut progress).await?;
    push.is_over = true;
    let report = push.report(size, hash, started);
    let counts = node.push_counts();
    match report.is_complete() {
        true => counts.complete.increment(1),
        false => counts.incomplete.increment(1),
    }
    Ok(report)
}

/// A piece on its way.
struct PieceInFlight {
    handle: PublishHandle,
    payload: Bytes,
    is_marked: bool,
    /// The number that [`Plan::left`] gives for this piece.
    left: u32,
    /// Whether the piece is the last one, which has the hash of the whole and no bytes.
    is_end: bool,
    /// The offset at which the piece ends.
    end: u64,
    /// When the attempts end, once the node has refused the piece.
    until: Option<Instant>,
}

struct Push<'a> {
    node: &'a Node,
    options: &'a PushOptions,
    plan: Plan,
    number: u64,
    sent: VecDeque<PieceInFlight>,
    /// The number of pieces so far.
    pieces: u32,
    /// The number of bytes that have their receipts.
    done: u64,
    /// The offset from which the next piece asks for answers.
    mark: u64,
    /// The number of pieces since the last one that asked for answers.
    unmarked: usize,
    stored: BTreeSet<String>,
    failed: BTreeMap<String, String>,
    /// Failed members that are still there and would hold up others.
    slow: BTreeSet<String>,
    /// Failed members that were called down or had left.
    gone: BTreeSet<String>,
    /// Members that have got at least one piece.
    reached: BTreeSet<String>,
    /// The most pieces on their way: few if pieces take long, so that the last of them is not late.
    window: usize,
    absent: Vec<Absent>,
    /// Whether the push has ended properly. Otherwise receivers are told to drop what they have of
    /// it.
    is_over: bool,
}

/// The next step of a push.
enum Step {
    Cut(io::Result<Option<Cut>>),
    Settled(Box<Result<Receipt, SendError>>),
}

impl<'a> Push<'a> {
    fn new(node: &'a Node, options: &'a PushOptions) -> Self {
        let population = node.placement().borrow().as_ref().map(|at| at.population);
        let plan = Plan::of(
            options.strategy,
            population.unwrap_or(1),
            options.size_bytes,
        );
        Self {
            node,
            options,
            plan,
            number: node.next_push(),
            sent: VecDeque::new(),
            pieces: 0,
            done: 0,
            mark: MARK_BYTES,
            unmarked: 0,
            stored: BTreeSet::new(),
            failed: BTreeMap::new(),
            slow: BTreeSet::new(),
            gone: BTreeSet::new(),
            reached: BTreeSet::new(),
            window: plan.window_least,
            absent: Vec::new(),
            is_over: false,
        }
    }

    /// Send the whole source. Returns its length and its hash.
    async fn run(
        &mut self,
        source: impl AsyncRead + Unpin,
        progress: &mut impl FnMut(u64),
    ) -> Result<(u64, blake3::Hash), PushError> {
        // The head takes a part of the payload, too.
        let most = self.node.max_payload_bytes().saturating_sub(HEAD_MAX);
        let head = self.head(Part::At(0));
        self.plan.piece_bytes = self.plan.piece_bytes.min(most.max(1));
        let mut cutter = Cutter::new(source, head, self.plan.piece_bytes);
        loop {
            let has_room = self.sent.len() < self.window;
            // The source is not read beyond the window, and a slow source delays no receipt.
            let step = tokio::select! {
                cut = cutter.next(), if has_room => Step::Cut(cut),
                outcome = settled(self.sent.front_mut()) => Step::Settled(outcome.into()),
            };
            match step {
                Step::Settled(outcome) => {
                    self.settle(*outcome, progress).await?;
                    if !has_room {
                        cutter.rest();
                    }
                }
                Step::Cut(cut) => match cut? {
                    Some(cut) => self.send(cut),
                    None => break,
                },
            }
        }
        self.settle_all(progress).await?;
        let (size, hash) = (cutter.at(), cutter.hasher.finalize());
        let part = Part::End {
            size,
            hash: *hash.as_bytes(),
        };
        self.send_piece(self.head(part).buffer().into(), size, true, true);
        self.settle_all(progress).await?;
        Ok((size, hash))
    }

    fn send(&mut self, cut: Cut) {
        // Signs of life ask for answers as well: a member that fails during a pause is named soon.
        // Of many short pieces one in each half window asks, too: readers keep each piece until it
        // is read.
        let is_marked =
            cut.end >= self.mark || cut.is_empty || self.unmarked + 1 >= self.plan.window / 2;
        self.unmarked = if is_marked { 0 } else { self.unmarked + 1 };
        if cut.end >= self.mark {
            self.mark += MARK_BYTES;
        }
        self.send_piece(cut.payload, cut.end, is_marked, false);
    }

    fn send_piece(&mut self, payload: Bytes, end: u64, is_marked: bool, is_end: bool) {
        let left = self.plan.left(self.options.size_bytes, end, self.pieces);
        self.pieces = self.pieces.saturating_add(1);
        self.sent.push_back(PieceInFlight {
            handle: self.publish(payload.clone(), is_marked, left, is_end),
            payload,
            is_marked,
            left,
            is_end,
            end,
            until: None,
        });
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

    /// Send a piece to all members, also to failed ones, since each passes it on. But once a member
    /// is too slow, the piece goes by name to the members that have got a piece before and have not
    /// failed.
    fn publish(&self, payload: Bytes, is_marked: bool, left: u32, is_end: bool) -> PublishHandle {
        let options = self.options_of(is_marked);
        // A member that was called down or had left may still have got all pieces: the end asks it,
        // too.
        let is_excused = |name: &&String| !(is_end && self.gone.contains(*name));
        let excused = self.failed.keys().filter(is_excused);
        let excused: Arc<[String]> = excused.cloned().collect();
        let to = (!self.slow.is_empty()).then(|| self.remaining());
        let to = to.filter(|to| !to.is_empty());
        let more = Unasked { excused, left };
        self.node.publish_own(payload, options, to, more)
    }

    /// The members that have got at least one piece and have not failed.
    fn remaining(&self) -> Vec<Destination> {
        let well = self.reached.iter();
        let well = well.filter(|name| !self.failed.contains_key(*name));
        well.map(|name| name.as_str().into()).collect()
    }

    fn options_of(&self, is_marked: bool) -> SendOptions {
        SendOptions {
            topic: Topic::new(TOPIC).unwrap_or_default(),
            due: Due::Soon(self.patience()),
            confirmation: if is_marked {
                Confirmation::Acknowledged
            } else {
                Confirmation::Relayed
            },
            strategy: self.plan.strategy,
            is_ordered: false,
        }
    }

    fn patience(&self) -> Duration {
        self.options.patience.min(PushOptions::PATIENCE_MAX)
    }

    async fn settle_all(&mut self, progress: &mut impl FnMut(u64)) -> Result<(), PushError> {
        while !self.sent.is_empty() {
            let outcome = settled(self.sent.front_mut()).await;
            self.settle(outcome, progress).await?;
        }
        Ok(())
    }

    /// Take the outcome of the oldest piece. A refused piece is sent again for a while.
    async fn settle(
        &mut self,
        outcome: Result<Receipt, SendError>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), PushError> {
        let Some(mut oldest) = self.sent.pop_front() else {
            return Ok(());
        };
        let patience = self.patience();
        let until = *oldest.until.get_or_insert_with(|| now() + patience);
        match outcome {
            Ok(receipt) => {
                progress(oldest.end);
                let more = oldest.end.saturating_sub(self.done);
                self.node.push_counts().bytes_sent.increment(more);
                self.done += more;
                self.resize(&receipt);
                self.note(&receipt);
                return Ok(());
            }
            // The piece went to no member.
            Err(SendError::UnknownPeers(gone)) if now() < until => {
                for name in gone {
                    let reason = "the node is no longer a member".to_owned();
                    self.failed.entry(name).or_insert(reason);
                }
            }
            Err(SendError::Busy | SendError::NotReady) if now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
        let payload = oldest.payload.clone();
        oldest.handle = self.publish(payload, oldest.is_marked, oldest.left, oldest.is_end);
        self.sent.push_front(oldest);
        Ok(())
    }

    /// Adapt the window to a receipt: it grows while pieces are soon everywhere, and halves if not.
    /// A piece that had to wait for a member that is gone says nothing about links.
    fn resize(&mut self, receipt: &Receipt) {
        let unreached = receipt.unreached.iter().map(|one| one.reason.as_str());
        let unacknowledged = receipt.unacknowledged.iter().map(|one| one.reason.as_str());
        if unreached
            .chain(unacknowledged)
            .any(|reason| GONE.contains(&reason))
        {
            return;
        }
        let took = Duration::from_secs_f64(receipt.elapsed_seconds.max(0.0));
        self.window = match took < SOON {
            true => (self.window + 1).min(self.plan.window),
            false => (self.window / 2).max(self.plan.window_least),
        };
    }

    /// Note the results of a receipt for each receiver. The first reason of each stands.
    fn note(&mut self, receipt: &Receipt) {
        self.reached.extend(receipt.reached.iter().cloned());
        if !receipt.absent.is_empty() {
            self.absent.clone_from(&receipt.absent);
        }
        let mut failed = Vec::new();
        for one in &receipt.unreached {
            match GONE.contains(&one.reason.as_str()) {
                true => self.gone.insert(one.name.clone()),
                false => self.slow.insert(one.name.clone()),
            };
            failed.push((
                &one.name,
                format!(
                    "a piece of the file did not reach the node ({})",
                    one.reason
                ),
            ));
        }
        for one in &receipt.unacknowledged {
            let reason = match one.reason.as_str() {
                "no-subscriber" => "the node takes no files; set `push_dir` there".to_owned(),
                "no-answer" => {
                    self.slow.insert(one.name.clone());
                    "the node did not store a piece of the file in time".to_owned()
                }
                "down" => {
                    self.gone.insert(one.name.clone());
                    "the node went down before it had stored the file".to_owned()
                }
                reason => reason.to_owned(),
            };
            failed.push((&one.name, reason));
        }
        for reply in &receipt.replies {
            match PieceAnswer::parse(&reply.reply) {
                PieceAnswer::Written => {}
                PieceAnswer::Stored => self.stored.extend(reply.names.iter().cloned()),
                PieceAnswer::Failed(reason) => {
                    failed.extend(reply.names.iter().map(|name| (name, reason.clone())));
                }
            }
        }
        for (name, reason) in failed {
            self.failed.entry(name.clone()).or_insert(reason);
        }
    }

    fn report(&self, size: u64, hash: blake3::Hash, started: Instant) -> PushReport {
        let elapsed = (now() - started).as_secs_f64();
        // A member that failed once may still have stored the whole.
        let failed = self.failed.iter();
        let failed = failed.filter(|(name, _)| !self.stored.contains(*name));
        let failed = failed.map(|(name, reason)| (name, reason.as_str()));
        // A member that left is in no receipt of later pieces, so it did not fail there.
        let left = self.reached.iter();
        let left = left.filter(|name| !self.stored.contains(*name));
        let left = left.filter(|name| !self.failed.contains_key(*name));
        let failed = failed.chain(left.map(|name| {
            (
                name,
                "the node left before the end of the \
                                                          push",
            )
        }));
        PushReport {
            name: self.options.name.clone(),
            size_bytes: size,
            blake3: hash.to_hex().to_string(),
            stored_count: self.stored.len() as u32,
            failed: failed
                .map(|(name, reason)| PushFailure {
                    name: name.clone(),
                    reason: reason.to_owned(),
                })
                .collect(),
            stored: self.stored.iter().cloned().collect(),
            absent: self.absent.clone(),
            elapsed_seconds: elapsed,
            bytes_per_second: size as f64 / elapsed.max(f64::EPSILON),
        }
    }
}

/// A push that is given up: receivers need not wait for more. They are told once no piece is on its
/// way, since a piece that came later would begin the push again.
impl Drop for Push<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.node.push_counts().failed.increment(1);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (node, sent) = (self.node.clone(), std::mem::take(&mut self.sent));
        let word = self.head(Part::Abandoned).buffer();
        let options = self.options_of(false);
        runtime.spawn(async move {
            for piece in sent {
                // With any outcome, the piece is on its way no more.
                let _ = piece.handle.await;
            }
            let more = Unasked {
                excused: Arc::default(),
                left: 0,
            };
            let _ = node.publish_own(word.into(), options, None, more).await;
        });
    }
}

/// The outcome of a piece; never ready if there is no piece.
async fn settled(piece: Option<&mut PieceInFlight>) -> Result<Receipt, SendError> {
    match piece {
        Some(piece) => (&mut piece.handle).await,
        None => std::future::pending().await,
    }
}
