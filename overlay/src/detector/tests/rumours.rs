//! Rumours about other peers, and what a node makes of them.

use super::*;
use crate::planted::Bug;

#[test]
fn a_verdict_is_told_once_to_every_link_that_is_up() {
    let mut bed = Bed::new(Planted::NONE);
    for _ in 0..3 {
        bed.heard(2);
        bed.beat();
    }
    let told = bed.sent_rumours();
    let expected = vec![accusation(1, 10, 0)];
    assert_eq!(told, BTreeMap::from([(2, expected.clone()), (3, expected)]));
    assert!(bed.sent_rumours().is_empty());
}

#[test]
fn an_accused_link_is_asked_before_it_is_believed_to_be_down() {
    let mut bed = Bed::new(Planted::NONE);
    assert!(bed.rumour(2, 3, 10).is_empty());
    assert_eq!(bed.sent(), [(3, Message::Ping { asker: None })]);
    assert!(bed.judge().is_empty() && !bed.detector.is_down(3));
    assert_eq!(bed.judge(), [(3, Verdict::Down)]);
    assert!(bed.heard(3), "contact settles it");
    assert!(!bed.detector.is_down(3));
    // The accused is told, so that it can answer where others believe the accusation.
    let told = bed.sent().pop();
    assert_eq!(
        told,
        Some((3, Message::Rumours(vec![accusation(3, 10, 0)])))
    );
}

#[test]
fn an_accused_link_that_answers_is_never_down() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 3, 10);
    assert!(!bed.heard(3));
    assert!(bed.judge().is_empty() && bed.judge().is_empty());
}

#[test]
fn a_peer_without_a_link_is_taken_for_down_until_it_answers() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(bed.rumour(2, 9, 4), [(9, Verdict::ToldDown)]);
    assert_eq!(bed.rumour(3, 9, 4), [], "it is no news any more");
    assert_eq!(bed.sent_rumours()[&3], [accusation(9, 4, 0)]);
    let answer = Rumour {
        incarnation: 1,
        is_up: true,
        ..accusation(9, 4, 0)
    };
    let verdicts = bed.hear(3, Message::Rumours(vec![answer]));
    assert_eq!(verdicts, [(9, Verdict::Up)]);
    assert_eq!(bed.sent_rumours()[&2], [answer]);
}

#[test]
fn an_accusation_expires_and_does_not_say_that_the_peer_is_up() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(bed.rumour(2, 9, 4), [(9, Verdict::ToldDown)]);
    let life = life_of_rumours(&Pace::default());
    let verdicts: Vec<_> = (0..2 * life).flat_map(|_| bed.beat()).collect();
    let of_it: Vec<_> = verdicts.iter().filter(|(id, _)| *id == 9).collect();
    assert_eq!(of_it, [&(9, Verdict::Expired)]);
}

#[test]
fn the_accused_answers_once() {
    let mut bed = Bed::new(Planted::NONE);
    for from in [1, 2, 3] {
        assert!(bed.rumour(from, 0, 5).is_empty());
    }
    let answer = Rumour {
        incarnation: 1,
        is_up: true,
        ..accusation(0, 5, 0)
    };
    assert_eq!(bed.sent_rumours()[&1], [answer]);
    bed.rumour(1, 0, 5);
    assert!(bed.sent_rumours().is_empty());
    // An accusation of an earlier life is answered with the present life.
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(1, 0, 3);
    let answer = Rumour {
        is_up: true,
        ..accusation(0, 5, 0)
    };
    assert_eq!(bed.sent_rumours()[&1], [answer]);
}

#[test]
fn the_accused_are_reminded_until_they_answer() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 3, 10);
    bed.heard(3);
    let reminder = (3, Message::Rumours(vec![accusation(3, 10, 0)]));
    assert!(bed.sent().contains(&reminder));
    bed.heard(3);
    assert!(!bed.sent().contains(&reminder), "not with every message");
    bed.rounds_of_reminders(1);
    assert!(bed.sent().contains(&reminder));
    let answer = Rumour {
        incarnation: 1,
        is_up: true,
        ..accusation(3, 10, 0)
    };
    bed.hear(3, Message::Rumours(vec![answer]));
    bed.rounds_of_reminders(2);
    assert!(!bed.sent().contains(&reminder));
}

