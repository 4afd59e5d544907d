//! When a node's credentials expire, with warnings in time.

use binomesh_overlay::quic::{Document, Term};
use serde::{Deserialize, Serialize};

use crate::catalogue;

/// How often a warning is repeated: once a day.
const AGAIN_SECONDS: i64 = 86_400;

/// The validity of a certificate, an authority or a revocation list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialTerm {
    /// `certificate`, `authority`, or `revocation_list`. If there are several of a kind, this is
    /// the one that ends first. Documents that had ended when they were read do not count.
    pub document: String,
    /// The first second of the document's validity, since 1970.
    pub from: i64,
    /// The last second of the document's validity. A revocation list goes on revoking after that:
    /// its successor is overdue.
    pub until: i64,
}

impl CredentialTerm {
    /// The credential's stage at the time `now`, in seconds since 1970.
    pub const fn stage(&self, now: i64) -> Stage {
        let life = self.until.saturating_sub(self.from);
        if now > self.until {
            Stage::Ended
        } else if now >= self.until.saturating_sub(life / 3) {
            Stage::Ending
        } else {
            Stage::Good
        }
    }

    /// The time that is left in words, such as "3 days", or the time since it ended.
    pub fn left(&self, now: i64) -> String {
        let seconds = self.until.saturating_sub(now).unsigned_abs();
        let (count, unit) = match seconds {
            0..120 => (seconds, "second"),
            120..7_200 => (seconds / 60, "minute"),
            7_200..172_800 => (seconds / 3_600, "hour"),
            _ => (seconds / 86_400, "day"),
        };
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural}")
    }
}

impl From<&Term> for CredentialTerm {
    fn from(term: &Term) -> Self {
        let document = match term.document {
            Document::Certificate => "certificate",
            Document::Authority => "authority",
            Document::RevocationList => "revocation_list",
        };
        Self {
            document: document.to_owned(),
            from: term.from,
            until: term.until,
        }
    }
}

/// The stage of a credential that will expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// More than a third of its time is left.
    Good,
    /// At most a third of its time is left.
    Ending,
    /// The validity of the credential is over.
    Ended,
}

/// Warns in the log before and after the end of credentials, and shows their beginnings and ends in
/// the metrics.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// Each credential, with the stage and the time of the last warning about it; `Good` and 0
    /// before the first.
    terms: Vec<(CredentialTerm, Stage, i64)>,
}

impl Expiry {
    pub(crate) fn new(terms: &[Term]) -> Self {
        let terms = terms.iter().map(|term| (term.into(), Stage::Good, 0));
        Self {
            terms: terms.collect(),
        }
    }

    pub(crate) fn terms(&self) -> Vec<CredentialTerm> {
        self.terms.iter().map(|(term, ..)| term.clone()).collect()
    }

    /// The warnings that are due now: each new stage once, and a lasting one once a day.
    pub(crate) fn news(&mut self, now: i64) -> Vec<(CredentialTerm, Stage)> {
        let mut news = Vec::new();
        for (term, told, at) in &mut self.terms {
            let stage = term.stage(now);
            let is_new = stage > *told;
            let is_due = stage != Stage::Good && now >= at.saturating_add(AGAIN_SECONDS);
            if is_new || is_due {
                (*told, *at) = (stage, now);
                news.push((term.clone(), stage));
            }
        }
        news
    }

    /// Log the warnings that are due, and set the gauges of all credentials.
    pub(crate) fn attend(&mut self, now: i64) {
        for (term, stage) in self.news(now) {
            let (document, left) = (&term.document, term.left(now));
            match (stage, document.as_str()) {
                (Stage::Good, _) => {}
                (Stage::Ending, _) => tracing::warn!(
                    document,
                    left,
                    until = term.until,
                    "a document of the credentials expires soon; replace its file and send SIGHUP"
                ),
                (Stage::Ended, "revocation_list") => tracing::warn!(
                    document,
                    ago = left,
                    until = term.until,
                    "the next revocation list is overdue, while the last one still revokes; \
                     replace its file and send SIGHUP"
                ),
                (Stage::Ended, _) => tracing::error!(
                    document,
                    ago = left,
                    until = term.until,
                    "a document of the credentials has expired, and certificates that depend on it \
                     are refused; replace its file and send SIGHUP"
                ),
            }
        }
        for (term, ..) in &self.terms {
            for (gauge, time) in [
                (&catalogue::CREDENTIAL_BEGIN, term.from),
                (&catalogue::CREDENTIAL_END, term.until),
            ] {
                gauge.with([term.document.clone()]).set(time as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn expiry(days: i64) -> Expiry {
        Expiry::new(&[Term {
            document: Document::Certificate,
            from: 0,
            until: days * DAY,
        }])
    }

    fn stages(expiry: &mut Expiry, now: i64) -> Vec<Stage> {
        let news = expiry.news(now);
        news.into_iter().map(|(_, stage)| stage).collect()
    }

    #[test]
    fn an_end_is_announced_once_a_day_in_the_last_third_and_when_it_has_come() {
        let mut expiry = expiry(90);
        assert!(stages(&mut expiry, 60 * DAY - 1).is_empty());
        assert_eq!(stages(&mut expiry, 60 * DAY), [Stage::Ending]);
        assert!(stages(&mut expiry, 61 * DAY - 1).is_empty());
        assert_eq!(stages(&mut expiry, 61 * DAY), [Stage::Ending]);
        assert_eq!(stages(&mut expiry, 90 * DAY - 1), [Stage::Ending]);
        assert_eq!(stages(&mut expiry, 90 * DAY + 1), [Stage::Ended]);
        assert!(stages(&mut expiry, 90 * DAY + 2).is_empty());
        assert_eq!(stages(&mut expiry, 91 * DAY + 1), [Stage::Ended]);
    }

    #[test]
    fn the_remaining_time_is_shown_in_its_largest_unit_of_two_or_more() {
        let term = &expiry(90).terms()[0];
        for (left, words) in [
            (1, "1 second"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (2 * DAY - 1, "47 hours"),
            (3 * DAY, "3 days"),
            (-130, "2 minutes"),
        ] {
            assert_eq!(term.left(90 * DAY - left), words);
        }
    }
}
