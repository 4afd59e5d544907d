//! Copies that differ from the content that their origin signed. Hosts report such copies to
//! the relay ([`Input::Unproven`]), and the true message still reaches all members. Each test
//! on `network` also checks that honest relays hand on signatures unchanged.

use std::time::Duration;

use crate::network::single::{ORIGIN, Single, errand, header, placed, view};
use crate::network::{Conditions, Network, Twist, seeds};
use binomesh_overlay::Rank;
use binomesh_routing::packet::{
    Content, CustodyRefusal, Errand, Exception, Header, Message, Packet, PacketId, Part, Payloads,
    Reason, Signature, SigningFailed, Span, State, Topic,
};
use binomesh_routing::{Config, Destination, Due, Input, Publish, PublishError, RelayStats, Timer};
use bytes::Bytes;

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

/// The members refuse the copies of the liar. The origin believes a refusal only from the
/// member itself, so it asks these members, and they get the true message.
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
                refused[CustodyRefusal::Unsigned as usize]
                    + refused[CustodyRefusal::Signature as usize]
            })
            .sum();
        assert!(refused > 0, "seed {seed}: the liar handed nothing on");
    }
}

/// Hosts refuse copies with a signature of the former key, even at a member that has delivered
/// the message. With a new signature, a member that has the message confirms it, and a member
/// without the message gets it.
#[test]
fn a_message_that_is_open_when_keys_are_renewed_reaches_all_and_is_confirmed() {
    for seed in seeds(100) {
        let mut network = Network::new(16, seed, Conditions::default(), Config::default());
        network.requires = true;
        let members = network.members.clone();
        let (origin, deaf, mute) = (members[0], members[5], members[10]);
        for other in members.iter().copied() {
            network.cuts.insert((other, deaf));
            network.cuts.insert((mute, other));
        }
        let id = network.publish(origin, 16).unwrap();
        network.run_for(2_000_000);
        assert_eq!(network.delivered(id, mute), 1, "seed {seed}");
        assert_eq!(network.delivered(id, deaf), 0, "seed {seed}");
        network.renew_keys();
        network.cuts.clear();
        network.run_until_receipts(10_000_000);
        network.assert_sound();
        network.assert_survivors_delivered(id);
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
    }
}

/// A broadcast of one byte with this signature.
fn try_publish(
    origin: &mut Single,
    due: Due<u32>,
    signature: Result<Option<Signature>, SigningFailed>,
) -> Result<PacketId<u32>, PublishError<u32>> {
    let publish = Publish {
        topic: Topic::new("test").unwrap(),
        payloads: Bytes::from_static(b"x").into(),
        destination: Destination::All,
        strategy: Default::default(),
        due,
        confirmation: Default::default(),
        is_ordered: true,
    };
    let sign = |_: Content<'_, u32>| signature;
    let published = origin.relay.publish_signed(publish, sign, &mut origin.out);
    origin.perform();
    published
}

fn publish(origin: &mut Single, signature: Option<Signature>) -> PacketId<u32> {
    try_publish(origin, Due::Settled, Ok(signature)).unwrap()
}

