//! Valid schedules with a rule broken by construction: the judge must name the rule.

use binomesh_overlay::noise::Noise;

use super::super::super::search::{Method, Options, find};
use super::super::*;
use super::read;

/// The schedule that one search finds for a request.
fn sample(
    name: &str,
    faults: &[&str],
    request: Request,
    method: Option<Method>,
) -> (Topology, Schedule) {
    let graph = Topology::generate(name).unwrap();
    let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let rest = graph.with_faults(&faults).unwrap();
    let problem = Problem::new(rest, request).unwrap();
    let options = Options {
        evaluations_max: if method.is_some() { 20_000_000 } else { 1 },
        method,
        ..Options::new(3)
    };
    let found = find(&problem, &options, &mut |_| true).unwrap();
    assert!(method.is_none_or(|method| found.method == method), "{name}");
    verify(&found.schedule, &graph).unwrap();
    (graph, found.schedule)
}

/// Samples of all collectives and models, with blocks, an excess, faults and lists, and by several
/// methods of search.
fn samples() -> Vec<(Topology, Schedule)> {
    let mut samples = Vec::new();
    let all = |collective| Request::paper(collective, None);
    let from = |collective, source: &str| Request::paper(collective, Some(source.to_owned()));
    for (model, ports) in [
        (Model::Wormhole, Ports::All),
        (Model::Wormhole, Ports::One),
        (Model::StoreForward, Ports::All),
        (Model::StoreForward, Ports::One),
    ] {
        for (name, source, fault, excess) in [
            ("kautz:2,2", "01", None, 0),
            ("mesh:3x3", "00", None, 2),
            ("mesh:3x3", "01", Some("link:00-01"), 0),
            ("ring:5", "2", None, 0),
        ] {
            for (collective, blocks) in [
                (Collective::Oab, 1),
                (Collective::Oab, 3),
                (Collective::Aab, 1),
                (Collective::Oas, 1),
                (Collective::Aas, 1),
                (Collective::Aog, 1),
            ] {
                let request = Request {
                    model,
                    ports,
                    excess,
                    blocks,
                    ..match collective.has_source() {
                        true => from(collective, source),
                        false => all(collective),
                    }
                };
                samples.push(sample(name, fault.as_slice(), request, None));
            }
        }
        for collective in [Collective::Aab, Collective::Aas] {
            let names = |list: [&str; 3]| Some(list.map(str::to_owned).to_vec());
            let request = Request {
                model,
                ports,
                senders: names(["00", "02", "11"]),
                receivers: names(["11", "20", "22"]),
                ..all(collective)
            };
            samples.push(sample("mesh:3x3", &["node:01"], request, None));
        }
    }
    for (name, request, method) in [
        ("mesh:3x3", all(Collective::Aas), Method::Tabu),
        ("kautz:2,2", all(Collective::Aab), Method::Tabu),
        ("hypercube:3", all(Collective::Aas), Method::Orbits),
        ("mesh:3x3", from(Collective::Oab, "00"), Method::Umda),
        ("bmg:9", from(Collective::Oab, "0"), Method::Circulant),
    ] {
        samples.push(sample(name, &[], request, Some(method)));
    }
    samples
}

/// A way to break a schedule, and the defects that the judge may then name.
struct Mutation {
    what: &'static str,
    /// Break the schedule at a move; `None` if that is not possible there.
    breaks: fn(&Topology, &mut Schedule, usize) -> Option<()>,
    is_expected: fn(&Defect) -> bool,
}

