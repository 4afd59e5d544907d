//! The asynchronous scheduler of [BMG09] §4: in every phase each process either
//! consumes one message or applies its spontaneous rules.
//!
//! A waiting message goes before a spontaneous rule. In the other order every process of an
//! unfinished ring would repeat itself and never listen. A message can be consumed from the phase
//! after the one in which it was sent.

use binomesh_overlay::stamp::Stamp;

use super::convergence::Scheduler;
use super::mailbox::{Discipline, Mailbox};
use super::member::Member;
use super::{Arena, Letter};

/// The letters that wait, and the letters that were sent in this phase.
#[derive(Debug, Clone)]
pub struct Asynchronous<K> {
    mailbox: Mailbox<K>,
    sent: Vec<Letter<K>>,
}

impl<K: Copy> Asynchronous<K> {
    /// A scheduler without letters, for this many processes.
    pub fn new(discipline: Discipline, processes: usize) -> Self {
        Self {
            mailbox: Mailbox::new(discipline, processes),
            sent: Vec::new(),
        }
    }
}

impl<S: Stamp> Scheduler<S> for Asynchronous<S::Mark> {
    fn post(&mut self, letters: &mut Vec<Letter<S::Mark>>) {
        letters
            .drain(..)
            .for_each(|letter| self.mailbox.push(letter));
    }

    fn phase(&mut self, arena: &mut Arena<S>) -> usize {
        let mut delivered = 0;
        for index in 0..arena.processes() {
            let me = Member::at(index);
            if let Some(letter) = self.mailbox.pop(me) {
                arena.deliver(letter, &mut self.sent);
                delivered += 1;
            } else {
                arena.apply_spontaneous(me, &mut self.sent);
            }
        }
        for letter in self.sent.drain(..) {
            self.mailbox.push(letter);
        }
        delivered
    }

    fn waiting(&self) -> usize {
        self.mailbox.len()
    }
}
