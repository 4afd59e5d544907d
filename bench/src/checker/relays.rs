//! stateright's `Model` over the shipped relays: [SFT06] §4, its verification of
//! the protocol, done with the protocol itself.
//!
//! ```text
//!   relay ──▶ inbox of each node, bounded, in order of arrival ──▶ relay
//!               │ full: lost, and told when there is room    (what the node does)
//!               └ full: its sender waits and reads nothing   (what deadlocks)
//! ```
//!
//! Any inbox may be served next, any link with something on it may fail, at most
//! so many. Time stands still while a message is on its way, and then goes on to
//! the next timer: of those that are due at once any node's may be first. As the
//! clock is part of the state, an execution without an end would run into its
//! limit, which is an error.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use binomesh_overlay::{Effect, Epoch, Outbox, Placement, Population, Rank};
use binomesh_routing::packet::{Message, Part, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Effects, Event, Input, Publish, Relay, Timer, View};
use bytes::Bytes;
use stateright::{Checker, HasDiscoveries, Model, Property};

/// A node, by its rank.
pub type Id = u32;

/// What becomes of a message to a full inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It is lost, and its sender is told when there is room.
    Refused,
    /// Its sender waits until there is room, and reads nothing meanwhile.
    Blocks,
}

/// A message that is published at the start.
#[derive(Debug, Clone)]
pub struct Post {
    /// By whom.
    pub from: Id,
    /// What.
    pub publish: Publish<Id>,
}

impl Post {
    /// One byte to these, by a strategy.
    pub fn new(from: Id, destination: Destination<Id>, strategy: Strategy) -> Self {
        let publish = Publish {
            topic: Topic::default(),
            payload: Bytes::from_static(b"x"),
            destination,
            strategy,
            deadline: None,
        };
        Self { from, publish }
    }
}

/// A small world of relays.
#[derive(Debug)]
pub struct Relays {
    /// How many nodes; all know each other's ranks.
    pub nodes: u32,
    /// Their bounds and router.
    pub config: Config,
    /// What is published.
    pub posts: Vec<Post>,
    /// How many messages an inbox holds.
    pub capacity: usize,
    /// What becomes of more.
    pub full: Full,
    /// How many links may fail.
    pub failures: usize,
    /// How long an execution may take, on its own clock.
    pub limit: Duration,
    /// Only so many states are judged.
    pub state_limit: usize,
    /// Hears how many states were judged, every now and then.
    pub progress: fn(usize),
    judged: AtomicUsize,
    /// Which of [`HANDLERS`] have run.
    handled: AtomicU32,
}

/// What a relay can be asked to handle in such a world.
pub const HANDLERS: [&str; 8] = [
    "bcast", "mcast", "custody", "done", "refused", "inquire", "timer", "writable",
];

/// All relays and all that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    relays: Vec<Arc<Relay<Id>>>,
    inboxes: Vec<VecDeque<(Id, Message<Id>)>>,
    /// Of a blocked sender: what it could not send.
    stuck: Vec<VecDeque<(Id, Message<Id>)>>,
    /// Who shall be told when an inbox has room.
    starved: Vec<BTreeSet<Id>>,
    timers: Vec<BTreeMap<Timer, Duration>>,
    failed: BTreeSet<(Id, Id)>,
    clock: Duration,
    delivered: Vec<BTreeMap<Id, u8>>,
    /// Of each post: whether its receipt says that all were reached.
    receipts: Vec<Option<bool>>,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A node handles the first message of its inbox.
    Serve(Id),
    /// A node learns that another's inbox has room.
    Room(Id, Id),
    /// A link fails with what is on it.
    Fail(Id, Id),
    /// Nothing is on its way: the next timers of a node fire.
    Fire(Id),
}

/// The name of the property that an execution ends with everything delivered.
pub const DELIVERY: &str = "delivery";
/// The name of the property that every execution ends.
pub const PROGRESS: &str = "progress";
/// The name of the property that nobody gets anything twice.
pub const ONCE: &str = "once";
/// The name of the property that who is called reached has got it.
pub const TRUTH: &str = "truth";

