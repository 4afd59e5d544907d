//! A search through a world of relays.

use stateright::{Checker, HasDiscoveries, Model};

use super::{DELIVERY, ONCE, PROGRESS, Relays, TRUTH};

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Found {
    /// How many different states were judged.
    pub states: usize,
    /// The most steps from the start.
    pub depth: usize,
    /// Whether every reachable state was judged.
    pub is_exhaustive: bool,
    /// The members of [`super::HANDLERS`] that never ran.
    pub unreached: Vec<&'static str>,
    /// The property that fails first, and the steps that lead there.
    pub counterexample: Option<String>,
}

/// Search a world with this many threads, until all states are judged, the limit is reached or a
/// property fails.
pub fn search(world: Relays, threads: usize) -> Found {
    let is_deep = world.depth_first;
    let builder = world.checker().threads(threads);
    let builder = builder.finish_when(HasDiscoveries::AnyFailures);
    if is_deep {
        found(builder.spawn_dfs().join())
    } else {
        found(builder.spawn_bfs().join())
    }
}

fn found(checker: impl Checker<Relays>) -> Found {
    let world = checker.model();
    let (states, is_cut) = (world.judged(), world.is_cut());
    let unreached = world.unreached();
    world.reopen();
    let counterexample = [DELIVERY, PROGRESS, ONCE, TRUTH]
        .into_iter()
        .find_map(|name| {
            let steps = checker.discovery(name)?.into_actions();
            let steps = steps.iter().map(|step| format!("  {step}\n"));
            Some(format!("{name} fails:\n{}", steps.collect::<String>()))
        });
    Found {
        states,
        depth: checker.max_depth(),
        is_exhaustive: !is_cut && counterexample.is_none(),
        unreached,
        counterexample,
    }
}
