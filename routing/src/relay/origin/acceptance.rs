//! Accepting own messages: whether there is room, and which members they are for.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::{Id, Placement};

use super::Origin;
use super::message::{Accepted, OpenMessage, Saying};
use super::rounds::singles;
use crate::destination::Destination;
use crate::order::Order;
use crate::packet::{Content, PacketId, Payloads, Signature, SigningFailed, Span, signature_bytes};
use crate::relay::context::Context;
use crate::relay::custody::Custody;
use crate::relay::epochs::EpochView;
use crate::relay::{Config, Due, Publish, PublishError, Timer};
use crate::runs::Runs;

/// The members that a message is for, and the awaited peers.
struct Addressees<I> {
    /// The distances of members and awaited peers.
    expected: Runs,
    /// Of a message to some members: the member that is meant at each distance.
    names: BTreeMap<u32, I>,
    /// If the message is to be kept for absent members: the other peers that it waits for.
    awaited: Option<Vec<I>>,
}

impl<I: Id> Origin<I> {
    /// Accept a message, or several in one packet, and send it out, at once or after the wait for
    /// the roster. Signing is slow. So `sign` is called only when the id is certain and the message
    /// fits without a signature: a message that waits for room is usually signed once. The
    /// signature must fit as well.
    pub(in crate::relay) fn publish(
        &mut self,
        publish: Publish<I>,
        sign: impl FnOnce(Content<'_, I>) -> Result<Option<Signature>, SigningFailed>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) -> Result<PacketId<I>, PublishError<I>> {
        if cx.is_draining {
            return Err(PublishError::Draining);
        }
        if !publish.strategy.is_possible() {
            return Err(PublishError::ImpossibleStrategy(publish.strategy));
        }
        let view = cx.epochs.newest().ok_or(PublishError::Unplaced)?;
        let accepted = view.placement();
        let to = addressees(&publish, view, cx)?;
        let keeps = to.awaited.is_some();
        self.check_room(&publish.payloads, keeps, custody, cx)?;
        let id = PacketId {
            origin: cx.me,
            boot: self.boot,
            sequence: self.open.next_sequence(),
        };
        // A destination that gets one message of a stream is to get all of them, so an unused
        // number would be a hole. Therefore the number is taken only when the message is accepted.
        let next = || {
            let (topic, to) = (&publish.topic, &publish.destination);
            self.numbering.next_of(topic, to)
        };
        let order = publish.is_ordered.then(next);
        let signature = sign(Content {
            id,
            confirmation: publish.confirmation,
            topic: &publish.topic,
            order,
            payloads: &publish.payloads,
        });
        let signature = signature.map_err(|SigningFailed| PublishError::NotSigned)?;
        let bytes = publish.payloads.len() + signature_bytes(signature.as_ref());
        self.check_memory(bytes, keeps, cx)?;
        if publish.is_ordered {
            self.number(&publish, id.sequence, cx);
        }
        cx.stats.published += publish.payloads.count();
        let names = to.names.clone();
        let due = publish.due.time();
        let is_for_all = publish.destination.is_all();
        self.open(id, accepted, publish, order, signature, to, cx.config);
        if let Some(time) = due {
            cx.out.arm(Timer::Deadline(id.sequence), time);
        }
        if is_for_all && self.has_to_wait(cx) {
            self.wait_for_roster(id.sequence, cx);
        } else if is_for_all {
            self.issue_to_all(id.sequence, custody, cx);
        } else if names.is_empty() {
            self.end_unissued(id.sequence, custody, cx);
        } else {
            self.issue_to(id.sequence, names, custody, cx);
        }
        Ok(id)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all that an open message is made of, at its one call"
    )]
    fn open(
        &mut self,
        id: PacketId<I>,
        accepted: Placement<I>,
        publish: Publish<I>,
        order: Option<Order>,
        signature: Option<Signature>,
        to: Addressees<I>,
        config: &Config,
    ) {
        let spared = match publish.destination {
            Destination::AllBut(peers) => peers,
            Destination::All | Destination::Peers(_) => Vec::new(),
        };
        let what = Accepted {
            said: Saying {
                topic: publish.topic,
                order,
                payloads: publish.payloads,
                strategy: publish.strategy,
                confirmation: publish.confirmation,
            },
            signature,
            expected: to.expected,
            names: to.names,
            awaited: to.awaited,
            wait: Config::REISSUE_FIRST,
        };
        self.open.open(OpenMessage::new(id, accepted, what));
        let spared = spared.into_iter().take(config.roster_max as usize);
        let is_soon = matches!(publish.due, Due::Soon(_));
        self.open.spare(id.sequence, spared, is_soon);
    }

