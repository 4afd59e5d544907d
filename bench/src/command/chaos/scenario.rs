//! A chaos run as data: the deployment, the faults, the messages and the operations, each with its
//! time.
//!
//! The text form is JSON with one fault, message or operation per line. A person can read a short
//! one, and a tool can replay it.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use binomesh::Bootstrap;
use binomesh::world::{Conditions, DeploymentTree, Fault, Id};
use binomesh_overlay::Planted;
use binomesh_overlay::config::Pace;
use binomesh_routing as routing;
use binomesh_routing::strategy::Strategy;
use serde::{Deserialize, Serialize};

use super::super::Failure;
use super::operation::Operation;

/// A chaos run as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The seed of the network, of the nodes' parents, contacts and jitter, and of the values in
    /// calls.
    pub seed: u64,
    /// How many nodes are deployed. They are called 0, 1, …
    pub nodes: u32,
    /// How the nodes find their places. In a clique, each lists all deployed nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bootstrap: Bootstrap,
    /// The deployment tree.
    pub shape: DeploymentTree,
    /// The pace of the nodes.
    pub profile: Profile,
    /// How long a dead member's rank stays vacant.
    #[serde(default = "half_a_minute")]
    pub grace_ms: u64,
    /// The most children of a node; in a flat tree at least the number of nodes.
    pub max_children: u16,
    /// Whether the relays have little room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tight: bool,
    /// The conditions of the network without faults.
    pub network: Conditions,
    /// The time at which all lasting faults are ended. Faults, messages and calls from then on are
    /// left out.
    pub faulty_ms: u64,
    /// The shortest life of the world.
    pub least_ms: u64,
    /// The longest healing that is allowed.
    pub heal_ms: u64,
    /// Whether all deployed nodes that are dead are started again when the faults end. Otherwise
    /// only as many are started as the living nodes need to find each other.
    pub all_return: bool,
    /// The faults to apply.
    pub faults: Vec<Timed<Fault>>,
    /// The messages to publish.
    pub messages: Vec<Timed<Post>>,
    /// The collective operations to call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Timed<Operation>>,
}

/// A fault, message or operation with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed<T> {
    /// The time, since the world began.
    pub at_ms: u64,
    /// The fault, message or operation.
    #[serde(flatten)]
    pub what: T,
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Post {
    /// The node that publishes it. If this node is down, paused or leaving, or has no place, the
    /// message is left out.
    pub from: Id,
    /// The receivers; all members if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Id>,
    /// The strategy for a message to all members.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// The length of the payload in bytes; a payload of less than 20 bytes is made that long.
    #[serde(default = "short", skip_serializing_if = "is_short")]
    pub bytes: u32,
    /// The deadline of the receipt, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// A profile of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named as on the command line of the node")]
pub enum Profile {
    #[default]
    Default,
    Fast,
    Quiet,
}

impl Profile {
    /// The pace that the profile stands for.
    pub fn pace(self) -> Pace {
        match self {
            Self::Default => Pace::default(),
            Self::Fast => Pace::fast(),
            Self::Quiet => Pace::quiet(),
        }
    }
}

/// A scenario that was read from a file.
pub type Given = (PathBuf, Scenario);

/// The scenarios of these files and folders, in the order given. The files of a folder are those
/// that end in `.json`, in the order of their names.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Given>, Failure> {
    let mut given = Vec::new();
    for path in paths {
        let said = |error: io::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let mut files = match path.is_dir() {
            true => files_of(path).map_err(said)?,
            false => vec![path.clone()],
        };
        if files.is_empty() {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "{path}: no scenario in this folder"
            )));
        }
        files.sort_unstable();
        for file in files {
            let said = |error: &dyn Display| Failure::Usage(format!("{}: {error}", file.display()));
            let text = std::fs::read_to_string(&file).map_err(|error| said(&error))?;
            let scenario = Scenario::parse(&text).map_err(|error| said(&error))?;
            given.push((file, scenario));
        }
    }
    Ok(given)
}

fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn short() -> u32 {
    16
}

const fn is_short(bytes: &u32) -> bool {
    *bytes == short()
}

const fn half_a_minute() -> u64 {
    30_000
}

impl<T> Timed<T> {
    /// The time, since the world began.
    pub const fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }
}

