//! Errors, as the API tells them.

use axum::Json;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::command::SendError;
use crate::node::{Stopped, SubscribeError};

/// The response to a request that is refused or fails.
#[derive(Debug, Serialize)]
pub(super) struct ErrorResponse {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    remedy: String,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, error: impl ToString, remedy: &str) -> Self {
        Self {
            status,
            error: error.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        (self.status, Json(&self)).into_response()
    }
}

impl From<Stopped> for ErrorResponse {
    fn from(stopped: Stopped) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            stopped,
            "start the node again",
        )
    }
}

impl From<SendError> for ErrorResponse {
    fn from(error: SendError) -> Self {
        let status = match &error {
            SendError::NotReady | SendError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            SendError::NoDestination | SendError::NoTime | SendError::ReservedTopic(_) => {
                StatusCode::BAD_REQUEST
            }
            SendError::UnknownPeers(_) => StatusCode::NOT_FOUND,
            SendError::RosterTooLarge => StatusCode::UNPROCESSABLE_ENTITY,
            SendError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            SendError::Busy | SendError::KeptFull => StatusCode::TOO_MANY_REQUESTS,
            SendError::NotSigned => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, &error, error.remedy())
    }
}

impl From<SubscribeError> for ErrorResponse {
    fn from(error: SubscribeError) -> Self {
        let remedy = "close other subscriptions, or start the node again if it has stopped";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, remedy)
    }
}

impl From<QueryRejection> for ErrorResponse {
    fn from(rejection: QueryRejection) -> Self {
        let remedy = "correct the parameter that this error names";
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text(), remedy)
    }
}

impl From<BytesRejection> for ErrorResponse {
    fn from(rejection: BytesRejection) -> Self {
        let remedy = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "send a smaller payload, or raise `max_payload_bytes`",
            _ => "send the whole payload again",
        };
        Self::new(rejection.status(), rejection.body_text(), remedy)
    }
}
