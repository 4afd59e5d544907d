//! A client of the admin API, over a Unix socket or a loopback port.

mod collective;
mod events;
mod push;
mod session;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use binomesh_routing::packet::Confirmation;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::command::{Due, SendError, SendOptions};
use crate::report::{NodeReport, Receipt, Status};
use crate::settings::{NodeConfig, Strategy};
use crate::targets::TargetGroup;
pub use collective::{CollectiveAnswer, CollectiveRequest, MemberValue};
pub use events::{Events, SubscriptionEvent};
pub use session::Session;

/// The longest answer that is read; a longer one is an error. The values of the largest outcome of
/// a collective take this much in base64, with room for names.
const MAX_ANSWER: usize = 96 << 20;

/// The address of an admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port, which serves only metrics, health and scrape targets.
    Tcp(SocketAddr),
}

/// A text that names no admin API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address of an admin API; expected the path of a socket, unix:PATH, or http://ADDRESS:PORT"
)]
pub struct InvalidEndpoint(String);

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidEndpoint(text.to_owned());
        if let Some(rest) = text.strip_prefix("http://") {
            let address = rest.trim_end_matches('/').parse().map_err(|_| invalid())?;
            return Ok(Self::Tcp(address));
        }
        let path = text.strip_prefix("unix:").unwrap_or(text);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.contains("://") {
            return Err(invalid());
        }
        Ok(Self::Unix(path.into()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The node does not answer.
    #[error("cannot reach the node at {endpoint}: {reason}; see that the node runs")]
    Unreachable {
        /// The address of the API.
        endpoint: Endpoint,
        /// The reason, in words.
        reason: String,
    },
    /// The node refused the request.
    #[error("{error}; {remedy}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error that the node gave.
        error: String,
        /// The remedy that the node proposed.
        remedy: String,
    },
    /// The node's answer is malformed.
    #[error(
        "the answer of {endpoint} is malformed: {problem}; use the same release for the command and the node"
    )]
    Garbled {
        /// The address of the API.
        endpoint: Endpoint,
        /// The problem with the answer.
        problem: String,
    },
}

impl ClientError {
    /// Whether the node answered that a receipt, or the outcome of a collective operation, did not
    /// come in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Refused { status: 504, .. })
    }

    /// Whether no connection to the node was possible, or the connection broke or fell silent.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// A client. Each request uses a connection of its own; a [`Session`] keeps one.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
}

