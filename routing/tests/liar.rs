//! A lying member that is authenticated harms little more than itself. docs/relay.md lists each
//! lie and its bound.

use crate::network::single::header;
use crate::network::{Conditions, Network, seeds};
use binomesh_overlay::Rank;
use binomesh_routing::packet::{
    CustodyRefusal, Errand, Exception, Header, Message, Packet, PacketId, Part, Reason, Span,
    State, Topic,
};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Input};
use bytes::Bytes;

fn calm(n: u32, seed: u64) -> Network {
    Network::new(n, seed, Conditions::default(), Config::default())
}

fn say(network: &mut Network, from: u32, to: u32, message: Message<u32>) {
    network.input_after(to, 0, Input::Message { from, message });
}

/// An errand of a message of `members[0]` in the newest epoch.
fn errand(network: &Network, boot: u64, sequence: u64, part: Part) -> Errand<u32> {
    let origin = network.members[0];
    Errand {
        id: PacketId {
            origin,
            boot,
            sequence,
        },
        epoch: network.relay(origin).placement().unwrap().epoch,
        strategy: Strategy::default(),
        round: 0,
        part,
    }
}

/// The liar hands nothing on, and says that all members clockwise of it have the message.
fn boast(message: Message<u32>) -> Option<Message<u32>> {
    match message {
        Message::Done {
            mut errand,
            redelegated,
            ..
        } => {
            errand.part = widened(&errand.part);
            Some(Message::Done {
                errand,
                exceptions: Vec::new(),
                redelegated,
                replaced: Vec::new(),
            })
        }
        Message::Custody { mut errand, .. } => {
            errand.part = widened(&errand.part);
            Some(Message::Done {
                errand,
                exceptions: Vec::new(),
                redelegated: 0,
                replaced: Vec::new(),
            })
        }
        Message::Packet(_) => None,
        other => Some(other),
    }
}

fn widened(part: &Part) -> Part {
    match part {
        Part::Range(span) => Part::Range(Span::new(span.start, 32)),
        other => other.clone(),
    }
}

/// A relay believes a delegate only about the delegate's own part. All other members get the
/// message, and none of them is falsely called reached.
#[test]
fn a_boast_speaks_for_the_liars_own_part_only() {
    for seed in seeds(200) {
        let mut network = calm(32, seed);
        let members = network.members.clone();
        network.liar = Some((members[4], boast));
        network.pause(members[8], 300_000);
        let id = network.publish(members[0], 16).unwrap();
        network.run_for(200_000);
        for at in (0..32).filter(|at| !(4..8).contains(at) && *at != 8) {
            let expected = u32::from(at > 0);
            assert_eq!(
                network.delivered(id, members[at]),
                expected,
                "seed {seed}: {at}"
            );
        }
        assert!(
            !network.receipts.contains_key(&id),
            "seed {seed}: 8 is late"
        );
        network.run_until_receipts(5_000_000);
        assert_eq!(network.delivered(id, members[8]), 1);
        // The liar can keep the message only from its own part.
        assert_eq!(network.delivered(id, members[5]), 0);
        assert_eq!(network.complaints().len(), 3, "seed {seed}");
    }
}

/// The liar hands nothing on, and says that the other members of its part have refused.
fn slander(message: Message<u32>) -> Option<Message<u32>> {
    match message {
        Message::Custody { errand, .. } | Message::Done { errand, .. } => {
            let Part::Range(span) = errand.part else {
                return None;
            };
            let refused = |at| Exception {
                span: Span::single(at),
                peer: None,
                state: State::Refused,
                reason: Reason::Draining,
            };
            Some(Message::Done {
                errand,
                exceptions: (span.start + 1..span.end).map(refused).collect(),
                redelegated: 0,
                replaced: Vec::new(),
            })
        }
        Message::Packet(_) => None,
        other => Some(other),
    }
}

/// A refusal can end the line of a member, so the origin believes it only from the member itself.
#[test]
fn a_refusal_in_the_name_of_others_is_checked_with_them() {
    for seed in seeds(200) {
        let mut network = calm(32, seed);
        let members = network.members.clone();
        network.liar = Some((members[8], slander));
        let id = network.publish(members[0], 16).unwrap();
        network.run_until_receipts(5_000_000);
        network.assert_sound();
        network.assert_survivors_delivered(id);
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
        assert!(network.stats(members[0]).refusals_checked > 0);
    }
}

/// A forged boot or mark is never out of reach: a packet of the origin itself takes it back.
#[test]
fn the_origin_overrides_any_forged_boot_or_mark() {
    for (boot, sequence) in [(u64::MAX, 0), (u64::MAX, u64::MAX), (1, 1 << 60)] {
        let mut network = calm(32, 7);
        let members = network.members.clone();
        let before = network.publish(members[0], 16).unwrap();
        network.run_until_receipts(1_000_000);
        for at in [3u32, 4, 5, 13, 14, 31] {
            let header = Header {
                closed_below: sequence,
                topic: Topic::new("forged").unwrap(),
                ..header(
                    errand(&network, boot, sequence, Part::Range(Span::single(at))),
                    Rank(at),
                )
            };
            let payload = Bytes::from_static(b"forged");
            let forged = Message::Packet(Box::new(Packet {
                header,
                payloads: payload.into(),
            }));
            say(&mut network, members[9], members[at as usize], forged);
        }
        network.run_for(100_000);
        let id = network.publish(members[0], 16).unwrap();
        network.run_until_receipts(3_000_000);
        network.assert_sound();
        assert!(network.receipts[&id][0].is_complete(), "{boot} {sequence}");
        network.assert_survivors_delivered(id);
        network.assert_survivors_delivered(before);
        let undone: u64 = members
            .iter()
            .map(|id| network.stats(*id).hearsay_undone)
            .sum();
        assert_eq!(undone, 6);
    }
}

