//! What an origin's signature is about, and how it travels.
//!
//! Signed is what no copy may change: the name of the first message, how many there are
//! and where each ends, topic, place in an order, question and bytes. Not signed is what changes on the way:
//! epoch, strategy, round and part, ranks, names, the mark, and whether it is kept by now.
//!
//! Not here: keys, certificates and their judgement. The relay hands a signature on as it
//! came, and [`crate::Input::Unproven`] tells it of a copy whose signature is not good.

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Confirmation, EncodeError, PacketId, Payloads, Topic};
use crate::order::Order;

/// Who vouches for the content of a packet, in bytes that hosts agree on. Clones share
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature(Bytes);

impl Signature {
    /// The longest one: with the largest lists the head stays below its bound.
    pub const MAX_BYTES: usize = 9 << 10;

    /// These bytes, if they are not too many, nor none.
    pub fn new(bytes: Bytes) -> Option<Self> {
        Some(Self(bytes)).filter(Self::is_within_bounds)
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(crate) fn is_within_bounds(&self) -> bool {
        (1..=Self::MAX_BYTES).contains(&self.0.len())
    }
}

/// The key has failed, so there is no signature where one is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key does not sign")]
pub struct SigningFailed;

/// What is signed of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a, I> {
    /// The name of the first message in it.
    pub id: PacketId<I>,
    /// What its origin wants to know of each member.
    pub confirmation: Confirmation,
    /// What it is about.
    pub topic: &'a Topic,
    /// Where it stands among its origin's others, if they are to come in order.
    pub order: Option<Order>,
    /// The user's bytes.
    pub payloads: &'a Payloads,
}

impl<I: Id + Serialize> Content<'_, I> {
    /// No other hash of this project has this context, and no other content this digest.
    const CONTEXT: &'static str = "binomesh relay 7: content of a packet, signed by its origin";

    /// Its digest: of everything but the bytes in postcard, which ends where it ends, and
    /// then of the bytes.
    pub fn digest(&self) -> Result<[u8; 32], EncodeError> {
        let head = (
            self.id,
            self.confirmation,
            self.topic,
            self.order,
            self.payloads,
        );
        let head = postcard::to_extend(&head, Vec::with_capacity(128)).map_err(EncodeError::of)?;
        let mut hasher = blake3::Hasher::new_derive_key(Self::CONTEXT);
        hasher.update(&head);
        hasher.update(self.payloads.bytes());
        Ok(*hasher.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(
        id: (u32, u64, u64),
        confirmation: Confirmation,
        topic: &str,
        payloads: &[&'static [u8]],
    ) -> [u8; 32] {
        digest_of(id, confirmation, topic, None, payloads)
    }

    fn digest_of(
        id: (u32, u64, u64),
        confirmation: Confirmation,
        topic: &str,
        order: Option<(u64, u64)>,
        payloads: &[&'static [u8]],
    ) -> [u8; 32] {
        let payloads: Vec<Bytes> = payloads.iter().map(|one| Bytes::from_static(one)).collect();
        let content = Content {
            id: PacketId {
                origin: id.0,
                boot: id.1,
                sequence: id.2,
            },
            confirmation,
            topic: &Topic::new(topic).unwrap(),
            order: order.map(|(stream, number)| Order { stream, number }),
            payloads: &Payloads::join(&payloads).unwrap(),
        };
        content.digest().unwrap()
    }

    /// Whatever of the content is another, the digest is another: no two of these are
    /// equal, though the bytes of some laid end to end are.
    #[test]
    fn all_of_the_content_counts() {
        use Confirmation::{Acknowledged, Relayed};
        let all = [
            digest((1, 2, 3), Relayed, "t", &[b"ab"]),
            digest((2, 2, 3), Relayed, "t", &[b"ab"]),
            digest((1, 3, 3), Relayed, "t", &[b"ab"]),
            digest((1, 2, 4), Relayed, "t", &[b"ab"]),
            digest((1, 2, 3), Acknowledged, "t", &[b"ab"]),
            digest((1, 2, 3), Relayed, "u", &[b"ab"]),
            digest((1, 2, 3), Relayed, "ta", &[b"b"]),
            digest((1, 2, 3), Relayed, "t", &[b"ac"]),
            digest((1, 2, 3), Relayed, "t", &[b"abb"]),
            digest((1, 2, 3), Relayed, "t", &[b"a", b"b"]),
            digest((1, 2, 3), Relayed, "t", &[b"", b"ab"]),
            digest((1, 2, 3), Relayed, "t", &[b"", b"", b"ab"]),
            digest_of((1, 2, 3), Relayed, "t", Some((0, 0)), &[b"ab"]),
            digest_of((1, 2, 3), Relayed, "t", Some((1, 0)), &[b"ab"]),
            digest_of((1, 2, 3), Relayed, "t", Some((0, 1)), &[b"ab"]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[0], digest((1, 2, 3), Relayed, "t", &[b"ab"]));
    }

    /// Nodes of one version agree on it.
    #[test]
    fn the_digest_does_not_change() {
        let digest = digest(
            (1, 300, 2),
            Confirmation::Delivered,
            "hi",
            &[b"pay", b"load"],
        );
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let known = "8ac99ff8d8e82218640562b2f703f40ed71f082000ed6b903a49a1e544ab3728";
        assert_eq!(hex, known);
    }

    #[test]
    fn a_signature_is_neither_empty_nor_too_long() {
        for (length, fits) in [
            (0, false),
            (1, true),
            (Signature::MAX_BYTES, true),
            (Signature::MAX_BYTES + 1, false),
        ] {
            assert_eq!(Signature::new(vec![7; length].into()).is_some(), fits);
        }
    }
}
