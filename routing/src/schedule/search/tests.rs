use super::super::Collective;
use super::super::bounds::{lower_bound, lower_bound_while};
use super::super::plan::{Model, Move, Ports};
use super::super::problem::Request;
use super::super::topology::Topology;
use super::super::verify::verify;
use super::evolution::evolve;
use super::*;

fn graph(name: &str) -> Topology {
    Topology::generate(name).unwrap()
}

fn search(name: &str, faults: &[&str], request: Request, options: &Options) -> Found {
    let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let rest = graph(name).with_faults(&faults).unwrap();
    let problem = Problem::new(rest, request).unwrap();
    let found = find(&problem, options, &mut |_| true).unwrap();
    check(&found, &graph(name));
    found
}

fn check(found: &Found, graph: &Topology) {
    verify(&found.schedule, graph).unwrap();
    let (bound, steps) = (found.lower_bound, found.schedule.steps);
    assert!(bound <= steps, "bound {bound}, {steps} steps");
}

/// Search on a graph with these edges.
fn search_edges(edges: &str, request: Request) -> Found {
    let graph = Topology::from_edges("file:test", edges).unwrap();
    let problem = Problem::new(graph.clone(), request).unwrap();
    let found = find(&problem, &limited(300_000), &mut |_| true).unwrap();
    check(&found, &graph);
    found
}

fn limited(evaluations_max: u64) -> Options {
    Options {
        evaluations_max,
        ..Options::new(1)
    }
}

fn paper(name: &str, source: &str) -> [u32; 4] {
    let from = |collective| Request::paper(collective, Some(source.to_owned()));
    let all = |collective| Request::paper(collective, None);
    let steps = |request| {
        search(name, &[], request, &limited(20_000_000))
            .schedule
            .steps
    };
    [
        steps(from(Collective::Oab)),
        steps(all(Collective::Aab)),
        steps(from(Collective::Oas)),
        steps(all(Collective::Aas)),
    ]
}

#[test]
fn the_graphs_of_table_2_take_as_few_steps_as_the_paper_says() {
    assert_eq!(paper("kautz:3,2", "01"), [2, 4, 4, 7]);
    assert_eq!(paper("mesh:4x4", "00"), [3, 8, 8, 16]);
    assert_eq!(paper("mesh:4x4", "11"), [2, 8, 4, 16]);
    assert_eq!(paper("hypercube:3", "0"), [2, 3, 3, 4]);
}

#[test]
fn every_collective_is_scheduled_in_every_model() {
    for (model, ports) in [
        (Model::Wormhole, Ports::All),
        (Model::Wormhole, Ports::One),
        (Model::StoreForward, Ports::All),
        (Model::StoreForward, Ports::One),
    ] {
        for collective in [
            Collective::Oab,
            Collective::Aab,
            Collective::Oas,
            Collective::Aas,
            Collective::Aog,
        ] {
            for (name, source, fault) in [
                ("kautz:2,2", "01", "link:01-12"),
                ("mesh:3x3", "01", "node:11"),
                ("sibling:2,7", "0", "link:1-2"),
            ] {
                for excess in [0, 2] {
                    let request = Request {
                        model,
                        ports,
                        excess,
                        ..Request::paper(
                            collective,
                            collective.has_source().then(|| source.to_owned()),
                        )
                    };
                    for faults in [&[][..], &[fault]] {
                        search(name, faults, request.clone(), &limited(300_000));
                    }
                }
            }
        }
    }
}

#[test]
fn nodes_that_neither_send_nor_receive_may_relay() {
    let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect());
    for model in [Model::Wormhole, Model::StoreForward] {
        for collective in [Collective::Aab, Collective::Aas] {
            let request = Request {
                model,
                senders: names(&["00", "33"]),
                receivers: names(&["03", "30", "33"]),
                ..Request::paper(collective, None)
            };
            search("mesh:4x4", &[], request, &limited(300_000));
        }
    }
}

