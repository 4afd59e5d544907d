//! The rounds of a message: who has a turn in which, and what they bring.

use std::collections::BTreeMap;

use binomesh_overlay::{Epoch, Id};

use super::OpenMessage;
use crate::packet::{Exception, Header, Reason, Span, State};
use crate::runs::Runs;

impl<I: Id> OpenMessage<I> {
    /// Who of those left has a turn in the next round, of pairs (distance in the
    /// newest epoch, mine). By name there is a bound, and of two that seem to stand
    /// at one distance only the first can be meant: the others have their turn in
    /// the rounds that follow, until everybody had one. A member to whom nobody found a way
    /// waits until those that were behind it in its part were looked for.
    pub(in crate::relay::origin) fn take_turns(
        &mut self,
        left: &[(u32, u32)],
        by_name: bool,
    ) -> BTreeMap<u32, u32> {
        let max = if by_name {
            Header::<I>::MAX_NAMES
        } else {
            usize::MAX
        };
        let is_under_way = left.iter().any(|(_, at)| self.postponed.contains(at));
        let before = std::mem::take(&mut self.postponed);
        if !std::mem::take(&mut self.are_hidden) {
            self.sought.clear();
        }
        let are_all_sought = left.iter().all(|(_, at)| self.sought.contains(at));
        let mut issued = BTreeMap::new();
        for &(now, at) in left {
            let had_a_turn = !are_all_sought && self.sought.contains(&at);
            if is_under_way && !before.contains(&at) || had_a_turn {
                continue;
            }
            if issued.len() < max && !issued.contains_key(&now) {
                issued.insert(now, at);
            } else {
                self.postponed.insert(at);
            }
        }
        issued
    }

    /// Whether somebody has had no turn yet.
    pub(in crate::relay::origin) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// A round begins in an epoch; `issued` maps its distances to mine.
    pub(in crate::relay::origin) fn begin_round(
        &mut self,
        epoch: Epoch<I>,
        issued: BTreeMap<u32, u32>,
    ) {
        self.round = self.round.saturating_add(1);
        self.doubts.clear();
        self.issued = issued;
        self.issued_in = Some(epoch);
    }

    /// A round is over, with these exceptions. A refusal ends the line, unless the message
    /// is kept for the member's next life.
    pub(in crate::relay::origin) fn end_round(
        &mut self,
        epoch: Epoch<I>,
        exceptions: &[Exception<I>],
    ) {
        let is_reissue = self.issued_in == Some(epoch);
        for exception in exceptions {
            let mine: Vec<Exception<I>> = if is_reissue {
                let within = self.issued.range(exception.span.start..exception.span.end);
                within
                    .map(|(_, mine)| Exception {
                        span: Span::single(*mine),
                        ..*exception
                    })
                    .collect()
            } else {
                vec![*exception]
            };
            let head = mine.first();
            if let Some(head) = head.filter(|head| head.reason == Reason::NoRoute) {
                self.sought.insert(head.span.start);
                self.are_hidden |= mine.len() > 1 || head.span.len() > 1;
            }
            for exception in mine {
                if exception.state == State::Refused && !self.keeps {
                    if self.excused.contains(exception.span.start) {
                        continue;
                    }
                    let Exception {
                        span,
                        peer,
                        state,
                        reason,
                    } = exception;
                    self.settle(span.start, peer, state, reason);
                } else {
                    self.doubts.push(exception);
                }
            }
        }
    }

    /// Members of this epoch have delivered.
    pub(in crate::relay::origin) fn confirm(&mut self, epoch: Epoch<I>, reached: &Runs) {
        if self.issued_in == Some(epoch) {
            let confirmed = self.issued.iter().filter(|(at, _)| reached.contains(**at));
            for (_, mine) in confirmed {
                self.reached.insert(Span::single(*mine));
            }
        } else if epoch == self.accepted.epoch {
            for span in reached.spans() {
                self.reached.insert(*span);
            }
            for span in self.excused.spans() {
                self.reached.remove(*span);
            }
        }
    }
}
