//! The hosts of the setting `expect`: which of them are members, and which are absent.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::PeerId;
use binomesh_routing::roster::Roster;
use tokio::time::Instant;

use crate::report::Absent;
use crate::settings;
use crate::spiffe::id_of;

/// The expected hosts but this node, and when they were last members.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    names: BTreeMap<PeerId, String>,
    present: BTreeSet<PeerId>,
    last_seen: BTreeMap<PeerId, Instant>,
    /// Hosts that have said goodbye and are not back.
    left: BTreeSet<PeerId>,
}

impl Inventory {
    pub(super) fn new(expect: &settings::Inventory, trust_domain: &str, me: PeerId) -> Self {
        let named = expect
            .names()
            .map(|name| (id_of(trust_domain, name), name.to_owned()));
        Self {
            names: named.filter(|(id, _)| *id != me).collect(),
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The ids of the expected hosts but this node.
    pub(super) fn peers(&self) -> Vec<PeerId> {
        self.names.keys().copied().collect()
    }

    /// Note that a peer has said goodbye, or is back.
    pub(super) fn note(&mut self, peer: PeerId, has_left: bool) {
        match has_left && self.is_expected(peer) {
            true => self.left.insert(peer),
            false => self.left.remove(&peer),
        };
    }

    /// Compare with the roster, after it has become complete or a peer has left or come back.
    pub(super) fn look(&mut self, roster: &Roster<PeerId>, now: Instant) {
        let left = &self.left;
        let is_member = |peer: &&PeerId| roster.rank_of(**peer).is_some() && !left.contains(*peer);
        let present: BTreeSet<PeerId> = self.names.keys().filter(is_member).copied().collect();
        // These hosts were members until now.
        for gone in self.present.difference(&present) {
            self.last_seen.insert(*gone, now);
        }
        self.present = present;
    }

    /// The expected hosts for which `is_member` is false.
    pub(super) fn absent(&self, now: Instant, is_member: impl Fn(PeerId) -> bool) -> Vec<Absent> {
        let absent = self.away(is_member).map(|(id, name)| Absent {
            name: name.to_owned(),
            last_seen_seconds: self.last_seen(id, now),
            left: self.left.contains(&id),
        });
        let mut absent: Vec<Absent> = absent.collect();
        absent.sort_by(|a, b| a.name.cmp(&b.name));
        absent
    }

    /// The expected hosts for which `is_there` is false, each with its name.
    pub(super) fn away(
        &self,
        is_there: impl Fn(PeerId) -> bool,
    ) -> impl Iterator<Item = (PeerId, &str)> {
        let all = self.names.iter().map(|(id, name)| (*id, name.as_str()));
        all.filter(move |(id, _)| !is_there(*id))
    }

    fn last_seen(&self, peer: PeerId, now: Instant) -> Option<f64> {
        if self.present.contains(&peer) {
            return Some(0.0);
        }
        let seen = self.last_seen.get(&peer)?;
        Some((now - *seen).as_secs_f64())
    }

    /// Whether a peer was a member at the last comparison with a roster.
    pub(super) fn is_member(&self, peer: PeerId) -> bool {
        self.present.contains(&peer)
    }

    /// Whether a peer is expected.
    pub(super) fn is_expected(&self, peer: PeerId) -> bool {
        self.names.contains_key(&peer)
    }
}
