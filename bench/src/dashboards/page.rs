//! One page with all dashboards, which needs no other file.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use time::UtcDateTime;

use super::answer::{AnsweredDashboard, AnsweredPanel, Event};
use super::prometheus::{Series, Window};
use super::rendering::{chart, colour_at, colour_of, is_dashed, severity_of, text_of};
use super::{Panel, Variables};
use crate::figure::chart::DrawingError;
use crate::figure::report::inline;

/// The most series that the legend of a chart names.
const NAMED: usize = 12;
/// The most numbers that a panel shows.
const NUMBERS: usize = 256;
/// The most rows of a table.
const ROWS: usize = 256;
/// The most alerts that are listed.
const EVENTS: usize = 100;

const STYLE: &str = "
:root { color: #222; background: #f4f5f5; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 1500px; margin: 0 auto; padding: 0 12px 48px; }
h1 { margin: 20px 0 4px; } h2 { margin: 36px 0 8px; } h3 { grid-column: 1 / -1; margin: 12px 0 0; font-size: 1rem; }
nav a { margin-right: 16px; }
.panels { display: grid; gap: 10px; grid-template-columns: repeat(24, minmax(0, 1fr)); }
.panel { background: #fff; border: 1px solid #d8d9da; border-radius: 4px; padding: 8px 10px; min-width: 0; }
@media (max-width: 900px) { .panel { grid-column: 1 / -1 !important; } }
.panel h4 { margin: 0; font-size: .9375rem; } .small { color: #555; font-size: .8125rem; margin: 2px 0 6px; }
svg { display: block; width: 100%; height: auto; }
.legend { list-style: none; margin: 4px 0 0; padding: 0; font-size: .8125rem; display: flex; flex-wrap: wrap; gap: 2px 16px; }
.legend i { display: inline-block; width: 16px; height: 0; margin-right: 6px; vertical-align: middle; }
.numbers { display: flex; flex-wrap: wrap; gap: 8px; }
.number { color: #fff; border-radius: 4px; padding: 8px 12px; flex: 1; text-align: center; }
.number b { display: block; font-size: 1.6rem; line-height: 1.2; }
.none { color: #666; padding: 24px 0; text-align: center; }
.scroll { overflow: auto; max-height: 320px; } table { border-collapse: collapse; font-size: .8125rem; width: 100%; }
th, td { text-align: left; padding: 3px 12px 3px 0; border-bottom: 1px solid #e3e3e3; white-space: nowrap; }
.event { color: #c4162a; }
";

/// The whole page, as of the end of the window.
pub fn page(
    dashboards: &[AnsweredDashboard],
    variables: &Variables,
    window: Window,
    from: &str,
) -> Result<String, DrawingError> {
    let sections: Result<Vec<Markup>, _> =
        dashboards.iter().map(|one| section(one, window)).collect();
    let sections = sections?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Binomesh: dashboards" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Binomesh" }
                p.small {
                    "The " (text_of(variables.range_seconds as f64, "s")) " until " (date(window.end)) " of " (from) ", cluster "
                    code { (variables.cluster) } ", node " code { (variables.node) } "."
                }
                (alerts(dashboards, window))
                nav { @for one in dashboards { a href={ "#" (anchor(&one.title)) } { (one.title) } } }
                @for section in sections { (section) }
            }
        }
    };
    Ok(page.into_string())
}

fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .replace(|sign: char| !sign.is_ascii_alphanumeric(), "-")
}

fn section(dashboard: &AnsweredDashboard, window: Window) -> Result<Markup, DrawingError> {
    let panels = dashboard.panels.iter();
    let panels: Result<Vec<Markup>, _> = panels
        .map(|one| panel(one, window, &dashboard.events))
        .collect();
    let panels = panels?;
    Ok(html! {
        h2 id=(anchor(&dashboard.title)) { (dashboard.title) }
        div.panels { @for panel in panels { (panel) } }
    })
}

/// The alerts that fire within the window, the newest first. An alert of several dashboards is
/// listed once.
fn alerts(dashboards: &[AnsweredDashboard], window: Window) -> Markup {
    let mut events: Vec<&Event> = dashboards.iter().flat_map(|one| &one.events).collect();
    events.sort_by(|a, b| {
        let newest_first = b.time.partial_cmp(&a.time).unwrap_or(Ordering::Equal);
        newest_first.then_with(|| a.text.cmp(&b.text))
    });
    events.dedup();
    html! {
        @if !events.is_empty() {
            details open {
                summary.event { (events.len()) " alerts fired; each red line is the beginning of one" }
                ul { @for event in events.iter().take(EVENTS) { li {
                    @match event.time {
                        Some(time) => { (text_of(window.end - time, "s")) " ago: " }
                        None => { "longer ago: " }
                    }
                    (event.text)
                } } }
                @if events.len() > EVENTS { p.small { "and " (events.len() - EVENTS) " more" } }
            }
        }
    }
}

/// A time in seconds since 1970, as a date.
fn date(time: f64) -> String {
    let Ok(date) = UtcDateTime::from_unix_timestamp(time as i64) else {
        return format!("{time} s after 1970");
    };
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    let (hour, minute, second) = date.as_hms();
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

fn panel(one: &AnsweredPanel, window: Window, events: &[Event]) -> Result<Markup, DrawingError> {
    let panel = &one.panel;
    if panel.kind == "row" {
        return Ok(html! { h3 { (panel.title) } });
    }
    let draw = match panel.kind.as_str() {
        "stat" => numbers,
        "table" => table,
        "timeseries" => return Ok(framed(panel, curves(one, window, events)?)),
        kind => {
            return Ok(framed(
                panel,
                html! { p.none { "panels of type " (kind) " are not drawn" } },
            ));
        }
    };
    Ok(framed(
        panel,
        if one.is_answered() {
            draw(one)
        } else {
            nothing()
        },
    ))
}

fn nothing() -> Markup {
    html! { p.none { "nothing of this kind has been seen" } }
}

fn framed(panel: &Panel, content: Markup) -> Markup {
    html! {
        div.panel style={ "grid-column: span " (panel.grid_pos.w.clamp(1, 24)) } {
            h4 { (panel.title) }
            @if let Some(description) = &panel.description { p.small { (description) } }
            (content)
        }
    }
}

/// The numbers of a panel, those with the worst colour first.
fn numbers(one: &AnsweredPanel) -> Markup {
    let defaults = &one.panel.field_config.defaults;
    let mut all: Vec<_> = one
        .series
        .iter()
        .map(|(name, series)| (series.last(), name))
        .collect();
    all.sort_by_key(|(value, _)| Reverse(severity_of(*value, &defaults.thresholds)));
    html! {
        div.numbers { @for (value, name) in all.iter().take(NUMBERS) {
            div.number style={ "background: " (colour_of(*value, &defaults.thresholds)) } {
                b { (text_of(*value, &defaults.unit)) } (name)
            }
        } }
        (more(one, NUMBERS))
    }
}

fn more(one: &AnsweredPanel, shown: usize) -> Markup {
    html! { @if one.series.len() > shown { p.small { "and " (one.series.len() - shown) " more" } } }
}

fn curves(one: &AnsweredPanel, window: Window, events: &[Event]) -> Result<Markup, DrawingError> {
    let unit = &one.panel.field_config.defaults.unit;
    let Some(image) = chart(&one.series, unit, window, events)? else {
        return Ok(nothing());
    };
    Ok(html! {
        div role="img" aria-label=(one.panel.title) { (PreEscaped(inline(&image))) }
        ul.legend { @for (place, (name, series)) in one.series.iter().take(NAMED).enumerate() {
            @let last = current(series, window);
            @let plotters::style::RGBColor(red, green, blue) = colour_at(place);
            li { i style={ "border-top: 3px " (if is_dashed(place) { "dashed" } else { "solid" }) " rgb(" (red) "," (green) "," (blue) ")" } {} (name) ": " (text_of(last, unit)) }
        } }
        (more(one, NAMED))
    })
}

/// The value at the end of the window. NaN if the series ends earlier.
fn current(series: &Series, window: Window) -> f64 {
    match series.points.last() {
        Some((time, value)) if window.end - time < window.step * 1.5 => *value,
        _ => f64::NAN,
    }
}

/// A row for each series: its labels and its value, without the columns that the dashboard hides.
fn table(one: &AnsweredPanel) -> Markup {
    let options = one.panel.transformations.iter().map(|one| &one.options);
    let is_hidden = |column: &str| {
        let mut options = options.clone();
        options.any(|options| options.exclude_by_name.get(column) == Some(&true))
    };
    let columns: BTreeSet<&String> = one
        .series
        .iter()
        .flat_map(|(_, one)| one.labels.keys())
        .collect();
    let columns: Vec<&String> = columns
        .into_iter()
        .filter(|column| !is_hidden(column))
        .collect();
    let renamed: BTreeMap<&str, &str> = options
        .clone()
        .flat_map(|options| &options.rename_by_name)
        .map(|(column, name)| (column.as_str(), name.as_str()))
        .collect();
    let title = |column: &str| (*renamed.get(column).unwrap_or(&column)).to_owned();
    let unit = &one.panel.field_config.defaults.unit;
    html! {
        div.scroll { table {
            thead { tr { @for column in &columns { th { (title(column)) } } @if !is_hidden("Value") { th { (title("Value")) } } } }
            tbody { @for (_, series) in one.series.iter().take(ROWS) { tr {
                @for column in &columns { td { (series.labels.get(*column).map_or("", String::as_str)) } }
                @if !is_hidden("Value") {
                    td { (text_of(series.last(), unit)) }
                }
            } } }
        } }
        @if one.series.len() > ROWS { p.small { "and " (one.series.len() - ROWS) " more" } }
    }
}