const MUTATIONS: [Mutation; 17] = [
    Mutation {
        what: "a delivery is missing",
        breaks: |graph, schedule, place| {
            let one = schedule.moves.remove(place);
            // A hop that only leads to a relay may be needless.
            let problem = problem(graph, schedule)?;
            let is_needed = problem.receivers().contains(&graph.node(&one.to)?);
            (is_needed || !schedule.collective.is_broadcast()).then_some(())
        },
        is_expected: |defect| matches!(defect, Defect::Missing { .. } | Defect::NotHeld { .. }),
    },
    Mutation {
        what: "a move is there twice",
        breaks: |_, schedule, place| {
            schedule.moves.push(schedule.moves[place].clone());
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::Conflict { .. }),
    },
    Mutation {
        what: "a delivery comes again in a step of its own",
        breaks: |_, schedule, place| {
            schedule.steps += 1;
            let mut again = schedule.moves[place].clone();
            again.step = schedule.steps;
            schedule.moves.push(again);
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::Twice { .. }),
    },
    Mutation {
        what: "a step too late",
        breaks: |_, schedule, place| {
            schedule.moves[place].step += schedule.steps;
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoStep { .. }),
    },
    Mutation {
        what: "a step before the first",
        breaks: |_, schedule, place| {
            schedule.moves[place].step = 0;
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoStep { .. }),
    },
    Mutation {
        what: "an empty last step",
        breaks: |_, schedule, _| {
            schedule.steps += 1;
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::EmptyStep(_)),
    },
    Mutation {
        what: "a path the wrong way",
        breaks: |_, schedule, place| {
            schedule.moves[place].path.reverse();
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::Ends { .. }),
    },
    Mutation {
        what: "a node that does not exist",
        breaks: |_, schedule, place| {
            schedule.moves[place].path[0] = "nobody".to_owned();
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoNode { .. }),
    },
    Mutation {
        what: "a node twice on a path",
        breaks: |_, schedule, place| {
            let one = &mut schedule.moves[place];
            let end = one.path.pop()?;
            one.path.extend([one.path[0].clone(), end]);
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::Loop { .. }),
    },
    Mutation {
        what: "a node on a path is left out",
        breaks: |graph, schedule, place| {
            let one = &mut schedule.moves[place];
            (one.path.len() > 2).then(|| one.path.remove(1))?;
            let ends = (graph.node(&one.path[0])?, graph.node(&one.path[1])?);
            graph.channel(ends.0, ends.1).is_none().then_some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoChannel { .. }),
    },
    Mutation {
        what: "a channel in use is faulty",
        breaks: |_, schedule, place| {
            let path = &schedule.moves[place].path;
            let fault = format!("link:{}-{}", path[0], path[1]).parse().ok()?;
            schedule.faults.push(fault);
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoChannel { .. } | Defect::Header(_)),
    },
    Mutation {
        what: "a receiver is faulty",
        breaks: |_, schedule, place| {
            let fault = format!("node:{}", schedule.moves[place].to).parse().ok()?;
            schedule.faults.push(fault);
            Some(())
        },
        is_expected: |defect| {
            let is_move = matches!(defect, Defect::NoNode { .. } | Defect::NoMessage { .. });
            is_move || matches!(defect, Defect::Header(_))
        },
    },
    Mutation {
        what: "a path is too long",
        breaks: |graph, schedule, place| {
            let rest = graph.with_faults(&schedule.faults).ok()?;
            let one = &mut schedule.moves[place];
            let (from, to) = (rest.node(&one.from)?, rest.node(&one.to)?);
            let most = match schedule.model {
                Model::Wormhole => rest.distances_from(from)[to]? + usize::from(schedule.excess),
                Model::StoreForward => 1,
            };
            let path = detour(&rest, vec![from], to, most)?;
            one.path = path
                .iter()
                .map(|node| rest.node_name(*node).to_owned())
                .collect();
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::TooLong { .. }),
    },
    Mutation {
        what: "a message of nobody",
        breaks: |_, schedule, place| {
            schedule.moves[place].message = Message::Of("nobody".to_owned());
            Some(())
        },
        is_expected: |defect| matches!(defect, Defect::NoMessage { .. }),
    },
    Mutation {
        what: "a message is for a node that takes no part",
        breaks: |graph, schedule, place| {
            let receivers = problem(graph, schedule)?.receivers().to_vec();
            let names = receivers
                .iter()
                .map(|node| graph.node_name(*node).to_owned());
            let to = &schedule.moves[place].to;
            schedule.receivers = Some(names.filter(|name| name != to).collect());
            // In store-forward relays may learn messages, and in a gather only the root receives.
            let is_wormhole = schedule.model == Model::Wormhole;
            (is_wormhole && schedule.collective != Collective::Aog).then_some(())
        },
        is_expected: |defect| matches!(defect, Defect::NotFor { .. }),
    },
    Mutation {
        what: "a node with one port sends or receives twice",
        breaks: |_, schedule, place| {
            let one = schedule.moves[place].clone();
            let is_other = |other: &Move| {
                let shares = other.from == one.from || other.to == one.to;
                shares && other.step != one.step
            };
            let mut others = (0..schedule.moves.len()).filter(|other| {
                is_other(&schedule.moves[*other]) && has_channels(schedule, *other, one.step)
            });
            let other = others.next()?;
            schedule.moves[other].step = one.step;
            (schedule.ports == Ports::One).then_some(())
        },
        is_expected: |defect| matches!(defect, Defect::Port { .. }),
    },
    Mutation {
        what: "passed on in the step in which it comes",
        breaks: |_, schedule, place| {
            let told = schedule.moves[place].clone();
            let mut nexts = (0..schedule.moves.len()).filter(|next| {
                let one = &schedule.moves[*next];
                one.from == told.to && one.message == told.message
            });
            let next = nexts.find(|next| has_channels(schedule, *next, told.step))?;
            let one = &schedule.moves[next];
            let is_alone = schedule.moves.iter().all(|other| {
                other.step != told.step || (other.from != one.from && other.to != one.to)
            });
            schedule.moves[next].step = told.step;
            (is_alone || schedule.ports == Ports::All).then_some(())
        },
        is_expected: |defect| matches!(defect, Defect::NotHeld { .. }),
    },
];

