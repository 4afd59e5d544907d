//! The same bytes over one bare QUIC link between two hosts, with the settings of our own links and
//! nothing on top. Pushes are compared with it.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use binomesh::cluster::Place;
use binomesh_overlay::quic::bare::Bare;
use binomesh_overlay::quic::{Identity, TransportLimits};
use bytes::Bytes;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::super::setup::now;
use crate::command::Failure;

/// A port beside that of the nodes.
const PORT: u16 = 7701;

/// One end of the link.
pub(super) struct End<'a> {
    pub(super) place: &'a Place,
    pub(super) identity: Identity,
}

/// The time of a transfer, from the first byte until the receiver says that it has all bytes.
pub(super) fn transfer(from: End<'_>, to: End<'_>, bytes: Bytes) -> Result<Duration, Failure> {
    let at = to
        .place
        .found_at
        .ok_or_else(|| Failure::run("the receiving host of the bare link has no address"))?;
    let at = SocketAddr::new(at.ip(), PORT);
    let (is_there, listening) = mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope
            .spawn(move || in_host(to.place, async || receive(at, &to.identity, is_there).await));
        // If the receiver ends before it listens, this fails, and the receiver's own error is
        // returned.
        let sent = listening.recv().map_err(Failure::run);
        let sent =
            sent.and_then(|()| in_host(from.place, async || send(at, &from.identity, bytes).await));
        let received = receiver.join();
        received.map_err(|_| Failure::run("the receiver of the bare link panicked"))??;
        sent
    })
}

/// Run `body` in a runtime of its own in the network namespace of a host. Sockets belong to the
/// namespace of the thread that opens them.
fn in_host<T: Send>(
    host: &Place,
    body: impl AsyncFnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let path = host.namespace.as_ref();
    let path =
        path.ok_or_else(|| Failure::run("a host of the bare link has no network namespace"))?;
    let inside = || {
        let namespace = File::open(path).map_err(Failure::run)?;
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).map_err(Failure::run)?;
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(Failure::run)?;
        runtime.block_on(body())
    };
    let joined = std::thread::scope(|scope| scope.spawn(inside).join());
    joined.map_err(|_| Failure::run("an end of the bare link panicked"))?
}

async fn receive(
    at: SocketAddr,
    identity: &Identity,
    is_there: mpsc::Sender<()>,
) -> Result<(), Failure> {
    let endpoint = Bare::bind(at, identity, &TransportLimits::default()).map_err(Failure::run)?;
    is_there.send(()).map_err(Failure::run)?;
    let accepted = endpoint.accept().await;
    let accepted = accepted.ok_or_else(|| Failure::run("the bare link was closed"))?;
    let connection = accepted.map_err(Failure::run)?;
    let mut stream = connection.accept_uni().await.map_err(Failure::run)?;
    while let Some(chunk) = stream
        .read_chunk(usize::MAX, true)
        .await
        .map_err(Failure::run)?
    {
        drop(chunk);
    }
    let mut answer = connection.open_uni().await.map_err(Failure::run)?;
    answer.write_all(b"all").await.map_err(Failure::run)?;
    answer.finish().map_err(Failure::run)?;
    connection.closed().await;
    endpoint.close().await;
    Ok(())
}

async fn send(at: SocketAddr, identity: &Identity, bytes: Bytes) -> Result<Duration, Failure> {
    let any = SocketAddr::new(super::any_like(at), 0);
    let endpoint = Bare::bind(any, identity, &TransportLimits::default()).map_err(Failure::run)?;
    let connection = endpoint.dial(at).await.map_err(Failure::run)?;
    let begun = now();
    let mut stream = connection.open_uni().await.map_err(Failure::run)?;
    stream.write_chunk(bytes).await.map_err(Failure::run)?;
    stream.finish().map_err(Failure::run)?;
    let mut answer = connection.accept_uni().await.map_err(Failure::run)?;
    answer.read_to_end(16).await.map_err(Failure::run)?;
    let taken = begun.elapsed();
    endpoint.close().await;
    Ok(taken)
}
