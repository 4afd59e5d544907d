//! Answers to messages whose origin asks for more than that this node has them: what
//! became of them here, sent back as a message of its own on a reserved topic.

use std::sync::Arc;

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Host;
use crate::command::{Destination, Due, Outgoing, SendError};
use crate::report::Reply;
use crate::settings::Strategy;
use crate::subscription::Offered;
use crate::topic::Topic;

/// The topic of answers.
const ANSWERS: &str = "$answer";

/// Whether messages of a topic are answers.
pub(super) fn is_answer(topic: &Topic) -> bool {
    topic.as_str() == ANSWERS
}

/// What became of a message at one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// A subscriber has been given it.
    Taken,
    /// Nobody subscribes to its topic.
    NoSubscriber,
    /// No subscriber had room for it.
    Missed,
    /// The application answers.
    Reply(Vec<u8>),
}

/// An answer, and to which of the receiver's own messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) boot: u64,
    pub(super) sequence: u64,
    pub(super) said: Said,
}

impl Answer {
    /// The answer in a payload; none if it makes no sense or is too long.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let (answer, rest) = postcard::take_from_bytes::<Self>(payload).ok()?;
        let fits = match &answer.said {
            Said::Reply(reply) => reply.len() <= Reply::MAX_BYTES,
            _ => true,
        };
        (rest.is_empty() && fits).then_some(answer)
    }
}

/// What this node itself says to what it was asked.
pub(super) fn said(confirmation: Confirmation, offered: Offered) -> Option<Said> {
    let lost = if offered.missed > 0 {
        Said::Missed
    } else {
        Said::NoSubscriber
    };
    match confirmation {
        Confirmation::Relayed => None,
        _ if offered.taken == 0 => Some(lost),
        Confirmation::Delivered => Some(Said::Taken),
        // That is for the application.
        Confirmation::Acknowledged => None,
    }
}

impl Host {
    /// An application answers.
    pub(super) fn reply(&mut self, to: PacketId<PeerId>, reply: Bytes) -> Result<(), SendError> {
        self.answer(to, Said::Reply(reply.to_vec()))
    }

    /// Send an answer. It has no time within which it has to arrive: it is tried as long
    /// as the origin is a member.
    pub(super) fn answer(&mut self, to: PacketId<PeerId>, said: Said) -> Result<(), SendError> {
        let answer = Answer {
            boot: to.boot,
            sequence: to.sequence,
            said,
        };
        let (Ok(payload), Ok(topic)) = (postcard::to_stdvec(&answer), Topic::new(ANSWERS)) else {
            return Err(SendError::NotReady);
        };
        // Nobody waits for its receipt.
        let (reply, _) = oneshot::channel();
        let outgoing = Outgoing {
            topic,
            payload: payload.into(),
            strategy: Strategy::default(),
            due: Due::Settled,
            confirmation: Confirmation::Relayed,
            excused: Arc::default(),
            reply,
        };
        self.submit_own(vec![Destination::Id(to.origin)], outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_and_nonsense_and_long_ones_are_not() {
        let answer = |said| Answer {
            boot: 3,
            sequence: 4,
            said,
        };
        let long = vec![7; Reply::MAX_BYTES + 1];
        for (said, is_read) in [
            (Said::Taken, true),
            (Said::Reply(Vec::new()), true),
            (Said::Reply(long[1..].to_vec()), true),
            (Said::Reply(long), false),
        ] {
            let answer = answer(said);
            let bytes = postcard::to_stdvec(&answer).unwrap();
            assert_eq!(Answer::parse(&bytes), is_read.then_some(answer));
            assert_eq!(Answer::parse(&[&bytes[..], b"x"].concat()), None);
            assert_eq!(Answer::parse(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Answer::parse(b"hello"), None);
    }

    #[test]
    fn a_node_answers_by_itself_what_no_application_can() {
        use Confirmation::{Acknowledged, Delivered, Relayed};
        let offered = |taken, missed| Offered { taken, missed };
        for (asked, offered, expected) in [
            (Relayed, offered(0, 0), None),
            (Delivered, offered(0, 0), Some(Said::NoSubscriber)),
            (Delivered, offered(0, 2), Some(Said::Missed)),
            (Delivered, offered(1, 2), Some(Said::Taken)),
            (Acknowledged, offered(0, 0), Some(Said::NoSubscriber)),
            (Acknowledged, offered(0, 1), Some(Said::Missed)),
            (Acknowledged, offered(1, 0), None),
        ] {
            assert_eq!(said(asked, offered), expected);
        }
    }
}
