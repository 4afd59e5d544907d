//! [SFT06] figure 2: packets round a dead node, to one and to all.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::laboratory::Laboratory;
use super::{Claim, Figure, Scale};

const SIZE: Axis = Axis {
    label: "nodes (logarithmic)",
    spacing: Spacing::Doubling,
};

const ROUTERS: [&str; 3] = ["basic", "variant", "aware"];

/// The paper took all sets of dead nodes. All are taken here too, unless they are too many.
fn to_one(scale: &Scale, nodes: u32, fanout: u32, router: &str) -> String {
    let sample = if scale.is_quick { 20_000 } else { 250_000 };
    format!(
        "route --nodes {nodes} --fanout {fanout} --dead 1 --router {router} --sample {sample} --seed {}",
        scale.seed
    )
}

fn one_sizes(scale: &Scale) -> impl Iterator<Item = u32> + Clone {
    let last = if scale.is_quick { 10 } else { 14 };
    (4..=last).step_by(2).map(|e| 1 << e)
}

pub(super) fn unicast(scale: &Scale) -> Figure {
    let curve = |(place, router): (usize, &&str), fanout: u32| {
        let lines = one_sizes(scale).map(|nodes| to_one(scale, nodes, fanout, router));
        let label = format!("{router}, k = {fanout}");
        Curve::new(label, lines.collect(), "nodes", "hops_mean", place)
    };
    let routers = ROUTERS.iter().enumerate();
    let pairs = routers.map(|router| [curve(router, 2), curve(router, 8).dashed()]);
    Figure {
        key: "sft06-2a",
        source: "[SFT06] figure 2(a)",
        title: "Unicasts on the sibling tree with one dead node",
        method: "All dead nodes, sources and destinations up to 64 nodes; beyond, and with --quick, so many as the commands say are drawn. A hop to the dead node does not count; who learns of it writes it in the packet.".to_owned(),
        charts: vec![Chart {
            file: "sft06-2a",
            title: "Average hops of unicasts with one dead node",
            x: SIZE,
            y: Axis {
                label: "hops, average (logarithmic)",
                spacing: Spacing::Decimal,
            },
            curves: pairs.flatten().collect(),
            limit: None,
        }],
        extra: Vec::new(),
        claims: unicast_claims,
    }
}

