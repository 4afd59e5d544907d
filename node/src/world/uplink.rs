//! What each process can send: one message after another, at a rate, whoever they go to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Id;
use crate::peer::Message;

/// The uplinks of a world, all of one rate. Without a rate they only count.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    bytes_per_second: Option<u64>,
    /// When each has sent all that it was given.
    free: BTreeMap<Id, Duration>,
    bytes: u64,
}

impl Uplinks {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second,
            ..Self::default()
        }
    }

    /// How many bytes they have been given.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A process sends a message now. When its last byte has left.
    pub(super) fn send(&mut self, from: Id, message: &Message<Id>, now: Duration) -> Duration {
        let bytes = length(message);
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_second else {
            return now;
        };
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        let free = self.free.entry(from).or_default();
        *free = now.max(*free).saturating_add(takes);
        *free
    }
}

/// How long a message is on its stream; what goes round it in datagrams is not counted.
fn length(message: &Message<Id>) -> u64 {
    let bytes = match message {
        Message::Overlay(message) => postcard::to_stdvec(message).map(|bytes| bytes.len()),
        Message::Collective(message) => postcard::to_stdvec(message).map(|bytes| bytes.len()),
        Message::Relay(message) => {
            let encoded = binomesh_routing::wire::encode(message);
            Ok(encoded.map_or(0, |(head, payload)| head.len() + payload.len()))
        }
    };
    bytes.unwrap_or_default() as u64
}
