//! Strategy `flood`: a member that receives a broadcast for the first time sends it to all its
//! neighbours in the binomial graph but the sender.
//!
//! Flooding is expensive, with about 2 log2 N messages per member. In return no death matters, not
//! even that of the origin. If any member with the broadcast stays up, all members that are
//! connected with it through members that stay up get the broadcast.

use binomesh_overlay::Rank;

use crate::sibling_tree::{Links, SiblingTree};

/// The neighbours to which `at` sends a broadcast that it has received for the first time, from
/// `sender`, or that it originates.
pub fn flood(
    shape: &SiblingTree,
    at: Rank,
    sender: Option<Rank>,
) -> impl Iterator<Item = Rank> + use<> {
    let neighbours = shape.neighbours(at, Links::BinomialGraph);
    neighbours.filter(move |rank| Some(*rank) != sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sibling_tree::Fanout;
    use binomesh_overlay::Population;

    #[test]
    fn a_flood_reaches_all_in_as_many_rounds_as_the_graph_is_wide() {
        for n in 1..=300u32 {
            let shape = SiblingTree::new(Population::new(n).unwrap(), Fanout::TWO);
            let mut round = vec![None; n as usize];
            round[0] = Some(0);
            let (mut now, mut rounds, mut messages) = (vec![(Rank(0), None)], 0, 0);
            while !now.is_empty() {
                rounds += 1;
                let mut next = Vec::new();
                for (at, sender) in now {
                    for to in flood(&shape, at, sender) {
                        assert_ne!(Some(to), sender);
                        messages += 1;
                        if round[to.0 as usize].is_none() {
                            round[to.0 as usize] = Some(rounds);
                            next.push((to, Some(at)));
                        }
                    }
                }
                now = next;
            }
            assert!(round.iter().all(Option::is_some), "N={n}");
            let levels = shape.population().levels() as u32;
            assert!(messages <= n * 2 * levels, "N={n}: {messages} messages");
        }
    }
}
