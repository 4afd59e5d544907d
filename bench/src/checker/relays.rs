//! stateright's `Model` over the shipped relays: [SFT06] §4, its verification of
//! the protocol, done with the protocol itself.
//!
//! ```text
//!   relay ──▶ inbox of each node, bounded, in order of arrival ──▶ relay
//!               │ full: lost, and told when there is room    (what the node does)
//!               └ full: its sender waits and reads nothing   (what deadlocks)
//! ```
//!
//! Any inbox may be served next, and any link with a message on it may fail, at most `failures` in
//! all. Time stands still while a message is under way, and then goes on to the next timer. Among
//! nodes whose timers are due at once, any may be first. The clock is part of the state, so an
//! execution without an end would reach its time limit, which is an error.

mod run;
mod walk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binomesh_routing::packet::{Confirmation, Message, Part, Topic};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{Config, Destination, Due, Input, Publish, Relay, Timer};
use bytes::Bytes;
use stateright::{Model, Property};

use super::search::{Judged, Path, Searched};

pub use walk::{Schedules, Walked, walk};

/// The rank of a node, as its id.
pub type Id = u32;

/// What happens to a message to a full inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The message is lost, and its sender is told when there is room.
    Refused,
    /// The sender waits until there is room, and reads nothing meanwhile.
    Blocks,
}

/// A message to publish, at the start or at any time.
#[derive(Debug, Clone)]
pub struct Post {
    /// The node that publishes the message.
    pub from: Id,
    /// The message to publish.
    pub publish: Publish<Id>,
}

impl Post {
    /// A post of one byte to these destinations, by a strategy.
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
    /// The number of nodes. All know each other's ranks.
    pub nodes: u32,
    /// The bounds and the router of the relays.
    pub config: Config,
    /// The messages that are published.
    pub posts: Vec<Post>,
    /// Whether posts may come at any time, instead of at the start in this order.
    pub at_any_time: bool,
    /// How many messages an inbox holds.
    pub capacity: usize,
    /// What happens to messages to a full inbox.
    pub full: Full,
    /// Whether answers and questions are handled as soon as they are sent, in their order, so that
    /// only copies wait in inboxes.
    pub answers_at_once: bool,
    /// Whether states that differ only in counters are the same.
    pub is_uncounted: bool,
    /// Whether deep paths are searched first, which takes little memory and shows long paths.
    pub depth_first: bool,
    /// The most links that fail.
    pub failures: usize,
    /// The longest execution, by its own clock.
    pub limit: Duration,
    /// The states that were judged.
    pub judged: Judged,
    /// Called now and then with the number of judged states.
    pub progress: fn(usize),
    /// A bit for each of [`HANDLERS`] that has run.
    handled: AtomicU32,
}

/// The inputs that a relay can have to handle in such a world.
pub const HANDLERS: [&str; 8] = [
    "bcast", "mcast", "custody", "done", "refused", "inquire", "timer", "writable",
];

/// All relays and all messages under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    relays: Vec<Arc<Relay<Id>>>,
    inboxes: Vec<VecDeque<(Id, Message<Id>)>>,
    /// Answers and questions that are handled at once: sender, receiver and message.
    answers: VecDeque<(Id, Id, Message<Id>)>,
    /// For each blocked sender, the messages that it could not send.
    stuck: Vec<VecDeque<(Id, Message<Id>)>>,
    /// For each inbox, the senders that shall be told when it has room.
    starved: Vec<BTreeSet<Id>>,
    timers: Vec<BTreeMap<Timer, Duration>>,
    failed: BTreeSet<(Id, Id)>,
    /// The posts that are not published yet.
    due: BTreeSet<usize>,
    clock: Duration,
    delivered: Vec<BTreeMap<Id, u8>>,
    /// For each post, whether its receipt says that all were reached.
    receipts: Vec<Option<bool>>,
}

