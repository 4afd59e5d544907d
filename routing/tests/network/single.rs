//! A single relay, and the messages that it sends.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh_overlay::{Effect, Epoch, Outbox, Placement, Population, Rank};
use binomesh_routing::packet::{
    CustodyRefusal, Errand, Exception, Header, Message, Packet, PacketId, Part, Payloads, Reason,
    Span, State, Topic,
};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{
    Config, Destination, Due, Event, Input, Publish, Receipt, Relay, Timer, View,
};
use bytes::Bytes;

pub const ORIGIN: u32 = 1000;

/// One relay, with the messages that it has sent and the timers that it has armed.
pub struct Single {
    pub relay: Relay<u32>,
    pub out: Outbox<u32, Message<u32>, Timer, Event<u32>>,
    pub sent: Vec<(u32, Message<u32>)>,
    pub timers: BTreeMap<Timer, Duration>,
    pub receipts: Vec<Receipt<u32>>,
}

impl Single {
    pub fn new(id: u32) -> Self {
        Self::with(id, Config::default())
    }

    pub fn with(id: u32, config: Config) -> Self {
        Self {
            relay: Relay::new(id, 1, config),
            out: Outbox::new(),
            sent: Vec::new(),
            timers: BTreeMap::new(),
            receipts: Vec::new(),
        }
    }

    pub fn handle(&mut self, input: Input<u32>) {
        self.relay.handle(input, &mut self.out);
        self.perform();
    }

    pub fn publish(&mut self, destination: Destination<u32>) {
        let publish = Publish {
            topic: Topic::new("test").unwrap(),
            payloads: Bytes::from_static(b"x").into(),
            destination,
            strategy: Strategy::default(),
            due: Due::Settled,
            confirmation: Default::default(),
            is_ordered: false,
        };
        self.relay.publish(publish, &mut self.out).unwrap();
        self.perform();
    }

    pub fn perform(&mut self) {
        for effect in self.out.drain() {
            match effect {
                Effect::Send { to, message } => self.sent.push((to, message)),
                Effect::Arm { timer, after } => _ = self.timers.insert(timer, after),
                Effect::Disarm { timer } => _ = self.timers.remove(&timer),
                Effect::Event(Event::Receipt(receipt)) => self.receipts.push(*receipt),
                Effect::Event(_)
                | Effect::Connect(_)
                | Effect::Disconnect(_)
                | Effect::Doubt(_) => {}
            }
        }
    }

    pub fn hear(&mut self, from: u32, message: Message<u32>) {
        self.handle(Input::Message { from, message });
    }

    pub fn fire(&mut self, timer: Timer) {
        let armed = self.timers.remove(&timer);
        assert!(armed.is_some(), "{timer:?} is not armed");
        let late = Duration::ZERO;
        self.handle(Input::Timer { timer, late });
    }

    /// Begins the next round, and returns the wait before it.
    pub fn next_round(&mut self) -> Duration {
        let timer = Timer::Reissue(0);
        let waited = self.timers.remove(&timer).unwrap();
        let late = Duration::ZERO;
        self.handle(Input::Timer { timer, late });
        waited
    }

    /// The copies that were sent. A peer that is asked whether it has a copy answers *no*, and
    /// is sent one.
    pub fn packets(&mut self) -> Vec<(u32, Packet<u32>)> {
        let mut packets = Vec::new();
        while !self.sent.is_empty() {
            for (to, message) in std::mem::take(&mut self.sent) {
                match message {
                    Message::Packet(packet) => packets.push((to, *packet)),
                    Message::Inquire { errand, .. } => {
                        let reason = CustodyRefusal::Unknown;
                        self.hear(to, Message::Refused { errand, reason });
                    }
                    _ => {}
                }
            }
        }
        packets
    }

    /// Answers each packet: its whole part is done, or its whole part is excepted. Returns the
    /// number of members that the packets name.
    pub fn answer_all(&mut self, is_done: bool) -> usize {
        let mut named = 0;
        for (to, packet) in self.packets() {
            let header = packet.header;
            assert!(header.is_named_in_full());
            named += header.names.len();
            let spans = header.errand.part.spans().to_vec();
            let excepted = spans.into_iter().filter(|_| !is_done);
            let exceptions = excepted.map(|span| Exception {
                span,
                peer: None,
                state: State::Unconfirmed,
                reason: Reason::Epoch,
            });
            let exceptions: Vec<_> = exceptions.collect();
            let done = Message::Done {
                errand: header.errand,
                exceptions,
                redelegated: 0,
                replaced: Vec::new(),
            };
            self.hear(to, done);
        }
        named
    }
}

pub fn epoch(counter: u64) -> Epoch<u32> {
    Epoch {
        root: 7,
        boot: 1,
        counter,
        nonce: 0,
    }
}

/// An errand of the origin's first message.
pub fn errand(round: u32, part: Part) -> Errand<u32> {
    Errand {
        id: PacketId {
            origin: ORIGIN,
            boot: 1,
            sequence: 0,
        },
        epoch: epoch(1),
        strategy: Strategy::default(),
        round,
        part,
    }
}

/// The header of an ordinary copy to the member at rank `to`.
pub fn header(errand: Errand<u32>, to: Rank) -> Header<u32> {
    Header {
        errand,
        origin_rank: Rank(0),
        to,
        closed_below: 0,
        is_kept: false,
        confirmation: Default::default(),
        topic: Topic::new("test").unwrap(),
        order: None,
        names: Vec::new(),
        stood: None,
        signature: None,
    }
}

/// The origin's copy of a message for the first rank of a span.
pub fn copy(span: Span, sequence: u64, payload: usize) -> Message<u32> {
    let mut errand = errand(0, Part::Range(span));
    errand.id.sequence = sequence;
    let header = header(errand, Rank(span.start));
    let payloads = Payloads::from(Bytes::from(vec![7; payload]));
    Message::Packet(Box::new(Packet { header, payloads }))
}

pub fn view(counter: u64, n: u32, rank: u32, at: impl Fn(Rank) -> u32) -> View<u32> {
    let population = Population::new(n).unwrap();
    let levels = 0..population.levels();
    let mine = Rank(rank);
    View {
        placement: Placement {
            epoch: epoch(counter),
            population,
            rank: mine,
        },
        clockwise: (levels.clone())
            .map(|i| Some(at(mine.ahead(1 << i, population))))
            .collect(),
        counterclockwise: levels
            .map(|i| Some(at(mine.behind(1 << i, population))))
            .collect(),
    }
}

/// The member at a rank of n. The peer at rank r has the id 1000 + r.
pub fn member(n: u32, rank: u32, config: Config) -> Single {
    let mut member = Single::with(ORIGIN + rank, config);
    member.handle(Input::View(view(1, n, rank, |at| ORIGIN + at.0)));
    member.sent.clear();
    member
}

/// Places the origin at rank 0 of n, and completes its roster. The peer at rank r has the id
/// 1000 + r.
pub fn placed(counter: u64, n: u32, origin: &mut Single) {
    let at = |rank: Rank| ORIGIN + rank.0;
    origin.handle(Input::View(view(counter, n, 0, at)));
    while let known = origin.relay.roster().unwrap().known_count()
        && known < n
    {
        let tell = Message::RosterTell {
            epoch: epoch(counter),
            start: Rank(known),
            peers: (known..n.min(known + 256)).map(|at| ORIGIN + at).collect(),
        };
        origin.hear(ORIGIN + 1, tell);
    }
    origin.sent.clear();
}
