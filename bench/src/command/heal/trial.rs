//! One seed: form a cluster, disturb it, and watch until it has healed.

use std::collections::BTreeMap;
use std::time::Duration;

use binomesh::world::{Defect, DeploymentTree, Fault, Memory, Network, World};
use binomesh_overlay::Placement;
use rand::seq::index;

use super::traffic::{Delivered, Traffic};
use super::{FaultName, ShapeName};

/// Forming takes seconds. More than this is an error.
const FORMING: Duration = Duration::from_secs(300);
/// The time between two looks at the world.
const LOOK: Duration = Duration::from_millis(20);
/// How long a healed cluster must stand, so that it is not just passing through that state.
const STANDING: Duration = Duration::from_secs(5);

/// The parameters of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The number of nodes.
    pub(super) nodes: u32,
    /// The shape of the deployment tree.
    pub(super) shape: ShapeName,
    /// The fault to apply.
    pub(super) fault: FaultName,
    /// The number of victims.
    pub(super) victims: u32,
    /// How long ranks stay vacant.
    pub(super) grace: Duration,
    /// The time after the fault at which the seed is given up.
    pub(super) limit: Duration,
    /// How many broadcasts go out after the fault.
    pub(super) broadcasts: u32,
}

/// The result of one seed.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The seed of the run.
    pub(super) seed: u64,
    /// The depth of the tree before the fault.
    pub(super) depth: u32,
    /// The stage at which the overlay of the living nodes stood, with vacant ranks for the dead.
    pub(super) relinked: Option<Healed>,
    /// The stage at which no rank was vacant any more.
    pub(super) exact: Option<Healed>,
    /// The result of the broadcasts.
    pub(super) delivered: Delivered,
    /// The defect at the end; if there is none, the result of the broadcasts, unless that is good.
    pub(super) defect: Option<String>,
}

impl Outcome {
    /// Whether the graph stands again, no delivery is lacking and none was repeated.
    pub(super) const fn is_good(&self) -> bool {
        self.exact.is_some() && self.delivered.lacking == 0 && self.delivered.repeated == 0
    }
}

/// The cost of one stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Healed {
    /// The virtual time since the fault.
    pub(super) after: Duration,
    /// How many nodes have another placement than before the fault.
    pub(super) ranks_moved: u64,
    /// How many links were dialled since the fault.
    pub(super) dialled: u64,
}

/// Play one seed.
pub(super) fn play(case: &Case) -> Outcome {
    let mut world = World::new(case.seed, Network::local());
    let shape = match case.shape {
        ShapeName::Binomial => DeploymentTree::Binomial,
        ShapeName::Binary => DeploymentTree::Binary,
        ShapeName::Random => DeploymentTree::Random,
        ShapeName::Flat => DeploymentTree::Flat,
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
    let before = WorldSnapshot::of(&world);
    disturb(&mut world, case);
    let mut traffic = Traffic::new(case.broadcasts, world.now());
    let watched = watch(&mut world, case.limit, &mut traffic);
    outcome.delivered = traffic.judge(&world);
    let cost = |sight: &WorldSnapshot| sight.since(&before);
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
struct WorldSnapshot {
    at: Duration,
    places: BTreeMap<u32, Placement<u32>>,
    dialled: u64,
}

impl WorldSnapshot {
    fn of(world: &World) -> Self {
        Self {
            at: world.now(),
            places: world.placements(),
            dialled: world.dialled(),
        }
    }

    /// The changes since `before`.
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

/// The stages of a healing.
struct Watched {
    relinked: Option<WorldSnapshot>,
    exact: Option<WorldSnapshot>,
    /// The defect at the end.
    defect: Option<Defect>,
}

/// Watch until the exact graph has stood for long enough and the traffic is over, but for at most
/// `limit`.
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

/// Since when a condition holds, and whether it has ever held for long enough.
#[derive(Default)]
struct Stood {
    since: Option<WorldSnapshot>,
    is_for_good: bool,
}

impl Stood {
    fn look(&mut self, world: &World, holds: bool) {
        match &self.since {
            _ if self.is_for_good => {}
            _ if !holds => self.since = None,
            None => self.since = Some(WorldSnapshot::of(world)),
            Some(sight) => self.is_for_good = world.now() >= sight.at + STANDING,
        }
    }

    fn for_good(self) -> Option<WorldSnapshot> {
        self.since.filter(|_| self.is_for_good)
    }
}
