//! Tests of the relay's rules and of its messages. They share one program, so that the machines
//! are compiled once.

mod boundaries;
mod broadcast_and_unicast;
mod custody;
mod denials;
mod endless_tries;
mod epochs_and_boots;
mod flow;
mod house;
mod kept;
mod late_and_lost;
mod late_names;
mod leaving;
mod liar;
mod named;
mod network;
mod order;
mod ordered;
mod partly_connected;
mod planted;
mod registries;
mod scheduled;
mod signed;
mod storm;
mod strategies;
mod together;
mod vacancy;
mod wire_format;
