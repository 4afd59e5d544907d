//! The messages that many processes received, summed up in a few numbers.

use crate::arena::Received;

/// The messages that the processes received.
pub(super) struct Tallies {
    pub(super) total: u64,
    pub(super) most: u64,
    pub(super) ring_most: u64,
    pub(super) introductions_min: u32,
    pub(super) introductions_max: u32,
}

impl Tallies {
    pub(super) fn of(received: &[Received]) -> Self {
        let messages = || received.iter().map(|one| one.messages);
        let introductions = || received.iter().map(|one| one.introductions);
        // A clean start has no visits, so all other messages are of the ring.
        let ring = messages()
            .zip(introductions())
            .map(|(all, introductions)| all - u64::from(introductions));
        Self {
            total: messages().sum(),
            most: messages().max().unwrap_or(0),
            ring_most: ring.max().unwrap_or(0),
            introductions_min: introductions().min().unwrap_or(0),
            introductions_max: introductions().max().unwrap_or(0),
        }
    }
}
