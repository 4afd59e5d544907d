//! A random scenario from a seed: bursts of faults, and quiet times between them in which
//! everything must heal.
//!
//! ```text
//!   form ─ burst ─ quiet ─ burst ─ quiet ─ … ─ end of all faults
//! ```
//!
//! Each burst has a theme, so that faults of a kind meet each other, and some churn, unless it is
//! one long partition. All faults, messages and calls are drawn here. The run itself draws only
//! from seeds that stand in the scenario.

mod operations;
mod script;

use binomesh::Bootstrap;
use binomesh::world::{Conditions, DeploymentTree, Latency};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scenario::{Profile, Scenario};
use crate::command::converge::Sizes;
use script::Script;

/// The time for the nodes to form before the first burst; in a short scenario less.
const FORMING_MS: u64 = 4_000;
/// The time that healing, the last receipts and the final silence take in most runs.
const TAIL_MS: u64 = 90_000;
/// The longest burst. The only burst of a scenario, and a partition that is judged, may last
/// longer.
const BURST_MS: u64 = 40_000;
/// How many messages are sent per minute of a burst, and per minute of quiet.
const BURST_RATE: u64 = 130;
const QUIET_RATE: u64 = 34;
/// The first life of every process. Smaller numbers are left for processes that lose their memory.
pub const FIRST_BOOT: u64 = 1_000;

/// This number xor the seed of a scenario is the seed of its size, which is drawn apart from
/// everything else.
const OF_SIZES: u64 = 0x5129_e50f_0a77_c1d3;

/// The bounds of one scenario.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How many nodes are deployed.
    pub nodes: u32,
    /// The shortest life of a world.
    pub least_ms: u64,
    /// The greatest loss per million messages.
    pub loss_per_million: u32,
    /// The longest healing that is allowed.
    pub heal_ms: u64,
}

/// The theme of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// Processes are killed, started and paused, join and leave.
    Churn,
    /// Links are lossy, slow, narrow or cut.
    Links,
    /// Two or three groups are cut off from each other for long.
    Partition,
    /// State is corrupted, and garbage travels.
    Corruption,
    /// Processes lie, or speak a newer version.
    Lies,
    /// Many visitors come and go at once.
    Visits,
    /// Faults of all themes.
    All,
}

/// The number of nodes for this seed. Small sizes are drawn more often, since each member of a
/// small world has a greater share in all that happens. The rest of a scenario does not depend on
/// whether the size is drawn or given.
pub fn size(seed: u64, sizes: Sizes) -> u32 {
    let (first, count) = (sizes.first(), sizes.last() - sizes.first() + 1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ OF_SIZES);
    let share = rng.random::<f64>().powi(2);
    let size = first + (share * count as f64) as usize;
    size.min(sizes.last()) as u32
}

/// The scenario of this seed.
pub fn scenario(seed: u64, bounds: Bounds) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let shape = DeploymentTree::ALL.choose(&mut rng).copied();
    let slowest_ms = [1, 5, 20, 80].choose(&mut rng).copied().unwrap_or(1);
    let network = Conditions {
        latency: Latency::Uniform {
            min_us: 50,
            max_us: slowest_ms * 1000,
        },
        loss_per_million: 0,
        duplicated_per_million: 0,
        reordered_per_million: 0,
    };
    let max_children = [16, 16, 4, 2].choose(&mut rng).copied().unwrap_or(16);
    let tight = rng.random_ratio(1, 4);
    let grace_ms = [0, 5_000, 30_000].choose(&mut rng).copied().unwrap_or(0);
    let all_return = rng.random_bool(0.5);
    let mut script = Script::new(bounds, &mut rng);
    let faulty_ms = bounds.least_ms.saturating_sub(TAIL_MS);
    let faulty_ms = faulty_ms.max(bounds.least_ms / 2);
    bursts(&mut script, faulty_ms);
    let Script {
        mut faults,
        mut messages,
        ..
    } = script;
    faults.sort_by_key(|fault| fault.at_ms);
    messages.sort_by_key(|message| message.at_ms);
    Scenario {
        bootstrap: Bootstrap::Tree,
        seed,
        nodes: bounds.nodes,
        shape: shape.unwrap_or(DeploymentTree::Random),
        profile: Profile::Default,
        grace_ms,
        max_children,
        tight,
        network,
        faulty_ms,
        least_ms: bounds.least_ms,
        heal_ms: bounds.heal_ms,
        all_return,
        faults,
        messages,
        operations: operations::operations(seed, bounds.nodes, faulty_ms),
    }
}

