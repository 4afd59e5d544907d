//! What messages are about.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a message is about: 1 to 255 bytes of text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct Topic(Arc<str>);

/// A topic that is empty or longer than [`Topic::MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a topic has 1 to {max} bytes, not {0}", max = Topic::MAX_BYTES)]
pub struct InvalidTopic(usize);

impl Topic {
    /// The longest topic.
    pub const MAX_BYTES: usize = 255;

    /// The topic with this name, if it is neither empty nor too long.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidTopic> {
        let name = name.into();
        match name.len() {
            1..=Self::MAX_BYTES => Ok(Self(name)),
            length => Err(InvalidTopic(length)),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<Arc<str>> for Topic {
    type Error = InvalidTopic;

    fn try_from(name: Arc<str>) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl From<Topic> for Arc<str> {
    fn from(topic: Topic) -> Self {
        topic.0
    }
}
