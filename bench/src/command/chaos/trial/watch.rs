//! Watches whether a disturbed world heals: looks at the world once the last disturbance has ended,
//! and at the parts of a long partition while it lasts.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::world::{Fault, Id, World};
use binomesh_overlay::Epoch;

use super::super::violation::Violation;

/// The watch over one world.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The time at which the last disturbance ends; [`Duration::MAX`] if one has no end.
    since: Duration,
    /// Whether the graph was seen to be wrong since the last disturbance ended. The forming of the
    /// world does not count.
    is_wrong: bool,
    is_healed: bool,
    /// The epoch in which the graph was last seen to be exact.
    epoch: Option<Epoch<Id>>,
    /// Whether the nodes that are up can find each other at all; `None` if this is not known yet.
    is_connected: Option<bool>,
    /// A partition that lasts long enough for its parts to heal.
    parts: Option<Parts>,
    /// The duration of each healing.
    pub(super) healed: Vec<Duration>,
    pub(super) violations: Vec<Violation>,
}

impl Watch {
    pub(super) fn on_fault(&mut self, world: &World, fault: &Fault, limit: Duration) {
        let end = fault.lasts().map(|length| world.now() + length);
        self.since = self.since.max(end.unwrap_or(Duration::MAX));
        self.is_wrong = false;
        self.is_healed = false;
        self.is_connected = None;
        self.parts = Parts::of(world, fault, limit);
    }

    /// All faults have ended.
    pub(super) fn on_calm(&mut self, world: &World, now: Duration) {
        self.since = now;
        self.is_wrong = false;
        self.is_healed = false;
        self.is_connected = Some(is_connected(world, |_| true));
    }

    /// The time at which the last disturbance ends or has ended.
    pub(super) const fn since(&self) -> Duration {
        self.since
    }

    /// Whether the graph was seen to be exact since the last disturbance ended.
    pub(super) const fn is_healed(&self) -> bool {
        self.is_healed
    }

    /// Whether the world has healed, was exact when its present epoch was first seen, and does not
    /// have more vacant ranks than members. A lie about sizes may have made an epoch in which most
    /// ranks are vacant. Passing over long rows of vacant ranks is too slow for messages with a
    /// deadline.
    pub(super) fn is_exact(&mut self, world: &World) -> bool {
        let epoch = common_epoch(world);
        if self.is_healed && epoch != self.epoch {
            self.epoch = epoch.filter(|_| world.defect().is_none());
        }
        let is_known = epoch.is_some() && epoch == self.epoch;
        self.is_healed && is_known && !is_mostly_vacant(world)
    }

    /// Whether the world, or a part of it, did not heal in time.
    pub(super) fn has_ended(&self) -> bool {
        !self.violations.is_empty()
    }

    pub(super) fn glance(&mut self, world: &World, limit: Duration) {
        let (now, since) = (world.now(), self.since);
        if self.parts.as_ref().is_some_and(|parts| parts.due <= now) {
            let parts = self.parts.take();
            let found = parts.and_then(|parts| parts.violation(world, limit));
            self.violations.extend(found);
        }
        if since > now || self.is_healed {
            return;
        }
        if let Some(epoch) = common_epoch(world)
            && world.defect().is_none()
        {
            self.is_healed = true;
            self.epoch = Some(epoch);
            self.healed.extend(self.is_wrong.then(|| now - since));
            return;
        }
        // The forming of the world is no healing.
        self.is_wrong = !since.is_zero();
        if now - since >= limit && self.is_connected(world) {
            let after = now - since;
            let defect = world.defect();
            let found = defect.map(|defect| Violation::NotHealed { after, defect });
            self.violations.extend(found);
        }
    }

    fn is_connected(&mut self, world: &World) -> bool {
        *self
            .is_connected
            .get_or_insert_with(|| is_connected(world, |_| true))
    }
}

/// The parts of a partition, each of which goes on by itself.
#[derive(Debug)]
struct Parts {
    /// The time by which each part must be whole, unless there is another disturbance.
    due: Duration,
    groups: Vec<Vec<Id>>,
}

impl Parts {
    fn of(world: &World, fault: &Fault, limit: Duration) -> Option<Self> {
        let Fault::Partition { groups, ms } = fault else {
            return None;
        };
        let is_long = Duration::from_millis(*ms) > limit;
        is_long.then(|| Self {
            due: world.now() + limit,
            groups: groups.clone(),
        })
    }

    /// The first part that is not legitimate although its members could find each other.
    fn violation(&self, world: &World, after: Duration) -> Option<Violation> {
        let broken = |group: &Vec<Id>| {
            let up: Vec<Id> = group
                .iter()
                .copied()
                .filter(|id| world.is_up(*id))
                .collect();
            // All nodes of the part may be dead.
            let can = !up.is_empty() && is_connected(world, |id| up.contains(&id));
            let defect = world.defect_among(&up).filter(|_| can)?;
            let members = up.len();
            Some(Violation::PartNotHealed {
                after,
                members,
                defect,
            })
        };
        self.groups.iter().find_map(broken)
    }
}

/// The epoch in which all live peers have places, if it is the same: a quick look before a thorough
/// one.
fn common_epoch(world: &World) -> Option<Epoch<Id>> {
    let mut epochs = world
        .peers()
        .map(|(_, peer)| peer.overlay().placement().map(|place| place.epoch));
    let first = epochs.next()?;
    first.filter(|_| epochs.all(|epoch| epoch == first))
}

/// Whether the epoch of the first peer has more vacant ranks than there are peers.
fn is_mostly_vacant(world: &World) -> bool {
    let mut peers = world.peers();
    let placement = peers
        .next()
        .and_then(|(_, peer)| peer.overlay().placement());
    let ranks = placement.map_or(0, |placement| placement.population.get() as usize);
    ranks > 2 * world.peers().count()
}

/// Whether the live nodes of a group could all find each other by the addresses that they got at
/// their start.
pub(super) fn is_connected(world: &World, is_in: impl Fn(Id) -> bool) -> bool {
    let up: BTreeSet<Id> = world
        .peers()
        .map(|(id, _)| id)
        .filter(|id| is_in(*id))
        .collect();
    let told = |id: &Id| {
        let config = world.config(*id);
        config
            .into_iter()
            .flat_map(|config| config.seeds.iter().chain(&config.parent).copied())
    };
    let mut found: BTreeSet<Id> = up.first().copied().into_iter().collect();
    loop {
        let knows = |id: &Id| found.contains(id) || told(id).any(|at| found.contains(&at));
        let told_of: BTreeSet<Id> = found.iter().flat_map(told).collect();
        let reached = |id: &&Id| knows(id) || told_of.contains(id);
        let next: BTreeSet<Id> = up.iter().filter(reached).copied().collect();
        if next.len() == found.len() {
            return found.len() == up.len();
        }
        found = next;
    }
}
