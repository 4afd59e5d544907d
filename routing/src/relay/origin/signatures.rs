//! Signing anew what is open, when this node signs by another key from now on.
//!
//! A signature is judged when a copy comes, so it stands only as long as the certificate
//! with it: renewed and revoked while a message is open, even members that have delivered
//! it could not say so any more, and its mark would hold up all that comes later. The
//! content is the same, so a signature may be replaced and no copy contradicts another.

use binomesh_overlay::Id;

use super::Origin;
use crate::packet::{Content, Signature};
use crate::relay::context::Context;
use crate::relay::custody::Custody;

impl<I: Id> Origin<I> {
    /// Sign all open messages anew: all copies that are still sent go with the new
    /// signature, and what is left is issued again soon. What `sign` has none for keeps
    /// what it has.
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
