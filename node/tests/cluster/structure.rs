//! [BMG09] §3.4.1: the neighbours of rank r are the ranks r ± 2^i mod N for
//! every 2^i < N, and there are no others.

use std::collections::{BTreeMap, BTreeSet};

use binomesh::NodeReport;

use crate::bed;

/// The number of distinct neighbours by formula.
fn by_formula(nodes: u32) -> usize {
    let levels = nodes.next_power_of_two().ilog2() as usize;
    match nodes.count_ones() {
        1 => (2 * levels).saturating_sub(1),
        2 => 2 * levels - 2,
        _ => 2 * levels,
    }
}

/// The neighbours of a rank by definition.
fn by_definition(nodes: u32, rank: u32) -> BTreeSet<u32> {
    let distances = (0..32).map(|level| 1_u32 << level);
    let levels = distances.take_while(|distance| *distance < nodes);
    levels
        .flat_map(|d| [(rank + d) % nodes, (rank + nodes - d) % nodes])
        .collect()
}

#[test]
fn the_formulas_are_those_of_the_definition() {
    for nodes in 1..=1100 {
        for rank in [0, nodes / 2, nodes - 1] {
            let defined = by_definition(nodes, rank).len();
            assert_eq!(defined, by_formula(nodes), "N = {nodes}");
        }
    }
}

/// For each node, by name, the names of the neighbours that it must have.
pub(crate) fn expected(reports: &[NodeReport]) -> BTreeMap<&str, BTreeSet<&str>> {
    let nodes = u32::try_from(reports.len()).expect("few");
    let mut by_rank: Vec<&NodeReport> = reports.iter().collect();
    by_rank.sort_by_key(|report| report.rank);
    let name = |rank: u32| by_rank[rank as usize].name.as_str();
    let neighbours = |rank| by_definition(nodes, rank).into_iter().map(name).collect();
    (0..nodes)
        .map(|rank| (name(rank), neighbours(rank)))
        .collect()
}

pub(crate) fn names<'a>(all: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a str> {
    all.into_iter().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_clusters_have_exactly_the_neighbours_of_the_graph() {
    let _turn = bed::turn().await;
    for nodes in [1, 2, 3, 5, 7, 8, 11, 12, 16, 33] {
        let cluster = bed::formed(bed::config(nodes)).await;
        let (reports, verified) = bed::verified(&cluster).await;
        let degree = by_formula(nodes);
        assert_eq!((verified.degree_min, verified.degree_max), (degree, degree));
        for (node, wanted) in expected(&reports) {
            let report = reports.iter().find(|report| report.name == node);
            let report = report.expect("ranked");
            let tables = report.clockwise.iter().chain(&report.counterclockwise);
            assert_eq!(names(tables.flatten()), wanted, "{node} of {nodes}");
            assert!(
                names(&report.links).is_superset(&wanted),
                "{node} of {nodes}"
            );
        }
        bed::stop(cluster).await;
    }
}

/// Links from the forming of the overlay end when they have been idle. Links of the graph and of
/// the tree stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_links_stay() {
    let _turn = bed::turn().await;
    let cluster = bed::formed(bed::config(12)).await;
    bed::eventually("exactly the links of graph and tree", async || {
        let (reports, _) = bed::verified(&cluster).await;
        let expected = expected(&reports);
        let is_exact = |report: &NodeReport| {
            let mut wanted = expected[&*report.name].clone();
            wanted.extend(names(report.parent.iter().chain(&report.children)));
            names(&report.links) == wanted
        };
        reports.iter().all(is_exact).then_some(())
    })
    .await;
    bed::stop(cluster).await;
}
