//! The nodes of a local cluster, as `cluster.json` and the nodes' standard output name them.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ClusterError;
use crate::client::{Client, Endpoint};

/// A node of a local cluster, as `cluster.json` and the line `ready` name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node's name.
    pub name: String,
    /// The node's lasting identity in hexadecimal.
    pub id: String,
    /// The id of its process.
    pub pid: u32,
    /// The address that other nodes dial.
    pub address: SocketAddr,
    /// The socket of its admin API; empty if it has none.
    pub admin_socket: PathBuf,
    /// The URL of its metrics, such as `http://127.0.0.1:9464/metrics`; empty if it serves none.
    pub metrics_url: String,
}

impl Member {
    /// A client of its admin API.
    pub fn client(&self) -> Client {
        Client::new(Endpoint::Unix(self.admin_socket.clone()))
    }
}

/// The first line that `run` prints, unless it starts a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listening {
    /// Always the text `listening`.
    pub event: String,
    /// The node that listens, with its addresses.
    #[serde(flatten)]
    pub member: Member,
}

/// The contents of `cluster.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Directory {
    /// The id of the process that runs the cluster.
    pub pid: u32,
    /// The nodes of the cluster.
    pub nodes: Vec<Member>,
}

impl Directory {
    /// Read `cluster.json` in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ClusterError> {
        let path = dir.join("cluster.json");
        let text = fs::read(&path).map_err(|source| ClusterError::NoCluster {
            path: path.clone(),
            source,
        })?;
        let wrong = |error| ClusterError::file("understand", &path, io::Error::other(error));
        serde_json::from_slice(&text).map_err(wrong)
    }
}
