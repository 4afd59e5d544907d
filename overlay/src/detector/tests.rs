//! The rules of the detector, tested on the detector alone.

mod goodbyes;
mod rumours;

use super::silence::HELPERS;
use super::*;
use crate::outbox::Effect;

/// The detector of node 0, with links to 1, 2 and 3, which watches 1 and 2.
struct Bed {
    detector: Detector<u32>,
    out: Out<u32>,
    boots: BTreeMap<u32, u64>,
    claimed: BTreeSet<u32>,
    /// The peers that probably have a link to any suspect.
    linked_to: [Option<u32>; HELPERS],
}

impl Bed {
    fn new(planted: Planted) -> Self {
        let mut config = Config::new(0, 5, 1);
        config.planted = planted;
        let mut detector = Detector::new(&config);
        detector.watch(&[1, 2].into());
        Self {
            detector,
            out: Out::new(),
            boots: [1, 2, 3].map(|id| (id, 10)).into(),
            claimed: [1, 2, 3].into(),
            linked_to: [None; HELPERS],
        }
    }

    fn beat(&mut self) -> Vec<(u32, Verdict)> {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        let mut verdicts = self.detector.on_beat(&links, &mut self.out);
        verdicts.extend(self.half_beat());
        verdicts.extend(self.half_beat());
        verdicts
    }

    /// `peer` is silent until this node takes it for down, and the link to it ends.
    fn find_down(&mut self, peer: u32) {
        for _ in 0..3 {
            self.heard(2);
            self.beat();
        }
        assert!(self.detector.is_down(peer));
        self.boots.remove(&peer);
        self.claimed.remove(&peer);
    }

    fn pause(&mut self) {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        self.detector.forgive(&links, &mut self.out);
    }

    fn half_beat(&mut self) -> Vec<(u32, Verdict)> {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        self.detector
            .on_half_beat(&links, |_| self.linked_to, &mut self.out)
    }

    /// `count` times [`REMIND`] beats, in which all watched peers are heard.
    fn rounds_of_reminders(&mut self, count: u32) {
        for _ in 0..count * REMIND {
            self.beat();
            self.heard(1);
            self.heard(2);
        }
    }

    fn heard(&mut self, peer: u32) -> bool {
        self.detector.on_heard(peer, &mut self.out)
    }

    fn hear(&mut self, from: u32, message: Message<u32>) -> Vec<(u32, Verdict)> {
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        self.detector
            .on_message(from, message, &links, &mut self.out)
    }

    fn rumour(&mut self, from: u32, peer: u32, boot: u64) -> Vec<(u32, Verdict)> {
        self.hear(from, Message::Rumours(vec![accusation(peer, boot, 0)]))
    }

    fn judge(&mut self) -> Vec<(u32, Verdict)> {
        self.detector.on_judge_timer(true, &mut self.out)
    }

    /// The rumours that each peer is told when the wait for more is over.
    fn sent_rumours(&mut self) -> BTreeMap<u32, Vec<Rumour<u32>>> {
        self.sent();
        let links = Links {
            boots: &self.boots,
            claimed: &self.claimed,
        };
        self.detector.on_share_timer(&links, &mut self.out);
        let told = self
            .sent()
            .into_iter()
            .filter_map(|(to, message)| match message {
                Message::Rumours(rumours) => Some((to, rumours)),
                _ => None,
            });
        told.collect()
    }

    fn sent(&mut self) -> Vec<(u32, Message<u32>)> {
        let sends = self.out.drain().filter_map(|effect| match effect {
            Effect::Send {
                to,
                message: crate::Message::Detector(message),
            } => Some((to, message)),
            _ => None,
        });
        sends.collect()
    }
}

fn accusation(peer: u32, boot: u64, incarnation: u32) -> Rumour<u32> {
    Rumour {
        peer,
        boot,
        incarnation,
        mark: None,
        is_up: false,
    }
}

