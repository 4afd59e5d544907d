//! A counterexample of the ring or of the fingers, as text for people.

use std::fmt::Write;

use super::Protocol;
use super::model::{StateOf, Step, World};
use super::search::Path;

/// A counterexample as text for people.
pub(super) fn script<P: Protocol>(
    world: &World<P>,
    property: &str,
    path: &Path<World<P>>,
) -> String {
    let mut text = format!("{property} fails:\n");
    for (number, (state, step)) in path.iter().enumerate() {
        if number == 0 {
            describe(&mut text, "start", world, state);
        }
        if let Some(step) = step {
            let _ = writeln!(text, "  step {:<3} {}", number + 1, line(step));
        }
    }
    let Some((last, _)) = path.last() else {
        return text;
    };
    describe(&mut text, "then", world, last);
    if let Some(step) = world.way_out(last) {
        let _ = writeln!(
            text,
            "  which is legitimate, but {} leads out of it",
            line(&step)
        );
    } else {
        let mut state = last.clone();
        (0..world.rounds).for_each(|_| world.round(&mut state));
        let after = format!("after {} fair rounds", world.rounds);
        describe(&mut text, &after, world, &state);
        let _ = writeln!(text, "  which is not legitimate");
    }
    text
}

fn line<M: std::fmt::Debug>(step: &Step<M>) -> String {
    match step {
        Step::Spontaneous(me) => format!("{me:?} applies its spontaneous rules"),
        Step::Receive(letter) => {
            let (to, from, message) = (letter.to, letter.from, &letter.message);
            format!("{to:?} receives {message:?} from {from:?}")
        }
    }
}

fn describe<P: Protocol>(text: &mut String, title: &str, world: &World<P>, state: &StateOf<P>) {
    let _ = writeln!(text, "  {title}:");
    for (index, node) in state.nodes.iter().enumerate() {
        let _ = writeln!(
            text,
            "    process {index}: {}",
            world.protocol.describe(node)
        );
    }
    for letter in state.channels.letters() {
        let (to, from, message) = (letter.to, letter.from, letter.message);
        let _ = writeln!(text, "    on its way from {from:?} to {to:?}: {message:?}");
    }
}
