//! The uplink of each process: it sends one message after another at a limited rate, to all
//! receivers together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Id;
use crate::peer::Message;

/// The uplinks of a world, all with one rate. Without a rate they only count bytes.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    bytes_per_second: Option<u64>,
    /// When each process has sent all its messages so far.
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

    /// The number of bytes sent.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Send a message, not before `now`. Returns when its last byte leaves.
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

/// The length of an encoded message, without the frame and the datagrams around it.
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
