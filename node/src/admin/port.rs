//! The port of metrics. It is bound before the node starts, since the node tells the port's address
//! to other nodes.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::AdminError;
use super::admission::Admission;
use crate::settings::NodeConfig;

/// A bound port of metrics, and the rules of its admission.
pub struct MetricsPort {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    /// `None`: every user of this host is admitted.
    pub(super) admission: Option<Admission>,
}

impl MetricsPort {
    /// Bind the port that `config` names, if it names one, and write the bound address to `config`:
    /// port 0 stands for any free port.
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
