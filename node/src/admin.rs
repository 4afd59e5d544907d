//! The admin API: HTTP on a Unix socket that only its owner may use. A port serves `/metrics`,
//! `/healthz`, `/readyz` and `/v1/targets` as well: on the loopback, or over TLS to admitted
//! clients.
//!
//! Every error is `{"error": …, "remedy": …}`.

mod admission;
pub(crate) mod collectives;
mod error;
mod gate;
mod messages;
mod port;
mod pushes;
mod server;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::metrics::Counter;
pub use admission::{Admission, AdmissionError, TokenProblem};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use binomesh_overlay::quic::FairPermits;
use binomesh_overlay::quic::registry::Metric;
use collectives::{collective, collectives};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::catalogue;
use crate::exporter::Exporter;
use crate::node::Node;
use crate::recorder::recording;
use crate::report::{Delivery, GapView, Status};
use crate::settings::{InvalidSetting, NodeConfig};
use crate::socket::{SocketError, SocketFile};
use crate::subscription::{Hold, Received, Subscribers, Subscription};
use crate::topic::TopicFilter;
use error::ErrorResponse;
use gate::{Gate, admitted};
use messages::{broadcast, reply, send};
pub use port::MetricsPort;
use pushes::push;
use server::{Origin, Server};

/// The most connections at once, for the socket and the port each: see [`server`]. A guess: twice
/// the most subscribers of a node. If there were only as many connections as subscribers,
/// subscriptions would leave no room for other requests.
const CONNECTIONS: usize = 2 * Subscribers::MAX;
/// The time that open requests get to finish once the node has stopped.
const FINISH: Duration = Duration::from_secs(1);

/// Why the admin API or its metrics port was not opened. A node that runs already runs on.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A setting is not valid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// No client could be admitted to the metrics port.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The metrics port cannot be bound.
    #[error(
        "cannot bind the metrics port {address}: {source}; choose another address for `metrics`"
    )]
    Metrics {
        /// The configured address.
        address: SocketAddr,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// An admin API that is being served.
#[derive(Debug)]
pub struct Admin {
    socket: Option<SocketFile>,
    metrics: Option<SocketAddr>,
    gate: Option<Arc<Gate>>,
    stop: CancellationToken,
    servers: Vec<JoinHandle<()>>,
    upkeep: JoinHandle<()>,
}

impl Admin {
    /// Serve `node` at the admin socket of `config`, if it names one, and its metrics at `port`.
    pub async fn serve(
        node: Node,
        exporter: Exporter,
        config: &NodeConfig,
        port: Option<MetricsPort>,
    ) -> Result<Self, AdminError> {
        let stop = CancellationToken::new();
        let mut servers = Vec::new();
        let door = Door { node, exporter };
        let mut socket = None;
        if let Some(path) = &config.admin_socket {
            let (file, listener) = SocketFile::bind(path).await?;
            servers.push(door.serve(listener, full(door.clone()), None, &stop));
            socket = Some(file);
        }
        let metrics = port.as_ref().map(|port| port.address);
        let mut gate = None;
        if let Some(port) = port {
            let recorder = door.exporter.recorder();
            let admission = port.admission;
            gate = admission.map(|admission| Arc::new(Gate::new(admission, recorder)));
            let mut router = public(door.clone());
            if let Some(gate) = &gate {
                router = router.layer(from_fn_with_state(gate.clone(), admitted));
            }
            servers.push(door.serve(port.listener, router, gate.clone(), &stop));
        }
        let upkeep = tokio::spawn(door.exporter.upkeep());
        Ok(Self {
            socket,
            metrics,
            gate,
            stop,
            servers,
            upkeep,
        })
    }

    /// The bound metrics address.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The URL of the metrics at the bound address. An unspecified address, such as 0.0.0.0, stays
    /// in it.
    pub fn metrics_url(&self) -> Option<String> {
        let scheme = if self.gate.is_some() { "https" } else { "http" };
        let address = self.metrics?;
        Some(format!("{scheme}://{address}/metrics"))
    }

    /// Admit clients of the metrics port by these rules from now on. Connections that the former
    /// rules admitted end after their current request. `None` changes nothing, and a port without
    /// TLS has no rules.
    pub fn renew(&self, admission: Option<Admission>) {
        if let (Some(gate), Some(admission)) = (&self.gate, admission) {
            gate.renew(admission);
        }
    }

    /// Let open requests finish, briefly, and remove the socket.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for server in &mut self.servers {
            if tokio::time::timeout(FINISH, &mut *server).await.is_err() {
                server.abort();
            }
        }
        drop(self.socket.take());
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.upkeep.abort();
        for server in &self.servers {
            server.abort();
        }
    }
}

