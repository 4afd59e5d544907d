//! Events on their way to the host, bounded by number and by bytes.
//!
//! One budget bounds both: what an event takes of it is its bytes, or its share if all are
//! short. A reader that finds no room waits, and flow control holds its peer back. Room
//! is given back when the host takes the event, not when it lets go of the body.

use std::sync::Arc;

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::TransportEvent;
use super::limits::Limits;

type Room = Option<OwnedSemaphorePermit>;

/// What a transport tells, in order; see [`TransportEvent`].
#[derive(Debug)]
pub struct Events {
    queue: mpsc::UnboundedReceiver<(TransportEvent, Room)>,
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
    /// Bounded by `room`.
    queue: mpsc::UnboundedSender<(TransportEvent, Room)>,
    room: Arc<Semaphore>,
    /// What an event takes at least and at most: its share, and all.
    least: u32,
    most: u32,
}

/// No room now; here is the event again.
pub(super) struct NoRoom(pub(super) TransportEvent);

pub(super) fn events(limits: &Limits) -> (Telling, Events) {
    let (sender, queue) = mpsc::unbounded_channel();
    let most = u32::try_from(limits.event_bytes).unwrap_or(u32::MAX);
    let events = u32::try_from(limits.events).unwrap_or(u32::MAX);
    let telling = Telling {
        queue: sender,
        room: Arc::new(Semaphore::new(most as usize)),
        least: most.div_ceil(events.max(1)),
        most,
    };
    (telling, Events { queue })
}

impl Telling {
    /// Tell at once, if there is room.
    pub(super) fn try_tell(&self, event: TransportEvent, bytes: usize) -> Result<(), NoRoom> {
        match self.room.clone().try_acquire_many_owned(self.share(bytes)) {
            Ok(room) => {
                // Perhaps nobody listens any more.
                let _ = self.queue.send((event, Some(room)));
                Ok(())
            }
            Err(_) => Err(NoRoom(event)),
        }
    }

    /// Tell when there is room.
    pub(super) async fn tell(&self, event: TransportEvent, bytes: usize) {
        let room = self.room.clone().acquire_many_owned(self.share(bytes));
        let _ = self.queue.send((event, room.await.ok()));
    }

    /// One event always fits, however long.
    fn share(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).map_or(self.most, |bytes| bytes.clamp(self.least, self.most))
    }
}
