//! Accepting connections: which handshakes get a permit, and the greeting of the acceptor.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn::{ConnectionError, Endpoint, Incoming};

use super::choice::Direction;
use super::close::{CloseCode, handshake_label};
use super::frame::RefusedFrame;
use super::greeting::{self, Greeting, GreetingError};
use super::handshake::{GREETING_PRIORITY, Handshake, Unfinished, subject_of};
use super::permits::FairPermits;
use super::warnings;
use super::{Shared, TransportEvent};

/// Accept connections until the endpoint is closed. While the transport stops, accept them only to
/// tell the diallers so. This loop waits for no handshake.
///
/// Once half of the permits are taken, the rest are for diallers that prove that they receive at
/// the address from which they seem to send. So a dialler with invented addresses cannot take all
/// permits. Nor can one address while others want permits ([`FairPermits`]).
pub(super) async fn accept(shared: Arc<Shared>, endpoint: Endpoint) {
    let handshakes = FairPermits::new(shared.limits.handshakes);
    while let Some(incoming) = endpoint.accept().await {
        let is_crowded = handshakes.taken() >= shared.limits.handshakes.div_ceil(2);
        if is_crowded && !incoming.remote_address_validated() {
            shared.metrics.retried.increment(1);
            // A retry fails only for addresses that are validated.
            let _ = incoming.retry();
            continue;
        }
        let address = incoming.remote_address();
        let Some(permit) = handshakes.take(network(address)) else {
            shared.note_refusal(address, "busy".into());
            incoming.refuse();
            continue;
        };
        let accepting = shared.clone();
        // The task is not tracked: a transport that stops does not wait for strangers.
        shared.spawn_untracked(async move {
            let limit = accepting.limits.handshake_timeout;
            let accepted = tokio::select! {
                accepted = tokio::time::timeout(limit, accept_one(&accepting, incoming)) => {
                    accepted.unwrap_or(Err("timed_out".into()))
                }
                () = permit.lost().cancelled_owned() => Err("crowded_out".into()),
            };
            drop(permit);
            if let Err(refusal) = accepted {
                accepting.note_refusal(address, refusal);
            }
        });
    }
    if !shared.is_stopping() {
        let address = endpoint.local_addr().ok();
        tracing::error!(?address, "the socket has failed");
        shared.emit(TransportEvent::Failed { address }).await;
    }
}

/// The network whose share of the permits a handshake uses: the IPv4 address, or the first 64 bits
/// of the IPv6 address, since one host may use as many of the other 64 as it likes.
fn network(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// Judge and greet one incoming connection.
async fn accept_one(
    shared: &Arc<Shared>,
    incoming: Incoming,
) -> Result<(), warnings::HandshakeRefusal> {
    let label = |error: ConnectionError| warnings::HandshakeRefusal::from(handshake_label(&error));
    let trust = shared.trust();
    let connection = incoming.accept().map_err(label)?.await.map_err(label)?;
    let mut guard = Unfinished(Some(connection.clone()));
    let (subject, chain) = subject_of(&connection).ok_or("not_a_peer")?;
    let (id, name) = (subject.id, subject.name.clone());
    let refused = |label| warnings::HandshakeRefusal {
        label,
        peer: Some((id, name.clone())),
    };
    let is_self = id == shared.me;
    let most = shared.limits.peer_connections;
    let Some(entered) = shared.life.connections.enter(id, &connection, most) else {
        guard.close(CloseCode::Busy);
        return Err(refused("too_many_links"));
    };
    let (mut say, mut hear) = connection.accept_bi().await.map_err(label)?;
    let _ = say.set_priority(GREETING_PRIORITY);
    let hello = match greeting::hear(&mut hear).await {
        // A node that stops does not present itself, and so makes room for the next process of its
        // identity.
        Ok(Greeting::Probe(about)) if !shared.is_stopping() => {
            shared.present(&mut say, &connection, id, &about).await;
            guard.close(CloseCode::Done);
            return Ok(());
        }
        Ok(Greeting::Probe(_)) => {
            guard.close(CloseCode::Stopping);
            return Err(refused("stopping"));
        }
        Ok(Greeting::Hello(_)) if is_self => {
            guard.close(CloseCode::WrongPeer);
            return Err(refused("self"));
        }
        Ok(Greeting::Hello(hello)) => hello,
        Err(GreetingError::Version) => {
            guard.close(CloseCode::Version);
            return Err(refused("version"));
        }
        Ok(_) | Err(GreetingError::Malformed) => {
            guard.close(CloseCode::Protocol);
            shared.metrics.frame_refused(RefusedFrame::Malformed);
            return Err(refused("greeting"));
        }
        Err(GreetingError::Ended) => return Err(refused("closed_by_peer")),
    };
    if shared.is_stopping() {
        guard.close(CloseCode::Stopping);
        return Err(refused("stopping"));
    }
    let known = shared.table.find(subject.id);
    if shared.has_no_room(known.is_some_and(|peer| peer.is_linked())) {
        guard.close(CloseCode::Busy);
        return Err(refused("busy"));
    }
    shared.metrics.accepted.increment(1);
    let ack = shared.hello(id, 0);
    let greeted = Handshake {
        connection,
        chain,
        subject,
        say,
        hear,
        direction: Direction::Incoming,
        attempt: hello.attempt,
        said: ack.gone,
        trust,
        own_boot: ack.boot,
        entered,
    };
    // The connection is registered before the HelloAck is written. Once the peer has the HelloAck,
    // it may end another connection in favour of this one, which must be known by then.
    let ack = Greeting::Hello(ack);
    let registered = greeted.register(shared, hello, Some(ack)).await;
    guard.disarm();
    registered.map_err(|error| refused(error.label()))
}
