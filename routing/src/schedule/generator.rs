//! The graphs that have a name, and graphs from edge lists.
//!
//! Nodes are named as the papers name them: words without equal neighbours in a
//! Kautz graph (`01`), row and column in meshes and tori of at most 10 × 10
//! (`03`), row and column with a dot between them in larger ones (`3.11`), and
//! numbers from 0 elsewhere.

use std::collections::BTreeMap;

use binomesh_overlay::{Population, Rank};

use super::topology::{CHANNELS_MAX, NODES_MAX, Node, Topology, TopologyError};
use crate::sibling_tree::{Fanout, Links, SiblingTree};

/// The letters of Kautz words: 0-9, then a-z.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// The most characters of a node's name in an edge list.
const NAME_CHARS_MAX: usize = 64;

/// The one spelling of a graph's name: without zeros in front of numbers. For a graph from a file
/// it is just `file:`.
pub(super) fn canonical(name: &str) -> String {
    let Some((kind, rest)) = name.split_once(':') else {
        return name.to_owned();
    };
    if kind == "file" {
        return "file:".to_owned();
    }
    let mark = if rest.contains('x') { "x" } else { "," };
    let plain = |word: &str| match word.parse::<u32>() {
        Ok(number) => number.to_string(),
        Err(_) => word.to_owned(),
    };
    let words: Vec<String> = rest.split(mark).map(plain).collect();
    format!("{kind}:{}", words.join(mark))
}

pub(super) fn generate(name: &str) -> Result<Topology, TopologyError> {
    let name = &canonical(name);
    let unknown = || TopologyError::Unknown(name.chars().take(80).collect());
    let (kind, rest) = name.split_once(':').ok_or_else(unknown)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
    let pair = |mark| {
        let (first, second) = rest.split_once(mark).ok_or_else(unknown)?;
        Ok((number(first)?, number(second)?))
    };
    match kind {
        "kautz" => pair(',').and_then(|(d, k)| kautz(name, d, k)),
        "mesh" => pair('x').and_then(|(rows, columns)| grid(name, rows, columns, false)),
        "torus" => pair('x').and_then(|(rows, columns)| grid(name, rows, columns, true)),
        "ring" => {
            let n = number(rest)?;
            numbered(name, n, |i| vec![(i + 1) % n])
        }
        "hypercube" => hypercube(name, number(rest)?),
        "bmg" => shaped(name, number(rest)?, 2, Links::BinomialGraph),
        "sibling" => pair(',').and_then(|(k, n)| shaped(name, n, k, Links::SiblingTree)),
        "spidergon" => spidergon(name, number(rest)?),
        _ => Err(unknown()),
    }
}

pub(super) fn from_edges(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut nodes: Vec<String> = Vec::new();
    let mut numbers: BTreeMap<String, Node> = BTreeMap::new();
    let (mut channels, mut is_directed) = (Vec::new(), false);
    for (line, text) in (1..).zip(text.lines()) {
        let words: Vec<&str> = text.split_whitespace().take(4).collect();
        let (from, to, is_one_way) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [from, to] if is_name(from) && is_name(to) && from != to => (from, to, false),
            [from, ">", to] if is_name(from) && is_name(to) && from != to => (from, to, true),
            _ => {
                return Err(TopologyError::Edge {
                    graph: name.to_owned(),
                    line,
                    text: text.chars().take(80).collect(),
                });
            }
        };
        let mut number = |word: &str| {
            *numbers.entry(word.to_owned()).or_insert_with(|| {
                nodes.push(word.to_owned());
                nodes.len() - 1
            })
        };
        let ends = (number(from), number(to));
        if nodes.len() > NODES_MAX {
            return Err(TopologyError::Size(name.to_owned(), nodes.len() as u64));
        }
        if channels.len() > 2 * CHANNELS_MAX {
            return Err(TopologyError::Channels(name.to_owned()));
        }
        channels.push(ends);
        if !is_one_way {
            channels.push((ends.1, ends.0));
        }
        is_directed |= is_one_way;
    }
    Topology::build(name, nodes, is_directed, channels)
}

fn is_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    word.chars().all(is_plain) && word.chars().count() <= NAME_CHARS_MAX
}

