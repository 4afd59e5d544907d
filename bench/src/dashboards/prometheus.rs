//! Queries of a Prometheus server.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// A Prometheus server without TLS.
#[derive(Debug, Clone)]
pub struct Prometheus {
    host: String,
    port: u16,
    path: String,
}

/// A text that is no address of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a Prometheus; expected http://HOST:PORT, without TLS")]
pub struct InvalidAddress(String);

impl FromStr for Prometheus {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidAddress(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        // An address with a name and a password is refused, as these would not be sent.
        if authority.as_str().contains('@') {
            return Err(invalid());
        }
        // A port above 65535 is no port.
        let port = match authority.port_u16() {
            None if authority.as_str().len() == authority.host().len() => 80,
            port => port.ok_or_else(invalid)?,
        };
        match (uri.scheme_str(), authority.host(), uri.query()) {
            (Some("http"), host, None) if !host.is_empty() => Ok(Self {
                host: host.to_owned(),
                port,
                path: uri.path().trim_end_matches('/').to_owned(),
            }),
            _ => Err(invalid()),
        }
    }
}

impl std::fmt::Display for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

impl Window {
    /// Whether a time is in this window.
    pub fn holds(&self, time: f64) -> bool {
        (self.start..=self.end).contains(&time)
    }
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No server answers at this address.
    #[error(
        "cannot reach Prometheus at {address}: {reason}; start Prometheus there, or give another address with --prometheus"
    )]
    Unreachable {
        /// The address that was tried.
        address: String,
        /// The error of the connection, or that no answer came in time.
        reason: String,
    },
    /// The answer is not one of a Prometheus.
    #[error(
        "the answer of {address} is not one of Prometheus: {reason}; give the address of Prometheus with --prometheus"
    )]
    Garbled {
        /// The address that answered.
        address: String,
        /// The fault in the answer.
        reason: String,
    },
    /// Prometheus refused the query.
    #[error(
        "Prometheus refuses the query {query}: {reason}; correct the regular expressions of --cluster and --node, which are part of the query"
    )]
    Refused {
        /// The query that was sent.
        query: String,
        /// The reason that Prometheus gave.
        reason: String,
    },
}

/// A series of an answer: its labels, and values with their times in seconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The labels of the series, with its name as `__name__`.
    pub labels: BTreeMap<String, String>,
    /// The points of the series, from the oldest to the newest. A value may be infinite or NaN.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The newest value. NaN if there is no point.
    pub fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |(_, value)| *value)
    }

    /// The largest finite number among the values. −∞ if there is none.
    pub fn largest(&self) -> f64 {
        let values = self.points.iter().map(|(_, value)| *value);
        let numbers = values.filter(|value| value.is_finite());
        numbers.fold(f64::NEG_INFINITY, f64::max)
    }
}

/// The time that is asked for, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The start of the window.
    pub start: f64,
    /// The end of the window.
    pub end: f64,
    /// The time between two points, in seconds.
    pub step: f64,
}

#[derive(Deserialize)]
struct Answer {
    status: Status,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Success,
    Error,
}

#[derive(Deserialize)]
struct Data {
    result: Rows,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rows {
    Series(Vec<Row>),
    Scalar((f64, String)),
}

impl Rows {
    fn into_series(self) -> Vec<Series> {
        match self {
            Self::Series(rows) => rows.into_iter().map(Series::from).collect(),
            Self::Scalar(value) => vec![Series::from(Row {
                metric: BTreeMap::new(),
                value: Some(value),
                values: Vec::new(),
            })],
        }
    }
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

impl From<Row> for Series {
    fn from(row: Row) -> Self {
        let points = row.value.into_iter().chain(row.values);
        // Prometheus writes NaN, +Inf and -Inf, which all parse.
        let points = points.filter_map(|(time, value)| Some((time, value.parse().ok()?)));
        Self {
            labels: row.metric,
            points: points.collect(),
        }
    }
}

impl Prometheus {
    /// The answer to a query at one time.
    pub async fn at(&self, query: &str, time: f64) -> Result<Vec<Series>, QueryError> {
        let time = time.to_string();
        self.ask("query", &[("query", query), ("time", &time)])
            .await
    }

    /// The answer to a query over a window of time.
    pub async fn over(&self, query: &str, window: Window) -> Result<Vec<Series>, QueryError> {
        let [start, end, step] = [window.start, window.end, window.step].map(|n| n.to_string());
        let fields = [
            ("query", query),
            ("start", &start),
            ("end", &end),
            ("step", &step),
        ];
        self.ask("query_range", &fields).await
    }

    async fn ask(&self, what: &str, fields: &[(&str, &str)]) -> Result<Vec<Series>, QueryError> {
        let address = self.to_string();
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let (status, text) = match tokio::time::timeout(TIMEOUT, self.post(what, body)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(reason)) => return Err(QueryError::Unreachable { address, reason }),
            Err(_) => {
                let reason = format!("no answer within {} s", TIMEOUT.as_secs());
                return Err(QueryError::Unreachable { address, reason });
            }
        };
        let reason = match serde_json::from_slice(&text) {
            Ok(Answer {
                status: Status::Success,
                data: Some(data),
                ..
            }) => return Ok(data.result.into_series()),
            Ok(Answer {
                status: Status::Error,
                error: Some(reason),
                ..
            }) => {
                let query = fields.first().map_or("", |(_, query)| *query).to_owned();
                return Err(QueryError::Refused { query, reason });
            }
            Ok(_) => "the answer has neither data nor an error".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(QueryError::Garbled {
            reason: format!("status {status} at {}/api/v1/{what}, {reason}", self.path),
            address,
        })
    }

    /// The status and the body of an answer. Refusals have a body, too.
    async fn post(&self, what: &str, body: String) -> Result<(StatusCode, Bytes), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await;
        let stream = TokioIo::new(stream.map_err(|error| text(&error))?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(|error| text(&error))?;
        let request = hyper::Request::post(format!("{}/api/v1/{what}", self.path))
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| text(&error))?;
        let answered = async {
            let response = sender.send_request(request).await;
            let response = response.map_err(|error| text(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER);
            let body = body.collect().await.map_err(|error| error.to_string())?;
            Ok((status, body.to_bytes()))
        };
        tokio::select! {
            biased;
            answer = answered => answer,
            Err(error) = connection => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_and_without_tls() {
        let prometheus: Prometheus = "http://[::1]:9090/prom/".parse().expect("an address");
        assert_eq!(
            (&*prometheus.host, prometheus.port, &*prometheus.path),
            ("[::1]", 9090, "/prom")
        );
        let plain: Prometheus = "http://host".parse().expect("an address");
        assert_eq!(plain.to_string(), "http://host:80");
        for other in [
            "",
            "127.0.0.1:9090",
            "https://host:1",
            "http://host:1/?q=2",
            "http://:1",
            "http://host:99999",
            "http://host:x",
            "http://someone@host:1",
        ] {
            let refused = other.parse::<Prometheus>();
            assert_eq!(refused.unwrap_err(), InvalidAddress(other.to_owned()));
        }
    }

    #[test]
    fn a_series_has_its_values_with_their_times() {
        let row = r#"{"metric": {"node": "a"}, "values": [[1, "0.5"], [2.5, "NaN"], [3, "+Inf"]]}"#;
        let series = Series::from(serde_json::from_str::<Row>(row).expect("a row"));
        assert_eq!(series.labels["node"], "a");
        assert_eq!(series.points[0], (1.0, 0.5));
        assert!(series.points[1].1.is_nan());
        assert_eq!(series.points[2], (3.0, f64::INFINITY));
    }
}
