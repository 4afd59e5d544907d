use binomesh_overlay::Rank;

use super::*;
use crate::packet::{Exception, State};
use crate::relay::fixture::{ORIGIN, Surroundings, copy};

const NOTHING: Done<'_, u32> = Done {
    exceptions: &[],
    redelegated: 0,
    replaced: &[],
};

/// A node at rank 1 of five, with its custody and surroundings.
struct Node {
    custody: Custody<u32>,
    around: Surroundings,
}

impl Node {
    fn new(config: Config) -> Self {
        Self {
            custody: Custody::new(&config),
            around: Surroundings::of_rank(1, config),
        }
    }

    fn take(&mut self, from: u32, packet: &Packet<u32>) -> Result<(), CustodyRefusal> {
        let mut cx = self.around.context();
        let admission = self.custody.admit(from, packet, &mut cx)?;
        self.custody.take(from, packet, admission, &mut cx);
        Ok(())
    }

    fn done(&mut self, from: u32, errand: &Errand<u32>) -> Vec<Progress<u32>> {
        let mut cx = self.around.context();
        self.custody.on_done(from, errand, NOTHING, &mut cx);
        cx.progress
    }

    /// The copies sent since the last look: receivers and errands.
    fn copies(&mut self) -> Vec<(u32, Errand<u32>)> {
        let asked = self.around.asked();
        let copies = asked.copies().into_iter();
        copies
            .map(|(to, packet)| (to, packet.header.errand.clone()))
            .collect()
    }
}

fn all() -> Packet<u32> {
    copy(0, Span::new(1, 5))
}

/// The answers since the last look: the receiver of each, and whether it is done or custody.
fn answers(node: &mut Node) -> Vec<(u32, bool)> {
    let sent = node.around.asked().sent.into_iter();
    let answers = sent.filter_map(|(to, message)| match message {
        Message::Done { .. } => Some((to, true)),
        Message::Custody { .. } => Some((to, false)),
        _ => None,
    });
    answers.collect()
}

#[test]
fn a_second_copy_is_no_second_duty_and_both_givers_hear_that_it_is_done() {
    let mut node = Node::new(Config::default());
    node.take(ORIGIN, &all()).unwrap();
    let handed = node.copies();
    let given: u32 = (handed.iter())
        .flat_map(|(_, errand)| errand.part.spans())
        .map(|span| span.len())
        .sum();
    assert_eq!(given, 3, "all behind this node, and each once: {handed:?}");
    node.take(7, &all()).unwrap();
    assert_eq!(node.copies(), []);
    assert!(!node.custody.is_idle());
    for (to, errand) in &handed {
        assert_eq!(node.done(*to, errand), [], "it is no own message");
    }
    assert_eq!(answers(&mut node), [(7, true), (ORIGIN, true)]);
    assert!(node.custody.is_idle());
    node.take(7, &all()).unwrap();
    assert_eq!(answers(&mut node), [(7, true)], "its answer is remembered");
}

#[test]
fn without_room_a_part_is_refused_unless_it_is_for_this_node_alone() {
    let mut node = Node::new(Config {
        max_duties: 1,
        ..Config::default()
    });
    node.take(ORIGIN, &all()).unwrap();
    let second = copy(1, Span::new(1, 5));
    assert_eq!(node.take(ORIGIN, &second), Err(CustodyRefusal::Busy));
    node.around.asked();
    node.take(ORIGIN, &copy(2, Span::single(1))).unwrap();
    assert_eq!(answers(&mut node), [(ORIGIN, true)]);
}

#[test]
fn more_givers_than_the_bound_are_refused_and_a_known_one_is_not() {
    let mut node = Node::new(Config {
        max_waiters: 2,
        ..Config::default()
    });
    for giver in [ORIGIN, 7] {
        node.take(giver, &all()).unwrap();
    }
    assert_eq!(node.take(8, &all()), Err(CustodyRefusal::Busy));
    assert_eq!(node.take(7, &all()), Ok(()));
}

#[test]
fn of_finished_duties_the_oldest_beyond_the_bound_is_forgotten() {
    let mut node = Node::new(Config {
        max_finished: 2,
        ..Config::default()
    });
    for sequence in 0..3 {
        let packet = copy(sequence, Span::single(1));
        node.take(ORIGIN, &packet).unwrap();
    }
    node.around.asked();
    let mut knows = |sequence| {
        let errand = copy(sequence, Span::new(1, 2)).header.errand;
        let key = DutyKey::of_errand(ORIGIN, &errand, false);
        node.custody.duties.find(&key).is_some()
    };
    assert_eq!([0, 1, 2].map(&mut knows), [false, true, true]);
}

