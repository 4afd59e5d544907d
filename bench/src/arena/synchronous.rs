//! The synchronous scheduler of [BMG09] §4: in every phase each process applies
//! its spontaneous rules and then consumes what it has been sent.

use binomesh_overlay::stamp::Stamp;
use clap::ValueEnum;
use serde::Serialize;

use super::convergence::Scheduler;
use super::member::Member;
use super::{Arena, Letter};

/// When the messages of spontaneous rules arrive. What a received message begets
/// always arrives in the next phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// In the same phase: this gives the paper's 4 phases on binomial trees.
    SamePhase,
    /// In the next phase, one phase after the rule that sent the message.
    NextPhase,
}

/// The synchronous scheduler, with the letters between two phases.
#[derive(Debug, Clone)]
pub struct Synchronous<K> {
    reading: Reading,
    current: Vec<Letter<K>>,
    next: Vec<Letter<K>>,
}

impl<K> Synchronous<K> {
    /// A scheduler without letters.
    pub const fn new(reading: Reading) -> Self {
        Self {
            reading,
            current: Vec::new(),
            next: Vec::new(),
        }
    }
}

impl<S: Stamp> Scheduler<S> for Synchronous<S::Mark> {
    fn post(&mut self, letters: &mut Vec<Letter<S::Mark>>) {
        self.current.append(letters);
    }

    fn phase(&mut self, arena: &mut Arena<S>) -> usize {
        let spontaneous = match self.reading {
            Reading::SamePhase => &mut self.current,
            Reading::NextPhase => &mut self.next,
        };
        for index in 0..arena.processes() {
            arena.apply_spontaneous(Member::at(index), spontaneous);
        }
        let delivered = self.current.len();
        for letter in self.current.drain(..) {
            arena.deliver(letter, &mut self.next);
        }
        std::mem::swap(&mut self.current, &mut self.next);
        delivered
    }

    fn waiting(&self) -> usize {
        self.current.len()
    }
}
