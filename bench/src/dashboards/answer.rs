//! The answers to the queries of dashboards.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::prometheus::{Prometheus, QueryError, Series, Window};
use super::{Dashboard, Panel, Variables};

/// The most steps of a curve from point to point.
const POINTS: f64 = 240.0;
/// The most steps from point to point of an alert. Prometheus refuses more than 11,000 points.
const EVENT_POINTS: f64 = 10_000.0;

/// A dashboard with its answers.
#[derive(Debug, Clone)]
pub struct AnsweredDashboard {
    /// The name of the dashboard.
    pub title: String,
    /// The panels of the dashboard, in order.
    pub panels: Vec<AnsweredPanel>,
    /// The events that its annotations mark, from the oldest to the newest.
    pub events: Vec<Event>,
}

/// A panel with its answers.
#[derive(Debug, Clone)]
pub struct AnsweredPanel {
    /// The panel that was answered.
    pub panel: Panel,
    /// The series of all its queries, each with its name in the legend.
    pub series: Vec<(String, Series)>,
}

/// The beginning of an event that an annotation marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When the event began, in seconds since 1970; none if the window already begins with it.
    pub time: Option<f64>,
    /// The alert, its node if it concerns one, and the cluster.
    pub text: String,
}

impl AnsweredPanel {
    /// Whether one of its queries was answered with a series.
    pub fn is_answered(&self) -> bool {
        !self.series.is_empty()
    }

    /// Whether the panel has a query. The heading of a row has none.
    pub fn asks(&self) -> bool {
        self.panel.queries().next().is_some()
    }
}

impl Variables {
    /// The window of time that ends at `end`, rounded down to a whole second. The last point of the
    /// window is at its end.
    pub fn window(&self, end: f64) -> Window {
        let range = self.range_seconds as f64;
        let step = (range / POINTS).ceil().max(1.0);
        let end = end.floor();
        Window {
            start: end - (range / step).floor() * step,
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
    for panel in dashboard.all_panels() {
        let mut series: Vec<(String, Series)> = Vec::new();
        for (query, legend) in panel.queries() {
            let query = variables.fill(query, window.step);
            let answer = match panel.kind.as_str() {
                "timeseries" => prometheus.over(&query, window).await?,
                _ => prometheus.at(&query, window.end).await?,
            };
            let named = answer.into_iter();
            series.extend(named.map(|one| (name_of(legend, &one.labels), one)));
        }
        // A query may sort the rows of a table.
        if panel.kind != "table" {
            series.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        // A legend names only some series, so the largest come first.
        if panel.kind == "timeseries" {
            series.sort_by(|(_, a), (_, b)| b.largest().total_cmp(&a.largest()));
        }
        panels.push(AnsweredPanel {
            panel: panel.clone(),
            series,
        });
    }
    let mut events = Vec::new();
    let finer = Window {
        step: ((window.end - window.start) / EVENT_POINTS).ceil().max(1.0),
        ..window
    };
    let annotations = dashboard.annotations.list.iter();
    for query in annotations.filter_map(|one| one.expr.as_ref()) {
        let query = variables.fill(query, finer.step);
        let answer = prometheus.over(&query, finer).await?;
        events.extend(answer.iter().flat_map(|series| begun(series, finer)));
    }
    events.sort_by(|a, b| a.time.partial_cmp(&b.time).unwrap_or(Ordering::Equal));
    Ok(AnsweredDashboard {
        title: dashboard.title.clone(),
        panels,
        events,
    })
}

/// The name of a series. Without a format it is made of the labels.
fn name_of(format: &str, labels: &BTreeMap<String, String>) -> String {
    if format.is_empty() || format == "__auto" {
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

/// The times at which a series begins, also after gaps.
fn begun(series: &Series, window: Window) -> Vec<Event> {
    let label = |name: &str| series.labels.get(name).map_or("", String::as_str);
    let parts = [label("alertname"), label("node"), label("cluster")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut last = f64::NEG_INFINITY;
    let mut events = Vec::new();
    for (time, _) in &series.points {
        if time - last > window.step * 1.5 {
            let is_older = *time < window.start + window.step;
            events.push(Event {
                time: (!is_older).then_some(*time),
                text: parts.join(" "),
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
            labels: labels(&[("alertname", "Down"), ("node", "a"), ("cluster", "blue")]),
            points: vec![(10.0, 1.0), (11.0, 1.0), (14.0, 1.0)],
        };
        let window = |start| Window {
            start,
            end: 20.0,
            step: 1.0,
        };
        let event = |time| Event {
            time,
            text: "Down a blue".to_owned(),
        };
        let told = begun(&series, window(5.0));
        assert_eq!(told, [event(Some(10.0)), event(Some(14.0))]);
        let told = begun(&series, window(10.0));
        assert_eq!(told, [event(None), event(Some(14.0))]);
    }
}
