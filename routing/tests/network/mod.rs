//! A seeded network of relays in virtual time, with latency, loss, pauses, crashes, restarts
//! and new epochs. The relays are the shipped ones. The network counts each delivery when the
//! relay reports it.
#![allow(unreachable_pub, reason = "a part of it is shared with the benchmark")]

pub mod single;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use binomesh_overlay::{Effect, Epoch, Outbox, Placement, Population, Rank};
use binomesh_routing::packet::{
    Content, CustodyRefusal, Message, Packet, PacketId, Part, Payloads, Signature, State, Topic,
};
use binomesh_routing::relay::{PublishError, RelayStats};
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{
    Config, Destination, Due, Event, Input, Ordered, Publish, Receipt, Relay, Timer, View,
};
use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub type Id = PacketId<u32>;

/// The change that a liar makes to a message that it sends. With `None` the message is not
/// sent.
pub type Twist = fn(Message<u32>) -> Option<Message<u32>>;

/// How the network treats messages.
#[derive(Debug, Clone)]
pub struct Conditions {
    pub latency_us: std::ops::Range<u64>,
    /// The probability that a message is lost. Packets and acknowledgements are lost alike.
    pub loss: f64,
    /// The longest time from a crash or a goodbye until each node hears of it.
    pub verdict_us: u64,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            latency_us: 100..2_000,
            loss: 0.0,
            verdict_us: 300_000,
        }
    }
}

/// A message that a relay accepted, and the epoch of the relay at that time.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub epoch: u64,
    pub destination: Destination<u32>,
    pub awaited: Vec<u32>,
    /// Members that the message does not expect: the spared ones, and those whose goodbye the
    /// origin had heard.
    pub absent: BTreeSet<u32>,
}

#[derive(Clone)]
struct Node {
    relay: Relay<u32>,
    boot: u64,
    timers: BTreeMap<Timer, u64>,
    is_alive: bool,
    paused_until: u64,
    backlog: VecDeque<What>,
}

#[derive(Debug, Clone)]
enum What {
    Input(Input<u32>),
    Fire { timer: Timer, token: u64, due: u64 },
    Resume,
}

#[derive(Clone)]
pub struct Network {
    pub seed: u64,
    pub rng: ChaCha8Rng,
    pub now_us: u64,
    pub conditions: Conditions,
    pub config: Config,
    /// The strategy of messages that are published from now on.
    pub strategy: Strategy,
    /// Whether messages that are published from now on are numbered.
    pub is_ordered: bool,
    nodes: BTreeMap<u32, Node>,
    queue: BTreeMap<(u64, u64), (u32, u64, What)>,
    serial: u64,
    epochs: u64,
    pub members: Vec<u32>,
    /// How often each boot of each node delivered each message.
    pub deliveries: BTreeMap<(u32, u64, Id), u32>,
    /// The messages that each boot of each node delivered, in order.
    pub order: BTreeMap<(u32, u64), Vec<Id>>,
    /// The numbered messages that each node delivered, with their places in the order.
    pub places: BTreeMap<u32, Vec<(Id, Ordered)>>,
    /// The payload that each node delivered last under an id.
    pub payloads: BTreeMap<(u32, Id), Bytes>,
    pub depth: BTreeMap<(Id, u32), u32>,
    pub receipts: BTreeMap<Id, Vec<Receipt<u32>>>,
    pub accepted: BTreeMap<Id, Accepted>,
    pub complete_rosters: usize,
    pub drained: BTreeSet<u32>,
    pub packets: u64,
    /// The receiver and the part of each copy that a node has sent, in order.
    pub copied: BTreeMap<u32, Vec<(u32, Part)>>,
    /// Whether hosts refuse copies without a signature. Hosts always refuse a signature that
    /// the current key did not make over the content of the copy.
    pub requires: bool,
    /// The current key, by which all origins sign.
    key: u8,
    /// The nodes that took a copy without a signature, with the id of the message. Such a node
    /// may hand on an unsigned copy.
    misled: BTreeSet<(u32, Id)>,
    /// The liar, and the change that it makes to the messages that it sends.
    pub liar: Option<(u32, Twist)>,
    /// Members that no node's tables name.
    pub unnamed: BTreeSet<u32>,
    /// Pairs (from, to) between which no message arrives.
    pub cuts: BTreeSet<(u32, u32)>,
    /// The links, as pairs (holder, peer).
    pub links: BTreeSet<(u32, u32)>,
    /// The members of each epoch, by rank.
    pub history: BTreeMap<u64, Vec<u32>>,
    /// Pairs (node, peer): the node has heard the goodbye of the peer, and has not heard since
    /// that the peer is up.
    left: BTreeSet<(u32, u32)>,
}