#[test]
fn hearsay_is_doubted_before_every_neighbour_in_turn() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 9, 4);
    bed.sent();
    bed.rounds_of_reminders(3);
    let doubts = Message::Doubts(vec![accusation(9, 4, 0)]);
    let asked = bed.sent().into_iter();
    let asked: BTreeSet<u32> = asked
        .filter(|(_, said)| *said == doubts)
        .map(|(to, _)| to)
        .collect();
    assert_eq!(asked, [1, 2, 3].into());
}

/// The partition in which this node found the peer down may have ended.
#[test]
fn a_verdict_of_the_nodes_own_is_doubted_too() {
    let mut bed = Bed::new(Planted::NONE);
    bed.find_down(1);
    bed.sent();
    for _ in 0..REMIND {
        bed.heard(2);
        bed.beat();
    }
    let is_doubt = |(_, message): &(u32, Message<u32>)| matches!(message, Message::Doubts(doubts) if doubts.iter().any(|doubt| doubt.peer == 1));
    assert!(bed.sent().iter().any(is_doubt));
}

/// More peers are down than one message can ask about.
#[test]
fn all_that_are_down_get_their_turn_to_be_asked_about() {
    let mut bed = Bed::new(Planted::NONE);
    let down = 100..100 + 2 * MAX_TOLD as u32;
    for peer in down.clone() {
        bed.rumour(2, peer, 4);
    }
    bed.sent();
    let mut asked = BTreeSet::new();
    for _ in 0..4 {
        bed.rounds_of_reminders(1);
        for (_, message) in bed.sent() {
            if let Message::Doubts(doubts) = message {
                assert!(doubts.len() <= MAX_TOLD);
                asked.extend(doubts.into_iter().map(|doubt| doubt.peer));
            }
        }
    }
    assert!(down.clone().all(|peer| asked.contains(&peer)), "{asked:?}");
}

#[test]
fn a_doubt_is_answered_or_brought_to_the_accused_and_not_believed() {
    let mut bed = Bed::new(Planted::NONE);
    let doubt = |peer| Message::Doubts(vec![accusation(peer, 10, 0)]);
    assert!(bed.hear(1, doubt(9)).is_empty() && !bed.detector.is_down(9));
    assert!(bed.sent().is_empty() && bed.sent_rumours().is_empty());
    bed.hear(1, doubt(3));
    assert_eq!(
        bed.sent(),
        [(3, Message::Rumours(vec![accusation(3, 10, 0)]))]
    );
    let answer = Rumour {
        incarnation: 1,
        is_up: true,
        ..accusation(3, 10, 0)
    };
    bed.hear(3, Message::Rumours(vec![answer]));
    bed.sent_rumours();
    bed.hear(1, doubt(3));
    assert_eq!(bed.sent(), [(1, Message::Rumours(vec![answer]))]);
    assert!(bed.detector.down().next().is_none());
}

/// The node had a link to the later life before it heard of the earlier life's death, so that it
/// had no accusation to take back at that time.
#[test]
fn an_accusation_of_an_earlier_life_is_answered_by_a_node_that_knows_the_later_one() {
    let mut bed = Bed::new(Planted::NONE);
    assert!(bed.rumour(2, 3, 9).is_empty() && !bed.detector.is_down(3));
    let answer = Rumour {
        is_up: true,
        ..accusation(3, 10, 0)
    };
    assert_eq!(bed.sent_rumours()[&1], [answer]);
    bed.rumour(2, 3, 9);
    assert!(bed.sent_rumours().is_empty(), "once");
}

/// A liar has accused peer 3, and nodes without a link to it believe that. They hear its answer
/// through nodes that have a link.
#[test]
fn an_accusation_of_a_life_that_never_was_is_brought_to_the_accused_and_its_answer_travels() {
    let mut bed = Bed::new(Planted::NONE);
    let accused = accusation(3, u64::MAX, 0);
    assert!(bed.rumour(2, 3, u64::MAX).is_empty() && !bed.detector.is_down(3));
    assert_eq!(bed.sent(), [(3, Message::Rumours(vec![accused]))]);
    let answer = Rumour {
        is_up: true,
        incarnation: 1,
        ..accused
    };
    bed.hear(2, Message::Rumours(vec![answer]));
    assert!(bed.sent_rumours().is_empty(), "hearsay of another life");
    bed.hear(3, Message::Rumours(vec![answer]));
    assert_eq!(bed.sent_rumours()[&1], [answer]);
    bed.rumour(2, 3, u64::MAX);
    assert_eq!(bed.sent(), [(2, Message::Rumours(vec![answer]))]);
    assert!(!bed.detector.is_down(3));
}

