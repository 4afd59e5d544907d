//! Verifies that the nodes' own tables, taken together, are the binomial graph.
//!
//! For N members with ranks 0..N and every level i with 2^i < N, `clockwise[i]` of rank r must be
//! the node of rank r + 2^i mod N and `counterclockwise[i]` that of r − 2^i mod N (\[BMG09\]
//! §3.4.1). Both ends must agree, and each entry must have a live authenticated link.

use std::collections::BTreeMap;
use std::fmt;

use binomesh_overlay::{Population, Rank};
use serde::Serialize;

use crate::report::NodeReport;

/// The figures of a graph that was found correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The number of members.
    pub nodes: u32,
    /// The number of levels, ⌈log2 N⌉.
    pub levels: usize,
    /// The number of entries that were checked, in both directions together.
    pub entries: usize,
    /// The fewest distinct neighbours of a node.
    pub degree_min: usize,
    /// The most distinct neighbours of a node.
    pub degree_max: usize,
}

/// A place where the reports are not those of a correct cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Defect {
    /// The node whose report it is; `-` for a defect of all reports together.
    pub node: String,
    /// The part of the report, such as `clockwise[3]`.
    pub place: String,
    /// The value that must be there.
    pub expected: String,
    /// The value that is there.
    pub found: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            place,
            expected,
            found,
        } = self;
        write!(f, "{node}: {place} is {found}, expected {expected}")
    }
}

/// Check the reports of *all* live nodes: exactly `expected` members, one epoch, and each of the
/// ranks 0..N once. Only if that holds, the graph and the tree are checked. Returns the defects
/// that were found; those of the graph are in the order of ranks.
pub fn verify(reports: &[NodeReport], expected: u32) -> Result<Verified, Vec<Defect>> {
    let mut defects = Vec::new();
    let Some(population) = Population::new(expected) else {
        defects.push(defect("-", "population", "at least one node", expected));
        return Err(defects);
    };
    if reports.len() != expected as usize {
        defects.push(defect("-", "reports", expected, reports.len()));
    }
    let by_rank = ranked(reports, population, &mut defects);
    if !defects.is_empty() {
        return Err(defects);
    }
    let mut verified = Verified {
        nodes: expected,
        levels: population.levels(),
        entries: 0,
        degree_min: usize::MAX,
        degree_max: 0,
    };
    for (rank, report) in &by_rank {
        let neighbours = check_fingers(report, *rank, population, &by_rank, &mut defects);
        check_ring(report, *rank, population, &by_rank, &mut defects);
        verified.entries += report.clockwise.len() + report.counterclockwise.len();
        verified.degree_min = verified.degree_min.min(neighbours);
        verified.degree_max = verified.degree_max.max(neighbours);
    }
    check_tree(reports, &mut defects);
    if defects.is_empty() {
        Ok(verified)
    } else {
        Err(defects)
    }
}

fn defect(
    node: &str,
    place: impl fmt::Display,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Defect {
    Defect {
        node: node.to_owned(),
        place: place.to_string(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

fn shown<T: fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "unset".to_owned(), ToString::to_string)
}

/// The reports by rank, checked for one epoch, this population, and each name and rank once.
fn ranked<'a>(
    reports: &'a [NodeReport],
    population: Population,
    defects: &mut Vec<Defect>,
) -> BTreeMap<Rank, &'a NodeReport> {
    let mut by_rank: BTreeMap<Rank, &NodeReport> = BTreeMap::new();
    let mut names: BTreeMap<&str, &NodeReport> = BTreeMap::new();
    let epoch = reports.first().and_then(|first| first.epoch.as_ref());
    for report in reports {
        let name = report.name.as_str();
        if names.insert(name, report).is_some() {
            defects.push(defect(name, "name", "one node of this name", "several"));
        }
        if report.epoch.is_none() || report.epoch.as_ref() != epoch {
            let (wanted, found) = (shown(epoch), shown(report.epoch.as_ref()));
            defects.push(defect(name, "epoch", wanted, found));
        }
        if report.population != Some(population.get()) {
            let found = shown(report.population.as_ref());
            defects.push(defect(name, "population", population.get(), found));
        }
        match report.rank.map(Rank) {
            Some(rank) if rank.is_within(population) => {
                if let Some(other) = by_rank.insert(rank, report) {
                    let expected = format!("another rank than that of {}", other.name);
                    defects.push(defect(name, "rank", expected, rank.0));
                }
            }
            rank => {
                let expected = format!("0 to {}", population.get() - 1);
                defects.push(defect(
                    name,
                    "rank",
                    expected,
                    shown(rank.map(|r| r.0).as_ref()),
                ));
            }
        }
    }
    by_rank
}

