mod optimum;

use super::super::problem::Request;
use super::super::topology::Topology;
use super::*;

fn bound(graph: &str, faults: &[&str], request: Request) -> u32 {
    let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let graph = Topology::generate(graph)
        .unwrap()
        .with_faults(&faults)
        .unwrap();
    lower_bound(&Problem::new(graph, request).unwrap())
}

fn paper(graph: &str, faults: &[&str], source: &str) -> [u32; 4] {
    let from = |collective| Request::paper(collective, Some(source.to_owned()));
    let all = |collective| Request::paper(collective, None);
    [
        bound(graph, faults, from(Collective::Oab)),
        bound(graph, faults, all(Collective::Aab)),
        bound(graph, faults, from(Collective::Oas)),
        bound(graph, faults, all(Collective::Aas)),
    ]
}

#[test]
fn without_faults_the_bounds_are_those_of_table_1() {
    assert_eq!(paper("kautz:3,2", &[], "01"), [2, 4, 4, 7]);
    assert_eq!(paper("mesh:4x4", &[], "00"), [3, 8, 8, 16]);
    assert_eq!(paper("mesh:4x4", &[], "11"), [2, 8, 4, 16]);
    assert_eq!(paper("hypercube:3", &[], "0"), [2, 3, 3, 4]);
    assert_eq!(paper("hypercube:4", &[], "0"), [2, 4, 4, 8]);
    assert_eq!(paper("ring:8", &[], "0"), [2, 4, 4, 8]);
    assert_eq!(paper("bmg:16", &[], "0"), [2, 3, 3, 4]);
}

#[test]
fn longer_paths_lower_the_bound_of_a_scatter_from_an_edge_of_the_mesh() {
    let request = Request::paper(Collective::Oas, Some("01".to_owned()));
    assert_eq!(bound("mesh:4x4", &[], request.clone()), 6);
    assert_eq!(
        bound(
            "mesh:4x4",
            &[],
            Request {
                excess: 2,
                ..request
            }
        ),
        5
    );
}

#[test]
fn a_faulty_link_raises_the_bounds_as_table_3_says() {
    // [EVO] Table 3: 3, 6, 6 and 9 steps.
    assert_eq!(paper("kautz:3,2", &["link:01-10"], "01")[..3], [3, 6, 6]);
    // A corner with one link takes in one message per step.
    assert_eq!(paper("mesh:4x4", &["link:00-01"], "00")[1..3], [15, 15]);
}

#[test]
fn ports_and_hops_limit_the_steps_as_well() {
    let request = |collective, source: Option<&str>| Request {
        model: Model::StoreForward,
        ports: Ports::One,
        ..Request::paper(collective, source.map(str::to_owned))
    };
    assert_eq!(
        bound("hypercube:3", &[], request(Collective::Oab, Some("0"))),
        3
    );
    assert_eq!(bound("ring:8", &[], request(Collective::Oab, Some("0"))), 4);
    assert_eq!(bound("hypercube:3", &[], request(Collective::Aab, None)), 7);
    assert_eq!(
        bound("hypercube:3", &[], request(Collective::Aas, None)),
        12
    );
    assert_eq!(
        bound("hypercube:3", &[], request(Collective::Aog, Some("0"))),
        7
    );
    let blocks = Request {
        blocks: 9,
        ..request(Collective::Oab, Some("0"))
    };
    assert_eq!(bound("hypercube:3", &[], blocks), 11);
}

#[test]
fn trying_everything_proves_what_growth_does_not() {
    // A clique of five nodes, and a chain of five more. Over its one link the chain is entered by
    // one message in each step, and a told node of the chain tells at most two others. So at most 1
    // node of the chain is told after one step, and 4 after two.
    let clique = (0..5).flat_map(|one| (one + 1..5).map(move |other| (one, other)));
    let chain = (4..9).map(|one| (one, one + 1));
    let edges = clique
        .chain(chain)
        .map(|(one, other)| format!("{one} {other}\n"));
    let graph = Topology::from_edges("file:x", &edges.collect::<String>()).unwrap();
    let request = Request::paper(Collective::Oab, Some("0".to_owned()));
    let problem = Problem::new(graph, request).unwrap();
    let source = problem.source().unwrap();
    assert_eq!(broadcast::growth(&problem, source), 2);
    assert_eq!(lower_bound(&problem), 3);
}
