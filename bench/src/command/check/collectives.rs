//! `check --layer collectives`: the votes about one operation, with the shipped machine.

use super::clique::Row;
use super::{Check, Layer};
use crate::checker::collectives::{Flaw, Setting, World};
use crate::checker::search::search;
use crate::command::Failure;
use crate::record::{self, Stopwatch};

/// The most states of one world that are judged, without `--states`.
const STATES: u64 = 2_000_000;

/// A world and its name.
struct Plan {
    name: &'static str,
    setting: Setting,
    /// Whether the search takes long, so that it is only made if collectives are requested.
    is_large: bool,
}

impl Plan {
    const fn new(
        name: &'static str,
        members: usize,
        [ballots, restarts, losses]: [u8; 3],
        flaw: Flaw,
    ) -> Self {
        let setting = Setting {
            members,
            ballots,
            restarts,
            losses,
            flaw,
        };
        Self {
            name,
            setting,
            is_large: false,
        }
    }

    const fn large(self) -> Self {
        Self {
            is_large: true,
            ..self
        }
    }
}

const PLANS: [Plan; 11] = [
    Plan::new("ballots", 3, [3, 0, 0], Flaw::None),
    Plan::new("restart", 3, [2, 1, 0], Flaw::None),
    Plan::new("lost record", 3, [2, 0, 1], Flaw::None),
    Plan::new("ballots", 4, [2, 0, 0], Flaw::None),
    Plan::new("restart", 3, [3, 1, 0], Flaw::None).large(),
    Plan::new("lost record, then restart", 3, [2, 1, 1], Flaw::None).large(),
    Plan::new("restart", 4, [2, 1, 0], Flaw::None).large(),
    Plan::new("must fail: no record", 3, [2, 1, 0], Flaw::NoRecord),
    Plan::new("must fail: new record", 3, [2, 1, 1], Flaw::NewRecord),
    Plan::new(
        "must fail: not introduced",
        3,
        [2, 0, 1],
        Flaw::NotIntroduced,
    ),
    Plan::new("must fail: own value", 3, [2, 0, 0], Flaw::OwnValue),
];

impl Check {
    /// Search all worlds and print their rows. Returns whether all results are as expected.
    pub(super) fn collectives(&self) -> Result<bool, Failure> {
        let mut is_good = true;
        let is_asked = self.layer == Some(Layer::Collectives);
        let wanted = PLANS.iter().filter(|plan| {
            let size = plan.setting.members;
            let is_size = self.nodes.is_none_or(|only| usize::from(only) == size);
            is_size && (is_asked || !plan.is_large)
        });
        for plan in wanted {
            record::progress(format_args!(
                "{}, {} members",
                plan.name, plan.setting.members
            ));
            let watch = Stopwatch::start();
            let limit = usize::try_from(self.states.unwrap_or(STATES)).unwrap_or(usize::MAX);
            let found = search(World::new(plan.setting, limit), self.threads.into());
            let must_fail = plan.setting.flaw != Flaw::None;
            let faults = plan.setting.restarts + plan.setting.losses;
            let mut row = Row::new(
                "collectives",
                plan.name,
                plan.setting.members,
                faults.into(),
            );
            row.add(found);
            if must_fail {
                // In a world with a flaw, the counterexample is the expected result.
                row.ok = row.take_script().is_some();
            }
            is_good &= row.ok;
            self.print_found(row.taken(&watch), Row::take_script)?;
        }
        record::progress_done();
        Ok(is_good)
    }
}
