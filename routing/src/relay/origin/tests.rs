use bytes::Bytes;

use super::*;
use crate::destination::Destination;
use crate::packet::{Confirmation, Errand, Message, Payloads, Reason, State, Topic};
use crate::relay::custody::Done;
use crate::relay::fixture::{ORIGIN, Surroundings};
use crate::relay::{Config, Due, Event, Publish, PublishError, Receipt, Timer};
use crate::strategy::Strategy;

/// The effects that a node asked for since the last look: copies, timers and receipts.
type Look = (Vec<(u32, Errand<u32>)>, Vec<Timer>, Vec<Receipt<u32>>);

/// The origin, at rank 0 of five.
struct Node {
    origin: Origin<u32>,
    custody: Custody<u32>,
    around: Surroundings,
}

impl Node {
    fn new(config: Config) -> Self {
        Self {
            origin: Origin::new(1),
            custody: Custody::new(&config),
            around: Surroundings::of_rank(0, config),
        }
    }

    fn publish(&mut self, due: Due<u32>) -> Result<u64, PublishError<u32>> {
        let publish = Publish {
            topic: Topic::new("test").unwrap(),
            payloads: Payloads::from(Bytes::from_static(b"x")),
            destination: Destination::All,
            strategy: Strategy::Binomial,
            due,
            confirmation: Confirmation::default(),
            is_ordered: false,
        };
        let mut cx = self.around.context();
        let custody = &mut self.custody;
        let id = self
            .origin
            .publish(publish, |_| Ok(None), custody, &mut cx)?;
        Ok(id.sequence)
    }

    /// Have the delegates of these errands say done. A delegate that `is_done` denies excepts its
    /// whole part.
    fn answer(&mut self, handed: &[(u32, Errand<u32>)], is_done: impl Fn(u32) -> bool) {
        for (to, errand) in handed {
            let spans = errand.part.spans().iter().filter(|_| !is_done(*to));
            let exceptions: Vec<_> = spans
                .map(|span| crate::packet::Exception {
                    span: *span,
                    peer: None,
                    state: State::Unconfirmed,
                    reason: Reason::NoRoute,
                })
                .collect();
            let done = Done {
                exceptions: &exceptions,
                redelegated: 0,
                replaced: &[],
            };
            let mut cx = self.around.context();
            self.custody.on_done(*to, errand, done, &mut cx);
            self.origin.heed(&mut self.custody, &mut cx);
        }
    }

    fn look(&mut self) -> Look {
        let asked = self.around.asked();
        let copies = asked
            .sent
            .into_iter()
            .filter_map(|(to, message)| match message {
                Message::Packet(packet) => Some((to, packet.header.errand)),
                _ => None,
            });
        let receipts = asked.events.into_iter().filter_map(|event| match event {
            Event::Receipt(receipt) => Some(*receipt),
            _ => None,
        });
        (copies.collect(), asked.armed, receipts.collect())
    }
}

#[test]
fn a_message_that_all_members_have_ends_with_one_receipt() {
    let mut node = Node::new(Config::default());
    assert_eq!(node.publish(Due::Settled), Ok(0));
    let (handed, _, none) = node.look();
    assert_eq!(none, []);
    node.answer(&handed, |_| true);
    let (_, _, receipts) = node.look();
    assert_eq!(receipts.len(), 1);
    assert!(receipts[0].is_complete() && receipts[0].reached_count == 4);
    assert!(node.origin.is_idle() && node.custody.is_idle());
    node.answer(&handed, |_| true);
    assert_eq!(node.look().2, []);
}

#[test]
fn only_members_that_a_round_did_not_confirm_are_issued_to_again() {
    let mut node = Node::new(Config::default());
    node.publish(Due::Settled).unwrap();
    let (handed, ..) = node.look();
    let (late, _) = handed[0];
    node.answer(&handed, |to| to != late);
    let (_, armed, receipts) = node.look();
    assert!(armed.contains(&Timer::Reissue(0)) && receipts.is_empty());
    let mut cx = node.around.context();
    node.origin.reissue(0, &mut node.custody, &mut cx);
    let (again, ..) = node.look();
    let of = |handed: &[(u32, Errand<u32>)]| {
        let spans = handed
            .iter()
            .flat_map(|(_, errand)| errand.part.spans().to_vec());
        spans.collect::<crate::runs::Runs>()
    };
    assert_eq!(of(&again), of(&handed[..1]));
    node.answer(&again, |_| true);
    assert!(node.look().2[0].is_complete());
}

#[test]
fn at_the_deadline_the_receipt_says_unconfirmed_for_the_rest() {
    let mut node = Node::new(Config::default());
    let due = Due::Within(std::time::Duration::from_secs(1));
    let sequence = node.publish(due).unwrap();
    let (_, armed, _) = node.look();
    assert!(armed.contains(&Timer::Deadline(sequence)));
    let mut cx = node.around.context();
    node.origin
        .on_deadline(sequence, &mut node.custody, &mut cx);
    let (_, _, receipts) = node.look();
    let reasons: Vec<_> = (receipts[0].unreached.iter())
        .map(|one| (one.peer, one.state, one.reason))
        .collect();
    let rest = [1, 2, 3, 4].map(|rank| (Some(ORIGIN + rank), State::Unconfirmed, Reason::Deadline));
    assert_eq!(reasons, rest);
    assert!(node.custody.is_idle());
}

#[test]
fn beyond_the_bound_a_message_is_not_accepted_and_uses_no_sequence() {
    let mut node = Node::new(Config {
        max_open: 2,
        ..Config::default()
    });
    assert_eq!(node.publish(Due::Settled), Ok(0));
    let (handed, ..) = node.look();
    assert_eq!(node.publish(Due::Settled), Ok(1));
    assert_eq!(node.publish(Due::Settled), Err(PublishError::WindowFull(2)));
    node.answer(&handed, |_| true);
    assert_eq!(node.publish(Due::Settled), Ok(2));
}
