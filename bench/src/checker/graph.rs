//! A small connected graph, searched whole: every order in which messages arrive, and one fault at
//! the worst moment.
//!
//! Three properties:
//! - *one root*: a run without a fault ends with all nodes below one root, a node of highest
//!   degree;
//! - *no circle*: no node that has joined the tree hangs below itself;
//! - *ending*: when no message is under way and no node has crashed, a few ticks lead all nodes
//!   into the tree.
//!
//! Not here: nodes that a crash leaves outside, which join when their time is over, and repairs of
//! the tree.

use std::cmp::Reverse;

use binomesh_overlay::Outbox;
use binomesh_overlay::spanning::{Claim, Input, Message, Outcome, Spanning};
use stateright::{Model, Property};

use super::channels::Letter;
use super::clique::Faults;
use super::search::{Judged, Path, Searched};
use super::{Peer, letters};

/// The nodes, and the messages under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<Option<Spanning<Peer>>>,
    /// The parent of each node that has joined the tree; none at the root.
    ends: Vec<Option<Option<Peer>>>,
    /// The messages under way, sorted by receiver and sender; those from one sender to one receiver
    /// in the order of sending.
    letters: Vec<Letter<Word>>,
    has_failed: bool,
    has_crashed: bool,
}

/// A message to a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Word {
    Claim(Claim<Peer>),
    Placed,
    /// The link to the sender is down.
    Down,
}

/// A step of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The oldest letter to the first node from the second one arrives.
    Arrive(Peer, Peer),
    /// The oldest letter to the first node from the second one is lost: a fault.
    Lose(Peer, Peer),
    /// This node crashes: a fault.
    Crash(Peer),
    /// This node ticks, as it does when no more messages come. If messages are under way, the tick
    /// is too early: a fault.
    Tick(Peer),
}

/// A world to search.
#[derive(Debug)]
pub struct World {
    lists: Vec<Vec<Peer>>,
    faults: Faults,
    judged: Judged,
}

const ONE_ROOT: &str = "one root";
const NO_CIRCLE: &str = "no circle";
const ENDING: &str = "ending";
/// How many ticks suffice for the small graphs that are searched.
const ROUNDS: usize = 10;

/// The lists of all connected graphs of this many nodes.
pub fn connected(nodes: usize) -> Vec<Vec<Vec<Peer>>> {
    let pairs: Vec<(usize, usize)> = (0..nodes)
        .flat_map(|a| (a + 1..nodes).map(move |b| (a, b)))
        .collect();
    let graph = |edges: u32| {
        let mut lists = vec![Vec::new(); nodes];
        for (number, &(a, b)) in pairs.iter().enumerate() {
            if edges >> number & 1 == 1 {
                lists[a].push(Peer::at(b));
                lists[b].push(Peer::at(a));
            }
        }
        lists
    };
    let is_connected = |lists: &Vec<Vec<Peer>>| {
        let mut reached = vec![Peer::at(0)];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            for peer in &lists[at.index()] {
                if !reached.contains(peer) {
                    reached.push(*peer);
                }
            }
            next += 1;
        }
        reached.len() == nodes
    };
    let all = (0..1 << pairs.len()).map(graph);
    all.filter(is_connected).collect()
}

impl World {
    /// The graph of these lists. The search stops when `state_limit` states are judged.
    pub const fn new(lists: Vec<Vec<Peer>>, faults: Faults, state_limit: usize) -> Self {
        Self {
            lists,
            faults,
            judged: Judged::up_to(state_limit),
        }
    }

    fn hand(state: &mut State, me: Peer, input: Input<Peer>) {
        let is_over = state.ends[me.index()].is_some();
        let Some(Some(node)) = state.nodes.get_mut(me.index()) else {
            return;
        };
        if is_over {
            return;
        }
        let mut out = Outbox::<Peer, Message<Peer>>::new();
        if let Outcome::Formed(ancestors) = node.handle(input, &mut out) {
            state.ends[me.index()] = Some(ancestors.last().copied());
            for peer in node.neighbours() {
                out.send(peer, Message::Placed);
            }
        }
        let sent = letters(me, &mut out).map(|Letter { to, from, message }| Letter {
            to,
            from,
            message: match message {
                Message::Claim(claim) => Word::Claim(claim),
                Message::Placed => Word::Placed,
            },
        });
        let sent = sent.filter(|letter| state.nodes[letter.to.index()].is_some());
        let sent: Vec<_> = sent.collect();
        state.letters.extend(sent);
        state.letters.sort_by_key(|letter| (letter.to, letter.from));
    }

    fn arrive(state: &mut State, letter: Letter<Word>) {
        let Letter { to, from, message } = letter;
        match message {
            Word::Down => Self::hand(state, to, Input::Lost(from)),
            Word::Placed => Self::hand(state, to, Input::Placed(from)),
            Word::Claim(_) if state.ends[to.index()].is_some() => {
                if state.nodes[from.index()].is_some() {
                    let message = Word::Placed;
                    let (to, from) = (from, to);
                    state.letters.push(Letter { to, from, message });
                    state.letters.sort_by_key(|letter| (letter.to, letter.from));
                }
            }
            Word::Claim(claim) => Self::hand(state, to, Input::Claim { from, claim }),
        }
    }

    /// The root above `me`, if all nodes on the way have joined the tree.
    fn root_of(state: &State, me: Peer) -> Option<Peer> {
        let mut at = me;
        for _ in 0..=state.nodes.len() {
            match state.ends[at.index()]? {
                Some(parent) => at = parent,
                None => return Some(at),
            }
        }
        None
    }