#[derive(Clone)]
struct Door {
    node: Node,
    exporter: Exporter,
}

impl Door {
    fn serve<L>(
        &self,
        listener: L,
        router: Router,
        gate: Option<Arc<Gate>>,
        stop: &CancellationToken,
    ) -> JoinHandle<()>
    where
        L: Listener,
        L::Addr: Origin,
    {
        let recorder = self.exporter.recorder();
        let counted =
            |counter: &'static Metric<Counter, 0>| recording(Some(&recorder), || counter.get());
        let server = Server {
            listener,
            router,
            permits: FairPermits::new(CONNECTIONS),
            waits: counted(&catalogue::ADMIN_WAITS),
            crowded_out: counted(&catalogue::ADMIN_CROWDED_OUT),
            gate,
        };
        tokio::spawn(server.run(stop.clone()))
    }
}

/// The routes of the metrics port, for other users of the host and for clients that the gate
/// admits.
fn public(door: Door) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/targets", get(targets))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(door)
}

/// How many bytes of a payload are read beyond the greatest `max_payload_bytes`, so that the node
/// itself refuses the payload and the error tells the payload's length.
const BEYOND: usize = 1 << 20;

/// The longest pause in a payload before its request fails. A push has a patience of its own.
const PAYLOAD_IDLE: Duration = Duration::from_secs(5);

/// Fail a request whose payload stops coming: otherwise it would keep its connection for ever.
async fn flowing(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let parts = stream::try_unfold(body.into_data_stream(), async |mut parts| {
        let part = tokio::time::timeout(PAYLOAD_IDLE, parts.next()).await;
        let part = part.map_err(|_| axum::Error::new(PayloadStopped))?;
        Ok::<_, axum::Error>(part.transpose()?.map(|part| (part, parts)))
    });
    next.run(Request::from_parts(
        head,
        axum::body::Body::from_stream(parts),
    ))
    .await
}

/// The rest of a payload did not come.
#[derive(Debug, thiserror::Error)]
#[error("no byte of the payload arrived for {} s", PAYLOAD_IDLE.as_secs())]
struct PayloadStopped;

fn full(door: Door) -> Router {
    // The node itself refuses a payload that is too long for it, and tells the limit.
    let limit = DefaultBodyLimit::max(NodeConfig::MAX_PAYLOAD_BYTES + BEYOND);
    let payloads = Router::new()
        .route("/v1/send", post(send))
        .route("/v1/broadcast", post(broadcast))
        .route("/v1/reply", post(reply))
        .route("/v1/collective", post(collective))
        .layer(limit)
        .layer(from_fn(flowing));
    Router::new()
        .merge(payloads)
        .route("/v1/status", get(status))
        .route("/v1/topology", get(topology))
        .route("/v1/collectives", get(collectives))
        .route("/v1/push", post(push))
        .route("/v1/messages", get(messages))
        .route("/v1/leave", post(leave))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/targets", get(targets))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(door)
}

type Parameters<T> = Result<Query<T>, QueryRejection>;
type Body = Result<Bytes, BytesRejection>;

async fn not_found() -> ErrorResponse {
    let remedy = "use a path that is served: on the Unix socket /v1/status, topology, targets, \
                  send, broadcast, reply, push, messages, collective, collectives, leave; on the \
                  metrics port /metrics, /healthz, /readyz, /v1/targets";
    ErrorResponse::new(StatusCode::NOT_FOUND, "this path does not exist", remedy)
}

async fn wrong_method() -> ErrorResponse {
    let remedy = "use POST for send, broadcast, reply, push, leave and collective, and GET for \
                  all other paths";
    ErrorResponse::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not take the method of the request",
        remedy,
    )
}