/// Peer 3, whose link is of life 10, has answered for a life that never was. If it dies, it is
/// accused in the life that others know.
#[test]
fn a_peer_that_answered_for_another_life_is_accused_in_that_life() {
    let own = |incarnation| Rumour {
        is_up: true,
        ..accusation(3, u64::MAX, incarnation)
    };
    let answered = || {
        let mut bed = Bed::new(Planted::NONE);
        bed.detector.watch(&[1, 3].into());
        bed.rumour(2, 3, u64::MAX);
        bed.hear(3, Message::Rumours(vec![own(1)]));
        bed.sent_rumours();
        bed
    };
    let mut witness = answered();
    while !witness.detector.is_down(3) {
        witness.beat();
        witness.heard(1);
    }
    assert_eq!(witness.sent_rumours()[&1], [accusation(3, u64::MAX, 1)]);
    // A node that does not watch the peer asks it, in whichever life it is accused.
    for boot in [10, u64::MAX] {
        let mut bed = answered();
        bed.hear(1, Message::Rumours(vec![accusation(3, boot, 1)]));
        let ping = (3, Message::Ping { asker: None });
        assert!(bed.sent().contains(&ping), "{boot}");
        bed.judge();
        let down = bed.judge();
        assert_eq!(down, [(3, Verdict::Down)], "{boot}");
    }
}

#[test]
fn the_greatest_credible_accusation_has_an_answer_that_travels() {
    let mut bed = Bed::new(Planted::NONE);
    bed.hear(2, Message::Rumours(vec![accusation(3, u64::MAX, 8)]));
    let answer = Rumour {
        is_up: true,
        ..accusation(3, u64::MAX, 9)
    };
    bed.hear(3, Message::Rumours(vec![answer]));
    assert_eq!(bed.sent_rumours()[&1], [answer]);
}

#[test]
fn an_accusation_is_brought_to_the_accused_once_a_beat_and_incredible_ones_never() {
    let mut bed = Bed::new(Planted::NONE);
    let accused = accusation(3, u64::MAX, 2);
    bed.hear(1, Message::Rumours(vec![accused; 9]));
    bed.hear(2, Message::Rumours(vec![accused]));
    assert_eq!(bed.sent().len(), 1);
    bed.beat();
    bed.sent();
    bed.hear(2, Message::Rumours(vec![accused]));
    bed.hear(2, Message::Rumours(vec![accusation(3, u64::MAX, 9)]));
    assert_eq!(bed.sent(), [(3, Message::Rumours(vec![accused]))]);
}

#[test]
fn accusations_beyond_the_bound_are_brought_in_the_next_beat() {
    let mut bed = Bed::new(Planted::NONE);
    let accuse = |bed: &mut Bed| {
        for boot in 100..200 {
            bed.rumour(2, 3, boot);
        }
        bed.sent().len()
    };
    assert_eq!((accuse(&mut bed), accuse(&mut bed)), (64, 0));
    bed.beat();
    bed.sent();
    assert_eq!(accuse(&mut bed), 64);
}

/// No node believes an incarnation that is so far ahead, so it must not spoil the answers to
/// credible ones.
#[test]
fn an_incredible_accusation_is_not_answered_and_the_next_is() {
    let mut bed = Bed::new(Planted::NONE);
    let mut answers = |incarnation| {
        let accused = accusation(0, u64::MAX, incarnation);
        bed.hear(1, Message::Rumours(vec![accused]));
        let at_once = bed.sent().into_iter().map(|(_, message)| match message {
            Message::Rumours(rumours) => rumours[0].incarnation,
            other => panic!("{other:?}"),
        });
        let at_once: Vec<u32> = at_once.collect();
        let later = bed.sent_rumours();
        let later = later.get(&2).map(|told| told[0].incarnation);
        (at_once, later)
    };
    assert_eq!(answers(u32::MAX), (vec![], None));
    assert_eq!(answers(1), (vec![], Some(2)));
    assert_eq!(answers(10), (vec![], Some(11)));
    assert_eq!(answers(19), (vec![], Some(20)));
    // An old accusation is answered with a number that its believers can believe.
    assert_eq!(answers(1), (vec![9], None));
}

