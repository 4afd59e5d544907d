//! Events on their way to the host, bounded by number and by bytes.
//!
//! A reader that finds no room waits, and flow control holds its peer back. Bytes
//! are given back when the host takes the event, not when it lets go of the body.

use std::sync::Arc;

use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::TransportEvent;
use super::limits::Limits;

type Room = Option<OwnedSemaphorePermit>;

/// What a transport tells, in order; see [`TransportEvent`].
#[derive(Debug)]
pub struct Events {
    queue: mpsc::Receiver<(TransportEvent, Room)>,
}

impl Events {
    /// The next event, or `None` once the transport has ended.
    pub async fn recv(&mut self) -> Option<TransportEvent> {
        self.queue.recv().await.map(|(event, _)| event)
    }

    /// The next event, if there is one now.
    pub fn try_recv(&mut self) -> Result<TransportEvent, TryRecvError> {
        self.queue.try_recv().map(|(event, _)| event)
    }
}

/// The transport's end.
#[derive(Debug)]
pub(super) struct Telling {
    queue: mpsc::Sender<(TransportEvent, Room)>,
    bytes: Arc<Semaphore>,
    /// All of them.
    capacity: u32,
}

/// No room now; here is the event again.
pub(super) struct NoRoom(pub(super) TransportEvent);

pub(super) fn events(limits: &Limits) -> (Telling, Events) {
    let (sender, queue) = mpsc::channel(limits.events);
    let capacity = u32::try_from(limits.event_bytes).unwrap_or(u32::MAX);
    let telling = Telling {
        queue: sender,
        bytes: Arc::new(Semaphore::new(capacity as usize)),
        capacity,
    };
    (telling, Events { queue })
}

impl Telling {
    /// Tell at once, if there is room.
    pub(super) fn try_tell(&self, event: TransportEvent, bytes: usize) -> Result<(), NoRoom> {
        let bytes = self.charged(bytes);
        let Ok(room) = self.bytes.clone().try_acquire_many_owned(bytes) else {
            return Err(NoRoom(event));
        };
        match self.queue.try_send((event, Some(room))) {
            // Nobody listens any more.
            Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
            Err(TrySendError::Full((event, _))) => Err(NoRoom(event)),
        }
    }

    /// Tell when there is room.
    pub(super) async fn tell(&self, event: TransportEvent, bytes: usize) {
        let bytes = self.charged(bytes);
        let room = self.bytes.clone().acquire_many_owned(bytes).await.ok();
        let _ = self.queue.send((event, room)).await;
    }

    /// One event always fits, however long.
    fn charged(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).map_or(self.capacity, |bytes| bytes.min(self.capacity))
    }
}
