//! A budget for further tries: a token bucket that counts sends.
//!
//! Without a budget for re-delegations, mere overload looks like lateness and multiplies itself
//! (53-fold in a simulation). Without one for searches (further hops of routed parts), ranks that
//! nobody holds keep all nodes searching. A budget has no clock: each send that counts earns a
//! share of a try. For searches and skipped ranks, a message that is issued again earns a whole
//! try. Which sends count is in [`Sender`](super::Sender).

/// The tokens of a budget, in hundredths of a try.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    tokens: u32,
    earned: u32,
    most: u32,
}

const PRICE: u32 = 100;

impl Budget {
    /// A full budget: `burst` tries at most, and `percent` further ones for each 100 sends.
    pub(super) const fn full(burst: u32, percent: u32) -> Self {
        let most = burst.saturating_mul(PRICE);
        Self {
            tokens: most,
            earned: percent,
            most,
        }
    }

    /// Allow one more try, within the burst.
    pub(super) fn grant(&mut self) {
        self.tokens = self.tokens.saturating_add(PRICE).min(self.most);
    }

    /// A packet was sent: earn a share of a try.
    pub(super) fn earn(&mut self) {
        self.tokens = self.tokens.saturating_add(self.earned).min(self.most);
    }

    /// Whether a try may happen now. If so, it is paid for.
    pub(super) fn take(&mut self) -> bool {
        let paid = self.tokens.checked_sub(PRICE);
        self.tokens = paid.unwrap_or(self.tokens);
        paid.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_a_tenth_of_the_sends() {
        let mut budget = Budget::full(8, 10);
        let burst = (0..100).filter(|_| budget.take()).count();
        assert_eq!(burst, 8);
        let later = (0..1000)
            .filter(|_| {
                budget.earn();
                budget.take()
            })
            .count();
        assert_eq!(later, 100);
    }
}
