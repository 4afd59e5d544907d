//! [BMG09] figures 2 and 3: binary and binomial trees; and what the corrections
//! of Algorithm 2 are worth.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::fit::straightness;
use super::laboratory::Laboratory;
use super::{Claim, Figure, PAPER, Scale};

const SIZE: Axis = Axis {
    label: "processes (logarithmic)",
    spacing: Spacing::Doubling,
};

/// The command line of a clean start.
fn line(scheduler: &str, shape: &str, exponent: u32, more: &str) -> String {
    // The size of a balanced binary tree is a power of two less one.
    let nodes = (1_u32 << exponent) - u32::from(shape == "binary");
    format!("converge --shape {shape} --nodes {nodes} --scheduler {scheduler}{more}")
}

fn lines(scale: &Scale, scheduler: &str, shape: &str) -> Vec<String> {
    let exponents = scale.exponents();
    exponents.map(|e| line(scheduler, shape, e, "")).collect()
}

/// Command lines with literal forwarding, up to the paper's sizes.
fn literal(scale: &Scale, scheduler: &str, shape: &str) -> Vec<String> {
    let exponents = 2..=scale.paper_nodes().ilog2();
    let line = |e| line(scheduler, shape, e, " --forwarding literal");
    exponents.map(line).collect()
}

/// The exponent ⌈log2 N⌉ − 1 of N = 2^e or 2^e − 1.
fn m(exponent: u32) -> f64 {
    f64::from(exponent) - 1.0
}

/// The four curves of figures 2 and 3.
fn curves(scale: &Scale, scheduler: &str, ring: &'static str, all: &'static str) -> Vec<Curve> {
    let of = |shape| lines(scale, scheduler, shape);
    vec![
        Curve::new("graph, binomial tree", of("binomial"), "nodes", all, 0),
        Curve::new("graph, binary tree", of("binary"), "nodes", all, 1),
        Curve::new("ring, binomial tree", of("binomial"), "nodes", ring, 3),
        Curve::new("ring, binary tree", of("binary"), "nodes", ring, 2),
    ]
}

fn literal_curve(scale: &Scale, scheduler: &str, y: &'static str) -> Curve {
    let lines = literal(scale, scheduler, "binomial");
    Curve::new("graph, binomial tree, literal", lines, "nodes", y, 6).dashed()
}

pub(super) fn asynchronous(scale: &Scale) -> Figure {
    let mut curves = curves(scale, "async", "ring_seconds_at_50us", "seconds_at_50us");
    curves.push(literal_curve(scale, "async", "seconds_at_50us"));
    Figure {
        key: "bmg09-2a",
        source: "[BMG09] figure 2(a)",
        title: "Convergence time of binary and binomial trees, asynchronous",
        method: "Clean start. In each phase of 50 µs a process consumes one message or applies its spontaneous rules; first in, first out per channel, channels in turn. The paper's figure has 4 to 64K processes.".to_owned(),
        charts: vec![Chart {
            file: "bmg09-2a",
            title: "Seconds to the ring and to the binomial graph",
            x: SIZE,
            y: Axis {
                label: "convergence time (s)",
                spacing: Spacing::Linear,
            },
            curves,
            limit: Some((0.02, "1/50 s")),
        }],
        extra: Vec::new(),
        claims: asynchronous_claims,
    }
}

fn asynchronous_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let largest = scale.paper_nodes().ilog2();
    let seconds = laboratory.number(&line("async", "binomial", largest, ""), "seconds_at_50us");
    let nodes = 1_u32 << largest;
    vec![
        Claim::new(
            "“the projected convergence time remains very low for reasonably large trees (less than 1/50 of seconds for 64k nodes)”",
            seconds < 0.02,
            format!("{nodes} processes on a binomial tree take {seconds:.4} s"),
            "",
        ),
        Claim::new(
            "The figure's axis ends at 0.014 s.",
            seconds < 0.0145,
            format!("{seconds:.4} s at {nodes} processes"),
            "Another order of serving channels gives other times: with one queue per process it is slower.",
        ),
        growth(scale, laboratory, "binomial"),
        growth(scale, laboratory, "binary"),
    ]
}

/// The claim that the time grows as log N or as its square.
fn growth(scale: &Scale, laboratory: &Laboratory, shape: &str) -> Claim {
    let is_square = shape == "binomial";
    // Smaller trees do not show yet how the time grows.
    let exponents = scale.exponents().filter(|e| *e >= 6 && 1 << e <= PAPER);
    let points = |power: i32| -> Vec<(f64, f64)> {
        let exponents = exponents.clone();
        let phases = |e| laboratory.number(&line("async", shape, e, ""), "bmg_phases");
        exponents
            .map(|e| (f64::from(e).powi(power), phases(e)))
            .collect()
    };
    let (line, square) = (straightness(&points(1)), straightness(&points(2)));
    let said = match is_square {
        true => "“the convergence time for the binomial tree is indeed log2²(N) …",
        false => "… while it is log2(N) for the binary tree”",
    };
    Claim::new(
        said,
        if is_square {
            square > line
        } else {
            line >= square
        },
        format!(
            "from 64 processes on, phases are explained to {line:.4} by a line in log2 N and to {square:.4} by one in its square (1 is all)"
        ),
        "The two are close: over these sizes neither is far from a line. Leaves repeat Info until the ring has reached them, so inboxes grow a little with depth.",
    )
}