/// Check the clockwise and the counterclockwise table of one node. Returns the number of the
/// distinct neighbours that are right.
fn check_fingers(
    report: &NodeReport,
    rank: Rank,
    population: Population,
    by_rank: &BTreeMap<Rank, &NodeReport>,
    defects: &mut Vec<Defect>,
) -> usize {
    let mut neighbours = std::collections::BTreeSet::new();
    let tables = [
        ("clockwise", &report.clockwise, true),
        ("counterclockwise", &report.counterclockwise, false),
    ];
    for (table, entries, ahead) in tables {
        let levels = population.levels();
        if entries.len() != levels {
            let place = format!("{table} levels");
            defects.push(defect(&report.name, place, levels, entries.len()));
        }
        for (level, entry) in entries.iter().enumerate().take(levels) {
            let distance = 1 << level;
            let wanted = if ahead {
                rank.ahead(distance, population)
            } else {
                rank.behind(distance, population)
            };
            let Some(there) = by_rank.get(&wanted) else {
                continue;
            };
            let place = format!("{table}[{level}]");
            if entry.as_ref() != Some(&there.name) {
                let expected = format!("{} (rank {})", there.name, wanted.0);
                defects.push(defect(&report.name, place, expected, shown(entry.as_ref())));
                continue;
            }
            neighbours.insert(&there.name);
            if !report.links.contains(&there.name) {
                let expected = format!("a live link to {}", there.name);
                defects.push(defect(&report.name, &place, expected, "no link"));
            }
            let back = if ahead {
                &there.counterclockwise
            } else {
                &there.clockwise
            };
            let back = back.get(level).and_then(Option::as_ref);
            if back != Some(&report.name) {
                let expected = format!(
                    "the table of {} to name {} in return",
                    there.name, report.name
                );
                defects.push(defect(&report.name, &place, expected, shown(back)));
            }
        }
    }
    neighbours.len()
}

fn check_ring(
    report: &NodeReport,
    rank: Rank,
    population: Population,
    by_rank: &BTreeMap<Rank, &NodeReport>,
    defects: &mut Vec<Defect>,
) {
    if population == Population::ONE {
        return;
    }
    for (place, found, wanted) in [
        ("successor", &report.successor, rank.ahead(1, population)),
        (
            "predecessor",
            &report.predecessor,
            rank.behind(1, population),
        ),
    ] {
        let expected = by_rank.get(&wanted).map(|there| &there.name);
        if found.as_ref() != expected {
            let (expected, found) = (shown(expected), shown(found.as_ref()));
            defects.push(defect(&report.name, place, expected, found));
        }
    }
}