/// Add bursts. If there are several, each is followed by at least as much quiet as healing may
/// take. A partition that is judged lasts into this quiet.
fn bursts(script: &mut Script<'_>, faulty_ms: u64) {
    let slot_ms = BURST_MS + script.bounds.heal_ms + 5_000;
    let count = (faulty_ms / slot_ms).max(1);
    let length = faulty_ms / count;
    let mut start = FORMING_MS.min(faulty_ms / 4);
    if script.rng.random_ratio(1, 3) {
        script.drift(start);
    }
    for number in 0..count {
        use Theme::{All, Churn, Corruption, Lies, Links, Partition, Visits};
        let themes = [
            Churn, Links, Links, Partition, Corruption, Lies, Lies, Visits, All,
        ];
        let theme = themes.choose(script.rng).copied();
        let theme = theme.filter(|_| number > 0).unwrap_or(Churn);
        let end = (number + 1) * length;
        let is_only = count == 1;
        let burst_end = if is_only {
            end
        } else {
            (start + BURST_MS).min(end)
        };
        burst(script, theme, start, burst_end);
        script.chatter(start..burst_end, BURST_RATE, false);
        script.chatter(burst_end..end, QUIET_RATE, true);
        start = end;
    }
}

/// Add faults between these times, each with its own time. They end by `end`, except for pauses,
/// leaves and a partition that is judged, which may last longer.
fn burst(script: &mut Script<'_>, theme: Theme, start: u64, end: u64) {
    if theme == Theme::Partition {
        // In a burst of this theme a partition is alone, and long enough for its parts to be
        // judged.
        let length = (end - start).max(script.bounds.heal_ms + 1_000);
        return script.partition(start, length);
    }
    let most = 16.max((end - start) / 2_500);
    let count = script.rng.random_range(10..=most);
    let mut times: Vec<u64> = (0..count)
        .map(|_| script.rng.random_range(start..end.max(start + 1)))
        .collect();
    times.sort_unstable();
    let is_first = script.faults.len() < 2;
    if is_first {
        // The first four faults of a run without drift are of four kinds.
        let mut times = times.drain(..4.min(times.len()));
        let mut at = || times.next().unwrap_or(start);
        script.crash(at());
        script.restart_any(at());
        script.leave(at());
        script.pause(at());
    }
    if matches!(theme, Theme::Lies | Theme::All) {
        // About one node in twenty lies, and at least one.
        for _ in 0..(script.bounds.nodes / 20).max(1) {
            script.lie(start, end - start);
        }
    }
    for at in times {
        let left = end.saturating_sub(at).max(2);
        let ms = script.rng.random_range(left / 2..=left);
        match theme {
            _ if script.rng.random_ratio(1, 3) => churn(script, at),
            Theme::Churn | Theme::Partition => churn(script, at),
            Theme::Links => links(script, at, ms),
            Theme::Corruption if script.rng.random_bool(0.5) => script.scramble(at),
            Theme::Corruption => script.flood(at, ms),
            Theme::Lies if script.rng.random_bool(0.5) => script.skew(at, ms),
            Theme::Lies => churn(script, at),
            Theme::Visits => script.visit(at, ms),
            Theme::All => match script.rng.random_range(0..6) {
                0 => script.scramble(at),
                1 => script.flood(at, ms),
                2 => script.skew(at, ms),
                3 => script.visit(at, ms),
                _ => links(script, at, ms),
            },
        }
    }
    if script.rng.random_bool(0.5) {
        script.restart_all(end);
    }
}

fn churn(script: &mut Script<'_>, at: u64) {
    match script.rng.random_range(0..16) {
        0..5 => {
            for _ in 0..script.rng.random_range(1..=3) {
                script.crash(at);
            }
        }
        5..9 => script.restart_any(at),
        9 => script.leave(at),
        10..12 => script.pause(at),
        12..14 => script.join(at),
        _ => script.bounce(at),
    }
}

fn links(script: &mut Script<'_>, at: u64, ms: u64) {
    match script.rng.random_range(0..8) {
        0..2 => script.weather(at, ms),
        2 => script.cut(at, ms),
        3..5 => script.sever(at, ms),
        5 => script.slow(at, ms),
        6 => script.narrow(at, ms),
        _ => {
            let short = ms.min(script.rng.random_range(500..15_000));
            script.partition(at, short);
        }
    }
}
