//! The origin addresses a member that it knows by name. Another peer at that rank neither takes
//! the copy nor answers for the member.

use std::time::Duration;

use crate::network::single::{ORIGIN, Single, errand, header, placed, view};
use crate::network::{Conditions, Network, seeds};
use binomesh_overlay::Rank;
use binomesh_routing::packet::{
    CustodyRefusal, Header, Message, Packet, PacketId, Part, Reason, Span, State,
};
use binomesh_routing::{Config, Destination, Input};
use bytes::Bytes;

/// The liar exchanges the names of the first two ranks in each of its roster answers.
fn swap(message: Message<u32>) -> Option<Message<u32>> {
    Some(match message {
        Message::RosterTell {
            epoch,
            start,
            mut peers,
        } => {
            if peers.len() > 1 {
                peers.swap(0, 1);
            }
            Message::RosterTell {
                epoch,
                start,
                peers,
            }
        }
        other => other,
    })
}

/// Whether the origin takes the holders of ranks 9 and 10 for each other.
fn is_deceived(network: &Network) -> bool {
    let members = &network.members;
    let roster = network.relay(members[0]).roster().unwrap();
    roster.peer_at(Rank(9)) == Some(members[10]) && roster.peer_at(Rank(10)) == Some(members[9])
}

/// No member of `missed` gets a broadcast of rank 0. In a later epoch the origin takes ranks 9
/// and 10 for each other. `None` if the lie came too late.
fn reissue_under_a_lie(seed: u64, missed: &[usize]) -> Option<(Network, PacketId<u32>)> {
    let mut network = Network::new(16, seed, Conditions::default(), Config::default());
    let members = network.members.clone();
    for missed in missed {
        let cuts = members.iter().map(|from| (*from, members[*missed]));
        network.cuts.extend(cuts);
    }
    let id = network.publish(members[0], 16).unwrap();
    network.run_for(50_000);
    network.place(&members);
    network.run_for(25_000);
    network.liar = Some((members[8], swap));
    network.place(&members);
    network.run_for(25_000);
    network.cuts.clear();
    is_deceived(&network).then_some((network, id))
}

#[test]
fn another_peer_at_the_rank_does_not_answer_for_a_missed_member() {
    let mut deceived = 0;
    for seed in seeds(100) {
        let Some((mut network, id)) = reissue_under_a_lie(seed, &[9]) else {
            continue;
        };
        deceived += 1;
        let members = network.members.clone();
        network.run_for(3_000_000);
        network.assert_sound();
        assert_eq!(network.delivered(id, members[9]), 0, "seed {seed}");
        assert!(!network.receipts.contains_key(&id), "seed {seed}");
        let refused = network.stats(members[10]).refused[CustodyRefusal::NotThatPeer as usize];
        assert!(refused > 0, "seed {seed}");
        network.liar = None;
        network.place(&members);
        network.run_until_receipts(10_000_000);
        network.assert_sound();
        assert!(network.receipts[&id][0].is_complete(), "seed {seed}");
        network.assert_survivors_delivered(id);
    }
    assert!(deceived > 0);
}

