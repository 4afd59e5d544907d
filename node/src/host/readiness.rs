//! Whether this node is ready, why not, and one line in the log if it stays unready.

use std::time::Duration;

use binomesh_overlay::overlay::Island;
use binomesh_overlay::quic::DialError;
use binomesh_overlay::{Health, PeerId};
use tokio::time::Instant;

use super::Host;
use crate::catalogue;
use crate::settings::Seed;
use crate::spiffe::id_of;

/// How long a node may be unready before that is logged. A guess: a restart or a new epoch takes
/// less at the default profile. With less, each restart would be logged.
const PATIENCE: Duration = Duration::from_secs(5);
/// While the node stays unready: the shortest time between two lines in the log that give different
/// reasons for that.
const PAUSE: Duration = Duration::from_secs(60);
/// The most contacts that a reason names.
const NAMED_MAX: usize = 4;

/// Since when a node has been unready, and what the log was told of it.
#[derive(Debug, Default)]
pub(super) struct Unreadiness {
    since: Option<Instant>,
    /// The reason that was logged last, and when.
    logged: Option<(Kind, Instant)>,
    /// Whether the log was told that the node is unready, and not yet that it is ready again.
    is_logged: bool,
}

/// What a node lacks to be ready, without details that change by the second.
pub(super) type Kind = (Health, Option<Island>);

impl Host {
    /// Why this node is not ready, in words.
    pub(super) fn unready(&self) -> Option<String> {
        if self.leaving.is_some() {
            return Some("this node is leaving".to_owned());
        }
        let overlay = self.peer.overlay();
        match (self.unsettled(), overlay.island()) {
            (Some(reason), _) if overlay.health() == Health::Unanchored => {
                Some(format!("{reason}{}", self.refusals_of_contacts()))
            }
            (Some(reason), _) => Some(reason),
            (None, Some(island)) => Some(self.described(island)),
            (None, None) => None,
        }
    }

    fn described(&self, island: Island) -> String {
        let overlay = self.peer.overlay();
        match island {
            Island::Unmet if overlay.tree().is_root() => {
                format!("{island}{}", self.refusals_of_contacts())
            }
            Island::Unmet => {
                let root = self.name_of(overlay.tree().root().id);
                format!("{island}; its root is {root}")
            }
            Island::Deserted => {
                let count = self.peer.lost_count();
                format!("{island} ({count}){}", self.refusals_of_contacts())
            }
        }
    }

    /// The end of a reason: for at most [`NAMED_MAX`] contacts the last refusal, or else whether
    /// the contact is linked. Without contacts: the last refusal of any peer.
    fn refusals_of_contacts(&self) -> String {
        let contacts: Vec<&Seed> = self
            .config
            .parent
            .iter()
            .chain(&self.config.seeds)
            .collect();
        let said = |contact: &&Seed| {
            let id = id_of(&self.trust_domain, &contact.name);
            let refusal = self.dial_failures.get(&id).map(ToString::to_string);
            let otherwise = match self.boots.contains_key(&id) {
                true => "linked, but not in the same overlay",
                false => "no answer yet",
            };
            format!("{contact} ({})", refusal.as_deref().unwrap_or(otherwise))
        };
        let mut named: Vec<String> = contacts.iter().take(NAMED_MAX).map(said).collect();
        match (contacts.len().checked_sub(NAMED_MAX), &self.last_refusal) {
            (Some(more @ 1..), _) => named.push(format!("{more} more")),
            (_, Some((peer, refusal))) if named.is_empty() => {
                named.push(format!("{} ({refusal})", self.name_of(*peer)));
            }
            _ => {}
        }
        match named.is_empty() {
            true => String::new(),
            false => format!(": {}", named.join(", ")),
        }
    }

    /// Keep the reason why a peer could not be dialled, as the last refusal.
    pub(super) fn note_refusal(&mut self, peer: PeerId, reason: &DialError) {
        self.last_refusal = Some((peer, reason.clone()));
    }

    /// Log that the node stays unready, and again when the kind of reason changes, but seldom
    /// ([`PAUSE`]). Log once that the node is ready again.
    pub(super) fn attend_readiness(&mut self, is_ready: bool, now: Instant) {
        if is_ready || self.leaving.is_some() {
            if std::mem::take(&mut self.unreadiness.is_logged) && is_ready {
                tracing::info!("ready again");
            }
            self.unreadiness.since = None;
            return;
        }
        let since = *self.unreadiness.since.get_or_insert(now);
        let overlay = self.peer.overlay();
        let kind = (overlay.health(), overlay.island());
        let is_news = match self.unreadiness.logged {
            Some((before, at)) if self.unreadiness.is_logged => before != kind && now >= at + PAUSE,
            _ => true,
        };
        if now < since + PATIENCE || !is_news {
            return;
        }
        self.unreadiness.logged = Some((kind, now));
        self.unreadiness.is_logged = true;
        catalogue::UNREADY.get().increment(1);
        let reason = self.unready();
        tracing::warn!(reason, "the node is not ready; it keeps trying");
    }
}
