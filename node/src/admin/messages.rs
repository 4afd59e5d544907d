//! The requests of the admin API that send messages.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use binomesh_overlay::PeerId;
use binomesh_routing::PacketId;
use serde::Deserialize;

use super::{Body, Door, ErrorResponse, Parameters};
use crate::command::{Destination, Due, SendOptions};
use crate::node::PublishHandle;
use crate::topic::{self, Topic};

/// How long after its deadline a receipt is still awaited.
const LATE: Duration = Duration::from_secs(5);

/// The query of a request that sends a message.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendQuery {
    to: Option<String>,
    topic: Option<String>,
    strategy: Option<String>,
    timeout_ms: Option<u64>,
    until_ms: Option<u64>,
    confirm: Option<String>,
    #[serde(default)]
    ordered: bool,
}

impl SendQuery {
    fn options(&self) -> Result<SendOptions, ErrorResponse> {
        let topic = self.topic.as_deref();
        let topic = topic.map_or_else(|| Ok(Topic::default()), topic::target);
        let strategy = self.strategy.as_deref().unwrap_or("auto").parse();
        let confirmation = self.confirm.as_deref().unwrap_or("relayed").parse();
        let due = match (self.timeout_ms, self.until_ms) {
            (None, None) => Due::Settled,
            (Some(ms), None) => Due::Within(Duration::from_millis(ms)),
            (None, Some(ms)) => Due::Until(Duration::from_millis(ms)),
            (Some(_), Some(_)) => {
                return Err(bad(
                    "the parameters timeout_ms and until_ms exclude each other",
                    "give only one of the two",
                ));
            }
        };
        Ok(SendOptions {
            topic: topic.map_err(|error| bad(error, "choose another topic"))?,
            due,
            confirmation: confirmation
                .map_err(|error| bad(error, "give one of these confirmations as `confirm`"))?,
            strategy: strategy.map_err(|error| {
                bad(
                    error,
                    "give one of these strategies as \
                                                           `strategy`",
                )
            })?,
            is_ordered: self.ordered,
        })
    }
}

fn bad(error: impl ToString, remedy: &str) -> ErrorResponse {
    ErrorResponse::new(StatusCode::BAD_REQUEST, error, remedy)
}

/// The query of a request, and the send options that it asks for.
fn asked(query: Parameters<SendQuery>) -> Result<(SendQuery, SendOptions), ErrorResponse> {
    let Query(query) = query?;
    let options = query.options()?;
    Ok((query, options))
}

pub(super) async fn send(
    State(door): State<Door>,
    query: Parameters<SendQuery>,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let (query, options) = asked(query)?;
    if query.strategy.is_some() {
        let remedy = "leave out `strategy`, or use /v1/broadcast";
        return Err(bad(
            "a message to single members takes no parameter `strategy`",
            remedy,
        ));
    }
    let to = query.to.unwrap_or_default();
    let names = to.split(',').filter(|name| !name.is_empty());
    let to: Vec<Destination> = names
        .map(|name| name.parse().map_or_else(|_| name.into(), Destination::Id))
        .collect();
    let due = options.due;
    receipt(door.node.send(to, body?, options), due).await
}

pub(super) async fn broadcast(
    State(door): State<Door>,
    query: Parameters<SendQuery>,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let (query, options) = asked(query)?;
    if query.to.is_some() {
        let remedy = "leave out `to`, or use /v1/send";
        return Err(bad(
            "a broadcast goes to all members and takes no parameter `to`",
            remedy,
        ));
    }
    let due = options.due;
    receipt(door.node.publish(body?, options), due).await
}

async fn receipt(handle: PublishHandle, due: Due) -> Result<Response, ErrorResponse> {
    let outcome = match due.time() {
        None => handle.await,
        Some(time) => match tokio::time::timeout(time.saturating_add(LATE), handle).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let remedy = "the message may still arrive; read the log of the node";
                let late = "the node gave no receipt before the deadline";
                return Err(ErrorResponse::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    late,
                    remedy,
                ));
            }
        },
    };
    Ok(Json(outcome?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplyQuery {
    id: String,
}

/// Answer a message that asks for an answer.
pub(super) async fn reply(
    State(door): State<Door>,
    query: Parameters<ReplyQuery>,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let Query(query) = query?;
    let id: PacketId<PeerId> = query.id.parse().map_err(|error| {
        bad(
            error,
            "give the `id` of a delivered message whose `wants_reply` is \
                                     true",
        )
    })?;
    door.node.reply(id, body?).await?;
    Ok(Json(serde_json::json!({ "replied": query.id })).into_response())
}
