//! The open own messages, in the order of their sequences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binomesh_overlay::{Epoch, Id};

use super::message::OpenMessage;
use crate::packet::{PacketId, Signature};
use crate::relay::epochs::{EpochView, Epochs};
use crate::runs::Runs;

/// The own messages without a receipt; the messages of one packet count as one. At most
/// `config.max_open`, and `config.max_kept` that are kept for absent members.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OpenMessages<I> {
    messages: BTreeMap<u64, OpenMessage<I>>,
    /// The messages that are kept.
    kept: BTreeSet<u64>,
    /// By peer, the messages to be kept that it has not got yet; a peer gets them one after the
    /// other.
    backlogs: BTreeMap<I, BTreeSet<u64>>,
    next: u64,
    bytes: usize,
}

impl<I: Id> OpenMessages<I> {
    pub(super) const fn new() -> Self {
        Self {
            messages: BTreeMap::new(),
            kept: BTreeSet::new(),
            backlogs: BTreeMap::new(),
            next: 0,
            bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sequence of the next message.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The mark: no message below this sequence is open, except kept ones.
    pub(super) fn closed_below(&self) -> u64 {
        let mut open = self.messages.iter().filter(|(_, open)| !open.is_kept);
        open.next().map_or(self.next, |(sequence, _)| *sequence)
    }

    /// How many messages are kept for absent members.
    pub(super) fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// Keep a message: all its outstanding members are absent.
    pub(super) fn keep(&mut self, sequence: u64) {
        if let Some(message) = self.messages.get_mut(&sequence) {
            message.is_kept = true;
            self.kept.insert(sequence);
        }
    }

    /// From now on no message is to be kept.
    pub(super) fn keep_no_more(&mut self) {
        for message in self.messages.values_mut() {
            message.keeps = false;
        }
    }

    /// The sequences of the kept messages, in order.
    pub(super) fn kept(&self) -> Vec<u64> {
        self.kept.iter().copied().collect()
    }

    /// How many messages are to be kept if members are absent, and their bytes.
    pub(super) fn keeping(&self) -> (usize, usize) {
        let keeping = self.messages.values().filter(|open| open.keeps);
        keeping.fold((0, 0), |(count, bytes), open| {
            (count + 1, bytes + open.bytes())
        })
    }

    /// After a round, note the peers that a message may be kept for. Returns the next message of
    /// each peer that has got this one now.
    pub(super) fn note_backlogs(&mut self, sequence: u64, epochs: &Epochs<I>) -> BTreeSet<u64> {
        let Some(message) = self.messages.get_mut(&sequence).filter(|one| one.keeps) else {
            return BTreeSet::new();
        };
        let outstanding = message.outstanding();
        let peers = outstanding
            .iter()
            .filter_map(|at| message.peer_at(at, epochs));
        let undelivered_to: BTreeSet<I> = peers.collect();
        for peer in undelivered_to.difference(&message.undelivered_to) {
            self.backlogs.entry(*peer).or_default().insert(sequence);
        }
        let before = std::mem::replace(&mut message.undelivered_to, undelivered_to);
        let served: Vec<I> = before
            .difference(&message.undelivered_to)
            .copied()
            .collect();
        self.pass_on(sequence, served)
    }

    /// The listed peers no longer wait for a message. Returns the next message that each waits for.
    fn pass_on(&mut self, sequence: u64, peers: impl IntoIterator<Item = I>) -> BTreeSet<u64> {
        let mut next = BTreeSet::new();
        for peer in peers {
            let Some(backlog) = self.backlogs.get_mut(&peer) else {
                continue;
            };
            backlog.remove(&sequence);
            next.extend(backlog.first());
            if backlog.is_empty() {
                self.backlogs.remove(&peer);
            }
        }
        next
    }

    /// Whether a peer has to get an earlier message first.
    pub(super) fn has_backlog_before(&self, peer: I, sequence: u64) -> bool {
        let first = self.backlogs.get(&peer).and_then(BTreeSet::first);
        first.is_some_and(|first| *first < sequence)
    }

    /// Open a message, or several in one packet, under the next sequences.
    pub(super) fn open(&mut self, message: OpenMessage<I>) {
        let sequence = message.id.sequence;
        self.next = sequence + message.payloads.count();
        self.bytes += message.bytes();
        self.messages.insert(sequence, message);
    }

    /// Set the members that a message does not wait for, and whether it gives up members under a
    /// verdict soon.
    pub(super) fn spare(&mut self, sequence: u64, peers: impl Iterator<Item = I>, is_soon: bool) {
        if let Some(message) = self.messages.get_mut(&sequence) {
            message.spared.extend(peers);
            message.is_soon = is_soon;
        }
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&OpenMessage<I>> {
        self.messages.get(&sequence)
    }

    pub(super) fn get_mut(&mut self, sequence: u64) -> Option<&mut OpenMessage<I>> {
        self.messages.get_mut(&sequence)
    }

    /// Replace the signature of a message. Returns its id.
    pub(super) fn sign(&mut self, sequence: u64, signature: &Signature) -> Option<PacketId<I>> {
        let message = self.messages.get_mut(&sequence)?;
        self.bytes -= message.bytes();
        message.signature = Some(signature.clone());
        self.bytes += message.bytes();
        Some(message.id)
    }

    /// Remove a message. Returns it, with the next message of each peer that it was kept for.
    pub(super) fn close(&mut self, sequence: u64) -> Option<(OpenMessage<I>, BTreeSet<u64>)> {
        let mut message = self.messages.remove(&sequence)?;
        self.kept.remove(&sequence);
        self.bytes -= message.bytes();
        let undelivered_to = std::mem::take(&mut message.undelivered_to);
        let next = self.pass_on(sequence, undelivered_to);
        Some((message, next))
    }

    /// The sequences of the messages that wait for a roster, in order.
    pub(super) fn awaiting_roster(&self) -> Vec<u64> {
        let waiting = self.messages.iter().filter(|(_, open)| open.awaits_roster);
        waiting.map(|(sequence, _)| *sequence).collect()
    }

    pub(super) fn sequences(&self) -> Vec<u64> {
        self.messages.keys().copied().collect()
    }

    /// The member named at a distance of a round says that it never held that rank.
    pub(super) fn misname(&mut self, id: PacketId<I>, epoch: Epoch<I>, at: u32) {
        let message = self.messages.get_mut(&id.sequence);
        if let Some(message) = message.filter(|message| message.id == id) {
            message.misname(epoch, at);
        }
    }

    /// A life of this peer is over: forget its refusals, so that the next life is asked.
    pub(super) fn recall_refused(&mut self, peer: I, epochs: &Epochs<I>) {
        for message in self.messages.values_mut() {
            message.recall_refused(peer, epochs);
        }
    }

    /// The members at the distances `reached` in this epoch have delivered.
    pub(super) fn confirm(&mut self, id: PacketId<I>, epoch: Epoch<I>, reached: &Runs) {
        let message = self.messages.get_mut(&id.sequence);
        if let Some(message) = message.filter(|message| message.id == id) {
            message.confirm(epoch, reached);
        }
    }

    /// An epoch is about to be dropped: keep its members' names for the messages accepted in it.
    pub(super) fn remember_members(&mut self, view: &EpochView<I>) {
        for message in self.messages.values_mut() {
            if message.accepted == view.placement() {
                message.members = Some(match message.members.take() {
                    None => view.names(),
                    // The epoch came back, and fewer names may be known now than before.
                    Some(before) => {
                        let names = view.names();
                        let both = names.iter().zip(before.iter());
                        Arc::new(both.map(|(now, before)| now.or(*before)).collect())
                    }
                });
            }
        }
    }
}
