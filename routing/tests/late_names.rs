//! Members whose names the origin learns only after it has sent its broadcast.

use crate::network::single::{ORIGIN, Single, epoch, view};
use binomesh_overlay::Rank;
use binomesh_routing::packet::{Message, Reason};
use binomesh_routing::{Config, Destination, Input, Timer};

/// The origin at rank 0 of 8 has sent a broadcast without the names of ranks 3 and 5. Nothing
/// is confirmed. In the next epoch the members are the origin, 1001, 1003 and 1005.
fn two_nameless_members_and_another() -> Single {
    let mut origin = Single::new(ORIGIN);
    origin.handle(Input::View(view(1, 8, 0, |rank| ORIGIN + rank.0)));
    origin.publish(Destination::All);
    origin.fire(Timer::Waiting);
    origin.answer_all(false);
    let left = [ORIGIN, 1001, 1003, 1005];
    origin.handle(Input::View(view(2, 4, 0, |rank| left[rank.0 as usize])));
    origin
}

/// The same origin, after it has sent to 1001 again. Of the others, 1001 has the broadcast now.
fn two_nameless_members() -> Single {
    let mut origin = two_nameless_members_and_another();
    origin.next_round();
    assert_eq!(origin.answer_all(true), 1, "1001 alone is known");
    origin
}

/// A finger tells the names of ranks 3 to 5 in the first epoch.
fn tell(finger: u32, origin: &mut Single) {
    let tell = Message::RosterTell {
        epoch: epoch(1),
        start: Rank(3),
        peers: vec![1003, 1004, 1005],
    };
    origin.hear(finger, tell);
}

#[test]
fn a_member_whose_name_comes_late_gets_the_broadcast_at_once() {
    let mut origin = two_nameless_members();
    tell(1001, &mut origin);
    assert_eq!(origin.next_round(), Config::REISSUE_FIRST);
    assert_eq!(origin.answer_all(true), 2);
    let receipt = &origin.receipts[0];
    assert_eq!(receipt.reached_peers, [1001, 1003, 1005]);
    // Without a goodbye no member has left.
    let mut reasons = receipt.unreached.iter().map(|one| one.reason);
    assert!(reasons.all(|reason| reason == Reason::Down), "{receipt:?}");
}

/// 1003 has said goodbye before the broadcast, and 1005 says it afterwards. Only 1005 has a
/// line.
#[test]
fn a_member_that_had_left_before_has_no_line_though_its_name_came_late() {
    let mut origin = Single::new(ORIGIN);
    origin.handle(Input::View(view(1, 8, 0, |rank| ORIGIN + rank.0)));
    origin.handle(Input::PeerLeft(1003));
    origin.publish(Destination::All);
    origin.fire(Timer::Waiting);
    origin.handle(Input::PeerLeft(1005));
    origin.answer_all(false);
    tell(1001, &mut origin);
    while origin.receipts.is_empty() {
        origin.next_round();
        origin.answer_all(true);
    }
    let receipt = &origin.receipts[0];
    let lines: Vec<_> = (receipt.unreached.iter())
        .map(|line| (line.peer, line.reason))
        .collect();
    assert_eq!(lines, [(Some(1005), Reason::Left)]);
    let expected = (receipt.expected_count, receipt.reached_count);
    assert_eq!(expected, (6, 5));
}

/// A member is given up because its name is not known. If its name comes while another member
/// is still tried, the member that was given up is tried again too.
#[test]
fn a_member_whose_name_comes_after_it_was_given_up_is_tried_again() {
    let mut origin = two_nameless_members_and_another();
    while origin.next_round() < Config::REISSUE_CAP {
        origin.answer_all(false);
    }
    origin.answer_all(false);
    tell(1001, &mut origin);
    origin.next_round();
    assert_eq!(origin.answer_all(true), 3);
    assert_eq!(origin.receipts[0].reached_peers, [1001, 1003, 1005]);
}

/// The names come when 1001 alone is still tried, just before 1001 is reached.
#[test]
fn a_name_that_came_after_it_was_given_up_keeps_the_broadcast_open() {
    let mut origin = two_nameless_members_and_another();
    while origin.next_round() < Config::REISSUE_CAP {
        origin.answer_all(false);
    }
    tell(1001, &mut origin);
    assert_eq!(origin.answer_all(true), 1);
    assert!(origin.receipts.is_empty());
    origin.next_round();
    assert_eq!(origin.answer_all(true), 2);
    assert_eq!(origin.receipts[0].reached_peers, [1001, 1003, 1005]);
}

/// Members without names are given up only after some time, however often the origin looks at
/// the members that are left.
#[test]
fn ripe_verdicts_on_others_do_not_give_up_the_nameless() {
    let mut origin = two_nameless_members();
    for stranger in 2000..2010 {
        origin.handle(Input::PeerDown(stranger));
    }
    let timers = origin.timers.keys().copied();
    let ripe: Vec<Timer> = timers
        .filter(|timer| matches!(timer, Timer::Patience(_)))
        .collect();
    assert_eq!(ripe.len(), 10);
    for timer in ripe {
        origin.fire(timer);
    }
    assert!(origin.receipts.is_empty());
    tell(1001, &mut origin);
    origin.next_round();
    assert_eq!(origin.answer_all(true), 2);
    assert_eq!(origin.receipts[0].reached_peers, [1001, 1003, 1005]);
}

