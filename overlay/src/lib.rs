//! The overlay of Binomesh: it turns any deployment tree into an oriented ring and a binomial
//! graph, and restores both from any state.
//!
//! ```text
//!   tree ──▶ ring ──▶ fingers        [BMG09] Algorithms 1 and 2
//!     └────▶ census ──┘              N and ranks
//! ```
//!
//! All modules but `quic` are pure: state plus `handle(input, outbox)`, with no clock, no
//! randomness, no I/O and no hash order. So the QUIC node, the simulators and the model checker run
//! the very same code.
//!
//! A host feeds inputs to the machine and performs the effects that it returns:
//!
//! ```
//! use binomesh_overlay::{Config, Effect, Input, Outbox, Overlay};
//!
//! // Peer 7 under peer 3, in the first life of its process. 42 seeds its jitter.
//! let mut config = Config::new(7_u32, 1, 42);
//! config.parent = Some(3);
//! let mut overlay = Overlay::new(config);
//! let mut out = Outbox::new();
//! overlay.handle(Input::Start, &mut out);
//! // It asks its parent for a place in the tree, and arms timers.
//! let effects: Vec<_> = out.drain().collect();
//! assert!(effects.iter().any(|effect| matches!(effect, Effect::Send { to: 3, .. })));
//! assert!(effects.iter().any(|effect| matches!(effect, Effect::Arm { .. })));
//! ```
//!
//! Not here: user messages, routing and receipts (`binomesh-routing`).
//!
//! Papers: [BMG09] Bosilca et al., *Constructing Resilient Communication
//! Infrastructure for Runtime Environments*; [FC] the fully connected bootstrap.

#![expect(
    rustdoc::broken_intra_doc_links,
    reason = "papers are cited by their keys in brackets, which rustdoc takes for links"
)]

pub mod backoff;
pub mod census;
pub mod change;
pub mod clique;
pub mod config;
pub mod detector;
pub mod digest;
pub mod fingers;
pub mod id;
pub mod legitimate;
pub mod lives;
pub mod message;
pub mod named;
pub mod noise;
pub mod outbox;
pub mod overlay;
pub mod placement;
pub mod planted;
#[cfg(feature = "quic")]
pub mod quic;
pub mod ring;
mod seam;
pub mod spanning;
pub mod stamp;
pub mod tree;

pub use change::Changed;
pub use config::Config;
pub use id::{Id, PeerId};
pub use message::{Message, Slot, relayed};
pub use outbox::{Effect, Outbox};
pub use overlay::{Event, Health, Input, Island, Overlay, Timer};
pub use placement::{Epoch, Placement, Population, Rank};
pub use planted::{Bug, Planted};