fn unicast_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let last = one_sizes(scale).last().unwrap_or(0);
    let number = |nodes, fanout, router: &str, field| {
        laboratory.number(&to_one(scale, nodes, fanout, router), field)
    };
    let mean = |fanout, router: &str| number(last, fanout, router, "hops_mean");
    let is_scalable = |router: &str| {
        let bound = |nodes: u32| 2.0 * f64::from(nodes).log2();
        one_sizes(scale).all(|nodes| {
            [2, 8]
                .iter()
                .all(|k| number(nodes, *k, router, "hops_mean") <= bound(nodes))
        })
    };
    let wider = ROUTERS.map(|router| (router, mean(2, router), mean(8, router)));
    let list = |rows: &[(&str, f64, f64)]| {
        let texts = rows
            .iter()
            .map(|(name, two, eight)| format!("{name} {two:.2} and {eight:.2}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let most = |router: &str| number(last, 2, router, "hops_max");
    vec![
        Claim::new(
            "“both variant rule-based and dead node aware algorithms are scalable with unicast messages”",
            is_scalable("variant") && is_scalable("aware"),
            format!(
                "below 2 log2 N at every size; with {last} nodes and k = 2 variant takes {:.2} hops and aware {:.2}",
                mean(2, "variant"),
                mean(2, "aware")
            ),
            "",
        ),
        Claim::new(
            "“The higher values of fan-out yields the worst performance, especially with the basic rule-based algorithm”",
            wider.iter().all(|(_, two, eight)| eight > two),
            format!(
                "hops with k = 2 and k = 8 of {last} nodes: {}",
                list(&wider)
            ),
            "Of basic it is true, and of it alone: followed literally it walks along the ring to the destination's ancestor, and levels are longer. The others gain from a flatter tree.",
        ),
        Claim::new(
            "“the variant rule-based algorithm is the best choice in terms of the shortest path”",
            mean(2, "variant") <= mean(2, "aware") && mean(8, "variant") <= mean(8, "aware"),
            format!(
                "with {last} nodes, k = 2, variant takes {:.3} hops on average and {} at most, aware {:.3} and {}",
                mean(2, "variant"),
                most("variant"),
                mean(2, "aware"),
                most("aware")
            ),
            "On average they are close; aware is clearly better in the tail, as it goes round what it knows to be dead instead of trying all else first.",
        ),
    ]
}

fn to_all(scale: &Scale, nodes: u32, fanout: u32, dead: u32, router: &str) -> String {
    let sample = if scale.is_quick { " --sample 200" } else { "" };
    format!(
        "route --cast broadcast --nodes {nodes} --fanout {fanout} --dead {dead} --router {router}{sample} --seed {}",
        scale.seed
    )
}

fn all_sizes(scale: &Scale) -> impl Iterator<Item = u32> + Clone {
    let last = if scale.is_quick { 10 } else { 14 };
    (4..=last).step_by(2).map(|e| 1 << e)
}

/// The fanouts whose order the text gives.
const FANOUTS: std::ops::RangeInclusive<u32> = 2..=8;

pub(super) fn broadcast(scale: &Scale) -> Figure {
    let lines = |fanout, dead, router| {
        let lines = all_sizes(scale).map(|nodes| to_all(scale, nodes, fanout, dead, router));
        lines.collect::<Vec<_>>()
    };
    let curves = |steps: &'static str| {
        let alive = [2, 3, 8]
            .into_iter()
            .enumerate()
            .map(move |(look, fanout)| {
                let label = format!("all alive, k = {fanout}");
                Curve::new(label, lines(fanout, 0, "variant"), "nodes", steps, look)
            });
        let dead = ROUTERS.into_iter().enumerate().map(move |(place, router)| {
            let label = format!("one dead, k = 3, {router}");
            Curve::new(label, lines(3, 1, router), "nodes", steps, place + 3).dashed()
        });
        // The two columns of the table: alive and dead.
        alive
            .zip(dead)
            .flat_map(|(alive, dead)| [alive, dead])
            .collect()
    };
    let chart = |file, title, label, steps| Chart {
        file,
        title,
        x: SIZE,
        y: Axis {
            label,
            spacing: Spacing::Linear,
        },
        curves: curves(steps),
        limit: None,
    };
    let last = all_sizes(scale).last().unwrap_or(0);
    Figure {
        key: "sft06-2b",
        source: "[SFT06] figure 2(b)",
        title: "Broadcasts on the sibling tree with one dead node",
        method: "Steps until the last live node has it; a node sends one packet a step. Each node but the root is the dead one in turn (with --quick 200 drawn ones); its children are served by encapsulation.".to_owned(),
        charts: vec![
            chart(
                "sft06-2b",
                "Average steps of broadcasts with and without a dead node",
                "steps, average",
                "steps_mean",
            ),
            chart(
                "sft06-2b-most",
                "Most steps of broadcasts with and without a dead node",
                "steps, most",
                "steps_max",
            ),
        ],
        extra: FANOUTS.map(|fanout| to_all(scale, last, fanout, 0, "variant")).collect(),
        claims: broadcast_claims,
    }
}

fn broadcast_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let last = all_sizes(scale).last().unwrap_or(0);
    let number = |nodes, fanout, dead, router: &str, field| {
        laboratory.number(&to_all(scale, nodes, fanout, dead, router), field)
    };
    let steps = |nodes, dead, router: &str| number(nodes, 3, dead, router, "steps_mean");
    let more = ROUTERS.map(|router| {
        let more = all_sizes(scale).filter(|nodes| *nodes >= 64);
        let more = more.map(|nodes| steps(nodes, 1, router) / steps(nodes, 0, "variant") - 1.0);
        100.0 * most(more)
    });
    let apart = ["basic", "variant"].map(|router| {
        let apart = all_sizes(scale).filter(|nodes| *nodes >= 64);
        let apart =
            apart.map(|nodes| (steps(nodes, 1, router) / steps(nodes, 1, "aware") - 1.0).abs());
        100.0 * most(apart)
    });
    let by_fanout = FANOUTS.map(|fanout| number(last, fanout, 0, "variant", "steps_mean"));
    let by_fanout: Vec<f64> = by_fanout.collect();
    let is_rising = by_fanout[1..].windows(2).all(|pair| pair[0] <= pair[1]);
    let nanoseconds = |router| number(last, 3, 1, router, "decision_ns");
    let times = nanoseconds("aware") / nanoseconds("variant");
    vec![
        Claim::new(
            "“a dead node has only a small effect on the performance of a broadcast message”",
            more.iter().all(|percent| *percent <= 10.0),
            format!(
                "from 64 nodes on at most {:.1} % more steps with basic, {:.1} % with variant, {:.1} % with aware",
                more[0], more[1], more[2]
            ),
            "",
        ),
        Claim::new(
            "“the basic and variant rule-based algorithms produce performance close to the dead node aware algorithm”",
            apart.iter().all(|percent| *percent <= 5.0),
            format!(
                "basic is within {:.2} % and variant within {:.2} % of it",
                apart[0], apart[1]
            ),
            "",
        ),
        Claim::new(
            "“the average number of steps to complete the message transfer for broadcast increases when the number of fan-outs increases (except that 3-ary better than 2-ary due to more parallelism)”",
            by_fanout[1] < by_fanout[0] && is_rising,
            format!("{by_fanout:.0?} steps for k = 2 to 8 with {last} nodes, all alive"),
            "The last level is more or less full at each fan-out, which counts for as much at small sizes.",
        ),
        Claim::new(
            "“the simulation time of dead node aware is 15 minutes, while the basic and variant rule-based took only about 30 seconds”",
            times >= 15.0,
            format!(
                "a decision of aware takes {times:.1} times as long as one of variant, most of which go down the tree"
            ),
            "Ours searches from the destination with exact distances as estimate, instead of colouring the whole graph.",
        ),
    ]
}

/// The greatest of the numbers. NaN if one of them is NaN, or if there are none.
fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    let greater = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    numbers.reduce(greater).unwrap_or(f64::NAN)
}
