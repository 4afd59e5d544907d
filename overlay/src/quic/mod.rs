//! The QUIC transport: a byte mover between authenticated peers.
//!
//! ```text
//!  host ── send/connect/disconnect ──▶ Transport ── TransportEvent ──▶ host
//!                                        │  table: the one link per peer
//!                       dial ─ accept ───┤  book: who is where
//!                                        └─ link: a task to watch, one to write
//!                                           per class, one to read per stream
//! ```
//!
//! A peer is a SPIFFE id proven by mutual TLS. A link is up once the acceptor has answered the
//! dialler's Hello. The transport does not read the bodies of frames. Frames that a broken link has
//! lost stay lost. Frames that still wait in a peer's queue are sent over the next link, or dropped
//! when a dial fails.
//!
//! Nothing here is global: many transports can live in one process.
//!
//! Not here: the overlay's messages and timers, the content of a beat, retransmission beyond QUIC's
//! own.

mod accept;
mod addresses;
mod admission;
mod advertised;
mod assembly;
#[cfg(feature = "bare")]
pub mod bare;
mod beat;
mod book;
mod budget;
mod buffers;
pub mod catalogue;
mod chain_cache;
mod choice;
mod close;
mod dial;
mod endpoint;
mod events;
mod explanations;
mod frame;
mod greeting;
mod handshake;
mod identity;
mod introductions;
mod life;
mod limits;
mod link;
mod location;
mod lookup;
mod metrics;
mod metrics_address;
mod notary;
mod peer;
mod permits;
mod pieces;
mod queue;
pub mod registry;
mod seam;
mod shared;
mod stream;
mod table;
mod terms;
mod tls;
mod transport;
mod warnings;

pub use book::{ADDRESSES_MAX, Contact, NAME_MAX};
pub use choice::Direction;
pub use close::{DialError, DownReason};
pub use events::Events;
pub use frame::{Class, Frame, Merge, PlainClass, RefusedFrame, SlotKey};
pub use identity::{Identity, IdentityError, ListId, ListIssuer, Subject, SubjectError, is_name};
pub use limits::TransportLimits;
pub use location::{InvalidLocation, Location};
pub use metrics_address::{MetricsAddress, MetricsWord};
pub use notary::{Forged, Notary, NotaryError};
pub use permits::{FairPermit, FairPermits};
pub use seam::{BindError, ContactError, LinkReport, SendError, TransportConfig, TransportEvent};
pub use terms::{Document, Term};
pub use transport::Transport;

use shared::Shared;
