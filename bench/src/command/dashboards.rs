//! `dashboards`: Grafana's dashboards, drawn without Grafana.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;

use super::live::setup::block_on;
use super::{Failure, Finding};
use crate::dashboards::answer::{AnsweredDashboard, answer};
use crate::dashboards::page::page;
use crate::dashboards::prometheus::{Prometheus, Window};
use crate::dashboards::{Variables, read};
use crate::record::{note, print_json, print_table, progress, progress_done};

/// Draw the dashboards for Grafana from a Prometheus, as one HTML page.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench dashboards --prometheus http://127.0.0.1:9090
  binomesh-bench dashboards --prometheus http://10.0.0.9:9090 --minutes 360 --node 'node-[0-3]' --out look.html

The page needs no other file. The command asks Prometheus the queries of the files that Grafana
reads, and draws panels of the types stat, timeseries and table. stderr names the panels without
an answer, which are no failure, since some panels wait for an event.")]
pub struct Dashboards {
    /// The address of Prometheus, without TLS.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub prometheus: Prometheus,
    /// The folder with the dashboards.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "deploy/grafana/dashboards"
    )]
    pub dashboards: PathBuf,
    /// How many minutes up to now are drawn.
    #[arg(long, default_value_t = 60.0, value_parser = minutes, allow_hyphen_values = true)]
    pub minutes: f64,
    /// The seconds between two readings of a node by Prometheus. Rates are computed over four
    /// readings.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub scrape_seconds: u64,
    /// The clusters that are drawn, as a regular expression of Prometheus.
    #[arg(long, default_value = ".*")]
    pub cluster: String,
    /// The nodes that are drawn, as a regular expression of Prometheus.
    #[arg(long, default_value = ".*")]
    pub node: String,
    /// The file of the page.
    #[arg(long, value_name = "FILE", default_value = "dashboards.html")]
    pub out: PathBuf,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The result for one dashboard.
#[derive(Debug, Serialize)]
struct Row {
    dashboard: String,
    panels: usize,
    answered: usize,
    alerts: usize,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text
        .parse()
        .map_err(|_| "expected a number of minutes, such as 60".to_owned())?;
    match (0.25..=525_600.0).contains(&minutes) {
        true => Ok(minutes),
        false => {
            Err("expected a number of minutes from 0.25 to 525600, which is a year".to_owned())
        }
    }
}

impl Dashboards {
    /// Ask Prometheus, draw the dashboards and write the page.
    pub fn run(self) -> Result<Finding, Failure> {
        block_on(async |stop| {
            tokio::select! {
                found = self.draw() => found,
                () = stop.cancelled() => Err(Failure::Run("the command was interrupted by a signal".to_owned())),
            }
        })
    }

    /// Fail if Prometheus has no data of the chosen nodes, since all panels would be empty.
    async fn see_nodes(&self, variables: &Variables, window: Window) -> Result<(), Failure> {
        let query = r#"binomesh_healthy{job="binomesh",cluster=~"$cluster",node=~"$node"}"#;
        let query = variables.fill(query, window.step);
        let nodes = self.prometheus.over(&query, window).await;
        match nodes.map_err(Failure::run)?.is_empty() {
            true => Err(Failure::Run(format!(
                "{} has no series {query} in this time; name the scrape job `binomesh`, give its \
                 targets the label `cluster`, and see docs/monitoring.md",
                self.prometheus
            ))),
            false => Ok(()),
        }
    }

    async fn draw(&self) -> Result<Finding, Failure> {
        let variables = Variables {
            cluster: self.cluster.clone(),
            node: self.node.clone(),
            scrape_seconds: self.scrape_seconds,
            range_seconds: (self.minutes * 60.0).round() as u64,
        };
        let window = variables.window(now());
        let dashboards = read(&self.dashboards).map_err(Failure::run)?;
        self.see_nodes(&variables, window).await?;
        let mut answered = Vec::new();
        for dashboard in &dashboards {
            progress(format_args!("asking for {}", dashboard.title));
            let one = answer(dashboard, &self.prometheus, &variables, window).await;
            answered.push(one.map_err(Failure::run)?);
        }
        progress_done();
        let page = page(&answered, &variables, window, &self.prometheus.to_string());
        let page = page.map_err(Failure::run)?;
        std::fs::write(&self.out, page).map_err(|error| {
            Failure::Run(format!("cannot write {}: {error}", self.out.display()))
        })?;
        let print = if self.json { print_json } else { print_table };
        for one in &answered {
            print(&row(one))?;
        }
        note(format_args!("{} is written", self.out.display()));
        Ok(Finding::Good)
    }
}

/// The row of a dashboard. A note on stderr names the panels without an answer.
fn row(dashboard: &AnsweredDashboard) -> Row {
    let panels: Vec<_> = dashboard.panels.iter().filter(|one| one.asks()).collect();
    let silent: Vec<_> = panels.iter().filter(|one| !one.is_answered()).collect();
    if !silent.is_empty() {
        let titles: Vec<&str> = silent.iter().map(|one| one.panel.title.as_str()).collect();
        note(format_args!(
            "{}: nothing to draw for {}",
            dashboard.title,
            titles.join(", ")
        ));
    }
    Row {
        dashboard: dashboard.title.clone(),
        panels: panels.len(),
        answered: panels.len() - silent.len(),
        alerts: dashboard.events.len(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "Prometheus knows its samples by the wall clock; no machine reads this clock"
)]
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