impl Client {
    /// A client of the API at `endpoint`.
    pub const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// The node's name, place and health.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.json(Method::GET, "/v1/status", Bytes::new()).await
    }

    /// The node's own tables.
    pub async fn topology(&self) -> Result<NodeReport, ClientError> {
        self.json(Method::GET, "/v1/topology", Bytes::new()).await
    }

    /// The addresses at which the metrics of the cluster's nodes can be scraped.
    pub async fn targets(&self) -> Result<Vec<TargetGroup>, ClientError> {
        self.json(Method::GET, "/v1/targets", Bytes::new()).await
    }

    /// Send a message to all members.
    pub async fn broadcast(
        &self,
        topic: &str,
        payload: impl Into<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<Receipt, ClientError> {
        let query = query(&[
            ("topic", Some(topic)),
            ("timeout_ms", ms(timeout).as_deref()),
        ]);
        let path = format!("/v1/broadcast{query}");
        self.json(Method::POST, &path, payload.into()).await
    }

    /// As [`Client::broadcast`], with all options.
    pub async fn broadcast_with(
        &self,
        payload: impl Into<Bytes>,
        options: &SendOptions,
    ) -> Result<Receipt, ClientError> {
        // The default strategy is left out of the query.
        let strategy = options.strategy;
        let strategy = (strategy != Strategy::Auto).then(|| strategy.to_string());
        let path = posting("broadcast", &[("strategy", strategy.as_deref())], options);
        self.json(Method::POST, &path, payload.into()).await
    }

    /// Send a message to the members with these names.
    pub async fn send(
        &self,
        to: &[String],
        topic: &str,
        payload: impl Into<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<Receipt, ClientError> {
        let to = to.join(",");
        let query = query(&[
            ("to", Some(&to)),
            ("topic", Some(topic)),
            ("timeout_ms", ms(timeout).as_deref()),
        ]);
        let path = format!("/v1/send{query}");
        self.json(Method::POST, &path, payload.into()).await
    }

    /// As [`Client::send`], with all options; `strategy` is not used.
    pub async fn send_with(
        &self,
        to: &[String],
        payload: impl Into<Bytes>,
        options: &SendOptions,
    ) -> Result<Receipt, ClientError> {
        let path = posting("send", &[("to", Some(&to.join(",")))], options);
        self.json(Method::POST, &path, payload.into()).await
    }

    /// Answer a delivery whose origin waits for an answer ([`crate::Delivery::wants_reply`]).
    pub async fn reply(&self, id: &str, answer: impl Into<Bytes>) -> Result<(), ClientError> {
        let path = format!("/v1/reply{}", query(&[("id", Some(id))]));
        let answer: serde_json::Value = self.json(Method::POST, &path, answer.into()).await?;
        tracing::debug!(%answer, "replied");
        Ok(())
    }

    /// Have the node leave its overlay and stop.
    pub async fn leave(&self, drain: Option<Duration>) -> Result<(), ClientError> {
        let path = format!("/v1/leave{}", query(&[("drain_ms", ms(drain).as_deref())]));
        let answer: serde_json::Value = self.json(Method::POST, &path, Bytes::new()).await?;
        tracing::debug!(%answer, "left");
        Ok(())
    }

    /// The deliveries that match a topic filter. When this returns, the node has
    /// confirmed the subscription.
    pub async fn subscribe(&self, filter: &str) -> Result<Events, ClientError> {
        self.subscribe_by(&[("topic", Some(filter))]).await
    }

    /// As [`Client::subscribe`], with the length and BLAKE3 hash of each payload instead of the
    /// payload.
    pub async fn subscribe_to_digests(&self, filter: &str) -> Result<Events, ClientError> {
        self.subscribe_by(&[("topic", Some(filter)), ("payload", Some("false"))])
            .await
    }

    /// As [`Client::subscribe`], in order: see
    /// [`Node::subscribe_ordered`](crate::Node::subscribe_ordered). A message waits at most `hold`
    /// for earlier ones, or the node's default time.
    pub async fn subscribe_ordered(
        &self,
        filter: &str,
        hold: Option<Duration>,
    ) -> Result<Events, ClientError> {
        let hold = ms(hold);
        self.subscribe_by(&[
            ("topic", Some(filter)),
            ("ordered", Some("true")),
            ("hold_ms", hold.as_deref()),
        ])
        .await
    }

    async fn subscribe_by(&self, pairs: &[(&str, Option<&str>)]) -> Result<Events, ClientError> {
        let path = format!("/v1/messages{}", query(pairs));
        let response = self.request(Method::GET, &path, Bytes::new()).await?;
        let mut events = Events::new(self.endpoint.clone(), response.into_body());
        match events.next_raw().await {
            Some(Ok((name, _))) if name == "subscribed" => Ok(events),
            Some(Err(error)) => Err(error),
            Some(Ok((name, _))) => Err(self.garbled(format!(
                "the first event is `{name}`, expected `subscribed`"
            ))),
            None => Err(self.garbled("the stream of events is empty".to_owned())),
        }
    }

    /// The text at a path, such as `/metrics`.
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let body = self.body(Method::GET, path, Bytes::new()).await?;
        String::from_utf8(body.into()).map_err(|error| self.garbled(error.to_string()))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        payload: Bytes,
    ) -> Result<T, ClientError> {
        let body = self.body(method, path, payload).await?;
        serde_json::from_slice(&body).map_err(|error| self.garbled(error.to_string()))
    }

    async fn body(&self, method: Method, path: &str, payload: Bytes) -> Result<Bytes, ClientError> {
        let response = self.request(method, path, payload).await?;
        self.collect(response).await
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let collected = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await;
        let body = collected.map_err(|error| self.garbled(error.to_string()))?;
        Ok(body.to_bytes())
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        payload: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let (size_bytes, max_bytes) = (payload.len(), NodeConfig::MAX_PAYLOAD_BYTES);
        if size_bytes > max_bytes {
            // The node would close the connection while the payload is still being written.
            let error = SendError::TooLarge {
                size_bytes,
                max_bytes,
            };
            return Err(ClientError::Refused {
                status: 413,
                error: error.to_string(),
                remedy: error.remedy().to_owned(),
            });
        }
        let mut connection = self.connect().await?;
        let payload = Either::Left(Full::new(payload));
        self.exchange(&mut connection, method, path, payload).await
    }

    /// The response, unless it is a refusal.
    async fn granted(
        &self,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, ClientError> {
        if response.status().is_success() {
            return Ok(response);
        }
        #[derive(Deserialize)]
        struct ErrorBody {
            error: String,
            remedy: String,
        }
        let status = response.status();
        let body = self.collect(response).await?;
        let ErrorBody { error, remedy } =
            serde_json::from_slice(&body).unwrap_or_else(|_| ErrorBody {
                error: format!("the node answered {status}"),
                remedy: "read the log of the node".to_owned(),
            });
        let status = status.as_u16();
        Err(ClientError::Refused {
            status,
            error,
            remedy,
        })
    }

    fn unreachable(&self, reason: String) -> ClientError {
        let endpoint = self.endpoint.clone();
        ClientError::Unreachable { endpoint, reason }
    }

    fn garbled(&self, problem: String) -> ClientError {
        let endpoint = self.endpoint.clone();
        ClientError::Garbled { endpoint, problem }
    }
}

fn ms(duration: Option<Duration>) -> Option<String> {
    duration.map(|duration| duration.as_millis().to_string())
}

/// The path of a request that sends a message.
fn posting(what: &str, more: &[(&str, Option<&str>)], options: &SendOptions) -> String {
    let (timeout, until) = match options.due {
        Due::Settled => (None, None),
        Due::Within(time) | Due::Soon(time) => (Some(time), None),
        Due::Until(time) => (None, Some(time)),
    };
    let confirm = options.confirmation;
    let confirm = (confirm != Confirmation::Relayed).then(|| confirm.name());
    let (timeout, until) = (ms(timeout), ms(until));
    let mut pairs = vec![
        ("topic", Some(options.topic.as_str())),
        ("timeout_ms", timeout.as_deref()),
        ("until_ms", until.as_deref()),
        ("confirm", confirm),
        ("ordered", options.is_ordered.then_some("true")),
    ];
    pairs.extend_from_slice(more);
    format!("/v1/{what}{}", query(&pairs))
}

fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let pairs = pairs.iter();
    let given: Vec<_> = pairs
        .filter_map(|(key, value)| Some((key, (*value)?)))
        .collect();
    if given.is_empty() {
        return String::new();
    }
    let mut text = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    text.extend_pairs(given).finish()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn endpoints_are_paths_or_loopback_urls() {
        for (text, expected) in [
            ("/run/b.sock", Some(Endpoint::Unix("/run/b.sock".into()))),
            ("unix:b.sock", Some(Endpoint::Unix("b.sock".into()))),
            ("unix:///run/b", Some(Endpoint::Unix("/run/b".into()))),
            (
                "http://127.0.0.1:80/",
                Some(Endpoint::Tcp(([127, 0, 0, 1], 80).into())),
            ),
            ("https://x", None),
            ("http://nowhere", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn queries_are_escaped() {
        let text = query(&[("a", Some("x #/ü")), ("b", None), ("c", Some("1"))]);
        assert_eq!(text, "?a=x+%23%2F%C3%BC&c=1");
    }

    /// A node that answers the next request with `bytes`.
    async fn answering(bytes: Vec<u8>) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The client would ignore an answer that comes before its request.
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(&bytes).await;
        });
        Client::new(Endpoint::Tcp(address))
    }

    #[tokio::test]
    async fn an_answer_above_the_bound_is_not_taken() {
        for (more, taken) in [(0, true), (1, false)] {
            let length = MAX_ANSWER + more;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let mut bytes = head.into_bytes();
            bytes.resize(bytes.len() + length, b'x');
            let answer = answering(bytes).await.text("/").await;
            assert_eq!(answer.is_ok(), taken);
            let garbled = matches!(answer, Err(ClientError::Garbled { .. }));
            assert_eq!(garbled, !taken);
        }
    }
}
