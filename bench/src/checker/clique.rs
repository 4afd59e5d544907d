//! A small fully connected system, searched whole: every choice of the peer to ask, every order in
//! which messages arrive, and one fault at the worst moment.
//!
//! Three properties:
//! - *permutation*: with the corrected procedure, at every moment without a fault, successors are a
//!   permutation of the nodes, including successors in messages;
//! - *exactness*: a run without a fault ends with the exact ring, ranks and fingers;
//! - *ending*: a node whose answer does not come ends its part or takes its next step, so no node
//!   waits for ever.

use std::collections::BTreeSet;

use binomesh_overlay::clique::{Body, Clique, Input, Message, Outcome, Peers, Procedure};
use binomesh_overlay::noise::Noise;
use binomesh_overlay::{Outbox, legitimate};
use stateright::{Model, Property};

use super::channels::Letter;
use super::search::{Judged, Path, Searched};
use super::{Peer, letters};

/// The faults that may happen in a run, at most one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Faults {
    /// No fault happens.
    None,
    /// A message is lost, a node crashes, or a node gives up waiting too early.
    One,
}

/// The nodes, and the messages under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<Option<Clique<Peer>>>,
    /// The end of each node's part, once it has ended.
    ends: Vec<Option<End>>,
    /// The messages under way, sorted, so that equal states look equal.
    letters: Vec<Letter<Message<Peer>>>,
    has_failed: bool,
}

/// How the part of a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The node has a place.
    Formed,
    /// The node has no place.
    Failed,
}

/// A step of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// This letter arrives.
    Arrive(Letter<Message<Peer>>),
    /// This letter is lost: a fault.
    Lose(Letter<Message<Peer>>),
    /// This node crashes: a fault.
    Crash(Peer),
    /// This node stops waiting for an answer. If messages are under way, that is a fault.
    Silence(Peer),
}

/// A world to search.
#[derive(Debug)]
pub struct World {
    nodes: usize,
    procedure: Procedure,
    faults: Faults,
    judged: Judged,
}

const PERMUTATION: &str = "permutation";
const EXACTNESS: &str = "exactness";
const ENDING: &str = "ending";

impl World {
    /// A world of this many nodes. The search stops when `state_limit` states are judged.
    pub const fn new(
        nodes: usize,
        procedure: Procedure,
        faults: Faults,
        state_limit: usize,
    ) -> Self {
        Self {
            nodes,
            procedure,
            faults,
            judged: Judged::up_to(state_limit),
        }
    }

    fn hand(state: &mut State, me: Peer, input: Input<'_, Peer>) {
        let Some(Some(node)) = state.nodes.get_mut(me.index()) else {
            return;
        };
        let mut out = Outbox::<Peer, Message<Peer>>::new();
        let end = match node.handle(input, &mut out) {
            Outcome::Formed(_) => Some(End::Formed),
            Outcome::Failed(_) => Some(End::Failed),
            Outcome::Nothing | Outcome::Progress => None,
        };
        if let (Some(place), Some(end)) = (state.ends.get_mut(me.index()), end) {
            *place = Some(end);
        }
        state.letters.extend(letters(me, &mut out));
        state.letters.sort_unstable();
    }

