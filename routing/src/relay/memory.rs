//! How many bytes a relay holds, for whoever watches that it stays within its bounds.

use binomesh_overlay::Id;

use super::{Parts, Relay};

/// The bytes that wait in one place of a relay, and their bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Which place: `duties`, `messages`, `kept` or `unknown-epoch`.
    pub name: &'static str,
    /// Bytes that wait in this place.
    pub bytes: usize,
    /// The most bytes that may wait in it.
    pub bound: usize,
}

impl<I: Id> Relay<I> {
    /// The bytes in four places: duties for others, own open messages, the part of these that
    /// is kept for absent members, and packets of an unknown epoch.
    pub fn memory(&self) -> [Memory; 4] {
        let memory = |name, bytes, bound| Memory { name, bytes, bound };
        let config = &self.config;
        let Parts {
            receiver,
            custody,
            origin,
            ..
        } = &self.parts;
        [
            memory("duties", custody.bytes(), config.max_duty_bytes),
            memory("messages", origin.bytes(), config.max_message_bytes),
            memory("kept", origin.kept_bytes(), config.max_kept_bytes),
            memory(
                "unknown-epoch",
                receiver.held_bytes(),
                config.max_held_bytes,
            ),
        ]
    }
}
