//! Who forwards what to whom: routers, strategies, the relay and its receipts.
//!
//! ```text
//!   publish ─▶ strategy: who gets which part ─▶ custody ─▶ done ─▶ receipt
//!                 └─ router: next hop to a rank    (relay keeps the packet)
//! ```
//!
//! All of it is pure: state plus `handle(input, outbox)`. Of the overlay it
//! takes the plain vocabulary (ids, ranks, epochs) and is told its tables.
//!
//! Not here: building the overlay (`binomesh-overlay`), connections, clocks.
#![expect(
    rustdoc::broken_intra_doc_links,
    reason = "papers are cited by their keys in brackets, which rustdoc takes for links"
)]

pub mod collective;
pub mod order;
pub mod packet;
pub mod relay;
pub mod roster;
pub mod router;
pub mod runs;
pub mod schedule;
pub mod shape;
mod span;
pub mod strategy;
mod topic;
pub mod wire;

pub use order::{Order, Ordered};
pub use packet::{InvalidTopic, Message, PacketId, Topic};
pub use relay::{
    Config, Delivery, Destination, Due, Effects, Event, Input, Memory, Publish, PublishError,
    RankRun, Receipt, Relay, RelayStats, SlowPeer, Timer, Unreached, View,
};
