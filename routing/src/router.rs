//! Which neighbour is the next step towards a rank.
//!
//! Routers are pure and keep nothing: they see the neighbours that may be used
//! (set, not known to be down, not in the transit list) and rank them by cost.

pub mod binomial;
