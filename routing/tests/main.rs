//! Tests of the relay's rules and of its messages. They share one program, so that the machines
//! are compiled once.

mod architecture;
mod batching;
mod boundaries;
mod broadcast_and_unicast;
mod circulant;
mod custody;
mod delays_and_losses;
mod denials;
mod epochs_and_boots;
mod flow;
mod late_names;
mod leaving;
mod liar;
mod named_members;
mod network;
mod order;
mod ordered;
mod partly_connected;
mod planted;
mod registries;
mod retention;
mod signatures;
mod storm;
mod strategies;
mod termination;
mod vacancy;
mod wire_format;
