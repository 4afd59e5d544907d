use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::answer::{AnsweredDashboard, AnsweredPanel, Event, answer};
use super::page::page;
use super::prometheus::{Prometheus, QueryError, Series, Window};
use super::*;

fn shipped() -> Vec<Dashboard> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana/dashboards");
    read(&folder).expect("the dashboards are read")
}

fn variables() -> Variables {
    Variables {
        cluster: "blue".to_owned(),
        node: "node-[0-3]".to_owned(),
        scrape_seconds: 15,
        range_seconds: 600,
    }
}

#[test]
fn no_variable_of_grafana_is_left_in_the_shipped_queries() {
    let dashboards = shipped();
    assert_eq!(dashboards.len(), 3);
    let panels = dashboards.iter().flat_map(Dashboard::all_panels);
    let queries: Vec<&str> = panels
        .flat_map(Panel::queries)
        .map(|(query, _)| query)
        .collect();
    assert!(queries.len() > 50);
    for query in queries {
        let filled = variables().fill(query, 1.0);
        assert!(!filled.contains('$'), "{filled}");
    }
    let rate = variables().fill(
        "rate(x{node=~\"$node\"}[$__rate_interval]) + y[$__range]",
        3.0,
    );
    assert_eq!(rate, "rate(x{node=~\"node-[0-3]\"}[60s]) + y[600s]");
    // If points are more than four readings apart, no reading between two points is left out.
    assert_eq!(variables().fill("x[$__rate_interval]", 90.0), "x[105s]");
    let odd = Variables {
        node: "a\\.b\"".to_owned(),
        ..variables()
    };
    assert_eq!(
        odd.fill("x{node=~\"$node\"}", 1.0),
        "x{node=~\"a\\\\.b\\\"\"}"
    );
}

#[test]
fn the_shipped_panels_are_of_kinds_that_are_drawn() {
    let dashboards = shipped();
    for panel in dashboards.iter().flat_map(|one| &one.panels) {
        let kind = panel.kind.as_str();
        assert!(
            ["row", "stat", "timeseries", "table"].contains(&kind),
            "{kind}"
        );
    }
}

#[test]
fn a_folder_without_dashboards_and_a_file_that_is_none_are_errors_with_their_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = read(folder.path()).unwrap_err();
    assert!(matches!(&error, DashboardError::Empty(path) if path == folder.path()));
    let file = folder.path().join("broken.json");
    std::fs::write(&file, "{\"title\": 1}").expect("a file");
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("broken.json is no dashboard of Grafana"),
        "{error}"
    );
    let error = read(&file).unwrap_err().to_string();
    assert!(
        error.contains("cannot read") && error.contains("broken.json"),
        "{error}"
    );
}

/// Each panel of a dashboard with a series of the same two points.
fn answered(dashboard: &Dashboard, end: f64) -> AnsweredDashboard {
    let series = Series {
        labels: BTreeMap::from([("node".to_owned(), "<node-0>".to_owned())]),
        points: vec![(end - 2.0, 3.0), (end - 1.0, 4.0)],
    };
    let panels = dashboard.panels.iter().map(|panel| AnsweredPanel {
        panel: panel.clone(),
        series: match panel.title.as_str() {
            "Overlays" => Vec::new(),
            _ => vec![("<node-0>".to_owned(), series.clone())],
        },
    });
    AnsweredDashboard {
        title: dashboard.title.clone(),
        panels: panels.collect(),
        events: vec![Event {
            time: Some(end - 60.0),
            text: "BinomeshNodeDown node-3".to_owned(),
        }],
    }
}

#[test]
fn the_page_has_every_panel_and_refers_to_nothing_outside() {
    let dashboards = shipped();
    let window = variables().window(1_000_000.0);
    let all: Vec<_> = dashboards
        .iter()
        .map(|one| answered(one, window.end))
        .collect();
    let text = page(&all, &variables(), window, "http://prometheus").expect("a page");
    for panel in dashboards.iter().flat_map(|one| &one.panels) {
        let title = maud::html! { (panel.title) }.into_string();
        assert!(text.contains(&title), "{title}");
    }
    assert_eq!(text.matches("60 s ago: BinomeshNodeDown node-3").count(), 1);
    assert!(text.contains("1970-01-12 13:46:40 UTC"));
    assert!(text.contains("&lt;node-0&gt;") && !text.contains("<node-0>"));
    assert_eq!(text.matches("nothing of this kind").count(), 1);
    // A legend shows the current value. In a window that ends later there is none.
    let later = Window {
        end: window.end + 60.0,
        ..window
    };
    let ended = page(&all, &variables(), later, "http://prometheus").expect("a page");
    assert!(text.contains("&lt;node-0&gt;: 4") && !ended.contains("&lt;node-0&gt;: 4"));
    let outside = ["src=", "url(", "<script", "<link", "href=\"http"];
    assert!(outside.iter().all(|one| !text.contains(one)));
}

