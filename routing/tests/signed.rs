//! Copies that are not as their origin signed them: hosts tell the relay of them
//! ([`Input::Unproven`]), and the true message still reaches everybody. That honest
//! relays hand signatures on unchanged, whatever way a copy takes, every test that stands
//! on `network` checks.

mod network;

use binomesh_overlay::Rank;
use binomesh_routing::packet::{
    Header, Message, Packet, Part, Payloads, Refusal, Signature, Span, Topic,
};
use binomesh_routing::{Config, Input};
use bytes::Bytes;
use network::single::{ORIGIN, Single, errand, view};
use network::{Conditions, Network, Twist, seeds};

fn stripped(message: Message<u32>) -> Option<Message<u32>> {
    Some(match message {
        Message::Packet(mut packet) => {
            packet.header.signature = None;
            Message::Packet(packet)
        }
        other => other,
    })
}

fn rewritten(message: Message<u32>) -> Option<Message<u32>> {
    Some(match message {
        Message::Packet(mut packet) => {
            packet.payloads = Payloads::from(Bytes::from_static(b"a lie"));
            Message::Packet(packet)
        }
        other => other,
    })
}

/// The liar is told that its copies are refused, and the origin takes only the members'
/// own word for that: it asks them itself, and they get the true message.
#[test]
fn a_liars_part_gets_the_true_message_once() {
    for (twist, seed) in [stripped as Twist, rewritten]
        .into_iter()
        .flat_map(|twist| seeds(100).map(move |seed| (twist, seed)))
    {
        let mut network = Network::new(32, seed, Conditions::default(), Config::default());
        network.requires = true;
        let members = network.members.clone();
        network.liar = Some((members[4], twist));
        let id = network.publish(members[0], 16).unwrap();
        let truth = Bytes::from(vec![7; 16]);
        network.run_until_receipts(10_000_000);
        network.assert_sound();
        network.assert_survivors_delivered(id);
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
        for member in &members[1..] {
            assert_eq!(network.payloads.get(&(*member, id)), Some(&truth));
        }
        let refused: u64 = members
            .iter()
            .map(|member| {
                let refused = network.stats(*member).refused;
                refused[Refusal::Unsigned as usize] + refused[Refusal::Signature as usize]
            })
            .sum();
        assert!(refused > 0, "seed {seed}: the liar handed nothing on");
    }
}

/// Rank 2 of 8.
fn second() -> Single {
    let mut relay = Single::new(ORIGIN + 2);
    relay.handle(Input::View(view(1, 8, 2, |rank| ORIGIN + rank.0)));
    relay.sent.clear();
    relay
}

/// A copy for rank 2 and those behind it.
fn copy(end: u32, signature: Option<Signature>) -> Packet<u32> {
    let header = Header {
        errand: errand(0, Part::Range(Span::new(2, end))),
        origin_rank: Rank(0),
        to: Rank(2),
        closed_below: 0,
        is_kept: false,
        confirmation: Default::default(),
        topic: Topic::new("test").unwrap(),
        names: Vec::new(),
        signature,
    };
    let payloads = Payloads::from(Bytes::from_static(b"true"));
    Packet { header, payloads }
}

fn signature() -> Option<Signature> {
    Signature::new(Bytes::from_static(b"the origin's word"))
}

/// Nothing of such a copy is noted, and what was delivered is not denied by it: that
/// refusal is none for good.
#[test]
fn who_sent_an_unproven_copy_is_told_and_nothing_else_happens() {
    let mut relay = second();
    let copy = copy(3, signature());
    let liar = ORIGIN + 7;
    let mut said_to = |is_delivered: bool, reason| {
        let stats = relay.relay.stats();
        assert_eq!(stats.delivered, u64::from(is_delivered));
        relay.handle(Input::Unproven {
            from: liar,
            errand: copy.header.errand.clone(),
            reason,
        });
        let said = std::mem::take(&mut relay.sent);
        let [(to, Message::Refused { reason, .. })] = said[..] else {
            panic!("{said:?}");
        };
        assert_eq!(to, liar);
        if !is_delivered {
            relay.hear(ORIGIN, Message::Packet(copy.clone()));
            relay.sent.clear();
        }
        reason
    };
    assert_eq!(said_to(false, Refusal::Unsigned), Refusal::Unsigned);
    assert_eq!(said_to(true, Refusal::Unsigned), Refusal::Malformed);
    assert_eq!(said_to(true, Refusal::Signature), Refusal::Malformed);
}

/// A copy without its signature is taken where none is required; those behind may
/// require it.
#[test]
fn a_signature_is_not_given_up_for_a_larger_copy_without_one() {
    let mut relay = second();
    for (end, given, handed_on) in [
        (4, signature(), vec![(3, signature())]),
        (5, None, vec![(4, signature())]),
    ] {
        relay.hear(ORIGIN, Message::Packet(copy(end, given)));
        let copies = relay.packets().into_iter();
        let copies = copies.map(|(to, packet)| (to - ORIGIN, packet.header.signature));
        assert_eq!(copies.collect::<Vec<_>>(), handed_on);
    }
}

/// Topic and question are signed too: the true copy brings its own.
#[test]
fn a_signed_copy_brings_all_that_is_signed() {
    let mut relay = second();
    let mut lie = copy(4, None);
    lie.header.topic = Topic::new("lie").unwrap();
    relay.hear(ORIGIN, Message::Packet(lie));
    relay.packets();
    let truth = copy(5, signature());
    relay.hear(ORIGIN, Message::Packet(truth.clone()));
    let copies = relay.packets();
    assert!(!copies.is_empty());
    for (_, packet) in copies {
        assert_eq!(packet.header.topic, truth.header.topic);
        assert_eq!(packet.header.signature, truth.header.signature);
    }
}
