//! The cases of a study: sets of dead nodes with sources and destinations, either all of them or a
//! seeded sample.

use binomesh_overlay::Rank;
use rand::seq::index;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::{Cast, Location, Study};

/// Without `--sample` and `--where`, all cases are taken if they have at most this many packets. If
/// they have more, a sample is taken. A guess at a minute's work.
const UNICASTS: u128 = 20_000_000;
/// Without `--sample`, all cases are taken if there are at most this many broadcasts. The study of
/// the paper has 16,383.
const BROADCASTS: u128 = 20_000;
/// The most chunks into which the cases are cut. Threads take the chunks in turn.
const CHUNKS: u64 = 400;
/// How often a source, a destination and a place for the dead nodes are drawn before giving up.
const TRIES: u32 = 1000;

/// Whether the cases are all possible ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sets {
    /// All sets of dead nodes, each with all live sources and destinations. For broadcasts, all
    /// sets without the root.
    Exhaustive,
    /// A drawn sample of cases.
    Sampled,
}

/// The cases of a study, by number.
pub(super) struct Cases {
    sets: Sets,
    /// The number of cases if they are drawn. Else the number of sets of dead nodes; for unicasts
    /// times the number of nodes, each of which may be the source.
    count: u64,
    nodes: u32,
    dead: u32,
}

impl Cases {
    pub(super) fn of(cast: Cast, study: &Study, sample: Option<u64>) -> Result<Self, String> {
        let (nodes, dead) = (study.shape.population().get(), study.dead);
        let live = u128::from(nodes - dead);
        let (all, units, most, default) = match cast {
            Cast::Unicast => {
                let sets = combinations(nodes, dead);
                let units = sets.saturating_mul(u128::from(nodes));
                (
                    sets.saturating_mul(live * (live - 1)),
                    units,
                    UNICASTS,
                    100_000,
                )
            }
            Cast::Broadcast => {
                let sets = combinations(nodes - 1, dead);
                (sets, sets, BROADCASTS, 400)
            }
        };
        let is_all = match sample {
            Some(sample) => all <= u128::from(sample),
            None => all <= most,
        };
        let is_all = is_all && study.location == Location::Anywhere;
        let (sets, count) = match is_all {
            true => (Sets::Exhaustive, units as u64),
            false => (Sets::Sampled, sample.unwrap_or(default)),
        };
        let cases = Self {
            sets,
            count,
            nodes,
            dead,
        };
        if sets == Sets::Sampled && cast == Cast::Unicast && cases.draw_unicast(study, 0).is_none()
        {
            return Err(format!(
                "--where: no subtree on the path has room for {dead} dead nodes; give a smaller \
                 --dead, more --nodes, or --where anywhere"
            ));
        }
        Ok(cases)
    }

    pub(super) const fn sets(&self) -> Sets {
        self.sets
    }

    pub(super) fn chunks(&self) -> u64 {
        self.count.min(CHUNKS)
    }

    /// The numbers of the cases in one chunk: every [`CHUNKS`]th, beginning with the chunk's own
    /// number.
    pub(super) fn chunk(&self, chunk: u64) -> impl Iterator<Item = u64> + use<> {
        (chunk..self.count).step_by(CHUNKS as usize)
    }

    /// The set of dead nodes and the source for this number, if all cases are taken. None if the
    /// source is dead.
    pub(super) fn unicasts(&self, number: u64) -> Option<(Vec<Rank>, Rank)> {
        let source = Rank((number % u64::from(self.nodes)) as u32);
        let dead = combination(self.nodes, self.dead, number / u64::from(self.nodes));
        (!dead.contains(&source)).then_some((dead, source))
    }

    /// The set of dead nodes of a broadcast. The root is not in it.
    pub(super) fn broadcast(&self, study: &Study, number: u64) -> Vec<Rank> {
        let ranks = match self.sets {
            Sets::Exhaustive => combination(self.nodes - 1, self.dead, number),
            Sets::Sampled => {
                let mut rng = rng(study, number);
                sample(&mut rng, self.nodes - 1, self.dead)
            }
        };
        ranks.into_iter().map(|rank| Rank(rank.0 + 1)).collect()
    }

