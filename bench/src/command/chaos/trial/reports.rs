//! The lives and reports of the nodes go into the books.

use binomesh::peer::Event;
use binomesh::world::ReportedEvent;
use binomesh_overlay as overlay;
use binomesh_routing as routing;
use binomesh_routing::collective::Class;

use super::Trial;

impl Trial<'_> {
    /// Enter into the books the lives that began and ended, and what nodes report.
    pub(super) fn observe(&mut self) {
        for turn in self.world.take_turns() {
            self.collectives.on_turn(&turn);
            match turn.begins {
                true => self.checker.on_start(&turn),
                false => self.checker.on_end(turn.at, turn.id, turn.boot),
            }
        }
        for told in self.world.take_events() {
            self.note_goodbye(&told);
            if let Event::Overlay(overlay::overlay::Event::Expired(_)) = told.event {
                continue;
            }
            if self.told == 0 {
                self.first_told = format!("{told:?}");
            }
            self.told += 1;
            match &told.event {
                Event::Overlay(event) => {
                    if *event == overlay::overlay::Event::View {
                        self.on_view(&told);
                    }
                }
                Event::Relay(routing::Event::Deliver(delivery)) => {
                    for (id, _, payload) in delivery.messages() {
                        self.checker.on_delivery(&told, id, &payload);
                    }
                }
                Event::Relay(routing::Event::Receipt(receipt)) => {
                    self.checker.on_receipt(&told, receipt);
                }
                Event::Relay(routing::Event::RosterComplete(_)) => {}
                Event::Relay(routing::Event::Drained) => self.checker.on_drained(&told),
                Event::Record(_) => {}
                Event::Answer { call, outcome } => {
                    self.collectives.on_answer(&told, *call, outcome);
                }
            }
        }
    }

    fn note_goodbye(&mut self, told: &ReportedEvent) {
        use overlay::overlay::Event as Word;
        match told.event {
            Event::Overlay(Word::Down(peer)) => {
                self.collectives.on_word(told.at, peer, Class::Dead);
            }
            Event::Overlay(Word::Left { peer, .. }) => {
                self.collectives.on_word(told.at, peer, Class::Left);
            }
            _ => {}
        }
        match told.event {
            Event::Overlay(Word::Left { peer, boot }) => self.checker.on_left(told, peer, boot),
            Event::Overlay(Word::Up(peer) | Word::Down(peer) | Word::Expired(peer)) => {
                self.checker.on_other_word(told, peer);
            }
            _ => {}
        }
    }

    fn on_view(&mut self, told: &ReportedEvent) {
        let peer = self.world.peer(told.by);
        if let Some(placement) = peer.and_then(|peer| peer.overlay().placement()) {
            let (at, id, boot) = (told.at, told.by, told.boot);
            self.checker.on_place(at, id, boot, placement);
        }
    }
}