/// In each roster answer, the liar tells a name that no member has for the first rank.
fn misname(message: Message<u32>) -> Option<Message<u32>> {
    Some(match message {
        Message::RosterTell {
            epoch,
            start,
            mut peers,
        } => {
            peers[0] = 5;
            Message::RosterTell {
                epoch,
                start,
                peers,
            }
        }
        other => other,
    })
}

/// A finger tells a wrong name for a rank, and dies. The origin finds the member at that rank
/// over its other fingers.
#[test]
fn a_wrong_name_in_the_roster_keeps_nobody_from_a_message() {
    let mut believed = 0;
    for seed in seeds(100) {
        let config = Config::default();
        let mut network = Network::unplaced(16, seed, Conditions::default(), config);
        let members = network.members.clone();
        network.liar = Some((members[8], misname));
        network.place(&members);
        network.run_for(3_000_000);
        let roster = network.relay(members[0]).roster().unwrap();
        let is_believed = roster.peer_at(Rank(9)) == Some(5);
        // Other fingers may have contradicted the lie in time.
        assert!(is_believed || roster.peer_at(Rank(9)) == Some(members[9]));
        network.crash(members[8]);
        network.run_for(500_000);
        let id = network.publish(members[0], 16).unwrap();
        network.run_for(3_000_000);
        network.assert_survivors_delivered(id);
        assert!(!is_believed || network.stats(members[0]).roster_doubted > 0);
        believed += u32::from(is_believed);
    }
    assert!(believed > 0, "nobody believed the lie");
}

/// The liar says in turn *I have it* and *I know nothing of it*. If each answer counted, the
/// payload would go out again each time. Only an answer to a question counts.
#[test]
fn a_liar_does_not_draw_payloads_at_its_pleasure() {
    let mut network = calm(16, 3);
    let (origin, liar) = (network.members[0], network.members[4]);
    network.liar = Some((liar, |_| None));
    let before = network.packets;
    let to = Destination::Peers(vec![liar]);
    network.publish_to(origin, to, 10_000, None).unwrap();
    let errand = errand(&network, 1, 0, Part::Range(Span::single(4)));
    for _ in 0..1_000 {
        let custody = Message::Custody {
            errand: errand.clone(),
            pending: Vec::new(),
        };
        let unknown = Message::Refused {
            errand: errand.clone(),
            reason: CustodyRefusal::Unknown,
        };
        say(&mut network, liar, origin, custody);
        say(&mut network, liar, origin, unknown);
        network.run_for(1_000);
    }
    let drawn = network.packets - before;
    assert!(drawn < 10, "{drawn} copies");
}

/// A forged copy comes first, and gives a wrong rank for the origin. The origin's own copy
/// counts.
#[test]
fn the_origin_knows_best_where_it_stands() {
    let mut network = calm(16, 3);
    let members = network.members.clone();
    let header = Header {
        origin_rank: Rank(2),
        topic: Topic::new("forged").unwrap(),
        ..header(
            errand(&network, 1, 0, Part::Range(Span::single(2))),
            Rank(4),
        )
    };
    let payload = Bytes::from_static(b"forged");
    let forged = Message::Packet(Box::new(Packet {
        header,
        payloads: payload.into(),
    }));
    say(&mut network, members[9], members[4], forged);
    network.run_for(1_000);
    let id = network.publish(members[0], 16).unwrap();
    network.run_until_receipts(1_000_000);
    network.assert_sound();
    assert!(network.receipts[&id][0].is_complete());
    network.assert_survivors_delivered(id);
}

/// A node refuses a part that names one member many times. Many parts together make no more
/// copies than the bound of the node, which the last part that is taken may pass.
#[test]
fn copies_of_forged_parts_are_bounded() {
    let config = Config {
        max_delegations: 20,
        ..Config::default()
    };
    let mut network = Network::new(32, 1, Conditions::default(), config);
    let members = network.members.clone();
    let (liar, victim) = (members[1], members[16]);
    for member in &members {
        network.cuts.insert((*member, victim));
        network.cuts.insert((victim, *member));
    }
    let routed = |spans| Part::Routed {
        spans,
        visited: vec![Rank(1)],
        dead: Vec::new(),
    };
    let forged = |network: &Network, sequence, part| {
        Message::Packet(Box::new(Packet {
            header: header(errand(network, 1, sequence, part), Rank(16)),
            payloads: Default::default(),
        }))
    };
    let same = routed(vec![Span::single(20); 256]);
    let packet = forged(&network, 0, same);
    say(&mut network, liar, victim, packet);
    network.run_for(1_000);
    assert_eq!(network.stats(victim).delegations, 0);
    assert_eq!(
        network.stats(victim).refused[CustodyRefusal::Malformed as usize],
        1
    );
    for sequence in 1..60 {
        let all = (17..32).map(Span::single).collect();
        let packet = forged(&network, sequence, routed(all));
        say(&mut network, liar, victim, packet);
    }
    network.run_for(1_000);
    let open = network.stats(victim).delegations;
    assert!((15..20 + 15).contains(&open), "{open}");
    assert!(network.stats(victim).refused[CustodyRefusal::Busy as usize] > 50);
}