#[test]
fn a_window_ends_now_and_has_at_most_240_points() {
    for range_seconds in [15, 600, 3_600, 86_400, 31_536_000] {
        let variables = Variables {
            range_seconds,
            ..variables()
        };
        let window = variables.window(1_000_003.7);
        let points = (window.end - window.start) / window.step;
        assert!(points <= 240.0 && points.fract() == 0.0, "{points}");
        assert_eq!(window.end, 1_000_003.0);
    }
}

/// A server that answers every request with `answer`.
async fn server(answer: &'static str) -> Prometheus {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await;
            assert!(request.starts_with(b"POST /api/v1/query"), "{read:?}");
            let length = answer.len();
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
            stream.write_all(text.as_bytes()).await.expect("it is read");
        }
    });
    format!("http://{address}").parse().expect("an address")
}

#[tokio::test]
async fn answers_of_prometheus_are_shown_and_refusals_are_reported() {
    let dashboard = &shipped()[0];
    let window = variables().window(1_000_000.0);
    let ask = async |text| answer(dashboard, &server(text).await, &variables(), window).await;

    let good = r#"{"status": "success", "data": {"resultType": "vector",
        "result": [{"metric": {"node": "a", "alertname": "Down"}, "value": [5, "1.5"]}]}}"#;
    let answered = ask(good).await.expect("an answer");
    assert!(
        answered
            .panels
            .iter()
            .all(|one| one.is_answered() == one.asks())
    );
    assert_eq!(answered.events[0].text, "Down a");
    let scalar = r#"{"status": "success", "data": {"resultType": "scalar", "result": [5, "7"]}}"#;
    let answered = ask(scalar).await.expect("an answer");
    let first = answered
        .panels
        .iter()
        .find(|one| one.asks())
        .expect("a panel");
    assert_eq!(first.series[0].1.points, [(5.0, 7.0)]);

    let refusal = r#"{"status": "error", "errorType": "bad_data", "error": "parse error"}"#;
    let refused = ask(refusal).await.unwrap_err();
    assert!(matches!(&refused, QueryError::Refused { reason, .. } if reason == "parse error"));

    let garbled = ask("<html>").await.unwrap_err();
    assert!(matches!(garbled, QueryError::Garbled { .. }), "{garbled}");
    for other in [
        "{}",
        "404",
        r#"{"error": "no such path"}"#,
        r#"{"status": "success"}"#,
    ] {
        let error = ask(other).await.unwrap_err();
        assert!(
            matches!(error, QueryError::Garbled { .. }),
            "{other}: {error}"
        );
        let text = error.to_string();
        assert!(text.contains("status 200 OK at /api/v1/query, "), "{text}");
    }
}

#[test]
fn panels_of_collapsed_rows_are_drawn_and_hidden_or_foreign_queries_are_not_asked() {
    let text = r#"{"title": "one", "panels": [
        {"type": "row", "title": "More", "collapsed": true, "gridPos": {"w": 24}, "panels": [
            {"type": "stat", "description": null, "gridPos": {"w": 4}, "targets": [
                {"expr": "up", "hide": true}, {"rawSql": "select 1"}, {"expr": "down"}]}]},
        {"type": "text", "title": "Words", "gridPos": {"w": 24}}]}"#;
    let dashboard: Dashboard = serde_json::from_str(text).expect("a dashboard");
    let kinds: Vec<&str> = dashboard
        .all_panels()
        .map(|panel| panel.kind.as_str())
        .collect();
    assert_eq!(kinds, ["row", "stat", "text"]);
    let queries = dashboard.all_panels().flat_map(Panel::queries);
    assert_eq!(queries.collect::<Vec<_>>(), [("down", "")]);
    let window = variables().window(1_000_000.0);
    let drawn = page(
        &[answered(&dashboard, window.end)],
        &variables(),
        window,
        "x",
    );
    assert!(
        drawn
            .expect("a page")
            .contains("panels of type text are not drawn")
    );
}
