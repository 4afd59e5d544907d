//! Graphs of neighbours: which nodes know each other at the start, in clusters whose nodes have
//! neighbours rather than parents.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::shape::{Shape, split_mix};

/// The most nodes of a graph. A guess: more than one machine simulates or runs.
pub const NODES_MAX: u32 = 1 << 16;
/// The most edges of a graph. A guess: so many take a few hundred MiB of memory.
const EDGES_MAX: u64 = 1 << 22;
/// The most bytes of a graph's file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A graph, as the flag `--graph` names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Graph {
    /// Each node knows the next one and the one before.
    Ring(u32),
    /// Rows and columns: each node knows the nodes beside, above and below it.
    Mesh {
        /// The number of rows.
        rows: u32,
        /// The number of columns.
        columns: u32,
    },
    /// A connected random graph: a random tree, and further random edges.
    Random {
        /// The number of nodes.
        nodes: u32,
        /// The mean degree.
        degree: u32,
    },
    /// All nodes know node 0, and it knows them.
    Star(u32),
    /// Two halves, joined by one edge. In each half all nodes know each other.
    Cliques(u32),
    /// A path of half of the nodes, rounded up. Each of the other nodes is joined to one node of
    /// the path, and no two to the same.
    Caterpillar(u32),
    /// The graph of a file: an edge `a b` on each line, or `a > b` where only a knows b.
    File(PathBuf),
}

/// A graph that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The text names no known graph.
    #[error(
        "{0:?} is no graph; expected ring:N, mesh:AxB, random:N,D, star:N, cliques:N, \
         caterpillar:N or file:PATH"
    )]
    Unknown(String),
    /// Too few or too many nodes.
    #[error("{0} has {1} nodes; give a graph of 1 to 65536")]
    Size(String, u64),
    /// Too many edges.
    #[error("{0} has {1} edges or more; give a graph of at most 4194304 edges")]
    Edges(String, u64),
    /// A mean degree below 2, or above half of the nodes: edges are drawn by trial and error, which
    /// takes long in dense graphs.
    #[error("{graph} cannot have the mean degree {degree}; give a degree from 2 to {most}")]
    Degree {
        /// The graph's name.
        graph: String,
        /// The degree that was asked for.
        degree: u32,
        /// The greatest degree that is accepted.
        most: u32,
    },
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}; name a file with one edge per line, `a b` or `a > b`")]
    Unreadable(String, String),
    /// A line of the file is no edge.
    #[error(
        "{file}, line {line}: {text:?} is no edge; expected the numbers of two different nodes below 65536, such as `0 1`, or `0 > 1` if only node 0 knows node 1"
    )]
    Edge {
        /// The name of the file.
        file: String,
        /// The line's number, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The graph is not connected.
    #[error("{graph} is not connected: no path leads from node 0 to node {node}; add an edge")]
    Parts {
        /// The graph's name.
        graph: String,
        /// The smallest node that cannot be reached from node 0.
        node: usize,
    },
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring(nodes) => write!(f, "ring:{nodes}"),
            Self::Mesh { rows, columns } => write!(f, "mesh:{rows}x{columns}"),
            Self::Random { nodes, degree } => write!(f, "random:{nodes},{degree}"),
            Self::Star(nodes) => write!(f, "star:{nodes}"),
            Self::Cliques(nodes) => write!(f, "cliques:{nodes}"),
            Self::Caterpillar(nodes) => write!(f, "caterpillar:{nodes}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl FromStr for Graph {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || GraphError::Unknown(text.chars().take(80).collect());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        if kind == "file" && !rest.is_empty() {
            return Ok(Self::File(rest.into()));
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        let pair = |mark| {
            let (first, second) = rest.split_once(mark).ok_or_else(unknown)?;
            Ok((number(first)?, number(second)?))
        };
        let graph = match kind {
            "ring" => Self::Ring(number(rest)?),
            "star" => Self::Star(number(rest)?),
            "cliques" => Self::Cliques(number(rest)?),
            "caterpillar" => Self::Caterpillar(number(rest)?),
            "mesh" => {
                let (rows, columns) = pair('x')?;
                Self::Mesh { rows, columns }
            }
            "random" => {
                let (nodes, degree) = pair(',')?;
                Self::Random { nodes, degree }
            }
            _ => return Err(unknown()),
        };
        graph.check()?;
        Ok(graph)
    }
}