/// A message is also refused if there is no room for its signature. A refused message uses no
/// sequence and no number of the order.
#[test]
fn a_message_that_cannot_be_signed_is_not_sent_unsigned() {
    let config = Config {
        max_message_bytes: 20,
        max_kept_bytes: 10,
        ..Config::default()
    };
    let mut origin = Single::with(ORIGIN, config);
    placed(1, 4, &mut origin);
    let signed = |length| Ok(Signature::new(vec![7; length].into()));
    let kept = || Due::Kept {
        time: Duration::from_secs(1),
        awaited: Vec::new(),
    };
    let full = |bytes| PublishError::MemoryFull { bytes, max: 20 };
    for (due, signature, outcome) in [
        (
            Due::Settled,
            Err(SigningFailed),
            Err(PublishError::NotSigned),
        ),
        (Due::Settled, signed(20), Err(full(0))),
        (kept(), signed(10), Err(PublishError::KeptFull(0))),
        (kept(), signed(9), Ok(0)),
        (Due::Settled, signed(10), Err(full(10))),
        (Due::Settled, signed(9), Ok(1)),
    ] {
        let before = origin.relay.stats();
        let published = try_publish(&mut origin, due, signature);
        assert_eq!(published.map(|id| id.sequence), outcome);
        let numbers = origin.sent.iter().filter_map(|(_, sent)| match sent {
            Message::Packet(packet) => packet.header.order.map(|order| order.number),
            _ => None,
        });
        assert!(numbers.eq(outcome.iter().flat_map(|number| [*number; 2])));
        if outcome.is_err() {
            let after = origin.relay.stats();
            let open = |stats: RelayStats| (stats.message_bytes, stats.published);
            assert_eq!(open(after), open(before));
            assert!(origin.sent.is_empty());
        }
        origin.sent.clear();
    }
    assert_eq!(origin.relay.stats().message_bytes, 20);
}

/// A duty grows with its first signed copy.
#[test]
fn a_signature_takes_room_in_a_duty_that_is_open() {
    let taken = signature().unwrap().bytes().len();
    for (room, has_room) in [(taken - 1, false), (taken, true)] {
        let max_duty_bytes = b"true".len() + room;
        let config = Config {
            max_duty_bytes,
            ..Config::default()
        };
        let mut relay = Single::with(ORIGIN + 2, config);
        relay.handle(Input::View(view(1, 8, 2, |rank| ORIGIN + rank.0)));
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(4, None))));
        relay.sent.clear();
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, signature()))));
        let is_busy = |(_, message): &(u32, Message<u32>)| {
            let busy = CustodyRefusal::Busy;
            matches!(message, Message::Refused { reason, .. } if *reason == busy)
        };
        assert_eq!(relay.sent.iter().any(is_busy), !has_room);
        let held = relay.relay.stats().duty_bytes;
        assert_eq!(held == max_duty_bytes, has_room, "{held}");
    }
}

/// The open round goes on with the new signature. The next round begins after the shortest
/// wait.
#[test]
fn a_new_signature_goes_with_every_copy_from_then_on() {
    let mut origin = Single::new(ORIGIN);
    placed(1, 4, &mut origin);
    let sign = |text: &'static [u8]| Signature::new(Bytes::from_static(text));
    let id = publish(&mut origin, sign(b"old"));
    let first = std::mem::take(&mut origin.sent);
    assert_eq!(first.len(), 2);
    assert_eq!(origin.relay.stats().message_bytes, 1 + 3);
    let resign = |origin: &mut Single, text| {
        let sign = |content: Content<'_, u32>| sign(text).filter(|_| content.id == id);
        origin.relay.resign(sign, &mut origin.out);
        origin.perform();
        assert_eq!(origin.relay.stats().message_bytes, 1 + text.len());
    };
    let assert_signed = |origin: &Single, text| {
        assert!(!origin.sent.is_empty());
        for (_, message) in &origin.sent {
            let Message::Packet(copy) = message else {
                panic!("{message:?}");
            };
            assert_eq!(copy.header.signature, sign(text));
        }
    };
    resign(&mut origin, b"another");
    let late = |timer: &&Timer| matches!(timer, Timer::Delegation { .. });
    let late = *origin.timers.keys().find(late).unwrap();
    // The member that replaces the late delegate is asked first.
    origin.fire(late);
    let asked = std::mem::take(&mut origin.sent);
    let [(to, Message::Inquire { errand, .. })] = &asked[..] else {
        panic!("{asked:?}");
    };
    let (errand, reason) = (errand.clone(), CustodyRefusal::Unknown);
    origin.hear(*to, Message::Refused { errand, reason });
    assert_signed(&origin, b"another");
    // No member is reached in several rounds, so the waits grow.
    origin.sent.extend(first);
    origin.answer_all(false);
    let waited = (0..3).map(|_| {
        let waited = origin.next_round();
        origin.answer_all(false);
        waited
    });
    let first = Config::REISSUE_FIRST;
    assert!(waited.last() > Some(first));
    resign(&mut origin, b"the last one");
    assert_eq!(origin.next_round(), first);
    assert_signed(&origin, b"the last one");
}

