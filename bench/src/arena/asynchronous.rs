//! The asynchronous scheduler of [BMG09] §4: in every phase each process either
//! consumes one message or applies its spontaneous rules.
//!
//! A waiting message goes before a spontaneous rule: the other order lets every
//! process of an unfinished ring repeat itself and never listen. What is sent in
//! a phase can be consumed from the next one on.

use binomesh_overlay::stamp::Stamp;

use super::convergence::Scheduler;
use super::mailbox::{Discipline, Mailbox};
use super::member::Member;
use super::{Arena, Letter};

/// The letters that wait, and those of this phase.
#[derive(Debug, Clone)]
pub struct Asynchronous<K> {
    mailbox: Mailbox<K>,
    sent: Vec<Letter<K>>,
}

impl<K: Copy> Asynchronous<K> {
    /// No letters yet, for so many processes.
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
