//! Goodbyes at the detector of node 0, whose links lead to life 10 of each of 1, 2 and 3.

use super::*;

fn goodbye(peer: u32, boot: u64) -> Goodbye<u32> {
    let proof = vec![9];
    Goodbye { peer, boot, proof }
}

fn said(bed: &mut Bed, from: u32, peer: u32, boot: u64) -> Vec<(u32, Verdict)> {
    bed.hear(from, Message::Goodbye(goodbye(peer, boot)))
}

/// The receivers of goodbyes, each with the peer that the goodbye is about.
fn sent(bed: &mut Bed) -> Vec<(u32, u32)> {
    let all = bed.sent().into_iter();
    let goodbyes = all.filter_map(|(to, message)| match message {
        Message::Goodbye(goodbye) => Some((to, goodbye.peer)),
        _ => None,
    });
    goodbyes.collect()
}

/// Share what is new. Returns the receivers of goodbyes, as [`sent`] does.
fn shared(bed: &mut Bed) -> Vec<(u32, u32)> {
    bed.sent();
    let links = Links {
        boots: &bed.boots,
        claimed: &bed.claimed,
    };
    bed.detector.on_share_timer(&links, &mut bed.out);
    sent(bed)
}

#[test]
fn a_goodbye_is_passed_on_once_and_is_no_accusation() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(said(&mut bed, 1, 7, 3), [(7, Verdict::Left(3))]);
    assert!(bed.detector.is_down(7) && bed.detector.has_left(7));
    assert_eq!(shared(&mut bed), [(1, 7), (2, 7), (3, 7)]);
    assert_eq!(said(&mut bed, 2, 7, 3), []);
    assert_eq!(shared(&mut bed), []);
    assert!(bed.sent_rumours().is_empty(), "no rumour goes round");
    // A goodbye does not expire as soon as a rumour would.
    let rumour = life_of_rumours(&bed.detector.pace);
    for _ in 0..2 * rumour {
        bed.beat();
        (1..4).for_each(|peer| _ = bed.heard(peer));
    }
    assert!(bed.detector.has_left(7));
}

#[test]
fn a_goodbye_counts_for_its_life_alone() {
    let mut bed = Bed::new(Planted::NONE);
    // The link is to a later life.
    assert_eq!(said(&mut bed, 2, 1, 9), []);
    assert_eq!(said(&mut bed, 2, 1, 10), [(1, Verdict::Left(10))]);
    // A link to the life that left comes up once more, as it was dialled before; then one to the
    // next life.
    assert!(!bed.detector.on_link_up(1, 10, &mut bed.out));
    assert!(bed.detector.has_left(1));
    assert!(bed.detector.on_link_up(1, 11, &mut bed.out));
    assert!(!bed.detector.is_down(1));
    bed.boots.insert(1, 11);
    assert_eq!(said(&mut bed, 2, 1, 10), [], "an old one, once more");
    // Without a link: word of a later life ends the goodbye, word of the same life or an earlier
    // one does not.
    said(&mut bed, 2, 7, 3);
    bed.beat();
    let is_up = |boot| Rumour {
        is_up: true,
        ..accusation(7, boot, 0)
    };
    for boot in [2, 3] {
        assert_eq!(bed.hear(2, Message::Rumours(vec![is_up(boot)])), []);
        assert!(bed.detector.has_left(7));
    }
    let back = bed.hear(2, Message::Rumours(vec![is_up(4)]));
    assert_eq!(back, [(7, Verdict::Up)]);
    assert_eq!(said(&mut bed, 3, 7, 3), [], "a later life is known");
}

#[test]
fn late_words_bring_nobody_back() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 2, 1, 10);
    assert!(bed.detector.is_late(1) && !bed.heard(1));
    assert!(bed.detector.has_left(1));
    // After some beats its messages count again: a corrupted goodbye keeps no live member out.
    (0..20).for_each(|_| _ = bed.beat());
    assert!(bed.heard(1) && !bed.detector.is_down(1));
    // Without a link to the life that left, a message comes from another life.
    said(&mut bed, 2, 7, 3);
    assert!(bed.heard(7) && !bed.detector.is_down(7));
}

