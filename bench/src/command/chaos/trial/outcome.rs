//! What a scenario ended with.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::scenario::Scenario;
use super::super::violation::Violation;
use super::Trial;

/// The result of one scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed of the scenario.
    pub seed: u64,
    /// How many nodes were deployed.
    pub nodes: u32,
    /// The violations; empty if every promise held.
    pub violations: Vec<Violation>,
    /// How many faults there were.
    pub faults: u64,
    /// The kinds of these faults.
    pub kinds: BTreeSet<&'static str>,
    /// The number of messages that their origins accepted.
    pub published: u64,
    /// Accepted messages for all members.
    pub broadcasts: u64,
    /// Deliveries, counted at the receivers.
    pub deliveries: u64,
    /// The number of members that stayed up and were given up because their names were not known.
    pub unnamed: u64,
    /// The number of calls of collective operations.
    pub calls: u64,
    /// Callers that heard of an agreed outcome.
    pub agreed: u64,
    /// The duration of each healing that was seen: from the end of the last fault so far to the
    /// exact graph.
    pub healed: Vec<Duration>,
    /// How long the world lived.
    pub lived: Duration,
    /// How many messages were sent.
    pub sent: u64,
    /// The hash of all inputs and effects of all nodes, if it was requested.
    pub digest: Option<u64>,
}

impl Outcome {
    /// The outcome of a run that did not come to its end.
    pub fn failed(scenario: &Scenario, violation: Violation) -> Self {
        Self {
            seed: scenario.seed,
            nodes: scenario.nodes,
            violations: vec![violation],
            faults: 0,
            kinds: BTreeSet::new(),
            published: 0,
            broadcasts: 0,
            deliveries: 0,
            unnamed: 0,
            calls: 0,
            agreed: 0,
            healed: Vec::new(),
            lived: Duration::ZERO,
            sent: 0,
            digest: None,
        }
    }
}

impl Trial<'_> {
    pub(super) fn outcome(mut self) -> Outcome {
        let deliveries = self.checker.deliveries();
        let is_healed = self.watch.is_healed();
        let (mut violations, unnamed) = self.checker.judge();
        let (calls, agreed) = self.collectives.counts();
        violations.append(&mut self.collectives.judge(self.world.now()));
        if !is_healed {
            // Without an overlay a broadcast may have no end either.
            violations.retain(|found| !matches!(found, Violation::NoReceipt { .. }));
        }
        let adopted = self.world.orphan_with_child();
        let adopted =
            adopted.map(|(at, orphan, child)| Violation::OrphanWithChild { at, orphan, child });
        self.violations.extend(adopted);
        self.violations.append(&mut self.watch.violations);
        self.violations.append(&mut violations);
        Outcome {
            seed: self.world.seed(),
            nodes: self.scenario.nodes,
            violations: self.violations,
            faults: self.faults,
            kinds: self.kinds,
            published: self.published,
            broadcasts: self.broadcasts,
            deliveries,
            unnamed,
            calls,
            agreed,
            healed: self.watch.healed,
            lived: self.world.now(),
            sent: self.world.sent(),
            digest: self.world.digest(),
        }
    }
}
