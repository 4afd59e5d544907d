//! A listener that has so many connections at once and no more. Further ones wait
//! in the kernel's backlog until one ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener with a bound.
pub(super) struct Bounded<L> {
    listener: L,
    places: Arc<Semaphore>,
    /// Counts how often all places were taken.
    waits: Counter,
}

impl<L> Bounded<L> {
    pub(super) fn new(listener: L, most: usize, waits: Counter) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self {
            listener,
            places,
            waits,
        }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Held<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) => {
                self.waits.increment(1);
                self.places.clone().acquire_owned().await.ok()
            }
        };
        let (io, address) = self.listener.accept().await;
        (Held { io, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that holds its place until it is dropped.
pub(super) struct Held<T> {
    io: T,
    _place: Option<OwnedSemaphorePermit>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn one_connection_too_many_waits_for_a_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded::new(listener, 1, Counter::noop());
        let _first = TcpStream::connect(address).await.unwrap();
        let (held, _) = bounded.accept().await;
        let second = TcpStream::connect(address).await.unwrap();
        assert!(bounded.accept().now_or_never().is_none());
        drop(held);
        let (_, from) = bounded.accept().await;
        assert_eq!(from, second.local_addr().unwrap());
    }
}