/// No member is lost: each part ends as delivered or as an exception.
#[test]
fn no_member_is_lost_whatever_a_delegate_refuses() {
    for reason in CustodyRefusal::ALL {
        let mut node = Node::new(Config::default());
        node.take(ORIGIN, &all()).unwrap();
        let mut told = None;
        // Each delegate refuses, and so does each that is asked in its place.
        for _ in 0..64 {
            let asked = node.around.asked();
            if asked.sent.is_empty() {
                break;
            }
            for (to, message) in asked.sent {
                let (errand, reason) = match message {
                    Message::Packet(packet) => (packet.header.errand, reason),
                    // An offer: the peer says that it has no copy.
                    Message::Inquire { errand, .. } => (errand, CustodyRefusal::Unknown),
                    Message::Done { exceptions, .. } => {
                        told = Some(exceptions);
                        continue;
                    }
                    _ => continue,
                };
                let mut cx = node.around.context();
                node.custody.on_refused(to, &errand, reason, &mut cx);
            }
        }
        let is_open = !node.custody.is_idle();
        let excepted = told.map(|told| {
            let spans = told.iter().map(|exception| exception.span);
            spans.collect::<Runs>().len()
        });
        // A delegate without room, or without a copy, keeps its part. All others are excepted.
        let keeps = matches!(reason, CustodyRefusal::Busy | CustodyRefusal::Unknown);
        assert_eq!(
            (is_open, excepted),
            if keeps {
                (true, None)
            } else {
                (false, Some(3))
            },
            "{reason:?}"
        );
    }
}

#[test]
fn a_lost_delegate_is_an_exception_and_its_heirs_get_the_rest() {
    let mut node = Node::new(Config::default());
    node.take(ORIGIN, &all()).unwrap();
    let handed = node.copies();
    let has_more =
        |(_, errand): &&(u32, Errand<u32>)| errand.part.spans().iter().any(|span| span.len() > 1);
    let (lost, _) = *handed.iter().find(has_more).unwrap();
    node.around
        .peers
        .call_down(lost, &node.around.config, &mut node.around.out);
    for number in node.custody.open_numbers() {
        let mut cx = node.around.context();
        node.custody.bypass(number, lost, Reason::Down, &mut cx);
    }
    let others = handed.iter().filter(|(to, _)| *to != lost).cloned();
    let mut open: Vec<(u32, Errand<u32>)> = others.collect();
    let mut excepted = Vec::new();
    while !node.custody.is_idle() {
        for (to, errand) in std::mem::take(&mut open) {
            node.done(to, &errand);
        }
        for (to, message) in node.around.asked().sent {
            match message {
                Message::Packet(packet) => open.push((to, packet.header.errand)),
                Message::Inquire { errand, .. } => open.push((to, errand)),
                Message::Done { exceptions, .. } => excepted = exceptions,
                _ => {}
            }
        }
    }
    let expected = Exception {
        span: Span::single(lost - ORIGIN),
        peer: Some(lost),
        state: State::Unconfirmed,
        reason: Reason::Down,
    };
    let told = node.around.asked().sent;
    let last = told.into_iter().find_map(|(_, message)| match message {
        Message::Done { exceptions, .. } => Some(exceptions),
        _ => None,
    });
    assert_eq!(last.unwrap_or(excepted), [expected]);
}

#[test]
fn the_origin_hears_once_that_its_round_is_done() {
    let config = Config::default();
    let mut around = Surroundings::of_rank(0, config);
    let mut custody = Custody::new(&config);
    let round = Round {
        packet: copy(3, Span::new(0, 5)),
        spans: Runs::from_iter([Span::new(1, 5)]),
        names: BTreeMap::new(),
        stood: BTreeMap::new(),
        stood_in: None,
        is_routed: false,
    };
    custody.begin_round(round, &mut around.context());
    let asked = around.asked();
    let mut progress = Vec::new();
    for (to, packet) in asked.copies() {
        assert_eq!(packet.header.to, Rank(to - ORIGIN));
        let mut cx = around.context();
        custody.on_done(to, &packet.header.errand, NOTHING, &mut cx);
        progress.append(&mut cx.progress);
    }
    let reached: Runs = (progress.iter())
        .filter_map(|one| match one {
            Progress::Confirmed { reached, .. } => Some(reached.spans().to_vec()),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(reached.spans(), [Span::new(1, 5)]);
    let ends = progress
        .iter()
        .filter(|one| matches!(one, Progress::RoundDone(_)));
    assert_eq!(ends.count(), 1);
    assert!(matches!(progress.last(), Some(Progress::RoundDone(end)) if end.exceptions.is_empty()));
}
