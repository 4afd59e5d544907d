//! One page that needs no other file: figures, texts, verdicts, rows.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::laboratory::Laboratory;
use super::{Claim, Figure, Scale, verdict};
use crate::record;

/// A figure with its charts and verdicts.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The figure that was drawn.
    pub figure: Figure,
    /// The SVG document of each chart.
    pub images: Vec<String>,
    /// The claims of the figure, judged.
    pub claims: Vec<Claim>,
}

/// The style of the page, for widths from a telephone's to a desk's.
const STYLE: &str = "
:root { color: #222; background: #fff; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 1200px; margin: 0 auto; padding: 0 16px 48px; }
h1 { line-height: 1.2; margin: 24px 0 8px; } h2 { line-height: 1.25; margin: 0 0 4px; font-size: 1.3rem; }
section { border-top: 1px solid #ccc; margin-top: 32px; padding-top: 20px; }
p, dl, ul { margin: 8px 0; } .small { color: #555; font-size: .875rem; }
.charts { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
.beside { display: grid; gap: 8px 32px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); align-items: start; }
figure { margin: 12px 0 0; max-width: 640px; } figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
.claims { list-style: none; padding: 0; } .claims li { margin: 10px 0; padding-left: 12px; border-left: 4px solid #aaa; }
.claims .holds { border-color: #009e73; } .claims .differs { border-color: #d55e00; }
.said { color: #444; font-style: italic; }
.verdict { font-weight: 600; white-space: nowrap; }
.scroll { overflow-x: auto; margin: 16px 0; } table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid #ddd; vertical-align: top; }
.rows th, .rows td { white-space: nowrap; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; padding: 8px 0; } code { font-size: .8125rem; overflow-wrap: anywhere; }
";

/// The whole page.
pub fn page(scale: &Scale, command: &str, drawn: &[Drawn], laboratory: &Laboratory) -> String {
    let differing = drawn.iter().filter(|one| verdict(&one.claims) != "holds");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Binomesh: the papers' figures" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The papers' figures" }
                p {
                    "Figures of [BMG09], Bosilca et al., " i { "Constructing Resilient Communication Infrastructure for Runtime Environments" }
                    ", and [SFT06], Angskun et al., " i { "Scalable Fault Tolerant Protocol for Parallel Runtime Environments" }
                    ", and tables of [EVO], Jaroš, " i { "Evolutionary Design of Fault Tolerant Collective Communications" }
                    ", drawn again from the rules that Binomesh ships, beside what the texts say of them. "
                    (drawn.len() - differing.count()) " of " (drawn.len()) " hold in every respect."
                }
                (parameters(scale, command, laboratory))
                (summary(drawn))
                @for one in drawn { (section(one, laboratory)) }
            }
        }
    }
    .into_string()
}

fn parameters(scale: &Scale, command: &str, laboratory: &Laboratory) -> Markup {
    html! {
        div.scroll { table {
            tr { th { "Command" } td { code { (command) } } }
            tr { th { "Seed" } td { (scale.seed) } }
            tr { th { "Processes" } td { "clean starts up to " (scale.nodes_max) } }
            tr { th { "Scale" } td { @if scale.is_quick { "quick: a look, not a measurement" } @else { "full" } } }
            tr { th { "Rows" } td { (laboratory.rows().len()) ", each by the command beside it" } }
            tr { th { "Version" } td { "binomesh-bench " (record::VERSION) } }
            tr { th { "Machine" } td { (machine()) } }
        } }
    }
}

fn machine() -> String {
    format!(
        "{} {}, {} processors",
        std::env::consts::OS,
        std::env::consts::ARCH,
        crate::parallel::processors()
    )
}

fn summary(drawn: &[Drawn]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Figure" } th { "Shows" } th { "Verdict" } } }
            tbody { @for one in drawn {
                tr {
                    td { a href={ "#" (one.figure.key) } { (one.figure.source) } }
                    td { (one.figure.title) }
                    td.verdict { (verdict(&one.claims)) }
                }
            } }
        } }
    }
}

fn section(drawn: &Drawn, laboratory: &Laboratory) -> Markup {
    let figure = &drawn.figure;
    html! {
        section id=(figure.key) {
            h2 { (figure.source) ": " (figure.title) }
            p.small { (figure.method) }
            // A single chart stands beside its text, several stand above it.
            div.beside[figure.charts.len() == 1] {
                div.charts { @for (chart, image) in figure.charts.iter().zip(&drawn.images) {
                    figure role="img" aria-label=(chart.title) {
                        figcaption { (chart.title) }
                        (PreEscaped(inline(image)))
                    }
                } }
                ul.claims { @for claim in &drawn.claims { (claim_markup(claim)) } }
            }
            (rows(figure, laboratory))
        }
    }
}

fn claim_markup(claim: &Claim) -> Markup {
    html! {
        li class=(claim.verdict()) {
            div.said { (claim.said) }
            div { (claim.sentence()) }
        }
    }
}

/// A picture inside a page needs no namespace, which would look like an address.
pub(crate) fn inline(image: &str) -> String {
    image.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
}

/// The rows of all command lines of a figure, as a table.
fn rows(figure: &Figure, laboratory: &Laboratory) -> Markup {
    let fields = figure.fields();
    let mut lines: Vec<&String> = figure.lines().collect();
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(*line));
    html! {
        details {
            summary { (lines.len()) " rows" }
            div.scroll { table.rows {
                thead { tr { th { "binomesh-bench …" } @for field in &fields { th { (field) } } } }
                tbody { @for line in lines {
                    tr {
                        td { code { (line) } }
                        @for field in &fields { td.number { (value(laboratory, line, field)) } }
                    }
                } }
            } }
        }
    }
}

fn value(laboratory: &Laboratory, line: &str, field: &str) -> String {
    match laboratory.rows().get(line).and_then(|row| row.get(field)) {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::Number(number)) if number.is_f64() => {
            // Six digits are enough.
            let number = number.as_f64().unwrap_or(f64::NAN);
            let digits = 5 - number.abs().max(1e-9).log10().floor() as i32;
            let factor = 10_f64.powi(digits.clamp(0, 9));
            format!("{}", (number * factor).round() / factor)
        }
        Some(value) => value.to_string(),
    }
}
