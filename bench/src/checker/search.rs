//! One search through a small world, state by state.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Checker, HasDiscoveries, Model};

/// How many different states a search has judged, up to a limit.
#[derive(Debug)]
pub struct Judged {
    limit: usize,
    count: AtomicUsize,
}

impl Judged {
    /// No state is judged yet. About `limit` will be: threads that count at the same moment may
    /// exceed the limit by their number less one.
    pub const fn up_to(limit: usize) -> Self {
        Self {
            limit,
            count: AtomicUsize::new(0),
        }
    }

    /// How many states were judged.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the limit was reached. Waiting states have no next steps then, and are not judged.
    pub fn is_full(&self) -> bool {
        self.count() >= self.limit
    }

    /// Count another state. Returns how many were judged before it, or `None` if the limit was
    /// reached and this one is not judged.
    pub fn next(&self) -> Option<usize> {
        (!self.is_full()).then(|| self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// States and the steps out of them. The last state has no step.
pub type Path<W> = Vec<(<W as Model>::State, Option<<W as Model>::Action>)>;

/// A world that can be searched.
pub trait Searched:
    Model<State: Hash + Clone + PartialEq + Send + Sync + 'static, Action: Clone + PartialEq>
    + Send
    + Sync
    + 'static
{
    /// What a search tells beside the states and the failure.
    type Facts;

    /// The properties of the model, in the order in which a failure is looked for.
    const PROPERTIES: &'static [&'static str];

    /// The states that were judged.
    fn judged(&self) -> &Judged;

    /// Whether the search goes as deep as it can first.
    fn is_depth_first(&self) -> bool {
        false
    }

    /// What the search has told beside the states and the failure.
    fn facts(&self) -> Self::Facts;

    /// The way to a state in which a property fails, as text for people.
    fn script(&self, property: &str, path: Path<Self>) -> String
    where
        Self: Sized;
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Found<F = ()> {
    /// How many different states were judged.
    pub states: usize,
    /// The most states on a way that was searched, its starting state included.
    pub depth: usize,
    /// Whether every reachable state was judged.
    pub is_exhaustive: bool,
    /// Further facts about the world.
    pub facts: F,
    /// The property that failed, and the steps that led there.
    pub counterexample: Option<String>,
}

/// Search a world with this many threads, until all states are judged, the limit is reached or a
/// property fails.
pub fn search<W: Searched>(world: W, threads: usize) -> Found<W::Facts> {
    let is_depth_first = world.is_depth_first();
    let builder = world.checker().threads(threads);
    let builder = builder.finish_when(HasDiscoveries::AnyFailures);
    match is_depth_first {
        true => found(&builder.spawn_dfs().join()),
        false => found(&builder.spawn_bfs().join()),
    }
}

fn found<W: Searched>(checker: &impl Checker<W>) -> Found<W::Facts> {
    let world = checker.model();
    let (states, is_cut, facts) = (
        world.judged().count(),
        world.judged().is_full(),
        world.facts(),
    );
    // The path to a failure is walked again, from the first state on. With a full count no state
    // would have steps.
    world.judged().count.store(0, Ordering::Relaxed);
    let counterexample = W::PROPERTIES.iter().find_map(|property| {
        let path = checker.discovery(property)?;
        Some(world.script(property, path.into_vec()))
    });
    Found {
        states,
        depth: checker.max_depth(),
        is_exhaustive: !is_cut && counterexample.is_none(),
        facts,
        counterexample,
    }
}