#[test]
fn late_words_bring_nobody_back_over_a_link_whose_life_is_unknown() {
    let mut bed = Bed::new(Planted::NONE);
    bed.boots.remove(&1);
    // Another node tells the goodbye first.
    said(&mut bed, 2, 1, 10);
    assert!(bed.detector.is_late(1) && !bed.heard(1));
    assert!(bed.detector.has_left(1));
}

#[test]
fn a_peer_that_missed_a_goodbye_is_told() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 1, 7, 3);
    shared(&mut bed);
    bed.detector.on_link_up(4, 1, &mut bed.out);
    assert_eq!(sent(&mut bed), [(4, 7)], "a new link");
    bed.rumour(2, 7, 3);
    assert_eq!(sent(&mut bed), [(2, 7)], "who calls it down");
    bed.rumour(2, 7, 3);
    assert_eq!(sent(&mut bed), [], "once per beat");
    bed.hear(3, Message::Doubts(vec![accusation(7, 3, 0)]));
    assert_eq!(sent(&mut bed), [(3, 7)], "who doubts");
    assert!(bed.detector.has_left(7));
}

/// The rumour is about the same life, and comes before the goodbye.
#[test]
fn a_goodbye_outdoes_a_rumour() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(bed.rumour(2, 7, 3), [(7, Verdict::ToldDown)]);
    assert_eq!(said(&mut bed, 1, 7, 3), [(7, Verdict::Left(3))]);
    let down: Vec<u32> = bed.detector.down().collect();
    assert_eq!(down, [7]);
}

#[test]
fn a_node_that_leaves_tells_all_its_links() {
    let mut bed = Bed::new(Planted::NONE);
    let links = Links {
        boots: &bed.boots,
        claimed: &bed.claimed,
    };
    bed.detector.leave(&[1], &links, &mut bed.out);
    assert_eq!(sent(&mut bed), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(said(&mut bed, 1, 0, 5), [], "it knows");
}

/// The signature of an old goodbye stays valid: anybody may repeat it, and no node may believe it.
#[test]
fn an_outdated_goodbye_is_answered_with_the_later_life() {
    let mut bed = Bed::new(Planted::NONE);
    for (peer, life) in [(0, 5), (1, 10)] {
        assert_eq!(said(&mut bed, 2, peer, life - 1), []);
        let told = bed.sent_rumours();
        let answers = told.values().flatten();
        let mut answers = answers.filter(|rumour| rumour.peer == peer);
        assert!(answers.any(|rumour| rumour.is_up && rumour.boot == life));
        assert!(!bed.detector.has_left(peer));
    }
}

/// A node that joins sends the goodbyes that it knows over its first links. A peer tells it of a
/// member's return, even without a link to that member.
#[test]
fn a_goodbye_is_answered_with_the_peers_return_even_by_hearsay() {
    let mut bed = Bed::new(Planted::NONE);
    let next = Rumour {
        is_up: true,
        ..accusation(7, 4, 0)
    };
    bed.hear(2, Message::Rumours(vec![next]));
    bed.sent();
    assert_eq!(said(&mut bed, 3, 7, 3), []);
    assert!(!bed.detector.has_left(7));
    let sent = bed.sent();
    assert!(
        sent.contains(&(3, Message::Rumours(vec![next]))),
        "{sent:?}"
    );
}

/// A node that missed the return of a member hears of it from its neighbours.
#[test]
fn goodbyes_are_asked_about_and_expire() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 1, 7, 3);
    bed.sent();
    let (mut asked, mut forgotten) = (false, false);
    for _ in 0..=life_of_goodbyes(&Pace::default()) {
        let verdicts = bed.beat();
        forgotten |= verdicts.contains(&(7, Verdict::Forgotten));
        asked |= bed.sent().iter().any(|(_, message)| {
            matches!(message, Message::Doubts(doubts) if doubts.contains(&accusation(7, 3, 0)))
        });
        assert_ne!(bed.detector.has_left(7), forgotten);
    }
    assert!(asked && forgotten);
}

