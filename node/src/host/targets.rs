//! Which nodes a scraper should ask, as far as this node knows: the members, the expected hosts,
//! and for a day the members that went without a goodbye. If the list had only live nodes, a dead
//! one would vanish from it, and nobody would notice.
//!
//! A node tells its address itself, over a link or through others. The list has at most as many
//! nodes as the roster and `expect` name, and the overlay's lost members.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::MetricsAddress;
use tokio::time::Instant;

use super::{Host, now};
use crate::settings::NodeConfig;
use crate::targets::{MetricsPlace as Place, TargetGroup, TargetState, USUAL_PORT};

/// For how long a member that went without a goodbye is a target. A guess: longer than any alert
/// waits. With less, a dead node vanishes before an alert fires.
const LOST_FOR: Duration = Duration::from_secs(24 * 3600);

/// The members that went without a goodbye, with the name and place known then.
#[derive(Debug, Default)]
pub(super) struct LostMembers(BTreeMap<PeerId, Lost>);

#[derive(Debug)]
struct Lost {
    since: Instant,
    name: String,
    place: Option<Place>,
}

impl LostMembers {
    /// Set the lost members. `known` gives the name and the place of a member that was not lost
    /// before.
    fn note(
        &mut self,
        lost: impl Iterator<Item = PeerId>,
        now: Instant,
        known: impl Fn(PeerId) -> (String, Option<Place>),
    ) {
        let mut before = std::mem::take(&mut self.0);
        let noted = lost.map(|peer| {
            let one = before.remove(&peer).unwrap_or_else(|| {
                let (name, place) = known(peer);
                let since = now;
                Lost { since, name, place }
            });
            (peer, one)
        });
        self.0 = noted.collect();
    }

    /// The members that have been lost for less than a day.
    fn recent(&self, now: Instant) -> impl Iterator<Item = (PeerId, &Lost)> {
        let is_recent = move |lost: &Lost| now.saturating_duration_since(lost.since) < LOST_FOR;
        let all = self.0.iter().map(|(peer, lost)| (*peer, lost));
        all.filter(move |(_, lost)| is_recent(lost))
    }
}

/// The address of this node's metrics that it tells other nodes.
pub(super) fn reachable_metrics(config: &NodeConfig) -> Option<MetricsAddress> {
    let mut said = config.advertise.iter().filter_map(|at| at.address());
    let is_advertised_here = said.next().is_some_and(|at| at.ip().is_loopback());
    let is_local = config.bind.ip().is_loopback() || is_advertised_here;
    MetricsAddress::of(config.metrics?, config.has_guarded_metrics(), is_local)
}

impl Host {
    /// Note which members are lost. Has to be called now and then: a member counts as lost from the
    /// first call that finds it so.
    pub(super) fn note_lost(&mut self) {
        let mut members = std::mem::take(&mut self.lost_members);
        let known = |peer| (self.name_of(peer), self.place_of(peer));
        members.note(self.peer.lost().into_iter(), now(), known);
        self.lost_members = members;
    }

    /// The targets, sorted by name. A member, present or lost, is left out while this node knows no
    /// usable metrics address of it. For an expected host that is away a likely address stands in.
    pub(super) fn targets(&mut self) -> Vec<TargetGroup> {
        self.note_lost();
        let mut all: BTreeMap<String, TargetGroup> = BTreeMap::new();
        let mut add = |name: String, state, place: Place| {
            let group = TargetGroup::new(&name, &self.trust_domain, state, place);
            all.entry(name).or_insert(group);
        };
        if let Some(place) = self.own_place() {
            add(self.config.name.clone(), TargetState::Member, place);
        }
        let lost = &self.lost_members.0;
        let members = self.members().into_iter();
        for peer in members.filter(|peer| *peer != self.id && !lost.contains_key(peer)) {
            if let Some(place) = self.place_of(peer) {
                add(self.name_of(peer), TargetState::Member, place);
            }
        }
        for (_, lost) in self.lost_members.recent(now()) {
            if let Some(place) = lost.place.clone() {
                add(lost.name.clone(), TargetState::Lost, place);
            }
        }
        for (peer, name) in self.inventory.away(|peer| self.is_present(peer)) {
            let place = self.place_of(peer);
            let place = place.unwrap_or_else(|| self.likely_place(peer, name));
            add(name.to_owned(), TargetState::Expected, place);
        }
        all.into_values().collect()
    }

