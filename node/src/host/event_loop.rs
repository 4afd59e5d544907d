//! What a node's loop is started with, and how it begins and ends.

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

/// Why a node's loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The loop was asked to end.
    Asked,
    /// The loop panicked: a defect, logged with the message of the panic.
    Panicked,
    /// A socket of the node's transport failed; the log has the address.
    TransportFailed,
    /// Another process has this node's identity and a newer life (a higher boot number).
    Superseded {
        /// The address at which that process answered.
        address: SocketAddr,
    },
}

/// Why a node did not start. Its state folder may have been made, its boot noted and its record of
/// votes written anew; nothing else has changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is not valid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The certificate, key, authorities or revocation lists cannot be used, or the secret of the
    /// job.
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
        "cannot bind {address}: {source}; choose another address or port, or stop the program that uses this one"
    )]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The certificate's key cannot sign messages, or its chain is too long to go with each
    /// message.
    #[error(
        "cannot sign messages as the setting `signatures` asks: {0}; set `signatures` to \"off\", or issue another certificate"
    )]
    Signing(#[from] NotaryError),
    /// The transport did not start with these settings.
    #[error("cannot start the transport: {0}")]
    Transport(String),
}

/// All that a node's loop is given. The loop ends at once when `stop` is cancelled, and after
/// [`Command::Leave`] when the node has left. It also ends by itself: see [`Ended`].
pub(crate) struct LoopContext {
    /// The checked settings.
    pub(crate) config: NodeConfig,
    /// The checked credentials.
    pub(crate) credentials: Credentials,
    /// The node's secret and boot.
    pub(crate) state: NodeState,
    /// The boot, for the handles to read.
    pub(crate) boot: Arc<AtomicU64>,
    /// The commands of the handles.
    pub(crate) commands: mpsc::Receiver<Command>,
    /// The place of the node, sent whenever it changes.
    pub(crate) placement: watch::Sender<Option<PlacementView>>,
    /// Cancelled to end the loop at once; a busy loop takes a few more turns.
    pub(crate) stop: CancellationToken,
}

/// A loop that is bound to its address and ready to be run.
pub(crate) struct ReadyLoop {
    /// The address that the node tells other nodes.
    pub(crate) address: SocketAddr,
    /// The future that runs the loop.
    pub(crate) run: Pin<Box<dyn Future<Output = Ended> + Send>>,
}
