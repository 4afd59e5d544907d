//! stateright's `Model` over a protocol and its channels.

use std::sync::atomic::{AtomicUsize, Ordering};

use binomesh_overlay::Outbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stateright::{Model, Property};

use super::channels::{Carriage, Channels, Letter};
use super::script::script;
use super::search::{Judged, Path, Searched};
use super::{Peer, Protocol, letters};

/// All processes and all messages under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State<N, M: super::channels::Slotted + Copy + Ord> {
    /// The members, by index.
    pub nodes: Vec<N>,
    /// The messages under way.
    pub channels: Channels<M>,
}

/// One step of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<M> {
    /// A process applies its spontaneous rules.
    Spontaneous(Peer),
    /// A process receives this letter.
    Receive(Letter<M>),
}

/// A state of a protocol's world.
pub type StateOf<P> = State<<P as Protocol>::Node, <P as Protocol>::Message>;

/// The garbage that is under way at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// No message, and in further starts every single possible message.
    EverySingle,
    /// One random sample of messages for every state of the tables.
    Sampled {
        /// The seed of the samples.
        seed: u64,
    },
}

/// A small world to search.
#[derive(Debug)]
pub struct World<P> {
    /// The protocol of its processes.
    pub protocol: P,
    /// The channels of the messages.
    pub carriage: Carriage,
    /// The garbage that is under way at the start.
    pub garbage: Garbage,
    /// The most fair rounds that may be needed for legitimacy.
    pub rounds: usize,
    /// The states that were judged.
    pub judged: Judged,
    /// Called now and then with the number of judged states.
    pub progress: fn(usize),
    rounds_max: AtomicUsize,
}

/// The name of the property that no step leads out of legitimacy.
pub const CLOSURE: &str = "closure";
/// The name of the property that fair rounds lead to legitimacy.
pub const RECOVERY: &str = "recovery";

impl<P: Protocol> World<P> {
    /// A world to search.
    pub const fn new(
        protocol: P,
        carriage: Carriage,
        garbage: Garbage,
        rounds: usize,
        state_limit: usize,
    ) -> Self {
        Self {
            protocol,
            carriage,
            garbage,
            rounds,
            judged: Judged::up_to(state_limit),
            progress: |_| (),
            rounds_max: AtomicUsize::new(0),
        }
    }

    /// The most fair rounds that any state needed.
    pub fn rounds_max(&self) -> usize {
        self.rounds_max.load(Ordering::Relaxed)
    }

    /// Whether all tables are right, and every message under way is one that a legitimate
    /// configuration may have.
    pub fn is_legitimate(&self, state: &StateOf<P>) -> bool {
        let letters = state.channels.letters();
        letters
            .iter()
            .all(|letter| self.protocol.is_legitimate(letter))
            && self.protocol.is_right(&state.nodes)
    }

    /// Run one fair round: all messages under way arrive, then every process applies its
    /// spontaneous rules.
    pub fn round(&self, state: &mut StateOf<P>) {
        for letter in state.channels.letters().to_vec() {
            self.receive(state, letter);
        }
        for me in self.processes() {
            self.apply_spontaneous(state, me);
        }
    }

    /// The rounds from `state` to legitimacy, if they are few enough.
    pub fn rounds_to_legitimacy(&self, state: &StateOf<P>) -> Option<usize> {
        if self.is_legitimate(state) {
            return Some(0);
        }
        let mut state = state.clone();
        (1..=self.rounds).find(|_| {
            self.round(&mut state);
            self.is_legitimate(&state)
        })
    }

    /// A step that leads out of a legitimate state, if there is one.
    pub fn way_out(&self, state: &StateOf<P>) -> Option<Step<P::Message>> {
        if !self.is_legitimate(state) {
            return None;
        }
        let mut steps = Vec::new();
        self.actions(state, &mut steps);
        steps.into_iter().find(|&step| {
            let next = self.next_state(state, step);
            next.is_some_and(|next| !self.is_legitimate(&next))
        })
    }

    fn recovers(&self, state: &StateOf<P>) -> bool {
        let Some(before) = self.judged.next() else {
            return true;
        };
        if before.is_multiple_of(1 << 14) {
            (self.progress)(before);
        }
        let rounds = self.rounds_to_legitimacy(state);
        self.rounds_max
            .fetch_max(rounds.unwrap_or(0), Ordering::Relaxed);
        rounds.is_some()
    }

