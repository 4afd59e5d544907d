//! Requests that push: the body is the file or stream, read as fast as the node can send it.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use serde::Deserialize;
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::{Door, ErrorResponse, Parameters};
use crate::push::{PushError, PushOptions, send};

/// How long the rest of a failed push is still read. A guess: a client reads the answer sooner.
/// With less, a slow client may lose the answer.
const RUN_OUT: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PushQuery {
    name: String,
    size_bytes: Option<u64>,
    #[serde(default)]
    replace: bool,
    strategy: Option<String>,
    patience_ms: Option<u64>,
}

pub(super) async fn push(
    State(door): State<Door>,
    query: Parameters<PushQuery>,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let Query(query) = query?;
    let mut options = PushOptions::new(query.name, query.size_bytes);
    options.replace = query.replace;
    if let Some(strategy) = query.strategy {
        options.strategy = strategy.parse().map_err(|error| {
            ErrorResponse::new(
                StatusCode::BAD_REQUEST,
                error,
                "give one of these strategies as `strategy`",
            )
        })?;
    }
    if let Some(ms) = query.patience_ms {
        options.patience = Duration::from_millis(ms);
    }
    let body = body.into_data_stream().map_err(io::Error::other);
    let mut source = StreamReader::new(body);
    match send(&door.node, &mut source, &options, |_| ()).await {
        Ok(report) => Ok(Json(report).into_response()),
        Err(error) => {
            tokio::spawn(let_run_out(source));
            Err(error.into())
        }
    }
}

/// Read on for a while: a client that still sends when the connection is closed may not get to read
/// the reason.
async fn let_run_out(mut source: impl AsyncRead + Unpin) {
    let mut nowhere = tokio::io::sink();
    // The result does not matter: no caller waits for it.
    let _ = tokio::time::timeout(RUN_OUT, tokio::io::copy(&mut source, &mut nowhere)).await;
}

impl From<PushError> for ErrorResponse {
    fn from(error: PushError) -> Self {
        let bad = |error: &dyn ToString, remedy| {
            Self::new(StatusCode::BAD_REQUEST, error.to_string(), remedy)
        };
        match error {
            PushError::Name(error) => bad(&error, "choose another name"),
            PushError::Read(_) => bad(
                &error,
                "push the file again when it is complete; write a file whose length changes into \
                 `binomesh push --name NAME -`",
            ),
            PushError::Send(error) => error.into(),
        }
    }
}
