use super::*;
use crate::packet::{Message, Span};
use crate::relay::Config;
use crate::relay::fixture::{ORIGIN, Surroundings, copy};

fn node(config: Config) -> (Receiver<u32>, Custody<u32>, Surroundings) {
    let around = Surroundings::of_rank(1, config);
    (Receiver::new(), Custody::new(&config), around)
}

#[test]
fn each_copy_is_answered_for_and_the_message_is_delivered_once() {
    let (mut receiver, mut custody, mut around) = node(Config::default());
    let mut deliveries = 0;
    for giver in [ORIGIN, ORIGIN + 4] {
        let packet = Box::new(copy(0, Span::single(1)));
        receiver.on_packet(giver, packet, &mut custody, &mut around.context());
        let asked = around.asked();
        deliveries += asked.events.len();
        let is_done = |(to, message): &(u32, Message<u32>)| {
            *to == giver && matches!(message, Message::Done { .. })
        };
        assert!(asked.sent.iter().any(is_done), "{giver}");
    }
    assert_eq!((deliveries, around.stats.duplicates), (1, 1));
}

#[test]
fn a_copy_for_another_rank_is_refused_and_leaves_nothing() {
    let (mut receiver, mut custody, mut around) = node(Config::default());
    let packet = Box::new(copy(0, Span::new(2, 5)));
    receiver.on_packet(ORIGIN, packet, &mut custody, &mut around.context());
    let asked = around.asked();
    let refusals: Vec<CustodyRefusal> = (asked.sent.iter())
        .filter_map(|(_, message)| match message {
            Message::Refused { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(refusals, [CustodyRefusal::NotThatRank]);
    assert!(asked.events.is_empty() && custody.is_idle());
}

#[test]
fn packets_of_an_unknown_epoch_are_held_up_to_the_bound() {
    let (mut receiver, mut custody, mut around) = node(Config {
        max_held: 2,
        ..Config::default()
    });
    for sequence in 0..3 {
        let mut packet = Box::new(copy(sequence, Span::single(1)));
        packet.header.errand.epoch.counter = 9;
        receiver.on_packet(ORIGIN, packet, &mut custody, &mut around.context());
    }
    let asked = around.asked();
    assert_eq!(asked.armed, [Timer::Held(1), Timer::Held(2)]);
    assert_eq!(asked.sent.len(), 1, "the third is refused");
    for number in [1, 2, 2] {
        receiver.on_held_timer(number, &mut around.context());
    }
    let refusal = |(_, message): &(u32, Message<u32>)| match message {
        Message::Refused { reason, .. } => Some(*reason),
        _ => None,
    };
    let refusals: Vec<_> = around.asked().sent.iter().map(refusal).collect();
    assert_eq!(refusals, [Some(CustodyRefusal::EpochUnknown); 2]);
    assert_eq!(receiver.held_bytes(), 0);
}
