//! The next hop of a packet: the rules that all routers share.

use binomesh_overlay::Rank;

use super::{Itinerary, Router, Step, binomial};
use crate::sibling_tree::{Links, SiblingTree};

/// Whether links of the binomial graph may be used where those of the sibling tree do not lead on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserve {
    /// No: only the links of the router are used.
    None,
    /// Yes: every rank that is reachable over both kinds of links is reached.
    BinomialGraph,
}

/// The next hop of a packet, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hop {
    /// The packet goes on to this neighbour.
    Forward(Rank),
    /// The packet goes back to the node that first sent it here.
    Back(Rank),
    /// The packet is at one of its destinations, which is struck off. Ask again for the others.
    Arrived,
    /// This destination is given up. Ask again for the others.
    Lost(Rank),
    /// The packet has no destination any more.
    Done,
}

/// Choose the next hop of a packet at `here`, and enter it in the itinerary.
///
/// [SFT06] §3.1: the valid neighbour of the highest priority, or back to the previous sender if
/// there is none. Each rank is entered at most once per leg and left backwards at most once, so a
/// leg ends within 2(N − 1) hops. A destination that can be reached over the links in use is
/// reached, while the transit list has room.
///
/// A router that goes back by its own choice leaves neighbours untried. If the way back ends at the
/// start, everything is tried once more without that choice, and the leg ends within 4(N − 1) hops.
///
/// `is_live` is asked only about the node that would get the packet next. If a hop fails, the
/// sender finds that out, notes the dead rank in the header and chooses again.
pub fn choose_hop(
    router: &(impl Router + ?Sized),
    shape: &SiblingTree,
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
    // Every turn of the loop makes one neighbour unusable, except for one turn that clears the
    // transit list.
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

/// The router's choice. If there is none and the reserve allows it, a neighbour in the binomial
/// graph. If there is none either, any other usable neighbour, though the router sees no way from
/// there over its own links.
///
/// A packet that needs the reserve once may need it again. So the cost of a neighbour is the
/// smaller of its costs over both kinds of links.
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

/// Go back to the sender of the first visit. If there is none, or that node has died since, there
/// is no way back, and the destination is given up.
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
