//! The search for a shorter scenario that still breaks the same promise.
//!
//! Messages, operations and faults carry everything they need, so any of them can be left out.
//! First the end of the scenario is left out, then of each list the largest pieces first: all,
//! halves, quarters, down to single entries. Nodes are left out last.

use binomesh_overlay::Planted;

use super::campaign;
use super::scenario::{Scenario, Timed};
use crate::record;

/// The most runs for one scenario.
const TRIES: u32 = 400;

/// Shorten a scenario that breaks a promise of this kind.
pub fn shrink(scenario: &Scenario, kind: &str, planted: Planted) -> Scenario {
    let mut search = Search {
        best: scenario.clone(),
        kind,
        planted,
        tries: 0,
    };
    // A second pass may be able to leave out more than the first.
    for _ in 0..2 {
        search.without_end();
        search.without_messages();
        search.without_operations();
        search.without_faults();
        search.with_fewer_nodes();
    }
    search.best
}

struct Search<'a> {
    best: Scenario,
    kind: &'a str,
    planted: Planted,
    tries: u32,
}

impl Search<'_> {
    /// Play `shorter`, and take it as the best scenario if it still breaks the promise. Returns
    /// whether it was taken. It is not played if it equals the best scenario, or if no tries are
    /// left.
    fn attempt(&mut self, shorter: Scenario) -> bool {
        if shorter == self.best || self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let outcome = campaign::play(&shorter, self.planted.into());
        let is_same = outcome.violations.iter().any(|v| v.kind() == self.kind);
        if is_same {
            self.best = shorter;
        }
        record::progress(format_args!(
            "shortening, {} of {TRIES} tries: {} faults, {} messages, {} nodes",
            self.tries,
            self.best.faults.len(),
            self.best.messages.len(),
            self.best.nodes
        ));
        is_same
    }

    /// End the scenario sooner, without all later steps.
    fn without_end(&mut self) {
        self.attempt(Scenario {
            least_ms: 0,
            ..self.best.clone()
        });
        let mut step = self.best.faulty_ms / 2;
        while step >= 1000 {
            let faulty_ms = self.best.faulty_ms.saturating_sub(step);
            let mut shorter = self.best.clone();
            shorter.faulty_ms = faulty_ms;
            shorter.faults.retain(|fault| fault.at_ms < faulty_ms);
            shorter.messages.retain(|message| message.at_ms < faulty_ms);
            shorter
                .operations
                .retain(|operation| operation.at_ms < faulty_ms);
            if !self.attempt(shorter) {
                step /= 2;
            }
        }
    }

    fn without_messages(&mut self) {
        self.leave_out(
            |scenario| scenario.messages.len(),
            |scenario, range| _ = scenario.messages.drain(range),
        );
    }

    fn without_operations(&mut self) {
        self.leave_out(
            |scenario| scenario.operations.len(),
            |scenario, range| _ = scenario.operations.drain(range),
        );
    }

    fn without_faults(&mut self) {
        self.leave_out(
            |scenario| scenario.faults.len(),
            |scenario, range| _ = scenario.faults.drain(range),
        );
    }

    /// Leave out pieces of a list, the largest first.
    fn leave_out(
        &mut self,
        length: impl Fn(&Scenario) -> usize,
        drain: impl Fn(&mut Scenario, std::ops::Range<usize>),
    ) {
        let mut piece = length(&self.best);
        while piece > 0 {
            let mut start = 0;
            while start < length(&self.best) {
                let end = (start + piece).min(length(&self.best));
                let mut shorter = self.best.clone();
                drain(&mut shorter, start..end);
                if !self.attempt(shorter) {
                    start = end;
                }
            }
            piece /= 2;
        }
    }

    fn with_fewer_nodes(&mut self) {
        let mut fewer = self.best.nodes / 2;
        while fewer > 0 {
            let nodes = self.best.nodes.saturating_sub(fewer).max(2);
            let mut shorter = self.best.clone();
            shorter.nodes = nodes;
            shorter
                .messages
                .retain(|Timed { what, .. }| what.from < nodes);
            if !self.attempt(shorter) {
                fewer /= 2;
            }
        }
    }
}
