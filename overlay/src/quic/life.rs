//! The life of this process, and the newest proven lives of other processes.
//!
//! Not here: the rule by which a process is admitted (`lives`), and the questions to the processes
//! that a greeting concerns (`admission`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::Connection;
use rustls_pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::Instant;

use super::BindError;
use super::greeting::{Fingerprint, Hello, OTHERS_MAX};
use super::identity::Identity;
use super::notary::{Forged, Notary};
use crate::PeerId;
use crate::lives::{BOOT_MAX, Greeter, Lives};

/// The label under which both ends of a connection compute its fingerprint.
const FINGERPRINT: &[u8] = b"binomesh connection";
/// The least time between two log lines about duplicates of one peer.
const NOTICE_PERIOD: Duration = Duration::from_secs(60);
/// How many peers' log lines about duplicates are remembered. Beyond it all are forgotten, and each
/// may be logged once more.
const MAX_NOTICES: usize = 256;

/// The life of this process, as its greetings tell it.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) boot: u64,
    /// This process's signature for the boot; empty if the key fails, or its chain is too long to
    /// travel.
    pub(super) statement: Bytes,
    /// Whether the process was counted with other nodes in this life.
    pub(super) is_member: bool,
    /// The certificate of the process's handshakes, with those between it and its authority.
    pub(super) chain: Arc<[CertificateDer<'static>]>,
}

/// This process's own life, and the known lives of other processes.
#[derive(Debug)]
pub(super) struct Life {
    own: watch::Sender<Own>,
    notary: Mutex<Notary>,
    lives: Mutex<Lives<PeerId, Bytes>>,
    pub(super) connections: Connections,
    notices: Mutex<BTreeMap<PeerId, Instant>>,
    /// Whether a search for another process of this identity is under way.
    pub(super) is_searching: AtomicBool,
}

impl Life {
    pub(super) fn new(identity: &Identity, boot: u64) -> Result<Self, BindError> {
        if boot > BOOT_MAX {
            return Err(BindError::Boot);
        }
        let notary = Notary::new(identity, false)?;
        let own = Own {
            boot,
            statement: notary.sign_life(boot).unwrap_or_default(),
            is_member: false,
            chain: identity.chain.as_slice().into(),
        };
        Ok(Self {
            own: watch::Sender::new(own),
            notary: Mutex::new(notary),
            lives: Mutex::default(),
            connections: Connections::default(),
            notices: Mutex::default(),
            is_searching: AtomicBool::new(false),
        })
    }

    /// The life that this process greets with now.
    pub(super) fn own(&self) -> Own {
        self.own.borrow().clone()
    }

    /// The boot of this process.
    pub(super) fn boot(&self) -> u64 {
        self.own.borrow().boot
    }

    /// The changes of this process's life.
    pub(super) fn changes(&self) -> watch::Receiver<Own> {
        self.own.subscribe()
    }

    /// The process was counted with other nodes.
    pub(super) fn join(&self) {
        self.own
            .send_if_modified(|own| !std::mem::replace(&mut own.is_member, true));
    }

    /// Begin another life with this boot.
    pub(super) fn begin(&self, boot: u64) {
        let statement = self.notary().sign_life(boot).unwrap_or_default();
        self.own.send_modify(|own| {
            own.boot = boot;
            own.statement = statement;
            own.is_member = false;
        });
    }

    /// Sign with another certificate from now on, and forget the lives whose statements its
    /// authorities do not accept.
    pub(super) fn renew(&self, identity: &Identity) -> Result<(), BindError> {
        let mut notary = Notary::new(identity, false)?;
        let statement = notary.sign_life(self.boot()).unwrap_or_default();
        self.lives().retain(|peer, boot, statement| {
            // Each statement counts as brought by its own peer: one that is refused uses up no
            // other peer's allowance of bad chains.
            notary.verify_life(peer, peer, boot, statement).is_ok()
        });
        *self.notary() = notary;
        self.own.send_modify(|own| {
            own.statement = statement;
            own.chain = identity.chain.as_slice().into();
        });
        Ok(())
    }

    /// The facts about a process that greets, with the check of its signature.
    pub(super) fn greeter(&self, peer: PeerId, hello: &Hello) -> Greeter {
        Greeter {
            boot: hello.boot,
            is_proven: self.is_proven(peer, peer, (hello.boot, &hello.statement)),
            is_member: hello.is_member,
        }
    }

    /// Whether it is proven that `peer` has signed this life. The statement came over the link to
    /// `from`.
    pub(super) fn is_proven(&self, from: PeerId, peer: PeerId, life: (u64, &Bytes)) -> bool {
        let (boot, statement) = life;
        let mut notary = self.notary();
        !statement.is_empty() && notary.verify_life(from, peer, boot, statement).is_ok()
    }

    /// The newest proven life of a peer. It is forgotten once its statement would no longer be
    /// accepted. A statement that is not judged, as its peer has brought too many bad chains, was
    /// accepted before and is kept.
    pub(super) fn newest(&self, peer: PeerId) -> Option<(u64, Bytes)> {
        let newest = self.lives().newest(peer).map(|(boot, s)| (boot, s.clone()));
        let (boot, statement) = newest?;
        let verified = self.notary().verify_life(peer, peer, boot, &statement);
        if matches!(verified, Ok(()) | Err(Forged::Unjudged)) {
            return Some((boot, statement));
        }
        self.lives().retain(|other, _, _| other != peer);
        None
    }

