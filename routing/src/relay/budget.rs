//! How many re-delegations are allowed: a token bucket counted in sends.
//!
//! Without it mere overload, seen as lateness, multiplies itself (DESIGN §4: by
//! 53 in a simulation). There is no clock in it: 100 sends earn a fixed number
//! of re-delegations.

use super::Config;

/// Tokens in hundredths of a re-delegation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    tokens: u32,
    earned: u32,
    most: u32,
}

const PRICE: u32 = 100;

impl Budget {
    pub(super) fn full(config: &Config) -> Self {
        let most = config.redelegation_burst.saturating_mul(PRICE);
        Self {
            tokens: most,
            earned: config.redelegation_percent,
            most,
        }
    }

    /// A packet was sent.
    pub(super) fn earn(&mut self) {
        self.tokens = self.tokens.saturating_add(self.earned).min(self.most);
    }

    /// Whether a re-delegation may happen now; it is paid for.
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
        let mut budget = Budget::full(&Config::default());
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
