//! One search through a small world, and its counterexample as a script.

use std::fmt::Write;

use stateright::{Checker, HasDiscoveries, Model as _};

use super::Protocol;
use super::model::{CLOSURE, RECOVERY, StateOf, Step, World};

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// How many different states were judged.
    pub states: usize,
    /// The most steps from a starting state.
    pub depth: usize,
    /// Whether every reachable state was judged.
    pub is_exhaustive: bool,
    /// The most fair rounds from any state to legitimacy.
    pub rounds_max: usize,
    /// The property that failed, and the steps that led there.
    pub counterexample: Option<String>,
}

/// Search a world with this many threads, until all states are judged, the limit is reached or a
/// property fails.
pub fn search<P: Protocol>(world: World<P>, threads: usize) -> Search {
    let checker = world
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let world = checker.model();
    let (states, is_cut) = (world.judged(), world.is_cut());
    world.reopen();
    let counterexample = [CLOSURE, RECOVERY].into_iter().find_map(|property| {
        let path = checker.discovery(property)?;
        Some(script(world, property, path.into_vec()))
    });
    Search {
        states,
        depth: checker.max_depth(),
        is_exhaustive: !is_cut && counterexample.is_none(),
        rounds_max: world.rounds_max(),
        counterexample,
    }
}

/// States and the steps out of them; the last state has none.
type Steps<P> = Vec<(StateOf<P>, Option<Step<<P as Protocol>::Message>>)>;

/// A counterexample as text for people.
fn script<P: Protocol>(world: &World<P>, property: &str, path: Steps<P>) -> String {
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