#[test]
fn silence_is_confirmed_through_others_before_a_verdict() {
    let mut bed = Bed::new(Planted::NONE);
    let mut verdicts = Vec::new();
    for beat in 1..=3 {
        bed.heard(2);
        verdicts.extend(bed.beat());
        assert_eq!(bed.detector.is_suspect(1), beat == 2, "beat {beat}");
        let in_time = beat < 3 && verdicts.is_empty();
        assert!(in_time || beat == 3);
    }
    assert_eq!(verdicts, [(1, Verdict::Down)]);
    assert!(bed.detector.is_down(1));
    let expected = [
        (1, Message::Ping { asker: None }),
        (2, Message::PingFor(1)),
        (3, Message::PingFor(1)),
    ];
    assert_eq!(bed.sent(), expected);
}

#[test]
fn an_answer_through_another_clears_the_suspect() {
    let mut bed = Bed::new(Planted::NONE);
    for _ in 0..2 {
        bed.heard(2);
        assert!(bed.beat().is_empty());
    }
    bed.hear(2, Message::Alive(1));
    assert!(bed.beat().is_empty());
    assert!(!bed.detector.is_suspect(1));
}

#[test]
fn a_peer_that_is_heard_of_only_through_others_is_cut_in_the_end() {
    let mut bed = Bed::new(Planted::NONE);
    for beat in 1..=6 {
        bed.heard(2);
        let verdicts = bed.beat();
        let expected: &[_] = if beat == 6 { &[(1, Verdict::Cut)] } else { &[] };
        assert_eq!(verdicts, expected, "beat {beat}");
        bed.hear(2, Message::Alive(1));
    }
    assert!(!bed.detector.is_down(1));
}

#[test]
fn carried_words_keep_nobody_from_being_cut() {
    let mut bed = Bed::new(Planted::NONE);
    for beat in 1..=6 {
        bed.heard(2);
        bed.detector.on_carried(1);
        let verdicts = bed.beat();
        let expected: &[_] = if beat == 6 { &[(1, Verdict::Cut)] } else { &[] };
        assert_eq!(verdicts, expected, "beat {beat}");
    }
    assert!(!bed.detector.is_down(1) && bed.sent().is_empty());
}

#[test]
fn a_broken_link_only_hastens_suspicion() {
    let mut bed = Bed::new(Planted::NONE);
    bed.detector.on_link_down(1);
    assert!(bed.half_beat().is_empty());
    assert!(bed.detector.is_suspect(1) && !bed.detector.is_suspect(2));
}

#[test]
fn after_a_pause_of_its_own_a_node_condemns_nobody() {
    let mut bed = Bed::new(Planted::NONE);
    bed.beat();
    bed.beat();
    bed.rumour(2, 3, 10);
    bed.judge();
    bed.pause();
    assert!(bed.beat().is_empty() && bed.judge().is_empty());
}

#[test]
fn a_transport_that_answers_for_an_accused_process_does_not_clear_it() {
    let mut bed = Bed::new(Planted::NONE);
    for _ in 0..4 {
        bed.half_beat();
        bed.detector.on_acknowledged(1);
    }
    assert!(!bed.detector.is_suspect(1) && bed.detector.is_suspect(2));
    // The loop of peer 1 hangs: others do not hear it.
    bed.rumour(3, 1, 10);
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        bed.detector.on_acknowledged(1);
        verdicts.extend(bed.judge());
    }
    assert_eq!(verdicts, [(1, Verdict::Down)]);
    bed.detector.on_acknowledged(1);
    assert!(bed.detector.is_down(1));
}

#[test]
fn after_a_pause_of_its_own_a_node_asks_what_it_missed() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 9, 10);
    bed.sent();
    bed.pause();
    let is_doubt = |(_, message): &(u32, Message<u32>)| matches!(message, Message::Doubts(doubts) if doubts[0].peer == 9);
    assert!(bed.sent().iter().any(is_doubt));
}

