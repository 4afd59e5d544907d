//! Replacing the signatures of open messages, when this node signs by another key from now on.
//!
//! A receiver judges a signature when a copy comes, so it is valid only as long as the certificate
//! with it. If the certificate is replaced and revoked while a message is open, even members that
//! have delivered the message could not confirm it any more. The mark of the origin would then
//! stop, and with it all later messages. The content is the same, so a new signature makes no copy
//! contradict another.

use binomesh_overlay::Id;

use super::Origin;
use crate::packet::{Content, Signature};
use crate::relay::context::Context;
use crate::relay::custody::Custody;

impl<I: Id> Origin<I> {
    /// Replace the signatures of all open messages. Copies that are sent later carry the new
    /// signature, and the messages are issued again soon to their outstanding members. A message
    /// for which `sign` returns none keeps its signature.
    pub(in crate::relay) fn resign(
        &mut self,
        mut sign: impl FnMut(Content<'_, I>) -> Option<Signature>,
        custody: &mut Custody<I>,
        cx: &mut Context<'_, I>,
    ) {
        for sequence in self.open.sequences() {
            let message = self.open.get(sequence);
            let Some(signature) = message.and_then(|message| sign(message.content())) else {
                continue;
            };
            if let Some(id) = self.open.sign(sequence, &signature) {
                custody.sign(id, &signature, cx);
            }
        }
        self.hasten_reissues(custody, cx);
    }
}
