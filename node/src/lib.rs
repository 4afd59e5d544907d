//! A node of a Binomesh cluster, as a library.
//!
//! ```text
//!   program ──▶ Node ──Command──▶ host loop ──▶ overlay + routing machines
//!      ▲                              │
//!      └── Subscription, receipt ◀────┘ effects over QUIC
//! ```
//!
//! ```no_run
//! use binomesh::{Node, NodeConfig, Received};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! // Certificate and key in `credentials`, as `binomesh ca issue` makes them.
//! let mut config = NodeConfig::new("node-7", "credentials", "state");
//! config.parent = Some("node-3@10.0.0.3:7400".parse()?);
//! let node = Node::start(config)?;
//! // Wait until this node is ready in an epoch of at least 16 members.
//! node.ready(16).await?;
//! let mut jobs = node.subscribe("jobs/#".parse()?).await?;
//! let receipt = node.topic("news".parse()?).publish("here I am").await?;
//! println!("{} members have it", receipt.reached_count);
//! while let Some(Received::Message(job)) = jobs.next().await {
//!     println!("{} says {:?}", job.origin_name, job.payload);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! More programs are in `examples`.
//!
//! Without default features there is no HTTP, no command line, no exporter and no file format: a
//! [`Node`], its [`Subscription`]s and its receipts. A node installs no global recorder,
//! subscriber, crypto provider or signal handler, so many nodes live in one process.
//!
//! Not here: the protocols themselves (`binomesh-overlay`, `binomesh-routing`).

#[cfg(feature = "admin")]
pub mod admin;
pub mod catalogue;
#[cfg(feature = "ca")]
pub mod certificate;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod collective;
#[cfg(feature = "config")]
pub mod config;
pub mod credentials;
#[cfg(feature = "cluster")]
pub mod demo;
pub mod expiry;
#[cfg(feature = "admin")]
pub mod exporter;
#[cfg(feature = "cluster")]
pub mod graph;
#[cfg(feature = "cluster")]
pub mod launch;
pub mod peer;
#[cfg(feature = "push")]
pub mod push;
pub mod report;
pub mod scrape;
pub mod settings;
#[cfg(feature = "cluster")]
pub mod shape;
#[cfg(feature = "admin")]
pub mod socket;
pub mod spiffe;
pub mod state;
pub mod targets;
pub mod topic;
#[cfg(feature = "client")]
pub mod verify;
#[cfg(feature = "simulator")]
pub mod world;

mod command;
mod files;
mod host;
mod node;
#[cfg(feature = "cluster")]
mod process;
mod recorder;
mod subscription;
mod timers;
mod votes;
mod wire;

pub use binomesh_routing::packet::Confirmation;
pub use binomesh_routing::{Order, Ordered};
pub use collective::{Collective, CollectiveError, CollectiveOutcome};
pub use command::{Destination, Due, SendError, SendOptions};
pub use node::{
    Ended, Node, PublishHandle, RenewError, StartError, Stopped, SubscribeError, TopicHandle,
};
pub use recorder::SharedRecorder;
pub use report::{Delivery, NodeReport, PlacementView, Receipt};
pub use scrape::Scrape;
pub use settings::{Bootstrap, NodeConfig, Profile, Router, Seed, Signatures, Strategy};
pub use subscription::{Gap, Hold, Listener, Message, Received, Subscription};
pub use topic::{Topic, TopicFilter};
