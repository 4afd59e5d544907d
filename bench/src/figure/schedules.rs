//! Schedules after faults, searches from the old schedule, and the evolutionary search.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::laboratory::Laboratory;
use super::{Claim, Figure, Scale};

/// The collectives with the source that [EVO] takes in its Kautz network.
const KAUTZ: [&str; 4] = ["oab --source 01", "aab", "oas --source 01", "aas"];
const MESH: [&str; 4] = ["oab --source 00", "aab", "oas --source 00", "aas"];
/// The graphs of the evolutionary search, each with a source.
const GRAPHS: [(&str, &str); 5] = [
    ("hypercube:3", "0"),
    ("hypercube:4", "0"),
    ("ring:8", "0"),
    ("mesh:4x4", "00"),
    ("kautz:3,2", "01"),
];
const COLLECTIVES: [&str; 4] = ["oab", "aab", "oas", "aas"];

const fn linear(label: &'static str) -> Axis {
    Axis {
        label,
        spacing: Spacing::Linear,
    }
}

fn faults_line(scale: &Scale, graph: &str, collective: &str, faults: &str) -> String {
    let (every, evaluations) = match (scale.is_quick, faults) {
        (true, "--links 2") => (" --every 20", 200_000),
        (true, "--links 0") => ("", 200_000),
        (true, _) => (" --every 6", 200_000),
        (false, _) => ("", 20_000_000),
    };
    format!(
        "faults --graph {graph} --collective {collective} {faults}{every} \
         --evaluations {evaluations} --seed {} --threads 1",
        scale.seed
    )
}

/// The most faulty links of a set: two in the Kautz network where one node sends, else one.
fn links_max(graph: &str, collective: &str) -> u32 {
    if graph == "kautz:3,2" && collective.starts_with('o') {
        2
    } else {
        1
    }
}

fn fault_lines(scale: &Scale, graph: &str, collective: &str) -> Vec<String> {
    let counts = 0..=links_max(graph, collective);
    let lines =
        counts.map(|count| faults_line(scale, graph, collective, &format!("--links {count}")));
    lines.collect()
}

/// [EVO] Tables 3 to 5, and pairs of faulty links of the Kautz network where one node sends.
pub(super) fn faults(scale: &Scale) -> Figure {
    let curves = |graph: &'static str, collectives: [&'static str; 4]| {
        let curve = |(look, collective): (usize, &&'static str)| {
            let lines = fault_lines(scale, graph, collective);
            let name = &collective[..3];
            [
                Curve::new(
                    format!("{name}, mean"),
                    lines.clone(),
                    "links",
                    "steps_mean",
                    look,
                ),
                Curve::new(format!("{name}, most"), lines, "links", "steps_max", look).dashed(),
            ]
        };
        collectives
            .iter()
            .enumerate()
            .flat_map(curve)
            .collect::<Vec<_>>()
    };
    let chart = |file, title, curves| Chart {
        file,
        title,
        x: linear("faulty links"),
        y: linear("steps"),
        curves,
        limit: None,
    };
    let diameter = |(look, (graph, collective)): (usize, (&str, &str))| {
        let lines = fault_lines(scale, graph, collective);
        Curve::new(graph, lines, "links", "fault_diameter", look)
    };
    let diameters = [("kautz:3,2", KAUTZ[0]), ("mesh:4x4", MESH[0])];
    Figure {
        key: "evo-faults",
        source: "[EVO] tables 3 to 5",
        title: "Steps after faults",
        method: "Every set of so many faulty links or nodes; with --quick some of them. Each row has under cases the steps, lower bound and method of each set, or why it is refused.".to_owned(),
        charts: vec![
            chart("evo-faults-kautz", "Steps in kautz:3,2 after faults", curves("kautz:3,2", KAUTZ)),
            chart("evo-faults-mesh", "Steps in mesh:4x4 after faults", curves("mesh:4x4", MESH)),
            Chart {
                y: linear("fault diameter (hops)"),
                ..chart(
                    "evo-fault-diameter",
                    "The greatest distance after faults",
                    diameters.into_iter().enumerate().map(diameter).collect(),
                )
            },
        ],
        extra: MESH
            .iter()
            .map(|collective| faults_line(scale, "mesh:4x4", collective, "--nodes 1"))
            .collect(),
        claims: fault_claims,
    }
}

