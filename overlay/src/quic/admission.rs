//! Admission of processes: finds the facts for the rule of greetings (`lives`), and carries out its
//! verdict.
//!
//! ```text
//!   greeting ─▶ a link stands ─▶ its process is asked over it: Question, Answer
//!            ─▶ none stands   ─▶ other addresses of a starting peer are tried: Probe, Present
//!            ─▶ not admitted  ─▶ Refusal, with what the refused process can check itself
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use quinn::{Connection, SendStream};
use tokio::sync::oneshot;

use super::close::{CloseCode, DialError};
use super::greeting::{self, AdmissionRefusal, Fingerprint, Greeting, Hello};
use super::handshake::{GREETING_PRIORITY, said_addresses, seen, subject_of};
use super::life::ProcessAddresses;
use super::link::Question;
use super::peer::Link;
use super::{Shared, TransportEvent, tls};
use crate::PeerId;
use crate::lives::{Admission, Answer, Consequence, Greeter, Holder, admission, consequence};

/// How many other addresses of a peer, at most, are probed when one of its processes starts.
const MAX_PROBES: usize = 4;

/// The decision about a greeted connection.
#[derive(Debug, Clone)]
pub(super) struct AdmissionDecision {
    /// The peer's current link when the decision was made; none if it had none.
    pub(super) holder: Option<Arc<Link>>,
    /// Whether the process of that link is gone, or has to end.
    pub(super) replaces: bool,
}

impl Shared {
    /// Decide whether the process of a greeted connection is admitted.
    pub(super) async fn judge_arrival(
        self: &Arc<Self>,
        arrival: &Arc<Link>,
        hello: &Hello,
    ) -> Result<AdmissionDecision, AdmissionRefusal> {
        let (peer, greeter) = (arrival.peer, arrival.greeter());
        let newest = self.life.newest(peer);
        let entry = self.table.find(peer);
        let current = entry.as_ref().and_then(|entry| entry.current());
        let standing = current.filter(|link| link.is_alive());
        let boot = newest.as_ref().map(|(boot, _)| *boot);
        let judge = |holder, answer| admission(greeter, boot, holder, answer);
        let holder = standing.as_ref().map(|link| Holder {
            greeter: link.greeter(),
            is_same_place: arrival.is_in_place_of(link),
        });
        let mut at = standing.as_ref().map(|link| seen(&link.connection));
        let mut verdict = judge(holder, None);
        if verdict == Admission::Asks
            && let Some(link) = &standing
        {
            let doubted = entry.and_then(|entry| entry.doubted());
            let answer = match doubted.is_some_and(|doubted| Arc::ptr_eq(&doubted, link)) {
                // The link is silent already, and its process was asked by other means.
                true => Answer::Silence,
                false => self.ask(link, arrival.entered.fingerprint).await,
            };
            verdict = judge(holder, Some(answer));
        } else if verdict == Admission::Admitted && holder.is_none() && !greeter.is_member {
            let found = self.look_elsewhere(arrival, hello).await;
            if let Some((holder, address)) = found {
                at = Some(address);
                verdict = judge(Some(holder), Some(Answer::Foreign));
            }
        }
        let admitted = |replaces| {
            Ok(AdmissionDecision {
                holder: standing.clone(),
                replaces,
            })
        };
        let addresses = at.map(|holder| ProcessAddresses {
            holder,
            greeter: seen(&arrival.connection),
        });
        match verdict {
            Admission::Admitted => admitted(false),
            Admission::Replaces => admitted(true),
            Admission::Displaces => {
                self.note_duplicate(
                    arrival,
                    addresses,
                    "the newer process stays, the other one ends",
                );
                admitted(true)
            }
            Admission::Outdated => {
                self.metrics.lives_outdated.increment(1);
                let lives_at = None;
                Err(AdmissionRefusal { newest, lives_at })
            }
            Admission::Refused | Admission::Asks => {
                self.note_duplicate(arrival, addresses, "the linked process stays");
                let lives_at = at;
                Err(AdmissionRefusal { newest, lives_at })
            }
        }
    }

    /// Note that two processes of one identity exist: count them, and log their addresses.
    fn note_duplicate(&self, arrival: &Link, addresses: Option<ProcessAddresses>, outcome: &str) {
        self.metrics.duplicates.increment(1);
        let Some(ProcessAddresses { holder, greeter }) = addresses else {
            return;
        };
        if self.life.is_to_be_told(arrival.peer, self.now()) {
            tracing::warn!(
                peer = %arrival.name,
                linked = %holder,
                other = %greeter,
                outcome,
                "two processes have one identity; stop one, or give one a certificate of its own"
            );
        }
    }

    /// Ask the process at the other end of a link about a new connection.
    async fn ask(&self, link: &Link, about: Fingerprint) -> Answer {
        let (reply, answered) = oneshot::channel();
        let question = Question { about, reply };
        // With too many open questions the process counts as not silent.
        if link.questions.try_send(question).is_err() && link.is_alive() {
            return Answer::Foreign;
        }
        self.metrics.questions.increment(1);
        let limit = self.limits.answer_time();
        let answered = tokio::time::timeout(limit, answered).await;
        match answered {
            Ok(Ok(true)) => Answer::Own,
            Ok(Ok(false)) => Answer::Foreign,
            _ => Answer::Silence,
        }
    }