    /// Note that a proven life was admitted. Returns whether another peer's life was forgotten for
    /// it.
    pub(super) fn note(&self, peer: PeerId, hello: &Hello) -> bool {
        let statement = hello.statement.clone();
        self.lives().note(peer, hello.boot, statement)
    }

    /// Whether a duplicate of `peer` has to be logged now. The time of a log line is noted.
    pub(super) fn is_to_be_told(&self, peer: PeerId, now: Instant) -> bool {
        let notices = self.notices.lock();
        let mut notices = notices.unwrap_or_else(PoisonError::into_inner);
        let last = notices.get(&peer);
        if last.is_some_and(|last| now.saturating_duration_since(*last) < NOTICE_PERIOD) {
            return false;
        }
        if notices.len() >= MAX_NOTICES {
            notices.clear();
        }
        notices.insert(peer, now);
        true
    }

    fn notary(&self) -> MutexGuard<'_, Notary> {
        self.notary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lives(&self) -> MutexGuard<'_, Lives<PeerId, Bytes>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections of this process whose TLS is done, by peer and fingerprint. They are bounded per
/// peer, and in all by the bounds of handshakes and links.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<BTreeSet<(PeerId, Fingerprint)>>>);

impl Connections {
    /// Note a connection until the returned value is dropped. `None` if the peer has `most`
    /// already.
    pub(super) fn enter(
        &self,
        peer: PeerId,
        connection: &Connection,
        most: usize,
    ) -> Option<Entered> {
        let fingerprint = fingerprint(connection);
        let mut all = self.lock();
        if to_peer(&all, peer).count() >= most {
            return None;
        }
        all.insert((peer, fingerprint));
        drop(all);
        Some(Entered {
            connections: self.clone(),
            peer,
            fingerprint,
        })
    }

    /// Whether this process has a connection to `peer` with this fingerprint.
    pub(super) fn has(&self, peer: PeerId, fingerprint: &Fingerprint) -> bool {
        self.lock().contains(&(peer, *fingerprint))
    }

    /// The fingerprints of connections to `peer`, at most as many as a Hello names.
    pub(super) fn to(&self, peer: PeerId) -> Vec<Fingerprint> {
        let all = self.lock();
        to_peer(&all, peer).take(OTHERS_MAX).copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(PeerId, Fingerprint)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_peer(
    all: &BTreeSet<(PeerId, Fingerprint)>,
    peer: PeerId,
) -> impl Iterator<Item = &Fingerprint> {
    let range = (peer, Fingerprint::default())..;
    let of_peer = all.range(range).take_while(move |(to, _)| *to == peer);
    of_peer.map(|(_, fingerprint)| fingerprint)
}

/// A connection that stays noted until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    connections: Connections,
    peer: PeerId,
    pub(super) fingerprint: Fingerprint,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.connections.lock();
        all.remove(&(self.peer, self.fingerprint));
    }
}

/// The fingerprint of a connection: key material that only its two ends can derive. It tells the
/// connection from all others, even for processes that were copied with their memory.
fn fingerprint(connection: &Connection) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    // The export fails only for lengths that TLS cannot derive.
    let _ = connection.export_keying_material(&mut fingerprint, FINGERPRINT, b"");
    fingerprint
}

/// The addresses of two processes of one identity, for the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessAddresses {
    pub(super) holder: SocketAddr,
    pub(super) greeter: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::choice::GoneConnections;
    use crate::quic::identity::tests::self_signed;

    fn hello(boot: u64, statement: Bytes) -> Hello {
        Hello {
            boot,
            attempt: 1,
            gone: GoneConnections::default(),
            addresses: Vec::new(),
            others: Vec::new(),
            is_member: true,
            statement,
            metrics: None,
        }
    }

    /// The same statement with another signature.
    fn forged(statement: &Bytes) -> Bytes {
        let mut bytes = statement.to_vec();
        // Behind the scheme and the length.
        bytes[4 + 8] ^= 1;
        bytes.into()
    }

    #[test]
    fn a_proven_life_outlasts_a_flood_of_forged_statements() {
        let identity = self_signed();
        let (peer, life) = (identity.id(), Life::new(&identity, 7).expect("a life"));
        let statement = life.own().statement;
        life.note(peer, &hello(7, statement.clone()));
        let forged = forged(&statement);
        for _ in 0..Notary::MAX_FAILURES {
            assert!(!life.is_proven(peer, peer, (7, &forged)));
        }
        assert_eq!(life.newest(peer), Some((7, statement)));
    }

    #[test]
    fn a_life_whose_statement_is_refused_is_forgotten() {
        let identity = self_signed();
        let (peer, life) = (identity.id(), Life::new(&identity, 7).expect("a life"));
        let forged = forged(&life.own().statement);
        life.note(peer, &hello(7, forged));
        assert_eq!(life.newest(peer), None);
        assert_eq!(life.lives().newest(peer), None);
    }

    #[test]
    fn a_life_whose_chain_was_refused_before_is_forgotten_again() {
        let stranger = Life::new(&self_signed(), 7).expect("a life");
        let identity = self_signed();
        let (peer, life) = (identity.id(), Life::new(&identity, 7).expect("a life"));
        let statement = stranger.own().statement;
        assert!(!life.is_proven(peer, peer, (7, &statement)));
        // The chain is not judged again for some seconds.
        life.note(peer, &hello(7, statement));
        assert_eq!(life.newest(peer), None);
    }
}