fn fault_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let number = |graph: &str, collective: &str, faults: &str, field: &str| {
        laboratory.number(&faults_line(scale, graph, collective, faults), field)
    };
    let kautz = |collective: &str, faults: &str, field: &str| {
        number("kautz:3,2", collective, faults, field)
    };
    let most = KAUTZ.map(|collective| kautz(collective, "--links 1", "steps_max"));
    let diameters =
        ["--links 1", "--links 2"].map(|faults| kautz(KAUTZ[0], faults, "fault_diameter"));
    let refused = [KAUTZ[0], KAUTZ[2]].map(|collective| kautz(collective, "--links 2", "refused"));
    let met = |collective: &str| {
        let field = |field| kautz(collective, "--links 2", field);
        (field("optimal"), field("sets"))
    };
    let (oab, oas) = (met(KAUTZ[0]), met(KAUTZ[2]));
    let mesh_aab = number("mesh:4x4", MESH[1], "--links 1", "steps_max");
    vec![
        Claim::new(
            "Any single link fault of the Kautz network costs at most 3, 6, 6 and 9 steps (Table 3)",
            most.iter()
                .zip([3.0, 6.0, 6.0, 9.0])
                .all(|(most, said)| *most <= said),
            format!(
                "at most {}, {}, {} and {} steps",
                most[0], most[1], most[2], most[3]
            ),
            "",
        ),
        Claim::new(
            "“A fault diameter of the Kautz12 network is D+2”, which is 4: with two faulty links, one fewer than leave each node",
            diameters[1] == 4.0,
            format!(
                "{} with one faulty link, {} with two",
                diameters[0], diameters[1]
            ),
            "",
        ),
        Claim::new(
            "“the network could operate even under a double link fault”",
            refused == [0.0, 0.0],
            format!(
                "{} of the {} pairs of links are refused",
                refused[0] + refused[1],
                oab.1 + oas.1
            ),
            "",
        ),
        Claim::new(
            "Ours: after each pair of faulty links oab and oas from 01 meet the lower bound.",
            oab.0 == oab.1 && oas.0 == oas.1,
            format!("oab {} of {}, oas {} of {}", oab.0, oab.1, oas.0, oas.1),
            "The lower bound may be too low, or the search too short.",
        ),
        Claim::new(
            "AAB in the mesh takes at most 15 steps after the loss of a link (Table 4)",
            mesh_aab <= 15.0,
            format!("at most {mesh_aab} steps"),
            "",
        ),
    ]
}

/// A search for a new schedule after a fault.
#[derive(Clone, Copy)]
struct Restart {
    graph: &'static str,
    collective: &'static str,
}

impl Restart {
    const fn new(graph: &'static str, collective: &'static str) -> Self {
        Self { graph, collective }
    }
}

const RESTARTS: [Restart; 4] = [
    Restart::new("kautz:3,2", "aab"),
    Restart::new("kautz:3,2", "aas"),
    Restart::new("mesh:4x4", "aab"),
    Restart::new("mesh:4x4", "aas"),
];

fn restart_lines(scale: &Scale, restart: Restart, told: &str) -> Vec<String> {
    let Restart { graph, collective } = restart;
    let seeds = if scale.is_quick { 3 } else { 20 };
    let seeds = scale.seed..scale.seed + seeds;
    let line =
        |seed| format!("reschedule --graph {graph} --collective {collective}{told} --seed {seed}");
    seeds.map(line).collect()
}

/// A search from the old schedule against one from scratch.
pub(super) fn restarts(scale: &Scale) -> Figure {
    let curves = |y| {
        let curve = move |(look, restart): (usize, &Restart)| {
            let Restart { graph, collective } = restart;
            let lines = restart_lines(scale, *restart, "");
            Curve::new(format!("{collective}, {graph}"), lines, "seed", y, look)
        };
        RESTARTS.iter().enumerate().map(curve).collect::<Vec<_>>()
    };
    let chart = |file, title, label, y| Chart {
        file,
        title,
        x: linear("seed"),
        y: Axis {
            label,
            spacing: Spacing::Decimal,
        },
        curves: curves(y),
        limit: Some((0.1, "a tenth")),
    };
    let told = RESTARTS.iter();
    let told = told.flat_map(|one| restart_lines(scale, *one, " --told"));
    Figure {
        key: "evo-reschedule",
        source: "[EVO] section 4",
        title: "A new schedule after a fault, from the old one and from scratch",
        method: "Tabu search in both cases, with the same seed, after the fault of another link for each seed, until there is a schedule with as many steps as the search from scratch ends with. Ratios below a tenth are what the old schedule is to be worth.".to_owned(),
        charts: vec![
            chart(
                "evo-reschedule-evaluations",
                "Evaluations from the old schedule per evaluation from scratch",
                "ratio of evaluations (logarithmic)",
                "evaluations_ratio",
            ),
            chart(
                "evo-reschedule-seconds",
                "Time from the old schedule per time from scratch",
                "ratio of times (logarithmic)",
                "seconds_ratio",
            ),
        ],
        extra: told.collect(),
        claims: restart_claims,
    }
}

