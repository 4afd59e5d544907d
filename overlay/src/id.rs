//! The identity of a peer.

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The properties that a machine needs of an identifier: it can be copied, hashed and printed, and
/// it has a total order that breaks ties. The node uses [`PeerId`], the simulators use `u32`.
pub trait Id: Copy + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Copy + Ord + Hash + fmt::Debug + Send + Sync + 'static> Id for T {}

/// The lasting identity of a peer: 128 bits of the BLAKE3 hash of the SPIFFE URI
/// in its certificate, so that a renewed key keeps the identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerId([u8; 16]);

impl PeerId {
    /// The identity that a certificate's SPIFFE URI stands for.
    pub fn of_uri(uri: &str) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&blake3::hash(uri.as_bytes()).as_bytes()[..16]);
        Self(bytes)
    }

    /// The identity with exactly these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes of the identity.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a peer id: expected 32 hexadecimal digits")]
pub struct InvalidPeerId(String);

impl FromStr for PeerId {
    type Err = InvalidPeerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidPeerId(text.chars().take(64).collect());
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let id = PeerId::of_uri("spiffe://test/node/node-0");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, PeerId::of_uri("spiffe://test/node/node-1"));
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "",
            "00",
            "zz00000000000000000000000000000z",
            "+0000000000000000000000000000000",
        ] {
            assert!(text.parse::<PeerId>().is_err(), "{text}");
        }
    }
}
