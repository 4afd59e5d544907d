//! The effects of a change in one layer on the other layers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::gathering::Gathering;
use super::survey::Survey;
use super::{Event, MAX_BOOTS, Moved, Out, Overlay, Timer};
use crate::config::beats;
use crate::fingers::Fingers;
use crate::stamp::Stamp;
use crate::{Epoch, Id, detector};

/// How long the links of the previous epoch are kept for messages that still travel on them. A
/// guess, well above the life of a broadcast: if it is too short, messages of the old epoch lose
/// their links.
const RETIRE_AFTER: Duration = Duration::from_secs(10);

impl<I: Id> Overlay<I> {
    pub(super) fn settle(&mut self, mut moved: Moved, out: &mut Out<I>) {
        moved.place |= self.placement() != self.census.placement();
        if moved.family {
            self.on_family(&mut moved, out);
        }
        if moved.family || moved.count {
            self.on_count(moved.family, out);
            self.decide_belonging(out);
        }
        self.recall(&mut moved);
        if moved.place {
            self.on_new_place(&mut moved, out);
        }
        if moved.ring || moved.place {
            self.on_ring_moved(&mut moved, out);
        } else if moved.marks {
            // No beats here: if this node or a ring neighbour lies, the two would answer each other
            // for ever.
            self.on_level_zero(&mut moved, out);
        }
        if moved.fingers {
            out.event(Event::View);
        }
        let is_new = moved.family || moved.ring || moved.place || moved.fingers;
        if is_new || moved.lead {
            let before = self.refresh.remaining();
            self.refresh.reset(self.backoff());
            // A timer that is armed again at every change would never fire in a busy time.
            if self.refresh.remaining() < before {
                self.arm_refresh(out);
            }
        }
        moved.links |= is_new;
        if moved.count || moved.place {
            self.report_ranks(out);
        }
        if moved.links {
            self.claim_links(out);
        }
    }

    /// Forget the Infos of peers that are no children, which corruption may leave.
    pub(super) fn forget_strangers(&mut self) {
        let tree = &self.tree;
        self.infos.retain(|child, _| tree.has_child(*child));
    }

    /// Parent or children changed: apply the ring's rules to the new family.
    fn on_family(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        if self.tree.is_root() && self.tree.children().len() == 0 {
            // The former family must be somewhere: probe for it soon.
            (self.probes, self.has_lost) = (0, true);
        }
        self.forget_strangers();
        moved.ring |= self.ring.apply_spontaneous(&self.tree, out).0;
        let planted = self.config.planted;
        for (child, leaf) in self.infos.clone() {
            let info = crate::ring::Message::Info(leaf);
            let changed = self.ring.on_message(child, info, &self.tree, planted, out);
            moved.ring |= changed.0;
        }
    }

    fn on_count(&mut self, family: bool, out: &mut Out<I>) {
        let children: Vec<I> = self.tree.children().collect();
        let changed = self.census.recount(children.into_iter());
        self.tree.set_size(self.census.size().get(), out);
        match self.tree.parent() {
            Some(parent) if family => self.report(parent, out),
            Some(parent) if changed => self.report_at_once(parent, out),
            // Only a change postpones the epoch; repeated sizes do not.
            None if self.needs_epoch() && (changed || family || !self.epoch_pending) => {
                self.await_epoch(out);
            }
            _ => {}
        }
    }

    fn await_epoch(&mut self, out: &mut Out<I>) {
        out.arm(Timer::EpochSettled, self.config.pace.epoch_settle);
        if !self.epoch_pending {
            self.epoch_pending = true;
            out.arm(Timer::EpochLatest, self.config.pace.epoch_latest);
        }
    }

    /// If an epoch has been due for longer than a root ever waits, its timers are lost: name it
    /// now.
    pub(super) fn mend_epoch(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        if !self.needs_epoch() {
            self.overdue_beats = 0;
            return;
        }
        self.overdue_beats = self.overdue_beats.saturating_add(1);
        if self.overdue_beats > beats(self.config.pace.epoch_latest, self.config.pace.beat) {
            self.open_epoch(moved, out);
        }
    }