impl Graph {
    fn check(&self) -> Result<(), GraphError> {
        let nodes = match *self {
            Self::Mesh { rows, columns } => u64::from(rows) * u64::from(columns),
            Self::Ring(nodes)
            | Self::Star(nodes)
            | Self::Cliques(nodes)
            | Self::Caterpillar(nodes)
            | Self::Random { nodes, .. } => nodes.into(),
            Self::File(_) => return Ok(()),
        };
        if !(1..=u64::from(NODES_MAX)).contains(&nodes) {
            return Err(GraphError::Size(self.to_string(), nodes));
        }
        let edges = match *self {
            Self::Cliques(_) => nodes.div_ceil(2) * nodes.div_ceil(2),
            Self::Random { degree, .. } => nodes * u64::from(degree) / 2,
            _ => 2 * nodes,
        };
        if edges > EDGES_MAX {
            return Err(GraphError::Edges(self.to_string(), edges));
        }
        match *self {
            // Edges are drawn by trial and error, which would take long for denser graphs.
            Self::Random { nodes, degree }
                if nodes > 1 && !(2..=nodes.div_ceil(2).max(2)).contains(&degree) =>
            {
                Err(GraphError::Degree {
                    graph: self.to_string(),
                    degree,
                    most: nodes.div_ceil(2).max(2),
                })
            }
            _ => Ok(()),
        }
    }

    /// The nodes that each node knows, in ascending order. The seed is used for a random graph.
    pub fn lists(&self, seed: u64) -> Result<Vec<Vec<u32>>, GraphError> {
        let (nodes, knows) = match self {
            Self::Ring(nodes) => {
                let next = (0..*nodes).map(|node| (node, (node + 1) % nodes));
                (*nodes, both(next))
            }
            Self::Mesh { rows, columns } => {
                (rows * columns, both(mesh(*rows, *columns).into_iter()))
            }
            Self::Random { nodes, degree } => {
                (*nodes, both(random(*nodes, *degree, seed).into_iter()))
            }
            Self::Star(nodes) => (*nodes, both((1..*nodes).map(|node| (0, node)))),
            Self::Cliques(nodes) => {
                let half = nodes.div_ceil(2);
                let within = move |from: u32, to: u32| {
                    (from..to).flat_map(move |a| (a + 1..to).map(move |b| (a, b)))
                };
                let bridge = (half < *nodes).then_some((half - 1, half));
                let all = within(0, half).chain(within(half, *nodes));
                (*nodes, both(all.chain(bridge)))
            }
            Self::Caterpillar(nodes) => {
                let spine = nodes.div_ceil(2);
                let along = (1..spine).map(|node| (node - 1, node));
                let legs = (spine..*nodes).map(|leg| (leg - spine, leg));
                (*nodes, both(along.chain(legs)))
            }
            Self::File(path) => read(path)?,
        };
        let mut lists = vec![Vec::new(); nodes as usize];
        for (from, to) in knows.into_iter().filter(|(from, to)| from != to) {
            lists[from as usize].push(to);
        }
        match unreached(&lists) {
            None => Ok(lists),
            Some(node) => Err(GraphError::Parts {
                graph: self.to_string(),
                node,
            }),
        }
    }
}

/// Edges that go in both directions.
fn both(edges: impl Iterator<Item = (u32, u32)>) -> BTreeSet<(u32, u32)> {
    edges.flat_map(|(a, b)| [(a, b), (b, a)]).collect()
}

fn mesh(rows: u32, columns: u32) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let node = row * columns + column;
            edges.extend((column + 1 < columns).then_some((node, node + 1)));
            edges.extend((row + 1 < rows).then_some((node, node + columns)));
        }
    }
    edges
}

/// The edges of a random tree, and further ones up to the mean degree.
fn random(nodes: u32, degree: u32, seed: u64) -> BTreeSet<(u32, u32)> {
    let parents = Shape::Random { seed }.parents(nodes);
    let tree = parents.iter().zip(0..);
    let mut edges: BTreeSet<(u32, u32)> = tree
        .filter_map(|(parent, node)| Some(((*parent)?, node)))
        .collect();
    let wanted = u64::from(nodes) * u64::from(degree) / 2;
    let mut state = !seed;
    let mut draw = || (split_mix(&mut state) % u64::from(nodes)) as u32;
    while (edges.len() as u64) < wanted && nodes > 2 {
        let (a, b) = (draw(), draw());
        if a != b {
            edges.insert((a.min(b), a.max(b)));
        }
    }
    edges
}