    /// An ordered message is accepted: take its number.
    fn number(&mut self, publish: &Publish<I>, sequence: u64, cx: &mut Context<'_, I>) {
        let place = (&publish.topic, &publish.destination);
        let packet = (sequence, publish.payloads.count());
        let open = &self.open;
        let is_open = |sequence| open.get(sequence).is_some();
        let (_, forgotten) = self.numbering.number(place, packet, is_open);
        cx.stats.streams_forgotten += forgotten;
    }

    /// Whether there is room for a further message. If not, messages that wait only for lost
    /// members may end and make room.
    fn check_room(
        &mut self,
        payloads: &Payloads,
        keeps: bool,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) -> Result<(), PublishError<I>> {
        let full = match self.check_bounds(payloads, keeps, cx) {
            Err(full @ (PublishError::WindowFull(_) | PublishError::MemoryFull { .. })) => full,
            checked => {
                cx.peers.ease(checked.is_err() || self.is_scarce(cx.config));
                return checked;
            }
        };
        let is_first = cx.peers.press();
        let mut checked = Err(full);
        // Only the first failure ends messages: after it, those that can end have ended.
        if is_first {
            self.conclude_the_lost(custody, cx);
            checked = self.check_bounds(payloads, keeps, cx);
        }
        match &checked {
            Ok(()) => cx.peers.ease(self.is_scarce(cx.config)),
            Err(PublishError::WindowFull(_)) => cx.stats.window_full += 1,
            Err(_) => {}
        }
        checked
    }

    /// Whether more than half of the room for own messages is taken.
    pub(super) fn is_scarce(&self, config: &Config) -> bool {
        let sequences = self.open.next_sequence() - self.open.closed_below();
        2 * self.open_packets() > config.max_open
            || 2 * self.open.bytes() > config.max_message_bytes
            || 2 * sequences > config.window
    }

    fn check_bounds(
        &self,
        payloads: &Payloads,
        keeps: bool,
        cx: &mut Context<'_, I>,
    ) -> Result<(), PublishError<I>> {
        self.check_window(payloads, cx.config)?;
        self.check_memory(payloads.len(), keeps, cx)
    }

    /// Whether the payloads are short enough and within the window from the oldest open message,
    /// and whether fewer than `max_open` packets are open.
    fn check_window(&self, payloads: &Payloads, config: &Config) -> Result<(), PublishError<I>> {
        let (longest, max) = (payloads.longest(), config.payload_max);
        if longest > max {
            let bytes = longest;
            return Err(PublishError::PayloadTooLarge { bytes, max });
        }
        let end = self.open.next_sequence() + payloads.count();
        let is_beyond = end - self.open.closed_below() > config.window;
        let open = self.open_packets();
        if is_beyond || open >= config.max_open {
            return Err(PublishError::WindowFull(open));
        }
        Ok(())
    }

    /// Whether there is room for the bytes of a message, which may be one that is to be kept.
    fn check_memory(
        &self,
        bytes: usize,
        keeps: bool,
        cx: &mut Context<'_, I>,
    ) -> Result<(), PublishError<I>> {
        if keeps {
            self.check_kept(bytes, cx)?;
        }
        let max = cx.config.max_message_bytes;
        let held = self.open.bytes();
        if held.saturating_add(bytes) > max {
            return Err(PublishError::MemoryFull { bytes: held, max });
        }
        Ok(())
    }

