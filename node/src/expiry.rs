//! When what a node proves itself with ends, and who has to know that in time.

use binomesh_overlay::quic::{Document, Term};
use serde::{Deserialize, Serialize};

use crate::catalogue;

/// How often a node says it again.
const AGAIN_SECONDS: i64 = 86_400;

/// How long a certificate, an authority or a revocation list holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialTerm {
    /// `certificate`, `authority`, or `revocation_list`. Of several of a kind it is the one that
    /// ends first. Those that had ended when they were read do not count.
    pub document: String,
    /// Its first second since 1970.
    pub from: i64,
    /// Its last second. A revocation list goes on revoking after it: a next one is overdue.
    pub until: i64,
}

impl CredentialTerm {
    /// How it stands with it at a time, in seconds since 1970.
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

    /// How long it still holds, in words: "3 days", or how long it has ended.
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

/// How it stands with something that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// More than a third of its time is left.
    Good,
    /// Less is left.
    Ending,
    /// It has ended.
    Ended,
}

/// Says in the log and in the metrics when something ends.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// With what was said of it last, and when.
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

    /// What there is to say now, each once, and what goes on once a day.
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

    /// Say it.
    pub(crate) fn attend(&mut self, now: i64) {
        for (term, stage) in self.news(now) {
            let (document, left) = (&term.document, term.left(now));
            match (stage, document.as_str()) {
                (Stage::Good, _) => {}
                (Stage::Ending, _) => tracing::warn!(
                    document,
                    left,
                    until = term.until,
                    "a document of the credentials ends soon: put a new one in its place and send SIGHUP"
                ),
                (Stage::Ended, "revocation_list") => tracing::warn!(
                    document,
                    ago = left,
                    until = term.until,
                    "the next revocation list is overdue, the last one goes on revoking: put a new one in its place and send SIGHUP"
                ),
                (Stage::Ended, _) => tracing::error!(
                    document,
                    ago = left,
                    until = term.until,
                    "a document of the credentials has ended, peers refuse what it vouched for: put a new one in its place and send SIGHUP"
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
    fn it_is_said_from_a_third_before_the_end_once_a_day_and_at_the_end() {
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
    fn what_is_left_is_said_in_the_largest_unit_that_says_much() {
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
