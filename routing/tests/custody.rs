//! The cases in which a receiver acknowledges custody of a copy.

use crate::network::single::{ORIGIN, Single, copy, errand, member};
use binomesh_routing::packet::{Message, Part, Span};
use binomesh_routing::{Config, Timer};

const CHILD: u32 = ORIGIN + 3;

/// One rank of `n`, asked by the origin to answer for a span that begins there.
fn asked_of(n: u32, span: Span, payload: usize) -> Single {
    let mut relay = member(n, span.start, Config::default());
    relay.hear(ORIGIN, copy(span, 0, payload));
    relay
}

/// Rank 2 of 4, asked by the origin to answer for ranks 2 and 3.
fn asked(payload: usize) -> Single {
    asked_of(4, Span::new(2, 4), payload)
}

/// The kinds of what was sent to a peer since it was asked last.
fn said_to(relay: &mut Single, peer: u32) -> Vec<&'static str> {
    let sent = std::mem::take(&mut relay.sent).into_iter();
    sent.filter(|(to, _)| *to == peer)
        .map(|(_, message)| message.name())
        .collect()
}

fn child_is_done(relay: &mut Single) {
    let copies = relay.packets();
    assert_eq!(copies.len(), 1);
    let (to, copy) = copies.into_iter().next().unwrap();
    assert_eq!(to, CHILD);
    let done = Message::Done {
        errand: copy.header.errand,
        exceptions: Vec::new(),
        redelegated: 0,
        replaced: Vec::new(),
    };
    relay.hear(CHILD, done);
}

#[test]
fn done_that_comes_first_makes_custody_superfluous() {
    let mut relay = asked(100);
    child_is_done(&mut relay);
    assert_eq!(said_to(&mut relay, ORIGIN), ["done"]);
    relay.fire(Timer::Custody);
    assert!(relay.sent.is_empty(), "{:?}", relay.sent);
}

#[test]
fn what_is_not_done_soon_is_told_to_be_in_custody() {
    let mut relay = asked(100);
    let copies: Vec<&str> = said_to(&mut relay, CHILD);
    assert_eq!(copies, ["packet"]);
    relay.fire(Timer::Custody);
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
}

#[test]
fn custody_of_a_long_payload_is_told_at_once() {
    let mut relay = asked(5000);
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
    assert!(!relay.timers.contains_key(&Timer::Custody));
}

/// Custody that is repeated says that something is late behind it. Whoever has told that
/// more is pending tells it anew, and once.
#[test]
fn repeated_custody_is_told_on_if_it_is_news() {
    let mut relay = asked_of(16, Span::new(4, 8), 100);
    relay.fire(Timer::Custody);
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
    let custody = || Message::Custody {
        errand: errand(0, Part::Range(Span::new(6, 8))),
        pending: vec![Span::single(7)],
    };
    relay.hear(ORIGIN + 6, custody());
    assert!(
        relay.sent.is_empty(),
        "that it has delivered itself is no news"
    );
    relay.hear(ORIGIN + 6, custody());
    let sent = std::mem::take(&mut relay.sent);
    let [(ORIGIN, Message::Custody { pending, .. })] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(pending, &[Span::single(5), Span::single(7)]);
    relay.hear(ORIGIN + 6, custody());
    assert!(relay.sent.is_empty(), "it has been told");
}

/// No more duties than a node may have are remembered as untold, done or not: of one more
/// custody is told at once.
#[test]
fn custody_is_not_delayed_for_more_duties_than_there_may_be() {
    let span = Span::new(2, 4);
    let config = Config {
        max_duties: 1,
        ..Config::default()
    };
    let mut relay = member(4, span.start, config);
    relay.hear(ORIGIN, copy(span, 0, 100));
    child_is_done(&mut relay);
    assert_eq!(said_to(&mut relay, ORIGIN), ["done"]);
    relay.hear(ORIGIN, copy(span, 1, 100));
    assert_eq!(said_to(&mut relay, ORIGIN), ["custody"]);
}