#[test]
fn after_a_pause_of_its_own_one_word_undoes_a_verdict_of_the_nodes_own() {
    let mut bed = Bed::new(Planted::NONE);
    bed.find_down(1);
    let answer = Message::Rumours(vec![Rumour {
        incarnation: 1,
        is_up: true,
        ..accusation(1, 10, 0)
    }]);
    assert_eq!(bed.hear(2, answer.clone()), [(1, Verdict::Denied)]);
    assert!(
        bed.detector.is_down(1),
        "it was witnessed, and hearsay does not undo it"
    );
    bed.sent();
    bed.pause();
    let is_doubt = |(_, message): &(u32, Message<u32>)| matches!(message, Message::Doubts(doubts) if doubts[0].peer == 1);
    assert!(bed.sent().iter().any(is_doubt));
    assert_eq!(bed.hear(2, answer), [(1, Verdict::Up)]);
}

#[test]
fn one_beat_that_is_late_by_an_eighth_makes_nobody_suspect() {
    let mut bed = Bed::new(Planted::NONE);
    // Peer 1 is heard just before one look, and again a beat and an eighth later, just after
    // another: at most three looks lie in between.
    for _ in 0..3 {
        bed.half_beat();
    }
    assert!(!bed.detector.is_suspect(1) && bed.sent().is_empty());
}

#[test]
fn a_peer_that_owes_an_answer_is_suspected_at_the_next_look() {
    let mut bed = Bed::new(Planted::NONE);
    // The peer answered the last beat just after it was sent.
    bed.half_beat();
    bed.half_beat();
    bed.detector.await_acknowledgement([1].into_iter());
    let mut answered = Bed::new(Planted::NONE);
    answered.detector = bed.detector.clone();
    bed.heard(2);
    assert!(bed.half_beat().is_empty());
    assert!(bed.detector.is_suspect(1) && !bed.detector.is_suspect(2));
    assert!(!bed.sent().is_empty(), "it is asked before it is condemned");
    bed.heard(2);
    assert!(
        bed.half_beat().is_empty(),
        "it has a whole beat to answer in"
    );
    assert_eq!(bed.half_beat(), [(1, Verdict::Down)]);
    answered.detector.on_acknowledged(1);
    for _ in 0..3 {
        answered.half_beat();
    }
    assert!(!answered.detector.is_suspect(1));
}

#[test]
fn a_look_that_can_wait_finds_nobody() {
    let mut noise = Noise::new(11);
    let mut waited = 0;
    for step in 0..20_000 {
        let mut bed = Bed::new(Planted::NONE);
        for _ in 0..noise.next() % 9 {
            let peer = 1 + noise.next() as u32 % 3;
            match noise.next() % 8 {
                0 => drop(bed.heard(peer)),
                1 => bed.detector.on_acknowledged(peer),
                2 => bed.detector.await_acknowledgement([peer].into_iter()),
                3 => bed.detector.on_link_down(peer),
                4 => bed.detector.on_carried(peer),
                5 => drop(bed.rumour(2, 5 + peer, 10)),
                _ => drop(bed.half_beat()),
            }
        }
        if !bed.detector.look_can_wait() {
            continue;
        }
        waited += 1;
        bed.sent();
        assert_eq!((bed.half_beat(), bed.sent()), (vec![], vec![]), "{step}");
        let suspects = (1..=3).filter(|peer| bed.detector.is_suspect(*peer));
        assert_eq!(suspects.count(), 0, "{step}");
    }
    assert!(waited > 2_000, "{waited}");
}

#[test]
fn a_look_cannot_wait_while_a_peer_owes_an_answer_or_is_nearly_suspected() {
    let mut bed = Bed::new(Planted::NONE);
    assert!(bed.detector.look_can_wait());
    bed.detector.await_acknowledgement([1].into_iter());
    assert!(bed.detector.awaits_acknowledgement() && !bed.detector.look_can_wait());
    bed.detector.on_acknowledged(1);
    assert!(!bed.detector.awaits_acknowledgement() && bed.detector.look_can_wait());
    for _ in 0..3 {
        bed.half_beat();
        bed.heard(2);
    }
    assert!(!bed.detector.look_can_wait(), "the next would suspect 1");
    bed.half_beat();
    assert!(
        !bed.detector.look_can_wait(),
        "and the one after condemn it"
    );
}

