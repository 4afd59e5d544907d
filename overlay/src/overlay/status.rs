//! What an owner can ask of the machine: its layers, its place, its health.

use super::{Need, Overlay, PlacedFingers, rounds};
use crate::census::Census;
use crate::config::{DOWN_AFTER, SUSPECT_AFTER};
use crate::detector::{self, Links};
use crate::ring::Ring;
use crate::seam::Health;
use crate::tree::Tree;
use crate::{Id, Placement};

impl<I: Id> Overlay<I> {
    /// The tree layer.
    pub const fn tree(&self) -> &Tree<I> {
        &self.tree
    }

    /// The ring layer.
    pub const fn ring(&self) -> &Ring<I> {
        &self.ring
    }

    /// The census layer.
    pub const fn census(&self) -> &Census<I> {
        &self.census
    }

    /// The neighbours that need not send messages: the ring successor, and the parent if it is no
    /// ring neighbour. That their transports acknowledge this node's beats is their sign of life:
    /// see [`Input::Acknowledged`](super::Input::Acknowledged). All other neighbours have to send
    /// messages, so that a hung process is found.
    pub fn silent_neighbours(&self) -> impl Iterator<Item = I> {
        let ring = &self.ring;
        let parent = self
            .tree
            .parent()
            .filter(|id| ring.predecessor != Some(*id));
        let successor = ring.successor.filter(|id| *id != self.config.me);
        [successor, parent.filter(|id| ring.successor != Some(*id))]
            .into_iter()
            .flatten()
    }

    /// Whether a peer of [`Self::silent_neighbours`] has been sent a beat and has not acknowledged
    /// it yet, and its acknowledgement would count.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.detector.awaits_acknowledgement()
    }

    /// Whether [`Timer::Watch`](super::Timer::Watch) would suspect no peer if it fired now. A host
    /// may then fire it later: before the next input, or with
    /// [`Timer::Beat`](super::Timer::Beat).
    pub fn look_can_wait(&self) -> bool {
        self.detector.look_can_wait()
    }

    /// The peers whose silence this node notices: neighbours in tree and ring, and peers that an
    /// alarm is about.
    pub fn watched(&self) -> impl Iterator<Item = I> + '_ {
        self.detector.watched()
    }

    /// The peers that are taken for down.
    pub fn down(&self) -> impl Iterator<Item = I> + '_ {
        self.detector.down()
    }

    /// The peers that have signed a goodbye and have not returned: leaving is not failing. They are
    /// taken for down, too. At most [`MAX_GOODBYES`](detector::MAX_GOODBYES): one more displaces
    /// the oldest, and that peer is no longer taken for down.
    pub fn left(&self) -> impl Iterator<Item = I> + '_ {
        self.detector.left()
    }

    /// Whether a peer has said goodbye and has not returned.
    pub fn has_left(&self, peer: I) -> bool {
        self.detector.has_left(peer)
    }

    /// Whether a goodbye may change anything here, so that its proof is worth checking.
    pub fn is_news(&self, goodbye: &detector::Goodbye<I>) -> bool {
        let link = self.boots.get(&goodbye.peer).copied();
        self.detector.is_news(goodbye, link)
    }

    /// Whether a goodbye is of an earlier life of this node, or of a peer that it claims a link to.
    /// Such a goodbye needs no proof to be answered with the later life.
    pub fn is_outdated(&self, goodbye: &detector::Goodbye<I>) -> bool {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        self.detector.is_outdated(goodbye, &links)
    }

    /// The fingers of the current epoch; none until this node has a place.
    pub const fn fingers(&self) -> Option<&PlacedFingers<I>> {
        self.current.as_ref()
    }

    /// The peers of this node's list ([`gather`](crate::Config::gather),
    /// [`survey`](crate::Config::survey)) to which it never had a link. They do not make a node
    /// unhealthy: a list may name dead peers.
    pub fn unmet(&self) -> impl Iterator<Item = I> + '_ {
        self.unmet.iter().copied()
    }

    /// Whether this node wants a link to a peer.
    pub fn claims(&self, peer: I) -> bool {
        self.claimed.contains(&peer)
    }

    /// The place of this node in the current epoch.
    pub fn placement(&self) -> Option<Placement<I>> {
        self.current.as_ref().map(|fingers| *fingers.stamp())
    }

    /// The health of this node, as far as the node itself can see.
    pub fn health(&self) -> Health {
        let ring = &self.ring;
        match &self.current {
            _ if !self.tree.is_anchored() => Health::Unanchored,
            None => Health::Unplaced,
            // The parent says that another numbering is in force: for example, the overlay that
            // gave this place has joined the parent's.
            Some(_) if !self.tree.is_root() && self.census.in_force().is_some() => Health::Unplaced,
            Some(_)
                if self.tree.is_root()
                    && matches!(self.census.need(), Need::Epoch | Need::Disorder) =>
            {
                Health::Counting
            }
            Some(_) if !self.tree.is_root() && self.parentless_beats > self.patience() => {
                Health::NoParent
            }
            Some(fingers) if fingers.population().get() > 1 && !ring.is_complete() => {
                Health::NoRing
            }
            Some(fingers) if !fingers.is_complete() => Health::MissingFingers,
            Some(_) => Health::Healthy,
        }
    }

    /// How many beats may usually pass in which the parent tells neither a place nor the numbering
    /// in force.
    const fn patience(&self) -> u32 {
        let lost = 2 * (SUSPECT_AFTER + DOWN_AFTER);
        let repeated = 2 * rounds::IN_FULL;
        if lost > repeated { lost } else { repeated }
    }
}
