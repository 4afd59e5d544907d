//! How another life begins while the process runs.
//!
//! A peer knows a newer life of this node's identity than the one that greets it: the state
//! folder was lost while the clock was behind, or another process was this node for a
//! while. Peers ignore the message numbers of an older life. So this process goes on under a
//! newer boot, with new machines and without a link. Its users and subscribers stay.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binomesh_overlay::PeerId;
use tokio::time::Instant;

use super::answer::Answers;
use super::outage::Outages;
use super::receipts::LastNames;
use super::{Ended, Host, now, open};
use crate::catalogue;
use crate::peer::{Input, Timer};

/// A member begins another life at most once in this time. An owner of its key can show it
/// newer lives again and again, and would keep it out of the cluster otherwise.
const LIFE_PERIOD: Duration = Duration::from_secs(60);

/// What the current life has come to.
#[derive(Debug, Default)]
pub(super) struct LifeInPlace {
    /// It has been counted with others.
    is_member: bool,
    /// When a member began another life last.
    begun: Option<Instant>,
    /// The peers whose links were of the former life, until these are down.
    pub(super) former_links: BTreeSet<PeerId>,
}

impl Host {
    /// Once this node has been counted with others it is no starting one.
    pub(super) fn note_membership(&mut self) {
        let placement = self.peer.overlay().placement();
        let is_counted = placement.is_some_and(|placement| placement.population.get() > 1);
        if is_counted && !self.life.is_member {
            self.life.is_member = true;
            self.transport.join();
        }
    }

    /// A newer life of this node's identity is proven, and nobody lives it.
    pub(super) fn on_outlived(&mut self, newest: u64) {
        if newest < self.state.boot || self.leaving.is_some() {
            return;
        }
        if self.life.is_member {
            let last = self.life.begun;
            if last.is_some_and(|last| now().saturating_duration_since(last) < LIFE_PERIOD) {
                return;
            }
            self.life.begun = Some(now());
        }
        let former = self.state.boot;
        if let Err(error) = self.state.raise(newest.saturating_add(1)) {
            tracing::error!(%error, newest, "a newer life of this node is known, and this one cannot be raised above it");
            return;
        }
        tracing::warn!(
            former,
            newest,
            boot = self.state.boot,
            "a newer life of this node is known; going on as a new one"
        );
        catalogue::LIVES_BEGUN.get().increment(1);
        self.begin_life();
    }

    /// Another process is this node, and the newer one.
    pub(super) fn on_superseded(&mut self, address: SocketAddr) {
        tracing::error!(
            here = %self.address,
            there = %address,
            "another process has this identity and is the newer one; this one ends"
        );
        self.ends = Some(Ended::Superseded { address });
    }

    fn begin_life(&mut self) {
        self.peer.conclude(&mut self.out);
        self.perform();
        for collected in self.collections.take_all() {
            self.tell_collected(collected);
        }
        self.transport.begin_life(self.state.boot);
        self.boot.store(self.state.boot, Ordering::Relaxed);
        let linked = std::mem::take(&mut self.boots);
        self.life.former_links.extend(linked.into_keys());
        self.life.is_member = false;
        let goes_on = |timer: &Timer| matches!(timer, Timer::Collective(_));
        self.timers.retain(goes_on);
        self.acknowledged.clear();
        self.round_trips.clear();
        self.dial_failures.clear();
        self.beat = Duration::ZERO;
        self.outages = Outages::new(now());
        self.may_look_wait = None;
        self.answers = Answers::default();
        self.last_names = LastNames::default();
        let overlay = open::overlay_config(&self.config, &self.trust_domain, self.id, &self.state);
        let relay = open::relay_config(&self.config, overlay.planted);
        self.peer.begin_life(overlay, relay);
        self.feed(Input::Start);
    }
}
