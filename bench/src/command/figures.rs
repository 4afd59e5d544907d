//! `binomesh-bench figures`: the papers' figures, drawn again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::{Args, Parser};
use serde::Serialize;
use serde_json::Value;

use super::{Arguments, Command, Failure, Finding};
use crate::figure::laboratory::Laboratory;
use crate::figure::report::{self, Drawn};
use crate::figure::{Figure, Scale, measured_alone, verdict};
use crate::record::{self, Stopwatch};

/// Draw the figures of the papers beside the claims of the papers, as SVG and one HTML report.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench figures
  binomesh-bench figures --quick --out look
  binomesh-bench figures --nodes-max 4194304 --json

Writes report.html, which needs no other file, an SVG file for each chart, and rows.jsonl:
each command that was run and its row. The figures are 2(a), 2(b), 3, 4(a) and 4(b) of
[BMG09], and 2(a) and 2(b) of [SFT06]. Further figures show the effect of the corrections of
Algorithm 2, the growth of time and memory, facts about graphs, and schedules of [EVO] after
faults. Whether a figure holds or differs is computed from the rows; a figure that differs
is a finding and no failure.

Some ten minutes on two processors; with --quick less than one.")]
pub struct Figures {
    /// The folder in which the files are written; a missing folder is created.
    #[arg(long, default_value = "figures")]
    pub out: PathBuf,
    /// Use fewer nodes and fewer trials, for a quick look that is no measurement.
    #[arg(long)]
    pub quick: bool,
    /// The greatest number of processes of a clean start [default: 1048576; with --quick 16384].
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=16_777_216))]
    pub nodes_max: Option<u32>,
    /// The seed of trees, failures and packets.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The result for one figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    figure: &'static str,
    source: &'static str,
    title: &'static str,
    verdict: &'static str,
    claims: Vec<ClaimRow>,
    files: Vec<PathBuf>,
    seed: u64,
    nodes_max: u32,
    quick: bool,
    version: &'static str,
}

#[derive(Debug, Clone, Serialize)]
struct ClaimRow {
    said: String,
    verdict: &'static str,
    sentence: String,
}

impl Figures {
    /// Draw all figures and print their rows.
    pub fn run(self) -> Result<Finding, Failure> {
        let watch = Stopwatch::start();
        // Make the folder before all the work, so that an error comes early.
        fs::create_dir_all(&self.out).map_err(|error| Failure::unwritable(&self.out, &error))?;
        let scale = self.scale();
        let figures = Figure::all(&scale);
        let laboratory = measure(&scale, &figures, watch).map_err(Failure::Run)?;
        record::progress_done();
        let drawn = draw(&scale, figures, &laboratory)?;
        for one in &drawn {
            let row = self.write_images(&scale, one)?;
            self.print(&row)?;
        }
        let page = report::page(&scale, &self.command(), &drawn, &laboratory);
        let report = self.write("report.html", &page)?;
        self.write("rows.jsonl", &rows(&laboratory)?)?;
        let seconds = watch.elapsed().as_secs();
        record::note(format_args!("{} after {seconds} s", report.display()));
        Ok(Finding::Good)
    }

    /// The scale of the simulations.
    pub fn scale(&self) -> Scale {
        let nodes_max = if self.quick { 1 << 14 } else { 1 << 20 };
        Scale {
            is_quick: self.quick,
            nodes_max: self.nodes_max.unwrap_or(nodes_max),
            seed: self.seed,
        }
    }

