//! Convergence from arbitrary states: random tables, numbers, timers and messages at the start,
//! then nothing but the algorithms with their back-off.
//!
//! Strangers stay for the whole run: leaves that believe in a parent which does not list them, like
//! a process that was just redirected. They must not disturb the ring.
//!
//! The layers below are stable but late. The tree stands from the start. The census corrects N (and
//! the placement) of each process in one of the first phases; this is a change like any other, and
//! resets the back-off to its minimum. If N is known from the start, as in the paper, a corrupted
//! timer may last for its maximum.

use binomesh_overlay::backoff::{Backoff, BackoffLimits};
use binomesh_overlay::fingers::{self, Direction, Fingers, Rules};
use binomesh_overlay::placement::MAX_LEVELS;
use binomesh_overlay::ring::{self, Ring};
use binomesh_overlay::stamp::{Mark, Stamp};
use binomesh_overlay::{Epoch, Placement, Population, Rank};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::asynchronous::Asynchronous;
use super::convergence::Scheduler;
use super::mailbox::Discipline;
use super::member::Member;
use super::synchronous::{Reading, Synchronous};
use super::tree::{Randomness, Tree, TreeShape};
use super::{Arena, Letter, Repetition};

/// One run from an arbitrary state.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// How many processes the tree has.
    pub nodes: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The shape of the tree; if none, one that the seed draws, chains among them.
    pub shape: Option<TreeShape>,
    /// Garbage messages per process at the start.
    pub garbage: usize,
    /// The phase by which the census has told all processes their N; 0 if all know N (and their
    /// placement) from the start.
    pub census_phases: u64,
    /// The rules of the processes.
    pub rules: Rules,
    /// The limits of the processes' back-off.
    pub limits: BackoffLimits,
    /// How many turns lie between two visits, each to the next level of fingers; 0 for no visits.
    pub visit_period: u32,
    /// The phase after which the run is given up.
    pub phase_limit: u64,
    /// The discipline of the asynchronous scheduler; if none, the synchronous scheduler runs.
    pub asynchronous: Option<Discipline>,
    /// Whether entries are proved by epoch and rank, as in the node. Else they are not proved, as
    /// in the paper.
    pub is_stamped: bool,
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The first phase after which ring and graph stood to the end; none if the run was given up.
    pub phases: Option<u64>,
    /// The depth of the tree. An `Info` climbs at most this far.
    pub depth: u32,
    /// How many messages a member received per phase while ring and graph stood: the average over
    /// all members and the last of three longest waits.
    pub quiet_traffic: f64,
    /// How many UP and DN messages a member received per phase, over the same members and time.
    pub quiet_introductions: f64,
}

impl Trial {
    /// Run the trial.
    pub fn run(self) -> Outcome {
        let nodes = self.nodes as u32;
        if self.is_stamped {
            let population = Population::new(nodes).unwrap_or(Population::ONE);
            let place = move |counter, population, rank| Placement {
                epoch: epoch(counter),
                population,
                rank: Rank(rank),
            };
            self.run_with(
                |rank| place(0, population, rank),
                |random| {
                    place(
                        random.random_range(0..3),
                        random_size(random),
                        random.random(),
                    )
                },
                |random| Mark {
                    epoch: epoch(random.random_range(0..3)),
                    rank: Rank(random.random_range(0..nodes + 2)),
                },
            )
        } else {
            self.run_with(|_| (), |_| (), |_| ())
        }
    }

    fn run_with<S: Stamp>(
        self,
        stamp: impl Fn(u32) -> S,
        wrong_stamp: impl Fn(&mut ChaCha8Rng) -> S,
        mark: impl Fn(&mut ChaCha8Rng) -> S::Mark,
    ) -> Outcome {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let tree = random_tree(self.nodes, self.shape, &mut random);
        let repetition = Repetition::Backoff {
            limits: self.limits,
            visit_period: self.visit_period,
        };
        let mut arena = Arena::new(tree, self.rules, repetition, &stamp);
        let processes = arena.processes();
        for me in (0..processes).map(Member::at) {
            let tables = [(); 2].map(|()| random_table(processes, &mut random));
            let [clockwise, counterclockwise] = tables;
            let (size, wrong) = (random_size(&mut random), wrong_stamp(&mut random));
            let fingers = Fingers::corrupted(me, size, wrong, clockwise, counterclockwise);
            let ring = Ring {
                predecessor: somebody(processes, &mut random),
                successor: somebody(processes, &mut random),
            };
            let backoff = Backoff::corrupted(random.random(), random.random(), random.random());
            arena.corrupt(me, ring, fingers, backoff);
            if self.census_phases == 0 {
                arena.know(me, stamp(me.index() as u32));
            }
        }
        let mut garbage: Vec<_> = (0..processes * self.garbage)
            .map(|_| random_letter(processes, &mut random, &mark))
            .collect();
        if let Some(discipline) = self.asynchronous {
            let mut scheduler = Asynchronous::new(discipline, processes);
            Scheduler::<S>::post(&mut scheduler, &mut garbage);
            self.watch(arena, scheduler, stamp, &mut random)
        } else {
            let mut scheduler = Synchronous::new(Reading::SamePhase);
            Scheduler::<S>::post(&mut scheduler, &mut garbage);
            self.watch(arena, scheduler, stamp, &mut random)
        }
    }

