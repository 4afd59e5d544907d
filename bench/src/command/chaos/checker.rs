//! The judge of a chaos run, which is outside of everything that it judges.
//!
//! The judge hears what the script did to the processes, and what the processes told their hosts.
//! From this it keeps its own books of places and deliveries. A receipt is compared with these
//! books, never with a relay's memory.
//!
//! The promises: every process delivers at most once and the right bytes, whatever happens.
//! Receipts of honest origins are true and complete about honest members.
//!
//! While state is corrupted or a process lies about the overlay, until the graph is exact again,
//! numberings may contradict each other. Then only these demands remain. In the receipt of a
//! broadcast a rank may only be called delivered if a holder of the rank has delivered. A rank that
//! no peer ever held may only be called delivered if another peer is named that has delivered;
//! other names are hearsay. By claiming its rank, a liar may take the place of one member that is
//! gone. It takes the place of a member that is there only in the case that `excuse_liars`
//! describes. In the receipt of a message to named peers, each peer that is called delivered has
//! delivered. While a process lies about user messages, its reports cannot be told from true ones,
//! and receipts are not judged.
//!
//! Not here: whether the overlay is legitimate, which the world itself sees.

mod books;
pub mod collectives;
mod goodbyes;
mod receipts;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::world::{Id, ReportedEvent, Turn};
use binomesh_overlay::{Epoch, Placement, Rank};
use binomesh_routing::{PacketId, Receipt};
use bytes::Bytes;

use super::violation::{Name, Violation};
use goodbyes::Goodbyes;

/// The members that an accepted message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// All members of the epoch of acceptance except the origin.
    Members,
    /// The named peers.
    Peers(BTreeSet<Id>),
}

/// A message that a relay accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The time at which the origin accepted the message.
    pub at: Duration,
    /// The place of the origin.
    pub placement: Placement<Id>,
    /// The members that the message is for.
    pub audience: Audience,
    /// The payload of the user.
    pub payload: Bytes,
}

/// The kind of statements that a fault makes doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Statements about places in the overlay.
    Overlay,
    /// The reports of members about deliveries.
    Reports,
}

/// A time in which statements of a kind are doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Taint {
    from: Duration,
    until: Option<Duration>,
    doubt: Doubt,
}

/// The longest time until no member calls a peer down any more that can be reached again. A guess:
/// if it is too short, receipts that rightly give up a member are called wrong.
const REFUTED_WITHIN: Duration = Duration::from_secs(30);
/// The longest time after a return until all members have heard of it. Word takes up to 80 ms for
/// each link, and waits 10 ms before each.
const KNOWN_WITHIN: Duration = Duration::from_millis(500);

/// One life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    from: Duration,
    until: Option<Duration>,
}

/// The deliveries of a message at one process: how many, and the payload of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrival {
    count: u32,
    payload: Bytes,
}

/// The deliveries of a message by each process, which is named by its first life.
type Arrivals = BTreeMap<(Id, u64), Arrival>;

/// The peers that ever held each rank of an epoch, and when that was found to be untrue.
type Ranks = BTreeMap<Rank, BTreeMap<Id, Option<Duration>>>;

/// The places of a process, each with the time since which it stood there.
type Stands = Vec<(Duration, Placement<Id>)>;

/// The books of one run.
#[derive(Debug, Clone, Default)]
pub struct Checker {
    lives: BTreeMap<(Id, u64), Life>,
    /// The first life of each present process, under which all deliveries of the process are
    /// counted.
    processes: BTreeMap<Id, u64>,
    holders: BTreeMap<Epoch<Id>, Ranks>,
    /// The first place of each peer in an epoch. If a process is later told another place, that is
    /// a lie. When doubts end, the present place counts as the first.
    firsts: BTreeMap<(Epoch<Id>, Id), Rank>,
    stands: BTreeMap<(Id, u64), Stands>,
    /// The place of each live process, and the process at each place.
    places: BTreeMap<Id, (Epoch<Id>, Rank)>,
    current: BTreeMap<(Epoch<Id>, Rank), Id>,
    accepted: BTreeMap<PacketId<Id>, Accepted>,
    arrivals: BTreeMap<PacketId<Id>, Arrivals>,
    receipts: BTreeMap<PacketId<Id>, (Duration, Receipt<Id>)>,
    deliveries: u64,
    taints: Vec<Taint>,
    /// The processes that have ever lied, and since when.
    liars: BTreeMap<Id, Duration>,
    /// The peers that were hard to reach, from when until when.
    hindered: Vec<(Id, Duration, Duration)>,
    goodbyes: Goodbyes,
    found: Vec<Violation>,
}

