//! An endpoint with the settings of a [`Transport`](super::Transport) and nothing on top of it, as
//! a baseline for measurements.

use std::io;
use std::net::SocketAddr;

use quinn::{Connection, Endpoint, VarInt};
use tokio::runtime::Handle;

use super::limits::TransportLimits;
use super::metrics::Metrics;
use super::tls::{self, SERVER_NAME};
use super::{BindError, Identity, endpoint};

/// A bare endpoint. It dials and accepts by mutual TLS, and takes any identity on the other side.
#[derive(Debug, Clone)]
pub struct Bare {
    endpoint: Endpoint,
    /// The runtime of its connections, whichever thread dials or accepts.
    runtime: Handle,
}

/// Why a bare dial failed.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// The dial could not begin.
    #[error("cannot dial: {0}")]
    Connect(#[from] quinn::ConnectError),
    /// The handshake failed.
    #[error("the handshake failed: {0}")]
    Handshake(#[from] quinn::ConnectionError),
}

impl Bare {
    /// Bind an address. Must be called within a tokio runtime.
    pub fn bind(
        address: SocketAddr,
        identity: &Identity,
        limits: &TransportLimits,
    ) -> Result<Self, BindError> {
        let runtime = Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        let tls = tls::configs(identity)?;
        let metrics = Metrics::new();
        let mut endpoint = endpoint::bind(address, &[0; 32], &tls, limits, &metrics)?;
        endpoint.set_default_client_config(endpoint::client(&tls, limits)?);
        Ok(Self { endpoint, runtime })
    }

    /// The address on which the endpoint listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Connect to the endpoint that listens at `address`.
    pub async fn dial(&self, address: SocketAddr) -> Result<Connection, BareError> {
        let connecting = {
            let _inside = self.runtime.enter();
            self.endpoint.connect(address, SERVER_NAME)?
        };
        Ok(connecting.await?)
    }

    /// The next incoming connection, or none once the endpoint is closed.
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

    /// Close all connections and wait until the other ends know it.
    pub async fn close(&self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
        self.endpoint.wait_idle().await;
    }
}
