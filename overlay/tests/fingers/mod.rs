//! [BMG09] Algorithm 2, and the visits that repair what it built.

mod bed;
mod rules;
mod visits;
