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

/// The kind of a collective: which nodes tell which ([EVO] §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collective {
    /// One-to-all broadcast: all nodes get the source's message.
    Oab,
    /// All-to-all broadcast: all nodes get the messages of all.
    Aab,
    /// One-to-all scatter: each node gets a message of its own from the source.
    Oas,
    /// All-to-all scatter: each node sends each other node another message.
    Aas,
    /// All-to-one gather: the source gets a message from each node. It is a scatter with all
    /// channels turned round. Messages are never combined.
    Aog,
}

impl Collective {
    /// Whether the collective has one source, or for a gather one root.
    pub const fn has_source(self) -> bool {
        matches!(self, Self::Oab | Self::Oas | Self::Aog)
    }

    /// Whether receivers can pass on messages, since one message is for all.
    pub const fn is_broadcast(self) -> bool {
        matches!(self, Self::Oab | Self::Aab)
    }
}

/// The model of how a message crosses the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A path holds all of its channels for its whole step; the nodes on the way
    /// learn nothing ([EVO] §2).
    Wormhole,
    /// A message crosses one channel per step, and each node on its way learns it.
    StoreForward,
}

/// How many messages a node sends and receives at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ports {
    /// In each step a node sends at most one message and receives at most one. A message that only
    /// passes through a wormhole router does not count.
    One,
    /// A node is limited by its channels alone.
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
    /// The kind of the collective.
    pub collective: Collective,
    /// The source, or the root of a gather; none if all nodes send to all.
    #[serde(default, deserialize_with = "optional_name")]
    pub source: Option<String>,
    /// The faulty links and nodes.
    pub faults: Vec<Fault>,
    /// How a message crosses the network.
    pub model: Model,
    /// How much a node does at once.
    pub ports: Ports,
    /// How many channels more than a shortest path a path may have. It does not apply to
    /// `store-forward`, whose moves have one channel.
    pub excess: u8,
    /// The number of blocks of a one-to-all broadcast; else 1.
    pub blocks: u32,
    /// The nodes that send; absent if all healthy nodes do, or only the source. Other nodes only
    /// relay.
    #[serde(
        default,
        deserialize_with = "optional_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub senders: Option<Vec<String>>,
    /// The nodes that receive; absent if all healthy nodes do, or only the root of a gather. Other
    /// nodes only relay.
    #[serde(
        default,
        deserialize_with = "optional_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub receivers: Option<Vec<String>>,
    /// How many steps there are.
    pub steps: u32,
    /// The moves: each is one message on one path in one step.
    pub moves: Vec<Move>,
}

/// One message on one path in one step: `[step, from, to, [node, …], message]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "MoveRow", into = "MoveRow")]
pub struct Move {
    /// The step: 1 ..= the number of steps.
    pub step: u32,
    /// The name of the sender.
    pub from: String,
    /// The name of the receiver.
    pub to: String,
    /// The nodes on the way, both ends included.
    pub path: Vec<String>,
    /// The message that is sent.
    pub message: Message,
}

/// The message that a move carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Message {
    /// A block of a broadcast that is cut into several: 0 .. the number of blocks.
    Block(u32),
    /// The message of this node. It is for all nodes, or, in a wormhole scatter or gather, for the
    /// node at the end of the path.
    Of(String),
    /// The message of the first node for the second: scatter and gather in `store-forward`.
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
