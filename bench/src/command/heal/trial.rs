//! One seed: form, disturb, and watch until it has healed.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::world::{Defect, Fault, Memory, Network, Shape, World};
use binomesh_overlay::Placement;
use rand::seq::index;

use super::traffic::{Delivered, Traffic};
use super::{FaultName, ShapeName};

/// Forming takes seconds; more would be a fault of its own.
const FORMING: Duration = Duration::from_secs(300);
/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A healed cluster stands for so long, or it was only passing by.
const STANDING: Duration = Duration::from_secs(5);

/// What one seed does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Everything random comes from here.
    pub(super) seed: u64,
    /// How many nodes form.
    pub(super) nodes: u32,
    /// Their deployment tree.
    pub(super) shape: ShapeName,
    /// What is done.
    pub(super) fault: FaultName,
    /// To how many.
    pub(super) victims: u32,
    /// How long ranks stay vacant.
    pub(super) grace: Duration,
    /// When to give up, from the fault on.
    pub(super) limit: Duration,
    /// How many broadcasts go out from then on.
    pub(super) broadcasts: u32,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The seed.
    pub(super) seed: u64,
    /// The depth of the tree before the fault.
    pub(super) depth: u32,
    /// The overlay of the living stood, ranks of the dead being vacant.
    pub(super) relinked: Option<Healed>,
    /// No rank was vacant any more.
    pub(super) exact: Option<Healed>,
    /// What came of the broadcasts.
    pub(super) delivered: Delivered,
    /// What was wrong when it was given up.
    pub(super) defect: Option<String>,
}

impl Outcome {
    /// Whether the graph stands again and nobody has missed anything.
    pub(super) const fn is_good(&self) -> bool {
        self.exact.is_some() && self.delivered.lacking == 0 && self.delivered.repeated == 0
    }
}

/// The cost of one stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Healed {
    /// Virtual time since the fault.
    pub(super) after: Duration,
    /// Survivors whose placement is another than before.
    pub(super) ranks_moved: u64,
    /// Links dialled since the fault.
    pub(super) dialled: u64,
}

/// Run one seed.
pub(super) fn play(case: &Case) -> Outcome {
    let mut world = World::new(case.seed, Network::local());
    let shape = match case.shape {
        ShapeName::Binomial => Shape::Binomial,
        ShapeName::Binary => Shape::Binary,
        ShapeName::Random => Shape::Random,
        ShapeName::Flat => Shape::Flat,
    };
    world.deploy(case.nodes, shape, |config| config.pace.grace = case.grace);
    let mut outcome = Outcome {
        seed: case.seed,
        depth: 0,
        relinked: None,
        exact: None,
        delivered: Delivered::default(),
        defect: None,
    };
    let formed = watch(&mut world, FORMING, &mut Traffic::default());
    if formed.exact.is_none() {
        outcome.defect = formed
            .defect
            .map(|defect| format!("not formed: {defect:?}"));
        return outcome;
    }
    let depths = world.peers().map(|(_, peer)| peer.overlay().tree().depth());
    outcome.depth = depths.max().unwrap_or(0) as u32;
    let before = Sight::of(&world);
    disturb(&mut world, case);
    let mut traffic = Traffic::new(case.broadcasts, world.now());
    let watched = watch(&mut world, case.limit, &mut traffic);
    outcome.delivered = traffic.judge(&world);
    let cost = |sight: &Sight| sight.since(&before);
    outcome.exact = watched.exact.as_ref().map(cost);
    outcome.relinked = watched.relinked.as_ref().map(cost);
    outcome.defect = match (watched.defect, outcome.delivered) {
        (Some(defect), _) => Some(format!("{defect:?}")),
        (None, delivered) if !outcome.is_good() => Some(format!("{delivered:?}")),
        (None, _) => None,
    };
    outcome
}

fn disturb(world: &mut World, case: &Case) {
    let drawn = index::sample(world.rng(), case.nodes as usize, case.victims as usize);
    let victims: Vec<u32> = drawn.into_iter().map(|id| id as u32).collect();
    match case.fault {
        FaultName::Crash => {
            victims.into_iter().for_each(|node| world.crash(node));
        }
        FaultName::Restart => {
            let memory = Memory::Boot;
            victims
                .into_iter()
                .for_each(|node| world.restart_with(node, memory));
        }
        FaultName::Scramble => {
            let (nodes, seed) = (victims, case.seed);
            world.act(&Fault::Scramble { nodes, seed }, |_| {});
        }
    }
}

/// A cluster at one moment.
#[derive(Clone)]
struct Sight {
    at: Duration,
    places: BTreeMap<u32, Placement<u32>>,
    dialled: u64,
}

impl Sight {
    fn of(world: &World) -> Self {
        Self {
            at: world.now(),
            places: world.placements(),
            dialled: world.dialled(),
        }
    }

    /// What has changed since `before`.
    fn since(&self, before: &Self) -> Healed {
        let has_moved = |(id, place): &(&u32, &Placement<u32>)| {
            before.places.get(id).is_some_and(|before| before != *place)
        };
        Healed {
            after: self.at.saturating_sub(before.at),
            ranks_moved: self.places.iter().filter(has_moved).count() as u64,
            dialled: self.dialled - before.dialled,
        }
    }
}

/// What was seen of a healing.
struct Watched {
    relinked: Option<Sight>,
    exact: Option<Sight>,
    /// What was wrong at the end.
    defect: Option<Defect>,
}

/// Watch until the exact graph stands for good, or for `limit`.
fn watch(world: &mut World, limit: Duration, traffic: &mut Traffic) -> Watched {
    let end = world.now() + limit;
    let (mut relinked, mut exact) = (Stood::default(), Stood::default());
    loop {
        traffic.pass(world);
        let defect = world.defect_or_vacancy();
        relinked.look(world, matches!(defect, None | Some(Defect::Vacant(_))));
        exact.look(world, defect.is_none());
        if exact.is_for_good && traffic.is_over(world.now()) || world.now() >= end {
            let exact = exact.for_good();
            return Watched {
                // Ranks may have been compacted before the ring had stood for long.
                relinked: relinked.for_good().or_else(|| exact.clone()),
                exact,
                defect,
            };
        }
        world.run_for(LOOK);
    }
}

/// Since when something holds, and whether it has held for long enough once.
#[derive(Default)]
struct Stood {
    since: Option<Sight>,
    is_for_good: bool,
}

impl Stood {
    fn look(&mut self, world: &World, holds: bool) {
        match &self.since {
            _ if self.is_for_good => {}
            _ if !holds => self.since = None,
            None => self.since = Some(Sight::of(world)),
            Some(sight) => self.is_for_good = world.now() >= sight.at + STANDING,
        }
    }

    fn for_good(self) -> Option<Sight> {
        self.since.filter(|_| self.is_for_good)
    }
}