#[test]
fn a_new_life_is_announced() {
    let mut bed = Bed::new(Planted::NONE);
    for _ in 0..3 {
        bed.heard(2);
        bed.beat();
    }
    bed.sent_rumours();
    assert!(bed.detector.on_link_up(1, 11, &mut bed.out));
    let answer = Rumour {
        is_up: true,
        ..accusation(1, 11, 0)
    };
    assert_eq!(bed.sent_rumours()[&2], [answer]);
}

#[test]
fn more_rumours_than_a_message_may_hold_are_not_read() {
    let mut bed = Bed::new(Planted::NONE);
    let incredible = (0..MAX_RUMOURS as u32 - 1).map(|of| accusation(100, 1, 100 + of));
    let told = [101, 102].map(|peer| accusation(peer, 1, 0));
    let flood = incredible.chain(told).collect();
    let verdicts = bed.hear(1, Message::Rumours(flood));
    assert_eq!(verdicts, [(101, Verdict::ToldDown)]);
}

#[test]
#[cfg(feature = "planted")]
fn planted_dropped_refutation_goes_red() {
    let mut bed = Bed::new(Planted::new(Bug::DroppedRefutation));
    bed.rumour(1, 0, 5);
    assert!(bed.sent_rumours().is_empty());
}

#[test]
#[cfg(feature = "planted")]
fn planted_verdict_without_probe_goes_red() {
    let mut bed = Bed::new(Planted::new(Bug::VerdictWithoutProbe));
    bed.heard(2);
    assert!(bed.beat().contains(&(1, Verdict::Down)));
}

/// The accusation was once taken for one of an earlier life, so that all nodes with a link to the
/// dead peer spread that it is up.
#[test]
fn an_accusation_of_an_unknown_life_is_about_the_linked_one() {
    let mut bed = Bed::new(Planted::NONE);
    assert!(bed.rumour(2, 3, 0).is_empty());
    assert_eq!(bed.sent(), [(3, Message::Ping { asker: None })]);
    assert_eq!(bed.sent_rumours()[&2], [accusation(3, 10, 0)]);
    bed.judge();
    assert_eq!(bed.judge(), [(3, Verdict::Down)]);
    assert!(bed.sent_rumours().is_empty(), "nobody says that it is up");
}

#[test]
fn after_an_accusation_of_an_unknown_life_one_of_a_known_life_is_no_news() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(bed.rumour(2, 9, 0), [(9, Verdict::ToldDown)]);
    assert_eq!(bed.rumour(3, 9, 4), []);
    // The accused answers for its present life.
    let answer = Rumour {
        is_up: true,
        ..accusation(9, 4, 0)
    };
    let verdicts = bed.hear(3, Message::Rumours(vec![answer]));
    assert_eq!(verdicts, [(9, Verdict::Up)]);
}

#[test]
fn a_peer_with_a_new_link_hears_which_peers_are_down_and_for_how_long_yet() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 9, 4);
    let life = bed.detector.rumours.standing().next().unwrap().1;
    bed.sent_rumours();
    bed.beat();
    bed.sent();
    bed.detector.on_link_up(7, 70, &mut bed.out);
    let told = Message::Standing(vec![(accusation(9, 4, 0), life - 1)]);
    assert_eq!(bed.sent(), [(7, told)]);
}

/// Otherwise nodes that start one after the other would keep an accusation for ever.
#[test]
fn a_standing_accusation_is_not_passed_on_and_lasts_no_longer_than_its_sender_says() {
    let mut bed = Bed::new(Planted::NONE);
    let said = Message::Standing(vec![(accusation(9, 4, 0), 2)]);
    assert_eq!(bed.hear(2, said.clone()), [(9, Verdict::ToldDown)]);
    assert!(bed.sent_rumours().is_empty());
    assert_eq!(bed.hear(3, said), []);
    bed.beat();
    assert!(bed.detector.is_down(9));
    assert!(bed.beat().contains(&(9, Verdict::Expired)));
}

#[test]
fn a_standing_accusation_of_a_peer_that_was_called_up_lasts_no_longer_either() {
    let mut bed = Bed::new(Planted::NONE);
    let up = Rumour {
        is_up: true,
        ..accusation(9, 4, 1)
    };
    bed.hear(3, Message::Rumours(vec![up]));
    bed.sent_rumours();
    let said = Message::Standing(vec![(accusation(9, 4, 1), 2)]);
    assert_eq!(bed.hear(2, said), [(9, Verdict::ToldDown)]);
    assert!(bed.sent_rumours().is_empty());
    bed.beat();
    assert!(bed.beat().contains(&(9, Verdict::Expired)));
}
