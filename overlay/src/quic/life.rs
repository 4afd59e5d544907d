//! The life of this process, and the newest proven lives of others.
//!
//! Not here: the rule by which a process is admitted (`lives`), and how the processes of a
//! greeting are asked (`admission`).

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
use super::notary::Notary;
use crate::PeerId;
use crate::lives::{BOOT_MAX, Greeter, Lives};

/// The label under which both ends of a connection compute its fingerprint.
const FINGERPRINT: &[u8] = b"binomesh connection";
/// A duplicate is logged once per peer in this time.
const NOTICE_PERIOD: Duration = Duration::from_secs(60);
/// How many peers are remembered whose duplicates were logged; beyond it the notices of
/// all are forgotten, and each may be logged once more.
const MAX_NOTICES: usize = 256;

/// What this process greets with.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) boot: u64,
    /// Its signature for the boot; empty if its key does not sign.
    pub(super) statement: Bytes,
    /// It has been counted with others in this life.
    pub(super) is_member: bool,
    /// The certificate of its handshakes, with those between it and its authority.
    pub(super) chain: Arc<[CertificateDer<'static>]>,
}

/// The own life, and what is known of the lives of others.
#[derive(Debug)]
pub(super) struct Life {
    own: watch::Sender<Own>,
    notary: Mutex<Notary>,
    lives: Mutex<Lives<PeerId, Bytes>>,
    pub(super) connections: Connections,
    notices: Mutex<BTreeMap<PeerId, Instant>>,
    /// A process of the own identity is looked for.
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

    /// What this process greets with now.
    pub(super) fn own(&self) -> Own {
        self.own.borrow().clone()
    }

    /// Its boot.
    pub(super) fn boot(&self) -> u64 {
        self.own.borrow().boot
    }

    /// Told when it changes.
    pub(super) fn changes(&self) -> watch::Receiver<Own> {
        self.own.subscribe()
    }

    /// It has been counted with others.
    pub(super) fn join(&self) {
        self.own
            .send_if_modified(|own| !std::mem::replace(&mut own.is_member, true));
    }

    /// Begin another life.
    pub(super) fn begin(&self, boot: u64) {
        let statement = self.notary().sign_life(boot).unwrap_or_default();
        self.own.send_modify(|own| {
            own.boot = boot;
            own.statement = statement;
            own.is_member = false;
        });
    }

    /// Sign with another certificate from now on, and forget what it does not believe.
    pub(super) fn renew(&self, identity: &Identity) -> Result<(), BindError> {
        let mut notary = Notary::new(identity, false)?;
        let statement = notary.sign_life(self.boot()).unwrap_or_default();
        self.lives().retain(|peer, boot, statement| {
            // As if each had brought its own: one that is refused costs the others nothing.
            notary.verify_life(peer, peer, boot, statement).is_ok()
        });
        *self.notary() = notary;
        self.own.send_modify(|own| {
            own.statement = statement;
            own.chain = identity.chain.as_slice().into();
        });
        Ok(())
    }

    /// What a peer says of itself, and whether that is proven.
    pub(super) fn greeter(&self, peer: PeerId, hello: &Hello) -> Greeter {
        Greeter {
            boot: hello.boot,
            is_proven: self.is_proven(peer, peer, (hello.boot, &hello.statement)),
            is_member: hello.is_member,
        }
    }

    /// Whether `peer` has signed this life, as `from` says.
    pub(super) fn is_proven(&self, from: PeerId, peer: PeerId, life: (u64, &Bytes)) -> bool {
        let (boot, statement) = life;
        let mut notary = self.notary();
        !statement.is_empty() && notary.verify_life(from, peer, boot, statement).is_ok()
    }

    /// The newest proven life of a peer. It is forgotten once nobody would believe its
    /// statement any more.
    pub(super) fn newest(&self, peer: PeerId) -> Option<(u64, Bytes)> {
        let newest = self.lives().newest(peer).map(|(boot, s)| (boot, s.clone()));
        let (boot, statement) = newest?;
        if self.is_proven(peer, peer, (boot, &statement)) {
            return Some((boot, statement));
        }
        self.lives().retain(|other, _, _| other != peer);
        None
    }

    /// A proven life was admitted. Returns whether another one was forgotten for it.
    pub(super) fn note(&self, peer: PeerId, hello: &Hello) -> bool {
        let statement = hello.statement.clone();
        self.lives().note(peer, hello.boot, statement)
    }

    /// Whether to log a duplicate of `peer` now; if so, the time is noted.
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

/// The connections of this process whose TLS is done, by peer and fingerprint. Bounded as
/// handshakes and links are, and per peer.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<BTreeSet<(PeerId, Fingerprint)>>>);

impl Connections {
    /// Note a connection until the value is dropped, unless the peer has `most` already.
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

    /// Those to `peer`, as far as a Hello names them.
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

/// A connection that is noted.
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

/// Keys that only the two ends of a connection can derive tell it from all others, also
/// for processes that were copied with their memory.
fn fingerprint(connection: &Connection) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    // It fails only for lengths that TLS cannot derive.
    let _ = connection.export_keying_material(&mut fingerprint, FINGERPRINT, b"");
    fingerprint
}

/// Two addresses of the processes of one identity, for the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) holder: SocketAddr,
    pub(super) greeter: SocketAddr,
}
