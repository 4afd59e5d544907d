//! A panel as a picture or as text.

use plotters::prelude::*;

use super::Thresholds;
use super::answer::Event;
use super::prometheus::{Series, Window};
use crate::figure::chart::{COLOURS, DrawingError};

const WIDTH: u32 = 600;
const HEIGHT: u32 = 240;
const FONT: (&str, i32) = ("sans-serif", 15);
const INK: RGBColor = RGBColor(34, 34, 34);
const EVENT: RGBColor = RGBColor(196, 22, 42);

/// Values of this size or larger are not drawn. No value of a cluster is as large, and axes for
/// larger values have no ticks.
const LARGEST: f64 = 1e100;

/// A value with its unit, which is one of Grafana's.
pub fn text_of(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() >= 1e18 {
        return format!("{value:.2e}");
    }
    match unit {
        "s" => in_seconds(value),
        "bytes" => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        "Bps" => scaled(value, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s"]),
        "percentunit" => format!("{} %", rounded(value * 100.0)),
        _ => scaled(value, 1000.0, &["", "k", "M", "G", "T"]),
    }
}

fn in_seconds(value: f64) -> String {
    let (size, unit) = unit_of(value);
    format!("{} {unit}", rounded(value / size))
}

/// The unit for a duration of this many seconds: its length in seconds, and its name.
fn unit_of(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        size if size >= 172_800.0 => (86_400.0, "d"),
        size if size >= 7_200.0 => (3_600.0, "h"),
        size if size >= 120.0 => (60.0, "min"),
        size if size >= 1.0 || size == 0.0 => (1.0, "s"),
        size if size >= 1e-3 => (1e-3, "ms"),
        _ => (1e-6, "µs"),
    }
}

fn scaled(value: f64, factor: f64, units: &[&str]) -> String {
    let (mut value, mut units) = (value, units.iter().peekable());
    let mut unit = units.next().copied().unwrap_or_default();
    while value.abs() >= factor && units.peek().is_some() {
        value /= factor;
        unit = units.next().copied().unwrap_or_default();
    }
    format!("{} {unit}", rounded(value)).trim_end().to_owned()
}

/// A number rounded to three significant digits, or to a whole number if that has more digits.
fn rounded(value: f64) -> f64 {
    let digits = 2 - value.abs().max(1e-9).log10().floor() as i32;
    let factor = 10_f64.powi(digits.clamp(0, 9));
    (value * factor).round() / factor
}

/// The colour of a value: that of the highest threshold that it has reached.
pub fn colour_of(value: f64, thresholds: &Thresholds) -> &'static str {
    match reached(value, thresholds) {
        Some("red") => "#c4162a",
        Some("orange") => "#a84d00",
        Some("yellow") => "#806000",
        Some("green") => "#2b7a3d",
        _ => "#1f60c4",
    }
}

/// The severity of a value by its colour: red is worst.
pub fn severity_of(value: f64, thresholds: &Thresholds) -> u8 {
    match reached(value, thresholds) {
        Some("red") => 3,
        Some("orange") => 2,
        Some("yellow") => 1,
        _ => 0,
    }
}

/// The name of the colour of the highest threshold that a value has reached.
fn reached(value: f64, thresholds: &Thresholds) -> Option<&str> {
    let steps = thresholds.steps.iter();
    let mut reached = steps.filter(|step| step.value.is_none_or(|from| value >= from));
    reached.next_back().map(|step| step.color.as_str())
}

