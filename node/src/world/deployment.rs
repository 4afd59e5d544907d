//! The shapes of deployment trees in a world.

use binomesh_overlay::Config;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Id, World};

/// The boot of a node that a fault adds to the world. Smaller boots are left for processes that
/// lose their memory.
pub(super) const FIRST_BOOT: u64 = 1_000;

/// The deployment tree of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentTree {
    /// Every node hangs under the root.
    Flat,
    /// Node i hangs under (i − 1) / 2.
    Binary,
    /// Node i hangs under i without its lowest set bit.
    Binomial,
    /// Node i hangs under a node drawn among those before it.
    Random,
    /// Node i hangs under i − 1.
    Chain,
}

impl DeploymentTree {
    /// All shapes of deployment trees.
    pub const ALL: [Self; 5] = [
        Self::Flat,
        Self::Binary,
        Self::Binomial,
        Self::Random,
        Self::Chain,
    ];

    /// The parent of node `index`; none for node 0.
    pub fn parent(self, index: Id, rng: &mut impl Rng) -> Option<Id> {
        let last = index.checked_sub(1)?;
        Some(match self {
            Self::Flat => 0,
            Self::Binary => last / 2,
            Self::Binomial => index & last,
            Self::Random => rng.random_range(0..index),
            Self::Chain => last,
        })
    }
}

impl World {
    /// Start `count` nodes at once, deployed in `shape`; each has the root as a
    /// seed. `adjust` may change a configuration before its node starts.
    pub fn deploy(
        &mut self,
        count: u32,
        shape: DeploymentTree,
        mut adjust: impl FnMut(&mut Config<Id>),
    ) {
        for index in 0..count {
            let mut config = Config::new(index, 1, self.rng().random());
            config.parent = shape.parent(index, self.rng());
            config.slot = Some(index);
            config.seeds = vec![0];
            if shape == DeploymentTree::Flat {
                config.limits.max_children = u16::try_from(count).unwrap_or(u16::MAX);
            }
            adjust(&mut config);
            self.start(config);
        }
    }
}
