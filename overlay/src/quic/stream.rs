//! The tasks of streams: each writes frames from a peer's queue, or reads frames for the host.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use quinn::{Connection, ReadError, ReadExactError, RecvStream, SendStream};
use tokio::io::AsyncReadExt;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::assembly::{Assembly, Step};
use super::book::Contact;
use super::budget::SharePermit;
use super::events::EventPriority;
use super::frame::{self, Frame, Header, PlainClass, RefusedFrame, StreamKind};
use super::introductions::Introductions;
use super::peer::{Link, Peer};
use super::pieces::Pieces;
use super::{Shared, TransportEvent};

/// The most frames written at once. A guess: with more, a newer maintenance frame more often finds
/// its slot empty and is sent in addition.
const BATCH_FRAMES: usize = 64;
/// The most bytes written at once: a stream window.
const BATCH_BYTES: usize = 512 << 10;

/// Writes the frames of one class over one link.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<Peer>,
    pub(super) link: Arc<Link>,
    pub(super) class: PlainClass,
}

/// The error when the connection is gone.
struct ConnectionLost;

impl Writer {
    /// Write until the link breaks, or drains and has no frame left to take. Returns the number of
    /// streams opened. The first frame waits until `after` is cancelled, that is, until the peer
    /// has read the former link to its end; it waits for the time of a drain at most.
    pub(super) async fn run(self, after: Option<CancellationToken>) -> u64 {
        if let Some(after) = after {
            let limit = self.shared.limits.drain_timeout;
            let _ = tokio::time::timeout(limit, after.cancelled()).await;
        }
        let mut out = Outgoing {
            stream: None,
            opened: 0,
            introductions: Introductions::new(self.shared.limits.told_contacts),
            large: JoinSet::new(),
        };
        loop {
            let (batch, writable) =
                self.peer
                    .take(&self.link, self.class, BATCH_FRAMES, BATCH_BYTES);
            if writable {
                let peer = self.peer.id;
                self.shared.emit(TransportEvent::Writable { peer }).await;
            }
            if !batch.is_empty() {
                if self.write(&mut out, batch).await.is_err() {
                    break;
                }
            } else if self.link.drain.borrow().is_some() {
                break;
            } else {
                self.woken().await;
                // Yield once, so that packets that are about to be passed on go before the
                // acknowledgements. Acknowledgements that come meanwhile go in the same batch.
                if self.class == PlainClass::Control {
                    yield_now().await;
                }
            }
        }
        while out.large.join_next().await.is_some() {}
        if let Some(mut stream) = out.stream {
            let _ = stream.finish();
        }
        out.opened
    }

    /// Wait for a frame, or for the link to drain. A writer that is busy is not woken.
    async fn woken(&self) {
        let mut has_waited = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            self.link.ready[self.class.index()].register(cx.waker());
            // A frame that came before the registration has woken no task.
            let is_there = self.peer.has_frames(&self.link, self.class);
            match is_there || self.link.drain.borrow().is_some() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    async fn write(&self, out: &mut Outgoing, batch: Vec<Frame>) -> Result<(), ConnectionLost> {
        let mut pieces = Pieces::for_batch(&batch);
        for frame in batch {
            count_out(&self.shared, &self.link, self.class, frame.len());
            let large =
                self.class == PlainClass::Packet && frame.len() > self.shared.limits.large_above;
            if large {
                self.write_large(out, frame).await?;
                continue;
            }
            let contacts = self.contacts(&frame, Some(&mut out.introductions));
            let taken = pieces.add(&contacts, frame);
            self.shared.metrics.contacts_told.increment(taken as u64);
            contacts
                .iter()
                .take(taken)
                .for_each(|c| out.introductions.note(c));
        }
        let mut chunks = pieces.finish();
        if chunks.is_empty() {
            return Ok(());
        }
        let stream = match &mut out.stream {
            Some(stream) => stream,
            none => {
                let kind = StreamKind::Persistent(self.class);
                let stream = open(&self.link.connection, kind, self.class.priority()).await?;
                out.opened += 1;
                none.insert(stream)
            }
        };
        let written = stream.write_all_chunks(&mut chunks).await;
        written.map_err(|_| ConnectionLost)
    }

    /// Write a large packet on a stream of its own, so that shorter packets pass it.
    async fn write_large(&self, out: &mut Outgoing, frame: Frame) -> Result<(), ConnectionLost> {
        let semaphore = self.link.large.clone();
        let permit = match semaphore.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.shared.metrics.large_waits.increment(1);
                semaphore
                    .acquire_owned()
                    .await
                    .map_err(|_| ConnectionLost)?
            }
        };
        let mut stream = open(&self.link.connection, StreamKind::Large, 0).await?;
        out.opened += 1;
        let contacts = self.contacts(&frame, None);
        let mut header = BytesMut::new();
        frame::put_header(&mut header, &contacts, frame.len());
        let mut chunks = [header.freeze(), frame.head, frame.payload];
        out.large.spawn(async move {
            if stream.write_all_chunks(&mut chunks).await.is_ok() {
                let _ = stream.finish();
            }
            drop(permit);
        });
        while out.large.try_join_next().is_some() {}
        Ok(())
    }

    /// The contacts that travel with a frame.
    fn contacts(
        &self,
        frame: &Frame,
        mut introductions: Option<&mut Introductions>,
    ) -> Vec<Contact> {
        let mut contacts: Vec<Contact> = Vec::new();
        for id in &frame.introduces {
            let pointless = *id == self.peer.id || *id == self.shared.me;
            if pointless || contacts.iter().any(|contact| contact.id == *id) {
                continue;
            }
            match self.shared.book().contact(*id) {
                None => self.shared.metrics.contacts_unknown.increment(1),
                Some(contact) => {
                    if !introductions
                        .as_mut()
                        .is_some_and(|introductions| introductions.has(&contact))
                    {
                        contacts.push(contact);
                    }
                }
            }
        }
        contacts
    }
}