async fn status(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    let report = door.node.report().await?;
    Ok(Json(Status::from(&report)).into_response())
}

async fn topology(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    Ok(Json(door.node.report().await?).into_response())
}

async fn targets(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    Ok(Json(door.node.targets().await?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessagesQuery {
    topic: Option<String>,
    #[serde(default)]
    ordered: bool,
    hold_ms: Option<u64>,
    /// `false`: messages come without their payloads, but with length and BLAKE3 hash of them.
    payload: Option<bool>,
}

async fn messages(
    State(door): State<Door>,
    query: Parameters<MessagesQuery>,
) -> Result<Response, ErrorResponse> {
    let Query(query) = query?;
    let bad = |error| {
        ErrorResponse::new(
            StatusCode::BAD_REQUEST,
            error,
            "choose another topic filter",
        )
    };
    let filter = query.topic.as_deref().map(str::parse::<TopicFilter>);
    let filter = filter.unwrap_or(Ok(TopicFilter::all())).map_err(bad)?;
    let mut hold = Hold::default();
    if let Some(ms) = query.hold_ms {
        hold.time = Duration::from_millis(ms);
    }
    let subscription = match (query.ordered, query.hold_ms) {
        (true, _) => door.node.subscribe_ordered(filter, hold).await?,
        (false, None) => door.node.subscribe(filter).await?,
        (false, Some(_)) => {
            let error = "hold_ms has no effect without ordered=true";
            let remedy = "give ordered=true, or leave out hold_ms";
            return Err(ErrorResponse::new(StatusCode::BAD_REQUEST, error, remedy));
        }
    };
    let has_payload = query.payload.unwrap_or(true);
    let events = deliveries(subscription, has_payload);
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    Ok(events.into_response())
}

/// The events of a subscription until the node stops: `subscribed` first, then a `message` for each
/// delivery, a `missed` for messages that were left out, and a `gap` for messages that are missing
/// in order.
fn deliveries(
    subscription: Subscription,
    has_payload: bool,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let first = Event::default().event("subscribed").data("{}");
    let rest = stream::unfold(
        (subscription, has_payload),
        async |(mut subscription, has_payload)| {
            let event = match subscription.next().await? {
                Received::Message(message) => {
                    let data = Delivery::of(&message, has_payload);
                    let data = serde_json::to_string(&data).unwrap_or_default();
                    Event::default().event("message").data(data)
                }
                Received::Missed(count) => {
                    let data = format!("{{\"count\":{count}}}");
                    Event::default().event("missed").data(data)
                }
                Received::Gap(gap) => {
                    let data = serde_json::to_string(&GapView::from(&gap)).unwrap_or_default();
                    Event::default().event("gap").data(data)
                }
            };
            Some((Ok(event), (subscription, has_payload)))
        },
    );
    StreamExt::chain(stream::once(async { Ok(first) }), rest)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaveQuery {
    drain_ms: Option<u64>,
}

async fn leave(
    State(door): State<Door>,
    query: Parameters<LeaveQuery>,
) -> Result<Response, ErrorResponse> {
    let Query(query) = query?;
    // The same as the default of `drain_seconds`.
    let drain = Duration::from_millis(query.drain_ms.unwrap_or(10_000));
    door.node.leave(drain).await?;
    Ok(Json(serde_json::json!({ "left": door.node.name() })).into_response())
}

async fn healthz(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    door.node.report().await?;
    Ok("ok\n".into_response())
}

async fn readyz(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    let report = door.node.report().await?;
    if report.ready {
        return Ok("ready\n".into_response());
    }
    let reason = report
        .reason
        .unwrap_or_else(|| "the node has not settled yet".to_owned());
    let remedy = "wait, or look at `binomesh topology` for missing entries and at the addresses \
                  of the contacts";
    Err(ErrorResponse::new(
        StatusCode::SERVICE_UNAVAILABLE,
        reason,
        remedy,
    ))
}

async fn metrics(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    let scrape = door.node.scrape().await?;
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((kind, door.exporter.render(&scrape)).into_response())
}

#[cfg(all(test, feature = "ca", feature = "client"))]
mod tests;
