//! The choices of `binomesh-bench schedule`, by the names of its flags.

use binomesh_routing::schedule::search::Method;
use binomesh_routing::schedule::{Collective, Model, Ports};
use clap::ValueEnum;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident as $type:ty { $($(#[$help:meta])* $one:ident => $value:path),+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub enum $name { $($(#[$help])* $one),+ }

        impl From<$name> for $type {
            fn from(name: $name) -> Self {
                match name { $($name::$one => $value),+ }
            }
        }
    };
}

names!(
    /// The collective communication.
    CollectiveName as Collective {
        /// One-to-all broadcast.
        Oab => Collective::Oab,
        /// All-to-all broadcast.
        Aab => Collective::Aab,
        /// One-to-all scatter.
        Oas => Collective::Oas,
        /// All-to-all scatter.
        Aas => Collective::Aas,
        /// All-to-one gather.
        Aog => Collective::Aog
    }
);
names!(
    /// How a message crosses the network.
    ModelName as Model {
        /// A whole path in one step; relays do not get the message.
        Wormhole => Model::Wormhole,
        /// One hop per step; relays get the message, too.
        StoreForward => Model::StoreForward
    }
);
names!(
    /// How much a node does at once.
    PortsName as Ports {
        /// One message sent and one received per step.
        One => Ports::One,
        /// As many as there are channels.
        All => Ports::All
    }
);
names!(
    /// A search that can be asked for alone.
    MethodName as Method {
        /// Tabu search.
        Tabu => Method::Tabu,
        /// Tabu search for schedules that symmetries leave unchanged.
        Orbits => Method::Orbits,
        /// The evolutionary search of [EVO].
        Umda => Method::Umda,
        /// The circulant pattern of Träff for broadcasts, if the graph has its links.
        Circulant => Method::Circulant,
        /// Trees without a common channel, for broadcasts in many blocks.
        Trees => Method::Trees
    }
);
