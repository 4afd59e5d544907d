//! Tests of each rule of [BMG09] Algorithm 1.

use binomesh_overlay::ring::{Family, Message, Ring};
use binomesh_overlay::{Changed, Effect, Outbox, Planted};

/// A process with its parent and children.
struct Kin {
    me: u32,
    parent: Option<u32>,
    children: Vec<u32>,
}

impl Family<u32> for Kin {
    fn me(&self) -> u32 {
        self.me
    }

    fn parent(&self) -> Option<u32> {
        self.parent
    }

    fn first_child(&self) -> Option<u32> {
        self.children.first().copied()
    }

    fn next_sibling_of(&self, child: u32) -> Option<Option<u32>> {
        let place = self.children.iter().position(|&known| known == child)?;
        Some(self.children.get(place + 1).copied())
    }
}

fn kin(parent: Option<u32>, children: &[u32]) -> Kin {
    Kin {
        me: 5,
        parent,
        children: children.to_vec(),
    }
}

fn ring(predecessor: Option<u32>, successor: Option<u32>) -> Ring<u32> {
    Ring {
        predecessor,
        successor,
    }
}

type Sent = Vec<(u32, Message<u32>)>;

fn sent(out: &mut Outbox<u32, Message<u32>>) -> Sent {
    out.drain()
        .map(|effect| match effect {
            Effect::Send { to, message } => (to, message),
            other => panic!("the ring only sends: {other:?}"),
        })
        .collect()
}

/// Gives `message` to a ring in the state `before`, and returns the new state and the messages that
/// the ring sends. Checks that the ring reports a change exactly if its state has changed.
fn on(before: Ring<u32>, family: &Kin, from: u32, message: Message<u32>) -> (Ring<u32>, Sent) {
    run(before, family, from, message, Planted::default())
}

fn run(
    before: Ring<u32>,
    family: &Kin,
    from: u32,
    message: Message<u32>,
    planted: Planted,
) -> (Ring<u32>, Sent) {
    let mut after = before;
    let mut out = Outbox::new();
    let changed = after.on_message(from, message, family, planted, &mut out);
    assert_eq!(changed, Changed(after != before), "{message:?}");
    (after, sent(&mut out))
}

fn spontaneous(before: Ring<u32>, family: &Kin) -> (Ring<u32>, Sent) {
    let mut after = before;
    let mut out = Outbox::new();
    let changed = after.apply_spontaneous(family, &mut out);
    assert_eq!(changed, Changed(after != before));
    (after, sent(&mut out))
}

const NOTHING: Ring<u32> = Ring {
    predecessor: None,
    successor: None,
};

#[test]
fn alg1_rule_1_a_process_with_children_takes_the_first_as_successor() {
    let (after, sent) = spontaneous(ring(Some(1), Some(9)), &kin(Some(1), &[7, 8]));
    assert_eq!(after, ring(Some(1), Some(7)));
    assert_eq!(sent, [(7, Message::FConnect)]);
}

#[test]
fn alg1_rule_2_takes_f_connect_from_the_parent_only() {
    let family = kin(Some(1), &[7]);
    assert_eq!(
        on(NOTHING, &family, 1, Message::FConnect),
        (ring(Some(1), None), vec![])
    );
    for stranger in [5, 7, 9] {
        assert_eq!(
            on(NOTHING, &family, stranger, Message::FConnect),
            (NOTHING, vec![])
        );
    }
    assert_eq!(
        on(NOTHING, &kin(None, &[7]), 1, Message::FConnect),
        (NOTHING, vec![])
    );
}

#[test]
fn alg1_rule_3_a_leaf_informs_its_parent() {
    let (after, sent) = spontaneous(NOTHING, &kin(Some(1), &[]));
    assert_eq!((after, sent), (NOTHING, vec![(1, Message::Info(5))]));
}

#[test]
fn alg1_rule_3_a_lone_root_sends_nothing_and_is_in_no_ring() {
    let (after, sent) = spontaneous(ring(Some(3), Some(4)), &kin(None, &[]));
    assert_eq!((after, sent), (NOTHING, vec![]));
    for message in [
        Message::FConnect,
        Message::Info(3),
        Message::AskConnect(3),
        Message::BConnect,
    ] {
        assert_eq!(on(NOTHING, &kin(None, &[]), 3, message), (NOTHING, vec![]));
    }
}