    pub(super) fn open_epoch(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        self.epoch_pending = false;
        self.overdue_beats = 0;
        out.disarm(Timer::EpochSettled);
        out.disarm(Timer::EpochLatest);
        if !self.needs_epoch() {
            return;
        }
        self.epochs += 1;
        let epoch = Epoch {
            root: self.config.me,
            boot: self.config.boot,
            counter: self.epochs,
            nonce: self.noise.next(),
        };
        let children: Vec<I> = self.tree.children().collect();
        self.census.open_epoch(epoch, &children, out);
        moved.place = true;
    }

    /// Start the fingers of a new epoch, and keep the fingers of the last one for messages that
    /// still travel in it.
    fn on_new_place(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let Some(placement) = self.census.placement() else {
            return;
        };
        let fresh = Fingers::new(self.config.me, placement.population, placement);
        let last = self.current.replace(fresh);
        let from = last.as_ref().map(|fingers| fingers.population());
        let was_alone = from.is_none_or(|from| from.get() < 2);
        if self.config.returns && was_alone && placement.population.get() > 1 {
            self.detector.announce(out);
        }
        let before = last.as_ref().map(|fingers| fingers.stamp().epoch);
        if before != Some(placement.epoch) {
            self.detector.doubt_goodbyes();
        }
        out.event(Event::Renumbered {
            from,
            to: placement.population,
        });
        if let Some(last) = last.filter(|f| f.stamp().epoch != placement.epoch) {
            self.previous = Some(last);
            out.arm(Timer::Retire, RETIRE_AFTER);
        }
        moved.fingers = true;
        let waiting = std::mem::take(&mut self.early);
        self.on_level_zero(moved, out);
        for (slot, (from, message)) in waiting {
            if message.mark().epoch == placement.epoch {
                self.on_fingers(from, message, moved, out);
            } else {
                self.early.insert(slot, (from, message));
            }
        }
    }

    fn on_ring_moved(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let ring = &self.ring;
        let neighbours = [ring.successor, ring.predecessor];
        self.marks.retain(|id, _| neighbours.contains(&Some(*id)));
        let now = (ring.predecessor, ring.successor);
        if ring.is_complete() && self.linked != now {
            self.linked = now;
            out.event(Event::Relinked);
        }
        self.on_level_zero(moved, out);
        let distinct: BTreeSet<I> = neighbours.into_iter().flatten().collect();
        let mark = self.mark();
        for neighbour in distinct {
            let reply = !self.is_proved(neighbour);
            out.send(neighbour, detector::Message::Beat { mark, reply });
        }
    }

    /// Whether a ring neighbour has proved that it stands next to this node.
    pub(super) fn is_proved(&self, neighbour: I) -> bool {
        let placement = self.placement();
        let mark = self.marks.get(&neighbour);
        placement.zip(mark).is_some_and(|(mine, theirs)| {
            let after = self.ring.successor == Some(neighbour) && *theirs == mine.ahead(1);
            let before = self.ring.predecessor == Some(neighbour) && *theirs == mine.behind(1);
            after || before
        })
    }

    /// A ring neighbour becomes the finger of level 0 once its own mark proves that it stands next
    /// to this node in the epoch. While the tree is being repaired the ring is ahead of the ranks,
    /// and the fingers of an epoch must not follow it.
    pub(super) fn on_level_zero(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let rules = self.rules();
        let Some(current) = &mut self.current else {
            return;
        };
        let placement = *current.stamp();
        let proved = |peer: Option<I>, mark| peer.filter(|id| self.marks.get(id) == Some(&mark));
        let known = |table: &[Option<I>]| table.first().copied().flatten();
        let successor = proved(self.ring.successor, placement.ahead(1));
        let successor = successor.or(known(current.clockwise()));
        let predecessor = proved(self.ring.predecessor, placement.behind(1));
        let predecessor = predecessor.or(known(current.counterclockwise()));
        moved.fingers |= current.set_ring(successor, predecessor, rules, out).0;
    }

