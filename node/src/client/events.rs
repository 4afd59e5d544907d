//! The events that a node sends to its subscribers, one by one.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;

use super::{ClientError, Endpoint};
use crate::report::{Delivery, GapView};

/// The longest event; a longer one ends the stream with an error. The largest payload in base64
/// fits.
const MAX_EVENT: usize = 96 << 20;

/// How long a node may be silent before it counts as gone: it sends a sign of life every 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionEvent {
    /// A message.
    Delivery(Delivery),
    /// This many messages were left out because they were not read in time.
    Missed(u64),
    /// These messages are missing at this place; only subscriptions in order report it.
    Gap(GapView),
}

/// A stream of deliveries. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Events {
    endpoint: Endpoint,
    body: Incoming,
    blocks: Blocks,
}

impl Events {
    pub(super) const fn new(endpoint: Endpoint, body: Incoming) -> Self {
        Self {
            endpoint,
            body,
            blocks: Blocks::new(MAX_EVENT),
        }
    }

    /// The next event, or `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Result<SubscriptionEvent, ClientError>> {
        loop {
            let (name, data) = match self.next_raw().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            let event = match name.as_str() {
                "message" => serde_json::from_str(&data).map(SubscriptionEvent::Delivery),
                "missed" => serde_json::from_str(&data)
                    .map(|MissedEvent { count }| SubscriptionEvent::Missed(count)),
                "gap" => serde_json::from_str(&data).map(SubscriptionEvent::Gap),
                // Later versions of nodes may send other events.
                _ => continue,
            };
            return Some(event.map_err(|error| self.garbled(error.to_string())));
        }
    }

    /// The name and data of the next server-sent event; comments are skipped.
    pub(super) async fn next_raw(&mut self) -> Option<Result<(String, String), ClientError>> {
        loop {
            while let Some(block) = self.blocks.next() {
                if let Some(event) = parse_event(&block) {
                    return Some(Ok(event));
                }
            }
            let Ok(frame) = tokio::time::timeout(SILENCE, self.body.frame()).await else {
                let (endpoint, seconds) = (self.endpoint.clone(), SILENCE.as_secs());
                let reason = format!("no sign of life for {seconds} s");
                return Some(Err(ClientError::Unreachable { endpoint, reason }));
            };
            let frame = match frame? {
                Ok(frame) => frame,
                Err(error) => {
                    let (endpoint, reason) = (self.endpoint.clone(), error.to_string());
                    return Some(Err(ClientError::Unreachable { endpoint, reason }));
                }
            };
            let data = frame.data_ref().map(|data| data.as_ref());
            if !self.blocks.take(data.unwrap_or_default()) {
                return Some(Err(
                    self.garbled("an event is longer than this client accepts".to_owned())
                ));
            }
        }
    }

    fn garbled(&self, problem: String) -> ClientError {
        let endpoint = self.endpoint.clone();
        ClientError::Garbled { endpoint, problem }
    }
}

#[derive(Deserialize)]
struct MissedEvent {
    count: u64,
}

/// Collects bytes into whole blocks, each of which ends with an empty line.
#[derive(Debug)]
struct Blocks {
    bytes: Vec<u8>,
    /// No block ends before this offset.
    searched: usize,
    most: usize,
}

impl Blocks {
    const fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            searched: 0,
            most,
        }
    }

    /// Take the bytes that came. Returns `false`, and takes none, if more than `most` bytes would
    /// wait then.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= self.most;
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    /// The next whole block.
    fn next(&mut self) -> Option<String> {
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") else {
            // The last byte may be the first of a pair.
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let end = self.searched + end + 2;
        self.searched = 0;
        let block: Vec<u8> = self.bytes.drain(..end).collect();
        Some(String::from_utf8_lossy(&block).into_owned())
    }
}

fn parse_event(block: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name));
        let values: Vec<&str> = lines
            .filter_map(|rest| rest.strip_prefix(':'))
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
            .collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    Some((field("event")?, field("data").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed() {
        let event = parse_event("event: message\ndata: {\"a\":1}\n\n");
        assert_eq!(event, Some(("message".into(), "{\"a\":1}".into())));
        assert_eq!(parse_event(":\n\n"), None);
    }

    #[test]
    fn blocks_are_found_however_the_bytes_come_and_are_bounded() {
        let text = b"a\n\nbc\n\n\n\nd";
        for size in 1..=text.len() {
            let mut blocks = Blocks::new(64);
            let mut found = Vec::new();
            for part in text.chunks(size) {
                assert!(blocks.take(part));
                found.extend(std::iter::from_fn(|| blocks.next()));
            }
            assert_eq!(found, ["a\n\n", "bc\n\n", "\n\n"], "in parts of {size}");
        }
        let mut blocks = Blocks::new(4);
        assert!(blocks.take(b"abcd"));
        assert!(!blocks.take(b"e"));
        assert_eq!(blocks.next(), None);
        let mut blocks = Blocks::new(4);
        assert!(blocks.take(b"ab\n\n"));
        assert_eq!(blocks.next().as_deref(), Some("ab\n\n"));
        assert!(blocks.take(b"cdef"), "room again");
    }
}
