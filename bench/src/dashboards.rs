//! Grafana's dashboards without Grafana: their queries, asked of a Prometheus and drawn.
//!
//! A dashboard is read from the file that Grafana reads. Of its panels this draws `stat`,
//! `timeseries` and `table`; the variables are replaced by what was chosen for them.

pub mod answer;
pub mod draw;
pub mod page;
pub mod prometheus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A dashboard, as far as it is drawn.
#[derive(Debug, Clone, Deserialize)]
pub struct Dashboard {
    /// Its name.
    pub title: String,
    /// From top to bottom, rows among them.
    pub panels: Vec<Panel>,
    /// Events that are marked in all its charts.
    #[serde(default)]
    pub annotations: Annotations,
}

/// Events that are marked in all charts of a dashboard.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Annotations {
    /// The queries.
    #[serde(default)]
    pub list: Vec<Annotation>,
}

/// A query whose series are events.
#[derive(Debug, Clone, Deserialize)]
pub struct Annotation {
    /// The query, if Prometheus answers it.
    #[serde(default)]
    pub expr: Option<String>,
}

/// A chart, a number, a table, or the heading of a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Panel {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub title: String,
    /// What it tells.
    pub description: Option<String>,
    /// How wide it is.
    pub grid_pos: GridPos,
    /// Of a collapsed row: its panels.
    #[serde(default)]
    pub panels: Vec<Panel>,
    /// Its queries.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// How values are shown.
    #[serde(default)]
    pub field_config: FieldConfig,
    /// How a table is arranged.
    #[serde(default)]
    pub transformations: Vec<Transformation>,
}

/// Where a panel is.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct GridPos {
    /// How many of 24 columns it takes.
    pub w: u32,
}

/// A query of a panel.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The query, with Grafana's variables in it. Queries of other sources have none.
    pub expr: Option<String>,
    /// What a series is called, with `{{label}}` for the value of a label.
    #[serde(default)]
    pub legend_format: String,
    /// Whether its series are not shown.
    #[serde(default)]
    pub hide: bool,
}

/// How values are shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FieldConfig {
    /// Of all series.
    #[serde(default)]
    pub defaults: FieldDefaults,
}

/// How all values of a panel are shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FieldDefaults {
    /// In what they are measured: a unit of Grafana.
    #[serde(default)]
    pub unit: String,
    /// The colours of values.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// The values from which on a colour is shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Thresholds {
    /// From the lowest to the highest.
    #[serde(default)]
    pub steps: Vec<Threshold>,
}

/// One step of [`Thresholds`].
#[derive(Debug, Clone, Deserialize)]
pub struct Threshold {
    /// A name of Grafana's: green, orange, red, blue.
    pub color: String,
    /// From this value on; from the lowest, if it is missing.
    pub value: Option<f64>,
}

/// A transformation of a table.
#[derive(Debug, Clone, Deserialize)]
pub struct Transformation {
    /// Its settings.
    #[serde(default)]
    pub options: TransformationOptions,
}

/// The settings of the transformation `organize`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransformationOptions {
    /// Columns, and whether they are hidden.
    #[serde(default)]
    pub exclude_by_name: BTreeMap<String, bool>,
    /// Other names of columns.
    #[serde(default)]
    pub rename_by_name: BTreeMap<String, String>,
}

/// A folder without dashboards, or a file that is none.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// It cannot be read.
    #[error("cannot read {path}: {reason}; name the folder of the dashboards by --dashboards", path = path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// It is no dashboard.
    #[error("{path} is no dashboard of Grafana: {reason}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The fault and its line.
        reason: serde_json::Error,
    },
    /// It has none.
    #[error("{} has no dashboard: no file there ends with .json; name their folder by --dashboards", .0.display())]
    Empty(PathBuf),
}

/// The values of Grafana's variables.
#[derive(Debug, Clone)]
pub struct Variables {
    /// A regular expression for the label `cluster`.
    pub cluster: String,
    /// A regular expression for the label `node`.
    pub node: String,
    /// How often Prometheus reads a node, in seconds.
    pub scrape_seconds: u64,
    /// How long a time is drawn, in seconds.
    pub range_seconds: u64,
}

impl Dashboard {
    /// All panels, those of collapsed rows behind the heading of their row.
    pub fn all_panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels
            .iter()
            .flat_map(|panel| std::iter::once(panel).chain(&panel.panels))
    }
}

impl Panel {
    /// The queries whose series are shown, each with the name of a series.
    pub fn queries(&self) -> impl Iterator<Item = (&str, &str)> {
        let shown = self.targets.iter().filter(|target| !target.hide);
        shown.filter_map(|target| Some((target.expr.as_deref()?, target.legend_format.as_str())))
    }
}

impl Variables {
    /// The query as Prometheus is asked it, at points that are so many seconds apart. As in Grafana a
    /// rate looks at four readings, and at all that are between two points.
    pub fn fill(&self, query: &str, step: f64) -> String {
        let scrape = self.scrape_seconds as f64;
        let rate = format!("{}s", (step + scrape).max(scrape * 4.0));
        let range = format!("{}s", self.range_seconds);
        // They stand in strings with double quotes.
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        query
            .replace("$__rate_interval", &rate)
            .replace("$__range", &range)
            .replace("$cluster", &quoted(&self.cluster))
            .replace("$node", &quoted(&self.node))
    }
}

/// The dashboards in a folder, in the order of their files' names.
pub fn read(folder: &Path) -> Result<Vec<Dashboard>, DashboardError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |reason| DashboardError::Unreadable { path, reason }
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(DashboardError::Empty(folder.to_owned()));
    }
    files.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).map_err(unreadable(&path))?;
        serde_json::from_slice(&text).map_err(|reason| DashboardError::Invalid { path, reason })
    };
    files.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests;
