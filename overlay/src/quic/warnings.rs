//! Refused handshakes and failed dials in the log: at most one line per peer or stranger's address,
//! per reason and minute.
//!
//! Any sender of packets can have a handshake refused, so the lines of a minute have a bound.
//! Strangers have a bound of their own, and cannot use up the bound of peers. A peer is dialled
//! by this node, or has shown a certificate that is accepted.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::close::DialError;
use super::explanations;
use crate::PeerId;

/// The least time between two lines about one subject and one reason.
const PERIOD: Duration = Duration::from_secs(60);
/// The most lines of one period. A guess: each line says what to do, and people read them.
const MOST: usize = 32;

/// The subject of a line. A stranger's port is easily changed, so it does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WarningSubject {
    /// A peer that is dialled, or that has an accepted certificate.
    Peer(PeerId),
    /// Any dialler without an accepted certificate at this address.
    Stranger(IpAddr),
}

/// The refusals that were logged in the last period.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    logged: BTreeMap<(WarningSubject, &'static str), Instant>,
    /// Refusals without room for a line, since the last line.
    untold: u64,
}

impl Warnings {
    /// Whether this refusal has to be logged now. If so, returns for how many others there was no
    /// room since the last line.
    fn admit(
        &mut self,
        now: Instant,
        subject: WarningSubject,
        reason: &'static str,
    ) -> Option<u64> {
        self.logged
            .retain(|_, logged| now.saturating_duration_since(*logged) < PERIOD);
        if self.logged.contains_key(&(subject, reason)) {
            return None;
        }
        if self.logged.len() >= MOST {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.logged.insert((subject, reason), now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// A refused handshake of a dialler.
#[derive(Debug)]
pub(super) struct HandshakeRefusal {
    /// The metric label of the reason.
    pub(super) label: &'static str,
    /// Id and name of the dialler, if its certificate was accepted.
    pub(super) peer: Option<(PeerId, String)>,
}

impl From<&'static str> for HandshakeRefusal {
    fn from(label: &'static str) -> Self {
        Self { label, peer: None }
    }
}

impl Shared {
    /// Count a refused handshake of a dialler, and log it unless it needs no line.
    pub(super) fn note_refusal(&self, address: SocketAddr, refusal: HandshakeRefusal) {
        let HandshakeRefusal { label, peer } = refusal;
        self.metrics.handshake_failed(label);
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        tracing::debug!(%address, reason = label, "incoming connection refused");
        // Refusals that need no line, in this order: the dialler gave up and knows why; a node that
        // stops refuses every dialler; a handshake that timed out has no known sender here; a
        // broken connection is dialled again; of a process that is not admitted, a duplicate has
        // its own line, and an older life continues as a newer one.
        let needs_none = [
            "closed_by_peer",
            "stopping",
            "timed_out",
            "quic",
            "not_admitted",
        ];
        if needs_none.contains(&label) {
            return;
        }
        let subject = match &peer {
            Some((id, _)) => WarningSubject::Peer(*id),
            None => WarningSubject::Stranger(address.ip()),
        };
        let Some(untold) = self.admit_warning(subject, label) else {
            return;
        };
        // A stranger's address may be that of a peer whose certificate has expired.
        let likely = match &peer {
            None => self.book().name_at(address),
            Some(_) => None,
        };
        tracing::warn!(
            peer = peer.map(|(_, name)| name),
            likely,
            %address,
            reason = explanations::of(label),
            remedy = explanations::remedy(label),
            untold = (untold > 0).then_some(untold),
            "an incoming connection was refused"
        );
    }

    /// Log that a peer cannot be dialled, unless no address of the peer is known, or the operator
    /// has configured it: the host logs that for configured peers.
    pub(super) fn warn_of_dial(&self, peer: PeerId, at: Option<SocketAddr>, reason: &DialError) {
        let (is_configured, name) = {
            let book = self.book();
            (book.is_configured(peer), book.name(peer))
        };
        if is_configured || *reason == DialError::NoContact {
            return;
        }
        let subject = WarningSubject::Peer(peer);
        let Some(untold) = self.admit_warning(subject, reason.label()) else {
            return;
        };
        tracing::warn!(
            peer = name.unwrap_or_else(|| peer.to_string()),
            address = at.map(tracing::field::display),
            %reason,
            remedy = reason.remedy(),
            untold = (untold > 0).then_some(untold),
            "a peer cannot be reached; the node keeps trying"
        );
    }

    fn admit_warning(&self, subject: WarningSubject, label: &'static str) -> Option<u64> {
        let now = self.now();
        let warnings = match subject {
            WarningSubject::Peer(_) => &self.peer_warnings,
            WarningSubject::Stranger(_) => &self.stranger_warnings,
        };
        let mut warnings = warnings.lock().unwrap_or_else(|error| error.into_inner());
        warnings.admit(now, subject, label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a place in time to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    fn stranger(n: u8) -> WarningSubject {
        WarningSubject::Stranger([10, 0, 0, n].into())
    }

    #[test]
    fn a_refusal_is_told_once_a_minute_per_subject_and_reason() {
        let (mut warnings, start) = (Warnings::default(), start());
        let peer = WarningSubject::Peer(PeerId::from_bytes([1; 16]));
        for (seconds, subject, reason, is_told) in [
            (0, peer, "expired", true),
            (1, peer, "expired", false),
            (1, peer, "revoked", true),
            (1, stranger(1), "expired", true),
            (59, peer, "expired", false),
            (60, peer, "expired", true),
            (61, peer, "revoked", true),
        ] {
            let now = start + Duration::from_secs(seconds);
            let told = warnings.admit(now, subject, reason);
            assert_eq!(told, is_told.then_some(0), "{seconds} {reason}");
        }
    }

    #[test]
    fn the_lines_of_a_minute_have_a_bound_and_the_next_says_how_many_are_missing() {
        let (mut warnings, start) = (Warnings::default(), start());
        let told = (0..200).filter(|n| {
            let told = warnings.admit(start, stranger(*n), "no_certificate");
            told.is_some()
        });
        assert_eq!(told.count(), MOST);
        let later = start + PERIOD;
        let missing = 200 - MOST as u64;
        assert_eq!(warnings.admit(later, stranger(1), "expired"), Some(missing));
        assert_eq!(warnings.admit(later, stranger(2), "expired"), Some(0));
    }

    #[test]
    fn every_label_has_words_and_a_remedy() {
        for (label, meaning) in explanations::REASONS {
            assert!(!meaning.is_empty(), "{label}");
            assert_ne!(explanations::remedy(label), "", "{label}");
        }
    }
}
