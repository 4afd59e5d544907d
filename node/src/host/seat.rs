//! What a node is started with, and how its loop begins and ends.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use binomesh_overlay::quic::NotaryError;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::command::Command;
use crate::credentials::{Credentials, CredentialsError};
use crate::report::PlacementView;
use crate::settings::{InvalidSetting, NodeConfig};
use crate::state::{NodeState, StateError};

/// How a node's loop came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// It panicked: a defect, logged with its message.
    Panicked,
    /// A socket of its transport failed; the log has the address.
    TransportFailed,
    /// Another process of its identity lives a newer life.
    Superseded {
        /// Where that process answered.
        address: SocketAddr,
    },
}

/// A node did not start. Its state folder may have been made and its boot noted;
/// nothing else has changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The certificate, key or authorities cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The lasting state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The record of votes cannot be used.
    #[error(transparent)]
    Votes(#[from] crate::votes::VotesError),
    /// The address cannot be bound.
    #[error(
        "cannot bind {address}: {source}; choose another `bind` or --port, or stop what holds it"
    )]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Nothing can be signed with the certificate's key.
    #[error(
        "cannot sign as `signatures` asks: {0}; set it to \"off\", or issue another certificate"
    )]
    Signing(#[from] NotaryError),
    /// The transport refused its settings.
    #[error("cannot start the transport: {0}")]
    Transport(String),
}

/// Everything that a node's loop is given. The loop ends when `stop` is
/// cancelled (at once), after [`Command::Leave`], or when `commands` is closed.
pub(crate) struct Seat {
    /// The checked settings.
    pub(crate) config: NodeConfig,
    /// The checked credentials.
    pub(crate) credentials: Credentials,
    /// Secret and boot.
    pub(crate) state: NodeState,
    /// The boot, for the handles.
    pub(crate) boot: Arc<AtomicU64>,
    /// What the handles ask.
    pub(crate) commands: mpsc::Receiver<Command>,
    /// Where the node stands; sent when it changes.
    pub(crate) placement: watch::Sender<Option<PlacementView>>,
    /// End at once: a busy loop after a few turns more.
    pub(crate) stop: CancellationToken,
}

/// A loop that is bound to its address and ready to be run.
pub(crate) struct Opened {
    /// The address that the node tells others.
    pub(crate) address: SocketAddr,
    /// The loop.
    pub(crate) run: Pin<Box<dyn Future<Output = Ended> + Send>>,
}
