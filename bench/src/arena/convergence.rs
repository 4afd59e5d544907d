//! How many phases a clean start takes to the ring and to the binomial graph.

use binomesh_overlay::stamp::Stamp;

use super::{Arena, Letter};

/// Who runs when, and where letters wait.
pub trait Scheduler<S: Stamp> {
    /// Put letters on their way from outside.
    fn post(&mut self, letters: &mut Vec<Letter<S::Mark>>);

    /// Run one phase; how many letters were delivered in it.
    fn phase(&mut self, arena: &mut Arena<S>) -> usize;

    /// How many letters are on their way.
    fn waiting(&self) -> usize;
}

/// What a clean start took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convergence {
    /// The phase at whose end the ring stood first.
    pub ring_phases: Option<u64>,
    /// The phase at whose end the binomial graph stood first.
    pub bmg_phases: Option<u64>,
    /// The phase at whose end no letter was on its way any more, if both still
    /// stood then.
    pub silent_phases: Option<u64>,
}

/// Run phases until both stand and no letter is left, at most `limit`.
/// `progress` hears of every phase.
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