/// The tables of the origin name the last member of the newest epoch. The origin knows the name
/// of this member from the former epoch, and issues to it at once.
#[test]
fn tables_that_complete_the_roster_are_reason_to_issue_again() {
    let mut origin = Single::new(ORIGIN);
    origin.handle(Input::View(view(1, 4, 0, |rank| ORIGIN + rank.0)));
    origin.publish(Destination::All);
    origin.answer_all(false);
    let mut half = view(2, 4, 0, |rank| ORIGIN + rank.0);
    half.clockwise[1] = None;
    half.counterclockwise[1] = None;
    origin.handle(Input::View(half));
    for _ in 0..8 {
        origin.next_round();
        origin.answer_all(false);
    }
    assert_eq!(origin.timers[&Timer::Reissue(0)], Config::REISSUE_CAP);
    origin.handle(Input::View(view(2, 4, 0, |rank| ORIGIN + rank.0)));
    assert_eq!(origin.next_round(), Config::REISSUE_FIRST);
    assert_eq!(origin.answer_all(true), 3);
    assert!(origin.receipts[0].is_complete());
}

/// A rank of the former epoch may never have had a member. Then the names of that epoch could
/// come one after another for minutes, so the asking ends after twelve seconds.
#[test]
fn the_former_roster_is_asked_for_during_twelve_seconds() {
    let mut node = Single::new(ORIGIN);
    node.handle(Input::View(view(1, 64, 0, |rank| ORIGIN + rank.0)));
    node.handle(Input::View(view(2, 4, 0, |rank| ORIGIN + rank.0)));
    let mut fired = 0;
    for rank in 3.. {
        if !node.timers.contains_key(&Timer::Roster) {
            break;
        }
        fired += 1;
        node.fire(Timer::Roster);
        let tell = Message::RosterTell {
            epoch: epoch(1),
            start: Rank(rank),
            peers: vec![ORIGIN + rank],
        };
        node.hear(ORIGIN + 2, tell);
    }
    assert_eq!(fired, 16, "the waits of twelve seconds");
    node.sent.clear();
    let tell = Message::RosterTell {
        epoch: epoch(1),
        start: Rank(3 + fired),
        peers: vec![ORIGIN + 3 + fired],
    };
    node.hear(ORIGIN + 2, tell);
    assert_eq!(node.sent, [], "it is taken in, and no more is asked for");
}

/// 1001 was a member when the broadcast was accepted. The broadcast waited for a roster.
#[test]
fn a_member_that_leaves_while_a_broadcast_waits_for_names_has_a_line() {
    let mut origin = Single::new(ORIGIN);
    origin.handle(Input::View(view(1, 8, 0, |rank| ORIGIN + rank.0)));
    origin.publish(Destination::All);
    origin.handle(Input::PeerLeft(1001));
    tell(1001, &mut origin);
    while origin.receipts.is_empty() {
        origin.answer_all(true);
        if origin.receipts.is_empty() {
            origin.next_round();
        }
    }
    let lines = origin.receipts[0].unreached.iter();
    let lines: Vec<_> = lines.map(|line| (line.peer, line.reason)).collect();
    assert_eq!(lines, [(Some(1001), Reason::Left)]);
}

/// The origin's table names 1003 at rank 1 for a moment, as a corrupted table may.
fn with_a_wrong_name(n: u32) -> Single {
    let mut origin = Single::new(ORIGIN);
    let wrong = |rank: Rank| match rank.0 {
        1 => 1003,
        other => ORIGIN + other,
    };
    origin.handle(Input::View(view(1, n, 0, wrong)));
    origin.handle(Input::View(view(1, n, 0, |rank| ORIGIN + rank.0)));
    origin
}

/// All fingers tell the truth. The origin believes them once two of them contradict the name
/// that it had noted.
#[test]
fn a_finger_that_was_wrong_for_a_moment_does_not_keep_a_member_nameless() {
    let mut origin = with_a_wrong_name(8);
    origin.publish(Destination::Peers(vec![1003]));
    origin.answer_all(false);
    for finger in [1001, 1002] {
        tell(finger, &mut origin);
    }
    origin.next_round();
    let packets = origin.packets();
    let to: Vec<_> = packets.iter().map(|(_, packet)| packet.header.to).collect();
    assert_eq!(to, [Rank(3)]);
    for (to, packet) in packets {
        let done = Message::Done {
            errand: packet.header.errand,
            exceptions: Vec::new(),
            redelegated: 0,
            replaced: Vec::new(),
        };
        origin.hear(to, done);
    }
    let receipt = &origin.receipts[0];
    assert_eq!(receipt.reached_peers, [1003]);
    assert_eq!(
        (receipt.reached_count, receipt.unreached.len()),
        (1, 0),
        "{receipt:?}"
    );
}

/// Each of seven members has all others as fingers, so the corrected roster is complete at
/// once.
#[test]
fn the_last_name_may_be_one_that_was_wrong() {
    let mut origin = with_a_wrong_name(7);
    origin.publish(Destination::All);
    assert_eq!(origin.packets(), [], "it waits for names");
    for finger in [1001, 1002] {
        tell(finger, &mut origin);
    }
    assert_eq!(origin.answer_all(true), 0, "it goes by rank");
    assert_eq!(origin.receipts[0].reached_count, 6);
}

/// 1002 lies: it tells 1004 at rank 3. The origin's own table has 1004 at rank 4.
#[test]
fn a_message_by_name_stays_with_the_finger_that_it_is_for() {
    let mut origin = Single::new(ORIGIN);
    origin.handle(Input::View(view(1, 8, 0, |rank| ORIGIN + rank.0)));
    origin.publish(Destination::Peers(vec![1004]));
    origin.answer_all(false);
    let lie = Message::RosterTell {
        epoch: epoch(1),
        start: Rank(3),
        peers: vec![1004],
    };
    origin.hear(1002, lie);
    origin.next_round();
    let packets = origin.packets();
    let to: Vec<_> = packets.iter().map(|(_, packet)| packet.header.to).collect();
    assert_eq!(to, [Rank(4)]);
}
