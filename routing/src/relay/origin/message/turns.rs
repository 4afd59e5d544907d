//! The rounds of a message: the turns of its members, and the results.

use std::collections::BTreeMap;

use binomesh_overlay::{Epoch, Id};

use super::OpenMessage;
use crate::packet::{Exception, Header, Reason, Span, State};
use crate::runs::Runs;

impl<I: Id> OpenMessage<I> {
    /// Choose the outstanding members that have a turn in the next round. `left` has pairs of a
    /// distance in the newest epoch and one in that of acceptance. A round by name has room for
    /// `MAX_NAMES` members. Of two members that seem to stand at one distance only the first can be
    /// meant. The others have their turn in the following rounds, until each had one. A member to
    /// which no way was found waits until the members behind it in its part were searched for.
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

    /// Whether a member has had no turn yet.
    pub(in crate::relay::origin) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// A round begins in an epoch; `issued` maps its distances to those of acceptance.
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

    /// A round is over, with these exceptions. A refusal settles the line of its member in the
    /// receipt, unless the message is to be kept for the member's next life.
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

    /// The members at the distances `reached` in this epoch have delivered.
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