    /// The node with the longest list; the smallest among several.
    fn highest(&self) -> Option<Peer> {
        let all = (0..self.lists.len()).map(Peer::at);
        all.min_by_key(|peer| (Reverse(self.lists[peer.index()].len()), *peer))
    }

    fn alive(state: &State) -> impl Iterator<Item = Peer> + '_ {
        let all = (0..state.nodes.len()).map(Peer::at);
        all.filter(|me| state.nodes[me.index()].is_some())
    }

    fn waits(state: &State, me: Peer) -> bool {
        state.nodes[me.index()].is_some() && state.ends[me.index()].is_none()
    }

    fn has_circle(state: &State) -> bool {
        let is_in = |me: &Peer| {
            let mut at = *me;
            (0..=state.nodes.len()).all(|_| match state.ends[at.index()] {
                Some(Some(parent)) => {
                    at = parent;
                    true
                }
                Some(None) | None => false,
            })
        };
        Self::alive(state).any(|me| is_in(&me))
    }

    /// Whether a few rounds lead all nodes into the tree: all waiting nodes tick, and all messages
    /// arrive.
    fn ends_soon(state: &State) -> bool {
        let mut state = state.clone();
        for _ in 0..ROUNDS {
            let waiting: Vec<Peer> = Self::alive(&state)
                .filter(|me| Self::waits(&state, *me))
                .collect();
            for me in &waiting {
                Self::hand(&mut state, *me, Input::Tick);
            }
            while !state.letters.is_empty() {
                let letter = state.letters.remove(0);
                Self::arrive(&mut state, letter);
            }
        }
        Self::alive(&state).all(|me| !Self::waits(&state, me))
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let lists = self.lists.iter().enumerate();
        let node = |(me, list): (usize, &Vec<Peer>)| {
            Some(Spanning::new(Peer::at(me), list.iter().copied()))
        };
        let mut state = State {
            nodes: lists.map(node).collect(),
            ends: vec![None; self.lists.len()],
            letters: Vec::new(),
            has_failed: false,
            has_crashed: false,
        };
        for (me, list) in self.lists.iter().enumerate() {
            for peer in list {
                Self::hand(&mut state, Peer::at(me), Input::Met(*peer));
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if self.judged.is_full() {
            return;
        }
        let may_fail = self.faults == Faults::One && !state.has_failed;
        for Letter { to, from, message } in &state.letters {
            actions.push(Step::Arrive(*to, *from));
            if may_fail && *message != Word::Down {
                actions.push(Step::Lose(*to, *from));
            }
        }
        if state.letters.is_empty() || may_fail {
            let waiting = Self::alive(state).filter(|me| Self::waits(state, *me));
            actions.extend(waiting.map(Step::Tick));
        }
        if may_fail {
            actions.extend(Self::alive(state).map(Step::Crash));
        }
        actions.sort_unstable();
        actions.dedup();
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let take = |next: &mut State, to: Peer, from: Peer| {
            let is_it = |one: &Letter<Word>| one.to == to && one.from == from;
            let place = next.letters.iter().position(is_it)?;
            Some(next.letters.remove(place))
        };
        match step {
            Step::Arrive(to, from) => {
                let letter = take(&mut next, to, from)?;
                Self::arrive(&mut next, letter);
            }
            Step::Lose(to, from) => {
                take(&mut next, to, from)?;
                next.has_failed = true;
            }
            Step::Crash(me) => {
                *next.nodes.get_mut(me.index())? = None;
                next.letters.retain(|letter| letter.to != me);
                for peer in &self.lists[me.index()] {
                    let (to, from, message) = (*peer, me, Word::Down);
                    if next.nodes[to.index()].is_some() {
                        next.letters.push(Letter { to, from, message });
                    }
                }
                next.letters.sort_by_key(|letter| (letter.to, letter.from));
                (next.has_failed, next.has_crashed) = (true, true);
            }
            Step::Tick(me) => {
                next.has_failed |= !state.letters.is_empty();
                Self::hand(&mut next, me, Input::Tick);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_ROOT, |world: &Self, state: &State| {
                world.judged.next();
                let is_right = |me| Self::root_of(state, me) == world.highest();
                state.has_failed || !state.letters.is_empty() || Self::alive(state).all(is_right)
            }),
            Property::always(NO_CIRCLE, |_: &Self, state: &State| {
                !Self::has_circle(state)
            }),
            // Nodes below a crashed node find another place in the tree, which is not modelled
            // here.
            Property::always(ENDING, |_: &Self, state: &State| {
                state.has_crashed || !state.letters.is_empty() || Self::ends_soon(state)
            }),
        ]
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.judged.is_full()
    }
}

impl Searched for World {
    type Facts = ();

    const PROPERTIES: &'static [&'static str] = &[ONE_ROOT, NO_CIRCLE, ENDING];

    fn judged(&self) -> &Judged {
        &self.judged
    }

    fn facts(&self) {}

    fn script(&self, property: &str, path: Path<Self>) -> String {
        let mut script = format!("{property} fails, {:?}:\n", self.lists);
        for (number, (state, step)) in path.iter().enumerate() {
            match step {
                Some(step) => script += &format!("  step {:<3} {step:?}\n", number + 1),
                None => script += &format!("  then {state:#?}\n"),
            }
        }
        script
    }
}
