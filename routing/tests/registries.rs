//! Each router, strategy and message has a row in the documents. A new one without a row fails
//! a test.

use std::collections::BTreeMap;
use std::path::Path;

use binomesh_overlay::PeerId;
use binomesh_routing::packet::{Class, Message};
use binomesh_routing::router::ROUTERS;
use binomesh_routing::strategy::Choice;
use binomesh_routing::wire::{DecodeError, VERSION, decode, encode};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The cells of each table row of a document whose first cell is code.
fn rows(document: &str) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let text = std::fs::read_to_string(root.join(document)).expect("a document");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        row.split('|')
            .skip(1)
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

#[test]
fn each_router_and_each_strategy_has_a_row_in_the_routing_guide() {
    let rows = rows("routing.md");
    let routers = ROUTERS.iter().map(|router| (router.name(), router.about()));
    let strategies = Choice::ALL.into_iter().filter(|one| *one != Choice::Auto);
    let strategies = strategies.map(|strategy| (strategy.name(), strategy.about()));
    for (name, about) in routers.chain(strategies) {
        let cell = format!("`{name}`");
        assert!(rows.iter().any(|row| row[0] == cell), "{name} has no row");
        assert!(about.ends_with('.'), "{name} has no help");
    }
}

/// All kinds of messages that the codec reads, by their number on the wire. For each kind,
/// bytes are drawn until they decode as a message.
fn kinds() -> BTreeMap<u8, (&'static str, Class)> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut kinds = BTreeMap::new();
    for kind in 0..32 {
        let message = (0..100_000).find_map(|_| drawn(kind, &mut rng));
        kinds.extend(message.map(|message| (kind, (message.name(), message.class()))));
    }
    kinds
}

/// A message of this kind, if the drawn bytes decode as one.
fn drawn(kind: u8, rng: &mut ChaCha8Rng) -> Option<Message<PeerId>> {
    let mut frame = vec![VERSION, kind];
    // Small numbers make short lists and known variants. Topics need letters.
    let letters = [0, 0, 0, 0, 1, 2, b'a'];
    let length = rng.random_range(0..120);
    frame.extend((0..length).map(|_| letters[rng.random_range(0..letters.len())]));
    let read = match decode(&frame.clone().into()) {
        Err(DecodeError::TrailingBytes(count)) => {
            frame.truncate(frame.len() - count);
            decode(&frame.clone().into())
        }
        read => read,
    };
    let message = read.ok()?;
    let (head, payload) = encode(&message).expect("what is read can be written");
    assert_eq!([head, payload].concat(), frame, "{message:?}");
    Some(message)
}

#[test]
fn each_message_has_a_row_in_the_relays_guide_with_its_class() {
    let rows = rows("relay.md");
    let kinds = kinds();
    let places: Vec<u8> = kinds.keys().copied().collect();
    let count = u8::try_from(places.len()).expect("few kinds");
    assert_eq!(places, (0..count).collect::<Vec<u8>>(), "{kinds:?}");
    for (name, class) in kinds.into_values() {
        let class = match class {
            Class::Control => "control",
            Class::Packet => "packet",
        };
        let has_row = rows.iter().any(|row| {
            let words = row[0]
                .trim_matches('`')
                .split(' ')
                .next()
                .unwrap_or_default();
            words.to_lowercase() == name.replace('-', "") && row[1] == class
        });
        assert!(has_row, "{name} of class {class} has no row");
    }
}
