//! Messages from peers, from the transport to the machines.
//!
//! Signatures are judged before a copy reaches a machine: a forged one is noted nowhere, so
//! the true one is still new when it comes.

use binomesh_overlay::PeerId;
use binomesh_overlay::detector::Goodbye;
use binomesh_overlay::quic::Forged;
use binomesh_routing as routing;

use super::Host;
use super::proof::Unproven;
use crate::peer::{Input, Message};

impl Host {
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
}