impl Checker {
    /// A process has started, or goes on as another life.
    pub fn on_start(&mut self, turn: &Turn) {
        let life = Life {
            from: turn.at,
            until: None,
        };
        self.lives.insert((turn.id, turn.boot), life);
        if !turn.goes_on {
            self.processes.insert(turn.id, turn.boot);
        }
    }

    /// A process has crashed or begins to leave. No promise is expected of it any more.
    pub fn on_end(&mut self, at: Duration, id: Id, boot: u64) {
        if let Some(life) = self.lives.get_mut(&(id, boot)) {
            life.until.get_or_insert(at);
        }
        self.give_up_place(id);
    }

    /// A process begins to leave with a goodbye.
    pub fn on_leave(&mut self, id: Id, boot: u64) {
        self.goodbyes.on_leave(id, boot);
    }

    /// A process is told that a life of another one has left.
    pub fn on_left(&mut self, told: &ReportedEvent, peer: Id, boot: u64) {
        let (at, by) = (told.at, told.by);
        if !self.goodbyes.on_left(told, peer, boot) {
            self.found
                .push(Violation::FalseGoodbye { at, by, peer, boot });
        }
    }

    /// A process is told other news of a peer, whose goodbye then does not count any more.
    pub fn on_other_word(&mut self, told: &ReportedEvent, peer: Id) {
        self.goodbyes.on_other_word(told, peer);
    }

    /// Statements of this kind are doubtful from now on.
    pub fn on_doubt(&mut self, at: Duration, doubt: Doubt) {
        let from = at;
        let until = None;
        self.taints.push(Taint { from, until, doubt });
    }

    /// A process begins to lie.
    pub fn on_lie(&mut self, at: Duration, id: Id) {
        self.liars.entry(id).or_insert(at);
    }

    /// The graph is exact, and no process lies.
    pub fn on_exact(&mut self, at: Duration) {
        let open = self.taints.iter_mut().filter(|taint| taint.until.is_none());
        let ended = open.map(|taint| taint.until = Some(at)).count();
        if ended > 0 {
            // The places that the processes have now are right.
            for (id, (epoch, rank)) in &self.places {
                self.firsts.insert((*epoch, *id), *rank);
                let ranks = self.holders.get_mut(epoch).into_iter().flatten();
                let others = ranks.filter(|(other, _)| *other != rank);
                let untrue = others.filter_map(|(_, holders)| holders.get_mut(id));
                untrue.for_each(|until| _ = until.get_or_insert(at));
            }
        }
    }

    /// A peer or its links are disturbed for a while. It may be called down, until the others hear
    /// it again.
    pub fn on_hindered(&mut self, id: Id, from: Duration, until: Duration) {
        let until = until.saturating_add(REFUTED_WITHIN);
        self.hindered.push((id, from, until));
    }

    /// Whether any statements are doubtful now.
    pub fn is_doubtful(&self, now: Duration) -> bool {
        self.doubt(now, now).is_some()
    }

    /// The gravest kind of statements that were doubtful between two times: [`Doubt::Reports`],
    /// else [`Doubt::Overlay`].
    fn doubt(&self, from: Duration, until: Duration) -> Option<Doubt> {
        let meanwhile = self
            .taints
            .iter()
            .filter(|taint| taint.from <= until && taint.until.is_none_or(|end| end >= from));
        meanwhile.map(|taint| taint.doubt).max()
    }

    /// A process has taken a place, or still has it.
    pub fn on_place(&mut self, at: Duration, id: Id, boot: u64, placement: Placement<Id>) {
        let Placement { epoch, rank, .. } = placement;
        if self.places.get(&id) == Some(&(epoch, rank)) {
            return;
        }
        self.give_up_place(id);
        self.places.insert(id, (epoch, rank));
        let other = self.current.insert((epoch, rank), id);
        let is_certain = self.doubt(at, at).is_none();
        if let Some(other) = other.filter(|_| is_certain) {
            let rank = rank.0;
            let (a, b) = (other, id);
            self.found.push(Violation::DoubleRank { at, rank, a, b });
        }
        self.firsts.entry((epoch, id)).or_insert(rank);
        let ranks = self.holders.entry(epoch).or_default();
        ranks.entry(rank).or_default().insert(id, None);
        let stands = self.stands.entry((id, boot)).or_default();
        if stands.last().is_none_or(|(_, last)| *last != placement) {
            stands.push((at, placement));
        }
    }

