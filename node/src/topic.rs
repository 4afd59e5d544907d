//! Filters that subscriptions match topics with.

use std::str::FromStr;

pub use binomesh_routing::{InvalidTopic, Topic};

/// Whether a topic is the nodes' own: users neither publish on it nor get its messages.
pub(crate) fn is_reserved(topic: &Topic) -> bool {
    topic.as_str().starts_with('$')
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
    /// The same, and be it the nodes' own.
    #[cfg(feature = "push")]
    Own(Topic),
}

impl TopicFilter {
    /// Every topic.
    pub const fn all() -> Self {
        Self(Pattern::All)
    }

    /// One topic, and be it the nodes' own.
    #[cfg(feature = "push")]
    pub(crate) const fn own(topic: Topic) -> Self {
        Self(Pattern::Own(topic))
    }

    /// Whether a message on `topic` is wanted.
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

/// This topic exactly; nothing at all if it is the nodes' own, with a `$` in front.
impl From<Topic> for TopicFilter {
    fn from(topic: Topic) -> Self {
        Self(Pattern::Exactly(topic))
    }
}

/// A text that cannot be a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// It has no such form.
    #[error(
        "{0:?} is not a topic filter; expected a topic, a topic followed by `/#`, or `#`, not beginning with `$`"
    )]
    Form(String),
    /// It has the wildcard of another system, which would match that character alone.
    #[error(
        "{filter:?} is not a topic filter: `{wildcard}` stands for nothing here; `jobs/#` is `jobs` and all below it, `#` is all"
    )]
    Wildcard {
        /// The filter.
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

/// A topic to send on that no subscription could name.
#[cfg(any(feature = "admin", feature = "cli"))]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// It is no topic.
    #[error(transparent)]
    Topic(#[from] InvalidTopic),
    /// It has the wildcard of another system, for which no filter can be written.
    #[error(
        "{topic:?} is no topic to send on: `{wildcard}` stands for nothing here; send on one topic, such as `jobs/7`, and subscribe to `jobs/#` for all below `jobs`"
    )]
    Wildcard {
        /// The topic.
        topic: String,
        /// The wildcard.
        wildcard: char,
    },
}

/// The topic that a user names to send on.
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

/// What stands for any part of a topic elsewhere: in MQTT, in NATS, in shells.
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