/// A step of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This post is published.
    Post(usize),
    /// A node handles the first message of its inbox.
    Serve(Id),
    /// A node learns that another node's inbox has room.
    Room(Id, Id),
    /// A link fails, and the messages on it are lost.
    Fail(Id, Id),
    /// No message is under way: the next timers of a node fire.
    Fire(Id),
}

/// The name of the property that an execution ends with everything delivered.
pub const DELIVERY: &str = "delivery";
/// The name of the property that every execution ends.
pub const PROGRESS: &str = "progress";
/// The name of the property that no node gets a message twice.
pub const ONCE: &str = "once";
/// The name of the property that a message whose receipt is complete has come to all nodes that it
/// is for, and to no other.
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
    /// A world without failures, in which inboxes hold four messages, as a channel of the node
    /// does. Messages take no time here, so custody is not delayed, and the bytes of copies under
    /// way are not counted.
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
            judged: Judged::up_to(usize::MAX),
            progress: |_| (),
            handled: AtomicU32::new(0),
        }
    }

    /// A world in which every node broadcasts, each at any time. All buffers are as small as
    /// possible: an inbox of one message, room for one duty, and one copy under way to each peer.
    pub fn all_to_all(nodes: u32, config: Config, strategy: Strategy) -> Self {
        let post = |from| Post::new(from, Destination::All, strategy);
        let world = Self {
            capacity: 1,
            at_any_time: true,
            ..Self::new(nodes, config, (0..nodes).map(post).collect())
        };
        let config = Config {
            max_duties: 1,
            // At this rate copies are counted, and take no time.
            custody_bytes_per_second: u32::MAX,
            peer_window: 1,
            ..world.config
        };
        Self { config, ..world }
    }

    /// The names of the handlers that never ran.
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

    /// Whether every relay has finished, and every post has a receipt that says that all were
    /// reached.
    fn has_ended(state: &State) -> bool {
        let is_idle = state.relays.iter().all(|relay| relay.is_idle());
        is_idle && state.receipts.iter().all(|receipt| *receipt == Some(true))
    }

    /// The nodes that a post is for.
    fn audience(&self, post: &Post) -> Vec<Id> {
        match &post.publish.destination {
            Destination::Peers(peers) => peers.clone(),
            Destination::All | Destination::AllBut(_) => {
                (0..self.nodes).filter(|id| *id != post.from).collect()
            }
        }
    }

    /// Whether each message whose receipt is complete has come to exactly the nodes that it is for.
    fn is_true(&self, state: &State) -> bool {
        let said = self.posts.iter().zip(&state.receipts).zip(&state.delivered);
        let mut complete = said.filter(|((_, receipt), _)| **receipt == Some(true));
        complete.all(|((post, _), delivered)| {
            let audience = self.audience(post);
            audience.len() == delivered.len()
                && audience.iter().all(|id| delivered.contains_key(id))
        })
    }

    /// The property that this state breaks, apart from [`DELIVERY`], which only an end can break.
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
        let before = self.judged.next();
        if let Some(before) = before.filter(|before| before.is_multiple_of(1 << 14)) {
            (self.progress)(before);
        }
        before.is_some()
    }

    /// Whether this state is an end without everything delivered.
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
        if self.judged.is_full() {
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
        !self.judged.is_full()
    }
}

impl Searched for Relays {
    /// The members of [`HANDLERS`] that never ran.
    type Facts = Vec<&'static str>;

    const PROPERTIES: &'static [&'static str] = &[DELIVERY, PROGRESS, ONCE, TRUTH];

    fn judged(&self) -> &Judged {
        &self.judged
    }

    fn is_depth_first(&self) -> bool {
        self.depth_first
    }

    fn facts(&self) -> Vec<&'static str> {
        self.unreached()
    }

    fn script(&self, property: &str, path: Path<Self>) -> String {
        let steps = path.iter().filter_map(|(_, step)| step.as_ref());
        let steps: String = steps.map(|step| format!("  {step}\n")).collect();
        format!("{property} fails:\n{steps}")
    }
}