#[test]
fn a_broadcast_may_be_cut_into_blocks() {
    for model in [Model::Wormhole, Model::StoreForward] {
        let request = Request {
            model,
            ports: Ports::One,
            blocks: 4,
            ..Request::paper(Collective::Oab, Some("0".to_owned()))
        };
        let found = search("bmg:8", &[], request, &limited(5_000_000));
        assert!(found.schedule.steps <= 7, "{}", found.schedule.steps);
    }
}

#[test]
fn a_search_begins_from_the_old_schedule_after_a_fault() {
    for collective in [Collective::Aab, Collective::Aas] {
        let request = Request::paper(collective, None);
        let old = search("kautz:3,2", &[], request.clone(), &limited(50_000_000));
        let scratch = Options {
            method: Some(Method::Tabu),
            ..limited(50_000_000)
        };
        let from_old = Options {
            start: Some(old.schedule),
            ..scratch.clone()
        };
        let fault = &["link:01-10"];
        let scratch = search("kautz:3,2", fault, request.clone(), &scratch);
        let new = search("kautz:3,2", fault, request, &from_old);
        assert!(new.is_optimal(), "{collective}: {}", new.schedule.steps);
        let (few, many) = (new.reached_after, scratch.reached_after);
        assert!(
            few * 10 <= many,
            "{collective}: {few} evaluations, {many} from scratch"
        );
    }
}

#[test]
fn after_a_fault_the_old_deliveries_that_hold_stay() {
    let request = Request::paper(Collective::Aab, None);
    let old = search("kautz:3,2", &[], request.clone(), &limited(50_000_000)).schedule;
    let options = Options {
        start: Some(old.clone()),
        ..limited(50_000_000)
    };
    let new = search("kautz:3,2", &["link:01-10"], request, &options).schedule;
    let is_new = |one: &&Move| !old.moves.contains(one);
    let count = new.moves.iter().filter(is_new).count();
    // The channel that is gone carried at most one message in each of four steps.
    assert!(
        (1..=12).contains(&count),
        "{count} deliveries of 132 are new"
    );
}

#[test]
fn a_search_ends_soon_after_it_is_told_to() {
    for (model, name) in [
        (Model::Wormhole, "mesh:4x4"),
        (Model::StoreForward, "kautz:3,2"),
    ] {
        for collective in [
            Collective::Oab,
            Collective::Aab,
            Collective::Oas,
            Collective::Aas,
            Collective::Aog,
        ] {
            for method in [None, Some(Method::Umda), Some(Method::Orbits)] {
                for asked_max in [0, 1, 7, 60, 500] {
                    ends_soon(name, collective, model, method, asked_max);
                }
            }
        }
    }
}

fn ends_soon(
    name: &str,
    collective: Collective,
    model: Model,
    method: Option<Method>,
    asked_max: u32,
) {
    let graph = graph(name);
    let source = collective
        .has_source()
        .then(|| graph.node_name(0).to_owned());
    let request = Request {
        model,
        excess: 2,
        ..Request::paper(collective, source)
    };
    let problem = Problem::new(graph.clone(), request).unwrap();
    let options = Options {
        method,
        ..Options::new(1)
    };
    let mut asked = 0;
    let found = find(&problem, &options, &mut |_| {
        asked += 1;
        asked <= asked_max
    });
    check(&found.unwrap(), &graph);
    let after = asked.saturating_sub(asked_max);
    assert!(
        after <= 40,
        "{collective} {model} {method:?}: asked {after} times after {asked_max}"
    );
}

#[test]
fn the_bound_and_the_symmetries_are_interrupted() {
    for collective in [Collective::Oab, Collective::Oas, Collective::Aas] {
        let source = collective.has_source().then(|| "01".to_owned());
        let request = Request {
            excess: 2,
            ..Request::paper(collective, source)
        };
        let problem = Problem::new(graph("mesh:4x4"), request).unwrap();
        let whole = lower_bound(&problem);
        let mut asked = 0;
        let part = lower_bound_while(&problem, &mut || {
            asked += 1;
            false
        });
        assert!((1..=whole).contains(&part) && asked > 0, "{collective}");
    }
    let request = Request::paper(Collective::Aas, None);
    let problem = Problem::new(graph("ring:256"), request).unwrap();
    let mut asked = 0;
    let groups = symmetry::Group::of(&problem, 1, &mut || {
        asked += 1;
        asked < 3
    });
    assert!(groups.len() <= 3 && asked <= 5, "{asked}");
}