impl Network {
    /// N relays with the ids 1000, 1001 and so on, in a seeded order of ranks. They are placed
    /// in one epoch and have complete rosters.
    pub fn new(n: u32, seed: u64, conditions: Conditions, config: Config) -> Self {
        let mut network = Self::unplaced(n, seed, conditions, config);
        let members = network.members.clone();
        network.place(&members);
        network.run_for(3_000_000);
        network
    }

    pub fn unplaced(n: u32, seed: u64, conditions: Conditions, config: Config) -> Self {
        let mut network = Self {
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now_us: 0,
            conditions,
            config,
            strategy: Strategy::default(),
            is_ordered: false,
            nodes: BTreeMap::new(),
            queue: BTreeMap::new(),
            serial: 0,
            epochs: 0,
            members: Vec::new(),
            deliveries: BTreeMap::new(),
            order: BTreeMap::new(),
            places: BTreeMap::new(),
            payloads: BTreeMap::new(),
            depth: BTreeMap::new(),
            receipts: BTreeMap::new(),
            accepted: BTreeMap::new(),
            complete_rosters: 0,
            drained: BTreeSet::new(),
            packets: 0,
            copied: BTreeMap::new(),
            requires: false,
            key: 0,
            misled: BTreeSet::new(),
            liar: None,
            unnamed: BTreeSet::new(),
            cuts: BTreeSet::new(),
            links: BTreeSet::new(),
            history: BTreeMap::new(),
            left: BTreeSet::new(),
        };
        let mut ids: Vec<u32> = (1000..1000 + n).collect();
        for at in (1..ids.len()).rev() {
            let other = network.rng.random_range(0..=at);
            ids.swap(at, other);
        }
        for id in &ids {
            network.start(*id, 1);
        }
        network.members = ids;
        network
    }

    pub fn start(&mut self, id: u32, boot: u64) {
        let node = Node {
            relay: Relay::new(id, boot, self.config),
            boot,
            timers: BTreeMap::new(),
            is_alive: true,
            paused_until: 0,
            backlog: VecDeque::new(),
        };
        self.nodes.insert(id, node);
    }

    /// Starts a new epoch with these members, in the order of ranks. Each member hears of it
    /// within 20 ms.
    pub fn place(&mut self, members: &[u32]) {
        self.epochs += 1;
        self.members = members.to_vec();
        self.history.insert(self.epochs, members.to_vec());
        for rank in 0..members.len() {
            let delay = self.rng.random_range(0..20_000);
            self.tell_view(self.epochs, rank, delay);
        }
    }

    /// Starts a new epoch with these members. The `silent` ones have died before any node
    /// linked to them, so no node's tables name them.
    pub fn place_without(&mut self, members: &[u32], silent: &[u32]) {
        for id in silent {
            self.unnamed.insert(*id);
            self.nodes.get_mut(id).unwrap().is_alive = false;
        }
        self.place(members);
    }

    pub fn epoch(&self, counter: u64) -> Epoch<u32> {
        Epoch {
            root: 7,
            boot: 1,
            counter,
            nonce: 0,
        }
    }

