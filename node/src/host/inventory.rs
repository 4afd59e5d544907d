//! The hosts that ought to be members, and those that are not.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::PeerId;
use binomesh_routing::roster::Roster;
use tokio::time::Instant;

use crate::report::Absent;
use crate::settings;
use crate::spiffe::id_of;

/// The expected hosts but this node, and when they were members.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    names: BTreeMap<PeerId, String>,
    present: BTreeSet<PeerId>,
    last_seen: BTreeMap<PeerId, Instant>,
    /// Who has said goodbye and is not back.
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

    /// Everybody who is expected.
    pub(super) fn peers(&self) -> Vec<PeerId> {
        self.names.keys().copied().collect()
    }

    /// A peer has said goodbye, or is there again.
    pub(super) fn note(&mut self, peer: PeerId, has_left: bool) {
        match has_left && self.is_expected(peer) {
            true => self.left.insert(peer),
            false => self.left.remove(&peer),
        };
    }

    /// A roster has become complete, or somebody has left.
    pub(super) fn look(&mut self, roster: &Roster<PeerId>, now: Instant) {
        let left = &self.left;
        let is_member = |peer: &&PeerId| roster.rank_of(**peer).is_some() && !left.contains(*peer);
        let present: BTreeSet<PeerId> = self.names.keys().filter(is_member).copied().collect();
        // They were members until now.
        for gone in self.present.difference(&present) {
            self.last_seen.insert(*gone, now);
        }
        self.present = present;
    }

    /// Who is expected, but for those that are members.
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

    /// The expected peers that are not there, each with its name.
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

    /// Whether a peer was a member when the members were known last.
    pub(super) fn is_member(&self, peer: PeerId) -> bool {
        self.present.contains(&peer)
    }

    /// Whether a peer is expected.
    pub(super) fn is_expected(&self, peer: PeerId) -> bool {
        self.names.contains_key(&peer)
    }
}
