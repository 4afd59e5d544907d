//! An endpoint with the settings of a [`Transport`](super::Transport) and nothing on
//! top of it: what measurements compare with.

use std::io;
use std::net::SocketAddr;

use quinn::{Connection, Endpoint, VarInt};
use tokio::runtime::Handle;

use super::limits::Limits;
use super::metrics::Metrics;
use super::tls::{self, SERVER_NAME};
use super::{BindError, Identity, endpoint};

/// One such endpoint. It dials and accepts by mutual TLS, whoever the other is.
#[derive(Debug, Clone)]
pub struct Bare {
    endpoint: Endpoint,
    /// Runs its connections, whoever dials and accepts.
    runtime: Handle,
}

/// A dial that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// It could not begin.
    #[error("cannot dial: {0}")]
    Connect(#[from] quinn::ConnectError),
    /// It failed.
    #[error("the handshake failed: {0}")]
    Handshake(#[from] quinn::ConnectionError),
}

impl Bare {
    /// Bind an address. Must be called within a tokio runtime.
    pub fn bind(
        address: SocketAddr,
        identity: &Identity,
        limits: &Limits,
    ) -> Result<Self, BindError> {
        let runtime = Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        let tls = tls::configs(identity)?;
        let metrics = Metrics::new();
        let mut endpoint = endpoint::bind(address, &[0; 32], &tls, limits, &metrics)?;
        endpoint.set_default_client_config(endpoint::client(&tls, limits)?);
        Ok(Self { endpoint, runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// A connection to whoever listens there.
    pub async fn dial(&self, address: SocketAddr) -> Result<Connection, BareError> {
        let connecting = {
            let _inside = self.runtime.enter();
            self.endpoint.connect(address, SERVER_NAME)?
        };
        Ok(connecting.await?)
    }

    /// The next connection that comes, or none once it is closed.
    pub async fn accept(&self) -> Option<Result<Connection, BareError>> {
        let incoming = self.endpoint.accept().await?;
        let accepted = {
            let _inside = self.runtime.enter();
            incoming.accept()
        };
        Some(match accepted {
            Ok(connecting) => connecting.await.map_err(BareError::from),
            Err(error) => Err(error.into()),
        })
    }

    /// Close all connections and wait until the others have been told.
    pub async fn close(&self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
        self.endpoint.wait_idle().await;
    }
}