/// The member at rank 2 of 8.
fn second() -> Single {
    let mut relay = Single::new(ORIGIN + 2);
    relay.handle(Input::View(view(1, 8, 2, |rank| ORIGIN + rank.0)));
    relay.sent.clear();
    relay
}

/// A copy for the part that begins at rank 2 and ends before `end`.
fn copy(end: u32, signature: Option<Signature>) -> Packet<u32> {
    let header = Header {
        signature,
        ..header(errand(0, Part::Range(Span::new(2, end))), Rank(2))
    };
    let payloads = Payloads::from(Bytes::from_static(b"true"));
    Packet { header, payloads }
}

fn signature() -> Option<Signature> {
    Signature::new(Bytes::from_static(b"the origin's word"))
}

/// The relay notes nothing of an unproven copy. If the relay has delivered the message, it
/// answers `Malformed`, which is no final refusal.
#[test]
fn the_sender_of_an_unproven_copy_is_refused_and_nothing_else_happens() {
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
            relay.hear(ORIGIN, Message::Packet(Box::new(copy.clone())));
            relay.sent.clear();
        }
        reason
    };
    assert_eq!(
        said_to(false, CustodyRefusal::Unsigned),
        CustodyRefusal::Unsigned
    );
    assert_eq!(
        said_to(true, CustodyRefusal::Unsigned),
        CustodyRefusal::Malformed
    );
    assert_eq!(
        said_to(true, CustodyRefusal::Signature),
        CustodyRefusal::Malformed
    );
}

/// A relay that requires no signature takes an unsigned copy. It keeps the signature that it
/// has, since members behind it may require one.
#[test]
fn a_signature_is_not_given_up_for_a_larger_copy_without_one() {
    let mut relay = second();
    for (end, given, handed_on) in [
        (4, signature(), vec![(3, signature())]),
        (5, None, vec![(4, signature())]),
    ] {
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(end, given))));
        let copies = relay.packets().into_iter();
        let copies = copies.map(|(to, packet)| (to - ORIGIN, packet.header.signature));
        assert_eq!(copies.collect::<Vec<_>>(), handed_on);
    }
}

/// The topic and the confirmation are signed too, so the relay takes them from the signed copy.
#[test]
fn a_signed_copy_brings_all_that_is_signed() {
    let mut relay = second();
    let mut lie = copy(4, None);
    lie.header.topic = Topic::new("lie").unwrap();
    relay.hear(ORIGIN, Message::Packet(Box::new(lie)));
    relay.packets();
    let truth = copy(5, signature());
    relay.hear(ORIGIN, Message::Packet(Box::new(truth.clone())));
    let copies = relay.packets();
    assert!(!copies.is_empty());
    for (_, packet) in copies {
        assert_eq!(packet.header.topic, truth.header.topic);
        assert_eq!(packet.header.signature, truth.header.signature);
    }
}

/// The exception of a member that requires signatures and was given an unsigned copy.
fn unsigned(span: Span) -> Exception<u32> {
    Exception {
        span,
        peer: None,
        state: State::Refused,
        reason: Reason::Unsigned,
    }
}