    fn tell_view(&mut self, counter: u64, rank: usize, delay: u64) {
        let members = self.history[&counter].clone();
        let population = Population::new(members.len() as u32).unwrap();
        let mine = Rank(rank as u32);
        let at =
            |rank: Rank| Some(members[rank.0 as usize]).filter(|id| !self.unnamed.contains(id));
        let levels = 0..population.levels();
        let view = View {
            placement: Placement {
                epoch: self.epoch(counter),
                population,
                rank: mine,
            },
            clockwise: levels
                .clone()
                .map(|i| at(mine.ahead(1 << i, population)))
                .collect(),
            counterclockwise: levels
                .map(|i| at(mine.behind(1 << i, population)))
                .collect(),
        };
        self.input_after(members[rank], delay, Input::View(view));
    }

    /// Tells a node its place in the newest epoch, after a restart.
    pub fn tell_place(&mut self, id: u32) {
        let rank = self
            .members
            .iter()
            .position(|member| *member == id)
            .unwrap();
        self.tell_view(self.epochs, rank, 0);
    }

    pub fn input_after(&mut self, to: u32, delay: u64, input: Input<u32>) {
        self.schedule(to, delay, What::Input(input));
    }

    /// Tells each relay that the round-trip time to each other member is `time`.
    pub fn tell_round_trips(&mut self, time: Duration) {
        for at in self.members.clone() {
            for peer in self.members.clone() {
                self.input_after(at, 0, Input::RoundTrip { peer, time });
            }
        }
    }

    fn schedule(&mut self, to: u32, delay: u64, what: What) {
        self.serial += 1;
        let boot = self.nodes.get(&to).map_or(0, |node| node.boot);
        self.queue
            .insert((self.now_us + delay, self.serial), (to, boot, what));
    }

    /// Pauses a process. Its messages and timers wait until the pause ends.
    pub fn pause(&mut self, id: u32, us: u64) {
        let until = self.now_us + us;
        self.nodes.get_mut(&id).unwrap().paused_until = until;
        self.schedule(id, us, What::Resume);
    }

    pub fn is_paused(&self, id: u32) -> bool {
        self.nodes[&id].paused_until > self.now_us
    }

    /// Ends a process without a goodbye. Each other node gets a verdict within `verdict_us`.
    pub fn crash(&mut self, id: u32) {
        self.nodes.get_mut(&id).unwrap().is_alive = false;
        for other in self.nodes.keys().copied().collect::<Vec<_>>() {
            if other != id {
                let delay = self.rng.random_range(0..=self.conditions.verdict_us);
                self.input_after(other, delay, Input::PeerDown(id));
            }
        }
    }

    /// Ends a process with a goodbye. Each other node hears the goodbye within `verdict_us`.
    pub fn leave(&mut self, id: u32) {
        self.nodes.get_mut(&id).unwrap().is_alive = false;
        for other in self.nodes.keys().copied().collect::<Vec<_>>() {
            if other != id {
                let delay = self.rng.random_range(0..=self.conditions.verdict_us);
                self.input_after(other, delay, Input::PeerLeft(id));
            }
        }
    }

    /// Starts a process again at its old rank. Each other node has a link to it within 20 ms.
    pub fn come_back(&mut self, id: u32, boot: u64) {
        self.start(id, boot);
        self.tell_place(id);
        for other in self.nodes.keys().copied().collect::<Vec<_>>() {
            if other != id {
                let delay = self.rng.random_range(0..20_000);
                self.input_after(other, delay, Input::PeerUp(id));
            }
        }
    }

    pub fn is_alive(&self, id: u32) -> bool {
        self.nodes[&id].is_alive
    }

    pub fn stats(&self, id: u32) -> RelayStats {
        self.nodes[&id].relay.stats()
    }

    pub fn relay(&self, id: u32) -> &Relay<u32> {
        &self.nodes[&id].relay
    }

