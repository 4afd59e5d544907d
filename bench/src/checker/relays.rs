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

mod run;
mod search;
mod walk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use binomesh_routing::packet::{Confirmation, Message, Part, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Due, Input, Publish, Relay, Timer};
use bytes::Bytes;
use stateright::{Model, Property};

pub use search::{Found, search};
pub use walk::{Schedules, Walked, walk};

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
            payloads: Bytes::from_static(b"x").into(),
            destination,
            strategy,
            due: Due::Settled,
            confirmation: Confirmation::Relayed,
            is_ordered: false,
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
    /// Each at any time, and not all at the start in this order.
    pub at_any_time: bool,
    /// How many messages an inbox holds.
    pub capacity: usize,
    /// What becomes of more.
    pub full: Full,
    /// Answers and questions are handled as soon as they are sent, in their order, and
    /// copies alone wait in inboxes.
    pub answers_at_once: bool,
    /// States that differ in what was counted alone are the same.
    pub is_uncounted: bool,
    /// Deep paths are searched first, which takes little memory and shows long ones.
    pub depth_first: bool,
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
    /// Answers that are handled at once: from whom, to whom.
    answers: VecDeque<(Id, Id, Message<Id>)>,
    /// Of a blocked sender: what it could not send.
    stuck: Vec<VecDeque<(Id, Message<Id>)>>,
    /// Who shall be told when an inbox has room.
    starved: Vec<BTreeSet<Id>>,
    timers: Vec<BTreeMap<Timer, Duration>>,
    failed: BTreeSet<(Id, Id)>,
    /// Which posts are still to be published.
    due: BTreeSet<usize>,
    clock: Duration,
    delivered: Vec<BTreeMap<Id, u8>>,
    /// Of each post: whether its receipt says that all were reached.
    receipts: Vec<Option<bool>>,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This post is published.
    Post(usize),
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(post) => write!(f, "post {post} is published"),
            Self::Serve(id) => write!(f, "{id} handles its next message"),
            Self::Room(sender, id) => write!(f, "{sender} learns that {id} has room"),
            Self::Fail(a, b) => write!(f, "the link between {a} and {b} fails"),
            Self::Fire(id) => write!(f, "the next timers of {id} fire"),
        }
    }
}

impl Relays {
    /// A world without failures, in which the node's own channels hold four. There is no
    /// clock, so custody is not delayed, and what copies take on their way not counted.
    pub const fn new(nodes: u32, config: Config, posts: Vec<Post>) -> Self {
        let config = Config {
            custody_delay: Duration::ZERO,
            custody_bytes_per_second: 0,
            ..config
        };
        Self {
            nodes,
            config,
            posts,
            at_any_time: false,
            capacity: 4,
            full: Full::Refused,
            answers_at_once: false,
            is_uncounted: false,
            depth_first: false,
            failures: 0,
            limit: Duration::from_secs(120),
            state_limit: usize::MAX,
            progress: |_| (),
            judged: AtomicUsize::new(0),
            handled: AtomicU32::new(0),
        }
    }

    /// Every node broadcasts, each at any time, and all buffers are as small as can be:
    /// an inbox of one message, room for one duty, and one copy on its way to each peer.
    pub fn all_to_all(nodes: u32, config: Config, strategy: Strategy) -> Self {
        let post = |from| Post::new(from, Destination::All, strategy);
        let world = Self {
            capacity: 1,
            at_any_time: true,
            ..Self::new(nodes, config, (0..nodes).map(post).collect())
        };
        let config = Config {
            max_duties: 1,
            // Counted, in no time.
            custody_bytes_per_second: u32::MAX,
            peer_window: 1,
            ..world.config
        };
        Self { config, ..world }
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

    /// Whether everything is delivered and all know it.
    fn has_ended(state: &State) -> bool {
        let is_idle = state.relays.iter().all(|relay| relay.is_idle());
        is_idle && state.receipts.iter().all(|receipt| *receipt == Some(true))
    }

    /// Whom a post is for.
    fn audience(&self, post: &Post) -> Vec<Id> {
        match &post.publish.destination {
            Destination::Peers(peers) => peers.clone(),
            Destination::All | Destination::AllBut(_) => {
                (0..self.nodes).filter(|id| *id != post.from).collect()
            }
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

    /// The property that a state breaks, if it is not the last one.
    fn broken(&self, state: &State) -> Option<&'static str> {
        let broken = [
            (PROGRESS, self.is_endless(state)),
            (ONCE, Self::is_twice(state)),
            (TRUTH, !self.is_true(state)),
        ];
        broken.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }

    fn is_endless(&self, state: &State) -> bool {
        state.clock >= self.limit
    }

    fn is_twice(state: &State) -> bool {
        let mut counts = state.delivered.iter().flat_map(BTreeMap::values);
        counts.any(|count| *count > 1)
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
        self.take(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DELIVERY, |world: &Self, state: &State| {
                !world.is_judged() || !world.ends_badly(state)
            }),
            Property::always(PROGRESS, |world: &Self, state: &State| {
                !world.is_endless(state)
            }),
            Property::always(ONCE, |_: &Self, state: &State| !Self::is_twice(state)),
            Property::always(TRUTH, Self::is_true),
        ]
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.is_cut()
    }
}
