//! One fault in a quiet legitimate system: a single wrong variable, or a single garbage message.
//! All back-offs have grown to their maximum before, so only the fault makes processes act earlier.

use binomesh_overlay::Population;
use binomesh_overlay::backoff::{Backoff, BackoffLimits};
use binomesh_overlay::fingers::{self, Direction, Fingers, Rules};
use binomesh_overlay::placement::MAX_LEVELS;
use binomesh_overlay::ring;

use super::convergence::Scheduler;
use super::member::Member;
use super::synchronous::{Reading, Synchronous};
use super::tree::Tree;
use super::{Arena, Letter, Repetition};

/// A fault in one process or one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another predecessor of a process.
    Predecessor(Member, Option<Member>),
    /// Another successor of a process.
    Successor(Member, Option<Member>),
    /// Another clockwise finger of a process.
    Clockwise(Member, usize, Option<Member>),
    /// Another counterclockwise finger of a process.
    Counterclockwise(Member, usize, Option<Member>),
    /// Another back-off of a process: its interval, and the ticks to its next firing.
    Backoff(Member, u32, u32),
    /// A message that no process should have sent.
    Letter(Letter<()>),
}

/// A system that stands and has long been quiet.
#[derive(Debug, Clone)]
pub struct Quiet {
    arena: Arena<()>,
    scheduler: Synchronous<()>,
    limits: BackoffLimits,
}

impl Quiet {
    /// The binomial graph on `tree` after four of the longest waits, and after further phases until
    /// no message is under way. `None` if the graph does not stand then.
    pub fn on(tree: Tree, rules: Rules, limits: BackoffLimits) -> Option<Self> {
        let repetition = Repetition::Backoff {
            limits,
            visit_period: 0,
        };
        let mut arena = Arena::new(tree, rules, repetition, |_| ());
        let mut scheduler = Synchronous::new(Reading::SamePhase);
        for _ in 0..4 * limits.maximum {
            scheduler.phase(&mut arena);
        }
        while Scheduler::<()>::waiting(&scheduler) > 0 {
            scheduler.phase(&mut arena);
        }
        let stands = arena.is_ring() && arena.is_binomial_graph();
        stands.then_some(Self {
            arena,
            scheduler,
            limits,
        })
    }

    /// All faults: every value of every table entry, right ones among them; a few intervals and
    /// waits of each back-off; and every single message.
    pub fn faults(&self) -> Vec<Fault> {
        let all: Vec<Member> = (0..self.arena.members()).map(Member::at).collect();
        let values: Vec<_> = all.iter().copied().map(Some).chain([None]).collect();
        let levels = Population::new(all.len() as u32).map_or(0, Population::levels);
        let longest = self.limits.maximum;
        let waits = [0, 1, longest / 2, longest, u32::MAX];
        let mut faults = Vec::new();
        for &me in &all {
            for &value in &values {
                faults.push(Fault::Predecessor(me, value));
                faults.push(Fault::Successor(me, value));
                for level in 0..levels {
                    faults.push(Fault::Clockwise(me, level, value));
                    faults.push(Fault::Counterclockwise(me, level, value));
                }
            }
            let pairs = waits.iter().flat_map(|&a| waits.map(|b| (a, b)));
            faults.extend(pairs.map(|(a, b)| Fault::Backoff(me, a, b)));
            for from in all.iter().copied().filter(|&from| from != me) {
                let to = me;
                let letter = |message| Fault::Letter(Letter { to, from, message });
                faults.extend(said(&all, levels).into_iter().map(letter));
            }
        }
        faults
    }

    /// The phases after which the graph stands again, if there are at most `limit`. It has to stand
    /// for the longest wait, in which every process applies its rules.
    pub fn recovery(&self, fault: Fault, limit: u64) -> Option<u64> {
        let Self {
            mut arena,
            mut scheduler,
            limits,
        } = self.clone();
        arena.inflict(fault, &mut scheduler);
        let mut since = None;
        let calm = u64::from(limits.maximum);
        for phase in 0..=limit + calm {
            if phase > 0 {
                scheduler.phase(&mut arena);
            }
            if arena.is_ring() && arena.is_binomial_graph() {
                since.get_or_insert(phase);
            } else {
                since = None;
            }
            if since.is_some_and(|since| phase >= since + calm) {
                break;
            }
        }
        since.filter(|&phase| phase <= limit)
    }
}

impl Arena<()> {
    fn inflict(&mut self, fault: Fault, scheduler: &mut Synchronous<()>) {
        match fault {
            Fault::Predecessor(me, value) => self.rings[me.index()].predecessor = value,
            Fault::Successor(me, value) => self.rings[me.index()].successor = value,
            Fault::Clockwise(me, level, value) => self.set(me, |it, _| it[level] = value),
            Fault::Counterclockwise(me, level, value) => self.set(me, |_, it| it[level] = value),
            Fault::Backoff(me, interval, remaining) => {
                let seed = me.index() as u16;
                self.backoffs[me.index()] = Backoff::corrupted(seed, interval, remaining);
            }
            Fault::Letter(letter) => Scheduler::<()>::post(scheduler, &mut vec![letter]),
        }
    }

    fn set(&mut self, me: Member, put: impl FnOnce(&mut Table, &mut Table)) {
        let fingers = &mut self.fingers[me.index()];
        let mut tables = [fingers.clockwise(), fingers.counterclockwise()].map(|known| {
            let mut table = [None; MAX_LEVELS];
            table[..known.len()].copy_from_slice(known);
            table
        });
        let [clockwise, counterclockwise] = &mut tables;
        put(clockwise, counterclockwise);
        let [clockwise, counterclockwise] = tables;
        let population = fingers.population();
        *fingers = Fingers::corrupted(me, population, (), clockwise, counterclockwise);
    }
}

type Table = [Option<Member>; MAX_LEVELS];

/// All messages that one process may send to another about any process, also for a level that does
/// not exist.
fn said(all: &[Member], levels: usize) -> Vec<super::Message<()>> {
    use fingers::Message;
    let mut said = vec![
        ring::Message::FConnect.into(),
        ring::Message::BConnect.into(),
    ];
    for &subject in all {
        said.push(ring::Message::Info(subject).into());
        said.push(ring::Message::AskConnect(subject).into());
    }
    let mark = ();
    for level in (0..=levels).map(|level| level as u8) {
        let of = |&subject: &Member| {
            let up = Message::Up {
                level,
                subject,
                mark,
            };
            let down = Message::Down {
                level,
                subject,
                mark,
            };
            [up, down]
        };
        said.extend(all.iter().flat_map(of).map(super::Message::from));
        let visits = [Direction::Clockwise, Direction::Counterclockwise].map(|direction| {
            [
                Message::Confirm {
                    level,
                    direction,
                    mark,
                },
                Message::Confirmed {
                    level,
                    direction,
                    mark,
                },
                Message::Deny {
                    level,
                    direction,
                    mark,
                },
                Message::Seek {
                    level,
                    direction,
                    mark,
                },
            ]
        });
        said.extend(visits.into_iter().flatten().map(super::Message::from));
    }
    said
}
