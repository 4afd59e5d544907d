//! Arbitrary states of a whole overlay, as a transient fault may leave them.

use super::Overlay;
use super::acquaintances::Acquaintances;
use super::reports::Reports;
use crate::backoff::Backoff;
use crate::census::Census;
use crate::fingers::{Fingers, Message as FingerMessage};
use crate::noise::Noise;
use crate::placement::MAX_LEVELS;
use crate::stamp::Mark;
use crate::{Epoch, Id, Message, Placement, Rank, census, detector, relayed, ring, tree};

impl<I: Id> Overlay<I> {
    /// Overwrite the state of every layer with noise over `peers`.
    pub fn scramble(&mut self, noise: &mut Noise, peers: &[I]) {
        self.tree.scramble(noise, peers);
        self.census = Census::scrambled(noise, peers);
        self.ring.predecessor = noise.pick(peers);
        self.ring.successor = noise.pick(peers);
        self.infos.clear();
        self.marks.clear();
        for _ in 0..noise.next() % 3 {
            if let (Some(peer), Some(leaf)) = (noise.pick(peers), noise.pick(peers)) {
                self.infos.insert(peer, leaf);
                self.marks.insert(peer, mark(noise, peers, leaf));
            }
        }
        self.current = fingers(noise, self.config.me, peers);
        self.previous = fingers(noise, self.config.me, peers);
        self.early.clear();
        self.refresh = Backoff::corrupted(7, noise.next() as u32, noise.next() as u32);
        self.visiting = noise.next() as usize;
        self.epochs = noise.next();
        self.epoch_pending = noise.one_in(2);
        self.vacancy = super::Vacancy::corrupted(noise.next());
        self.linked = (noise.pick(peers), noise.pick(peers));
        self.beats = noise.next() as u32;
        self.visits = noise.next() as u32;
        self.placeless_beats = noise.next() as u32;
        self.detector.scramble(noise, peers);
        self.overdue_beats = noise.next() as u32;
        self.parentless_beats = noise.next() as u32;
        self.fallen = noise
            .pick(peers)
            .map(|root| (root, noise.next() as u32 % 64));
        self.lost.clear();
        self.acquaintances = Acquaintances::scrambled(noise, peers);
        self.lateness = super::Lateness::scrambled(noise);
        self.boots.clear();
        self.unlinked.clear();
        self.relayed.clear();
        self.vouchers.clear();
        for _ in 0..noise.next() % 3 {
            if let (Some(peer), Some(by)) = (noise.pick(peers), noise.pick(peers)) {
                self.relayed.insert(peer, by);
                self.vouchers.insert(by, peer);
            }
        }
        self.claimed = peers.iter().copied().filter(|_| noise.one_in(2)).collect();
        // A copy of the generator: the draws below must not change the later draws of the caller.
        let noise = &mut noise.clone();
        self.reports = Reports::scrambled(self.census.standing(), noise);
        self.shore.vain_beats = noise.next() as u32;
        self.shore.lost = noise.pick(peers).into_iter().collect();
        self.shore.met = noise.pick(peers).into_iter().collect();
    }
}

/// An arbitrary message, as a faulty node may send it; none if `peers` is empty.
pub fn garbage<I: Id>(noise: &mut Noise, peers: &[I]) -> Option<Message<I>> {
    let peer = noise.pick(peers)?;
    let level = (noise.next() % 8) as u8;
    let mark = mark(noise, peers, peer);
    let placement = Placement::scrambled(noise, peer);
    let version = noise.next() % 4;
    let key = tree::RootKey {
        weight: (noise.next() % 8) as u8,
        priority: 100,
        id: peer,
    };
    Some(match noise.next() % 17 {
        0 => ring::Message::FConnect.into(),
        1 => ring::Message::Info(peer).into(),
        2 => ring::Message::AskConnect(peer).into(),
        3 => ring::Message::BConnect.into(),
        4 => FingerMessage::Up {
            level,
            subject: peer,
            mark,
        }
        .into(),
        5 => FingerMessage::Down {
            level,
            subject: peer,
            mark,
        }
        .into(),
        6 => census::Message::Size {
            version,
            size: placement.population,
            standing: None,
            returning: noise.next() as u32 % 4,
            evidence: census::Evidence::scrambled(version),
        }
        .into(),
        7 => census::Message::Place {
            placement,
            version,
            belongs: version.is_multiple_of(2),
        }
        .into(),
        8 => detector::Message::Beat {
            mark: Some(mark),
            reply: true,
        }
        .into(),
        9 => tree::Message::Digest(noise.next()).into(),
        10 => tree::Message::Detach.into(),
        11 => tree::Message::Redirect(peer).into(),
        12 => tree::Message::Offer {
            root: key,
            via: peer,
        }
        .into(),
        13 => census::Message::InForce {
            epoch: placement.epoch,
            population: placement.population,
            belongs: version.is_multiple_of(2),
        }
        .into(),
        15 => relayed::Message::From {
            from: peer,
            carried: match noise.one_in(2) {
                true => relayed::Carried::Ring(ring::Message::BConnect),
                false => relayed::Carried::Beat {
                    mark: Some(mark),
                    reply: true,
                },
            },
        }
        .into(),
        14 if noise.one_in(2) => detector::Message::Doubts(vec![rumour(noise, peer, mark)]).into(),
        14 if noise.one_in(4) => {
            let beats_left = noise.next() as u32;
            detector::Message::Standing(vec![(rumour(noise, peer, mark), beats_left)]).into()
        }
        14 => detector::Message::Rumours(vec![rumour(noise, peer, mark)]).into(),
        _ => tree::Message::Refuse(tree::AttachRefusal::Depth).into(),
    })
}

pub(crate) fn rumour<I>(noise: &mut Noise, peer: I, mark: Mark<I>) -> detector::Rumour<I> {
    detector::Rumour {
        peer,
        boot: noise.next() % 3,
        incarnation: noise.next() as u32 % 12,
        mark: Some(mark),
        is_up: noise.one_in(2),
    }
}

fn mark<I: Id>(noise: &mut Noise, peers: &[I], root: I) -> Mark<I> {
    let rank = Rank(noise.next() as u32 % (peers.len() as u32 + 1));
    Mark {
        epoch: Epoch::scrambled(noise, root),
        rank,
    }
}

fn fingers<I: Id>(noise: &mut Noise, me: I, peers: &[I]) -> Option<super::PlacedFingers<I>> {
    let root = noise.pick(peers)?;
    let placement = Placement::scrambled(noise, root);
    let mut table = || -> [Option<I>; MAX_LEVELS] {
        std::array::from_fn(|_| noise.pick(peers).filter(|_| noise.one_in(2)))
    };
    let (clockwise, counterclockwise) = (table(), table());
    let population = placement.population;
    Some(Fingers::corrupted(
        me,
        population,
        placement,
        clockwise,
        counterclockwise,
    ))
}