/// What a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// How many different states were judged.
    pub states: usize,
    /// The most steps from the start.
    pub depth: usize,
    /// Whether every reachable state was judged.
    pub is_exhaustive: bool,
    /// Which of [`HANDLERS`] never ran.
    pub unreached: Vec<&'static str>,
    /// The property that fails first, and the steps that lead there.
    pub counterexample: Option<String>,
}

/// Search a world with so many threads, until it is exhausted, cut or wrong.
pub fn search(world: Relays, threads: usize) -> Found {
    let checker = world
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serve(id) => write!(f, "{id} handles its next message"),
            Self::Room(sender, id) => write!(f, "{sender} learns that {id} has room"),
            Self::Fail(a, b) => write!(f, "the link between {a} and {b} fails"),
            Self::Fire(id) => write!(f, "the next timers of {id} fire"),
        }
    }
}

impl Relays {
    /// A world without failures, in which the node's own channels hold four.
    pub const fn new(nodes: u32, config: Config, posts: Vec<Post>) -> Self {
        Self {
            nodes,
            config,
            posts,
            capacity: 4,
            full: Full::Refused,
            failures: 0,
            limit: Duration::from_secs(120),
            state_limit: usize::MAX,
            progress: |_| (),
            judged: AtomicUsize::new(0),
            handled: AtomicU32::new(0),
        }
    }

    /// How many different states were judged.
    pub fn judged(&self) -> usize {
        self.judged.load(Ordering::Relaxed)
    }

    /// Whether the state limit was reached.
    pub fn is_cut(&self) -> bool {
        self.judged() >= self.state_limit
    }

    /// Forget how many were judged: paths can be walked again.
    pub fn reopen(&self) {
        self.judged.store(0, Ordering::Relaxed);
    }

