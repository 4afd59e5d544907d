//! A UDP socket that is told of packets that come, and of room to send only while
//! somebody waits for room.
//!
//! tokio's sockets are told of both, always; and the kernel says that there is room
//! whenever a packet has gone out, which wakes an idle process once for each packet it
//! sends.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use metrics::Counter;
use quinn::udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::catalogue;

/// How many trains of datagrams are read at once at least. quinn has room for 32, which were
/// up to 430 KiB from a quinn peer, and copies them on once all have come.
const FEW: usize = 4;
/// As many trains as asked for that are together no longer than this are short ones, of which
/// twice as many are read next.
const SHORT_BYTES: usize = 16 << 10;

/// How long is waited where the kernel cannot even watch for room.
const BLIND: Duration = Duration::from_millis(1);

/// The socket.
#[derive(Debug)]
pub(super) struct Socket {
    state: UdpSocketState,
    socket: AsyncFd<UdpSocket>,
    /// The kernel had no room when something was sent last.
    is_full: AtomicBool,
    /// How many trains are read next.
    lot: AtomicUsize,
    room_waits: Counter,
    blind_waits: Counter,
}

impl Socket {
    /// Must be called within a tokio runtime. Metrics go to the recorder that is
    /// current here and now.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            socket: watched(socket, Interest::READABLE)?,
            is_full: AtomicBool::new(false),
            lot: AtomicUsize::new(FEW),
            room_waits: catalogue::ROOM_WAITS.get(),
            blind_waits: catalogue::BLIND_WAITS.get(),
        })
    }

    /// Wait for room, each time anew, and by another descriptor, since each can be
    /// watched once: so what is found is true now, whoever else waits.
    fn room(&self, other: io::Result<UdpSocket>) -> Room {
        self.room_waits.increment(1);
        match other.and_then(|other| watched(other, Interest::WRITABLE)) {
            Ok(room) => Box::pin(async move { room.writable().await.map(drop) }),
            // No descriptor is left. A connection that is told of an error is lost.
            Err(_) => {
                self.blind_waits.increment(1);
                Box::pin(async {
                    tokio::time::sleep(BLIND).await;
                    Ok(())
                })
            }
        }
    }
}

/// Whether nothing is left once so many have come where there was room for so many: then
/// nobody need ask. What has come since the look at the readiness has made it ready anew.
///
/// Of Linux alone, which fills as many as it can. (It would not wake anybody for what is
/// behind an error, and a socket that is not connected has none.)
fn is_all(count: usize, room: usize) -> bool {
    cfg!(target_os = "linux") && count < room.min(BATCH_SIZE)
}

/// How many are read next, once these have come where there was room for so many.
fn lot_after(room: usize, trains: &[RecvMeta]) -> usize {
    let bytes: usize = trains.iter().map(|train| train.len).sum();
    match trains.len() == room && bytes <= SHORT_BYTES {
        true => (2 * room).clamp(FEW, BATCH_SIZE.max(FEW)),
        false => FEW,
    }
}

type Room = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