/// Count a body that is sent.
pub(super) fn count_out(shared: &Shared, link: &Link, class: PlainClass, bytes: usize) {
    let bytes = bytes as u64;
    link.traffic.frames_out.fetch_add(1, Ordering::Relaxed);
    link.traffic.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    let metrics = shared.metrics.class(class);
    metrics.frames_out.increment(1);
    metrics.bytes_out.increment(bytes);
}

/// Count a received body and hand it to the host; `frame_bytes` bytes are counted as room.
pub(super) async fn deliver(
    shared: &Arc<Shared>,
    peer: &Peer,
    link: &Link,
    class: PlainClass,
    body: Bytes,
    frame_bytes: usize,
) {
    let bytes = body.len() as u64;
    link.traffic.frames_in.fetch_add(1, Ordering::Relaxed);
    link.traffic.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    let metrics = shared.metrics.class(class);
    metrics.frames_in.increment(1);
    metrics.bytes_in.increment(bytes);
    let event = TransportEvent::Received {
        peer: link.peer,
        boot: link.boot,
        class,
        body,
    };
    let priority = match class {
        PlainClass::Maintenance => EventPriority::Urgent(&peer.link_events),
        PlainClass::Control | PlainClass::Packet => EventPriority::Plain,
    };
    shared.emit_with(priority, event, frame_bytes).await;
}

struct Outgoing {
    stream: Option<SendStream>,
    opened: u64,
    introductions: Introductions,
    large: JoinSet<()>,
}

async fn open(
    connection: &Connection,
    kind: StreamKind,
    priority: i32,
) -> Result<SendStream, ConnectionLost> {
    let mut stream = connection.open_uni().await.map_err(|_| ConnectionLost)?;
    let _ = stream.set_priority(priority);
    let tag = Bytes::copy_from_slice(&[kind.tag()]);
    stream.write_chunk(tag).await.map_err(|_| ConnectionLost)?;
    Ok(stream)
}

/// Why a stream could not be read to its end.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The peer sent a frame that this node refuses.
    Refused(RefusedFrame),
    /// The connection is gone.
    Gone,
}

impl From<RefusedFrame> for ReadFailure {
    fn from(refused: RefusedFrame) -> Self {
        Self::Refused(refused)
    }
}

/// The failure behind the error of a read.
fn failure(error: io::Error) -> ReadFailure {
    match error.downcast() {
        Ok(ReadError::Reset(_)) => RefusedFrame::Truncated.into(),
        _ => ReadFailure::Gone,
    }
}

/// The room of a frame that is being assembled.
struct AssemblyRoom {
    _permit: SharePermit,
    /// The next time to check whether others wait for room.
    end: Pin<Box<Sleep>>,
    /// Whether others waited for room at the last check.
    was_wanted: bool,
}

