//! Topics of messages, and filters that subscriptions match them with.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name that a message is published under: 1 to [`Topic::MAX_BYTES`] bytes
/// without control characters and without `#`. Slashes divide it into segments.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The longest topic. A guess that leaves room in one datagram.
    pub const MAX_BYTES: usize = 255;

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

/// A text that cannot be a topic or a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {wanted}; expected {expected}")]
pub struct InvalidTopic {
    found: String,
    wanted: &'static str,
    expected: &'static str,
}

fn is_plain(text: &str) -> bool {
    let fits = (1..=Topic::MAX_BYTES).contains(&text.len());
    fits && !text.chars().any(|c| c.is_control() || c == '#')
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

impl FromStr for Topic {
    type Err = InvalidTopic;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_plain(text) {
            return Ok(Self(text.into()));
        }
        Err(InvalidTopic {
            found: shown(text),
            wanted: "topic",
            expected: "1 to 255 bytes without `#` and control characters",
        })
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Which topics a subscription wants: `#` for all, `jobs/#` for `jobs` and all
/// below it, or one topic exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicFilter(Pattern);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    All,
    Below(Topic),
    Exactly(Topic),
}

impl TopicFilter {
    /// Every topic.
    pub const fn all() -> Self {
        Self(Pattern::All)
    }

    /// Whether a message on `topic` is wanted.
    pub fn matches(&self, topic: &Topic) -> bool {
        match &self.0 {
            Pattern::All => true,
            Pattern::Exactly(wanted) => wanted == topic,
            Pattern::Below(prefix) => topic
                .as_str()
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}

impl From<Topic> for TopicFilter {
    fn from(topic: Topic) -> Self {
        Self(Pattern::Exactly(topic))
    }
}

impl FromStr for TopicFilter {
    type Err = InvalidTopic;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |_| InvalidTopic {
            found: shown(text),
            wanted: "topic filter",
            expected: "a topic, a topic followed by `/#`, or `#`",
        };
        if text == "#" {
            return Ok(Self::all());
        }
        match text.strip_suffix("/#") {
            Some(prefix) => prefix.parse().map(Pattern::Below),
            None => text.parse().map(Pattern::Exactly),
        }
        .map(Self)
        .map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_whole_segments() {
        for (filter, topic, expected) in [
            ("#", "x", true),
            ("jobs/#", "jobs", true),
            ("jobs/#", "jobs/a/b", true),
            ("jobs/#", "jobsite", false),
            ("jobs", "jobs", true),
            ("jobs", "jobs/a", false),
        ] {
            let filter: TopicFilter = filter.parse().unwrap();
            assert_eq!(
                filter.matches(&topic.parse().unwrap()),
                expected,
                "{filter:?} {topic}"
            );
        }
    }

    #[test]
    fn texts_that_are_no_topics_are_refused() {
        let long = "x".repeat(256);
        for text in ["", "a#b", "a\nb", &long] {
            assert!(text.parse::<Topic>().is_err(), "{text}");
        }
        for text in ["", "/#", "a/#/b", "##"] {
            assert!(text.parse::<TopicFilter>().is_err(), "{text}");
        }
    }
}