    fn give_up_place(&mut self, id: Id) {
        let place = self.places.remove(&id);
        if let Some(place) = place.filter(|place| self.current.get(place) == Some(&id)) {
            self.current.remove(&place);
        }
    }

    /// A relay has accepted a message.
    pub fn on_accepted(&mut self, id: PacketId<Id>, accepted: Accepted) {
        self.accepted.insert(id, accepted);
    }

    /// A relay has delivered a message.
    pub fn on_delivery(&mut self, told: &ReportedEvent, id: PacketId<Id>, payload: &Bytes) {
        self.deliveries += 1;
        let of_id = self.arrivals.entry(id).or_default();
        let process = self.processes.get(&told.by).copied().unwrap_or(told.boot);
        let arrival = of_id.entry((told.by, process)).or_insert(Arrival {
            count: 0,
            payload: payload.clone(),
        });
        arrival.count += 1;
    }

    /// A relay has given a receipt.
    pub fn on_receipt(&mut self, told: &ReportedEvent, receipt: &Receipt<Id>) {
        let id = receipt.id;
        if (told.by, told.boot) != (id.origin, id.boot) {
            let message = Name(id);
            self.found.push(Violation::ForeignReceipt {
                message,
                by: told.by,
            });
            return;
        }
        let former = self.receipts.insert(id, (told.at, receipt.clone()));
        if former.is_some() {
            let message = Name(id);
            self.found.push(Violation::SecondReceipt { message });
        }
    }

    /// A relay says that it has no open message.
    pub fn on_drained(&mut self, told: &ReportedEvent) {
        let open = self.open_of(told.by, told.boot).next();
        if let Some(id) = open {
            self.found
                .push(Violation::DrainedEarly { message: Name(id) });
        }
    }

    /// How many messages of living origins have no receipt.
    pub fn open_count(&self) -> usize {
        let lives = self.lives.iter().filter(|(_, life)| life.until.is_none());
        lives
            .map(|((id, boot), _)| self.open_of(*id, *boot).count())
            .sum()
    }

    /// How many deliveries there were.
    pub const fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// All violations, once the run is over, and how many lines of receipts give up a member whose
    /// name the origin never learnt. That may happen if epochs follow each other faster than
    /// rosters are gathered.
    pub fn judge(mut self) -> (Vec<Violation>, u64) {
        let mut found = std::mem::take(&mut self.found);
        let mut unnamed = 0;
        self.judge_arrivals(&mut found);
        for (id, accepted) in &self.accepted {
            match self.receipts.get(id) {
                Some((at, receipt)) => match self.doubt(accepted.at, *at) {
                    None => {
                        self.judge_reached(accepted, receipt, true, &mut found);
                        self.judge_lines(accepted, *at, receipt, &mut found);
                        unnamed += self.judge_reach(accepted, *at, receipt, &mut found);
                    }
                    Some(Doubt::Overlay) => {
                        let mut wrong = Vec::new();
                        self.judge_reached(accepted, receipt, false, &mut wrong);
                        self.excuse_liars(accepted, *at, receipt, &mut wrong);
                        found.append(&mut wrong);
                    }
                    Some(Doubt::Reports) => {}
                },
                None if self.is_live(id.origin, id.boot) => {
                    found.push(Violation::NoReceipt { message: Name(*id) });
                }
                None => {}
            }
        }
        (found, unnamed)
    }

    /// Check that each process delivered at most once, with the right bytes, and only messages for
    /// it.
    fn judge_arrivals(&self, found: &mut Vec<Violation>) {
        for (id, arrivals) in &self.arrivals {
            let message = Name(*id);
            let Some(accepted) = self.accepted.get(id) else {
                found.push(Violation::NeverPublished { message });
                continue;
            };
            for ((by, boot), arrival) in arrivals {
                let (by, boot) = (*by, *boot);
                if arrival.count > 1 {
                    let count = arrival.count;
                    found.push(Violation::DeliveredTwice {
                        message,
                        by,
                        boot,
                        count,
                    });
                }
                if arrival.payload != accepted.payload {
                    found.push(Violation::WrongBytes { message, by });
                }
                let is_certain = self.doubt(accepted.at, Duration::MAX).is_none();
                if by == id.origin || is_certain && !self.is_meant(*id, accepted, by) {
                    found.push(Violation::NotMeant { message, by });
                }
            }
        }
    }
}
