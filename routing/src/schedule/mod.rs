//! Conflict-free schedules of collective communications, on graphs with faulty
//! links and nodes ([EVO]).
//!
//! ```text
//!   name, faults ─▶ topology ─┐
//!   request ─────▶ problem ───┼─▶ search ─▶ schedule (plan) ─▶ verify
//!                             └─▶ bounds ────▶ is it optimal?
//! ```
//!
//! A schedule is like a timetable of a railway: in each step a message has its track for itself.
//! `verify` and `search` do not know each other: `verify` reads only the schedule and the graph,
//! not the claims of a search.
//!
//! Messages are never combined on the way; reductions are not scheduled here. No clock and no file
//! is read: the caller of a search says when it shall stop.

pub mod bounds;
pub mod circulant;
mod fault;
mod flow;
mod generator;
mod plan;
mod problem;
pub mod search;
mod topology;
mod verify;

pub use fault::{FAULTS_MAX, Fault, FaultError};
pub use plan::{Collective, Message, Model, Move, Ports, Schedule};
pub use problem::{
    BLOCKS_MAX, DELIVERIES_MAX, EXCESS_MAX, PATH_CHANNELS_MAX, Problem, ProblemError, Request,
};
pub use topology::{CHANNELS_MAX, Channel, NODES_MAX, Node, Topology, TopologyError};
pub use verify::{Defect, verify};