/// In the epoch of a broadcast the origin takes ranks 9 and 10 for each other, and the member
/// at rank 9 misses the broadcast. In the next epoch member 10 says that it was never at rank
/// 9, and does not count for member 9.
#[test]
fn a_name_that_never_stood_at_a_rank_does_not_count_for_it() {
    let mut deceived = 0;
    for seed in seeds(100) {
        let config = Config::default();
        let mut network = Network::unplaced(16, seed, Conditions::default(), config);
        let members = network.members.clone();
        network.liar = Some((members[8], swap));
        network.place(&members);
        network.run_for(3_000_000);
        if !is_deceived(&network) {
            continue;
        }
        deceived += 1;
        network.liar = None;
        let cuts = members.iter().map(|from| (*from, members[9]));
        network.cuts.extend(cuts);
        let id = network.publish(members[0], 16).unwrap();
        network.run_for(50_000);
        for _ in 0..2 {
            network.place(&members);
            network.run_for(300_000);
        }
        network.run_until_receipts(20_000_000);
        let receipt = &network.receipts[&id][0];
        let line = receipt
            .unreached
            .iter()
            .find(|line| line.rank == Some(Rank(9)));
        let line = line.unwrap_or_else(|| panic!("seed {seed}: {receipt:?}"));
        let said = (line.peer, line.state, line.reason);
        let nameless = (None, State::Unconfirmed, Reason::Epoch);
        assert_eq!(said, nameless, "seed {seed}");
        assert_eq!(receipt.reached_count, 14, "seed {seed}");
        assert_eq!(network.stats(members[0]).misnamed, 1, "seed {seed}");
    }
    assert!(deceived > 0);
}

#[test]
fn the_rest_of_a_wrong_peers_part_goes_on_to_the_others() {
    let mut deceived = 0;
    for seed in seeds(100) {
        let Some((mut network, id)) = reissue_under_a_lie(seed, &[9, 11, 12]) else {
            continue;
        };
        deceived += 1;
        let members = network.members.clone();
        network.run_for(3_000_000);
        network.assert_sound();
        assert_eq!(network.delivered(id, members[9]), 0, "seed {seed}");
        assert_eq!(network.delivered(id, members[11]), 1, "seed {seed}");
        assert_eq!(network.delivered(id, members[12]), 1, "seed {seed}");
        assert!(!network.receipts.contains_key(&id), "seed {seed}");
    }
    assert!(deceived > 0);
}

#[test]
fn a_multicast_does_not_go_to_another_peer_at_the_rank() {
    let mut deceived = 0;
    for seed in seeds(100) {
        let config = Config::default();
        let mut network = Network::unplaced(16, seed, Conditions::default(), config);
        let members = network.members.clone();
        network.liar = Some((members[8], swap));
        network.place(&members);
        network.run_for(3_000_000);
        if !is_deceived(&network) {
            continue;
        }
        deceived += 1;
        let (origin, meant, other) = (members[0], members[9], members[10]);
        for payload in [16, 10_000] {
            let to = || Destination::Peers(vec![meant, members[3]]);
            let deadline = Some(Duration::from_secs(2));
            let bounded = network.publish_to(origin, to(), payload, deadline).unwrap();
            let patient = network.publish_to(origin, to(), payload, None).unwrap();
            network.run_for(3_000_000);
            let receipt = &network.receipts[&bounded][0];
            assert_eq!(receipt.reached_peers, [members[3]], "seed {seed}");
            assert_eq!(receipt.unreached[0].peer, Some(meant));
            assert!(!network.receipts.contains_key(&patient), "seed {seed}");
            assert_eq!(network.delivered(bounded, other), 0, "seed {seed}");
            assert_eq!(network.delivered(patient, other), 0, "seed {seed}");
        }
        network.liar = None;
        network.place(&members);
        network.run_until_receipts(10_000_000);
        for id in network.accepted.keys().filter(|id| id.sequence % 2 == 1) {
            assert!(network.receipts[id][0].is_complete(), "seed {seed}");
            assert_eq!(network.delivered(*id, meant), 1, "seed {seed}");
            assert_eq!(network.delivered(*id, other), 0, "seed {seed}");
        }
    }
    assert!(deceived > 0);
}

