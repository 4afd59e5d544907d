//! Origin signatures, where messages leave and enter the node.
//!
//! They are made as the relay takes a message, and judged before a copy reaches a machine:
//! a forged one is noted nowhere, so the true one is still new when it comes.

use binomesh_overlay::PeerId;
use binomesh_overlay::detector::Goodbye;
use binomesh_overlay::quic::{Forged, Identity, Notary, NotaryError};
use binomesh_routing::packet::{Content, Packet, Refusal, Signature, SigningFailed};
use binomesh_routing::{self as routing, PublishError};

use super::Host;
use crate::catalogue;
use crate::command::RenewError;
use crate::expiry::Expiry;
use crate::peer::{Input, Message};
use crate::settings::Signatures;
use crate::state::wall_clock_seconds;

// A signature with the longest chain travels in a head.
const _: () = assert!(
    4 + Notary::MAX_SIGNATURE + Notary::MAX_CHAIN <= Signature::MAX_BYTES,
    "a signature that is made must fit"
);

/// Why a copy is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Unproven {
    #[error("it is not signed by its origin, and the setting `signatures` requires that")]
    Unsigned,
    #[error("in the name of {0}: {1}")]
    Forged(PeerId, Forged),
}

impl Unproven {
    const fn refusal(&self) -> Refusal {
        match self {
            Self::Unsigned => Refusal::Unsigned,
            Self::Forged(..) => Refusal::Signature,
        }
    }

    /// Its name in metrics.
    const fn name(&self) -> &'static str {
        match self {
            Self::Forged(_, Forged::Unjudged) => "unjudged",
            other => other.refusal().name(),
        }
    }
}

/// The notary of a node with this identity.
pub(super) fn notary(identity: &Identity, wanted: Signatures) -> Result<Notary, NotaryError> {
    Notary::new(identity, wanted.signs())
}

impl Host {
    /// Hand the relay what the collectives have to say, signed if this node signs.
    pub(super) fn post(&mut self) {
        let (notary, wanted) = (&self.notary, self.config.signatures);
        let sign = |content: Content<'_, PeerId>| match wanted.signs() {
            true => signed(notary, &content).map(Some),
            false => Ok(None),
        };
        self.peer.post(sign, &mut self.out);
        self.perform();
    }

    /// Hand a message to the relay, signed if this node signs.
    pub(super) fn publish(
        &mut self,
        publish: routing::Publish<PeerId>,
    ) -> Result<routing::PacketId<PeerId>, PublishError<PeerId>> {
        let (notary, wanted) = (&self.notary, self.config.signatures);
        let sign = |content: Content<'_, PeerId>| {
            if !wanted.signs() {
                return Ok(None);
            }
            signed(notary, &content).map(Some)
        };
        self.peer.publish_signed(publish, sign, &mut self.out)
    }

    /// A message has come: feed it to the machines, or what is wrong with it.
    pub(super) fn take(&mut self, from: PeerId, message: Message<PeerId>) {
        if let Some(goodbye) = message.goodbye().cloned() {
            return self.take_goodbye(from, message, &goodbye);
        }
        let unproven = match &message {
            Message::Relay(routing::Message::Packet(packet)) => self.judge(from, packet).err(),
            _ => None,
        };
        let Some(unproven) = unproven else {
            return self.feed(Input::Message { from, message });
        };
        self.count_refused(from, unproven.name(), &unproven);
        if let Message::Relay(routing::Message::Packet(packet)) = message {
            self.feed(Input::Unproven {
                from,
                errand: packet.header.errand,
                reason: unproven.refusal(),
            });
        }
    }

    /// Say goodbye, signed.
    pub(super) fn feed_goodbye(&mut self) {
        let proof = self.notary.sign_goodbye(self.state.boot);
        if proof.is_none() {
            tracing::warn!("the key does not sign this node's goodbye; others will call it down");
        }
        let proof = proof.map(|proof| proof.to_vec());
        self.feed(Input::Leave { proof });
    }

    /// A goodbye has come. One that would change nothing is not looked at. A later life of
    /// this node has left if one says so that this process never was: it goes on above that.
    fn take_goodbye(&mut self, from: PeerId, message: Message<PeerId>, goodbye: &Goodbye<PeerId>) {
        let overlay = self.peer.overlay();
        if overlay.is_outdated(goodbye) {
            return self.feed(Input::Message { from, message });
        }
        let Goodbye { peer, boot, proof } = goodbye;
        let is_own = *peer == self.id && *boot > self.state.boot;
        if !is_own && !overlay.is_news(goodbye) {
            return;
        }
        let judged = self.notary.verify_goodbye(from, *peer, *boot, proof);
        let message = match judged {
            Ok(()) if is_own => return self.on_outlived(*boot),
            Ok(()) => message,
            Err(forged) if is_own || matches!(forged, Forged::Unjudged) => {
                let unproven = Unproven::Forged(*peer, forged);
                return self.count_refused(from, "goodbye", &unproven);
            }
            Err(forged) => {
                let unproven = Unproven::Forged(*peer, forged);
                self.count_refused(from, "goodbye", &unproven);
                Message::unproven(goodbye)
            }
        };
        self.feed(Input::Message { from, message });
    }

    fn judge(&mut self, from: PeerId, packet: &Packet<PeerId>) -> Result<(), Unproven> {
        let origin = packet.header.errand.id.origin;
        let Some(signature) = &packet.header.signature else {
            return match self.config.signatures.requires() {
                true => Err(Unproven::Unsigned),
                false => Ok(()),
            };
        };
        let forged = |forged| Unproven::Forged(origin, forged);
        // What was parsed can be written.
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

    /// Go on with other credentials, with which what is open is signed anew: the former
    /// ones may be revoked, or expire, before all have it.
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
            // The former key may have failed.
            self.note_room();
        }
        Ok(())
    }
}

/// This node's signature. That its key fails is counted.
fn signed(notary: &Notary, content: &Content<'_, PeerId>) -> Result<Signature, SigningFailed> {
    let bytes = content
        .digest()
        .ok()
        .and_then(|digest| notary.sign(&digest));
    bytes.and_then(Signature::new).ok_or_else(|| {
        catalogue::SIGNATURES_FAILED.get().increment(1);
        tracing::error!("the key does not sign");
        SigningFailed
    })
}
