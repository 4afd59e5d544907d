//! A router of one's own: links that one knows to be slow cost more.
//!
//! `choose_hop` does the rest: who is valid, the transit list, the way back. Run it
//! with `cargo run -p binomesh-routing --example own_router`.

use binomesh_overlay::{Population, Rank};
use binomesh_routing::router::{Hop, Itinerary, Reserve, Router, Step, choose_hop};
use binomesh_routing::shape::{Fanout, Shape};

/// As `variant`, but a step between the two halves of the ranks counts ten.
struct TwoHalls {
    /// The first rank of the second hall.
    second: Rank,
}

impl Router for TwoHalls {
    fn name(&self) -> &'static str {
        "two-halls"
    }

    fn cost(&self, shape: &Shape, from: Rank, to: Rank) -> u32 {
        shape.climbing_distance(from, to)
    }

    fn prefer(&self, step: &Step<'_>) -> Option<Rank> {
        let hall = |rank: Rank| rank >= self.second;
        step.cheapest(|rank| {
            let toll = if hall(rank) == hall(step.here) { 1 } else { 10 };
            toll + self.cost(step.shape, rank, step.to)
        })
    }
}

fn main() {
    let (Some(population), Some(fanout)) = (Population::new(100), Fanout::new(3)) else {
        return;
    };
    let shape = Shape::new(population, fanout);
    let router = TwoHalls { second: Rank(50) };
    let mut packet = Itinerary::new([Rank(99)], 100);
    let mut here = Rank(40);
    let is_live = |rank| rank != Rank(13);
    println!("{} from {}", router.name(), here.0);
    loop {
        match choose_hop(
            &router,
            &shape,
            Reserve::BinomialGraph,
            here,
            &mut packet,
            is_live,
        ) {
            Hop::Forward(next) => here = next,
            Hop::Back(sender) => here = sender,
            Hop::Arrived => println!("arrived"),
            Hop::Lost(lost) => println!("{} cannot be reached", lost.0),
            Hop::Done => return,
        }
        println!("at {}", here.0);
    }
}