#[test]
fn the_same_seed_finds_the_same_schedule() {
    for method in [None, Some(Method::Tabu), Some(Method::Umda)] {
        let options = Options {
            method,
            ..limited(200_000)
        };
        let request = Request::paper(Collective::Aas, None);
        let one = search("kautz:3,2", &[], request.clone(), &options);
        assert_eq!(one, search("kautz:3,2", &[], request, &options));
    }
}

#[test]
fn the_evolutionary_search_of_the_paper_finds_schedules() {
    let options = Options {
        method: Some(Method::Umda),
        ..limited(60_000)
    };
    let request = Request::paper(Collective::Oas, Some("01".to_owned()));
    let found = search("kautz:3,2", &[], request, &options);
    assert_eq!((found.method, found.schedule.steps), (Method::Umda, 4));
}

#[test]
fn an_evolutionary_search_that_is_stopped_early_reports_its_best() {
    let graph = graph("kautz:3,2");
    let request = Request::paper(Collective::Oas, Some("01".to_owned()));
    let problem = Problem::new(graph, request).unwrap();
    for (seed, calls) in (0..4).flat_map(|seed| (1..40).map(move |calls| (seed, calls))) {
        let mut left = calls;
        let found = evolve(&problem, 4, seed, 10, &mut || {
            left -= 1;
            left > 0
        });
        let least = f64::from(found.conflicts_least);
        let is_empty = found.conflicts_least == u32::MAX;
        assert!(
            is_empty || least <= found.conflicts_mean,
            "seed {seed}, {calls} calls: {found:?}"
        );
    }
}

#[test]
fn a_broadcast_that_leaves_no_channel_unused_is_found_by_trying_everything() {
    let request = Request::paper(Collective::Oab, Some("0".to_owned()));
    let found = search("sibling:2,15", &[], request, &limited(1000));
    assert_eq!(
        (found.method, found.schedule.steps),
        (Method::Exhaustion, 2)
    );
}

#[test]
fn the_evolutionary_search_leaves_no_sender_without_the_message() {
    let request = Request {
        model: Model::StoreForward,
        ..Request::paper(Collective::Oab, Some("0".to_owned()))
    };
    for seed in 0..8 {
        let options = Options {
            method: Some(Method::Umda),
            evaluations_max: 20_000,
            ..Options::new(seed)
        };
        search("ring:8", &[], request.clone(), &options);
    }
}

/// Nine diamonds in a row and a long tail have 512 paths to `t`, too many to look at
/// all. The first diamond is `x` and `y`, and one of these is a receiver too. Half of
/// the paths to `t` leave the source over the other one, so one step tells both receivers.
#[test]
fn a_bound_does_not_rely_on_paths_that_were_not_looked_at() {
    let mut edges = String::new();
    let mut start = "s".to_owned();
    for number in 0..9 {
        let (x, y, end) = match number {
            0 => ("x".to_owned(), "y".to_owned(), "j0".to_owned()),
            _ => (
                format!("x{number}"),
                format!("y{number}"),
                format!("j{number}"),
            ),
        };
        edges += &format!("{start} > {x}\n{start} > {y}\n{x} > {end}\n{y} > {end}\n");
        start = end;
    }
    for number in 0..40 {
        edges += &format!("{start} > t{number}\n");
        start = format!("t{number}");
    }
    edges += &format!("{start} > t\n");
    for other in ["x", "y"] {
        let request = Request {
            receivers: Some(vec![other.to_owned(), "t".to_owned()]),
            ..Request::paper(Collective::Oab, Some("s".to_owned()))
        };
        search_edges(&edges, request);
    }
}