    /// The members, as far as they are known: in a cluster without rosters, the linked peers.
    fn members(&self) -> Vec<PeerId> {
        let roster = self.peer.relay().roster();
        match roster.filter(|roster| roster.is_tracked()) {
            Some(roster) => roster.peers().iter().copied().flatten().collect(),
            None => self.boots.keys().copied().collect(),
        }
    }

    /// Whether a peer is a member or linked, and neither lost nor gone with a goodbye.
    fn is_present(&self, peer: PeerId) -> bool {
        let roster = self.peer.relay().roster();
        let has_rank = roster.is_some_and(|roster| roster.rank_of(peer).is_some());
        let has_gone =
            self.lost_members.0.contains_key(&peer) || self.peer.overlay().has_left(peer);
        (has_rank || self.boots.contains_key(&peer)) && !has_gone
    }

    /// The address of a peer's metrics, if the peer has told it.
    fn place_of(&self, peer: PeerId) -> Option<Place> {
        let (address, is_tls) = self.transport.contact(peer)?.metrics_at()?;
        let address = address.to_string();
        Some(Place { address, is_tls })
    }

    /// The address of this node's own metrics. If no concrete address is known, its name stands for
    /// the host.
    fn own_place(&self) -> Option<Place> {
        let bound = self.config.metrics?;
        let hosts = [bound.ip(), self.address.ip()];
        let host = hosts.into_iter().find(|ip| !ip.is_unspecified());
        let address = match host {
            Some(ip) => SocketAddr::new(ip.to_canonical(), bound.port()).to_string(),
            None => format!("{}:{}", self.config.name, bound.port()),
        };
        let is_tls = self.config.has_guarded_metrics();
        Some(Place { address, is_tls })
    }

    /// The likely address of the metrics of a host that has not told it: the port and TLS of this
    /// node's own metrics, at the host's address in the settings. Without an address, the host's
    /// name stands for it.
    fn likely_place(&self, peer: PeerId, name: &str) -> Place {
        let port = self.config.metrics.map_or(USUAL_PORT, |at| at.port());
        let contact = self.transport.contact(peer);
        let at = contact.and_then(|contact| contact.addresses.first().copied());
        let address = match at {
            Some(at) => SocketAddr::new(at.ip(), port).to_string(),
            None => format!("{name}:{port}"),
        };
        let is_tls = self.config.has_guarded_metrics();
        Place { address, is_tls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_member_is_a_target_for_a_day_at_the_address_it_had() {
        let peers = ["a", "b"].map(PeerId::of_uri);
        let mut lost = LostMembers::default();
        let began = now();
        let place = |address: &str| Place {
            address: address.to_owned(),
            is_tls: false,
        };
        let known = |address: &'static str| move |_| ("a".to_owned(), Some(place(address)));
        lost.note(peers[..1].iter().copied(), began, known("before"));
        let later = began + LOST_FOR / 2;
        lost.note(peers.into_iter(), later, known("after"));
        let places = |at| {
            let recent = lost
                .recent(at)
                .map(|(peer, lost)| (peer, lost.place.clone()));
            recent.collect::<BTreeMap<_, _>>()
        };
        let seen = places(later);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[&peers[0]], Some(place("before")));
        let second = places(began + LOST_FOR);
        assert_eq!(second.into_keys().collect::<Vec<_>>(), [peers[1]]);
        // A member that is back is not lost. If it is lost again, a new day begins.
        lost.note(std::iter::empty(), later, known("never"));
        assert_eq!(lost.recent(later).count(), 0);
    }

    #[test]
    fn a_node_on_the_loopback_of_its_host_tells_no_other_host() {
        let mut config = NodeConfig::new("n", "c", "s");
        assert_eq!(reachable_metrics(&config), None);
        config.metrics = Some(([127, 0, 0, 1], 7).into());
        assert_eq!(reachable_metrics(&config), None);
        config.bind = ([127, 0, 0, 1], 0).into();
        assert!(
            reachable_metrics(&config).is_some_and(|address| address.port == 7 && !address.is_tls)
        );
        config.bind = ([10, 0, 0, 1], 0).into();
        config.metrics = Some(([10, 0, 0, 1], 7).into());
        config.metrics_tls = true;
        assert!(reachable_metrics(&config).is_some_and(|address| address.is_tls));
    }
}
