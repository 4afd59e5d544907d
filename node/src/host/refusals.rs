//! Which refused messages the log has been told of, by peer and reason.

use std::collections::BTreeSet;

use binomesh_overlay::PeerId;

/// What the log was told: a peer that keeps sending bad messages is logged once per reason. When
/// this is full, nothing more is logged. The metric counts all refused messages.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    logged: BTreeSet<(PeerId, &'static str)>,
}

impl Refusals {
    /// The most entries. A guess: each link may cause some, and people have to read the log.
    const MAX: usize = 256;

    /// Whether this refusal is new to the log.
    pub(super) fn is_news(&mut self, peer: PeerId, reason: &'static str) -> bool {
        self.logged.len() < Self::MAX && self.logged.insert((peer, reason))
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
