//! How the world runs: inputs go into the relays, and their effects are performed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binomesh_overlay::{Effect, Epoch, Outbox, Placement, Population, Rank};
use binomesh_routing::packet::Message;
use binomesh_routing::{Effects, Event, Input, Relay, Timer, View};

use super::{Full, Id, Relays, State, Step};

impl Relays {
    /// The nodes with complete rosters and no message under way.
    fn placed(&self) -> Option<State> {
        let population = Population::new(self.nodes)?;
        let count = self.nodes as usize;
        let mut state = State {
            relays: Vec::new(),
            inboxes: vec![VecDeque::new(); count],
            answers: VecDeque::new(),
            stuck: vec![VecDeque::new(); count],
            starved: vec![BTreeSet::new(); count],
            timers: vec![BTreeMap::new(); count],
            failed: BTreeSet::new(),
            due: BTreeSet::new(),
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
        // Rosters are gathered in one order only, since the check begins after that.
        while let Some(id) = (0..self.nodes).find(|id| !state.inboxes[*id as usize].is_empty()) {
            self.serve(&mut state, id);
        }
        state.timers = vec![BTreeMap::new(); count];
        state.starved = vec![BTreeSet::new(); count];
        self.handled.store(0, Ordering::Relaxed);
        Some(state)
    }

    pub(super) fn start(&self) -> Option<State> {
        let gathering = Self {
            capacity: usize::MAX,
            config: self.config,
            ..Self::new(self.nodes, self.config, self.posts.clone())
        };
        let mut state = gathering.placed()?;
        state.due = (0..self.posts.len()).collect();
        while let Some(post) = state.due.first().filter(|_| !self.at_any_time) {
            let post = *post;
            self.post(&mut state, post)?;
        }
        Some(state)
    }

    /// Publish a post. `None` if the relay does not accept it.
    fn post(&self, state: &mut State, number: usize) -> Option<()> {
        state.due.remove(&number);
        let post = self.posts.get(number)?;
        let mut out = Outbox::new();
        let relay = Arc::make_mut(state.relays.get_mut(post.from as usize)?);
        relay.publish(post.publish.clone(), &mut out).ok()?;
        self.perform(state, post.from, &mut out);
        Some(())
    }

    /// Apply a step to a state.
    pub(super) fn take(&self, state: &mut State, step: Step) {
        match step {
            // A post that is not accepted never gets a receipt, which is an error.
            Step::Post(number) => _ = self.post(state, number),
            Step::Serve(id) => self.serve(state, id),
            Step::Room(sender, id) => {
                state.starved[id as usize].remove(&sender);
                self.handle(state, sender, Input::Writable(id));
            }
            Step::Fail(a, b) => {
                for (from, to) in [(a, b), (b, a)] {
                    state.failed.insert((from, to));
                    state.inboxes[to as usize].retain(|(sender, _)| *sender != from);
                    state.starved[to as usize].remove(&from);
                }
                self.unblock(state);
            }
            Step::Fire(id) => self.fire(state, id),
        }
        while let Some((from, to, message)) = state.answers.pop_front() {
            self.handle(state, to, Input::Message { from, message });
        }
    }

    pub(super) fn handle(&self, state: &mut State, id: Id, input: Input<Id>) {
        self.note(&input);
        let mut out = Outbox::new();
        if let Some(relay) = state.relays.get_mut(id as usize) {
            let relay = Arc::make_mut(relay);
            relay.handle(input, &mut out);
            if self.is_uncounted {
                relay.reset_counters();
            }
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
                Effect::Event(Event::Deliver(delivery)) => {
                    for (message, ..) in delivery.messages() {
                        if let Some(post) = self.post_of(message.origin, message.sequence) {
                            *state.delivered[post].entry(id).or_default() += 1;
                        }
                    }
                }
                Effect::Event(Event::Receipt(receipt)) => {
                    if let Some(post) = self.post_of(receipt.id.origin, receipt.id.sequence) {
                        state.receipts[post] = Some(receipt.is_complete());
                    }
                }
                Effect::Event(_)
                | Effect::Connect(_)
                | Effect::Disconnect(_)
                | Effect::Doubt(_) => {}
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
        if self.answers_at_once && !matches!(message, Message::Packet(_)) {
            return state.answers.push_back((from, to, message));
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

    pub(super) fn serve(&self, state: &mut State, id: Id) {
        if let Some((from, message)) = state.inboxes[id as usize].pop_front() {
            self.handle(state, id, Input::Message { from, message });
        }
        self.unblock(state);
    }

    /// Let each blocked sender send as many messages as fit now.
    pub(super) fn unblock(&self, state: &mut State) {
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

    pub(super) fn fire(&self, state: &mut State, id: Id) {
        let Some(due) = next_due(state) else { return };
        state.clock = due;
        let timers = &mut state.timers[id as usize];
        let fired: Vec<Timer> = (timers.iter())
            .filter(|(_, at)| **at == due)
            .map(|(timer, _)| *timer)
            .collect();
        for timer in fired {
            // An earlier timer may have disarmed or moved this one.
            if state.timers[id as usize].get(&timer) == Some(&due) {
                state.timers[id as usize].remove(&timer);
                let late = Duration::ZERO;
                self.handle(state, id, Input::Timer { timer, late });
            }
        }
    }

    pub(super) fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let is_blocked = |id: Id| !state.stuck[id as usize].is_empty();
        let ids = 0..self.nodes;
        let due = state.due.iter().copied();
        steps.extend(
            due.filter(|post| !is_blocked(self.posts[*post].from))
                .map(Step::Post),
        );
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
        let is_quiet = state.due.is_empty()
            && state.inboxes.iter().all(VecDeque::is_empty)
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
