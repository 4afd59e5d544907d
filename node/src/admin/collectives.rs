//! The requests of the admin API that call collective operations.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use std::collections::BTreeMap;

use super::{Body, Door, ErrorResponse, Parameters};
use crate::collective::{Action, Collective, CollectiveError, Contribution, OnLoss};
use crate::command::Destination;
use crate::settings::Inventory;

/// How long after its deadline an outcome is still awaited.
const LATE: Duration = Duration::from_secs(5);

/// The query of a request for a collective operation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectiveQuery {
    verb: String,
    name: String,
    #[serde(default)]
    generation: u64,
    members: Option<String>,
    root: Option<String>,
    op: Option<String>,
    on_loss: Option<String>,
    timeout_ms: Option<u64>,
}

fn bad(error: impl ToString, remedy: &str) -> ErrorResponse {
    ErrorResponse::new(StatusCode::BAD_REQUEST, error, remedy)
}

impl CollectiveQuery {
    fn root(&self) -> Result<Destination, ErrorResponse> {
        let none = || {
            bad(
                format!("{} needs a member as its root", self.verb),
                "give `root=NAME`",
            )
        };
        self.root.as_deref().map(Destination::from).ok_or_else(none)
    }

    fn action(&self) -> Result<Action, ErrorResponse> {
        let op = || {
            let op = self.op.as_deref().unwrap_or("sum:u64").parse();
            op.map_err(|error| bad(error, "give one of these operations as `op`"))
        };
        let action = match self.verb.as_str() {
            "barrier" => Action::Barrier,
            "agree" => Action::Agree,
            "all-gather" => Action::AllGather,
            "gather" => Action::Gather(self.root()?),
            "scatter" => Action::Scatter(self.root()?),
            "reduce" => Action::Reduce(self.root()?, op()?),
            "all-reduce" => Action::AllReduce(op()?),
            "all-to-all" => Action::AllToAll,
            other => {
                let remedy = "choose barrier, agree, gather, all-gather, scatter, reduce, all-reduce or all-to-all";
                return Err(bad(format!("{other:?} is no collective operation"), remedy));
            }
        };
        let takes_root = matches!(
            action,
            Action::Gather(_) | Action::Scatter(_) | Action::Reduce(..)
        );
        let takes_op = matches!(action, Action::Reduce(..) | Action::AllReduce(_));
        for (is_given, is_taken, what) in [
            (self.root.is_some(), takes_root, "root"),
            (self.op.is_some(), takes_op, "op"),
        ] {
            if is_given && !is_taken {
                return Err(bad(
                    format!("{} takes no parameter `{what}`", self.verb),
                    "leave out the parameter",
                ));
            }
        }
        Ok(action)
    }

    fn members(&self) -> Result<Option<Vec<Destination>>, ErrorResponse> {
        let Some(text) = &self.members else {
            return Ok(None);
        };
        let list: Inventory = text
            .parse()
            .map_err(|error| bad(error, "give names such as c[001-128] as `members`"))?;
        Ok(Some(list.names().map(Destination::from).collect()))
    }
}

/// Parse what happens if members are lost: `survivors`, `survivors:K`, `abort` or `wait`.
pub(crate) fn on_loss(text: &str) -> Result<OnLoss, String> {
    match text.split_once(':').unwrap_or((text, "1")) {
        ("survivors", count) => match count.parse() {
            Ok(at_least) => Ok(OnLoss::Survivors { at_least }),
            Err(_) => Err(format!(
                "{count:?} is no number of survivors; expected survivors:K, \
                                   such as survivors:3"
            )),
        },
        ("abort", "1") if text == "abort" => Ok(OnLoss::Abort),
        ("wait", "1") if text == "wait" => Ok(OnLoss::Wait),
        _ => Err(format!(
            "{text:?} is no action for lost members; expected survivors, survivors:K, abort or \
             wait"
        )),
    }
}

/// Parse a JSON object that maps the name of each receiver to its part in base64. An empty body has
/// no parts.
fn parts(body: &Bytes) -> Result<Vec<(Destination, Bytes)>, ErrorResponse> {
    let remedy = "send an empty body, or a JSON object that maps the name of each receiver to its part in \
         base64";
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let parts: BTreeMap<String, String> =
        serde_json::from_slice(body).map_err(|error| bad(error, remedy))?;
    let parts = parts.into_iter().map(|(name, part)| {
        let part = STANDARD.decode(&part);
        let part = part.map_err(|error| {
            bad(
                format!("the part for {name} is not base64: {error}"),
                remedy,
            )
        })?;
        Ok((Destination::from(name), part.into()))
    });
    parts.collect()
}

/// Call a collective operation and wait for its outcome.
pub(super) async fn collective(
    State(door): State<Door>,
    query: Parameters<CollectiveQuery>,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let Query(query) = query?;
    let (action, members, body) = (query.action()?, query.members()?, body?);
    let given = match action {
        Action::Scatter(_) | Action::AllToAll => Contribution::Parts(parts(&body)?),
        _ => Contribution::Bytes(body),
    };
    let loss = query
        .on_loss
        .as_deref()
        .map_or(Ok(OnLoss::default()), on_loss);
    let loss = loss.map_err(|error| bad(error, "give one of these actions as `on_loss`"))?;
    let time = query
        .timeout_ms
        .map_or(Collective::DEFAULT_TIME, Duration::from_millis);
    let mut call = door
        .node
        .collective(&query.name)
        .generation(query.generation)
        .deadline(time)
        .on_loss(loss);
    if let Some(members) = members {
        call = call.among(members);
    }
    match tokio::time::timeout(time.saturating_add(LATE), call.call(action, given)).await {
        Ok(outcome) => Ok(Json(outcome?).into_response()),
        Err(_) => {
            let remedy = "read the log of the node";
            let late = "the node gave no outcome before the deadline";
            Err(ErrorResponse::new(
                StatusCode::GATEWAY_TIMEOUT,
                late,
                remedy,
            ))
        }
    }
}

/// The operations that the node knows.
pub(super) async fn collectives(State(door): State<Door>) -> Result<Response, ErrorResponse> {
    Ok(Json(door.node.collectives().await?).into_response())
}

impl From<CollectiveError> for ErrorResponse {
    fn from(error: CollectiveError) -> Self {
        use binomesh_routing::collective::CallError;
        let status = match &error {
            CollectiveError::Name(_) | CollectiveError::NoMember(_) => StatusCode::BAD_REQUEST,
            CollectiveError::Call(call) => match call {
                CallError::Terms(_) | CallError::NotAMember => StatusCode::BAD_REQUEST,
                CallError::Differs(_) | CallError::TooOld(_) => StatusCode::CONFLICT,
                CallError::TooManyNames | CallError::Busy => StatusCode::TOO_MANY_REQUESTS,
                CallError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            },
            CollectiveError::Reduce(_) => StatusCode::UNPROCESSABLE_ENTITY,
            CollectiveError::NotReady | CollectiveError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        };
        let remedy = error.remedy();
        Self::new(status, error, remedy)
    }
}
