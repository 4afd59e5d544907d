//! How time and memory of the simulation grow with its size.

use super::chart::{Axis, Chart, Curve, Spacing};
use super::{Claim, Figure, Scale};

const SIZE: Axis = Axis {
    label: "processes (logarithmic)",
    spacing: Spacing::Doubling,
};

/// The exponent of the size for which bounds are promised.
const PROMISED: u32 = 20;

fn line(scheduler: &str, exponent: u32) -> String {
    format!(
        "converge --shape binomial --nodes {} --scheduler {scheduler}",
        1_u32 << exponent
    )
}

/// The command lines whose time and memory are measured, the smallest first. Memory is the most
/// that the process has had so far, so later lines must take more.
pub(super) fn lines(scale: &Scale) -> Vec<String> {
    let sizes = scale.exponents();
    let lines = sizes.flat_map(|e| ["sync", "async"].map(|scheduler| line(scheduler, e)));
    lines.collect()
}

pub(super) fn figure(scale: &Scale) -> Figure {
    let curves = |y| {
        ["sync", "async"]
            .into_iter()
            .enumerate()
            .map(move |(look, scheduler)| {
                let sizes = scale.exponents().filter(|e| *e >= 8);
                let lines = sizes.map(|e| line(scheduler, e)).collect();
                Curve::new(scheduler, lines, "nodes", y, look)
            })
    };
    let chart = |file, title, label, y| Chart {
        file,
        title,
        x: SIZE,
        y: Axis {
            label,
            spacing: Spacing::Decimal,
        },
        curves: curves(y).collect(),
        limit: None,
    };
    Figure {
        key: "growth",
        source: "Beyond the papers",
        title: "What a simulated clean start costs",
        method: "Binomial trees, one run at a time, on one processor: the time of the run and the most memory that the process has had so far. The smallest memory is the program's own.".to_owned(),
        charts: vec![
            chart(
                "growth-seconds",
                "Seconds of a simulated clean start",
                "wall time (s, logarithmic)",
                "wall_seconds",
            ),
            chart(
                "growth-bytes",
                "Memory of a simulated clean start",
                "resident memory (bytes, logarithmic)",
                "peak_rss_bytes",
            ),
        ],
        extra: Vec::new(),
        claims: |scale, laboratory| {
            let exponent = *scale.exponents().end();
            let number = |scheduler, field| laboratory.number(&line(scheduler, exponent), field);
            let (sync, slow) = (number("sync", "wall_seconds"), number("async", "wall_seconds"));
            let gibibytes = number("async", "peak_rss_bytes") / 1_073_741_824.0;
            // The bounds are those for 2^20, changed in proportion to the size, but at least a
            // hundredth of the time and a tenth of the memory.
            let share = 2_f64.powi(exponent as i32 - PROMISED as i32).max(0.01);
            let proportion = match exponent == PROMISED {
                true => "",
                false => ", judged in proportion",
            };
            let each = number("async", "peak_rss_bytes") / f64::from(1_u32 << exponent);
            vec![
                Claim::new(
                    "Ours: 2^20 processes take at most 10 s synchronously and 120 s asynchronously.",
                    sync <= 10.0 * share && slow <= 120.0 * share,
                    format!("2^{exponent} took {sync:.2} s and {slow:.2} s{proportion}"),
                    "The machine was slower or busy.",
                ),
                Claim::new(
                    "Ours: 2^20 processes take at most 2 GiB.",
                    gibibytes <= 2.0 * share.max(0.1),
                    format!("{gibibytes:.2} GiB with 2^{exponent}, {each:.0} bytes a process"),
                    "",
                ),
            ]
        },
    }
}
