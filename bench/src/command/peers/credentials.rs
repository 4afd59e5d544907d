//! Certificates for the nodes, in a folder that is removed with the run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use binomesh::certificate::{Authority, Validity};
use binomesh::credentials::Credentials;
use binomesh::{NodeConfig, Profile, Signatures};
use binomesh_overlay::quic::{Identity, TransportLimits};

use crate::command::Failure;

/// How long a handshake, or silence, may last on a slow processor that other processes keep busy. A
/// guess: some twenty handshakes there. If it is too short, connections break during a measurement.
const SLOW_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The files that nodes need.
#[derive(Debug)]
pub(in crate::command) struct CredentialsFolder {
    folder: Folder,
    nodes: u32,
    profile: Profile,
    signatures: Signatures,
    is_slow: bool,
}

#[derive(Debug)]
enum Folder {
    /// A folder that is removed when this value is dropped.
    Made(tempfile::TempDir),
    /// A folder of another process.
    Given(PathBuf),
}

impl CredentialsFolder {
    /// Make an authority and a certificate for each node.
    pub(in crate::command) fn new(
        nodes: u32,
        profile: Profile,
        signed: bool,
    ) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("binomesh-peers-").tempdir();
        let dir = dir.map_err(Failure::run)?;
        let home = Self::within(Folder::Made(dir), nodes, profile, signed);
        let validity = Validity::days(1);
        let authority = Authority::generate("peers.test", validity).map_err(Failure::run)?;
        for node in 0..nodes {
            let issued = authority.issue(&name(node), validity);
            let issued = issued.map_err(Failure::run)?;
            issued
                .save(&home.folder(node), true)
                .map_err(Failure::run)?;
        }
        Ok(home)
    }

    /// The folder that another process has made.
    pub(in crate::command) const fn at(
        path: PathBuf,
        nodes: u32,
        profile: Profile,
        signed: bool,
    ) -> Self {
        Self::within(Folder::Given(path), nodes, profile, signed)
    }

    const fn within(folder: Folder, nodes: u32, profile: Profile, signed: bool) -> Self {
        Self {
            folder,
            nodes,
            profile,
            signatures: match signed {
                true => Signatures::Require,
                false => Signatures::Off,
            },
            is_slow: false,
        }
    }

    /// The path of the folder.
    pub(in crate::command) fn path(&self) -> &Path {
        match &self.folder {
            Folder::Made(dir) => dir.path(),
            Folder::Given(path) => path,
        }
    }

    /// The same folder, with limits for a processor that is many times slower than others.
    pub(in crate::command) fn slow(self) -> Self {
        Self {
            is_slow: true,
            ..self
        }
    }

    /// The limits of bare connections. A bare connection that breaks stays broken, while our nodes
    /// dial again.
    pub(in crate::command) fn limits(&self) -> TransportLimits {
        let mut limits = TransportLimits::default();
        if self.is_slow {
            limits.idle_timeout = SLOW_IDLE_TIMEOUT;
        }
        limits
    }

    /// The number of nodes.
    pub(in crate::command) const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The settings of a node: on loopback, and with room for the workloads.
    pub(in crate::command) fn config(&self, node: u32) -> NodeConfig {
        let folder = self.folder(node);
        let mut config = NodeConfig::new(name(node), &folder, folder.join("state"));
        config.bind = ([127, 0, 0, 1], 0).into();
        config.profile = self.profile;
        config.signatures = self.signatures;
        config.max_payload_bytes = NodeConfig::MAX_PAYLOAD_BYTES;
        config
    }

    /// The identity of a node.
    pub(in crate::command) fn identity(&self, node: u32) -> Result<Identity, Failure> {
        let credentials = Credentials::load(&self.config(node));
        Ok(credentials.map_err(Failure::run)?.identity)
    }

    pub(in crate::command) fn folder(&self, node: u32) -> PathBuf {
        self.path().join(name(node))
    }
}

/// The name of a node.
pub(in crate::command) fn name(node: u32) -> String {
    format!("node-{node}")
}