    /// Run until ring and graph have stood for three of the longest waits, or the run is given up.
    fn watch<S: Stamp>(
        self,
        mut arena: Arena<S>,
        mut scheduler: impl Scheduler<S>,
        stamp: impl Fn(u32) -> S,
        random: &mut ChaCha8Rng,
    ) -> Outcome {
        let members = arena.members();
        let population = Population::new(members as u32).unwrap_or(Population::ONE);
        let told: Vec<u64> = (0..members)
            .map(|_| random.random_range(self.census_phases.min(1)..=self.census_phases))
            .collect();
        let calm = u64::from(self.limits.maximum.max(1)) * 3;
        let depth = arena.tree().depth();
        let mut standing_since = None;
        for phase in 1..=self.phase_limit {
            for me in (0..members).filter(|&me| told[me] == phase) {
                arena.renumber(Member::at(me), population, stamp(me as u32));
            }
            scheduler.phase(&mut arena);
            if !(arena.is_ring() && arena.is_binomial_graph()) {
                standing_since = None;
                continue;
            }
            let since = *standing_since.get_or_insert(phase);
            // Traffic is measured over the last of the three waits.
            if phase == since + calm / 3 * 2 {
                arena.forget_received();
            }
            if phase == since + calm {
                let received = arena.received();
                let share = 1.0 / (members as f64 * calm as f64 / 3.0);
                let messages: u64 = received.iter().map(|one| one.messages).sum();
                let introductions: u32 = received.iter().map(|one| one.introductions).sum();
                return Outcome {
                    phases: Some(since),
                    depth,
                    quiet_traffic: messages as f64 * share,
                    quiet_introductions: f64::from(introductions) * share,
                };
            }
        }
        Outcome {
            phases: None,
            depth,
            quiet_traffic: f64::NAN,
            quiet_introductions: f64::NAN,
        }
    }
}

fn random_tree(nodes: usize, shape: Option<TreeShape>, random: &mut ChaCha8Rng) -> Tree {
    let shapes = [
        TreeShape::Binomial,
        TreeShape::Binary,
        TreeShape::Flat,
        TreeShape::Chain,
    ];
    let any = match random.random_range(0..8) {
        place @ 0..4 => shapes[place],
        _ => TreeShape::Random,
    };
    let shape = shape.unwrap_or(any);
    let randomness = Randomness {
        seed: random.random(),
        depth: random.random_range(1..=12),
        degree: random.random_range(1..=8),
    };
    let mut tree = Tree::new(shape, nodes, randomness);
    for _ in 0..random.random_range(0..3) {
        tree.add_stranger(Member::at(random.random_range(0..nodes)));
    }
    tree
}

fn somebody(processes: usize, random: &mut ChaCha8Rng) -> Option<Member> {
    let is_known = random.random_bool(0.7);
    is_known.then(|| Member::at(random.random_range(0..processes)))
}

fn random_table(processes: usize, random: &mut ChaCha8Rng) -> [Option<Member>; MAX_LEVELS] {
    [(); MAX_LEVELS].map(|()| somebody(processes, random))
}

fn random_size(random: &mut ChaCha8Rng) -> Population {
    Population::new(random.random_range(1..=100)).unwrap_or(Population::ONE)
}

fn epoch(counter: u64) -> Epoch<Member> {
    Epoch {
        root: Member::at(0),
        boot: 1,
        counter,
        nonce: 0,
    }
}

fn random_letter<K>(
    processes: usize,
    random: &mut ChaCha8Rng,
    mark: impl Fn(&mut ChaCha8Rng) -> K,
) -> Letter<K> {
    let subject = Member::at(random.random_range(0..processes));
    let level = random.random_range(0..8);
    let direction = match random.random() {
        true => Direction::Clockwise,
        false => Direction::Counterclockwise,
    };
    let mark = mark(random);
    use fingers::Message as Finger;
    let message = match random.random_range(0..12) {
        0 => ring::Message::FConnect.into(),
        1 => ring::Message::Info(subject).into(),
        2 => ring::Message::AskConnect(subject).into(),
        3 => ring::Message::BConnect.into(),
        4..6 => Finger::Up {
            level,
            subject,
            mark,
        }
        .into(),
        6..8 => Finger::Down {
            level,
            subject,
            mark,
        }
        .into(),
        8 => Finger::Confirm {
            level,
            direction,
            mark,
        }
        .into(),
        9 => Finger::Confirmed {
            level,
            direction,
            mark,
        }
        .into(),
        10 => Finger::Deny {
            level,
            direction,
            mark,
        }
        .into(),
        _ => Finger::Seek {
            level,
            direction,
            mark,
        }
        .into(),
    };
    Letter {
        to: Member::at(random.random_range(0..processes)),
        from: Member::at(random.random_range(0..processes)),
        message,
    }
}