pub(super) fn synchronous(scale: &Scale) -> Figure {
    let mut curves = curves(scale, "sync", "ring_phases", "bmg_phases");
    curves.push(literal_curve(scale, "sync", "bmg_phases"));
    let reversed = lines(scale, "sync", "binomial-smallest-first");
    let label = "ring, smallest subtree first";
    curves.push(Curve::new(label, reversed, "nodes", "ring_phases", 4).dashed());
    Figure {
        key: "bmg09-2b",
        source: "[BMG09] figure 2(b)",
        title: "Convergence time of binary and binomial trees, synchronous",
        method: "Clean start. In each phase all processes apply their spontaneous rules and then consume all that they were sent, by these rules in the same phase too. Delivery in the next phase adds 1 and 2.".to_owned(),
        charts: vec![Chart {
            file: "bmg09-2b",
            title: "Phases to the ring and to the binomial graph",
            x: SIZE,
            y: Axis {
                label: "convergence time (phases)",
                spacing: Spacing::Linear,
            },
            curves,
            limit: None,
        }],
        extra: Vec::new(),
        claims: synchronous_claims,
    }
}

fn synchronous_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let number =
        |shape: &str, e: u32, field: &str| laboratory.number(&line("sync", shape, e, ""), field);
    let ring = |shape: &str, e| number(shape, e, "ring_phases");
    let after = |shape: &str, e| number(shape, e, "bmg_phases") - ring(shape, e);
    // With fewer than 8 processes no `Info` has a way to go.
    let sizes = || scale.exponents().filter(|e| *e >= 3);
    let (all, last) = (sizes().count(), *scale.exponents().end());
    let count = |holds: &dyn Fn(u32) -> bool| sizes().filter(|e| holds(*e)).count();
    let largest = count(&|e| ring("binomial", e) == 4.0);
    let smallest = count(&|e| ring("binomial-smallest-first", e) == 4.0);
    let binary = count(&|e| ring("binary", e) == f64::from(e) + 1.0);
    let m_later = count(&|e| {
        ["binomial", "binary"]
            .iter()
            .all(|shape| after(shape, e) == m(e))
    });
    vec![
        Claim::new(
            "“in the case of an underlying binomial tree, the convergence time of the tree-to-ring algorithm is 4 synchronous phases”",
            largest == all,
            format!(
                "{} phases with 2^{last} processes, and 4 at {largest} of {all} sizes, the largest subtree first",
                ring("binomial", last)
            ),
            "",
        ),
        Claim::new(
            "The same of any binomial tree: the text does not say which subtree is first.",
            smallest == all,
            format!(
                "{} phases with 2^{last} processes, and 4 at {smallest} of {all} sizes, the smallest subtree first",
                ring("binomial-smallest-first", last)
            ),
            "Then an Info climbs as far as the tree is deep: whoever deploys should start the largest subtree first.",
        ),
        Claim::new(
            "“For the case of a balanced binary tree … O(log2(N) + 2) phases”",
            binary == all,
            format!(
                "depth + 2 phases at {binary} of {all} sizes, {} with 2^{last} − 1 processes",
                ring("binary", last)
            ),
            "",
        ),
        Claim::new(
            "“Thus it adds a O(log2(N)) more synchronous phases just after the ring is converged”",
            m_later == all,
            format!(
                "⌈log2 N⌉ − 1 more on both trees at {m_later} of {all} sizes, {} with 2^{last}",
                after("binomial", last)
            ),
            "",
        ),
    ]
}

pub(super) fn messages(scale: &Scale) -> Figure {
    let mut curves = curves(scale, "async", "ring_received_max", "received_max");
    let repeated = repeated_lines(scale, "literal");
    let y = "repeated_up_dn_max";
    curves.push(Curve::new("one repetition, literal", repeated, "nodes", y, 6).dashed());
    Figure {
        key: "bmg09-3",
        source: "[BMG09] figure 3",
        title: "Most messages received by a single process, asynchronous",
        method: "The runs of figure 2(a), until no message is left. Dashed: what one repetition of rule 1 by everybody brings to a process if Algorithm 2 is forwarded as printed.".to_owned(),
        charts: vec![Chart {
            file: "bmg09-3",
            title: "Most messages received by one process",
            x: SIZE,
            y: Axis {
                label: "messages (logarithmic)",
                spacing: Spacing::Decimal,
            },
            curves,
            limit: None,
        }],
        extra: Vec::new(),
        claims: messages_claims,
    }
}

