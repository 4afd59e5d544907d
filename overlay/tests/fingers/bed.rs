//! Fixtures of the finger tests: processes, marks and messages.

use binomesh_overlay::fingers::{Fingers, Message, Rules};
use binomesh_overlay::stamp::{Mark, Stamp};
use binomesh_overlay::{Changed, Effect, Epoch, Outbox, Placement, Population, Rank};

/// A process that knows its placement. The member of rank r has the id 100 + r.
pub(crate) type Placed = Fingers<u32, Placement<u32>>;

pub(crate) fn population(n: u32) -> Population {
    Population::new(n).expect("a small population")
}

pub(crate) fn sent<K>(out: &mut Outbox<u32, Message<u32, K>>) -> Vec<(u32, Message<u32, K>)> {
    out.drain()
        .map(|effect| match effect {
            Effect::Send { to, message } => (to, message),
            _ => panic!("fingers only send"),
        })
        .collect()
}

pub(crate) fn on<S: Stamp>(
    fingers: &mut Fingers<u32, S>,
    from: u32,
    message: Message<u32, S::Mark>,
) -> Vec<(u32, Message<u32, S::Mark>)> {
    run(fingers, from, message, Rules::default())
}

pub(crate) fn run<S: Stamp>(
    fingers: &mut Fingers<u32, S>,
    from: u32,
    message: Message<u32, S::Mark>,
    rules: Rules,
) -> Vec<(u32, Message<u32, S::Mark>)> {
    let tables = |f: &Fingers<u32, S>| (f.clockwise().to_vec(), f.counterclockwise().to_vec());
    let before = tables(fingers);
    let mut out = Outbox::new();
    let changed = fingers.on_message(from, message, rules, &mut out);
    assert_eq!(changed, Changed(tables(fingers) != before), "{message:?}");
    sent(&mut out)
}

fn epoch(counter: u64) -> Epoch<u32> {
    Epoch {
        root: 100,
        boot: 1,
        counter,
        nonce: 0,
    }
}

pub(crate) fn mark(counter: u64, rank: u32) -> Mark<u32> {
    Mark {
        epoch: epoch(counter),
        rank: Rank(rank),
    }
}

pub(crate) fn placed(n: u32, rank: u32) -> Placed {
    let placement = Placement {
        epoch: epoch(1),
        population: population(n),
        rank: Rank(rank),
    };
    Placed::new(100 + rank, placement.population, placement)
}
