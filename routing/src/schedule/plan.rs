//! A schedule as data, in the format of its file.
//!
//! ```json
//! {"graph":"ring:4","collective":"oab","source":"0","faults":[],"model":"wormhole",
//!  "ports":"all","excess":0,"blocks":1,"steps":2,
//!  "moves":[[1,"0","1",["0","1"],"0"],[1,"0","3",["0","3"],"0"],[2,"1","2",["1","2"],"0"]]}
//! ```
//!
//! Nothing here is checked beyond the types: the judge of a schedule is
//! [`super::verify::verify`].

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::fault::Fault;

/// Who tells whom ([EVO] §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collective {
    /// One-to-all broadcast: everybody gets the source's message.
    Oab,
    /// All-to-all broadcast: everybody gets everybody's message.
    Aab,
    /// One-to-all scatter: each gets a message of its own from the source.
    Oas,
    /// All-to-all scatter: each sends each a message of its own.
    Aas,
    /// All-to-one gather: the source gets a message of each. It is a scatter with
    /// all channels turned round. Messages are never combined.
    Aog,
}

impl Collective {
    /// Whether one node is the source, or for a gather the root.
    pub const fn has_source(self) -> bool {
        matches!(self, Self::Oab | Self::Oas | Self::Aog)
    }

    /// Whether receivers can pass on what they got: one message is for all.
    pub const fn is_broadcast(self) -> bool {
        matches!(self, Self::Oab | Self::Aab)
    }
}

/// How a message crosses the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A path holds all of its channels for its whole step; the nodes on the way
    /// learn nothing ([EVO] §2).
    Wormhole,
    /// A message crosses one channel per step, and each node on its way learns it.
    StoreForward,
}

/// How much a node does at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ports {
    /// Each step it sends at most one message and receives at most one. What only
    /// passes through a wormhole router does not count.
    One,
    /// Only the channels limit it.
    All,
}

macro_rules! named {
    ($type:ty { $($value:path => $name:literal),+ }) => {
        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($value => $name),+ })
            }
        }
    };
}

named!(Collective {
    Self::Oab => "oab", Self::Aab => "aab", Self::Oas => "oas", Self::Aas => "aas",
    Self::Aog => "aog"
});
named!(Model { Self::Wormhole => "wormhole", Self::StoreForward => "store-forward" });
named!(Ports { Self::One => "one", Self::All => "all" });

/// A collective communication as steps of moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The graph, such as `kautz:3,2`.
    pub graph: String,
    /// Who tells whom.
    pub collective: Collective,
    /// The source, or the root of a gather; none where all send to all.
    #[serde(default, deserialize_with = "optional_name")]
    pub source: Option<String>,
    /// What is out of order.
    pub faults: Vec<Fault>,
    /// How a message crosses the network.
    pub model: Model,
    /// How much a node does at once.
    pub ports: Ports,
    /// How many channels a path may have more than a shortest one. It does not
    /// concern `store-forward`, whose moves are one channel long.
    pub excess: u8,
    /// Into how many blocks the message of a one-to-all broadcast is cut; else 1.
    pub blocks: u32,
    /// Who sends; absent if all healthy nodes do. Others only relay.
    #[serde(
        default,
        deserialize_with = "optional_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub senders: Option<Vec<String>>,
    /// Who receives; absent if all healthy nodes do. Others only relay.
    #[serde(
        default,
        deserialize_with = "optional_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub receivers: Option<Vec<String>>,
    /// How many steps there are.
    pub steps: u32,
    /// Who sends what to whom, when, and by which way.
    pub moves: Vec<Move>,
}

/// One message on one path in one step: `[step, from, to, [node, …], message]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "MoveRow", into = "MoveRow")]
pub struct Move {
    /// When: 1 ..= the number of steps.
    pub step: u32,
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// The nodes on the way, both ends included.
    pub path: Vec<String>,
    /// What.
    pub message: Message,
}

/// What a move carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Message {
    /// A block of a broadcast that is cut into several: 0 .. the number of blocks.
    Block(u32),
    /// The message that this node has for all, or, in a wormhole scatter or gather,
    /// for the one at the end of the path.
    Of(String),
    /// What the first has for the second: scatter and gather in `store-forward`.
    Between(
        #[serde(deserialize_with = "name")] String,
        #[serde(deserialize_with = "name")] String,
    ),
}

impl Display for Message {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => write!(f, "block {block}"),
            Self::Of(origin) => write!(f, "message of {origin}"),
            Self::Between(origin, to) => write!(f, "message of {origin} for {to}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct MoveRow(u32, Name, Name, Vec<Name>, Message);

impl From<MoveRow> for Move {
    fn from(row: MoveRow) -> Self {
        Self {
            step: row.0,
            from: row.1.0,
            to: row.2.0,
            path: row.3.into_iter().map(|name| name.0).collect(),
            message: row.4,
        }
    }
}

impl From<Move> for MoveRow {
    fn from(one: Move) -> Self {
        let path = one.path.into_iter().map(Name).collect();
        Self(one.step, Name(one.from), Name(one.to), path, one.message)
    }
}

/// A node's name. It is written as a string; a number is read as well.
struct Name(String);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Name;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a node")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Name, E> {
                Ok(Name(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn optional_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<Name>::deserialize(deserializer)?;
    Ok(name.map(|name| name.0))
}

fn optional_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    let names = Option::<Vec<Name>>::deserialize(deserializer)?;
    Ok(names.map(|names| names.into_iter().map(|name| name.0).collect()))
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Name::deserialize(deserializer)?.0)
}