fn messages_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let largest = scale.paper_nodes().ilog2();
    let most = |shape: &str| laboratory.number(&line("async", shape, largest, ""), "received_max");
    let (binomial, binary) = (most("binomial"), most("binary"));
    let repeated = repeated_lines(scale, "literal").pop().unwrap_or_default();
    let literal = laboratory.number(&repeated, "repeated_up_dn_max");
    let nodes = laboratory.number(&repeated, "nodes");
    vec![
        Claim::new(
            "“the number of messages received by a single process on a Binomial tree is much larger than for a Binary tree”",
            binomial >= 2.0 * binary,
            format!("{binomial} against {binary} at 2^{largest}"),
            "",
        ),
        Claim::new(
            "The figure's axis ends at 10^7 messages, “all execution”.",
            binomial >= 1e6,
            format!(
                "{binomial} at most; literally forwarded, each repetition of rule 1 brings {literal} to every process of {nodes}"
            ),
            "Who consumes one message per phase cannot receive more than there are phases, and figure 2(a) has no more than its seconds have 50 µs. The paper's count must go on long after convergence; literal forwarding keeps inboxes full so long.",
        ),
    ]
}

/// Command lines for one repetition of rule 1 on the standing graph. With literal forwarding a
/// repetition takes about N² messages.
fn repeated_lines(scale: &Scale, forwarding: &str) -> Vec<String> {
    let last = if scale.is_quick { 10 } else { 13 };
    let more = format!(" --forwarding {forwarding} --repeat");
    (4..=last)
        .map(|e| line("async", "binomial", e, &more))
        .collect()
}

pub(super) fn corrections(scale: &Scale) -> Figure {
    let curves = |y| {
        let of = |forwarding| repeated_lines(scale, forwarding);
        vec![
            Curve::new("linear (ours)", of("linear"), "nodes", y, 0),
            Curve::new("literal (as printed)", of("literal"), "nodes", y, 6).dashed(),
        ]
    };
    let chart = |file, title, label, y| Chart {
        file,
        title,
        x: SIZE,
        y: Axis {
            label,
            spacing: Spacing::Decimal,
        },
        curves: curves(y),
        limit: None,
    };
    Figure {
        key: "corrections",
        source: "Beyond the papers",
        title: "What linear forwarding is worth: one repetition of rule 1",
        method: "The binomial graph stands; everybody applies rule 1 of Algorithm 2 once more, as a self-stabilizing process must for ever. Printed literally, every UP and every DN begets both; ours begets its own kind unless it changed something.".to_owned(),
        charts: vec![
            chart(
                "corrections-messages",
                "UP and DN received by each process",
                "UP and DN per process (logarithmic)",
                "repeated_up_dn_max",
            ),
            chart(
                "corrections-phases",
                "Asynchronous phases until no message is left",
                "phases (logarithmic)",
                "repeated_phases",
            ),
        ],
        extra: literal(scale, "async", "binomial"),
        claims: corrections_claims,
    }
}

fn corrections_claims(scale: &Scale, laboratory: &Laboratory) -> Vec<Claim> {
    let twice_m = |nodes: f64| 2.0 * (nodes.log2().ceil() - 1.0);
    // The share of the rows in which the idlest and the busiest process received the expected
    // number.
    let share = |lines: &[String], fields: [&str; 2], expected: &dyn Fn(f64) -> f64| {
        let is_exact = |line: &&String| {
            let expected = expected(laboratory.number(line, "nodes"));
            fields
                .iter()
                .all(|field| laboratory.number(line, field) == expected)
        };
        (lines.iter().filter(is_exact).count(), lines.len())
    };
    let start = ["up_dn_received_min", "up_dn_received_max"];
    let again = ["repeated_up_dn_min", "repeated_up_dn_max"];
    let clean = [
        lines(scale, "async", "binomial"),
        lines(scale, "sync", "binary"),
    ]
    .concat();
    let (exact, all) = share(&clean, start, &twice_m);
    let (exact_literal, all_literal) = share(&literal(scale, "async", "binomial"), start, &twice_m);
    let linear = repeated_lines(scale, "linear");
    let literal = repeated_lines(scale, "literal");
    let (repeated, repetitions) = share(&linear, again, &twice_m);
    let (repeated_literal, _) = share(&literal, again, &|nodes| nodes - 2.0);
    let last = |lines: &[String], field: &str| {
        lines
            .last()
            .map_or(f64::NAN, |line| laboratory.number(line, field))
    };
    vec![
        Claim::new(
            "“each process has to exchange 2 log2(N) messages when the tree is built”",
            exact == all,
            format!(
                "in {exact} of {all} clean starts every process received exactly 2m UP and DN, m = ⌈log2 N⌉ − 1"
            ),
            "",
        ),
        Claim::new(
            "Ours: on a clean start literal forwarding costs no more, since nothing is sent for an empty entry.",
            exact_literal == all_literal,
            format!("2m in {exact_literal} of {all_literal} starts that were literally forwarded"),
            "",
        ),
        Claim::new(
            "Ours: afterwards one repetition costs 2m, and literally N − 2.",
            repeated == repetitions && repeated_literal == repetitions,
            format!(
                "so at {repeated} and {repeated_literal} of {repetitions} sizes; with {} processes {} against {} messages to each, and {} against {} phases until they are consumed",
                last(&linear, "nodes"),
                last(&linear, again[1]),
                last(&literal, again[1]),
                last(&linear, "repeated_phases"),
                last(&literal, "repeated_phases"),
            ),
            "",
        ),
    ]
}