/// Two members claim one rank in the newest epoch. The origin issues to one after the other,
/// and neither counts for both. The copy of the second round goes to the second member.
#[test]
fn two_members_at_one_rank_have_a_round_each() {
    let mut origin = Single::new(ORIGIN);
    placed(1, 4, &mut origin);
    origin.publish(Destination::All);
    let other = |rank: Rank| ORIGIN + rank.0;
    origin.handle(Input::View(view(2, 4, 0, other)));
    // The clockwise table has 1002 at rank 2, and the counterclockwise table has 1003 there. No
    // peer is known at rank 3.
    let mut contradictory = view(3, 4, 0, other);
    contradictory.counterclockwise = vec![None, Some(1003)];
    origin.handle(Input::View(contradictory));
    origin.sent.clear();
    origin.next_round();
    let mut meant = Vec::new();
    let first = Config::REISSUE_FIRST;
    for wait in [first, first * 2] {
        for (to, packet) in origin.packets() {
            meant.extend(packet.header.named());
            let errand = packet.header.errand;
            let answer = if to == 1003 {
                // Peer 1003 says that it was never at the rank at which the origin had noted
                // it.
                let reason = CustodyRefusal::NotThatPeer;
                Message::Refused { errand, reason }
            } else {
                Message::Done {
                    errand,
                    exceptions: Vec::new(),
                    redelegated: 0,
                    replaced: Vec::new(),
                }
            };
            origin.hear(to, answer);
        }
        assert_eq!(origin.next_round(), wait);
    }
    assert_eq!(meant, [(2, 1002), (1, 1001), (2, 1003)]);
    origin.relay.conclude_all(&mut origin.out);
    origin.perform();
    let receipt = &origin.receipts[0];
    assert_eq!(receipt.reached_peers, [1001, 1002]);
    let left = &receipt.unreached[0];
    assert_eq!((left.rank, left.peer), (Some(Rank(3)), None));
}

/// A packet names at most 2,048 members. The round of the other members follows after the shortest
/// wait.
#[test]
fn more_members_than_names_in_a_packet_take_rounds_in_turn() {
    let first = Config::REISSUE_FIRST;
    let mut origin = Single::new(ORIGIN);
    placed(1, 3000, &mut origin);
    origin.publish(Destination::Peers((ORIGIN + 1..ORIGIN + 3000).collect()));
    assert_eq!(origin.answer_all(false), 2048);
    // Members that were not reached do not delay the round of the other members.
    assert_eq!(origin.next_round(), first);
    assert_eq!(origin.answer_all(true), 951);
    assert_eq!(origin.next_round(), first * 2);
    assert_eq!(origin.answer_all(true), 2048);
    assert_eq!(origin.receipts.len(), 1);
    assert_eq!(origin.receipts[0].reached_count, 2999);
    assert!(origin.receipts[0].is_complete());
}

#[test]
fn a_reissue_to_more_members_than_names_takes_rounds_in_turn() {
    let first = Config::REISSUE_FIRST;
    let mut origin = Single::new(ORIGIN);
    placed(1, 3000, &mut origin);
    origin.publish(Destination::All);
    placed(2, 3000, &mut origin);
    placed(3, 3000, &mut origin);
    origin.next_round();
    assert_eq!(origin.answer_all(true), 2048);
    assert_eq!(origin.next_round(), first);
    assert_eq!(origin.answer_all(true), 951);
    assert!(origin.receipts[0].is_complete());
}

fn named(round: u32, span: Span, names: &[u32]) -> Message<u32> {
    let header = Header {
        names: names.to_vec(),
        ..header(errand(round, Part::Range(span)), Rank(span.start))
    };
    let payload = Bytes::from_static(b"x");
    Message::Packet(Box::new(Packet {
        header,
        payloads: payload.into(),
    }))
}

fn answers(receiver: &mut Single) -> Vec<String> {
    let sent = std::mem::take(&mut receiver.sent).into_iter();
    let named = sent.map(|(to, message)| match message {
        Message::Refused { reason, .. } => format!("{to} {}", reason.name()),
        Message::Packet(packet) => format!("{to} packet {:?}", packet.header.names),
        message => format!("{to} {}", message.name()),
    });
    named.filter(|sent| !sent.contains("roster")).collect()
}

/// A receiver at rank 4 of 8.
fn receiver() -> Single {
    let mut receiver = Single::new(1004);
    receiver.handle(Input::View(view(1, 8, 4, |rank| ORIGIN + rank.0)));
    receiver.sent.clear();
    receiver
}

