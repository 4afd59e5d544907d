//! The filters by which subscriptions choose topics.

use std::str::FromStr;

pub use binomesh_routing::{InvalidTopic, Topic};

/// Whether a topic is reserved for the nodes: users neither publish on it nor get its messages.
pub(crate) fn is_reserved(topic: &Topic) -> bool {
    topic.as_str().starts_with('$')
}

/// The topics that a subscription wants: `#` for all that are not reserved, `jobs/#` for `jobs` and
/// all topics below it, or exactly one topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicFilter(Pattern);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    All,
    Below(Topic),
    Exactly(Topic),
    /// Exactly one topic, even a reserved one.
    #[cfg(feature = "push")]
    Own(Topic),
}

impl TopicFilter {
    /// All topics that are not reserved.
    pub const fn all() -> Self {
        Self(Pattern::All)
    }

    /// Exactly one topic, even a reserved one.
    #[cfg(feature = "push")]
    pub(crate) const fn own(topic: Topic) -> Self {
        Self(Pattern::Own(topic))
    }

    /// Whether the filter matches `topic`.
    pub fn matches(&self, topic: &Topic) -> bool {
        match &self.0 {
            Pattern::All => !is_reserved(topic),
            Pattern::Exactly(wanted) => wanted == topic && !is_reserved(topic),
            #[cfg(feature = "push")]
            Pattern::Own(wanted) => wanted == topic,
            Pattern::Below(prefix) => topic
                .as_str()
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}

/// A filter for exactly this topic. It matches nothing if the topic is reserved, with a `$` in
/// front.
impl From<Topic> for TopicFilter {
    fn from(topic: Topic) -> Self {
        Self(Pattern::Exactly(topic))
    }
}

/// A text that is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// The text has not the form of a filter.
    #[error(
        "{0:?} is not a topic filter; expected a topic, a topic followed by `/#`, or `#`, not beginning with `$`"
    )]
    Form(String),
    /// The text has a wildcard of another system, which would only match that character here.
    #[error(
        "{filter:?} is not a topic filter: `{wildcard}` is no wildcard here; use `jobs/#` for `jobs` and all topics below it, or `#` for all topics"
    )]
    Wildcard {
        /// The text of the filter.
        filter: String,
        /// The wildcard.
        wildcard: char,
    },
}

impl FromStr for TopicFilter {
    type Err = InvalidFilter;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || text.chars().take(64).collect::<String>();
        let invalid = |_| InvalidFilter::Form(shown());
        if text.starts_with('$') {
            return Err(InvalidFilter::Form(shown()));
        }
        let mut wildcards = text.split('/').filter_map(foreign_wildcard);
        if let Some(wildcard) = wildcards.next() {
            let filter = shown();
            return Err(InvalidFilter::Wildcard { filter, wildcard });
        }
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

/// A text that is no topic to send on, or one for which no filter can be written.
#[cfg(any(feature = "admin", feature = "cli"))]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// The text is no topic.
    #[error(transparent)]
    Topic(#[from] InvalidTopic),
    /// The text has the wildcard of filters, `#`, or one of another system. No filter can be
    /// written for a topic of that name.
    #[error(
        "{topic:?} is no topic to send on, as it has a `{wildcard}`; send on one topic, such as `jobs/7`, and subscribe to `jobs/#` for all topics below `jobs`"
    )]
    Wildcard {
        /// The text of the topic.
        topic: String,
        /// The wildcard.
        wildcard: char,
    },
}

/// Parse the topic that a user names for sending.
#[cfg(any(feature = "admin", feature = "cli"))]
pub(crate) fn target(text: &str) -> Result<Topic, InvalidTarget> {
    let wildcard = match text.split('/').any(|part| part == "#") {
        true => Some('#'),
        false => text.split('/').find_map(foreign_wildcard),
    };
    match wildcard {
        Some(wildcard) => Err(InvalidTarget::Wildcard {
            topic: text.chars().take(64).collect(),
            wildcard,
        }),
        None => Ok(text.parse()?),
    }
}

/// A character that stands for any part of a topic in MQTT, in NATS or in shells.
fn foreign_wildcard(part: &str) -> Option<char> {
    match part {
        "+" => Some('+'),
        _ => part.chars().find(|letter| matches!(letter, '*' | '>')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "admin", feature = "cli"))]
    #[test]
    fn nothing_is_sent_on_a_topic_that_nobody_could_subscribe_to() {
        for text in ["*", "jobs/*", "jobs/+", "a/>", "jobs/#", "#"] {
            let refused = target(text);
            assert!(
                matches!(refused, Err(InvalidTarget::Wildcard { .. })),
                "{text}"
            );
        }
        for text in ["jobs/7", "a+b", "what?"] {
            let topic = target(text).expect("a topic");
            assert_eq!(topic.as_str(), text);
            let filter = TopicFilter::from(topic.clone());
            assert!(filter.matches(&topic));
        }
    }

    #[test]
    fn filters_match_whole_segments() {
        for (filter, topic, expected) in [
            ("#", "x", true),
            ("#", "$push", false),
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
    fn nobody_but_the_node_reads_its_own_topics() {
        let push: Topic = "$push".parse().unwrap();
        assert!(!TopicFilter::from(push.clone()).matches(&push));
        #[cfg(feature = "push")]
        assert!(TopicFilter::own(push.clone()).matches(&push));
    }

    #[test]
    fn wildcards_of_other_systems_are_refused_with_the_right_form() {
        for text in ["jobs/*", "*", "jobs/+/done", "+", "jobs/>", "jobs.*", "a*"] {
            let error = text.parse::<TopicFilter>().unwrap_err().to_string();
            assert!(error.contains("`jobs/#`"), "{text}: {error}");
        }
        for text in ["c++", "a+b", "jobs/c++"] {
            assert!(text.parse::<TopicFilter>().is_ok(), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_topics_are_refused() {
        let long = "x".repeat(256);
        for text in ["", "a#b", "a\nb", &long] {
            assert!(text.parse::<Topic>().is_err(), "{text}");
        }
        for text in ["", "/#", "a/#/b", "##", "$push", "$push/#"] {
            assert!(text.parse::<TopicFilter>().is_err(), "{text}");
        }
    }
}
