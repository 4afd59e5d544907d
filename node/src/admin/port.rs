//! The port of metrics, bound before there is a node: it tells others where it is.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::AdminError;
use super::admission::Admission;
use crate::settings::NodeConfig;

/// A bound port of metrics, and who is admitted to it.
pub struct MetricsPort {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    /// None: anybody on this host.
    pub(super) admission: Option<Admission>,
}

impl MetricsPort {
    /// Bind it where `config` says, if it does, and note the address there: port 0 takes a free
    /// one.
    pub async fn bind(config: &mut NodeConfig) -> Result<Option<Self>, AdminError> {
        config.check_metrics()?;
        let Some(address) = config.metrics else {
            return Ok(None);
        };
        let admission = Admission::load(config)?;
        let failed = |source| AdminError::Metrics { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        config.metrics = Some(address);
        Ok(Some(Self {
            listener,
            address,
            admission,
        }))
    }
}
