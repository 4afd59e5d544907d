//! The payloads in a packet: that of one message, or those of several in a row.
//!
//! A packet with one short message costs a relay as much as a packet with fifty. So an origin with
//! more messages than it may have open packets puts several messages into one packet. The receiver
//! takes them apart again, each with a sequence of its own. All messages of a packet share its
//! fate: a member whose bound is below the longest payload refuses the whole packet.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// The payloads of messages with consecutive sequences, end to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Payloads {
    /// The end of each payload but the last, in bytes from the beginning of all.
    cuts: Vec<u32>,
    /// The bytes are no part of the serialised head. They follow it uncopied, see [`crate::wire`].
    #[serde(skip)]
    bytes: Bytes,
}

impl Payloads {
    /// The most messages in one packet.
    pub const MAX_COUNT: usize = 256;
    /// The most bytes that several payloads have together; one alone may be longer.
    pub const MAX_BYTES: usize = 256 << 10;

    /// Join these payloads in order. `None` if there are none, or too many messages or bytes for
    /// one packet.
    pub fn join(payloads: &[Bytes]) -> Option<Self> {
        if let [alone] = payloads {
            return Some(alone.clone().into());
        }
        let total: usize = payloads.iter().map(Bytes::len).sum();
        if payloads.len() > Self::MAX_COUNT || total > Self::MAX_BYTES {
            return None;
        }
        let mut bytes = BytesMut::with_capacity(total);
        let mut cuts = Vec::with_capacity(payloads.len());
        for payload in payloads {
            bytes.extend_from_slice(payload);
            cuts.push(bytes.len() as u32);
        }
        cuts.pop()?;
        Some(Self {
            cuts,
            bytes: bytes.freeze(),
        })
    }

    /// How many messages these payloads belong to.
    pub fn count(&self) -> u64 {
        self.cuts.len() as u64 + 1
    }

    /// How many bytes all payloads have together.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all payloads together have no byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of all payloads.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Each payload, uncopied and in order.
    pub fn iter(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.ranges().map(|range| self.bytes.slice(range))
    }

    /// The length of the longest payload.
    pub fn longest(&self) -> usize {
        self.ranges().map(|range| range.len()).max().unwrap_or(0)
    }

    /// The range of each payload. The cuts were checked when they came from a peer.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let cuts = || self.cuts.iter().map(|cut| *cut as usize);
        let starts = [0].into_iter().chain(cuts());
        let ends = cuts().chain([self.bytes.len()]);
        starts.zip(ends).map(|(start, end)| start..end)
    }

    /// Set the bytes that follow a head from a peer. Returns whether the cuts fit the bytes and are
    /// within bounds.
    pub(crate) fn fill(&mut self, bytes: Bytes) -> bool {
        let in_order = self.cuts.is_sorted();
        let fits = |end: &u32| *end as usize <= bytes.len();
        let are_several = !self.cuts.is_empty();
        let are_few = self.cuts.len() < Self::MAX_COUNT && bytes.len() <= Self::MAX_BYTES;
        let is_good = in_order && self.cuts.last().is_none_or(fits) && (!are_several || are_few);
        self.bytes = bytes;
        is_good
    }

    /// Forget the cuts and bytes.
    pub(crate) fn clear(&mut self) {
        self.cuts = Vec::new();
        self.bytes = Bytes::new();
    }
}

impl From<Bytes> for Payloads {
    fn from(alone: Bytes) -> Self {
        Self {
            cuts: Vec::new(),
            bytes: alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[usize]) -> Vec<Bytes> {
        let payload = |(value, length)| vec![value as u8; length].into();
        lengths.iter().copied().enumerate().map(payload).collect()
    }

    #[test]
    fn joined_payloads_come_apart_again() {
        for lengths in [
            &[0][..],
            &[7],
            &[3, 0, 5],
            &[0, 0],
            &[1; 256],
            &[200 << 10, 56 << 10],
        ] {
            let payloads = of(lengths);
            let joined = Payloads::join(&payloads).expect("within bounds");
            assert_eq!(joined.iter().collect::<Vec<_>>(), payloads);
            assert_eq!(joined.count(), payloads.len() as u64);
            assert_eq!(joined.longest(), lengths.iter().copied().max().unwrap());
        }
        for lengths in [&[][..], &[1; 257], &[200 << 10, (56 << 10) + 1]] {
            assert_eq!(Payloads::join(&of(lengths)), None);
        }
        assert!(
            Payloads::join(&of(&[1 << 20])).is_some(),
            "alone it may be long"
        );
    }

    #[test]
    fn cuts_that_do_not_fit_are_told() {
        let bytes = Bytes::from_static(b"abcdef");
        for (cuts, good) in [
            (vec![], true),
            (vec![0, 6], true),
            (vec![2, 2], true),
            (vec![3, 2], false),
            (vec![7], false),
            (vec![1; Payloads::MAX_COUNT], false),
        ] {
            let mut payloads = Payloads {
                cuts: cuts.clone(),
                bytes: Bytes::new(),
            };
            assert_eq!(payloads.fill(bytes.clone()), good, "{cuts:?}");
        }
    }
}
