//! Which rumours a node believes.

use super::*;
use crate::message::detector::union;

const LIFE: u32 = 10;

fn says(is_up: bool, boot: u64, incarnation: u32) -> Rumour<u32> {
    Rumour {
        peer: 7,
        boot,
        incarnation,
        mark: None,
        is_up,
    }
}

#[test]
fn the_next_life_of_a_dead_link_is_believed() {
    let mut rumours = Rumours::new(LIFE);
    let link = Some(4);
    assert_eq!(
        rumours.hear(says(true, 5, 0), link, false),
        News::Stale,
        "the link lives"
    );
    assert_eq!(rumours.hear(says(false, 4, 0), link, false), News::Accused);
    assert!(rumours.witness(7) && rumours.is_down(7));
    assert_eq!(rumours.hear(says(true, 3, 0), link, false), News::Stale);
    assert_eq!(rumours.hear(says(true, 5, 0), link, false), News::Cleared);
    assert!(!rumours.witness(7) && !rumours.is_down(7));
}

#[test]
fn an_answer_outdoes_its_accusation_and_is_outdone_by_the_next() {
    let mut rumours = Rumours::new(LIFE);
    let story = [
        (says(false, 1, 0), News::Accused),
        (says(false, 1, 0), News::Stale),
        (says(true, 1, 0), News::Stale),
        (says(true, 1, 1), News::Cleared),
        (says(false, 1, 0), News::Stale),
        (says(false, 1, 1), News::Accused),
        (says(true, 2, 0), News::Cleared),
        (says(false, 1, 5), News::Stale),
    ];
    for (step, (rumour, expected)) in story.into_iter().enumerate() {
        assert_eq!(rumours.hear(rumour, None, false), expected, "step {step}");
    }
    assert!(!rumours.is_down(7));
}

#[test]
fn no_number_is_unbeatable() {
    let mut rumours = Rumours::new(LIFE);
    assert_eq!(
        rumours.hear(says(false, 1, u32::MAX), None, false),
        News::Stale
    );
    assert_eq!(
        rumours.hear(says(true, 1, MAX_AHEAD + 2), None, false),
        News::Stale
    );
    assert_eq!(
        rumours.hear(says(false, 1, MAX_AHEAD), None, false),
        News::Accused
    );
    assert_eq!(
        rumours.hear(says(true, 1, MAX_AHEAD + 1), None, false),
        News::Cleared
    );
}

#[test]
fn a_link_is_asked_before_it_is_believed_to_be_down() {
    let mut rumours = Rumours::new(LIFE);
    assert_eq!(rumours.hear(says(false, 3, 0), Some(4), false), News::Stale);
    assert_eq!(
        rumours.hear(says(false, 4, 0), Some(4), false),
        News::Accused
    );
    assert!(!rumours.is_down(7), "it may yet answer");
    rumours.witness(7);
    assert!(rumours.is_down(7));
    // Other nodes reach the peer; this node does not.
    for news in [News::Denied, News::Stale] {
        assert_eq!(rumours.hear(says(true, 4, 1), Some(4), false), news);
        assert!(rumours.is_down(7));
    }
    rumours.on_beat();
    assert_eq!(rumours.hear(says(true, 4, 1), Some(4), false), News::Denied);
    assert_eq!(rumours.contradict(7), Some(says(false, 4, 0)));
    assert!(!rumours.is_down(7) && rumours.contradict(7).is_none());
    // A repeated accusation is asked about again, but not passed on again.
    rumours.tell();
    assert_eq!(
        rumours.hear(says(false, 4, 0), Some(4), false),
        News::Accused
    );
    assert!(!rumours.is_down(7) && !rumours.has_untold());
}

#[test]
fn rumours_are_told_once_and_yellow() {
    let mut rumours = Rumours::new(LIFE);
    rumours.accuse(7, 1, None);
    assert!(rumours.has_untold());
    assert_eq!(rumours.tell().len(), 1);
    assert!(!rumours.has_untold() && rumours.tell().is_empty());
    let yellowed: Vec<u32> = (0..LIFE).flat_map(|_| rumours.on_beat()).collect();
    assert_eq!(yellowed, [7]);
    assert!(!rumours.is_down(7));
}

#[test]
fn of_batches_that_wait_as_one_the_oldest_rumours_go() {
    let batch = |peers: std::ops::Range<u32>| -> Vec<_> {
        let of = |peer| Rumour {
            peer,
            ..says(false, 1, 0)
        };
        peers.map(of).collect()
    };
    let most = MAX_RUMOURS as u32;
    assert_eq!(union(batch(0..3), batch(2..5)), (batch(0..5), 0));
    let both = union(batch(0..most), batch(most..most + 2));
    assert_eq!(both, (batch(2..most + 2), 2));
}

#[test]
fn when_full_the_oldest_goes_and_a_flood_is_cut_off() {
    let mut rumours = Rumours::new(LIFE);
    for peer in 0..3 * MAX_RUMOURS as u32 {
        let rumour = Rumour {
            peer,
            ..says(false, 1, 0)
        };
        let news = rumours.hear(rumour, None, false);
        let is_cut_off = peer >= MAX_PER_BEAT;
        assert_eq!(news == News::Stale, is_cut_off, "{peer}");
    }
    for peer in 1000..1000 + 2 * MAX_RUMOURS as u32 {
        rumours.accuse(peer, 1, None);
    }
    assert_eq!(rumours.entries.len(), MAX_RUMOURS);
}

#[test]
fn of_many_denials_some_count_in_each_beat_and_all_in_their_turn() {
    let mut rumours = Rumours::new(LIFE);
    let says = |is_up, peer| Rumour {
        peer,
        incarnation: u32::from(is_up),
        ..says(is_up, 4, 0)
    };
    let all = 0..3 * MAX_DENIED;
    for peer in all.clone() {
        rumours.accuse(peer, 4, None);
    }
    let mut counted = Vec::new();
    for _ in 0..3 {
        let before = counted.len();
        for peer in all.clone() {
            if rumours.hear(says(true, peer), None, false) == News::Denied {
                counted.push(peer);
            }
        }
        assert_eq!(counted.len() - before, MAX_DENIED as usize);
        rumours.on_beat();
    }
    assert_eq!(counted, all.collect::<Vec<_>>());
}