fn problem(graph: &Topology, schedule: &Schedule) -> Option<Problem> {
    let rest = graph.with_faults(&schedule.faults).ok()?;
    Problem::new(rest, request(schedule)).ok()
}

/// Whether all channels of a move are free in a step.
fn has_channels(schedule: &Schedule, place: usize, step: u32) -> bool {
    let channels = |one: &Move| -> BTreeSet<[String; 2]> {
        let pairs = one.path.windows(2);
        pairs
            .map(|pair| [pair[0].clone(), pair[1].clone()])
            .collect()
    };
    let own = channels(&schedule.moves[place]);
    let mut others = schedule.moves.iter().filter(|one| one.step == step);
    others.all(|one| own.is_disjoint(&channels(one)))
}

/// A path that goes on from this one to a node and has more channels than allowed.
fn detour(graph: &Topology, path: Vec<Node>, to: Node, most: usize) -> Option<Vec<Node>> {
    let here = *path.last()?;
    if here == to {
        return (path.len() > most + 1).then_some(path);
    }
    let nexts = graph
        .out(here)
        .iter()
        .map(|channel| graph.channels()[*channel].1);
    let mut nexts = nexts.filter(|next| !path.contains(next));
    nexts.find_map(|next| detour(graph, [&path[..], &[next]].concat(), to, most))
}

#[test]
fn of_2000_schedules_with_a_rule_broken_all_are_refused_for_that_rule() {
    let samples = samples();
    let seed = 37;
    let mut noise = Noise::new(seed);
    let (mut refused, mut kinds) = (0, BTreeMap::new());
    for _ in 0..100_000 {
        if refused == 2000 {
            break;
        }
        let (graph, schedule) = &samples[(noise.next() % samples.len() as u64) as usize];
        let mutation = &MUTATIONS[(noise.next() % MUTATIONS.len() as u64) as usize];
        let place = (noise.next() % schedule.moves.len() as u64) as usize;
        let mut mutant = schedule.clone();
        if (mutation.breaks)(graph, &mut mutant, place).is_none() {
            continue;
        }
        let file = serde_json::to_string(&mutant).unwrap();
        let defect = verify(&read(&file), graph).err();
        assert!(
            defect.as_ref().is_some_and(mutation.is_expected),
            "seed {seed}: {}: {defect:?}: {file}",
            mutation.what
        );
        *kinds.entry(mutation.what).or_insert(0) += 1;
        refused += 1;
    }
    let is_often = kinds.values().all(|count| *count >= 20);
    assert!(
        refused == 2000 && kinds.len() == MUTATIONS.len() && is_often,
        "{kinds:?}"
    );
}
