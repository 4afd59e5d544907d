//! When custody is said.

mod network;

use binomesh_overlay::Rank;
use binomesh_routing::packet::{
    Errand, Header, Message, Packet, PacketId, Part, Payloads, Span, Topic,
};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Input, Timer};
use bytes::Bytes;
use network::single::{ORIGIN, Single, epoch, view};

const CHILD: u32 = ORIGIN + 3;

/// Rank 2 of 4, asked by the origin to answer for ranks 2 and 3.
fn asked(payload: usize) -> Single {
    let mut relay = Single::new(ORIGIN + 2);
    relay.handle(Input::View(view(1, 4, 2, |rank| ORIGIN + rank.0)));
    relay.sent.clear();
    let header = Header {
        errand: Errand {
            id: PacketId {
                origin: ORIGIN,
                boot: 1,
                sequence: 0,
            },
            epoch: epoch(1),
            strategy: Strategy::default(),
            round: 0,
            part: Part::Range(Span::new(2, 4)),
        },
        origin_rank: Rank(0),
        to: Rank(2),
        closed_below: 0,
        topic: Topic::new("test").unwrap(),
        names: Vec::new(),
    };
    let payloads = Payloads::from(Bytes::from(vec![7; payload]));
    relay.hear(ORIGIN, Message::Packet(Packet { header, payloads }));
    relay
}

/// The kinds of what was sent to a peer since it was asked last.
fn said_to(relay: &mut Single, peer: u32) -> Vec<&'static str> {
    let sent = std::mem::take(&mut relay.sent).into_iter();
    sent.filter(|(to, _)| *to == peer)
        .map(|(_, message)| message.name())
        .collect()
}

fn child_is_done(relay: &mut Single) {
    let copies = relay.packets();
    assert_eq!(copies.len(), 1);
    let (to, copy) = copies.into_iter().next().unwrap();
    assert_eq!(to, CHILD);
    let done = Message::Done {
        errand: copy.header.errand,
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    };
    relay.hear(CHILD, done);
}

#[test]
fn done_that_comes_first_makes_custody_superfluous() {
    let mut relay = asked(100);
    child_is_done(&mut relay);
    assert_eq!(said_to(&mut relay, ORIGIN), ["done"]);
    relay.fire(Timer::Custody);
    assert!(relay.sent.is_empty(), "{:?}", relay.sent);
}

#[test]
fn what_is_not_done_soon_is_told_to_be_in_custody() {
    let mut relay = asked(100);
    let copies: Vec<&str> = said_to(&mut relay, CHILD);
    assert_eq!(copies, ["packet"]);
    relay.fire(Timer::Custody);
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
}

#[test]
fn custody_of_a_long_payload_is_told_at_once() {
    let mut relay = asked(5000);
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
    assert!(!relay.timers.contains_key(&Timer::Custody));
}
