//! The signature of an origin: which content it covers, and how it travels.
//!
//! The signature covers everything that no copy may change: the name of the first message, the
//! number of messages and the end of each, topic, order, confirmation and bytes. It does not cover
//! what changes on the way: epoch, strategy, round, part, ranks, names, `closed_below` and
//! `is_kept`.
//!
//! Not here: keys, certificates and their judgement. The relay hands a signature on as it came.
//! [`crate::Input::Unproven`] reports a copy whose signature is wrong, or missing although one is
//! required.

use binomesh_overlay::Id;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Confirmation, EncodeError, PacketId, Payloads, Topic};
use crate::order::Order;

/// A signature and the certificate for it, in bytes whose form the hosts agree on. Clones share
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature(Bytes);

impl Signature {
    /// The longest signature, in bytes and with its certificate. Even with the largest lists the
    /// head of a message stays below its bound.
    pub const MAX_BYTES: usize = 9 << 10;

    /// A signature of these bytes; `None` if they are too many or none.
    pub fn new(bytes: Bytes) -> Option<Self> {
        Some(Self(bytes)).filter(Self::is_within_bounds)
    }

    /// The bytes of the signature.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(crate) fn is_within_bounds(&self) -> bool {
        (1..=Self::MAX_BYTES).contains(&self.0.len())
    }
}

/// The key failed, so there is no signature although the settings want one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key of this node cannot sign messages")]
pub struct SigningFailed;

/// The content of a packet that its origin signs.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a, I> {
    /// The name of the first message in the packet.
    pub id: PacketId<I>,
    /// The confirmation that the origin wants from each member.
    pub confirmation: Confirmation,
    /// The topic of the message.
    pub topic: &'a Topic,
    /// The place of the message in its stream, if it is published in order.
    pub order: Option<Order>,
    /// The payloads of the users.
    pub payloads: &'a Payloads,
}

impl<I: Id + Serialize> Content<'_, I> {
    /// The context of the hash. No other hash of this project uses it.
    const CONTEXT: &'static str = "binomesh relay 7: content of a packet, signed by its origin";

    /// The digest of the content: first of everything but the bytes, in postcard, which marks its
    /// own end, and then of the bytes.
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

    /// Any change of the content changes the digest. No two of these contents are equal, although
    /// some have the same bytes end to end.
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

    /// The digest is the same at all nodes of one version.
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
