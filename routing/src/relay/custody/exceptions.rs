//! The members not known to have delivered, in bounded space.

use binomesh_overlay::Id;

use crate::packet::{Exception, Message, Reason, Span, State};

/// Members not known to have delivered; at most `max` entries. Beyond that the nearest two entries
/// become one, *unconfirmed*, which covers both and all members between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Exceptions<I>(Vec<Exception<I>>);

impl<I: Id> Exceptions<I> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn as_slice(&self) -> &[Exception<I>] {
        &self.0
    }

    /// Add an exception. Returns whether two had to be merged.
    pub(super) fn add(&mut self, exception: Exception<I>, max: usize) -> bool {
        if exception.span.is_empty() {
            return false;
        }
        let at = self.0.partition_point(|other| other.span < exception.span);
        match self.0.get_mut(at) {
            Some(same) if same.span == exception.span => {
                *same = exception;
                return false;
            }
            _ => self.0.insert(at, exception),
        }
        let is_full = self.0.len() > max.clamp(1, Message::<I>::MAX_EXCEPTIONS);
        if is_full {
            self.summarise();
        }
        is_full
    }

    fn summarise(&mut self) {
        let gap = |pair: &[Exception<I>]| pair[1].span.start.saturating_sub(pair[0].span.end);
        let nearest = (self.0.windows(2).enumerate()).min_by_key(|(_, pair)| gap(pair));
        let Some((at, pair)) = nearest else { return };
        let span = Span::new(pair[0].span.start, pair[0].span.end.max(pair[1].span.end));
        let merged = unconfirmed(span, None, Reason::Summarised);
        self.0.splice(at..at + 2, [merged]);
    }

    /// Take out the exceptions within a span that may be tried again. In a new round these are the
    /// unconfirmed ones. With a new signature these are the members that refused for lack of one.
    pub(super) fn take_again(
        &mut self,
        within: Span,
        is_new_round: bool,
        is_newly_signed: bool,
    ) -> Vec<Span> {
        let mut taken = Vec::new();
        self.0.retain(|exception| {
            let may_go = match exception.state {
                State::Unconfirmed => is_new_round,
                State::Refused => is_newly_signed && exception.reason == Reason::Unsigned,
            };
            let goes = may_go && within.covers(exception.span);
            if goes {
                taken.push(exception.span);
            }
            !goes
        });
        taken
    }
}

/// An exception that leaves open whether these members have delivered.
pub(super) const fn unconfirmed<I>(span: Span, peer: Option<I>, reason: Reason) -> Exception<I> {
    Exception {
        span,
        peer,
        state: State::Unconfirmed,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_exceptions_become_wider_and_never_vanish() {
        let mut exceptions = Exceptions::<u32>::new();
        let excepted = [1u32, 3, 10, 20, 30, 31, 50, 70];
        for at in excepted {
            exceptions.add(unconfirmed(Span::single(at), None, Reason::Down), 4);
        }
        assert_eq!(exceptions.as_slice().len(), 4);
        for at in excepted {
            let covers = |exception: &Exception<u32>| exception.span.covers(Span::single(at));
            assert!(exceptions.as_slice().iter().any(covers), "{at}");
        }
    }
}
