//! Where the secret of a job is kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where the secret of a job is kept: a file, or `env:` and the name of a variable. Never the
/// secret itself, which others could read on a command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SecretSource {
    /// In a file that nobody else may read.
    File(PathBuf),
    /// In the variable of this name.
    Variable(String),
}

impl From<String> for SecretSource {
    fn from(text: String) -> Self {
        match text.strip_prefix("env:") {
            Some(name) => Self::Variable(name.to_owned()),
            None => Self::File(text.into()),
        }
    }
}

impl FromStr for SecretSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

impl From<SecretSource> for String {
    fn from(source: SecretSource) -> Self {
        source.to_string()
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "env:{name}"),
        }
    }
}