fn read(path: &Path) -> Result<(u32, BTreeSet<(u32, u32)>), GraphError> {
    use std::io::Read;
    let file = path.display().to_string();
    let failed = |reason: String| GraphError::Unreadable(file.clone(), reason);
    let mut text = String::new();
    let opened = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bounded = opened.take(FILE_BYTES_MAX + 1);
    let read = bounded.read_to_string(&mut text);
    let read = read.map_err(|error| failed(error.to_string()))?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(failed(format!(
            "the file has more than {FILE_BYTES_MAX} bytes"
        )));
    }
    let (mut knows, mut nodes) = (BTreeSet::new(), 0);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (edge, is_channel) = match line.split_once('>') {
            Some((from, to)) => (Some((from, to)), true),
            None => (line.split_once(char::is_whitespace), false),
        };
        let number_of = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n < NODES_MAX);
        let ends = edge.and_then(|(from, to)| Some((number_of(from)?, number_of(to)?)));
        let Some((from, to)) = ends.filter(|(from, to)| from != to) else {
            return Err(GraphError::Edge {
                file,
                line: number + 1,
                text: line.chars().take(80).collect(),
            });
        };
        nodes = nodes.max(from + 1).max(to + 1);
        knows.insert((from, to));
        if !is_channel {
            knows.insert((to, from));
        }
        if knows.len() as u64 > 2 * EDGES_MAX {
            return Err(GraphError::Edges(format!("file:{file}"), EDGES_MAX + 1));
        }
    }
    match nodes {
        0 => Err(GraphError::Size(format!("file:{file}"), 0)),
        nodes => Ok((nodes, knows)),
    }
}

/// The smallest node that is not connected to node 0, in whichever direction nodes know each other.
fn unreached(lists: &[Vec<u32>]) -> Option<usize> {
    let mut around = lists.to_vec();
    for (from, list) in lists.iter().enumerate() {
        for to in list {
            around[*to as usize].push(from as u32);
        }
    }
    let mut is_reached = vec![false; lists.len()];
    let mut waiting = vec![0_u32];
    while let Some(node) = waiting.pop() {
        if !std::mem::replace(&mut is_reached[node as usize], true) {
            waiting.extend(&around[node as usize]);
        }
    }
    is_reached.iter().position(|is_reached| !is_reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(text: &str) -> Vec<Vec<u32>> {
        text.parse::<Graph>().unwrap().lists(1).unwrap()
    }

    #[test]
    fn each_kind_has_its_edges() {
        for (text, expected) in [
            ("ring:1", &[&[][..]][..]),
            ("ring:2", &[&[1], &[0]]),
            ("ring:4", &[&[1, 3], &[0, 2], &[1, 3], &[0, 2]]),
            ("mesh:2x2", &[&[1, 2], &[0, 3], &[0, 3], &[1, 2]]),
            ("star:4", &[&[1, 2, 3], &[0], &[0], &[0]]),
            ("cliques:5", &[&[1, 2], &[0, 2], &[0, 1, 3], &[2, 4], &[3]]),
            ("caterpillar:5", &[&[1, 3], &[0, 2, 4], &[1], &[0], &[1]]),
        ] {
            assert_eq!(lists(text), expected, "{text}");
            assert_eq!(text.parse::<Graph>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn random_graphs_have_the_mean_degree_and_differ_by_seed() {
        for (nodes, degree) in [(1, 9), (2, 2), (3, 2), (30, 4), (1000, 6)] {
            let graph = Graph::Random { nodes, degree };
            assert_eq!(graph.check(), Ok(()), "{graph}");
            let edges: usize = graph.lists(5).unwrap().iter().map(Vec::len).sum();
            if nodes > 2 {
                assert_eq!(edges as u32, nodes * degree / 2 * 2, "{graph}");
            }
        }
        let graph = Graph::Random {
            nodes: 30,
            degree: 4,
        };
        assert_ne!(graph.lists(1), graph.lists(2));
    }

    #[test]
    fn a_file_has_an_edge_or_a_channel_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Graph::File(path.clone()).lists(0)
        };
        let expected = vec![vec![1, 2], vec![0], vec![]];
        assert_eq!(of("# three\n0 1\n\n0 > 2 # one way\n"), Ok(expected));
        for (text, word) in [
            ("0 1\n0\n", "line 2"),
            ("0 0\n", "is no edge"),
            ("0 70000\n", "is no edge"),
            ("0 > 1 > 2\n", "is no edge"),
            ("a b\n", "is no edge"),
            ("", "has 0 nodes"),
            ("0 1\n3 > 4\n", "to node 2"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text:?}: {error}");
        }
        let error = Graph::File("/none".into()).lists(0).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn an_error_says_why_a_text_is_no_graph() {
        for (text, word) in [
            ("ring", "is no graph"),
            ("ring:x", "is no graph"),
            ("mesh:4", "is no graph"),
            ("torus:4x4", "is no graph"),
            ("file:", "is no graph"),
            ("ring:0", "has 0 nodes"),
            ("mesh:70000x70000", "has 4900000000 nodes"),
            ("cliques:65536", "has 1073741824 edges or more"),
            ("random:65536,30000", "edges"),
            ("random:10,1", "mean degree 1"),
            ("random:10,9", "mean degree 9"),
        ] {
            let error = text.parse::<Graph>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
