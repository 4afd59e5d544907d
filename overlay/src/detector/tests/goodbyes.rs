//! Goodbyes at the detector of node 0, with links to the lives 10 of 1, 2 and 3.

use super::*;

fn goodbye(peer: u32, boot: u64) -> Goodbye<u32> {
    let proof = vec![9];
    Goodbye { peer, boot, proof }
}

fn said(bed: &mut Bed, from: u32, peer: u32, boot: u64) -> Vec<(u32, Verdict)> {
    bed.hear(from, Message::Goodbye(goodbye(peer, boot)))
}

/// To whom goodbyes were sent, and whose.
fn sent(bed: &mut Bed) -> Vec<(u32, u32)> {
    let all = bed.sent().into_iter();
    let goodbyes = all.filter_map(|(to, message)| match message {
        Message::Goodbye(goodbye) => Some((to, goodbye.peer)),
        _ => None,
    });
    goodbyes.collect()
}

/// Share what is new, and say to whom goodbyes were sent.
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
    assert!(bed.told().is_empty(), "no rumour goes round");
    // It does not expire, as a rumour would.
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
    // The link is of a later life.
    assert_eq!(said(&mut bed, 2, 1, 9), []);
    assert_eq!(said(&mut bed, 2, 1, 10), [(1, Verdict::Left(10))]);
    // The same life is seen once more, as it was dialled; then the next one comes.
    assert!(!bed.detector.on_link_up(1, 10, &mut bed.out));
    assert!(bed.detector.has_left(1));
    assert!(bed.detector.on_link_up(1, 11, &mut bed.out));
    assert!(!bed.detector.is_down(1));
    bed.boots.insert(1, 11);
    assert_eq!(said(&mut bed, 2, 1, 10), [], "an old one, once more");
    // Without a link: word of a later life ends it, of an earlier one does not.
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
    // A living member whose goodbye is corrupted is heard in the end.
    (0..20).for_each(|_| _ = bed.beat());
    assert!(bed.heard(1) && !bed.detector.is_down(1));
    // Without a link to that life what comes is from another one.
    said(&mut bed, 2, 7, 3);
    assert!(bed.heard(7) && !bed.detector.is_down(7));
}

#[test]
fn who_missed_a_goodbye_is_told() {
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

/// The other way round: a rumour that came first is outdone.
#[test]
fn a_goodbye_outdoes_a_rumour() {
    let mut bed = Bed::new(Planted::NONE);
    assert_eq!(bed.rumour(2, 7, 3), [(7, Verdict::ToldDown)]);
    assert_eq!(said(&mut bed, 1, 7, 3), [(7, Verdict::Left(3))]);
    let down: Vec<u32> = bed.detector.down().collect();
    assert_eq!(down, [7]);
    // A later life that is down was not the one that left.
    let verdicts = bed.rumour(2, 7, 4);
    assert_eq!(verdicts, [(7, Verdict::ToldDown)]);
    assert!(bed.detector.is_down(7) && !bed.detector.has_left(7));
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