#[test]
fn nodes_that_lead_nowhere_are_no_relays() {
    // The node `x` is a dead end and no relay, also where it is a receiver and is told first.
    for (receivers, most) in [(&["t"][..], 2), (&["x", "t"], 3)] {
        let request = Request {
            model: Model::StoreForward,
            receivers: Some(receivers.iter().map(|name| (*name).to_owned()).collect()),
            ..Request::paper(Collective::Oab, Some("s".to_owned()))
        };
        let found = search_edges("s > x\ns > a\na > t\n", request);
        assert!(found.schedule.steps <= most, "{receivers:?}");
    }
}

#[test]
fn a_search_with_symmetries_ends_where_none_can_be_used() {
    let options = Options {
        method: Some(Method::Orbits),
        ..limited(1_000_000)
    };
    let request = Request::paper(Collective::Aas, None);
    search("ring:5", &[], request, &options);
}

#[test]
fn a_scatter_by_relays_is_a_flow_whatever_method_is_asked_for() {
    for method in [Method::Tabu, Method::Orbits, Method::Umda] {
        let options = Options {
            method: Some(method),
            ..limited(1000)
        };
        let request = Request {
            model: Model::StoreForward,
            ..Request::paper(Collective::Oas, Some("0".to_owned()))
        };
        let found = search("ring:8", &[], request, &options);
        assert_eq!((found.method, found.is_optimal()), (Method::Flow, true));
    }
}

#[test]
fn a_start_of_very_many_steps_does_no_harm() {
    let request = Request::paper(Collective::Aog, Some("0".to_owned()));
    let mut old = search("ring:4", &[], request.clone(), &limited(1000)).schedule;
    old.steps = u32::MAX;
    old.moves[0].step = 0;
    let options = Options {
        start: Some(old),
        ..limited(1000)
    };
    search("ring:4", &[], request, &options);
}

#[test]
fn a_broadcast_of_blocks_on_a_binomial_graph_follows_the_circulant_pattern() {
    for (name, blocks, steps) in [
        ("bmg:2", 3, 3),
        ("bmg:11", 9, 12),
        ("bmg:12", 9, 12),
        ("bmg:33", 4, 9),
    ] {
        for (model, method) in [
            (Model::StoreForward, None),
            (Model::StoreForward, Some(Method::Circulant)),
            (Model::Wormhole, Some(Method::Circulant)),
        ] {
            let request = Request {
                model,
                ports: Ports::One,
                blocks,
                ..Request::paper(Collective::Oab, Some("1".to_owned()))
            };
            let options = Options {
                method,
                ..limited(1000)
            };
            let found = search(name, &[], request, &options);
            let seen = (found.schedule.steps, found.method);
            assert_eq!(seen, (steps, Method::Circulant), "{name}, {model}");
        }
    }
}

#[test]
fn without_the_links_of_the_circulant_pattern_another_method_takes_its_place() {
    let request = |receivers| Request {
        model: Model::StoreForward,
        ports: Ports::One,
        receivers,
        ..Request::paper(Collective::Oab, Some("0".to_owned()))
    };
    let options = Options {
        method: Some(Method::Circulant),
        ..limited(1000)
    };
    let some = Some(vec!["3".to_owned(), "4".to_owned()]);
    for (name, faults, request) in [
        ("ring:9", &[][..], request(None)),
        ("bmg:9", &["link:3-4"], request(None)),
        ("bmg:9", &["node:5"], request(None)),
        ("bmg:9", &[], request(some)),
    ] {
        let found = search(name, faults, request, &options);
        assert_ne!(found.method, Method::Circulant, "{name}");
    }
}

#[test]
fn many_blocks_go_over_trees_that_share_no_channel() {
    for (name, source, faults, steps) in [
        ("ring:8", "0", &[][..], 21),
        ("hypercube:3", "0", &[], 14),
        ("mesh:3x3", "00", &["link:11-12"], 19),
        ("kautz:3,2", "01", &[], 13),
    ] {
        let request = Request {
            model: Model::StoreForward,
            blocks: 30,
            ..Request::paper(Collective::Oab, Some(source.to_owned()))
        };
        let options = Options {
            method: Some(Method::Trees),
            ..limited(1000)
        };
        let found = search(name, faults, request, &options);
        let seen = (found.schedule.steps, found.method);
        assert_eq!(seen, (steps, Method::Trees), "{name}");
    }
}
