//! The transport over real sockets on the loopback interface: links, queues, introductions, and
//! peers that must be refused.

mod beats;
mod bed;
mod bounds;
mod doubts;
mod frames;
mod handshake;
mod identity;
mod links;
mod lives;
mod names;
mod notary;
mod queues;
mod raw_client;
mod shares;
mod trust;