/// Above `roster_max` the origin cannot ask all members itself, and believes refusals that
/// other members report. But if it has signed the message, it does not believe a refusal for want
/// of a signature: a relay on the way has lost the signature.
#[test]
fn nobody_is_refused_for_want_of_a_signature_that_the_origin_gave() {
    for (given, is_final) in [(None, true), (signature(), false)] {
        let config = Config {
            roster_max: 8,
            ..Config::default()
        };
        let mut origin = Single::with(ORIGIN, config);
        origin.handle(Input::View(view(1, 32, 0, |rank| ORIGIN + rank.0)));
        publish(&mut origin, given);
        // Each part of four or more members reports one of them as unsigned. This member is no
        // finger of the origin, so the origin does not know its name and cannot ask it.
        for (to, packet) in origin.packets() {
            let errand = packet.header.errand;
            let end = errand.part.spans()[0].end;
            let is_longer = errand.part.count() >= 4;
            let exceptions = is_longer.then(|| unsigned(Span::single(end - 3)));
            let done = Message::Done {
                errand,
                exceptions: exceptions.into_iter().collect(),
                redelegated: 0,
                replaced: Vec::new(),
            };
            origin.hear(to, done);
        }
        assert_eq!(origin.receipts.len(), usize::from(is_final));
        if let Some(receipt) = origin.receipts.first() {
            assert_eq!(receipt.unreached.len(), 3);
            continue;
        }
        origin.next_round();
        origin.answer_all(true);
        assert!(origin.receipts[0].is_complete());
    }
}

/// A relay has handed on an unsigned copy, and the members behind it that require a signature
/// have refused. With the signed copy the relay asks these members again, even in the same
/// round.
#[test]
fn a_signed_copy_goes_to_those_who_refused_an_unsigned_one() {
    let refused = |errand, _| Message::Refused {
        errand,
        reason: CustodyRefusal::Unsigned,
    };
    let reported = |errand: Errand<u32>, end| Message::Done {
        errand,
        exceptions: vec![unsigned(Span::single(end - 1))],
        redelegated: 0,
        replaced: Vec::new(),
    };
    type Answer = fn(Errand<u32>, u32) -> Message<u32>;
    let answers: [Answer; 2] = [refused, reported];
    for answer in answers {
        let mut relay = second();
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, None))));
        for (to, packet) in relay.packets() {
            let errand = packet.header.errand;
            let end = errand.part.spans()[0].end;
            relay.hear(to, answer(errand, end));
        }
        relay.packets();
        // Another unsigned copy does not change the refusals.
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, None))));
        assert!(relay.packets().is_empty());
        relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, signature()))));
        let copies = relay.packets();
        assert_eq!(copies.len(), 2);
        for (to, packet) in copies {
            assert_eq!(packet.header.signature, signature());
            // A member that refuses now is a liar, or has refused the unsigned copy.
            relay.hear(to, refused(packet.header.errand, 0));
        }
        let done = relay.sent.iter().find_map(|(_, message)| match message {
            Message::Done { exceptions, .. } => Some(exceptions),
            _ => None,
        });
        let states = done.unwrap().iter().map(|exception| exception.state);
        assert!(states.into_iter().all(|state| state == State::Unconfirmed));
    }
}

/// A member may answer only after the signed copy has come to its delegator. Its refusal is
/// about the unsigned copy, and is not final.
#[test]
fn a_refusal_that_crosses_the_signed_copy_is_not_final() {
    let mut relay = second();
    relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, None))));
    let copies = relay.packets();
    assert_eq!(copies.len(), 2);
    relay.hear(ORIGIN, Message::Packet(Box::new(copy(5, signature()))));
    assert!(relay.packets().is_empty(), "nobody has refused yet");
    for (to, packet) in copies {
        let errand = packet.header.errand;
        let reason = CustodyRefusal::Unsigned;
        relay.hear(to, Message::Refused { errand, reason });
    }
    let done = relay.sent.iter().find_map(|(_, message)| match message {
        Message::Done { exceptions, .. } => Some(exceptions),
        _ => None,
    });
    let states: Vec<State> = done.unwrap().iter().map(|one| one.state).collect();
    assert!(!states.is_empty());
    assert!(states.into_iter().all(|state| state == State::Unconfirmed));
}