    pub fn publish(&mut self, from: u32, payload: usize) -> Result<Id, PublishError<u32>> {
        self.publish_to(from, Destination::All, payload, None)
    }

    pub fn publish_to(
        &mut self,
        from: u32,
        destination: Destination<u32>,
        payload: usize,
        deadline: Option<Duration>,
    ) -> Result<Id, PublishError<u32>> {
        let payload = Bytes::from(vec![7; payload]);
        self.publish_all(from, destination, payload.into(), deadline.into())
    }

    /// Publishes several messages in one packet, and returns the id of the first message.
    pub fn publish_all(
        &mut self,
        from: u32,
        destination: Destination<u32>,
        payloads: Payloads,
        due: Due<u32>,
    ) -> Result<Id, PublishError<u32>> {
        let node = self.nodes.get_mut(&from).unwrap();
        let placed = node
            .relay
            .placement()
            .map(|placement| placement.epoch.counter);
        let accepted = placed.map(|epoch| Accepted {
            epoch,
            destination: destination.clone(),
            awaited: match &due {
                Due::Kept { awaited, .. } => awaited.clone(),
                _ => Vec::new(),
            },
            absent: match (&destination, &due) {
                (to, Due::Settled | Due::Within(_)) if to.is_all() => {
                    let left = self.left.range((from, 0)..=(from, u32::MAX));
                    let left = left.map(|(_, gone)| *gone);
                    match to {
                        Destination::AllBut(spared) => left.chain(spared.iter().copied()).collect(),
                        _ => left.collect(),
                    }
                }
                _ => BTreeSet::new(),
            },
        });
        let mut out = Outbox::new();
        let publish = Publish {
            topic: Topic::new("test").unwrap(),
            payloads,
            destination,
            strategy: self.strategy,
            due,
            confirmation: Default::default(),
            is_ordered: self.is_ordered,
        };
        let key = self.key;
        let sign = |content: Content<'_, u32>| Ok(signed(&content, key));
        let id = node.relay.publish_signed(publish, sign, &mut out);
        if let Ok(id) = id {
            self.accepted.insert(id, accepted.unwrap());
            self.depth.insert((id, from), 0);
        }
        self.perform(from, &mut out);
        id
    }

    /// Gives all members a new key. Signatures of the former key are refused from now on.
    pub fn renew_keys(&mut self) {
        self.key += 1;
        let key = self.key;
        for id in self.members.clone() {
            let mut out = Outbox::new();
            let relay = &mut self.nodes.get_mut(&id).unwrap().relay;
            relay.resign(|content| signed(&content, key), &mut out);
            self.perform(id, &mut out);
        }
    }

    pub fn withdraw(&mut self, id: u32) {
        let mut out = Outbox::new();
        self.nodes.get_mut(&id).unwrap().relay.withdraw(&mut out);
        self.perform(id, &mut out);
    }

    /// Removes the packets that are on their way from one node to another, and returns them.
    pub fn take_packets(&mut self, from: u32, to: u32) -> Vec<Packet<u32>> {
        let mut taken = Vec::new();
        self.queue.retain(|_, (at, _, what)| match what {
            What::Input(Input::Message {
                from: sender,
                message: Message::Packet(packet),
            }) if *at == to && *sender == from => {
                taken.push((**packet).clone());
                false
            }
            _ => true,
        });
        taken
    }

    /// Loses all messages that are on their way from one node to another.
    pub fn lose(&mut self, from: u32, to: u32) {
        self.queue.retain(|_, (at, _, what)| {
            let is_it =
                matches!(what, What::Input(Input::Message { from: sender, .. }) if *sender == from);
            !(is_it && *at == to)
        });
    }