    /// Which handlers never ran.
    pub fn unreached(&self) -> Vec<&'static str> {
        let handled = self.handled.load(Ordering::Relaxed);
        let all = HANDLERS.iter().enumerate();
        let missing = all.filter(|(bit, _)| handled & (1 << bit) == 0);
        missing.map(|(_, name)| *name).collect()
    }

    fn note(&self, input: &Input<Id>) {
        let name = match input {
            Input::Message { message, .. } => match message {
                Message::Packet(packet) => match packet.header.errand.part {
                    Part::Range(_) => "bcast",
                    Part::Routed { .. } => "mcast",
                },
                other => other.name(),
            },
            Input::Timer { .. } => "timer",
            Input::Writable(_) => "writable",
            _ => return,
        };
        if let Some(bit) = HANDLERS.iter().position(|one| *one == name) {
            self.handled.fetch_or(1 << bit, Ordering::Relaxed);
        }
    }

    /// The nodes with complete rosters and nothing on its way.
    fn placed(&self) -> Option<State> {
        let population = Population::new(self.nodes)?;
        let count = self.nodes as usize;
        let mut state = State {
            relays: Vec::new(),
            inboxes: vec![VecDeque::new(); count],
            stuck: vec![VecDeque::new(); count],
            starved: vec![BTreeSet::new(); count],
            timers: vec![BTreeMap::new(); count],
            failed: BTreeSet::new(),
            clock: Duration::ZERO,
            delivered: vec![BTreeMap::new(); self.posts.len()],
            receipts: vec![None; self.posts.len()],
        };
        for id in 0..self.nodes {
            state.relays.push(Arc::new(Relay::new(id, 1, self.config)));
        }
        let epoch = Epoch {
            root: 0,
            boot: 1,
            counter: 1,
            nonce: 0,
        };
        for rank in (0..self.nodes).map(Rank) {
            let levels = 0..population.levels();
            let ahead = |level: usize| Some(rank.ahead(1 << level, population).0);
            let behind = |level: usize| Some(rank.behind(1 << level, population).0);
            let placement = Placement {
                epoch,
                population,
                rank,
            };
            let view = View {
                placement,
                clockwise: levels.clone().map(ahead).collect(),
                counterclockwise: levels.map(behind).collect(),
            };
            self.handle(&mut state, rank.0, Input::View(view));
        }
        // Rosters are gathered in one order: it is what follows that is checked.
        while let Some(id) = (0..self.nodes).find(|id| !state.inboxes[*id as usize].is_empty()) {
            self.serve(&mut state, id);
        }
        state.timers = vec![BTreeMap::new(); count];
        state.starved = vec![BTreeSet::new(); count];
        self.handled.store(0, Ordering::Relaxed);
        Some(state)
    }

    fn start(&self) -> Option<State> {
        let gathering = Self {
            capacity: usize::MAX,
            ..Self::new(self.nodes, self.config, self.posts.clone())
        };
        let mut state = gathering.placed()?;
        for post in &self.posts {
            let mut out = Outbox::new();
            let relay = Arc::make_mut(state.relays.get_mut(post.from as usize)?);
            relay.publish(post.publish.clone(), &mut out).ok()?;
            self.perform(&mut state, post.from, &mut out);
        }
        Some(state)
    }

    fn handle(&self, state: &mut State, id: Id, input: Input<Id>) {
        self.note(&input);
        let mut out = Outbox::new();
        if let Some(relay) = state.relays.get_mut(id as usize) {
            Arc::make_mut(relay).handle(input, &mut out);
        }
        self.perform(state, id, &mut out);
    }

    fn perform(&self, state: &mut State, id: Id, out: &mut Effects<Id>) {
        let at = id as usize;
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send(state, id, to, message),
                Effect::Arm { timer, after } => {
                    state.timers[at].insert(timer, state.clock + after);
                }
                Effect::Disarm { timer } => {
                    state.timers[at].remove(&timer);
                }
                Effect::Event(Event::Deliver { id: packet, .. }) => {
                    if let Some(post) = self.post_of(packet.origin, packet.sequence) {
                        *state.delivered[post].entry(id).or_default() += 1;
                    }
                }
                Effect::Event(Event::Receipt(receipt)) => {
                    if let Some(post) = self.post_of(receipt.id.origin, receipt.id.sequence) {
                        state.receipts[post] = Some(receipt.is_complete());
                    }
                }
                Effect::Event(_) | Effect::Connect(_) | Effect::Disconnect(_) => {}
            }
        }
    }

    fn post_of(&self, from: Id, sequence: u64) -> Option<usize> {
        let mut of_origin = (0..self.posts.len()).filter(|post| self.posts[*post].from == from);
        of_origin.nth(usize::try_from(sequence).ok()?)
    }

    fn send(&self, state: &mut State, from: Id, to: Id, message: Message<Id>) {
        if state.failed.contains(&(from, to)) {
            return;
        }
        let is_blocked = !state.stuck[from as usize].is_empty();
        let has_room = state.inboxes[to as usize].len() < self.capacity;
        match self.full {
            Full::Blocks if is_blocked || !has_room => {
                state.stuck[from as usize].push_back((to, message));
            }
            Full::Refused if !has_room => {
                state.starved[to as usize].insert(from);
            }
            _ => state.inboxes[to as usize].push_back((from, message)),
        }
    }

    fn serve(&self, state: &mut State, id: Id) {
        if let Some((from, message)) = state.inboxes[id as usize].pop_front() {
            self.handle(state, id, Input::Message { from, message });
        }
        self.unblock(state);
    }

    /// Whoever waited for room sends what fits now.
    fn unblock(&self, state: &mut State) {
        for from in 0..self.nodes {
            while let Some((to, message)) = state.stuck[from as usize].pop_front() {
                let is_failed = state.failed.contains(&(from, to));
                if !is_failed && state.inboxes[to as usize].len() >= self.capacity {
                    state.stuck[from as usize].push_front((to, message));
                    break;
                }
                if !is_failed {
                    state.inboxes[to as usize].push_back((from, message));
                }
            }
        }
    }

    fn fire(&self, state: &mut State, id: Id) {
        let Some(due) = next_due(state) else { return };
        state.clock = due;
        let timers = &mut state.timers[id as usize];
        let fired: Vec<Timer> = (timers.iter())
            .filter(|(_, at)| **at == due)
            .map(|(timer, _)| *timer)
            .collect();
        for timer in fired {
            // An earlier one may have disarmed or moved it.
            if state.timers[id as usize].get(&timer) == Some(&due) {
                state.timers[id as usize].remove(&timer);
                let late = Duration::ZERO;
                self.handle(state, id, Input::Timer { timer, late });
            }
        }
    }

    /// Whether everything is delivered and all know it.
    fn has_ended(state: &State) -> bool {
        let is_idle = state.relays.iter().all(|relay| relay.is_idle());
        is_idle && state.receipts.iter().all(|receipt| *receipt == Some(true))
    }

    /// Whom a post is for.
    fn audience(&self, post: &Post) -> Vec<Id> {
        match &post.publish.destination {
            Destination::All => (0..self.nodes).filter(|id| *id != post.from).collect(),
            Destination::Peers(peers) => peers.clone(),
        }
    }

    /// Whether all whom a receipt calls reached have got it.
    fn is_true(&self, state: &State) -> bool {
        let said = self.posts.iter().zip(&state.receipts).zip(&state.delivered);
        let mut complete = said.filter(|((_, receipt), _)| **receipt == Some(true));
        complete.all(|((post, _), delivered)| {
            let audience = self.audience(post);
            audience.len() == delivered.len()
                && audience.iter().all(|id| delivered.contains_key(id))
        })
    }

    fn is_judged(&self) -> bool {
        if self.is_cut() {
            return false;
        }
        let judged = self.judged.fetch_add(1, Ordering::Relaxed);
        if judged.is_multiple_of(1 << 14) {
            (self.progress)(judged);
        }
        true
    }

    /// An end, and one that should not be.
    fn ends_badly(&self, state: &State) -> bool {
        let mut steps = Vec::new();
        self.steps(state, &mut steps);
        steps.is_empty() && !Self::has_ended(state)
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let is_blocked = |id: Id| !state.stuck[id as usize].is_empty();
        let ids = 0..self.nodes;
        let waiting = ids
            .clone()
            .filter(|id| !state.inboxes[*id as usize].is_empty());
        steps.extend(waiting.filter(|id| !is_blocked(*id)).map(Step::Serve));
        for id in ids.clone() {
            let has_room = state.inboxes[id as usize].len() < self.capacity;
            let starved = state.starved[id as usize].iter().filter(|_| has_room);
            steps.extend(starved.map(|sender| Step::Room(*sender, id)));
        }
        if state.failed.len() < 2 * self.failures {
            let inboxes = ids.clone().zip(&state.inboxes);
            let links: BTreeSet<(Id, Id)> = inboxes
                .flat_map(|(to, inbox)| inbox.iter().map(move |(from, _)| (*from, to)))
                .map(|(from, to)| (from.min(to), from.max(to)))
                .collect();
            steps.extend(links.into_iter().map(|(a, b)| Step::Fail(a, b)));
        }
        let is_quiet = state.inboxes.iter().all(VecDeque::is_empty)
            && state.stuck.iter().all(VecDeque::is_empty)
            && state.starved.iter().all(BTreeSet::is_empty);
        if is_quiet && !Self::has_ended(state) && state.clock < self.limit {
            let due = next_due(state);
            let timers = |id: &Id| state.timers[*id as usize].values().min().copied();
            let next = ids.filter(|id| due.is_some() && timers(id) == due);
            steps.extend(next.map(Step::Fire));
        }
    }
}

