//! The flag to run a command with a planted bug. Only builds for tests have it.

use binomesh_overlay::Planted;
use clap::Args;

/// Which bug to run with, if any.
#[derive(Debug, Clone, Default, Args)]
pub struct PlantedFlag {
    /// Run with this planted bug, to see that the check fails.
    #[cfg(feature = "planted")]
    #[arg(long = "planted")]
    bug: Option<binomesh_overlay::Bug>,
}

impl PlantedFlag {
    /// The planted bug for the state machines; none without the flag.
    #[cfg(feature = "planted")]
    pub fn get(&self) -> Planted {
        self.bug.map(Planted::new).unwrap_or_default()
    }

    /// No planted bug for the state machines, since this build has none.
    #[cfg(not(feature = "planted"))]
    pub fn get(&self) -> Planted {
        Planted::default()
    }

    /// The name of the bug, if one was chosen.
    #[cfg(feature = "planted")]
    pub fn name(&self) -> Option<String> {
        self.bug.map(|bug| bug.to_string())
    }

    /// The name of the bug; this build has none.
    #[cfg(not(feature = "planted"))]
    pub fn name(&self) -> Option<String> {
        None
    }
}