    /// Claim the links that the layers need, give up the links that they no longer need, and watch
    /// the neighbours in tree and ring.
    fn claim_links(&mut self, out: &mut Out<I>) {
        let tree = self.tree.parent().into_iter().chain(self.tree.children());
        let before = self.ring.predecessor.into_iter();
        let mut near: BTreeSet<I> = tree.chain(before).collect();
        near.remove(&self.config.me);
        let mut watched = near.clone();
        if let Some(successor) = self.ring.successor.filter(|id| *id != self.config.me) {
            near.insert(successor);
            // A successor out of reach acknowledges beats to the peer that carries them. No sign of
            // its life comes here, so do not watch it.
            if !self.relayed.contains_key(&successor) {
                watched.insert(successor);
            }
        }
        self.detector.watch(&watched);
        let epochs = self.current.iter().chain(&self.previous);
        let fingers = epochs.flat_map(|fingers| {
            let tables = fingers.clockwise().iter().chain(fingers.counterclockwise());
            tables.copied().flatten()
        });
        let gathering = self.gathering.iter().flat_map(Gathering::links);
        let surveyed = self.survey.iter().flat_map(Survey::links);
        let met = gathering
            .chain(surveyed)
            .filter(|peer| *peer != self.config.me);
        let wanted: BTreeSet<I> = near.into_iter().chain(fingers).chain(met).collect();
        for peer in wanted.difference(&self.claimed) {
            out.connect(*peer);
        }
        for peer in self.claimed.difference(&wanted) {
            out.disconnect(*peer);
        }
        self.claimed = wanted;
        self.relayed.retain(|peer, _| self.claimed.contains(peer));
        self.vouchers.retain(|peer, _| self.claimed.contains(peer));
        if self.boots.len() > MAX_BOOTS {
            let claimed = &self.claimed;
            self.boots.retain(|id, _| claimed.contains(id));
            let boots = &self.boots;
            self.unlinked.retain(|id| boots.contains_key(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Input;
    use crate::ring::Message as Ring;
    use crate::tree::{Ancestor, Lead, Message as Tree, RootKey, SiblingOrder};
    use crate::{Config, Effect, Message};

    /// Whether node 2, a leaf, has sent its Info to its parent, and how long the refresh timer was
    /// last armed for.
    fn refreshed(out: &mut Out<u32>) -> (bool, Option<Duration>) {
        let info = Message::Ring(Ring::Info(2));
        let (mut has_told, mut armed) = (false, None);
        for effect in out.drain() {
            match effect {
                Effect::Send { to: 1, message } => has_told |= message == info,
                Effect::Arm {
                    timer: Timer::Refresh,
                    after,
                } => armed = Some(after),
                _ => {}
            }
        }
        (has_told, armed)
    }

    /// The parent took the leaf for down, forgot its Info and takes it in again. The leaf has
    /// noticed nothing, and its back-off stands at the maximum.
    #[test]
    fn a_leaf_that_its_parent_takes_in_again_looks_for_its_successor_again() {
        let mut config = Config::new(2, 1, 1);
        config.parent = Some(1);
        let (mut node, mut out) = (Overlay::new(config), Out::new());
        node.handle(Input::Start, &mut out);
        node.handle(Input::LinkUp { peer: 1, boot: 1 }, &mut out);
        let root = RootKey {
            weight: 1,
            priority: 100,
            id: 1,
        };
        let step = Ancestor {
            id: 1,
            order: SiblingOrder::default(),
        };
        let lead = Tree::Lead(Lead {
            path: vec![step],
            order: SiblingOrder::slot(1),
            root,
            heirs: [2].into_iter().collect(),
            anchored: true,
        });
        let message = || lead.clone().into();
        let (timer, late) = (Timer::Refresh, Duration::ZERO);
        let refresh = || Input::Timer { timer, late };
        node.handle(
            Input::Message {
                from: 1,
                message: message(),
            },
            &mut out,
        );
        assert!(refreshed(&mut out).0);
        for _ in 0..8 {
            node.handle(refresh(), &mut out);
        }
        let soon = 2 * node.config.pace.refresh;
        assert!(refreshed(&mut out).1 > Some(soon));
        // The refresh must not come at once: if one of two nodes lies, they would answer each other
        // for ever.
        node.handle(
            Input::Message {
                from: 1,
                message: message(),
            },
            &mut out,
        );
        let (has_told, armed) = refreshed(&mut out);
        assert!(
            !has_told && armed.is_some_and(|after| after < soon),
            "{armed:?}"
        );
        node.handle(
            Input::Message {
                from: 1,
                message: message(),
            },
            &mut out,
        );
        assert_eq!(refreshed(&mut out), (false, None), "it is not put off");
        node.handle(refresh(), &mut out);
        assert!(refreshed(&mut out).0);
    }
}
