//! The reports and metrics of a node on itself.

use std::collections::BTreeSet;

use binomesh_overlay::{Health, PeerId};

use super::Host;
use super::collections::Collections;
use crate::catalogue;
use crate::report::{NodeReport, SlowPeer, epoch_name};
use crate::scrape::Scrape;
use crate::settings::Seed;
use crate::spiffe::id_of;
use crate::state::wall_clock_seconds;

impl Host {
    pub(super) fn report(&self) -> NodeReport {
        let overlay = self.peer.overlay();
        let placement = overlay.placement();
        let name = |peer: PeerId| self.name_of(peer);
        let table = |table: &[Option<PeerId>]| table.iter().map(|peer| peer.map(name)).collect();
        let fingers = overlay.fingers();
        let links = self.transport.links();
        let (healthy, reason) = (self.unsettled().is_none(), self.unready());
        NodeReport {
            name: self.config.name.clone(),
            id: self.id,
            pid: std::process::id(),
            boot: self.state.boot,
            address: self.address,
            rank: placement.map(|placement| placement.rank.0),
            epoch: placement.map(|placement| epoch_name(&placement.epoch)),
            population: placement.map(|placement| placement.population.get()),
            parent: overlay.tree().parent().map(name),
            children: overlay.tree().children().map(name).collect(),
            successor: overlay.ring().successor.map(name),
            predecessor: overlay.ring().predecessor.map(name),
            clockwise: fingers.map(|f| table(f.clockwise())).unwrap_or_default(),
            counterclockwise: fingers
                .map(|f| table(f.counterclockwise()))
                .unwrap_or_default(),
            links: links.into_iter().map(|link| link.name).collect(),
            down: overlay.down().map(name).collect(),
            left: overlay.left().map(name).collect(),
            relayed: overlay.relayed().map(|(peer, _)| name(peer)).collect(),
            slow: self.slow_peers(SlowPeer::MAX),
            unmet: self.unmet(),
            addresses_gone: self.transport.addresses_gone(),
            healthy,
            anchored: overlay.island().is_none(),
            ready: reason.is_none(),
            reason,
            credentials: self.expiry.terms(),
            lost_count: u32::try_from(self.peer.lost_count()).unwrap_or(u32::MAX),
        }
    }

    /// The peers of the settings `peers` and `neighbours` that are no members and have never had a
    /// link to this node. They have the names of the settings, since the node may know no others.
    fn unmet(&self) -> Vec<String> {
        let roster = self.peer.relay().roster();
        let is_member = |peer| roster.is_some_and(|roster| roster.rank_of(peer).is_some());
        let unmet = self.peer.overlay().unmet();
        let unmet: BTreeSet<PeerId> = unmet.filter(|peer| !is_member(*peer)).collect();
        let is_unmet = |peer: &&Seed| unmet.contains(&id_of(&self.trust_domain, &peer.name));
        let names = self.config.listed().filter(is_unmet);
        let names = names.map(|peer| peer.name.clone());
        names.collect::<BTreeSet<String>>().into_iter().collect()
    }

    fn slow_peers(&self, most: usize) -> Vec<SlowPeer> {
        let slow = self.peer.relay().slow_peers(most).into_iter();
        let named = slow.map(|one| SlowPeer {
            name: self.name_of(one.peer),
            late: one.late,
            held_back: one.held_back,
            bytes: one.bytes,
        });
        named.collect()
    }

    /// The values that a scrape shows.
    pub(super) fn scrape(&self) -> Scrape {
        let mut links = self.transport.links();
        links.truncate(Scrape::NAMED_MAX);
        Scrape {
            report: self.report(),
            links,
            slow: self.slow_peers(Scrape::NAMED_MAX),
            missing: self.missed().into_iter().take(Scrape::NAMED_MAX).collect(),
        }
    }

    /// What this node lacks to be settled: entries of its own tables, or a link to one of them.
    pub(super) fn unsettled(&self) -> Option<String> {
        let overlay = self.peer.overlay();
        let health = overlay.health();
        if health != Health::Healthy {
            return Some(health.to_string());
        }
        let fingers = overlay.fingers()?;
        let mut entries = fingers.clockwise().iter().chain(fingers.counterclockwise());
        let down: BTreeSet<PeerId> = overlay.down().collect();
        let is_missed = |id: &PeerId| !self.boots.contains_key(id) && !down.contains(id);
        let unlinked = entries.find_map(|entry| entry.filter(is_missed));
        unlinked.map(|peer| format!("no link to {}", self.name_of(peer)))
    }