/// The goodbye came over another link, before the link to the life that left was up.
#[test]
fn words_over_a_link_that_came_after_the_goodbye_are_late() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(said(&mut bed, 2, 7, 3), [(7, Verdict::Left(3))]);
    assert!(!bed.detector.on_link_up(7, 3, &mut bed.out));
    assert!(!bed.heard(7) && bed.detector.has_left(7));
}

/// The goodbye ends even if the link to the life that left is still among the links of this node.
#[test]
fn word_of_the_next_life_ends_the_goodbye_of_a_linked_peer() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(said(&mut bed, 2, 1, 10), [(1, Verdict::Left(10))]);
    let next = Rumour {
        is_up: true,
        ..accusation(1, 11, 0)
    };
    let verdicts = bed.hear(3, Message::Rumours(vec![next]));
    assert_eq!(verdicts, [(1, Verdict::Up)]);
    assert!(!bed.detector.has_left(1));
}

/// The goodbye may have crossed with word of a return, on a link that was just made.
#[test]
fn a_new_goodbye_is_asked_about_at_the_next_two_beats() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 1, 7, 3);
    bed.sent();
    let mut asked = Vec::new();
    for _ in 0..4 {
        bed.beat();
        let sent = bed.sent().into_iter();
        let doubts = sent.filter(|(_, message)| matches!(message, Message::Doubts(_)));
        asked.push(doubts.map(|(to, _)| to).collect::<Vec<_>>());
    }
    let [first, second, none, again] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert!(first.len() == 1 && second.len() == 1, "{asked:?}");
    assert_ne!(first, second, "each time another neighbour");
    assert!(none.is_empty() && again.is_empty(), "{asked:?}");
}

#[test]
fn goodbyes_are_asked_about_again_in_a_new_epoch() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 1, 7, 3);
    let asks = |bed: &mut Bed| {
        (1..4).for_each(|peer| _ = bed.heard(peer));
        bed.sent();
        bed.beat();
        let sent = bed.sent().into_iter();
        sent.filter(|(_, message)| matches!(message, Message::Doubts(_)))
            .count()
    };
    assert_eq!([asks(&mut bed), asks(&mut bed), asks(&mut bed)], [1, 1, 0]);
    bed.detector.doubt_goodbyes();
    assert_eq!([asks(&mut bed), asks(&mut bed), asks(&mut bed)], [1, 1, 0]);
}

/// The peer's process may live: it has lost its state, and its clock is behind.
#[test]
fn a_peer_that_forgot_its_later_life_is_told_the_goodbye_of_that_life() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(said(&mut bed, 2, 1, 12), [(1, Verdict::Left(12))]);
    assert!(sent(&mut bed).contains(&(1, 1)), "at once over its link");
    said(&mut bed, 2, 7, 12);
    shared(&mut bed);
    assert!(bed.detector.on_link_up(7, 3, &mut bed.out));
    assert!(sent(&mut bed).contains(&(7, 7)), "as it links");
    assert!(!bed.detector.has_left(7));
}

/// An accusation of a member that has left does not prove another life of it.
#[test]
fn an_accusation_of_a_later_life_ends_no_goodbye() {
    let mut bed = Bed::new(Planted::NONE);
    said(&mut bed, 2, 7, 3);
    assert_eq!(bed.rumour(2, 7, u64::MAX), []);
    assert!(bed.detector.has_left(7));
}

#[test]
fn a_life_that_is_placed_again_announces_itself() {
    let mut bed = Bed::new(Planted::NONE);
    bed.detector.announce(&mut bed.out);
    let told = bed.sent_rumours();
    let is_up = |rumours: &Vec<Rumour<u32>>| {
        rumours
            .iter()
            .any(|rumour| rumour.peer == 0 && rumour.is_up)
    };
    assert!(told.len() == 3 && told.values().all(is_up));
}
