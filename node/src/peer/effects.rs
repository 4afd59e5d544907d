//! Passes on the effects of a peer's three machines: to the host, or to the other machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use binomesh_overlay::overlay::MAX_ACQUAINTANCES;
use binomesh_overlay::{self as overlay, Effect, Id, Outbox};
use binomesh_routing as routing;
use binomesh_routing::View;
use binomesh_routing::collective;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Event, Message, Out, Peer, Timer, mail};

impl<I: Id + Serialize + DeserializeOwned> Peer<I> {
    pub(super) fn on_overlay(&mut self, input: overlay::Input<I>, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.overlay.handle(input, &mut effects);
        let mut is_view_new = false;
        for effect in effects {
            match effect {
                Effect::Send { to, message } => out.send(to, Message::Overlay(message)),
                Effect::Arm { timer, after } => out.arm(Timer::Overlay(timer), after),
                Effect::Disarm { timer } => out.disarm(Timer::Overlay(timer)),
                Effect::Connect(peer) => out.connect(peer),
                // The relay may still want this link.
                Effect::Disconnect(peer) if self.relay_links.contains(&peer) => {}
                Effect::Disconnect(peer) => out.disconnect(peer),
                Effect::Doubt(peer) => out.doubt(peer),
                Effect::Event(event) => {
                    match event {
                        overlay::Event::View => is_view_new = true,
                        overlay::Event::Down(peer) => {
                            self.on_relay(routing::Input::PeerDown(peer), out);
                            self.on_collective(collective::Input::Down(peer), out);
                        }
                        overlay::Event::Left { peer, .. } => {
                            self.on_relay(routing::Input::PeerLeft(peer), out);
                            self.on_collective(collective::Input::Left(peer), out);
                        }
                        overlay::Event::Up(peer) => {
                            self.on_relay(routing::Input::PeerUp(peer), out);
                            self.on_collective(collective::Input::Up(peer), out);
                        }
                        overlay::Event::Expired(peer) => {
                            self.on_relay(routing::Input::PeerUp(peer), out);
                        }
                        overlay::Event::Seeking { .. }
                        | overlay::Event::Relinked
                        | overlay::Event::Renumbered { .. } => {}
                    }
                    out.event(Event::Overlay(event));
                }
            }
        }
        if is_view_new && let Some(view) = self.view() {
            self.on_relay(routing::Input::View(view.clone()), out);
            self.tell_collectives(view, out);
        }
    }

    pub(super) fn on_relay(&mut self, input: routing::Input<I>, out: &mut Out<I>) {
        let mut effects = Outbox::new();
        self.relay.handle(input, &mut effects);
        self.pass_on(effects, out);
    }

