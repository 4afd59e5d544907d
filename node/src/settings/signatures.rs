//! Whether messages are signed by their origins.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a node signs its messages, and whether it takes unsigned messages of others. With each
/// value the node verifies a signature that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    /// The node signs nothing, and trusts the members that pass a message on with its content.
    #[default]
    Off,
    /// The node signs its messages, and accepts unsigned messages.
    Sign,
    /// The node signs its messages, and refuses unsigned messages.
    Require,
}

impl Signatures {
    /// Whether the node signs its messages.
    pub const fn signs(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Whether the node refuses messages without a signature.
    pub const fn requires(self) -> bool {
        matches!(self, Self::Require)
    }
}

impl fmt::Display for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Sign => "sign",
            Self::Require => "require",
        })
    }
}
