//! How many further tries are allowed: a token bucket counted in sends.
//!
//! Without one for re-delegations mere overload, seen as lateness, multiplies
//! itself (by 53 in a simulation); without one for searches the ranks
//! of members that are not there do. There is no clock in it: 100 sends earn a
//! fixed number of tries.

/// Tokens in hundredths of a try.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    tokens: u32,
    earned: u32,
    most: u32,
}

const PRICE: u32 = 100;

impl Budget {
    /// A full one: `burst` tries at most, `percent` more for each 100 sends.
    pub(super) const fn full(burst: u32, percent: u32) -> Self {
        let most = burst.saturating_mul(PRICE);
        Self {
            tokens: most,
            earned: percent,
            most,
        }
    }

    /// One more try is allowed.
    pub(super) fn grant(&mut self) {
        self.tokens = self.tokens.saturating_add(PRICE).min(self.most);
    }

    /// A packet was sent.
    pub(super) fn earn(&mut self) {
        self.tokens = self.tokens.saturating_add(self.earned).min(self.most);
    }

    /// Whether a try may happen now; it is paid for.
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