/// The colour of the curve at a place of the legend.
pub fn colour_at(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// Whether the curve at this place of the legend is dashed. In every second round through the
/// colours, curves are dashed, to tell curves of the same colour apart.
pub fn is_dashed(place: usize) -> bool {
    place / COLOURS.len() % 2 == 1
}

/// Curves over time, with a line at each event. `None` if no curve has a point that can be drawn.
pub fn chart(
    series: &[(String, Series)],
    unit: &str,
    window: Window,
    events: &[Event],
) -> Result<Option<String>, DrawingError> {
    let drawn: Vec<Vec<Run>> = series
        .iter()
        .map(|(_, one)| runs(&one.points, window))
        .collect();
    let values = drawn.iter().flatten().flatten().map(|(_, value)| *value);
    let Some(highest) = values.clone().reduce(f64::max) else {
        return Ok(None);
    };
    let lowest = values.fold(0.0, f64::min);
    let highest = if highest > lowest {
        highest + (highest - lowest) * 0.05
    } else {
        lowest + 1.0
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        // Times count back from the end, in a unit in which the ticks are round numbers.
        let (size, unit_of_time) = unit_of(window.end - window.start);
        let back = |time: f64| (time - window.end) / size;
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(28)
            .y_label_area_size(76)
            .build_cartesian_2d(back(window.start)..0.0, lowest..highest)?;
        chart
            .configure_mesh()
            .x_labels(6)
            .y_labels(5)
            .x_label_formatter(&|time| match *time {
                0.0 => "now".to_owned(),
                time => format!("−{} {unit_of_time}", rounded(-time)),
            })
            .y_label_formatter(&|value| text_of(*value, unit))
            .bold_line_style(RGBColor(226, 226, 226))
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .draw()?;
        let times = events.iter().filter_map(|event| event.time);
        for time in times.filter(|time| window.holds(*time)) {
            let ends = [(back(time), lowest), (back(time), highest)];
            chart.draw_series(DashedLineSeries::new(ends, 4, 3, EVENT.stroke_width(1)))?;
        }
        for (place, runs) in drawn.into_iter().enumerate() {
            let colour = colour_at(place);
            for run in runs {
                let run: Vec<_> = run
                    .into_iter()
                    .map(|(time, value)| (back(time), value))
                    .collect();
                let style = colour.stroke_width(2);
                if let [alone] = run[..] {
                    chart.draw_series([Circle::new(alone, 2, colour.filled())])?;
                } else if is_dashed(place) {
                    chart.draw_series(DashedLineSeries::new(run, 5, 4, style))?;
                } else {
                    chart.draw_series(LineSeries::new(run, style))?;
                }
            }
        }
        root.present()?;
    }
    Ok(Some(svg))
}

/// Points without a gap between them, from the oldest to the newest.
type Run = Vec<(f64, f64)>;

/// The points within the window that can be drawn, as runs. A value that is no number or too large
/// makes a gap, and so does a missing point.
fn runs(points: &[(f64, f64)], window: Window) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let can_be_drawn = |(time, value): &&(f64, f64)| window.holds(*time) && value.abs() < LARGEST;
    for point in points.iter().filter(can_be_drawn) {
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|last| point.0 - last.0 < window.step * 1.5) =>
            {
                run.push(*point);
            }
            _ => runs.push(vec![*point]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::Threshold;

    #[test]
    fn values_have_the_units_of_grafana() {
        for (value, unit, text) in [
            (0.0, "short", "0"),
            (1_234.0, "short", "1.23 k"),
            (0.5, "percentunit", "50 %"),
            (1_572_864.0, "bytes", "1.5 MiB"),
            (2_500_000.0, "Bps", "2.5 MB/s"),
            (0.0042, "s", "4.2 ms"),
            (0.000_25, "s", "250 µs"),
            (90.0, "s", "90 s"),
            (-600.0, "s", "-10 min"),
            (864_000.0, "s", "10 d"),
            (f64::NAN, "s", "–"),
            (1e300, "short", "1.00e300"),
        ] {
            assert_eq!(text_of(value, unit), text, "{value} {unit}");
        }
    }

    #[test]
    fn a_value_has_the_colour_of_the_highest_threshold_that_it_reached() {
        let step = |color: &str, value| Threshold {
            color: color.to_owned(),
            value,
        };
        let steps = vec![step("green", None), step("red", Some(2.0))];
        let thresholds = Thresholds { steps };
        assert_eq!(colour_of(1.9, &thresholds), "#2b7a3d");
        assert_eq!(colour_of(2.0, &thresholds), "#c4162a");
        assert!(severity_of(2.0, &thresholds) > severity_of(1.9, &thresholds));
    }

    const WINDOW: Window = Window {
        start: 0.0,
        end: 10.0,
        step: 1.0,
    };

    #[test]
    fn a_curve_is_broken_at_gaps_and_at_values_that_cannot_be_drawn() {
        let points = [
            (-5.0, 1.0),
            (1.0, 1.0),
            (2.0, f64::NAN),
            (3.0, 1.0),
            (4.0, 2.0),
            (5.0, 1e300),
            (6.0, f64::INFINITY),
            (9.0, 1.0),
            (1e300, 1.0),
        ];
        let runs = runs(&points, WINDOW);
        assert_eq!(
            runs,
            [
                vec![(1.0, 1.0)],
                vec![(3.0, 1.0), (4.0, 2.0)],
                vec![(9.0, 1.0)]
            ]
        );
    }

    #[test]
    fn the_largest_values_and_times_draw_in_time() {
        let points = vec![(1.0, 9e99), (2.0, -9e99), (3.0, 1.7e308), (1e300, 1.0)];
        let labels = Default::default();
        let series = [("one".to_owned(), Series { labels, points })];
        let far = Event {
            time: Some(1e300),
            text: "Down".to_owned(),
        };
        let drawn = chart(&series, "short", WINDOW, &[far]).expect("it draws");
        assert!(drawn.is_some_and(|drawn| drawn.len() < 20_000));
    }

    #[test]
    fn curves_without_a_value_are_no_chart() {
        let with = |points| {
            let labels = Default::default();
            [("one".to_owned(), Series { labels, points })]
        };
        let none = chart(&with(vec![(1.0, f64::NAN)]), "s", WINDOW, &[]).expect("it draws");
        assert_eq!(none, None);
        let event = Event {
            time: Some(3.0),
            text: "Down".to_owned(),
        };
        let points = vec![(1.0, 1.0), (2.0, 4.0)];
        let drawn = chart(&with(points), "s", WINDOW, &[event]).expect("it draws");
        let drawn = drawn.expect("a chart");
        assert!(drawn.contains("−10 s"), "{drawn}");
        assert!(drawn.contains("polyline"), "{drawn}");
    }
}