    /// The command line that makes the same report.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let Scale {
            nodes_max, seed, ..
        } = self.scale();
        format!("binomesh-bench figures{quick} --nodes-max {nodes_max} --seed {seed}")
    }

    fn write_images(&self, scale: &Scale, drawn: &Drawn) -> Result<Row, Failure> {
        let images = drawn.figure.charts.iter().zip(&drawn.images);
        let files = images.map(|(chart, image)| self.write(&format!("{}.svg", chart.file), image));
        let claims = drawn.claims.iter().map(|claim| ClaimRow {
            said: claim.said.clone(),
            verdict: claim.verdict(),
            sentence: claim.sentence(),
        });
        Ok(Row {
            figure: drawn.figure.key,
            source: drawn.figure.source,
            title: drawn.figure.title,
            verdict: verdict(&drawn.claims),
            claims: claims.collect(),
            files: files.collect::<Result<_, _>>()?,
            seed: scale.seed,
            nodes_max: scale.nodes_max,
            quick: scale.is_quick,
            version: record::VERSION,
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.out.join(name);
        fs::write(&path, text).map_err(|error| Failure::unwritable(&path, &error))?;
        Ok(path)
    }

    fn print(&self, row: &Row) -> Result<(), Failure> {
        if self.json {
            record::print_json(row)?;
        } else {
            record::print_line(&text(row))?;
        }
        Ok(())
    }
}

/// A figure and its claims, for people.
fn text(row: &Row) -> String {
    let claims = row.claims.iter();
    let claims = claims.map(|claim| format!("  {}\n    {}\n", claim.said, claim.sentence));
    let claims: String = claims.collect();
    format!("{}: {} ({})\n{claims}", row.source, row.title, row.verdict)
}

/// The rows of all command lines, each run once.
fn measure(scale: &Scale, figures: &[Figure], watch: Stopwatch) -> Result<Laboratory, String> {
    let alone = measured_alone(scale);
    let mut seen: BTreeSet<&String> = alone.iter().collect();
    let lines = figures.iter().flat_map(Figure::lines);
    let others: Vec<String> = lines.filter(|line| seen.insert(line)).cloned().collect();
    let tenth = std::sync::atomic::AtomicUsize::new(0);
    Laboratory::run(&alone, &others, row_of, |done, all, line| {
        let percent = 100 * done / all.max(1);
        record::progress(format_args!("{percent} % ({done} of {all} runs), {line}"));
        // Without a terminal, print a progress line for every tenth.
        use std::sync::atomic::Ordering::Relaxed;
        if tenth.fetch_max(percent / 10, Relaxed) < percent / 10 {
            let seconds = watch.elapsed().as_secs();
            record::milestone(format_args!("{percent} % of {all} runs after {seconds} s"));
        }
    })
}

fn draw(
    scale: &Scale,
    figures: Vec<Figure>,
    laboratory: &Laboratory,
) -> Result<Vec<Drawn>, Failure> {
    let drawn = figures.into_iter().map(|figure| {
        let images = figure.charts.iter().map(|chart| chart.draw(laboratory));
        let images: Result<Vec<String>, _> = images.collect();
        Ok(Drawn {
            images: images.map_err(Failure::run)?,
            claims: (figure.claims)(scale, laboratory),
            figure,
        })
    });
    drawn.collect()
}

/// A line for each command: the command and its row.
fn rows(laboratory: &Laboratory) -> Result<String, Failure> {
    let mut text = String::new();
    for (command, row) in laboratory.rows() {
        let line = serde_json::json!({ "command": command, "row": row });
        text.push_str(&serde_json::to_string(&line).map_err(Failure::run)?);
        text.push('\n');
    }
    Ok(text)
}

/// The row of one command line, which is given without the name of the program.
pub(crate) fn row_of(line: &str) -> Result<Value, String> {
    let watch = Stopwatch::start();
    let words = ["binomesh-bench"]
        .into_iter()
        .chain(line.split_whitespace());
    let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    let text = |failure: Failure| failure.to_string();
    let row = match arguments.command {
        Command::Converge(converge) => Ok(converge.measure()?),
        Command::Route(route) => serde_json::to_value(route.measure()?),
        Command::Faults(faults) => serde_json::to_value(faults.measure().map_err(text)?),
        Command::Reschedule(one) => serde_json::to_value(one.measure().map_err(text)?),
        Command::Evolution(one) => serde_json::to_value(one.measure().map_err(text)?),
        Command::Graph(graph) => match graph.check_routing {
            Some(most) => serde_json::to_value(graph.compare_routing(most)),
            None => serde_json::to_value(graph.only()?),
        },
        _ => {
            return Err(format!(
                "{line}: this command measures nothing that a figure shows"
            ));
        }
    };
    let row = row.map_err(|error| error.to_string())?;
    record::progress(format_args!(
        "{line}: {:.1} s",
        watch.elapsed().as_secs_f64()
    ));
    Ok(row)
}
