//! The topics of messages.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The topic of a message: 1 to [`Topic::MAX_BYTES`] bytes of text without control characters and
/// without `#`, which filters use. Slashes divide it into segments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct Topic(Arc<str>);

/// A text that cannot be a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a topic; expected 1 to 255 bytes without `#` and control characters")]
pub struct InvalidTopic(String);

impl Topic {
    /// The longest topic. A guess that leaves room in one datagram. Longer topics are refused.
    pub const MAX_BYTES: usize = 255;

    /// The topic with this name, if it is valid.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidTopic> {
        let name = name.into();
        let fits = (1..=Self::MAX_BYTES).contains(&name.len());
        if fits && !name.chars().any(|c| c.is_control() || c == '#') {
            return Ok(Self(name));
        }
        Err(InvalidTopic(name.chars().take(64).collect()))
    }

    /// The text of the topic.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Topic {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Topic {
    type Err = InvalidTopic;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
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