    /// Draw dead nodes, a source and a destination. `None` if none of [`TRIES`] draws had room for
    /// the dead nodes.
    pub(super) fn draw_unicast(
        &self,
        study: &Study,
        number: u64,
    ) -> Option<(Vec<Rank>, Rank, Rank)> {
        let mut rng = rng(study, number);
        if study.location == Location::Anywhere {
            let mut ranks = sample(&mut rng, self.nodes, self.dead + 2);
            let (source, destination) = (ranks.pop()?, ranks.pop()?);
            return Some((ranks, source, destination));
        }
        (0..TRIES).find_map(|_| {
            let pair = sample(&mut rng, self.nodes, 2);
            let (source, destination) = (pair[0], pair[1]);
            let dead = on_the_way(study, source, destination, &mut rng)?;
            Some((dead, source, destination))
        })
    }
}

/// Dead ranks on the way from source to destination, at the place that the study names. They are in
/// the subtree of a drawn ancestor of the destination, or side by side on the ancestor's level.
/// `None` if there is no room, or if the source is in that subtree.
fn on_the_way(
    study: &Study,
    source: Rank,
    destination: Rank,
    rng: &mut ChaCha8Rng,
) -> Option<Vec<Rank>> {
    let (shape, count) = (&study.shape, study.dead as usize);
    let level = rng.random_range(0..shape.level(destination).max(1));
    let top = shape.ancestor(destination, level)?;
    if shape.is_in_subtree(source, top) || top == destination {
        return None;
    }
    let mut dead: Vec<Rank> = match study.location {
        Location::Wall => {
            let size = shape.size_of(level);
            let first = shape.first_of(level).0;
            let start = top.0 - first + size - study.dead.min(size) / 2;
            let wall = (0..size.min(study.dead)).map(|step| Rank(first + (start + step) % size));
            wall.collect()
        }
        _ => {
            let mut all = vec![top];
            let most = if study.location == Location::Top {
                count + 1
            } else {
                usize::MAX
            };
            let mut at = 0;
            while at < all.len() && all.len() < most {
                all.extend(shape.children(all[at]));
                at += 1;
            }
            all
        }
    };
    dead.retain(|rank| *rank != source && *rank != destination);
    if study.location == Location::Subtree && dead.len() > count {
        let kept = index::sample(rng, dead.len(), count);
        dead = kept.into_iter().map(|at| dead[at]).collect();
    }
    dead.truncate(count);
    (dead.len() == count).then_some(dead)
}

/// Random numbers for each case apart, so that the number of threads changes nothing.
fn rng(study: &Study, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(study.seed);
    rng.set_stream(number);
    rng
}

fn sample(rng: &mut ChaCha8Rng, of: u32, count: u32) -> Vec<Rank> {
    let drawn = index::sample(rng, of as usize, count as usize);
    drawn.into_iter().map(|rank| Rank(rank as u32)).collect()
}

/// C(n, d), or more than any limit.
fn combinations(n: u32, d: u32) -> u128 {
    let mut count = 1u128;
    for i in 0..u128::from(d.min(n - d)) {
        match count.checked_mul(u128::from(n) - i) {
            Some(product) => count = product / (i + 1),
            None => return u128::MAX,
        }
    }
    count
}

/// The set of this number among the sets of `d` ranks below `n`, in the
/// combinatorial number system.
fn combination(n: u32, d: u32, number: u64) -> Vec<Rank> {
    let (mut rest, mut set, mut below) = (u128::from(number), Vec::new(), n);
    for left in (1..=d).rev() {
        // The greatest element c with C(c, left) <= rest.
        while below > left && combinations(below - 1, left) > rest {
            below -= 1;
        }
        below -= 1;
        rest -= if below >= left {
            combinations(below, left)
        } else {
            0
        };
        set.push(Rank(below));
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_set_has_a_number() {
        for (n, d) in [(1, 0), (5, 0), (6, 1), (7, 3), (9, 9), (12, 5)] {
            let count = combinations(n, d) as u64;
            let sets: BTreeSet<Vec<Rank>> = (0..count).map(|i| combination(n, d, i)).collect();
            assert_eq!(sets.len() as u64, count, "C({n}, {d})");
            for set in sets {
                let distinct: BTreeSet<Rank> = set.iter().copied().collect();
                assert_eq!(distinct.len(), d as usize);
                assert!(distinct.iter().all(|rank| rank.0 < n));
            }
        }
        assert_eq!(combinations(64, 2), 2016);
        assert_eq!(combinations(16_777_216, 8_000_000), u128::MAX);
    }
}