#[expect(
    deprecated,
    reason = "unsound with types that lie about their descriptor; a socket owns it"
)]
fn watched<S: std::os::fd::AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Waiting {
            socket: self,
            room: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.state.send(self.socket.get_ref().into(), transmit);
        if let Err(error) = &sent
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.is_full.store(true, Ordering::Release);
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let room = bufs.len().min(self.lot.load(Ordering::Relaxed));
        let bufs = &mut bufs[..room];
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            let received = ready.try_io(|socket| {
                let socket = socket.get_ref().into();
                self.state.recv(socket, bufs, meta)
            });
            if let Ok(received) = received {
                if let Ok(count) = received {
                    if is_all(count, room) {
                        ready.clear_ready();
                    }
                    let next = lot_after(room, &meta[..count]);
                    self.lot.store(next, Ordering::Relaxed);
                }
                return Poll::Ready(received);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// One connection, which may wait for room.
struct Waiting {
    socket: Arc<Socket>,
    room: Option<Room>,
}

impl UdpPoller for Waiting {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.room.is_none() {
            if !self.socket.is_full.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
            let other = self.socket.socket.get_ref().try_clone();
            self.room = Some(self.socket.room(other));
        }
        let Some(room) = &mut self.room else {
            return Poll::Ready(Ok(()));
        };
        let found = ready!(room.as_mut().poll(cx));
        self.room = None;
        self.socket.is_full.store(false, Ordering::Release);
        Poll::Ready(found)
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn loopback() -> Arc<Socket> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Arc::new(Socket::new(socket).unwrap())
    }

    async fn received(socket: &Socket) -> Vec<u8> {
        let mut buffer = [0; 64];
        let mut meta = [RecvMeta::default()];
        let count = poll_fn(|cx| {
            let mut buffers = [IoSliceMut::new(&mut buffer)];
            socket.poll_recv(cx, &mut buffers, &mut meta)
        });
        assert_eq!(count.await.unwrap(), 1);
        buffer[..meta[0].len].to_vec()
    }

    fn to(destination: SocketAddr, contents: &[u8]) -> Transmit<'_> {
        Transmit {
            destination,
            ecn: None,
            contents,
            segment_size: None,
            src_ip: None,
        }
    }

    #[tokio::test]
    async fn who_has_room_sends_at_once_and_what_comes_is_read() {
        let (here, there) = (loopback(), loopback());
        let mut waiting = here.clone().create_io_poller();
        let at_once = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll_writable(cx))).await;
        assert!(matches!(at_once, Poll::Ready(Ok(()))));
        for word in ["one", "two"] {
            let transmit = to(there.local_addr().unwrap(), word.as_bytes());
            here.try_send(&transmit).unwrap();
            assert_eq!(received(&there).await, word.as_bytes());
        }
    }

    #[tokio::test]
    async fn nobody_asks_for_more_when_less_came_than_there_was_room_for() {
        let (here, there) = (loopback(), loopback());
        let is_asked = || poll_fn(|cx| Poll::Ready(there.socket.poll_read_ready(cx).is_ready()));
        let (mut one, mut other) = ([0; 8], [0; 8]);
        let mut meta = [RecvMeta::default(); 2];
        // Each time anew: nothing that comes is overlooked.
        for _ in 0..3 {
            let transmit = to(there.local_addr().unwrap(), b"word");
            here.try_send(&transmit).unwrap();
            let count = poll_fn(|cx| {
                let mut buffers = [&mut one, &mut other].map(|buffer| IoSliceMut::new(buffer));
                there.poll_recv(cx, &mut buffers, &mut meta)
            });
            assert_eq!(count.await.unwrap(), 1);
            assert!(!is_asked().await);
        }
    }

    /// On loopback what is sent has come.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn few_are_read_at_once_but_more_and_more_while_they_are_short_and_many() {
        const SENT: usize = 2 * FEW + 1;
        const LONG: usize = SHORT_BYTES / FEW + 1;
        let (here, there) = (loopback(), loopback());
        let address = there.local_addr().unwrap();
        let mut buffers = vec![[0; LONG]; SENT];
        let mut meta = [RecvMeta::default(); SENT];
        let mut read = async || {
            let count = poll_fn(|cx| {
                let buffers = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
                there.poll_recv(cx, &mut buffers.collect::<Vec<_>>(), &mut meta)
            });
            let count = tokio::time::timeout(Duration::from_secs(30), count).await;
            let count = count.expect("overlooked, or lost").unwrap();
            (count, buffers[count - 1][0])
        };
        for (length, lots) in [
            (LONG, [FEW, FEW, 1].as_slice()),
            (1, &[FEW, FEW + 1]),
            (1, &[FEW, FEW + 1]),
            (LONG, &[FEW, FEW, 1]),
        ] {
            for number in 0..SENT {
                let contents = vec![number as u8; length];
                here.try_send(&to(address, &contents)).unwrap();
            }
            let mut came = 0;
            for lot in lots {
                came += lot;
                let last = came as u8 - 1;
                assert_eq!(read().await, (*lot, last), "of {length} bytes each");
            }
        }
    }

    /// Three words, of which two are read at once at most, and any while others are read.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_that_comes_together_is_overlooked() {
        let (here, there) = (loopback(), loopback());
        let address = there.local_addr().unwrap();
        let (all_came, all) = std::sync::mpsc::channel();
        let sender = std::thread::spawn(move || {
            while all.recv().is_ok() {
                for _ in 0..3 {
                    here.try_send(&to(address, b"word")).unwrap();
                }
            }
        });
        let mut buffers = [[0; 8]; 2];
        let mut meta = [RecvMeta::default(); 2];
        for round in 0..10_000 {
            all_came.send(()).unwrap();
            let mut came = 0;
            while came < 3 {
                let some = poll_fn(|cx| {
                    let mut buffers = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
                    there.poll_recv(cx, &mut buffers, &mut meta)
                });
                let some = tokio::time::timeout(Duration::from_secs(30), some).await;
                came += some
                    .unwrap_or_else(|_| panic!("round {round}: overlooked, or lost"))
                    .unwrap();
            }
        }
        drop(all_came);
        sender.join().unwrap();
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_once_whoever_else_waits() {
        let here = loopback();
        let mut waiting = [here.clone(), here.clone()].map(Socket::create_io_poller);
        let found = async |one: &mut Pin<Box<dyn UdpPoller>>| {
            poll_fn(|cx| Poll::Ready(one.as_mut().poll_writable(cx))).await
        };
        here.is_full.store(true, Ordering::Release);
        for one in &mut waiting {
            assert!(found(one).await.is_pending());
        }
        let [first, other] = &mut waiting;
        poll_fn(|cx| first.as_mut().poll_writable(cx))
            .await
            .unwrap();
        assert!(!here.is_full.load(Ordering::Acquire));

        // It fills the socket again before the other has looked.
        here.is_full.store(true, Ordering::Release);
        assert!(
            found(first).await.is_pending(),
            "room that is there no more"
        );
        poll_fn(|cx| first.as_mut().poll_writable(cx))
            .await
            .unwrap();
        poll_fn(|cx| other.as_mut().poll_writable(cx))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn without_a_descriptor_to_watch_by_it_is_tried_again_and_nothing_is_lost() {
        let here = loopback();
        let none_left = io::Error::from_raw_os_error(24);
        here.room(Err(none_left)).await.unwrap();
    }
}
