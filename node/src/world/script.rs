//! Scenarios as data: deployment shapes and steps.

use std::time::Duration;

use binomesh_overlay::Config;
use rand::Rng;

use super::{Id, World};

/// The deployment tree of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every node hangs under the root.
    Flat,
    /// Node i hangs under (i − 1) / 2.
    Binary,
    /// Node i hangs under i without its lowest bit.
    Binomial,
    /// Node i hangs under a node drawn among those before it.
    Random,
    /// Node i hangs under i − 1.
    Chain,
}

impl Shape {
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

/// Something done to a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Kill a process.
    Crash(Id),
    /// Start it again.
    Restart(Id),
    /// Stop it for a while.
    Pause(Id, Duration),
    /// Leave gracefully.
    Leave(Id),
}

impl World {
    /// Start `count` nodes at once, deployed in `shape`; each has the root as a
    /// seed. `adjust` may change a configuration before its node starts.
    pub fn deploy(&mut self, count: u32, shape: Shape, mut adjust: impl FnMut(&mut Config<Id>)) {
        for index in 0..count {
            let mut config = Config::new(index, 1, self.rng().random());
            config.parent = shape.parent(index, self.rng());
            config.slot = Some(index);
            config.seeds = vec![0];
            if shape == Shape::Flat {
                config.limits.max_children = u16::try_from(count).unwrap_or(u16::MAX);
            }
            adjust(&mut config);
            self.start(config);
        }
    }

    /// Do one step.
    pub fn act(&mut self, step: &Step) {
        match *step {
            Step::Crash(id) => self.crash(id),
            Step::Restart(id) => self.restart(id),
            Step::Pause(id, length) => self.pause(id, length),
            Step::Leave(id) => self.feed(id, crate::peer::Input::Leave),
        }
    }
}
