//! Whose messages were refused, and why, as far as the log was told.

use std::collections::BTreeSet;

use binomesh_overlay::PeerId;

/// What the log was told. A peer that goes on sending nonsense is told of once per
/// reason; when full, nobody further is. The counter counts them all.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    told: BTreeSet<(PeerId, &'static str)>,
}

impl Refusals {
    /// A guess: each link may bring some, and a log is read by people.
    const MAX: usize = 256;

    /// Whether the log is to be told.
    pub(super) fn is_news(&mut self, peer: PeerId, reason: &'static str) -> bool {
        self.told.len() < Self::MAX && self.told.insert((peer, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_and_reason_is_told_once_and_the_log_does_not_grow_for_ever() {
        let mut refusals = Refusals::default();
        let peer = |n: u16| PeerId::of_uri(&n.to_string());
        for (n, reason, is_news) in [
            (1, "malformed", true),
            (1, "malformed", false),
            (1, "version", true),
            (2, "malformed", true),
        ] {
            assert_eq!(refusals.is_news(peer(n), reason), is_news);
        }
        let news = (3..1000).filter(|n| refusals.is_news(peer(*n), "version"));
        assert_eq!(news.count(), Refusals::MAX - 3);
    }
}
