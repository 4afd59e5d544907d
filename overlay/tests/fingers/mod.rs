//! [BMG09] Algorithm 2, and the visits that repair its fingers.

mod bed;
mod rules;
mod visits;