fn restart_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let median = |one: Restart, told: &str, field: &str| {
        let lines = restart_lines(scale, one, told);
        let numbers = lines.iter().map(|line| laboratory.number(line, field));
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        numbers[(numbers.len() - 1) / 2].midpoint(numbers[numbers.len() / 2])
    };
    let claims = RESTARTS.iter().flat_map(|one| {
        let Restart { graph, collective } = one;
        let claim = |field: &str, what: &str, because| {
            let ratio = median(*one, "", field);
            let told = median(*one, " --told", field);
            Claim::new(
                format!("Ours: {collective} in {graph}, {what} at most a tenth of those from scratch."),
                ratio <= 0.1,
                format!("median {ratio:.4}; {told:.4} if both are told how many steps are enough"),
                because,
            )
        };
        [
            claim("evaluations_ratio", "evaluations", ""),
            claim(
                "seconds_ratio",
                "seconds",
                "A search from scratch that takes less than a millisecond spends it on reading the graph and listing paths, which both have to do.",
            ),
        ]
    });
    claims.collect()
}

fn success_line(scale: &Scale, graph: &str, source: &str, collective: &str) -> String {
    let source = if collective.starts_with('o') {
        format!(" --source {source}")
    } else {
        String::new()
    };
    let (seeds, generations) = if scale.is_quick { (2, 50) } else { (20, 2000) };
    format!(
        "evolution --graph {graph} --collective {collective}{source} --seeds {seeds} \
         --generations {generations} --seed {} --threads 1",
        scale.seed
    )
}

fn progress_lines(scale: &Scale, graph: &str, collective: &str) -> Vec<String> {
    let last = if scale.is_quick { 5 } else { 12 };
    let line = |generations: u32| {
        format!(
            "evolution --graph {graph} --collective {collective} --seeds 1 \
             --generations {generations} --seed {} --threads 1",
            scale.seed
        )
    };
    (0..=last).map(|e| line(1 << e)).collect()
}

/// How often the evolutionary search of [EVO] meets the bound, and how it gets there.
pub(super) fn evolution(scale: &Scale) -> Figure {
    let curve = |(look, collective): (usize, &&'static str)| {
        let lines = GRAPHS
            .iter()
            .map(|(graph, source)| success_line(scale, graph, source, collective));
        Curve::new(
            *collective,
            lines.collect(),
            "lower_bound",
            "success_rate",
            look,
        )
    };
    let progress = [
        ("kautz:3,2", "aas"),
        ("mesh:4x4", "aab"),
        ("hypercube:3", "aas"),
    ];
    let progress = progress
        .iter()
        .enumerate()
        .flat_map(|(look, (graph, collective))| {
            let lines = progress_lines(scale, graph, collective);
            let name = format!("{collective}, {graph}");
            [
                Curve::new(
                    format!("{name}, best"),
                    lines.clone(),
                    "generations_mean",
                    "conflicts_least",
                    look,
                ),
                Curve::new(
                    format!("{name}, mean"),
                    lines,
                    "generations_mean",
                    "conflicts_mean",
                    look,
                )
                .dashed(),
            ]
        });
    let generations = if scale.is_quick { 50 } else { 2000 };
    Figure {
        key: "evo-umda",
        source: "[EVO] section 3",
        title: "The evolutionary search",
        method: format!(
            "UMDA as in the paper. Success: the share of seeds with which it meets the lower bound within {generations} generations of 30 new chromosomes, for 3-cube, 4-cube, 8-ring, 4 × 4 mesh and Kautz network. Progress: conflicts of the best and the average chromosome, each point a run of so many generations."
        ),
        charts: vec![
            Chart {
                file: "evo-umda-success",
                title: "How often the evolutionary search meets the bound",
                x: linear("lower bound (steps), five graphs"),
                y: linear("share of seeds"),
                curves: COLLECTIVES.iter().enumerate().map(curve).collect(),
                limit: Some((1.0, "always")),
            },
            Chart {
                file: "evo-umda-progress",
                title: "Conflicts by generation",
                x: Axis {
                    label: "generation (logarithmic)",
                    spacing: Spacing::Doubling,
                },
                y: linear("conflicts"),
                curves: progress.collect(),
                limit: None,
            },
        ],
        extra: Vec::new(),
        claims: evolution_claims,
    }
}

fn evolution_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let rate = |(graph, source), collective| {
        let line = success_line(scale, graph, source, collective);
        laboratory.number(&line, "success_rate")
    };
    let claims = COLLECTIVES.iter().map(|collective| {
        let rates = GRAPHS.map(|graph| rate(graph, collective));
        let names = GRAPHS.iter().zip(rates);
        let found: Vec<String> = names.map(|((graph, _), rate)| format!("{graph} {rate}")).collect();
        Claim::new(
            format!("“Achieved time complexity” is the lower bound for {collective} (Table 2): with some seed on each graph"),
            rates.iter().all(|rate| *rate > 0.0),
            format!("share of seeds: {}", found.join(", ")),
            "The paper does not say how many generations it took, and some of its rules are left open.",
        )
    });
    claims.collect()
}
