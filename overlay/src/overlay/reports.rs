//! The reports of a node to its parent about its subtree, and how often it sends them.

use super::{Out, Overlay, Timer};
use crate::Id;
use crate::census::{Evidence, Standing};
use crate::noise::Noise;

/// How many reports may go up without a pause between two beats. Of further changes only the last
/// is reported, after a pause. On a cycle of corrupted parents two counts may chase each other, and
/// nothing else would slow them down.
const AT_ONCE: u32 = 64;
/// How many pauses fit into the time for which a root waits for further changes, so that the root
/// does not take a pause for the end of the changes. The pauses of several levels add up.
const PAUSES: u32 = 4;

/// The reports to the parent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reports<I> {
    /// The standing (the ranks that the subtree holds) that the parent was last told.
    standing: Option<Standing<I>>,
    /// The evidence (that the subtree belongs to the cluster) that the parent was last told.
    evidence: Evidence,
    /// How many reports went up without a pause since the last beat.
    at_once: u32,
    /// Whether a change waits for the end of the pause.
    is_due: bool,
}

impl<I: Id> Reports<I> {
    pub(super) const fn new() -> Self {
        Self {
            standing: None,
            evidence: Evidence::Unmet,
            at_once: 0,
            is_due: false,
        }
    }

    /// Reports in an arbitrary state, as corruption may leave them.
    pub(super) fn scrambled(standing: Option<Standing<I>>, noise: &mut Noise) -> Self {
        Self {
            standing,
            evidence: Evidence::scrambled(noise.next()),
            at_once: noise.next() as u32,
            is_due: noise.one_in(2),
        }
    }
}

impl<I: Id> Overlay<I> {
    /// Tell the parent the size of this subtree, the ranks that it holds, and the evidence that it
    /// belongs to the cluster and is no island. Remember what the parent was told. No change waits
    /// for the end of the pause any more.
    pub(super) fn report(&mut self, parent: I, out: &mut Out<I>) {
        self.reports = Reports {
            standing: self.census.standing(),
            evidence: self.census.evidence(),
            at_once: self.reports.at_once,
            is_due: false,
        };
        self.census.report(parent, out);
    }

    /// Report at once; after too many reports since the last beat, report after a pause.
    pub(super) fn report_at_once(&mut self, parent: I, out: &mut Out<I>) {
        if self.reports.at_once < AT_ONCE {
            self.reports.at_once += 1;
            self.report(parent, out);
        } else if !self.reports.is_due {
            self.reports.is_due = true;
            out.arm(Timer::Report, self.config.pace.epoch_settle / PAUSES);
        }
    }

    /// The pause is over: report the change that waits.
    pub(super) fn on_report_timer(&mut self, out: &mut Out<I>) {
        if let Some(parent) = self.tree.parent().filter(|_| self.reports.is_due) {
            self.report(parent, out);
        }
    }

    /// Report at once if all members of the subtree have found their ranks, if the ranks are in the
    /// wrong order, or if the evidence is stronger than the parent was told. Any other change waits
    /// for the next report.
    pub(super) fn report_ranks(&mut self, out: &mut Out<I>) {
        let told = &self.reports;
        let news = self.census.news();
        let news = news.filter(|now| told.standing != Some(*now));
        let is_news = news.is_some() || told.evidence < self.census.evidence();
        if let Some(parent) = self.tree.parent().filter(|_| is_news) {
            self.report_at_once(parent, out);
        }
    }

    /// With a beat, report the change that waits, as its timer may be lost. If the beat is
    /// `is_in_full`, report in any case.
    pub(super) fn report_with_beat(&mut self, is_in_full: bool, out: &mut Out<I>) {
        self.reports.at_once = 0;
        let is_due = is_in_full || self.reports.is_due;
        if let Some(parent) = self.tree.parent().filter(|_| is_due) {
            self.report(parent, out);
        }
    }
}
