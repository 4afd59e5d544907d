//! Begins another life of this node while the process runs.
//!
//! Each life of a node has a number, its boot. A peer may know a newer life of this node's identity
//! than the present one: the state folder was lost while the clock was behind, or another process
//! used the identity for a while. Peers ignore the message numbers of an older life. So this
//! process goes on with a newer boot, new machines and no link. Its users and subscribers stay.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binomesh_overlay::PeerId;
use tokio::time::Instant;

use super::answer::Answers;
use super::outage::Outages;
use super::receipts::LastNames;
use super::{Ended, Host, now, startup};
use crate::catalogue;
use crate::peer::{Input, Timer};

/// A member begins another life at most once in this time. Otherwise a second owner of its key
/// could keep it out of the cluster by showing it newer lives again and again.
const LIFE_PERIOD: Duration = Duration::from_secs(60);

/// The shortest time from a failed attempt to record a new life to the next attempt. Otherwise a
/// peer could make this node try again and again.
const RECORD_PAUSE: Duration = Duration::from_secs(5);

/// What the host keeps about the current life of this node, and about the beginnings of lives.
#[derive(Debug, Default)]
pub(super) struct LifeInPlace {
    /// Whether this node has been counted in an epoch with other members.
    is_member: bool,
    /// When this node, as a member, last began another life.
    begun: Option<Instant>,
    /// When an attempt to record another life last failed.
    unrecorded: Option<Instant>,
    /// The peers whose links belong to the former life, until such a link is down or another is up.
    pub(super) former_links: BTreeSet<PeerId>,
}

impl Host {
    /// Note when this node has been counted with others: the transport then treats it as a member,
    /// not as a starting node.
    pub(super) fn note_membership(&mut self) {
        let placement = self.peer.overlay().placement();
        let is_counted = placement.is_some_and(|placement| placement.population.get() > 1);
        if is_counted && !self.life.is_member {
            self.life.is_member = true;
            self.transport.join();
        }
    }

    /// React to proof that this node's identity had a newer life. No process of that life was
    /// found, or this process is still starting and so takes a greater number without a search.
    pub(super) fn on_outlived(&mut self, newest: u64) {
        if newest < self.state.boot || self.leaving.is_some() {
            return;
        }
        if self.life.is_member {
            let last = self.life.begun;
            if last.is_some_and(|last| now().saturating_duration_since(last) < LIFE_PERIOD) {
                return;
            }
        }
        let failed = self.life.unrecorded;
        if failed.is_some_and(|at| now().saturating_duration_since(at) < RECORD_PAUSE) {
            return;
        }
        let former = self.state.boot;
        if let Err(error) = self.state.raise(newest.saturating_add(1)) {
            tracing::error!(%error, newest, "the cluster knows a newer life of this node, and \
                                             this process cannot take a newer one");
            self.life.unrecorded = Some(now());
            return;
        }
        if self.life.is_member {
            self.life.begun = Some(now());
        }
        tracing::warn!(
            former,
            newest,
            boot = self.state.boot,
            "the cluster knew a newer life of this node, so the node has begun a still newer one"
        );
        catalogue::LIVES_BEGUN.get().increment(1);
        self.begin_life();
    }

    /// End, because another process with this identity runs in a newer life.
    pub(super) fn on_superseded(&mut self, address: SocketAddr) {
        tracing::error!(
            here = %self.address,
            there = %address,
            "a newer process has the identity of this node, so this process ends"
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
        let overlay =
            startup::overlay_config(&self.config, &self.trust_domain, self.id, &self.state);
        let relay = startup::relay_config(&self.config, overlay.planted);
        self.peer.begin_life(overlay, relay);
        self.feed(Input::Start);
    }
}