    /// Look for another process of a peer at those known addresses of the peer that `arrival` does
    /// not name or come from.
    async fn look_elsewhere(
        self: &Arc<Self>,
        arrival: &Link,
        hello: &Hello,
    ) -> Option<(Holder, SocketAddr)> {
        let mut here = said_addresses(hello);
        here.push(seen(&arrival.connection));
        let known = self.book().addresses(arrival.peer);
        let elsewhere = known.into_iter().filter(|address| !here.contains(address));
        let peer = arrival.peer;
        let mut probes: FuturesUnordered<_> = elsewhere
            .take(MAX_PROBES)
            .map(|address| async move {
                let (hello, is_own) = self
                    .probe(peer, address, arrival.entered.fingerprint)
                    .await?;
                (!is_own).then(|| (self.life.greeter(peer, &hello), address))
            })
            .collect();
        while let Some(found) = probes.next().await {
            if let Some((greeter, address)) = found {
                let is_same_place = false;
                let holder = Holder {
                    greeter,
                    is_same_place,
                };
                return Some((holder, address));
            }
        }
        None
    }

    /// Ask which process of `peer` is at an address, and whether it has the connection `about`
    /// itself. `None` if no process of `peer` answers in time, or if no dial is free.
    async fn probe(
        self: &Arc<Self>,
        peer: PeerId,
        address: SocketAddr,
        about: Fingerprint,
    ) -> Option<(Hello, bool)> {
        let _permit = self.dials.try_acquire().ok()?;
        let endpoint = self.endpoint_for(address)?;
        let config = self.client();
        let probe = async {
            let connecting = endpoint.connect_with(config, address, tls::SERVER_NAME);
            let connection = connecting.ok()?.await.ok()?;
            let closing = Closing(connection.clone());
            let (subject, _) = subject_of(&connection)?;
            if subject.id != peer {
                return None;
            }
            let (mut say, mut hear) = connection.open_bi().await.ok()?;
            greeting::say(&mut say, &Greeting::Probe(about))
                .await
                .ok()?;
            let present = greeting::hear(&mut hear).await.ok()?;
            drop(closing);
            match present {
                Greeting::Present(hello, is_own) => Some((hello, is_own)),
                _ => None,
            }
        };
        let limit = self.limits.answer_time();
        tokio::time::timeout(limit, probe).await.ok().flatten()
    }

    /// Answer a probe, which only asks for the process at this address.
    pub(super) async fn present(
        &self,
        say: &mut SendStream,
        connection: &Connection,
        to: PeerId,
        about: &Fingerprint,
    ) {
        let is_own = self.life.connections.has(to, about);
        let hello = self.hello(to, 0);
        let _ = say.set_priority(GREETING_PRIORITY);
        if greeting::say(say, &Greeting::Present(hello, is_own))
            .await
            .is_ok()
        {
            let _ = say.finish();
            let limit = self.limits.answer_time();
            let _ = tokio::time::timeout(limit, connection.closed()).await;
        }
    }

    /// `from` does not admit this process, or shows it a newer life: act on that.
    pub(super) async fn on_refusal(
        self: &Arc<Self>,
        from: PeerId,
        refusal: AdmissionRefusal,
    ) -> DialError {
        let AdmissionRefusal { newest, lives_at } = refusal;
        let own = self.life.own();
        let greeter = Greeter {
            boot: own.boot,
            is_proven: true,
            is_member: own.is_member,
        };
        let is_proven = |(boot, statement): &(u64, Bytes)| {
            let life = (*boot, statement);
            self.life.is_proven(from, self.me, life)
        };
        if let Some((newest, _)) = newest.filter(is_proven) {
            match (consequence(greeter, newest, lives_at.is_some()), lives_at) {
                (Consequence::Nothing, _) => {}
                (Consequence::Search, Some(address)) => self.search(address, newest),
                (Consequence::Search | Consequence::NewLife { .. }, _) => {
                    self.emit(TransportEvent::Outlived { newest }).await;
                }
            }
        }
        match lives_at {
            Some(address) => DialError::Duplicate { address },
            None => DialError::OldBoot,
        }
    }

    /// Another process of this identity is said to run a newer life: ask that process itself, as no
    /// other peer is believed about that.
    fn search(self: &Arc<Self>, address: SocketAddr, newest: u64) {
        if self.life.is_searching.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = self.clone();
        self.spawn(async move {
            let found = shared
                .probe(shared.me, address, Fingerprint::default())
                .await;
            let found = found.map(|(hello, _)| shared.life.greeter(shared.me, &hello));
            let boot = shared.life.boot();
            let newer = found.filter(|found| found.is_proven && found.boot > boot);
            match newer.map(|found| found.is_member) {
                Some(true) => shared.emit(TransportEvent::Superseded { address }).await,
                // That process is starting, and this one was there first.
                Some(false) => {}
                None => shared.emit(TransportEvent::Outlived { newest }).await,
            }
            shared.life.is_searching.store(false, Ordering::Relaxed);
        });
    }

    /// Refuse a process, and give it time to read the reason.
    pub(super) async fn refuse(
        &self,
        say: &mut SendStream,
        connection: &Connection,
        refusal: AdmissionRefusal,
    ) {
        let code = match refusal.lives_at {
            Some(_) => CloseCode::Duplicate,
            None => CloseCode::OldBoot,
        };
        if greeting::say(say, &Greeting::Refusal(refusal))
            .await
            .is_ok()
        {
            let _ = say.finish();
            let limit = self.limits.answer_time();
            let _ = tokio::time::timeout(limit, connection.closed()).await;
        }
        code.close(connection);
    }
}

/// A connection that is closed on drop, with its purpose fulfilled.
struct Closing(Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        CloseCode::Done.close(&self.0);
    }
}