    pub(super) fn on_collective(&mut self, input: collective::Input<I>, out: &mut Out<I>) {
        use collective::Effect;
        let mut effects = Vec::new();
        self.collectives.handle(input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.mail.push(to, &message),
                Effect::Frame { to, frame } => out.send(to, Message::Collective(frame)),
                Effect::Arm { timer, after } => out.arm(Timer::Collective(timer), after),
                Effect::Disarm(timer) => out.disarm(Timer::Collective(timer)),
                Effect::Record(key) => out.event(Event::Record(key)),
                Effect::Answer { call, outcome } => out.event(Event::Answer { call, outcome }),
            }
        }
    }

    /// Pass on the effects of the relay.
    pub(super) fn pass_on(&mut self, effects: routing::Effects<I>, out: &mut Out<I>) {
        let mut is_roster_new = false;
        for effect in effects {
            match effect {
                Effect::Send { to, message } => out.send(to, Message::Relay(message)),
                Effect::Arm { timer, after } => out.arm(Timer::Relay(timer), after),
                Effect::Disarm { timer } => out.disarm(Timer::Relay(timer)),
                Effect::Connect(peer) => {
                    self.relay_links.insert(peer);
                    out.connect(peer);
                }
                Effect::Disconnect(peer) => {
                    self.relay_links.remove(&peer);
                    if !self.overlay.claims(peer) {
                        out.disconnect(peer);
                    }
                }
                Effect::Doubt(peer) => out.doubt(peer),
                Effect::Event(routing::Event::Deliver(delivery))
                    if mail::is_of_collectives(&delivery.topic) =>
                {
                    let from = delivery.first.origin;
                    for message in mail::messages_of(&delivery) {
                        self.on_collective(collective::Input::Message { from, message }, out);
                    }
                }
                Effect::Event(routing::Event::Receipt(receipt)) if self.mail.close(&receipt) => {}
                Effect::Event(event) => {
                    is_roster_new |= matches!(event, routing::Event::RosterComplete(_));
                    out.event(Event::Relay(event));
                }
            }
        }
        if is_roster_new {
            self.meet_members();
            self.note_members();
            self.recall_members(out);
            if let Some(view) = self.view() {
                self.tell_collectives(view, out);
            }
        }
    }

    fn view(&self) -> Option<View<I>> {
        let fingers = self.overlay.fingers()?;
        Some(View {
            placement: *fingers.stamp(),
            clockwise: fingers.clockwise().to_vec(),
            counterclockwise: fingers.counterclockwise().to_vec(),
        })
    }

    /// The overlay decides which peers are down or have left. Undo every such mark in the relay
    /// that the overlay does not share.
    pub(super) fn recall_the_lost(&mut self, out: &mut Out<I>) {
        let down: BTreeSet<I> = self.overlay.down().collect();
        let verdicts = self.relay.down().filter(|peer| !down.contains(peer));
        let goodbyes = self.relay.departed();
        let goodbyes = goodbyes.filter(|peer| !self.overlay.has_left(*peer));
        let back: BTreeSet<I> = verdicts.chain(goodbyes).collect();
        for peer in back {
            self.on_relay(routing::Input::PeerUp(peer), out);
        }
        self.recall_members(out);
    }

    /// Tell the collectives the tables of the newest epoch, and its members if the roster is
    /// complete.
    fn tell_collectives(&mut self, view: View<I>, out: &mut Out<I>) {
        let roster = self.relay.roster().filter(|roster| roster.is_complete());
        let members = roster.map(|roster| roster.peers()).unwrap_or_default();
        if !members.is_empty() {
            let present = members.iter().copied().flatten().collect();
            let input = collective::Input::Members(Arc::new(present));
            self.on_collective(input, out);
        }
        self.on_collective(collective::Input::View { view, members }, out);
    }

    /// Tell the collectives which members are back: those that they still count as down or left and
    /// the overlay does not. A verdict may expire without a message from the member.
    fn recall_members(&mut self, out: &mut Out<I>) {
        let Some(roster) = self.relay.roster().filter(|roster| roster.is_complete()) else {
            return;
        };
        let is_there = |peer: &I| {
            let is_called_down = self.overlay.down().any(|down| down == *peer);
            roster.rank_of(*peer).is_some() && !is_called_down && !self.overlay.has_left(*peer)
        };
        let back: Vec<I> = self.collectives.gone().filter(is_there).collect();
        for peer in back {
            self.on_collective(collective::Input::Up(peer), out);
        }
    }

    /// Tell the overlay which peers were members before and which are now.
    fn note_members(&mut self) {
        let Some(roster) = self.relay.roster().filter(|roster| roster.is_complete()) else {
            return;
        };
        let before = std::mem::replace(&mut self.members, roster.peers());
        let before = before.iter().copied().flatten();
        let is_member = |peer| roster.rank_of(peer).is_some();
        self.overlay.note_members(before, is_member);
    }

    /// Introduce the overlay to members at equal distances all around the ring, while their
    /// addresses can still be asked for.
    fn meet_members(&mut self) {
        let Some(placement) = self.overlay.placement() else {
            return;
        };
        let names = self.relay.roster().map(|roster| roster.peers());
        let is_of = |names: &Arc<Vec<_>>| names.len() == placement.population.get() as usize;
        let Some(names) = names.filter(is_of) else {
            return;
        };
        let steps = (names.len() as u64).min(MAX_ACQUAINTANCES as u64 + 1);
        let at = |step: u64| {
            let ahead = (step * names.len() as u64 / steps) as u32;
            let rank = placement.rank.ahead(ahead, placement.population);
            names.get(rank.0 as usize).copied().flatten()
        };
        let is_member = |id| names.contains(&Some(id));
        self.overlay.meet((1..steps).filter_map(at), is_member);
    }
}
