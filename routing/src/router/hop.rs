//! The next hop of a packet: what is common to all routers.

use binomesh_overlay::Rank;

use super::{Itinerary, Router, Step, binomial};
use crate::shape::{Links, Shape};

/// Whether the links of the binomial graph may be used where those of the sibling
/// tree do not lead on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserve {
    /// They may not.
    None,
    /// They may, so that whatever is reachable over both is reached.
    BinomialGraph,
}

/// What becomes of a packet here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hop {
    /// It goes on to this neighbour.
    Forward(Rank),
    /// It goes back to the sender of its first visit.
    Back(Rank),
    /// Here is one of its destinations, which it has reached; ask again for the
    /// others.
    Arrived,
    /// This destination is given up; ask again for the others.
    Lost(Rank),
    /// There is no destination any more.
    Done,
}

/// The next hop of a packet at `here`, which is entered in the itinerary.
///
/// [SFT06] §3.1: the valid neighbour of the highest priority, and back to the
/// previous sender if there is none. Each rank is entered at most once per leg and
/// left backwards at most once, so a leg ends within 2(N − 1) hops; a destination
/// that can be reached over the links in use is reached.
///
/// A router that goes back of its own accord leaves neighbours untried. Should one
/// of them turn out to have been needed, everything is tried once more, in turn: then
/// the leg ends within 4(N − 1) hops.
///
/// `is_live` is asked about the chosen neighbour alone: a hop to a dead one is
/// found out by the sender, who notes it in the header and chooses again.
pub fn choose_hop(
    router: &(impl Router + ?Sized),
    shape: &Shape,
    reserve: Reserve,
    here: Rank,
    itinerary: &mut Itinerary,
    mut is_live: impl FnMut(Rank) -> bool,
) -> Hop {
    if itinerary.destinations.contains(&here) {
        itinerary.strike(here);
        return Hop::Arrived;
    }
    let Some(to) = itinerary.head(router, shape, here) else {
        return Hop::Done;
    };
    // Every turn of the loop makes one neighbour unusable, but for one in which all
    // become usable again.
    while !itinerary.dead.contains(to) {
        let step = Step {
            shape,
            here,
            to,
            links: router.links(),
            visited: &itinerary.visited,
            closed: &itinerary.closed,
            sender: itinerary.sender(),
            dead: &itinerary.dead,
        };
        let is_full = itinerary.visited.len() >= itinerary.limit;
        let next = if is_full {
            None
        } else {
            pick(router, &step, reserve)
        };
        match next {
            Some(next) if Some(next) == itinerary.sender() => {
                itinerary.has_given_way = true;
                return turn_back(here, to, itinerary, is_live);
            }
            Some(next) if !is_live(next) => itinerary.bury(next),
            Some(next) => {
                itinerary.visited.insert(here);
                itinerary.way_back.push(here);
                return Hop::Forward(next);
            }
            None if itinerary.has_given_way && itinerary.way_back.is_empty() => {
                itinerary.begin_leg(true);
            }
            None => return turn_back(here, to, itinerary, is_live),
        }
    }
    itinerary.strike(to);
    Hop::Lost(to)
}

/// The router's choice; else over the binomial graph; else any other neighbour, of
/// which the router thinks that they do not lead there over its own links.
///
/// Who needs the reserve once may need it again, so a neighbour is as good as the
/// better of both ways from there.
pub(crate) fn pick(
    router: &(impl Router + ?Sized),
    step: &Step<'_>,
    reserve: Reserve,
) -> Option<Rank> {
    let cost = |rank: Rank| {
        let distance = rank.distance_to(step.to, step.shape.population());
        let over_fingers = binomial::hops(distance, step.shape.population());
        over_fingers.min(router.cost(step.shape, rank, step.to))
    };
    router.prefer(step).or_else(|| match reserve {
        Reserve::None => None,
        Reserve::BinomialGraph => {
            let links = Links::BinomialGraph;
            let over_fingers = Step { links, ..*step }.cheapest(cost);
            over_fingers.or_else(|| step.cheapest(cost))
        }
    })
}

/// Back to the sender of the first visit. If that has died since, so has the way
/// back, and the destination is given up.
fn turn_back(
    here: Rank,
    to: Rank,
    itinerary: &mut Itinerary,
    mut is_live: impl FnMut(Rank) -> bool,
) -> Hop {
    itinerary.visited.insert(here);
    itinerary.closed.insert(here);
    match itinerary.way_back.pop() {
        Some(sender) if is_live(sender) => Hop::Back(sender),
        _ => {
            itinerary.strike(to);
            Hop::Lost(to)
        }
    }
}