#[test]
fn a_question_about_another_is_not_answered_from_memory() {
    let mut receiver = receiver();
    let alone = Span::single(4);
    let ask = |name| Message::Inquire {
        errand: errand(3, Part::Range(alone)),
        name,
    };
    receiver.hear(1001, named(3, alone, &[1004]));
    assert_eq!(answers(&mut receiver), ["1001 done"]);
    receiver.hear(1002, ask(Some(1004)));
    assert_eq!(answers(&mut receiver), ["1002 done"]);
    receiver.hear(1002, ask(Some(1005)));
    assert_eq!(answers(&mut receiver), ["1002 not-that-peer"]);
    // A round may mean other members than another round. A question without a name is about
    // another duty.
    receiver.hear(1002, ask(None));
    assert_eq!(answers(&mut receiver), ["1002 unknown"]);
    receiver.hear(1001, named(3, alone, &[1005]));
    assert_eq!(answers(&mut receiver), ["1001 not-that-peer"]);
}

/// A relay does not answer in one round from its memory of another round.
#[test]
fn each_delegate_gets_the_names_of_its_part_in_every_round() {
    let mut receiver = receiver();
    let part = Span::new(4, 8);
    receiver.hear(ORIGIN, named(1, part, &[1004, 1005, 1006, 1007]));
    let packets = ["1006 packet [1006, 1007]", "1005 packet [1005]"];
    let first: Vec<String> = answers(&mut receiver);
    assert_eq!(first[..2], packets);
    for (peer, span) in [(1005, Span::single(5)), (1006, Span::new(6, 8))] {
        let done = Message::Done {
            errand: errand(1, Part::Range(span)),
            exceptions: Vec::new(),
            redelegated: 0,
            replaced: Vec::new(),
        };
        receiver.hear(peer, done);
    }
    assert_eq!(answers(&mut receiver), ["1000 done"]);
    receiver.hear(ORIGIN, named(2, part, &[1004, 1005, 1066, 1007]));
    let second = answers(&mut receiver);
    let packets = ["1006 packet [1066, 1007]", "1005 packet [1005]"];
    assert_eq!(second[..2], packets);
    let refused = Message::Refused {
        errand: errand(2, Part::Range(Span::new(6, 8))),
        reason: CustodyRefusal::NotThatPeer,
    };
    receiver.hear(1006, refused);
    // Peer 1007 is no finger, so its part goes on over another hop. That hop is first asked
    // whether it has the part.
    let (to, question) = receiver.sent.pop().unwrap();
    let Message::Inquire { errand, .. } = question else {
        panic!("{question:?}");
    };
    let reason = CustodyRefusal::Unknown;
    receiver.hear(to, Message::Refused { errand, reason });
    let rest = answers(&mut receiver);
    assert!(rest[0].ends_with("packet [1007]"), "{rest:?}");
}

/// All copies of one round name the same members. If two copies differ, the origin's own copy
/// counts.
#[test]
fn a_copy_that_names_others_gives_way_to_the_origins() {
    let mut receiver = receiver();
    let part = Span::new(4, 8);
    receiver.hear(1001, named(1, part, &[1004, 66, 1006, 1007]));
    answers(&mut receiver);
    receiver.hear(1002, named(1, part, &[1004, 1005, 1006, 1007]));
    assert_eq!(answers(&mut receiver), ["1002 malformed"]);
    receiver.hear(ORIGIN, named(1, part, &[1004, 1005, 1006, 1007]));
    let sent = answers(&mut receiver);
    assert!(sent.contains(&"1005 packet [1005]".to_owned()), "{sent:?}");
    let short = named(1, part, &[1004, 1005, 1006]);
    receiver.hear(1003, short);
    assert_eq!(answers(&mut receiver), ["1003 malformed"]);
}
