//! The events of a watched cluster, counted from the nodes' own answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::observation::{Observation, Observations, epochs_between};
use super::watch::Seen;

/// The events during a time of watching. If there is a victim, the other nodes are watched, and the
/// victim's own answers are not counted.
#[derive(Debug, Clone)]
pub struct Ledger {
    nodes: u32,
    victim: Option<String>,
    epochs: BTreeSet<String>,
    observers: BTreeMap<String, Observer>,
    accused: BTreeSet<(String, String)>,
    has_lists: bool,
    population_min: u32,
    tables_changed: u64,
}

/// The events at one node.
#[derive(Debug, Clone, Copy, Default)]
struct Observer {
    epochs: u64,
    is_without: bool,
    leaves: u64,
    returns: u64,
}

/// The counts of a ledger, as rows print them.
#[derive(Debug, Clone, Serialize)]
pub struct Tallied {
    /// How many different epochs the nodes adopted.
    pub epochs_distinct: usize,
    /// The most epochs that one node adopted, including those between two answers.
    pub epochs_of_one_node_max: u64,
    /// The most times that one node counted fewer members, or called the victim down.
    pub leaves_max: u64,
    /// The most times that one node counted all members again and no longer called the victim down.
    pub returns_max: u64,
    /// The smallest population that a node counted.
    pub population_min: u32,
    /// How many pairs there are of a node and a node other than the victim that the first one
    /// called down. `null` if the nodes keep no list of peers that are down.
    pub false_verdicts: Option<usize>,
    /// How many answers had another epoch, rank or table than the same node's answer before.
    pub tables_changed: u64,
}

impl Ledger {
    /// A ledger without events, for a cluster of this many nodes.
    pub fn new(nodes: u32, victim: Option<&str>, observations: &Observations) -> Self {
        Self {
            nodes,
            victim: victim.map(str::to_owned),
            epochs: BTreeSet::new(),
            observers: BTreeMap::new(),
            accused: BTreeSet::new(),
            has_lists: observations
                .values()
                .any(|observation| observation.down.is_some()),
            population_min: nodes,
            tables_changed: 0,
        }
    }

    /// Note the news that a node has told.
    pub fn note(&mut self, seen: &Seen, observations: &Observations) {
        let victim = self.victim.as_deref();
        let (Some(observation), false) =
            (observations.get(&seen.name), victim == Some(&*seen.name))
        else {
            return;
        };
        let observer = self.observers.entry(seen.name.clone()).or_default();
        let epoch_before = seen
            .before
            .as_ref()
            .and_then(|one| one.report.epoch.as_deref());
        let epoch = observation.report.epoch.as_deref();
        if let Some(epoch) = epoch.filter(|_| epoch != epoch_before) {
            let steps = epoch_before.and_then(|before| epochs_between(before, epoch));
            observer.epochs += steps.unwrap_or(1).max(1);
            self.epochs.insert(epoch.to_owned());
        }
        let is_less = |population: u32| population < self.nodes;
        let is_down = victim.is_some_and(|victim| observation.takes_for_down(victim));
        let is_without = is_down || observation.report.population.is_some_and(is_less);
        observer.leaves += u64::from(is_without && !observer.is_without);
        observer.returns += u64::from(!is_without && observer.is_without);
        observer.is_without = is_without;
        self.population_min = self
            .population_min
            .min(observation.report.population.unwrap_or(u32::MAX));
        for accused in observation
            .down
            .iter()
            .flatten()
            .filter(|name| victim != Some(name))
        {
            self.accused.insert((seen.name.clone(), accused.clone()));
        }
        self.has_lists |= observation.down.is_some();
        let is_changed = |before: &Observation| before.tables() != observation.tables();
        self.tables_changed += u64::from(seen.before.as_ref().is_some_and(is_changed));
    }

    /// The counts of this ledger.
    pub fn tallied(&self) -> Tallied {
        let most = |of: fn(&Observer) -> u64| self.observers.values().map(of).max().unwrap_or(0);
        Tallied {
            epochs_distinct: self.epochs.len(),
            epochs_of_one_node_max: most(|observer| observer.epochs),
            leaves_max: most(|observer| observer.leaves),
            returns_max: most(|observer| observer.returns),
            population_min: self.population_min,
            false_verdicts: self.has_lists.then_some(self.accused.len()),
            tables_changed: self.tables_changed,
        }
    }
}

impl Tallied {
    /// Whether there were no events: no epoch, no member less, no node called down.
    pub fn is_nothing(&self) -> bool {
        self.epochs_of_one_node_max == 0
            && self.leaves_max == 0
            && self.false_verdicts.unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::observation::tests::ring;
    use super::super::setup::now;
    use super::*;

    fn say(
        ledger: &mut Ledger,
        observations: &mut Observations,
        name: &str,
        edit: fn(&mut Observation),
    ) {
        let before = observations.get(name).cloned();
        edit(observations.get_mut(name).unwrap());
        let seen = Seen {
            name: name.to_owned(),
            at: now(),
            before,
        };
        ledger.note(&seen, observations);
    }

    #[test]
    fn a_leave_and_a_return_are_counted_once_each() {
        let mut observations = ring();
        let mut ledger = Ledger::new(3, Some("c"), &observations);
        say(&mut ledger, &mut observations, "a", |one| {
            one.report.epoch = Some("r-7-2-00".into());
            one.report.population = Some(2);
        });
        say(&mut ledger, &mut observations, "a", |one| {
            one.report.healthy = false
        });
        say(&mut ledger, &mut observations, "a", |one| {
            one.report.epoch = Some("r-7-4-00".into());
            one.report.population = Some(3);
        });
        // The victim's own answers do not count.
        say(&mut ledger, &mut observations, "c", |one| {
            one.report.population = Some(1)
        });
        let found = ledger.tallied();
        assert_eq!((found.leaves_max, found.returns_max), (1, 1));
        assert_eq!(
            (found.epochs_distinct, found.epochs_of_one_node_max),
            (2, 3)
        );
        assert_eq!((found.population_min, found.tables_changed), (2, 2));
        assert!(found.false_verdicts.is_none() && !found.is_nothing());
    }

    #[test]
    fn verdicts_on_others_than_the_victim_are_false() {
        let mut observations = ring();
        let mut ledger = Ledger::new(3, Some("c"), &observations);
        say(&mut ledger, &mut observations, "a", |one| {
            one.down = Some(["c".into()].into())
        });
        assert_eq!(ledger.tallied().false_verdicts, Some(0));
        assert_eq!(ledger.tallied().leaves_max, 1, "the verdict on the victim");
        say(&mut ledger, &mut observations, "a", |one| {
            one.down = Some(["b".into()].into())
        });
        let found = ledger.tallied();
        assert_eq!((found.false_verdicts, found.returns_max), (Some(1), 1));
        let mut ledger = Ledger::new(3, None, &ring());
        assert!(ledger.tallied().is_nothing());
        say(&mut ledger, &mut observations, "b", |one| {
            one.down = Some(["c".into()].into())
        });
        assert!(
            !ledger.tallied().is_nothing(),
            "without a victim every verdict is false"
        );
    }
}