    fn processes(&self) -> impl Iterator<Item = Peer> + use<P> {
        (0..self.protocol.members() + self.protocol.strangers()).map(Peer::at)
    }

    fn apply_spontaneous(&self, state: &mut StateOf<P>, me: Peer) {
        let mut out = Outbox::new();
        // A stranger has no state: it repeats itself for ever.
        let mut stranger = self.protocol.clean(me.index());
        let node = state.nodes.get_mut(me.index()).unwrap_or(&mut stranger);
        self.protocol.apply_spontaneous(me, node, &mut out);
        self.post(state, me, out);
    }

    fn receive(&self, state: &mut StateOf<P>, letter: Letter<P::Message>) {
        let Letter { to, from, message } = letter;
        let mut out = Outbox::new();
        if !state.channels.take(&letter) {
            return;
        }
        if let Some(node) = state.nodes.get_mut(to.index()) {
            self.protocol.on_message(to, node, from, message, &mut out);
        }
        self.post(state, to, out);
    }

    fn post(&self, state: &mut StateOf<P>, from: Peer, mut out: Outbox<Peer, P::Message>) {
        let members = self.protocol.members();
        for letter in letters(from, &mut out).filter(|letter| letter.to.index() < members) {
            state.channels.push(letter, self.carriage);
        }
    }

    /// Every combination of states in which the members may start.
    fn tables(&self) -> Vec<Vec<P::Node>> {
        let mut all = vec![Vec::new()];
        for index in 0..self.protocol.members() {
            let choices = || (0..).map_while(|choice| self.protocol.start(index, choice));
            let extend = |nodes: &Vec<P::Node>| {
                let nodes = nodes.clone();
                choices().map(move |node| [nodes.clone(), vec![node]].concat())
            };
            all = all.iter().flat_map(extend).collect();
        }
        all
    }
}

impl<P: Protocol> Model for World<P> {
    type State = StateOf<P>;
    type Action = Step<P::Message>;

    fn init_states(&self) -> Vec<Self::State> {
        let members = (0..self.protocol.members()).map(Peer::at);
        let garbage: Vec<_> = members.flat_map(|to| self.protocol.garbage(to)).collect();
        let state = |nodes: &[P::Node], on_the_way: &[Letter<P::Message>]| {
            let mut channels = Channels::new();
            for &letter in on_the_way {
                channels.push(letter, self.carriage);
            }
            let nodes = nodes.to_vec();
            State { nodes, channels }
        };
        let mut states = Vec::new();
        let tables = self.tables();
        match self.garbage {
            Garbage::EverySingle => {
                for nodes in &tables {
                    states.push(state(nodes, &[]));
                    states.extend(garbage.iter().map(|&letter| state(nodes, &[letter])));
                }
            }
            Garbage::Sampled { seed } => {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                for nodes in &tables {
                    // 4 letters on average: more letters make states broader, but not deeper.
                    let share = random.random_range(0.0..8.0 / garbage.len().max(8) as f64);
                    let mut some = garbage.clone();
                    some.retain(|_| random.random_bool(share));
                    states.push(state(nodes, &some));
                }
            }
        }
        states
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        if self.judged.is_full() {
            return;
        }
        actions.extend(self.processes().map(Step::Spontaneous));
        actions.extend(state.channels.next(self.carriage).map(Step::Receive));
    }

    fn next_state(&self, state: &Self::State, step: Self::Action) -> Option<Self::State> {
        let mut next = state.clone();
        match step {
            Step::Spontaneous(me) => self.apply_spontaneous(&mut next, me),
            Step::Receive(letter) => self.receive(&mut next, letter),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CLOSURE, |world, state| {
                world.judged.is_full() || world.way_out(state).is_none()
            }),
            Property::always(RECOVERY, Self::recovers),
        ]
    }

    fn within_boundary(&self, _state: &Self::State) -> bool {
        !self.judged.is_full()
    }
}

impl<P: Protocol> Searched for World<P> {
    /// The most fair rounds from any state to legitimacy.
    type Facts = usize;

    const PROPERTIES: &'static [&'static str] = &[CLOSURE, RECOVERY];

    fn judged(&self) -> &Judged {
        &self.judged
    }

    fn facts(&self) -> usize {
        self.rounds_max()
    }

    fn script(&self, property: &str, path: Path<Self>) -> String {
        script(self, property, &path)
    }
}