#[test]
fn alg1_rule_4_asks_the_next_sibling() {
    let family = kin(Some(1), &[7, 8]);
    let asked = vec![(8, Message::AskConnect(20))];
    assert_eq!(on(NOTHING, &family, 7, Message::Info(20)), (NOTHING, asked));
    let asked = vec![(8, Message::AskConnect(7))];
    assert_eq!(on(NOTHING, &family, 7, Message::Info(7)), (NOTHING, asked));
}

#[test]
fn alg1_rule_4_forwards_info_of_last_child_to_parent() {
    let family = kin(Some(1), &[7, 8]);
    let forwarded = vec![(1, Message::Info(20))];
    assert_eq!(
        on(NOTHING, &family, 8, Message::Info(20)),
        (NOTHING, forwarded)
    );
}

#[test]
fn alg1_rule_4_the_root_takes_the_last_leaf_as_predecessor() {
    let coupled = (ring(Some(20), None), vec![(20, Message::BConnect)]);
    assert_eq!(
        on(NOTHING, &kin(None, &[7, 8]), 8, Message::Info(20)),
        coupled
    );
}

#[test]
fn alg1_rule_4_takes_info_from_a_child_only() {
    for parent in [None, Some(1)] {
        for stranger in [1, 5, 9] {
            let family = kin(parent, &[7, 8]);
            assert_eq!(
                on(NOTHING, &family, stranger, Message::Info(20)),
                (NOTHING, vec![])
            );
        }
    }
}

#[test]
fn alg1_rule_4_ignores_a_leaf_that_cannot_be_under_that_child() {
    for impossible in [1, 5, 7] {
        let family = kin(Some(1), &[7, 8]);
        assert_eq!(
            on(NOTHING, &family, 8, Message::Info(impossible)),
            (NOTHING, vec![])
        );
    }
}

#[test]
fn alg1_rule_5_takes_the_leaf_as_predecessor_and_tells_it() {
    let coupled = (ring(Some(20), None), vec![(20, Message::BConnect)]);
    assert_eq!(
        on(NOTHING, &kin(Some(1), &[7]), 1, Message::AskConnect(20)),
        coupled
    );
}

#[test]
fn alg1_rule_5_takes_ask_connect_from_the_parent_only_and_no_close_family() {
    let family = kin(Some(1), &[7]);
    for stranger in [5, 7, 9] {
        assert_eq!(
            on(NOTHING, &family, stranger, Message::AskConnect(20)),
            (NOTHING, vec![])
        );
    }
    for impossible in [1, 5, 7] {
        assert_eq!(
            on(NOTHING, &family, 1, Message::AskConnect(impossible)),
            (NOTHING, vec![])
        );
    }
}

#[test]
fn alg1_rule_6_a_leaf_takes_the_sender_as_successor() {
    let taken = (ring(None, Some(20)), vec![]);
    assert_eq!(
        on(NOTHING, &kin(Some(1), &[]), 20, Message::BConnect),
        taken
    );
    // With two processes the root is its only leaf's successor.
    let taken = (ring(None, Some(1)), vec![]);
    assert_eq!(on(NOTHING, &kin(Some(1), &[]), 1, Message::BConnect), taken);
}

#[test]
fn alg1_rule_6_a_process_with_children_ignores_b_connect() {
    let before = ring(Some(1), Some(7));
    assert_eq!(
        on(before, &kin(Some(1), &[7]), 20, Message::BConnect),
        (before, vec![])
    );
}

#[test]
fn a_process_that_is_gone_is_forgotten() {
    let mut state = ring(Some(1), Some(7));
    assert_eq!(state.forget(9), Changed::NO);
    assert_eq!(state.forget(7), Changed::YES);
    assert_eq!(state, ring(Some(1), None));
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use binomesh_overlay::Bug;

    #[test]
    fn rule_4_guard_goes_red() {
        let planted = Planted::new(Bug::Rule4Guard);
        let (after, _) = run(NOTHING, &kin(None, &[7]), 9, Message::Info(9), planted);
        assert_ne!(after, NOTHING, "the clause test of rule 4 would not notice");
    }

    #[test]
    fn lost_b_connect_goes_red() {
        let planted = Planted::new(Bug::LostBConnect);
        let family = kin(Some(1), &[]);
        let (_, sent) = run(NOTHING, &family, 1, Message::AskConnect(20), planted);
        assert_eq!(sent, [], "the clause test of rule 5 would not notice");
    }
}