    pub fn run_for(&mut self, us: u64) {
        let end = self.now_us + us;
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), (to, boot, what)) = entry.remove_entry();
            self.now_us = self.now_us.max(at);
            self.step(to, boot, what);
        }
        self.now_us = end;
    }

    /// Runs until `count` further messages have been handled. Returns false if the queue
    /// becomes empty or `quiet_us` pass before that.
    pub fn run_messages(&mut self, count: u64, quiet_us: u64) -> bool {
        let mut left = count;
        let end = self.now_us + quiet_us;
        while left > 0 {
            let Some(entry) = self.queue.first_entry() else {
                return false;
            };
            if entry.key().0 > end {
                return false;
            }
            let ((at, _), (to, boot, what)) = entry.remove_entry();
            self.now_us = self.now_us.max(at);
            left -= u64::from(matches!(what, What::Input(Input::Message { .. })));
            self.step(to, boot, what);
        }
        true
    }

    /// Runs until every accepted message of a live origin has a receipt. Fails after
    /// `limit_us`.
    pub fn run_until_receipts(&mut self, limit_us: u64) {
        let end = self.now_us + limit_us;
        while self.now_us < end && !self.is_settled() {
            self.run_for(10_000);
        }
        let missing: Vec<_> = self.missing().collect();
        assert!(
            missing.is_empty(),
            "seed {}: no receipt of {missing:?}",
            self.seed
        );
    }

    fn is_settled(&self) -> bool {
        self.missing().next().is_none()
    }

    fn missing(&self) -> impl Iterator<Item = &Id> {
        self.accepted.keys().filter(|id| {
            let origin = &self.nodes[&id.origin];
            origin.is_alive && origin.boot == id.boot && !self.receipts.contains_key(id)
        })
    }

    fn step(&mut self, to: u32, boot: u64, what: What) {
        let Some(node) = self.nodes.get_mut(&to) else {
            return;
        };
        let is_timer = matches!(what, What::Fire { .. } | What::Resume);
        if !node.is_alive || (is_timer && node.boot != boot) {
            return;
        }
        if node.paused_until > self.now_us {
            node.backlog.push_back(what);
            return;
        }
        if let What::Resume = what {
            for late in std::mem::take(&mut node.backlog) {
                self.step(to, boot, late);
            }
            return;
        }
        let input = match what {
            What::Input(input) => self.judged(input),
            What::Fire { timer, token, due } => {
                if node.timers.get(&timer) != Some(&token) {
                    return;
                }
                node.timers.remove(&timer);
                let late = Duration::from_micros(self.now_us - due);
                Input::Timer { timer, late }
            }
            What::Resume => return,
        };
        if let Input::Message {
            from,
            message: Message::Packet(packet),
        } = &input
        {
            let id = packet.header.errand.id;
            if self.key_of(packet).is_none() {
                self.misled.insert((to, id));
            }
            let above = self.depth.get(&(id, *from)).copied().unwrap_or(0);
            self.depth.entry((id, to)).or_insert(above + 1);
        }
        match &input {
            Input::PeerLeft(gone) => _ = self.left.insert((to, *gone)),
            Input::PeerUp(back) => _ = self.left.remove(&(to, *back)),
            _ => {}
        }
        let mut out = Outbox::new();
        let node = self.nodes.get_mut(&to).unwrap();
        node.relay.handle(input, &mut out);
        self.perform(to, &mut out);
    }

    fn perform(&mut self, at: u32, out: &mut Outbox<u32, Message<u32>, Timer, Event<u32>>) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send(at, to, message),
                Effect::Arm { timer, after } => {
                    self.serial += 1;
                    let token = self.serial;
                    self.nodes.get_mut(&at).unwrap().timers.insert(timer, token);
                    let after = after.as_micros() as u64;
                    let due = self.now_us + after;
                    self.schedule(at, after, What::Fire { timer, token, due });
                }
                Effect::Disarm { timer } => {
                    self.nodes.get_mut(&at).unwrap().timers.remove(&timer);
                }
                Effect::Event(event) => self.note(at, event),
                Effect::Connect(peer) => assert!(self.links.insert((at, peer))),
                Effect::Disconnect(peer) => assert!(self.links.remove(&(at, peer))),
                Effect::Doubt(_) => {}
            }
        }
    }

    fn send(&mut self, from: u32, to: u32, message: Message<u32>) {
        assert_ne!(from, to, "seed {}: a message to itself", self.seed);
        if let Message::Packet(packet) = &message {
            // A relay must hand on a signature together with the content that was signed.
            let id = packet.header.errand.id;
            assert!(
                self.key_of(packet).is_some() || self.misled.contains(&(from, id)),
                "seed {}: {packet:?}",
                self.seed
            );
        }
        let message = match self.liar {
            Some((liar, twist)) if liar == from => twist(message),
            _ => Some(message),
        };
        let Some(message) = message else { return };
        if let Message::Packet(packet) = &message {
            self.packets += 1;
            let part = packet.header.errand.part.clone();
            self.copied.entry(from).or_default().push((to, part));
        }
        if self.cuts.contains(&(from, to)) {
            return;
        }
        if self.conditions.loss > 0.0 && self.rng.random_bool(self.conditions.loss) {
            return;
        }
        let delay = self.rng.random_range(self.conditions.latency_us.clone());
        self.input_after(to, delay, Input::Message { from, message });
    }

    /// The input that a host makes of a message that arrives. A copy with a bad signature, or
    /// without a required one, becomes `Unproven`.
    fn judged(&self, input: Input<u32>) -> Input<u32> {
        let Input::Message {
            from,
            message: Message::Packet(packet),
        } = input
        else {
            return input;
        };
        let is_signed = packet.header.signature.is_some();
        if is_signed && self.key_of(&packet) == Some(self.key) || !is_signed && !self.requires {
            let message = Message::Packet(packet);
            return Input::Message { from, message };
        }
        let reason = match is_signed {
            false => CustodyRefusal::Unsigned,
            true => CustodyRefusal::Signature,
        };
        let errand = packet.header.errand;
        Input::Unproven {
            from,
            errand,
            reason,
        }
    }

    /// The key by which the origin signed this content, if the signature of the packet is
    /// valid.
    fn key_of(&self, packet: &Packet<u32>) -> Option<u8> {
        let signature = packet.header.signature.as_ref()?;
        (0..=self.key).find(|key| signed(&packet.content(), *key).as_ref() == Some(signature))
    }

    fn note(&mut self, at: u32, event: Event<u32>) {
        match event {
            Event::Deliver(delivery) => {
                let boot = self.nodes[&at].boot;
                for (id, order, payload) in delivery.messages() {
                    let places = self.places.entry(at).or_default();
                    places.extend(order.map(|order| (id, order)));
                    self.payloads.insert((at, id), payload);
                    *self.deliveries.entry((at, boot, id)).or_default() += 1;
                    self.order.entry((at, boot)).or_default().push(id);
                }
            }
            Event::Receipt(receipt) => self.receipts.entry(receipt.id).or_default().push(*receipt),
            Event::RosterComplete(_) => self.complete_rosters += 1,
            Event::Drained => assert!(self.drained.insert(at), "drained twice"),
        }
    }

    pub fn delivered(&self, id: Id, node: u32) -> u32 {
        let lives = self.order.range((node, 0)..=(node, u64::MAX));
        lives
            .filter_map(|((_, boot), _)| self.deliveries.get(&(node, *boot, id)))
            .sum()
    }

    /// Compares the receipts with the deliveries and returns the contradictions. A correct
    /// relay has none in any world.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for ((node, boot, id), count) in &self.deliveries {
            if *count > 1 {
                complaints.push(format!(
                    "{id:?} delivered {count} times by {node} boot {boot}"
                ));
            }
        }
        for (id, receipts) in &self.receipts {
            if receipts.len() != 1 {
                complaints.push(format!("{id:?} has {} receipts", receipts.len()));
            }
            for receipt in receipts {
                self.judge(receipt, &mut complaints);
            }
        }
        complaints
    }

    /// The members that a message expects: the named ones, or all members of the epoch that its
    /// receipt names. (Without a receipt, of the epoch in which it was accepted.) Awaited peers are
    /// added. The origin and absent members are left out.
    pub fn expected(&self, id: Id) -> BTreeSet<u32> {
        let accepted = &self.accepted[&id];
        let receipt = self.receipts.get(&id).and_then(|receipts| receipts.first());
        let epoch = receipt.map_or(accepted.epoch, |receipt| receipt.epoch.counter);
        let peers = match &accepted.destination {
            Destination::All | Destination::AllBut(_) => &self.history[&epoch],
            Destination::Peers(peers) => peers,
        };
        let all = peers.iter().chain(&accepted.awaited).copied();
        let all = all.filter(|peer| *peer != id.origin);
        all.filter(|peer| !accepted.absent.contains(peer)).collect()
    }

    fn judge(&self, receipt: &Receipt<u32>, complaints: &mut Vec<String>) {
        let by_rank = &self.history[&receipt.epoch.counter];
        let expected = &self.expected(receipt.id);
        if receipt.epoch.counter < self.accepted[&receipt.id].epoch {
            complaints.push(format!("{:?} is of an earlier epoch", receipt.id));
        }
        let mut named = BTreeSet::new();
        for run in &receipt.reached {
            for rank in run.first.0..=run.last.0 {
                let peer = by_rank[rank as usize];
                named.insert(peer);
                if self.delivered(receipt.id, peer) == 0 {
                    complaints.push(format!("{:?}: {peer} falsely delivered", receipt.id));
                }
            }
        }
        for unreached in &receipt.unreached {
            let peer = match unreached.rank {
                Some(rank) => by_rank[rank.0 as usize],
                None => unreached.peer.unwrap(),
            };
            if !named.insert(peer) {
                complaints.push(format!("{:?}: {peer} named twice", receipt.id));
            }
            if unreached.peer.is_some_and(|named| named != peer) {
                complaints.push(format!("{:?}: {peer} has another's name", receipt.id));
            }
            if unreached.state == State::Refused && self.delivered(receipt.id, peer) > 0 {
                complaints.push(format!("{:?}: {peer} falsely refused", receipt.id));
            }
        }
        let returned = receipt.reached_peers.iter();
        for peer in returned.filter(|peer| !by_rank.contains(peer)) {
            if self.delivered(receipt.id, *peer) == 0 {
                complaints.push(format!("{:?}: {peer} falsely delivered", receipt.id));
            }
            named.insert(*peer);
        }
        if named != *expected || receipt.expected_count as usize != expected.len() {
            complaints.push(format!(
                "{:?}: not against the members: {receipt:?}",
                receipt.id
            ));
        }
    }

    /// Fails if the receipts and the deliveries contradict each other.
    pub fn assert_sound(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "seed {}: {complaints:#?}", self.seed);
    }

    pub fn assert_survivors_delivered(&self, id: Id) {
        for node in self.expected(id) {
            if self.is_alive(node) {
                let count = self.delivered(id, node);
                assert_eq!(count, 1, "seed {}: {node} delivered {id:?}", self.seed);
            }
        }
    }
}

/// The signature in these networks: the digest of the content, followed by the key.
fn signed(content: &Content<'_, u32>, key: u8) -> Option<Signature> {
    let digest = content.digest().unwrap();
    let key = vec![key; usize::from(key)];
    Signature::new([&digest[..], &key].concat().into())
}

/// The seeds of a test: all of them in a release build, a tenth of them otherwise.
pub fn seeds(all: u64) -> std::ops::Range<u64> {
    if cfg!(debug_assertions) {
        0..all.div_ceil(10)
    } else {
        0..all
    }
}