impl Scenario {
    /// The most nodes that can be there at once: deployed ones, joining ones and visitors.
    pub fn crowd(&self) -> u64 {
        let visit = |timed: &Timed<Fault>| match timed.what {
            Fault::Visit { count, ms, .. } => Some((timed.at_ms, timed.at_ms + ms, count)),
            _ => None,
        };
        let visits: Vec<(u64, u64, u32)> = self.faults.iter().filter_map(visit).collect();
        let at_once = visits.iter().map(|(begin, ..)| {
            let there = visits
                .iter()
                .filter(|(from, to, _)| from <= begin && begin < to);
            there.map(|(.., count)| u64::from(*count)).sum::<u64>()
        });
        let joined = self.faults.iter().filter_map(|timed| match timed.what {
            Fault::Join { node, .. } => Some(node),
            _ => None,
        });
        let joined = joined.collect::<BTreeSet<_>>().len() as u64;
        u64::from(self.nodes) + joined + at_once.max().unwrap_or(0)
    }

    /// The number of forged messages.
    pub fn forged(&self) -> u64 {
        let floods = self.faults.iter().filter_map(|timed| match timed.what {
            Fault::Flood { count, .. } => Some(u64::from(count)),
            _ => None,
        });
        floods.sum()
    }

    /// The relays' parameters.
    pub fn relay(&self, planted: Planted) -> routing::Config {
        let config = routing::Config {
            planted,
            ..routing::Config::default()
        };
        match self.tight {
            false => config,
            true => routing::Config {
                window: 16,
                max_duties: 8,
                max_duty_bytes: 32 << 10,
                max_finished: 64,
                max_waiters: 2,
                max_exceptions: 4,
                max_held: 4,
                max_held_bytes: 16 << 10,
                max_message_bytes: 64 << 10,
                ..config
            },
        }
    }

    /// The longest healing that is allowed.
    pub const fn heal_limit(&self) -> Duration {
        Duration::from_millis(self.heal_ms)
    }

    /// Read a scenario from its text form.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The scenario in its text form.
    pub fn text(&self) -> String {
        let head = Self {
            faults: Vec::new(),
            messages: Vec::new(),
            operations: Vec::new(),
            ..self.clone()
        };
        let mut text = String::from("{\n");
        if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(head) {
            let plain = fields
                .iter()
                .filter(|(name, _)| !["faults", "messages"].contains(&name.as_str()));
            for (name, value) in plain {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  \"{name}\": {value},");
            }
        }
        let _ = writeln!(text, "  \"faults\": {},", lines(&self.faults));
        if !self.operations.is_empty() {
            let _ = writeln!(text, "  \"operations\": {},", lines(&self.operations));
        }
        let _ = writeln!(text, "  \"messages\": {}", lines(&self.messages));
        text.push_str("}\n");
        text
    }
}

fn lines(list: &[impl Serialize]) -> String {
    let lines: Vec<String> = list
        .iter()
        .filter_map(|item| serde_json::to_string(item).ok())
        .map(|line| format!("    {line}"))
        .collect();
    match lines.is_empty() {
        true => "[]".to_owned(),
        false => format!("[\n{}\n  ]", lines.join(",\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_counts_the_nodes_that_are_there_at_once() {
        let text = |faults: &str| {
            format!(
                r#"{{"all_return": false, "faulty_ms": 9, "grace_ms": 0, "heal_ms": 9, "least_ms": 0,
                "max_children": 4, "network": {{"duplicated_per_million": 0, "latency":
                {{"uniform": {{"max_us": 2, "min_us": 1}}}}, "loss_per_million": 0,
                "reordered_per_million": 0}}, "nodes": 24, "profile": "default", "seed": 1,
                "shape": "flat", "tight": true, "messages": [], "faults": [{faults}]}}"#
            )
        };
        let visit = |at: u64, ms: u64, count: u32| {
            format!(
                r#"{{"at_ms": {at}, "visit": {{"parent": 1, "first": 99, "count": {count}, "ms": {ms}}}}}"#
            )
        };
        let join = |node: u32| {
            format!(r#"{{"at_ms": 1, "join": {{"node": {node}, "parent": 0, "seeds": [0]}}}}"#)
        };
        for (visits, expected) in [
            (vec![], 24),
            (vec![join(24), join(25), join(24)], 26),
            (vec![join(24), visit(1, 10, 5)], 30),
            (vec![visit(1, 10, 5)], 29),
            (vec![visit(1, 10, 5), visit(5, 10, 7), visit(11, 1, 9)], 40),
            (vec![visit(1, 10, 5), visit(11, 10, 7)], 31),
        ] {
            let scenario: Scenario = serde_json::from_str(&text(&visits.join(","))).unwrap();
            assert_eq!(scenario.crowd(), expected, "{visits:?}");
        }
    }
}
