//! Events on their way to the host, in two queues that are bounded by number and by bytes.
//!
//! Maintenance has a queue and room of its own, and takes turns with the other events, so it waits
//! neither behind data nor for the room of data. It never passes an event about its own peer's
//! link. It waits outside both queues until the host has taken each earlier event about that link,
//! and a later one comes after all earlier maintenance. All other events come in their original
//! order.
//!
//! One budget bounds both number and bytes of a queue: an event takes its bytes, but at least an
//! equal share of the room. A reader that finds no room waits, and flow control holds its peer
//! back. The room is given back when the host takes the event, not when the host lets go of the
//! body.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use metrics::Counter;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use super::TransportEvent;
use super::budget::ByteBudget;
use super::limits::{MAINTENANCE_EVENT_BYTES, TransportLimits};

/// The place of an event among the others.
pub(super) enum EventPriority<'a> {
    /// The event comes after all earlier events that are not urgent.
    Plain,
    /// After all earlier events, urgent ones too: the event is about this peer's link.
    Link(&'a LinkEvents),
    /// After all earlier urgent events, and after earlier events about this peer's link. Urgent
    /// events and the others take turns.
    Urgent(&'a LinkEvents),
}

/// The count of one peer's link events that the host has not taken yet.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkEvents(Arc<Untaken>);

#[derive(Debug, Default)]
struct Untaken {
    count: AtomicUsize,
    /// Notified when no link event is left.
    taken: Notify,
}

impl LinkEvents {
    fn are_taken(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    async fn taken(&self) {
        while !self.are_taken() {
            let mut taken = pin!(self.0.taken.notified());
            taken.as_mut().enable();
            if !self.are_taken() {
                taken.await;
            }
        }
    }
}

/// An event about a peer's link that the host has not taken yet.
#[derive(Debug)]
struct Turn {
    of: LinkEvents,
    /// The event comes after this number of urgent ones.
    after: u64,
}

impl Turn {
    fn begin(of: &LinkEvents, after: u64) -> Self {
        of.0.count.fetch_add(1, Ordering::AcqRel);
        let of = of.clone();
        Self { of, after }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.of.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.of.0.taken.notify_waiters();
        }
    }
}

#[derive(Debug)]
struct Waiting {
    event: TransportEvent,
    turn: Option<Turn>,
    _room: OwnedSemaphorePermit,
}

type Queue = mpsc::UnboundedReceiver<Waiting>;

/// The events of a transport, in order; see [`TransportEvent`].
#[derive(Debug)]
pub struct Events {
    urgent: Queue,
    others: Queue,
    /// The first of the other events, while urgent ones have to come before it.
    deferred: Option<Waiting>,
    /// How many urgent events were taken.
    taken: u64,
    was_urgent: bool,
}

impl Events {
    /// The next event, or `None` once the transport has ended.
    pub async fn recv(&mut self) -> Option<TransportEvent> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next event, if there is one now.
    pub fn try_recv(&mut self) -> Option<TransportEvent> {
        self.take(|queue| queue.try_recv().ok())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<TransportEvent>> {
        let next = self.take(|queue| match queue.poll_recv(cx) {
            Poll::Ready(waiting) => waiting,
            Poll::Pending => None,
        });
        match next {
            None if !self.has_ended() => Poll::Pending,
            next => Poll::Ready(next),
        }
    }

    /// The next event of the two queues, each asked by `ask`. If both have one they take turns, but
    /// an event about a link comes after all earlier maintenance.
    fn take(
        &mut self,
        mut ask: impl FnMut(&mut Queue) -> Option<Waiting>,
    ) -> Option<TransportEvent> {
        if !self.was_urgent
            && let Some(waiting) = ask(&mut self.urgent)
        {
            return Some(self.take_urgent(waiting));
        }
        if self.deferred.is_none() {
            self.deferred = ask(&mut self.others);
        }
        let taken = self.taken;
        let is_due =
            |deferred: &mut Waiting| deferred.turn.as_ref().is_none_or(|t| t.after <= taken);
        if let Some(waiting) = self.deferred.take_if(is_due) {
            self.was_urgent = false;
            return Some(waiting.event);
        }
        let waiting = ask(&mut self.urgent)?;
        Some(self.take_urgent(waiting))
    }

    fn take_urgent(&mut self, waiting: Waiting) -> TransportEvent {
        self.taken += 1;
        self.was_urgent = true;
        waiting.event
    }

    fn has_ended(&self) -> bool {
        let is_over = |queue: &Queue| queue.is_closed() && queue.is_empty();
        self.deferred.is_none() && is_over(&self.urgent) && is_over(&self.others)
    }
}

/// The sending end of the events, for the transport.
#[derive(Debug)]
pub(super) struct EventSender {
    urgent: Lane,
    others: Lane,
    /// How many urgent events were sent.
    urgent_sent: AtomicU64,
}

/// The sending end of a queue.
#[derive(Debug)]
struct Lane {
    /// The waiting events, whose number is bounded by `room`.
    queue: mpsc::UnboundedSender<Waiting>,
    room: ByteBudget,
    /// The least room that an event takes: the whole room divided by the greatest number of events.
    least: usize,
}

pub(super) fn events(limits: &TransportLimits) -> (EventSender, Events) {
    let (urgent, urgent_queue) = lane(limits.events, MAINTENANCE_EVENT_BYTES);
    let (others, others_queue) = lane(limits.events, limits.event_bytes);
    let sender = EventSender {
        urgent,
        others,
        urgent_sent: AtomicU64::new(0),
    };
    let events = Events {
        urgent: urgent_queue,
        others: others_queue,
        deferred: None,
        taken: 0,
        was_urgent: false,
    };
    (sender, events)
}

fn lane(events: usize, bytes: usize) -> (Lane, Queue) {
    let (sender, queue) = mpsc::unbounded_channel();
    let room = ByteBudget::new(bytes);
    let least = (room.most() as usize).div_ceil(events.max(1));
    let lane = Lane {
        queue: sender,
        room,
        least,
    };
    (lane, queue)
}

impl EventSender {
    /// Send an event. It waits for its turn and for room, which is counted. Once `stop` is
    /// cancelled, an event that would have to wait is dropped.
    pub(super) async fn send(
        &self,
        event: TransportEvent,
        bytes: usize,
        priority: EventPriority<'_>,
        waits: &Counter,
        stop: &CancellationToken,
    ) {
        let is_urgent = matches!(priority, EventPriority::Urgent(_));
        let lane = if is_urgent {
            &self.urgent
        } else {
            &self.others
        };
        let bytes = bytes.max(lane.least);
        let is_due = match &priority {
            EventPriority::Urgent(links) => links.are_taken(),
            EventPriority::Plain | EventPriority::Link(_) => true,
        };
        let turn = match &priority {
            EventPriority::Link(links) => {
                Some(Turn::begin(links, self.urgent_sent.load(Ordering::Acquire)))
            }
            EventPriority::Plain | EventPriority::Urgent(_) => None,
        };
        let mut room = is_due.then(|| lane.room.try_take(bytes)).flatten();
        if room.is_none() {
            waits.increment(1);
            room = tokio::select! {
                biased;
                room = lane.wait(bytes, &priority) => room,
                () = stop.cancelled() => None,
            };
        }
        let Some(room) = room else { return };
        if is_urgent {
            // Count before the event can be seen: a link event that reads the count stays behind
            // all urgent events that are there.
            self.urgent_sent.fetch_add(1, Ordering::AcqRel);
        }
        let waiting = Waiting {
            event,
            turn,
            _room: room,
        };
        // The receiver may be gone already.
        let _ = lane.queue.send(waiting);
    }
}

impl Lane {
    /// Wait for the event's turn, and then for room.
    async fn wait(
        &self,
        bytes: usize,
        priority: &EventPriority<'_>,
    ) -> Option<OwnedSemaphorePermit> {
        let EventPriority::Urgent(links) = priority else {
            return self.room.take(bytes).await;
        };
        loop {
            links.taken().await;
            let room = self.room.take(bytes).await;
            // Another event about the link may have come meanwhile.
            if links.are_taken() {
                return room;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::close::DownReason;
    use super::super::frame::PlainClass;
    use super::*;
    use crate::PeerId;

    const PEER: PeerId = PeerId::from_bytes([7; 16]);

    /// Both ends of the events, and the link events of one peer.
    struct Bed {
        sender: EventSender,
        events: Events,
        links: LinkEvents,
        stop: CancellationToken,
    }

    fn bed(events: usize) -> Bed {
        let limits = TransportLimits {
            events,
            ..TransportLimits::default()
        };
        let (sender, events) = super::events(&limits);
        Bed {
            sender,
            events,
            links: LinkEvents::default(),
            stop: CancellationToken::new(),
        }
    }

    fn received(class: PlainClass, number: u8) -> TransportEvent {
        TransportEvent::Received {
            peer: PEER,
            boot: 1,
            class,
            body: Bytes::copy_from_slice(&[number]),
        }
    }

    const UP: TransportEvent = TransportEvent::LinkUp {
        peer: PEER,
        boot: 1,
    };
    const DOWN: TransportEvent = TransportEvent::LinkDown {
        peer: PEER,
        reason: DownReason::Broken,
    };

    fn packet(number: u8) -> TransportEvent {
        received(PlainClass::Packet, number)
    }

    fn maintenance(number: u8) -> TransportEvent {
        received(PlainClass::Maintenance, number)
    }

    impl Bed {
        /// Returns whether the sending is over at once. After the stop it is over even without
        /// room.
        async fn tell(&self, event: TransportEvent) -> bool {
            let priority = match &event {
                TransportEvent::Received { class, .. } if *class == PlainClass::Maintenance => {
                    EventPriority::Urgent(&self.links)
                }
                TransportEvent::LinkUp { .. } | TransportEvent::LinkDown { .. } => {
                    EventPriority::Link(&self.links)
                }
                _ => EventPriority::Plain,
            };
            let waits = Counter::noop();
            let told = self.sender.send(event, 1, priority, &waits, &self.stop);
            let mut told = pin!(told);
            futures_util::poll!(told.as_mut()).is_ready()
        }

        async fn tell_all(&self, all: impl IntoIterator<Item = TransportEvent>) {
            for event in all {
                assert!(self.tell(event).await, "room");
            }
        }

        fn take_all(&mut self) -> Vec<TransportEvent> {
            std::iter::from_fn(|| self.events.try_recv()).collect()
        }
    }

    #[tokio::test]
    async fn maintenance_neither_waits_behind_data_nor_for_its_room() {
        let mut bed = bed(4);
        bed.tell_all((0..4).map(packet)).await;
        assert!(!bed.tell(packet(4)).await, "no room");
        bed.tell_all((0..4).map(maintenance)).await;
        assert!(!bed.tell(maintenance(4)).await, "it has a bound as well");
        let turns = (0..4).flat_map(|n| [maintenance(n), packet(n)]);
        assert_eq!(bed.take_all(), turns.collect::<Vec<_>>());
        bed.tell_all([maintenance(5), packet(5)]).await;
        assert_eq!(bed.events.recv().await, Some(maintenance(5)));
        assert_eq!(bed.events.recv().await, Some(packet(5)));
    }

    #[tokio::test]
    async fn maintenance_does_not_pass_the_events_of_its_link() {
        let mut bed = bed(64);
        bed.tell_all([packet(0), UP, packet(1)]).await;
        {
            // The host has not taken the link's event yet.
            let waits = Counter::noop();
            let priority = EventPriority::Urgent(&bed.links);
            let told = bed
                .sender
                .send(maintenance(1), 1, priority, &waits, &bed.stop);
            let mut told = pin!(told);
            for expected in [packet(0), UP] {
                assert!(futures_util::poll!(told.as_mut()).is_pending());
                assert_eq!(bed.events.try_recv(), Some(expected));
            }
            told.await;
        }
        // The first maintenance passes the packet, which has its turn before the second one. The
        // end of the link passes no maintenance.
        bed.tell_all([maintenance(2), DOWN]).await;
        let all = [maintenance(1), packet(1), maintenance(2), DOWN];
        assert_eq!(bed.take_all(), all);
        assert!(bed.links.are_taken());
    }

    #[tokio::test]
    async fn events_that_wait_for_room_are_dropped_when_the_transport_stops() {
        let mut bed = bed(1);
        bed.tell_all([UP]).await;
        for event in [maintenance(1), packet(1)] {
            assert!(!bed.tell(event).await);
        }
        bed.stop.cancel();
        bed.tell_all([maintenance(2), packet(2)]).await;
        assert_eq!(bed.take_all(), [UP]);
        bed.tell_all([maintenance(3)]).await;
        assert_eq!(bed.take_all(), [maintenance(3)]);
    }

    /// The link's end waits even if the turn is the data's.
    #[tokio::test]
    async fn the_end_of_a_link_waits_for_its_maintenance() {
        let mut bed = bed(64);
        let frames = || (0..5).map(maintenance);
        bed.tell_all(frames().chain([DOWN, packet(9)])).await;
        let expected = frames().chain([DOWN, packet(9)]);
        assert_eq!(bed.take_all(), expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn once_all_is_taken_the_end_is_told() {
        let bed = bed(64);
        bed.tell_all([maintenance(0), packet(0), DOWN]).await;
        let Bed {
            sender, mut events, ..
        } = bed;
        {
            let mut next = pin!(events.recv());
            assert!(futures_util::poll!(next.as_mut()).is_ready());
        }
        drop(sender);
        assert_eq!(events.recv().await, Some(packet(0)));
        assert_eq!(events.recv().await, Some(DOWN));
        assert_eq!(events.recv().await, None);
    }

    #[tokio::test]
    async fn a_waiting_host_is_woken_by_either_queue() {
        for event in [maintenance(1), packet(1)] {
            let bed = bed(64);
            let mut events = bed.events;
            let host = tokio::spawn(async move { events.recv().await });
            tokio::task::yield_now().await;
            let priority = match event == maintenance(1) {
                true => EventPriority::Urgent(&bed.links),
                false => EventPriority::Plain,
            };
            let waits = Counter::noop();
            let told = bed
                .sender
                .send(event.clone(), 1, priority, &waits, &bed.stop);
            told.await;
            let told = tokio::time::timeout(Duration::from_secs(10), host).await;
            assert_eq!(told.expect("woken").expect("no panic"), Some(event));
        }
    }
}
