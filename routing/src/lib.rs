//! Routers, strategies, the relay and its receipts: how messages reach the members.
//!
//! ```text
//!   publish ─▶ strategy: who gets which part ─▶ custody ─▶ done ─▶ receipt
//!                 └─ router: next hop to a rank    (relay keeps the packet)
//! ```
//!
//! Everything here is pure: state plus `handle(input, outbox)`. From the overlay this crate takes
//! only plain types (ids, ranks, epochs); the host passes the overlay's tables in.
//!
//! A host tells the relay its place and tables, and performs the effects that the relay asks for:
//!
//! ```
//! use binomesh_overlay::{Effect, Epoch, Outbox, Placement, Population, Rank};
//! use binomesh_routing::strategy::Strategy;
//! use binomesh_routing::{Config, Destination, Due, Input, Publish, Relay, Topic, View};
//! use bytes::Bytes;
//!
//! // Peer 1 has rank 0 of two members. The other one, peer 2, is on both sides of it.
//! let epoch = Epoch { root: 1, boot: 1, counter: 1, nonce: 0 };
//! let population = Population::new(2).unwrap();
//! let placement = Placement { epoch, population, rank: Rank(0) };
//! let tables = vec![Some(2)];
//! let view = View { placement, clockwise: tables.clone(), counterclockwise: tables };
//! let mut relay = Relay::new(1_u32, 1, Config::default());
//! let mut out = Outbox::new();
//! relay.handle(Input::View(view), &mut out);
//!
//! let publish = Publish {
//!     topic: Topic::new("jobs").unwrap(),
//!     payloads: Bytes::from_static(b"start").into(),
//!     destination: Destination::All,
//!     strategy: Strategy::default(),
//!     due: Due::Settled,
//!     confirmation: Default::default(),
//!     is_ordered: false,
//! };
//! relay.publish(publish, &mut out).unwrap();
//! // A copy goes to peer 2. Its answer, `done`, would bring the receipt.
//! let mut effects = out.drain();
//! assert!(effects.any(|effect| matches!(effect, Effect::Send { to: 2, .. })));
//! ```
//!
//! Not here: building the overlay (`binomesh-overlay`), connections, clocks.
#![expect(
    rustdoc::broken_intra_doc_links,
    reason = "papers are cited by their keys in brackets, which rustdoc takes for links"
)]

pub mod collective;
mod destination;
pub mod order;
pub mod packet;
pub mod relay;
pub mod roster;
pub mod router;
pub mod runs;
pub mod schedule;
pub mod sibling_tree;
mod span;
pub mod strategy;
mod topic;
pub mod wire;

pub use destination::Destination;
pub use order::{Order, Ordered};
pub use packet::{InvalidTopic, Message, PacketId, Topic};
pub use relay::{
    Config, Delivery, Due, Effects, Event, Input, Memory, Publish, PublishError, RankRun, Receipt,
    Relay, RelayStats, SlowPeer, Timer, Unreached, View,
};
