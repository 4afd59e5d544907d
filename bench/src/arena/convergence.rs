//! The phases that a clean start takes until ring and binomial graph stand.

use binomesh_overlay::stamp::Stamp;

use super::{Arena, Letter};

/// A scheduler: it gives processes their turns and keeps waiting letters.
pub trait Scheduler<S: Stamp> {
    /// Put letters under way from outside.
    fn post(&mut self, letters: &mut Vec<Letter<S::Mark>>);

    /// Run one phase. Returns how many letters were delivered in it.
    fn phase(&mut self, arena: &mut Arena<S>) -> usize;

    /// How many letters are under way.
    fn waiting(&self) -> usize;
}

/// The phases that a clean start took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convergence {
    /// The phase at whose end the ring stood first.
    pub ring_phases: Option<u64>,
    /// The phase at whose end the binomial graph stood first.
    pub bmg_phases: Option<u64>,
    /// The first phase, from the one in `bmg_phases` on, at whose end no letter was under way, if
    /// ring and graph stood then.
    pub silent_phases: Option<u64>,
}

/// Run phases until the graph has stood and no letter is under way, for at most `limit` phases.
/// `progress` is called at the start and after each phase: with its number, and with the number of
/// letters under way.
pub fn converge<S: Stamp>(
    arena: &mut Arena<S>,
    scheduler: &mut impl Scheduler<S>,
    limit: u64,
    mut progress: impl FnMut(u64, usize),
) -> Convergence {
    let mut found = Convergence {
        ring_phases: None,
        bmg_phases: None,
        silent_phases: None,
    };
    for phase in 0..=limit {
        if phase > 0 {
            scheduler.phase(arena);
        }
        progress(phase, scheduler.waiting());
        if found.ring_phases.is_none() && arena.is_ring() {
            found.ring_phases = Some(phase);
        }
        if found.ring_phases.is_some() && found.bmg_phases.is_none() && arena.is_binomial_graph() {
            found.bmg_phases = Some(phase);
        }
        if found.bmg_phases.is_some() && scheduler.waiting() == 0 {
            let is_standing = arena.is_ring() && arena.is_binomial_graph();
            found.silent_phases = is_standing.then_some(phase);
            break;
        }
    }
    found
}