/// Check that there is one root, and that each other node is among the children of its parent.
fn check_tree(reports: &[NodeReport], defects: &mut Vec<Defect>) {
    let by_name: BTreeMap<&str, &NodeReport> =
        reports.iter().map(|one| (one.name.as_str(), one)).collect();
    let roots: Vec<&str> = reports
        .iter()
        .filter(|one| one.parent.is_none())
        .map(|one| one.name.as_str())
        .collect();
    if roots.len() != 1 {
        defects.push(defect("-", "roots", "exactly one", roots.join(", ")));
    }
    for report in reports {
        let Some(parent) = &report.parent else {
            continue;
        };
        let agrees = by_name
            .get(parent.as_str())
            .is_some_and(|parent| parent.children.contains(&report.name));
        if !agrees {
            let expected = format!("a live parent with the child {}", report.name);
            defects.push(defect(&report.name, "parent", expected, parent));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The reports of a flawless cluster on a flat tree.
    pub(crate) fn flawless(nodes: u32) -> Vec<NodeReport> {
        let population = Population::new(nodes).unwrap();
        let name = |rank: Rank| format!("node-{}", rank.0);
        let report = |number: u32| {
            let rank = Rank(number);
            let table = |ahead: bool| -> Vec<Option<String>> {
                let at = |level: usize| {
                    if ahead {
                        rank.ahead(1 << level, population)
                    } else {
                        rank.behind(1 << level, population)
                    }
                };
                (0..population.levels())
                    .map(|level| Some(name(at(level))))
                    .collect()
            };
            let (clockwise, counterclockwise) = (table(true), table(false));
            let mut links: Vec<String> = clockwise
                .iter()
                .chain(&counterclockwise)
                .flatten()
                .cloned()
                .collect();
            links.sort();
            links.dedup();
            NodeReport {
                name: name(rank),
                id: binomesh_overlay::PeerId::of_uri(&name(rank)),
                pid: 1,
                boot: 1,
                address: ([127, 0, 0, 1], 1).into(),
                rank: Some(number),
                epoch: Some("e".into()),
                population: Some(nodes),
                parent: (number > 0).then(|| name(Rank(0))),
                children: if number == 0 {
                    (1..nodes).map(|n| name(Rank(n))).collect()
                } else {
                    vec![]
                },
                successor: Some(name(rank.ahead(1, population))),
                predecessor: Some(name(rank.behind(1, population))),
                clockwise,
                counterclockwise,
                links,
                down: Vec::new(),
                slow: Vec::new(),
                relayed: Vec::new(),
                unmet: Vec::new(),
                addresses_gone: Vec::new(),
                left: Vec::new(),
                healthy: true,
                anchored: true,
                ready: true,
                reason: None,
                lost_count: 0,
                credentials: Vec::new(),
            }
        };
        (0..nodes).map(report).collect()
    }

    /// The degree of a node: 0 at N = 1; 2⌈log2 N⌉ − 1 at powers of two, one less again for sums of
    /// two different powers, else 2⌈log2 N⌉.
    #[test]
    fn degrees_are_those_of_the_graph() {
        for (nodes, degree) in [
            (1, 0),
            (2, 1),
            (3, 2),
            (5, 4),
            (7, 6),
            (8, 5),
            (11, 8),
            (12, 6),
            (16, 7),
            (33, 10),
        ] {
            let verified = verify(&flawless(nodes), nodes).unwrap();
            assert_eq!(
                (verified.degree_min, verified.degree_max),
                (degree, degree),
                "{nodes}"
            );
        }
    }

    #[test]
    fn every_kind_of_defect_is_red_and_names_its_place() {
        type Edit = fn(&mut Vec<NodeReport>);
        let edits: [(&str, Edit); 15] = [
            ("reports is 6, expected 7", |all| drop(all.pop())),
            ("node-3: epoch", |all| all[3].epoch = Some("f".into())),
            ("node-3: epoch", |all| all[3].epoch = None),
            ("node-2: population is 6", |all| all[2].population = Some(6)),
            ("node-2: rank is unset", |all| all[2].rank = None),
            ("node-2: rank is 7", |all| all[2].rank = Some(7)),
            ("node-2: rank is 1", |all| all[2].rank = Some(1)),
            (
                "node-4: clockwise[1] is node-5, expected node-6 (rank 6)",
                |all| {
                    all[4].clockwise[1] = Some("node-5".into());
                },
            ),
            ("node-4: counterclockwise[2] is unset", |all| {
                all[4].counterclockwise[2] = None
            }),
            ("node-4: clockwise levels is 4, expected 3", |all| {
                all[4].clockwise.push(None)
            }),
            ("node-5: clockwise[0] is no link", |all| {
                all[5].links.retain(|link| link != "node-6");
            }),
            (
                "node-6: counterclockwise[1] is unset, expected the table of node-4 to name node-6",
                |all| {
                    all[4].clockwise[1] = None;
                },
            ),
            ("node-1: successor is unset", |all| all[1].successor = None),
            ("roots is node-0, node-1", |all| all[1].parent = None),
            ("node-1: parent is node-2", |all| {
                all[1].parent = Some("node-2".into())
            }),
        ];
        for (wanted, edit) in edits {
            let mut reports = flawless(7);
            edit(&mut reports);
            let defects = verify(&reports, 7).expect_err(wanted);
            let shown: Vec<String> = defects.iter().map(ToString::to_string).collect();
            assert!(
                shown.iter().any(|line| line.contains(wanted)),
                "{wanted}: {shown:?}"
            );
        }
    }
}
