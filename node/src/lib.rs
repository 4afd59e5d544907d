//! A node of a Binomesh cluster, as a library.
//!
//! ```text
//!   program ──▶ Node ──Command──▶ host loop ──▶ overlay + routing machines
//!      ▲                              │
//!      └── Subscription, receipt ◀────┘ effects over QUIC
//! ```
//!
//! Without default features there is no HTTP, no command line, no exporter and
//! no file format: a [`Node`], its [`Subscription`]s and its receipts. The
//! library installs no global recorder, subscriber, crypto provider or signal
//! handler, so many nodes live in one process.
//!
//! Not here: the protocols themselves (`binomesh-overlay`, `binomesh-routing`).

pub mod credentials;
pub mod report;
pub mod settings;
pub mod state;
pub mod topic;

mod command;
mod host;
mod node;
mod recorded;
mod subscription;

pub use command::{Destination, SendError, SendOptions};
pub use node::{Ended, Node, PublishHandle, StartError, Stopped, SubscribeError, TopicHandle};
pub use recorded::SharedRecorder;
pub use report::{Delivery, NodeReport, PlacementView, Receipt};
pub use settings::{NodeConfig, Profile, Seed};
pub use subscription::{Message, Received, Subscription};
pub use topic::{Topic, TopicFilter};
