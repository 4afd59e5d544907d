//! The cost of one repetition of [BMG09] Alg. 2, rule 1, once the graph stands.
//!
//! A self-stabilizing system repeats its rules for ever, so this is what forwarding costs after the
//! start.

use binomesh_overlay::stamp::Stamp;

use super::Arena;
use super::convergence::Scheduler;

/// The cost of one repetition by all processes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// The fewest UP and DN that a process received.
    pub introductions_min: u32,
    /// The most UP and DN that a process received.
    pub introductions_max: u32,
    /// The phases until no letter was under way, if that took at most the limit.
    pub phases: Option<u64>,
}

/// Let all processes apply rule 1 once, and run phases until all messages that follow are consumed,
/// at most `limit`.
pub fn repeat<S: Stamp>(
    arena: &mut Arena<S>,
    scheduler: &mut impl Scheduler<S>,
    limit: u64,
    mut progress: impl FnMut(u64, usize),
) -> Repeated {
    let mut letters = Vec::new();
    arena.forget_received();
    arena.repeat_introductions(&mut letters);
    scheduler.post(&mut letters);
    let mut phases = (scheduler.waiting() == 0).then_some(0);
    let mut phase = 0;
    while phases.is_none() && phase < limit {
        phase += 1;
        scheduler.phase(arena);
        progress(phase, scheduler.waiting());
        phases = (scheduler.waiting() == 0).then_some(phase);
    }
    let introductions = || arena.received().iter().map(|one| one.introductions);
    Repeated {
        introductions_min: introductions().min().unwrap_or(0),
        introductions_max: introductions().max().unwrap_or(0),
        phases,
    }
}
