//! Signatures of messages and goodbyes: makes this node's, and verifies those of others.

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::{Forged, Identity, Notary, NotaryError};
use binomesh_routing::packet::{Content, CustodyRefusal, Packet, Signature, SigningFailed};

use super::Host;
use crate::catalogue;
use crate::command::RenewError;
use crate::expiry::Expiry;
use crate::peer::Input;
use crate::settings::Signatures;
use crate::state::wall_clock_seconds;

// A signature with the longest chain must fit into the head of a packet.
const _: () = assert!(
    4 + Notary::MAX_SIGNATURE + Notary::MAX_CHAIN <= Signature::MAX_BYTES,
    "a signature that is made must fit"
);

/// Why the signature of a copy is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproven {
    #[error(
        "the message is not signed by its origin, but the setting `signatures` requires a signature"
    )]
    Unsigned,
    #[error("the message is in the name of {0}, but {1}")]
    Forged(PeerId, Forged),
}

impl Unproven {
    pub(super) const fn refusal(&self) -> CustodyRefusal {
        match self {
            Self::Unsigned => CustodyRefusal::Unsigned,
            Self::Forged(..) => CustodyRefusal::Signature,
        }
    }

    /// The reason's name in metrics.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Forged(_, forged) if forged.is_without_judgement() => "unjudged",
            other => other.refusal().name(),
        }
    }
}

/// The notary of a node with this identity.
pub(super) fn notary(identity: &Identity, wanted: Signatures) -> Result<Notary, NotaryError> {
    Notary::new(identity, wanted.signs())
}

impl Host {
    /// Feed the peer the order to leave, with a signed goodbye if this node can sign it.
    pub(super) fn feed_goodbye(&mut self) {
        let proof = self.notary.sign_goodbye(self.state.boot);
        if proof.is_none() {
            tracing::warn!(
                "this node cannot sign its goodbye, since its key cannot sign or its certificate \
                 chain is too long; the others will take the node for dead"
            );
        }
        let proof = proof.map(|proof| proof.to_vec());
        self.feed(Input::Leave { proof });
    }

    /// Verify the signature of a copy, if it has one or needs one.
    pub(super) fn judge(&mut self, from: PeerId, packet: &Packet<PeerId>) -> Result<(), Unproven> {
        let origin = packet.header.errand.id.origin;
        let Some(signature) = &packet.header.signature else {
            return match self.config.signatures.requires() {
                true => Err(Unproven::Unsigned),
                false => Ok(()),
            };
        };
        let forged = |forged| Unproven::Forged(origin, forged);
        // Serialising a packet that was parsed cannot fail.
        let digest = packet.content().digest();
        let digest = digest.map_err(|_| forged(Forged::Malformed))?;
        let before = self.notary.chains_judged();
        let notary = &mut self.notary;
        let verified = notary.verify(from, origin, &digest, signature.bytes());
        let judged = notary.chains_judged() - before;
        if judged > 0 {
            catalogue::CHAINS_JUDGED.get().increment(judged);
        }
        verified.map_err(forged)
    }

    /// Replace the credentials, and sign the open messages again with the new ones: the former
    /// certificate may be revoked or expire before all members have these messages.
    pub(super) fn renew(&mut self, identity: &Identity) -> Result<(), RenewError> {
        if let Some(name) = identity.lost_list(&self.lists) {
            return Err(RenewError::NoList(name));
        }
        let notary = notary(identity, self.config.signatures)?;
        self.transport.renew(identity)?;
        self.lists = identity.lists();
        self.notary = notary;
        self.expiry = Expiry::new(&identity.terms());
        self.expiry.attend(wall_clock_seconds());
        if self.config.signatures.signs() {
            let notary = &self.notary;
            let sign = |content: Content<'_, PeerId>| signed(notary, &content).ok();
            self.peer.resign(sign, &mut self.out);
            self.perform();
            // Messages may have waited because the former key had failed.
            self.note_room();
        }
        Ok(())
    }
}

/// Sign for this node; a failure of its key is counted.
pub(super) fn signed(
    notary: &Notary,
    content: &Content<'_, PeerId>,
) -> Result<Signature, SigningFailed> {
    let bytes = content
        .digest()
        .ok()
        .and_then(|digest| notary.sign(&digest));
    bytes.and_then(Signature::new).ok_or_else(|| {
        catalogue::SIGNATURES_FAILED.get().increment(1);
        tracing::error!("the key of this node cannot sign messages");
        SigningFailed
    })
}