    /// Copy the counters of the machines to the metrics. Also look at the expiry of the credentials
    /// and at which members are lost.
    pub(super) fn record_stats(&mut self) {
        self.expiry.attend(wall_clock_seconds());
        self.note_lost();
        self.record_collectives();
        self.record_queues();
        self.record_messages();
        let stats = self.peer.relay().stats();
        for (name, value) in [
            ("taken_over", stats.taken_over),
            ("bypassed", stats.bypassed),
            ("summarised", stats.summarised),
            ("roster_rejected", stats.roster_rejected),
            ("floods_skipped", stats.floods_skipped),
            ("hellos", stats.hellos),
            ("hellos_rejected", stats.hellos_rejected),
            ("published", stats.published),
            ("delivered", stats.delivered),
            ("duplicates", stats.duplicates),
            ("packets_sent", stats.packets_sent),
            ("held_back", stats.held_back),
            ("unpaced", stats.unpaced),
            ("retries", stats.retries),
            ("redelegations", stats.redelegations),
            ("given_back", stats.given_back),
            ("over_budget", stats.over_budget),
            ("over_search", stats.over_search),
            ("skipped", stats.skipped),
            ("reissues", stats.reissues),
            ("receipts", stats.receipts),
            ("kept", stats.kept),
            ("excused", stats.excused),
            ("streams_forgotten", stats.streams_forgotten),
            ("deliveries_forgotten", stats.deliveries_forgotten),
            ("kept_full", stats.kept_full),
            ("window_full", stats.window_full),
            ("waited", stats.waited),
            ("waited_in_vain", stats.waited_in_vain),
            ("refusals_checked", stats.refusals_checked),
            ("hearsay_undone", stats.hearsay_undone),
            ("misnamed", stats.misnamed),
            ("roster_doubted", stats.roster_doubted),
        ] {
            catalogue::RELAY_EVENTS.with([name]).absolute(value);
        }
        for reason in binomesh_routing::packet::CustodyRefusal::ALL {
            let count = stats.refused.get(reason as usize).copied().unwrap_or(0);
            catalogue::RELAY_REFUSED
                .with([reason.name()])
                .absolute(count);
        }
        for (name, value) in [
            ("duties", stats.open_duties),
            ("messages", stats.open_messages),
            ("kept", stats.kept_messages),
            ("packets", stats.held_packets),
        ] {
            catalogue::RELAY_OPEN.with([name]).set(value as f64);
        }
        for list in self.peer.overlay().sizes() {
            let (length, bound) = (list.length as f64, list.bound as f64);
            catalogue::OVERLAY_ENTRIES.with([list.name]).set(length);
            catalogue::OVERLAY_ENTRIES_MAX.with([list.name]).set(bound);
        }
        let (collections, collected_bytes) = self.collections.size();
        for (gauge, value) in [
            (&catalogue::ANSWERS_WAITING, self.answers.count()),
            (&catalogue::COLLECTIONS_OPEN, collections),
            (&catalogue::COLLECTIONS_BYTES, collected_bytes),
        ] {
            gauge.get().set(value as f64);
        }
        let bytes = stats.duty_bytes + stats.message_bytes + stats.held_bytes;
        catalogue::RELAY_BYTES.get().set(bytes as f64);
    }

    /// Record how full the queues are.
    fn record_queues(&self) {
        let relay = self.peer.relay().memory();
        let relay = relay.map(|memory| (memory.name, memory.bytes, memory.bound));
        let (waiting, waiting_max) = self.messages.waiting_bytes();
        let (_, answers) = self.collections.size();
        let (link, link_max) = self.transport.fullest_queue();
        for (queue, bytes, bound) in relay.into_iter().chain([
            ("waiting", waiting, waiting_max),
            ("answers", answers, Collections::MAX_BYTES),
            ("link", link, link_max),
        ]) {
            catalogue::QUEUE_BYTES.with([queue]).set(bytes as f64);
            catalogue::QUEUE_BYTES_MAX.with([queue]).set(bound as f64);
        }
    }

    /// Record the numbers of outstanding receipts, of subscribers, and of slow peers without a name
    /// in the metrics.
    fn record_messages(&self) {
        let outstanding = self.messages.count() + self.collections.settled_count();
        let slow = self.peer.relay().slow_peers(usize::MAX).len();
        for (gauge, value) in [
            (&catalogue::RECEIPTS_OUTSTANDING, outstanding),
            (&catalogue::SUBSCRIBERS, self.subscribers.count()),
            (
                &catalogue::SLOW_PEERS_UNNAMED,
                slow.saturating_sub(Scrape::NAMED_MAX),
            ),
        ] {
            gauge.get().set(value as f64);
        }
    }
}