/// A Kautz graph. Nodes are words of `length` letters out of `degree` + 1, no letter twice in a
/// row. An arc drops the first letter and appends one: `01` ▶ `10`, `12`, `13`.
fn kautz(graph: &str, degree: u32, length: u32) -> Result<Topology, TopologyError> {
    let letters = u64::from(degree) + 1;
    if !(2..=LETTERS.len() as u64).contains(&letters) || !(1..=16).contains(&length) {
        return Err(TopologyError::Parameters {
            graph: graph.to_owned(),
            reason: "give kautz:D,K with a degree D of 1 to 35 and words of K = 1 to 16 letters",
        });
    }
    let count = letters.saturating_mul(u64::from(degree).saturating_pow(length - 1));
    check_size(graph, count)?;
    let mut words: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..length {
        let longer = words.iter().flat_map(|word| {
            let letters = &LETTERS[..letters as usize];
            let fitting = letters.iter().filter(|letter| word.last() != Some(letter));
            fitting.map(|letter| [&word[..], &[*letter]].concat())
        });
        words = longer.collect();
    }
    let numbers: BTreeMap<Vec<u8>, Node> = words.iter().cloned().zip(0..).collect();
    let mut channels = Vec::new();
    for (from, word) in words.iter().enumerate() {
        for letter in &LETTERS[..letters as usize] {
            let next = [&word[1..], &[*letter]].concat();
            channels.extend(numbers.get(&next).map(|to| (from, *to)));
        }
    }
    let names = words
        .into_iter()
        .map(|word| String::from_utf8_lossy(&word).into_owned());
    Topology::build(graph, names.collect(), true, channels)
}

/// A mesh of rows and columns. A torus also joins the ends of each.
fn grid(graph: &str, rows: u32, columns: u32, wraps: bool) -> Result<Topology, TopologyError> {
    check_size(graph, u64::from(rows) * u64::from(columns))?;
    let place = |row: u32, column: u32| (row * columns + column) as Node;
    let (mut names, mut links) = (Vec::new(), Vec::new());
    for row in 0..rows {
        for column in 0..columns {
            names.push(match rows.max(columns) <= 10 {
                true => format!("{row}{column}"),
                false => format!("{row}.{column}"),
            });
            let here = place(row, column);
            if column + 1 < columns || wraps {
                links.push((here, place(row, (column + 1) % columns)));
            }
            if row + 1 < rows || wraps {
                links.push((here, place((row + 1) % rows, column)));
            }
        }
    }
    Topology::build(graph, names, false, both_ways(links))
}

/// A hypercube: nodes 0 .. 2^dimension, whose neighbours differ in one bit.
fn hypercube(graph: &str, dimension: u32) -> Result<Topology, TopologyError> {
    let count = 1u32.checked_shl(dimension).unwrap_or(u32::MAX);
    numbered(graph, count, |i| {
        (0..dimension).map(|bit| i ^ (1 << bit)).collect()
    })
}

/// A ring of an even number of nodes, each of which is also linked to the opposite one.
fn spidergon(graph: &str, n: u32) -> Result<Topology, TopologyError> {
    if !n.is_multiple_of(2) {
        return Err(TopologyError::Parameters {
            graph: graph.to_owned(),
            reason: "a spidergon has an even number of nodes; give an even number",
        });
    }
    numbered(graph, n, |i| vec![(i + 1) % n, (i + n / 2) % n])
}

/// The project's own graphs: the binomial graph with its links of ± 2^i, and the
/// sibling tree of [SFT06].
fn shaped(graph: &str, n: u32, fanout: u32, links: Links) -> Result<Topology, TopologyError> {
    check_size(graph, u64::from(n))?;
    let shape = Population::new(n).zip(Fanout::new(fanout));
    let Some((population, fanout)) = shape else {
        return Err(TopologyError::Parameters {
            graph: graph.to_owned(),
            reason: "give sibling:K,N with a fanout K of at least 2",
        });
    };
    let shape = SiblingTree::new(population, fanout);
    numbered(graph, n, |i| {
        shape
            .neighbours(Rank(i), links)
            .map(|rank| rank.0)
            .collect()
    })
}

