//! The origin: the messages that this node published, its *own* messages, from acceptance to
//! receipt.
//!
//! - A message is accepted when there is room for it. A broadcast may wait for a complete roster
//!   (`roster_wait`). Then the message goes out in *rounds*: the first for all its members, if one
//!   packet can name them, later rounds for members not yet confirmed. Each round is a duty of this
//!   node, in the newest epoch.
//! - A message is issued again to the members that a round could not confirm, at their present
//!   places. The waits between rounds double.
//! - A message ends when each member is reached or settled, or at its deadline. It has exactly one
//!   receipt while this process lives.
//! - Members are known by their distance, clockwise from this node, in the epoch of acceptance.
//!   Names find them again in later epochs.
//! - The *mark* is the sequence below which this origin answers for no message, except those that
//!   it keeps for absent members (`retention`).

mod acceptance;
mod endings;
mod message;
mod messages;
mod receipt;
mod retention;
mod roster_wait;
mod rounds;
mod signatures;
#[cfg(test)]
mod tests;

use binomesh_overlay::Id;

use super::RelayStats;
use super::context::Context;
use super::custody::{Custody, Progress};
use super::epochs::{EpochView, Epochs};
use crate::order::Numbering;
use message::OpenMessage;
use messages::OpenMessages;

pub use receipt::{RankRun, Receipt, Unreached};

/// The own messages of a node in one life of its process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin<I> {
    boot: u64,
    open: OpenMessages<I>,
    numbering: Numbering<I>,
    /// Broadcasts no longer wait for the newest roster, which did not become complete in time.
    is_impatient: bool,
}

impl<I: Id> Origin<I> {
    pub(super) const fn new(boot: u64) -> Self {
        Self {
            boot,
            open: OpenMessages::new(),
            numbering: Numbering::new(),
            is_impatient: false,
        }
    }

    /// Take in what custody has found out about own messages.
    pub(super) fn heed(&mut self, custody: &mut Custody<I>, cx: &mut Context<'_, I>) {
        for progress in std::mem::take(&mut cx.progress) {
            match progress {
                Progress::Confirmed { id, epoch, reached } => {
                    self.open.confirm(id, epoch, &reached);
                }
                Progress::Misnamed { id, epoch, at } => self.open.misname(id, epoch, at),
                Progress::RoundDone(end) => self.on_round_done(&end, custody, cx),
            }
        }
    }

    /// A life of this peer is over: forget which messages it refused, so that its next life is
    /// asked.
    pub(super) fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
        self.open.recall_refused(peer, epochs);
    }

    /// An epoch is about to be dropped: keep its members' names for the messages accepted in it.
    pub(super) fn remember_members(&mut self, view: &EpochView<I>) {
        self.open.remember_members(view);
    }

    /// End all messages now: their receipts say *unconfirmed* for all outstanding members.
    pub(super) fn conclude_all(&mut self, custody: &mut Custody<I>, cx: &mut Context<'_, I>) {
        for sequence in self.open.sequences() {
            self.on_deadline(sequence, custody, cx);
        }
    }

    /// The sequence of the next message.
    pub(super) fn next_sequence(&self) -> u64 {
        self.open.next_sequence()
    }

    /// Whether no message is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// How many packets are open, except those kept for absent members.
    pub(super) fn open_packets(&self) -> usize {
        self.open.len() - self.open.kept_count()
    }

    /// Bytes of payloads and signatures of all open messages.
    pub(super) fn bytes(&self) -> usize {
        self.open.bytes()
    }

    /// Bytes of payloads and signatures of the messages that may be kept for absent members.
    pub(super) fn kept_bytes(&self) -> usize {
        self.open.keeping().1
    }

    /// Set the gauges of own messages.
    pub(super) fn measure(&self, stats: &mut RelayStats) {
        stats.open_messages = self.open.len();
        stats.kept_messages = self.open.kept_count();
        stats.waiting_messages = self.open.awaiting_roster().len();
        stats.message_bytes = self.open.bytes();
    }
}

/// Whether a message can be issued again now: it does not wait for a roster, and no round of it is
/// open.
fn is_between_rounds<I: Id>(message: &OpenMessage<I>, custody: &Custody<I>) -> bool {
    !message.awaits_roster && !custody.is_open(message.id)
}