/// Reads the frames of one stream of a link.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<Peer>,
    pub(super) link: Arc<Link>,
}

impl Reader {
    /// Read the stream to its end.
    pub(super) async fn run(self, mut stream: RecvStream) -> Result<(), ReadFailure> {
        let mut tag = [0; 1];
        stream.read_exact(&mut tag).await.map_err(|e| match e {
            ReadExactError::ReadError(ReadError::ConnectionLost(_)) => ReadFailure::Gone,
            _ => RefusedFrame::Truncated.into(),
        })?;
        let kind = StreamKind::from_tag(tag[0]).ok_or(RefusedFrame::Malformed)?;
        if let StreamKind::Persistent(class) = kind {
            let bit = 1 << class.index();
            if self.link.persistent.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
                return Err(RefusedFrame::Malformed.into());
            }
        }
        self.frames(stream, kind).await
    }

    async fn frames(&self, mut stream: RecvStream, kind: StreamKind) -> Result<(), ReadFailure> {
        let class = kind.class();
        let mut assembly = Assembly::new(self.shared.body_max(class), self.shared.buffers.clone());
        let (mut room, mut is_over) = (None::<AssemblyRoom>, false);
        loop {
            match assembly.step()? {
                Step::Part => {
                    let mut space = assembly.space();
                    let read = match &mut room {
                        None => stream.read_buf(&mut space).await,
                        Some(room) => tokio::select! {
                            biased;
                            read = stream.read_buf(&mut space) => read,
                            () = &mut room.end => {
                                self.extend(room)?;
                                continue;
                            }
                        },
                    };
                    if read.map_err(failure)? == 0 {
                        return match assembly.is_empty() {
                            true => Ok(()),
                            false => Err(RefusedFrame::Truncated.into()),
                        };
                    }
                }
                Step::Begun(_) if is_over => return Err(RefusedFrame::Malformed.into()),
                Step::Begun(header) => room = self.room(kind, &header).await?,
                Step::Whole(header, frame) => {
                    self.deliver(class, header, frame).await?;
                    drop(room.take());
                    is_over = kind == StreamKind::Large;
                }
            }
        }
    }

    /// Take room to assemble a large frame. A short frame on a stream of its own needs room too,
    /// since there are many such streams.
    async fn room(
        &self,
        kind: StreamKind,
        header: &Header,
    ) -> Result<Option<AssemblyRoom>, ReadFailure> {
        if header.body_len <= self.shared.limits.large_above && kind != StreamKind::Large {
            return Ok(None);
        }
        let bytes = header.frame_len();
        let mut permit = self.peer.assembly.try_take(bytes);
        if permit.is_none() {
            self.shared.metrics.assembly_waits.increment(1);
            // The bodies of others must not hold up the end of a link that is gone.
            permit = tokio::select! {
                biased;
                permit = self.peer.assembly.take(bytes) => permit,
                _ = self.link.connection.closed() => None,
            };
        }
        let limit = self.shared.limits.assembly_time(bytes);
        let hold = |permit| AssemblyRoom {
            _permit: permit,
            end: Box::pin(sleep(limit)),
            was_wanted: false,
        };
        permit.map(hold).map(Some).ok_or(ReadFailure::Gone)
    }

    /// A frame takes long to assemble. That is allowed unless others wait for room now and did at
    /// the last check.
    fn extend(&self, room: &mut AssemblyRoom) -> Result<(), ReadFailure> {
        let is_wanted = self.peer.assembly.is_wanted();
        if std::mem::replace(&mut room.was_wanted, is_wanted) && is_wanted {
            return Err(RefusedFrame::Overdue.into());
        }
        room.end = Box::pin(sleep(self.shared.limits.assembly_timeout));
        Ok(())
    }

    async fn deliver(
        &self,
        class: PlainClass,
        header: Header,
        frame: Bytes,
    ) -> Result<(), ReadFailure> {
        let body_at = frame::HEADER_LEN + header.contacts_len;
        let contacts = frame.get(frame::HEADER_LEN..body_at).unwrap_or_default();
        let contacts = frame::parse_contacts(contacts)?;
        contacts.into_iter().for_each(|c| self.shared.hear(c));
        let (frame_bytes, body) = (frame.len(), frame.slice(body_at..));
        deliver(
            &self.shared,
            &self.peer,
            &self.link,
            class,
            body,
            frame_bytes,
        )
        .await;
        Ok(())
    }
}