    /// Whether a further message of this size may be kept.
    fn check_kept(&self, bytes: usize, cx: &mut Context<'_, I>) -> Result<(), PublishError<I>> {
        let (count, held) = self.open.keeping();
        let is_full =
            count >= cx.config.max_kept || held.saturating_add(bytes) > cx.config.max_kept_bytes;
        if is_full {
            cx.stats.kept_full += 1;
            return Err(PublishError::KeptFull(count));
        }
        Ok(())
    }
}

/// The addressees of a message, by their distances in the newest epoch.
fn addressees<I: Id>(
    publish: &Publish<I>,
    view: &EpochView<I>,
    cx: &Context<'_, I>,
) -> Result<Addressees<I>, PublishError<I>> {
    let mut awaited = awaited_by(&publish.due, cx)?;
    let n = view.placement().population.get();
    let (mut expected, names) = match &publish.destination {
        Destination::All | Destination::AllBut(_) => {
            (Runs::from_iter([Span::new(1, n)]), BTreeMap::new())
        }
        Destination::Peers(peers) => {
            if let Some(awaited) = &mut awaited {
                awaited.retain(|peer| view.rank_of(*peer).is_none());
            }
            let names = distances_of(view, peers, awaited.as_mut(), cx)?;
            (singles(&names), names)
        }
    };
    let beyond = awaited.iter().flatten().count();
    let beyond = n.saturating_add(u32::try_from(beyond).unwrap_or(u32::MAX));
    expected.insert(Span::new(n, beyond));
    Ok(Addressees {
        expected,
        names,
        awaited,
    })
}

/// The peers that a message is kept for besides members. `None` if it is not to be kept.
fn awaited_by<I: Id>(due: &Due<I>, cx: &Context<'_, I>) -> Result<Option<Vec<I>>, PublishError<I>> {
    let Due::Kept { awaited, .. } = due else {
        return Ok(None);
    };
    let max = cx.config.roster_max;
    if awaited.len() > max as usize {
        return Err(PublishError::TooManyAwaited(awaited.len(), max));
    }
    let awaited: BTreeSet<I> = awaited.iter().copied().collect();
    let is_other = |peer: &I| *peer != cx.me;
    Ok(Some(awaited.into_iter().filter(is_other).collect()))
}

/// The distances of these members, one for each. If the message is to be kept, peers that are no
/// members are added to the awaited ones.
fn distances_of<I: Id>(
    view: &EpochView<I>,
    peers: &[I],
    mut awaited: Option<&mut Vec<I>>,
    cx: &Context<'_, I>,
) -> Result<BTreeMap<u32, I>, PublishError<I>> {
    if peers.is_empty() {
        return Err(PublishError::NoDestination);
    }
    let keeps = awaited.is_some();
    let distance_of = |peer: I| {
        if peer == cx.me {
            return Err(PublishError::OwnId);
        }
        match view.rank_of(peer) {
            Some(_) if !keeps && cx.peers.is_absent(peer) => Err(PublishError::HasLeft(peer)),
            Some(rank) => Ok(view.distance_to(rank)),
            None if view.roster().is_complete() => Err(PublishError::UnknownPeer(peer)),
            None if view.roster().is_tracked() => Err(PublishError::RosterIncomplete(peer)),
            None => {
                let n = view.placement().population.get();
                Err(PublishError::RosterTooLarge(peer, n))
            }
        }
    };
    let mut names = BTreeMap::new();
    for peer in peers {
        let at = match (distance_of(*peer), &mut awaited) {
            (Err(PublishError::UnknownPeer(peer)), Some(awaited)) => {
                if !awaited.contains(&peer) {
                    awaited.push(peer);
                }
                continue;
            }
            (at, _) => at?,
        };
        // Two peers claim one rank, so its holder is not known.
        if names.insert(at, *peer).is_some_and(|other| other != *peer) {
            return Err(PublishError::RosterIncomplete(*peer));
        }
    }
    Ok(names)
}
