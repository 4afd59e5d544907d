//! The answers to the queries of dashboards.

use std::collections::BTreeMap;

use super::prometheus::{Prometheus, QueryError, Series, Window};
use super::{Dashboard, Panel, Variables};

/// How many points a curve has at most.
const POINTS: f64 = 240.0;

/// A dashboard with its answers.
#[derive(Debug, Clone)]
pub struct AnsweredDashboard {
    /// Its name.
    pub title: String,
    /// Its panels, in order.
    pub panels: Vec<AnsweredPanel>,
    /// What its annotations mark, from the oldest to the newest.
    pub events: Vec<Event>,
}

/// A panel with its answers.
#[derive(Debug, Clone)]
pub struct AnsweredPanel {
    /// The panel.
    pub panel: Panel,
    /// The series of all its queries, each with the name in the legend.
    pub series: Vec<(String, Series)>,
}

/// The beginning of something that an annotation marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, in seconds since 1970.
    pub time: f64,
    /// The alert, and the node if it is of one.
    pub text: String,
}

impl AnsweredPanel {
    /// Whether a query of it was answered with a series.
    pub fn is_answered(&self) -> bool {
        !self.series.is_empty()
    }

    /// Whether it asks anything; the heading of a row does not.
    pub fn asks(&self) -> bool {
        !self.panel.targets.is_empty()
    }
}

impl Variables {
    /// The time that is drawn when it ends here.
    pub fn window(&self, end: f64) -> Window {
        let range = self.range_seconds as f64;
        let step = (range / POINTS).ceil().max(1.0);
        // At whole steps, so that a page drawn again has the same points.
        let end = (end / step).floor() * step;
        Window {
            start: end - range,
            end,
            step,
        }
    }
}

/// Ask the queries of a dashboard, one after another.
pub async fn answer(
    dashboard: &Dashboard,
    prometheus: &Prometheus,
    variables: &Variables,
    window: Window,
) -> Result<AnsweredDashboard, QueryError> {
    let mut panels = Vec::new();
    for panel in &dashboard.panels {
        let mut series: Vec<(String, Series)> = Vec::new();
        for target in &panel.targets {
            let query = variables.fill(&target.expr);
            let answer = match panel.kind.as_str() {
                "timeseries" => prometheus.over(&query, window).await?,
                _ => prometheus.at(&query, window.end).await?,
            };
            let named = answer.into_iter();
            series.extend(named.map(|one| (name_of(&target.legend_format, &one.labels), one)));
        }
        // A query may sort the rows of a table.
        if panel.kind != "table" {
            series.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        // What a legend names is what is seen: the largest first.
        if panel.kind == "timeseries" {
            series.sort_by(|(_, a), (_, b)| b.largest().total_cmp(&a.largest()));
        }
        panels.push(AnsweredPanel {
            panel: panel.clone(),
            series,
        });
    }
    let mut events = Vec::new();
    for query in dashboard
        .annotations
        .list
        .iter()
        .filter_map(|one| one.expr.as_ref())
    {
        let answer = prometheus.over(&variables.fill(query), window).await?;
        events.extend(answer.iter().flat_map(|series| begun(series, window.step)));
    }
    events.sort_by(|a, b| a.time.total_cmp(&b.time));
    Ok(AnsweredDashboard {
        title: dashboard.title.clone(),
        panels,
        events,
    })
}

/// What a series is called. Without a format it is called by its labels.
fn name_of(format: &str, labels: &BTreeMap<String, String>) -> String {
    if format.is_empty() {
        let shown = labels
            .iter()
            .filter(|(name, _)| name.as_str() != "__name__");
        let shown: Vec<String> = shown
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        return shown.join(", ");
    }
    let mut parts = format.split("{{");
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once("}}").unwrap_or((part, ""));
        name.push_str(labels.get(label.trim()).map_or("", String::as_str));
        name.push_str(rest);
    }
    name
}

/// The times at which a series begins, again and again.
fn begun(series: &Series, step: f64) -> Vec<Event> {
    let label = |name: &str| series.labels.get(name).cloned().unwrap_or_default();
    let text = format!("{} {}", label("alertname"), label("node"));
    let mut last = f64::NEG_INFINITY;
    let mut events = Vec::new();
    for (time, _) in &series.points {
        if time - last > step * 1.5 {
            events.push(Event {
                time: *time,
                text: text.trim_end().to_owned(),
            });
        }
        last = *time;
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs.iter();
        owned
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_legend_has_the_values_of_labels() {
        let labels = labels(&[("__name__", "up"), ("node", "a"), ("peer", "b")]);
        assert_eq!(name_of("{{node}} → {{peer}}{{none}}!", &labels), "a → b!");
        assert_eq!(name_of("", &labels), "node=a, peer=b");
        assert_eq!(name_of("{{node", &labels), "a");
    }

    #[test]
    fn an_event_is_told_where_a_series_begins_after_a_gap() {
        let series = Series {
            labels: labels(&[("alertname", "Down"), ("node", "a")]),
            points: vec![(10.0, 1.0), (11.0, 1.0), (14.0, 1.0)],
        };
        let event = |time| Event {
            time,
            text: "Down a".to_owned(),
        };
        assert_eq!(begun(&series, 1.0), [event(10.0), event(14.0)]);
    }
}