#[test]
fn two_deaths_make_a_node_ask_all_its_links() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 7, 10);
    assert_eq!(bed.sent(), [], "one is its neighbours' affair");
    bed.rumour(2, 8, 10);
    let pings = [1, 2, 3].map(|id| (id, Message::Ping { asker: None }));
    assert_eq!(bed.sent(), pings);
    // 3 is no neighbour of this node: only the alarm finds it dead.
    bed.detector.watch(&[1, 2].into());
    bed.heard(1);
    bed.heard(2);
    assert!(bed.half_beat().is_empty() && bed.detector.is_suspect(3));
    assert_eq!(bed.half_beat(), [(3, Verdict::Down)]);
}

#[test]
fn in_an_alarm_an_accused_peer_that_has_not_answered_is_down_at_once() {
    for looks in [0, 1] {
        let mut bed = Bed::new(Planted::NONE);
        bed.rumour(2, 7, 10);
        bed.rumour(2, 8, 10);
        bed.heard(1);
        for _ in 0..looks {
            bed.half_beat();
        }
        assert_eq!(bed.rumour(2, 1, 10), [], "this node has just heard it");
        let expected: &[_] = match looks {
            0 => &[],
            _ => &[(3, Verdict::Down)],
        };
        assert_eq!(bed.rumour(2, 3, 10), expected, "after {looks} looks");
    }
}

#[test]
fn a_peer_that_answers_an_alarm_is_watched_no_longer() {
    let mut bed = Bed::new(Planted::NONE);
    bed.rumour(2, 7, 10);
    bed.rumour(2, 8, 10);
    for id in [1, 2, 3] {
        bed.heard(id);
    }
    for _ in 0..9 {
        bed.heard(1);
        bed.heard(2);
        assert!(bed.half_beat().is_empty());
    }
    assert!(!bed.detector.is_suspect(3));
}

#[test]
fn alarms_are_rare_even_under_accusations_without_end() {
    let mut bed = Bed::new(Planted::NONE);
    let mut alarms = 0;
    for peer in 0..100 {
        bed.rumour(2, 100 + peer, 10);
        let is_ping = |(to, message): &(u32, Message<u32>)| {
            *to == 3 && *message == Message::Ping { asker: None }
        };
        alarms += u32::from(bed.sent().iter().any(is_ping));
        if peer % 10 == 9 {
            for id in [1, 2, 3] {
                bed.heard(id);
            }
            bed.beat();
        }
    }
    assert_eq!(alarms, 10_u32.div_ceil(CALM));
}

#[test]
fn a_node_with_a_link_to_the_suspect_is_asked_first() {
    let mut bed = Bed::new(Planted::NONE);
    bed.linked_to = [None, Some(3)];
    for _ in 0..2 {
        bed.heard(2);
        bed.beat();
    }
    let expected = [
        (1, Message::Ping { asker: None }),
        (3, Message::PingFor(1)),
        (2, Message::PingFor(1)),
    ];
    assert_eq!(bed.sent(), expected);
}

#[test]
fn a_question_for_another_returns_by_the_same_way() {
    let mut bed = Bed::new(Planted::NONE);
    bed.hear(9, Message::PingFor(4));
    bed.hear(9, Message::Ping { asker: Some(8) });
    bed.hear(4, Message::Pong { asker: Some(9) });
    let expected = [
        (4, Message::Ping { asker: Some(9) }),
        (9, Message::Pong { asker: Some(8) }),
        (9, Message::Alive(4)),
    ];
    assert_eq!(bed.sent(), expected);
}
