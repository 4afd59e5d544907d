//! Messages from peers on their way from the transport to the machines.
//!
//! The host verifies signatures before a copy reaches a machine. A forged copy leaves no trace
//! there, so the genuine one is still new when it comes.

use binomesh_overlay::PeerId;
use binomesh_overlay::detector::Goodbye;
use binomesh_routing as routing;

use super::Host;
use super::proof::Unproven;
use crate::peer::{Input, Message};

impl Host {
    /// Feed a message to the machines. Of a packet whose signature is not accepted, feed only its
    /// errand and the reason. For a goodbye see [`Self::take_goodbye`].
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

    /// Take a goodbye. One that would change nothing is not verified. A goodbye of this node's own
    /// identity with a higher boot proves a later life, which has ended: this process goes on in a
    /// new life above that boot.
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
            Err(forged) if is_own || forged.is_without_judgement() => {
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
}
