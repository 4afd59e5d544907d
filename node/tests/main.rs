//! Whole peers in virtual time, in one program: the machines are compiled once.

mod arbitrary_state;
mod formation;
mod gathering;
mod joins_and_restarts;
mod launched;
mod leaving;
mod lives;
mod membership;
mod readiness;
mod vacancy;
