//! What can go wrong with a local cluster.

use std::io;
use std::path::{Path, PathBuf};

use crate::certificate::CertificateError;

/// A cluster did not start, or a node of it cannot be managed. Processes that
/// were started are stopped when the [`Cluster`](super::Cluster) is dropped.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file, a folder, a program or a port cannot be used.
    #[error("cannot {doing} {path}: {source}", path = .path.display())]
    File {
        /// What the operation was, in words.
        doing: &'static str,
        /// The path of the file, or a name for the other things.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no cluster in this folder.
    #[error(
        "cannot read {path}: {source}; give --cluster the folder that a running `binomesh up` has printed",
        path = .path.display()
    )]
    NoCluster {
        /// The file that was looked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A certificate was not made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A process ended before it listened.
    #[error("{node} ended before it listened on its port; the last lines of its log:\n{log}")]
    Ended {
        /// The name of the node.
        node: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process did not listen in time.
    #[error(
        "{node} did not listen on its port within {seconds} s; the last lines of its log:\n{log}"
    )]
    Silent {
        /// The name of the node.
        node: String,
        /// The seconds that it was given.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// There is no such node.
    #[error("the cluster has no node {0}")]
    NoSuchNode(String),
}

impl ClusterError {
    pub(super) fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File {
            doing,
            path,
            source,
        }
    }
}