    /// One seed for each peer that node `me` may ask: with this seed the node chooses that peer.
    /// With the sorted procedure, a single seed.
    fn seeds(&self, me: Peer, peers: &Peers<Peer>) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        let choices = match self.procedure {
            Procedure::Sorted => 1,
            Procedure::Corrected | Procedure::AsWritten => me.index().max(1),
        };
        let is_new = |seed: &u64| seen.insert(peers.smaller_than(me, &mut Noise::new(*seed)));
        (0..).filter(is_new).take(choices).collect()
    }

    /// Whether the successors, including those in messages, are each node once.
    fn is_permutation(&self, state: &State) -> bool {
        let nodes = state.nodes.iter().flatten();
        let held = nodes.flat_map(|node| {
            node.successor()
                .into_iter()
                .chain(node.offered_successors())
        });
        let sent = state
            .letters
            .iter()
            .filter_map(|letter| match letter.message.body {
                Body::Exchange { successor } | Body::Exchanged { successor, .. } => Some(successor),
                _ => None,
            });
        let mut all: Vec<Peer> = held.chain(sent).collect();
        all.sort_unstable();
        all.into_iter().eq((0..self.nodes).map(Peer::at))
    }

    /// Whether ring, ranks and fingers are exact.
    fn is_exact(&self, state: &State) -> bool {
        let nodes: Vec<_> = state.nodes.iter().flatten().collect();
        let numbers = |node: &&Clique<Peer>| node.numbers();
        let mut order: Vec<_> = (0..nodes.len()).map(Peer::at).collect();
        order.sort_by_key(|member| nodes.get(member.index()).and_then(numbers));
        let mut ranked = order.iter().zip(0..);
        let count = self.nodes as u32;
        let node = |member: Peer| nodes[member.index()];
        ranked.all(|(&member, rank)| node(member).numbers() == Some((rank, count)))
            && legitimate::is_ring(&order, |m| node(m).successor(), |m| node(m).predecessor())
            && legitimate::is_binomial_graph(
                &order,
                |m| node(m).fingers().clockwise(),
                |m| node(m).fingers().counterclockwise(),
            )
    }

    /// Whether `me` has crashed, or its part has ended, or it takes a next step when its answer
    /// does not come. A node stops waiting a few times at most, so its part ends.
    fn goes_on(state: &State, me: Peer) -> bool {
        let is_through = state.nodes[me.index()].is_none() || state.ends[me.index()].is_some();
        let mut after = state.clone();
        if !is_through {
            Self::hand(&mut after, me, Input::Silence);
        }
        is_through || after != *state
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let all: Vec<_> = (0..self.nodes).map(Peer::at).collect();
        let peers = Peers::new(Peer::at(0), all.iter().copied());
        let mut states = vec![State {
            nodes: Vec::new(),
            ends: vec![None; self.nodes],
            letters: Vec::new(),
            has_failed: false,
        }];
        for &me in &all {
            let extend = |state: &State| {
                let state = state.clone();
                self.seeds(me, &peers).into_iter().map(move |seed| {
                    let mut state = state.clone();
                    let node = Clique::new(me, seed);
                    state.nodes.push(Some(node));
                    state
                })
            };
            states = states.iter().flat_map(extend).collect();
        }
        for state in &mut states {
            for &me in &all {
                let procedure = self.procedure;
                let peers = &peers;
                Self::hand(state, me, Input::Start { procedure, peers });
            }
        }
        states
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if self.judged.is_full() {
            return;
        }
        actions.extend(state.letters.iter().copied().map(Step::Arrive));
        let may_fail = self.faults == Faults::One && !state.has_failed;
        let waits =
            |me: &Peer| state.nodes[me.index()].is_some() && state.ends[me.index()].is_none();
        let all = || (0..self.nodes).map(Peer::at);
        if state.letters.is_empty() || may_fail {
            actions.extend(all().filter(waits).map(Step::Silence));
        }
        if may_fail {
            actions.extend(state.letters.iter().copied().map(Step::Lose));
            let alive = |me: &Peer| state.nodes[me.index()].is_some();
            actions.extend(all().filter(alive).map(Step::Crash));
        }
        actions.sort_unstable();
        actions.dedup();
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let take = |next: &mut State, letter: &Letter<Message<Peer>>| {
            let place = next.letters.iter().position(|one| one == letter)?;
            Some(next.letters.remove(place))
        };
        match step {
            Step::Arrive(letter) => {
                let Letter { to, from, message } = take(&mut next, &letter)?;
                Self::hand(&mut next, to, Input::Message { from, message });
            }
            Step::Lose(letter) => {
                take(&mut next, &letter)?;
                next.has_failed = true;
            }
            Step::Crash(me) => {
                *next.nodes.get_mut(me.index())? = None;
                next.letters.retain(|letter| letter.to != me);
                next.has_failed = true;
            }
            Step::Silence(me) => {
                next.has_failed |= !state.letters.is_empty();
                Self::hand(&mut next, me, Input::Silence);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(PERMUTATION, |world: &Self, state: &State| {
                let is_judged = world.judged.next().is_some();
                let is_corrected = world.procedure == Procedure::Corrected;
                !is_judged || !is_corrected || state.has_failed || world.is_permutation(state)
            }),
            Property::always(EXACTNESS, |world: &Self, state: &State| {
                state.has_failed || !state.letters.is_empty() || world.is_exact(state)
            }),
            Property::always(ENDING, |_: &Self, state: &State| {
                let mut all = (0..state.nodes.len()).map(Peer::at);
                !state.letters.is_empty() || all.all(|me| Self::goes_on(state, me))
            }),
        ]
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.judged.is_full()
    }
}

impl Searched for World {
    type Facts = ();

    const PROPERTIES: &'static [&'static str] = &[PERMUTATION, EXACTNESS, ENDING];

    fn judged(&self) -> &Judged {
        &self.judged
    }

    fn facts(&self) {}

    fn script(&self, property: &str, path: Path<Self>) -> String {
        let mut script = format!("{property} fails:\n");
        for (number, (state, step)) in path.iter().enumerate() {
            if number == 0 {
                script += &format!("  on their way: {:?}\n", state.letters);
            }
            match step {
                Some(step) => script += &format!("  step {:<3} {step:?}\n", number + 1),
                None => script += &format!("  then {:#?}\n", state.nodes),
            }
        }
        script
    }
}
