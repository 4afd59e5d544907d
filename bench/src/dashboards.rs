//! Grafana's dashboards without Grafana: their queries, asked of a Prometheus and drawn.
//!
//! A dashboard is read from the file that Grafana reads. Of its panels, only `stat`, `timeseries`
//! and `table` are drawn. Its variables are replaced by the values that were chosen for them.

pub mod answer;
pub mod page;
pub mod prometheus;
pub mod rendering;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A dashboard: the parts of it that are drawn.
#[derive(Debug, Clone, Deserialize)]
pub struct Dashboard {
    /// The name of the dashboard.
    pub title: String,
    /// The panels from top to bottom, rows among them.
    pub panels: Vec<Panel>,
    /// Events that are marked in all its charts.
    #[serde(default)]
    pub annotations: Annotations,
}

/// Events that are marked in all charts of a dashboard.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Annotations {
    /// The queries for events.
    #[serde(default)]
    pub list: Vec<Annotation>,
}

/// A query whose series are events.
#[derive(Debug, Clone, Deserialize)]
pub struct Annotation {
    /// The query. `None` if it is for another source than Prometheus.
    #[serde(default)]
    pub expr: Option<String>,
}

/// A chart, a number, a table, or the heading of a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Panel {
    /// The kind of the panel.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the panel.
    #[serde(default)]
    pub title: String,
    /// The text that explains the panel.
    pub description: Option<String>,
    /// The width of the panel.
    pub grid_pos: GridPos,
    /// The panels of a collapsed row.
    #[serde(default)]
    pub panels: Vec<Panel>,
    /// The queries of the panel.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// The unit and the colours in which values are shown.
    #[serde(default)]
    pub field_config: FieldConfig,
    /// How a table is arranged.
    #[serde(default)]
    pub transformations: Vec<Transformation>,
}

/// The place of a panel on its page.
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
    /// The name of a series, with `{{label}}` for the value of a label.
    #[serde(default)]
    pub legend_format: String,
    /// Whether its series are not shown.
    #[serde(default)]
    pub hide: bool,
}

/// The unit and the colours in which values are shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FieldConfig {
    /// The settings for all series.
    #[serde(default)]
    pub defaults: FieldDefaults,
}

/// How all values of a panel are shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FieldDefaults {
    /// The unit of the values, a unit of Grafana.
    #[serde(default)]
    pub unit: String,
    /// The thresholds for the colours of values.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// The thresholds of a panel: from each on, values have another colour.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Thresholds {
    /// The thresholds, from the lowest to the highest.
    #[serde(default)]
    pub steps: Vec<Threshold>,
}

/// One step of [`Thresholds`].
#[derive(Debug, Clone, Deserialize)]
pub struct Threshold {
    /// The colour, by Grafana's name, such as green or red.
    pub color: String,
    /// The value from which on the colour is shown. `None`: from the lowest value on.
    pub value: Option<f64>,
}

/// A transformation of a table.
#[derive(Debug, Clone, Deserialize)]
pub struct Transformation {
    /// The settings of the transformation.
    #[serde(default)]
    pub options: TransformationOptions,
}

/// The settings of the transformation `organize`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransformationOptions {
    /// The names of columns, each with whether it is hidden.
    #[serde(default)]
    pub exclude_by_name: BTreeMap<String, bool>,
    /// The new names of columns.
    #[serde(default)]
    pub rename_by_name: BTreeMap<String, String>,
}

/// Why dashboards could not be read from a folder.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {reason}; give the folder of the dashboards with --dashboards", path = path.display())]
    Unreadable {
        /// The file or folder that was read.
        path: PathBuf,
        /// The reason of the operating system.
        reason: std::io::Error,
    },
    /// A file is no dashboard.
    #[error("{path} is no dashboard of Grafana: {reason}", path = path.display())]
    Invalid {
        /// The file that was read.
        path: PathBuf,
        /// The fault and its line.
        reason: serde_json::Error,
    },
    /// The folder has no dashboard.
    #[error("the folder {} has no dashboard, since no file in it ends with .json; give another folder with --dashboards", .0.display())]
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
    /// The queries whose series are shown, each with the format of their names.
    pub fn queries(&self) -> impl Iterator<Item = (&str, &str)> {
        let shown = self.targets.iter().filter(|target| !target.hide);
        shown.filter_map(|target| Some((target.expr.as_deref()?, target.legend_format.as_str())))
    }
}

impl Variables {
    /// The query that is sent to Prometheus, for points `step` seconds apart. As in Grafana, a rate
    /// looks at four readings, or at all readings between two points if these are more.
    pub fn fill(&self, query: &str, step: f64) -> String {
        let scrape = self.scrape_seconds as f64;
        let rate = format!("{}s", (step + scrape).max(scrape * 4.0));
        let range = format!("{}s", self.range_seconds);
        // The values stand in strings with double quotes.
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