fn next_due(state: &State) -> Option<Duration> {
    state
        .timers
        .iter()
        .flat_map(BTreeMap::values)
        .min()
        .copied()
}

impl Model for Relays {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        self.start().into_iter().collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if self.is_cut() {
            return;
        }
        self.steps(state, actions);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Serve(id) => self.serve(&mut next, id),
            Step::Room(sender, id) => {
                next.starved[id as usize].remove(&sender);
                self.handle(&mut next, sender, Input::Writable(id));
            }
            Step::Fail(a, b) => {
                for (from, to) in [(a, b), (b, a)] {
                    next.failed.insert((from, to));
                    next.inboxes[to as usize].retain(|(sender, _)| *sender != from);
                    next.starved[to as usize].remove(&from);
                }
                self.unblock(&mut next);
            }
            Step::Fire(id) => self.fire(&mut next, id),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DELIVERY, |world: &Self, state: &State| {
                !world.is_judged() || !world.ends_badly(state)
            }),
            Property::always(PROGRESS, |world: &Self, state: &State| {
                state.clock < world.limit
            }),
            Property::always(ONCE, |_: &Self, state: &State| {
                let mut counts = state.delivered.iter().flat_map(BTreeMap::values);
                counts.all(|count| *count == 1)
            }),
            Property::always(TRUTH, Self::is_true),
        ]
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.is_cut()
    }
}