/// An undirected graph of nodes 0 .. n with these neighbours.
fn numbered(
    graph: &str,
    n: u32,
    neighbours: impl Fn(u32) -> Vec<u32>,
) -> Result<Topology, TopologyError> {
    check_size(graph, u64::from(n))?;
    let links = (0..n).flat_map(|i| {
        let neighbours = neighbours(i).into_iter();
        neighbours.map(move |other| (i as Node, other as Node))
    });
    let links: Vec<(Node, Node)> = links.collect();
    let names = (0..n).map(|i| i.to_string()).collect();
    Topology::build(graph, names, false, both_ways(links))
}

fn check_size(graph: &str, count: u64) -> Result<(), TopologyError> {
    match (2..=NODES_MAX as u64).contains(&count) {
        true => Ok(()),
        false => Err(TopologyError::Size(graph.to_owned(), count)),
    }
}

fn both_ways(links: Vec<(Node, Node)>) -> impl Iterator<Item = (Node, Node)> {
    links
        .into_iter()
        .flat_map(|(one, other)| [(one, other), (other, one)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_have_the_sizes_that_textbooks_give() {
        for (name, nodes, channels) in [
            ("kautz:3,2", 12, 36),
            ("kautz:2,3", 12, 24),
            ("kautz:4,3", 80, 320),
            ("mesh:4x4", 16, 48),
            ("mesh:1x5", 5, 8),
            ("torus:4x4", 16, 64),
            ("torus:2x3", 6, 18),
            ("ring:8", 8, 16),
            ("ring:2", 2, 2),
            ("hypercube:4", 16, 64),
            ("bmg:8", 8, 40),
            ("bmg:12", 12, 72),
            ("bmg:16", 16, 112),
            ("sibling:2,15", 15, 54),
            ("spidergon:12", 12, 36),
        ] {
            let graph = generate(name).unwrap();
            assert_eq!(
                (graph.node_count(), graph.channels().len()),
                (nodes, channels),
                "{name}"
            );
        }
    }

    #[test]
    fn kautz_words_have_no_equal_neighbours() {
        let graph = generate("kautz:3,2").unwrap();
        let here = graph.node("01").unwrap();
        let next = graph
            .out(here)
            .iter()
            .map(|channel| graph.node_name(graph.channels()[*channel].1));
        assert_eq!(next.collect::<Vec<_>>(), ["10", "12", "13"]);
        assert_eq!(graph.node("11"), None);
    }

    #[test]
    fn nodes_of_large_meshes_have_a_dot_in_their_names() {
        assert!(generate("mesh:10x10").unwrap().node("99").is_some());
        assert!(generate("mesh:11x3").unwrap().node("10.2").is_some());
    }

    #[test]
    fn names_that_are_no_graph_are_refused() {
        for name in [
            "",
            "mesh",
            "mesh:4",
            "mesh:0x4",
            "mesh:4000000000x4000000000",
            "kautz:3",
            "kautz:0,2",
            "kautz:40,2",
            "kautz:3,99",
            "hypercube:40",
            "hypercube:0",
            "ring:1",
            "ring:1025",
            "bmg:0",
            "sibling:1,5",
            "spidergon:7",
            "star:5",
            "ring:-1",
            "ring:99999999999",
        ] {
            assert!(generate(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_graph_with_several_names_has_one() {
        for (name, one) in [
            ("mesh:04x4", "mesh:4x4"),
            ("mesh:+4x00", "mesh:4x0"),
            ("kautz:3,02", "kautz:3,2"),
            ("ring:008", "ring:8"),
            ("ring:-8", "ring:-8"),
            ("file:./a", "file:"),
            ("star", "star"),
        ] {
            assert_eq!(canonical(name), one);
        }
        assert_eq!(generate("mesh:04x4").unwrap().name(), "mesh:4x4");
    }

    #[test]
    fn an_edge_list_may_mix_links_and_channels() {
        let graph = from_edges("file:x", "# a triangle\na b\n\nb c\nc > a\n").unwrap();
        assert_eq!((graph.node_count(), graph.channels().len()), (3, 5));
        assert!(graph.is_directed());
        for (text, line) in [
            ("a b\na", 2),
            ("a a", 1),
            ("a - b", 1),
            ("a b c d e", 1),
            ("a-b c", 1),
        ] {
            let error = from_edges("file:x", text).unwrap_err();
            assert!(
                error.to_string().contains(&format!("line {line}")),
                "{error}"
            );
        }
        assert!(from_edges("file:x", "").is_err());
    }
}
