//! The gate of a metrics port with TLS: the handshake first, then the token if one is set. Refused
//! clients are counted by reason, and each reason is logged once until the rules are replaced.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustls::CertificateError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;

use super::ErrorResponse;
use super::admission::Admission;
use crate::catalogue;
use crate::recorder::{SharedRecorder, recording};

/// Admits clients by the rules in force.
pub(super) struct Gate {
    now: RwLock<Admission>,
    recorder: SharedRecorder,
    /// The reasons that were logged since the rules were last replaced.
    logged: Mutex<BTreeSet<&'static str>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub(super) const fn new(admission: Admission, recorder: SharedRecorder) -> Self {
        Self {
            now: RwLock::new(admission),
            recorder,
            logged: Mutex::new(BTreeSet::new()),
        }
    }

    pub(super) fn now(&self) -> Admission {
        let now = self.now.read();
        now.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replace the rules, and tell the connections that the former rules admitted to end.
    pub(super) fn renew(&self, admission: Admission) {
        let now = self.now.write();
        let mut now = now.unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *now, admission);
        drop(now);
        self.lock_logged().clear();
        former.outdated().cancel();
    }

    /// Do the TLS handshake with a client within `patience`; `None` if the client is refused.
    pub(super) async fn enter<T>(
        &self,
        io: T,
        from: Option<IpAddr>,
        admission: &Admission,
        patience: Duration,
    ) -> Option<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let accepted = tokio::time::timeout(patience, admission.tls().accept(io));
        match accepted.await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => self.refuse(refusal(&error), from),
            Err(_) => self.refuse("timed_out", from),
        }
        None
    }

    fn refuse(&self, reason: &'static str, from: Option<IpAddr>) {
        recording(Some(&self.recorder), || {
            catalogue::METRICS_REFUSED.with([reason]).increment(1);
        });
        if self.lock_logged().insert(reason) {
            let from = from.map(|ip| ip.to_string());
            let remedy = remedy(reason);
            tracing::warn!(
                reason,
                from,
                remedy,
                "a reader of metrics was refused; this line comes once per reason"
            );
        }
    }

    fn lock_logged(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Let a request pass if its token is right, or if no token is set. Any other is refused and
/// counted.
pub(super) async fn admitted(
    State(gate): State<Arc<Gate>>,
    request: Request,
    next: Next,
) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    if gate.now().admits(given.map(HeaderValue::as_bytes)) {
        return next.run(request).await;
    }
    gate.refuse("token", None);
    let error = "the token is missing or wrong";
    let response = ErrorResponse::new(StatusCode::UNAUTHORIZED, error, remedy("token"));
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (challenge, response).into_response()
}

/// Why a TLS handshake failed, as the label of the metric.
fn refusal(error: &io::Error) -> &'static str {
    use CertificateError::{
        ApplicationVerificationFailure, Expired, ExpiredContext, NotValidYet, NotValidYetContext,
        Revoked, UnknownIssuer,
    };
    let inner = error.get_ref();
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::NoCertificatesPresented) => "no_certificate",
        Some(rustls::Error::InvalidCertificate(problem)) => match problem {
            ApplicationVerificationFailure => "not_a_monitor",
            Expired | ExpiredContext { .. } => "expired",
            NotValidYet | NotValidYetContext { .. } => "not_yet_valid",
            Revoked => "revoked",
            UnknownIssuer => "unknown_authority",
            _ => "bad_certificate",
        },
        Some(_) => "tls",
        None => "broken",
    }
}

/// The operator's remedy for a refusal.
fn remedy(reason: &str) -> &'static str {
    match reason {
        "token" => {
            "send the header `Authorization: Bearer TOKEN` with the token in \
                    `metrics_token_file`"
        }
        "no_certificate" | "not_a_monitor" | "bad_certificate" => {
            "give the scraper a certificate that `binomesh ca issue --monitor NAME` has made"
        }
        "expired" | "revoked" => {
            "issue another certificate with `binomesh ca issue --monitor \
                                  NAME`"
        }
        "not_yet_valid" => "check the clocks of both hosts",
        "unknown_authority" => "issue the certificate by the authority in the node's `ca` file",
        "tls" => "scrape https:// with TLS 1.3, and give the scraper the cluster's ca.pem",
        _ => {
            "look for programs that connect and send nothing, and check the network between the \
              hosts"
        }
    }
}

#[cfg(all(test, feature = "ca"))]
mod tests;
