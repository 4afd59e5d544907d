//! Messages that a program sends through its node.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use binomesh_routing::packet::Confirmation;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::{Node, Stopped};
use crate::command::{Command, Destination, Outgoing, SendError, SendOptions};
use crate::report::{Receipt, Reply};
use crate::topic::{Topic, is_reserved};

/// The parts of a message's options that users do not choose.
pub(crate) struct Unasked {
    /// Names of members for which the receipt does not wait.
    pub(crate) excused: Arc<[String]>,
    /// The number by which the strategy `circulant` picks the tree of the message. In a push of
    /// known length this is the number of pieces that follow, otherwise a number that falls by one
    /// with each message.
    pub(crate) left: u32,
}

impl Node {
    /// Send a message to some members. Dropping the handle cancels nothing.
    pub fn send<D: Into<Destination>>(
        &self,
        to: impl IntoIterator<Item = D>,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> PublishHandle {
        let to: Vec<Destination> = to.into_iter().map(Into::into).collect();
        if to.is_empty() {
            return PublishHandle::refused(SendError::NoDestination);
        }
        let command = |outgoing| Command::Send { to, outgoing };
        self.submit(payload.into(), options, command)
    }

    /// A handle for publishing on `topic`.
    pub fn topic(&self, topic: Topic) -> TopicHandle<'_> {
        let node = self;
        TopicHandle { node, topic }
    }

    /// Send a message to all members. Dropping the handle cancels nothing.
    pub fn publish(&self, payload: impl Into<Bytes>, options: SendOptions) -> PublishHandle {
        self.submit(payload.into(), options, Command::Publish)
    }

    /// Answer a message that asks for it ([`crate::Message::confirmation`]). Only the first answer
    /// of a node counts. When this returns without an error, the answer waits for its turn to be
    /// sent.
    pub async fn reply(
        &self,
        to: PacketId<PeerId>,
        answer: impl Into<Bytes>,
    ) -> Result<(), SendError> {
        let answer = answer.into();
        if answer.len() > Reply::MAX_BYTES {
            return Err(SendError::TooLarge {
                size_bytes: answer.len(),
                max_bytes: Reply::MAX_BYTES,
            });
        }
        let (reply, sent) = oneshot::channel();
        let asked = self.ask(Command::Reply { to, answer, reply }).await;
        asked.map_err(|Stopped| SendError::Stopped)?;
        sent.await.unwrap_or(Err(SendError::Stopped))
    }

    fn submit(
        &self,
        payload: Bytes,
        options: SendOptions,
        command: impl FnOnce(Outgoing) -> Command,
    ) -> PublishHandle {
        if is_reserved(&options.topic) {
            return PublishHandle::refused(SendError::ReservedTopic(options.topic));
        }
        let left = self.shared.left.fetch_sub(1, Ordering::Relaxed);
        let excused = Arc::default();
        self.submit_any(payload, options, Unasked { excused, left }, command)
    }

    /// Send a message on a reserved topic, to all members or to some.
    #[cfg(feature = "push")]
    pub(crate) fn publish_own(
        &self,
        payload: Bytes,
        options: SendOptions,
        to: Option<Vec<Destination>>,
        more: Unasked,
    ) -> PublishHandle {
        match to {
            None => self.submit_any(payload, options, more, Command::Publish),
            Some(to) => self.submit_any(payload, options, more, |outgoing| Command::Send {
                to,
                outgoing,
            }),
        }
    }

    fn submit_any(
        &self,
        payload: Bytes,
        options: SendOptions,
        more: Unasked,
        command: impl FnOnce(Outgoing) -> Command,
    ) -> PublishHandle {
        let (size_bytes, max_bytes) = (payload.len(), self.shared.max_payload_bytes);
        if size_bytes > max_bytes {
            return PublishHandle::refused(SendError::TooLarge {
                size_bytes,
                max_bytes,
            });
        }
        let (reply, receipt) = oneshot::channel();
        let SendOptions {
            topic,
            due,
            confirmation,
            strategy,
            is_ordered,
        } = options;
        if confirmation != Confirmation::Relayed && due.time().is_none() {
            return PublishHandle::refused(SendError::NoTime);
        }
        let outgoing = Outgoing {
            topic,
            payload,
            strategy,
            due,
            confirmation,
            is_ordered,
            excused: more.excused,
            left: more.left,
            reply,
        };
        match self.shared.commands.try_send(command(outgoing)) {
            Ok(()) => PublishHandle(Outcome::Pending(receipt)),
            Err(mpsc::error::TrySendError::Full(_)) => PublishHandle::refused(SendError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => PublishHandle::refused(SendError::Stopped),
        }
    }
}

/// A topic, for publishing through a node.
#[derive(Debug, Clone)]
pub struct TopicHandle<'a> {
    node: &'a Node,
    topic: Topic,
}

impl TopicHandle<'_> {
    /// Send a message to all members. Dropping the handle cancels nothing.
    pub fn publish(&self, payload: impl Into<Bytes>) -> PublishHandle {
        let options = SendOptions {
            topic: self.topic.clone(),
            ..SendOptions::default()
        };
        self.node.publish(payload, options)
    }
}

/// A message on its way. Await it for its receipt; dropping it cancels nothing.
#[derive(Debug)]
#[must_use = "a refusal is only told to whoever awaits the handle"]
pub struct PublishHandle(Outcome);

#[derive(Debug)]
enum Outcome {
    Pending(oneshot::Receiver<Result<Receipt, SendError>>),
    Refused(Option<SendError>),
}

impl PublishHandle {
    fn refused(error: SendError) -> Self {
        Self(Outcome::Refused(Some(error)))
    }
}

impl Future for PublishHandle {
    type Output = Result<Receipt, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Outcome::Pending(receipt) => Pin::new(receipt)
                .poll(context)
                .map(|outcome| outcome.unwrap_or(Err(SendError::Stopped))),
            Outcome::Refused(error) => Poll::Ready(Err(error.take().unwrap_or(SendError::Stopped))),
        }
    }
}
