//! Which clients on other hosts may read metrics.
//!
//! ```text
//!   metrics_tls           TLS with the node's certificate; the client has a monitor's
//!   metrics_token_file    TLS with the node's certificate; each request has the token
//!   neither               plain HTTP, on a loopback address alone
//! ```
//!
//! A node's own certificate is not a monitor's. Certificates and token are read again at SIGHUP; a
//! client that was admitted before finishes its request and has to connect again.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binomesh_overlay::quic::Identity;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::credentials::{Credentials, CredentialsError};
use crate::files;
use crate::settings::NodeConfig;
use crate::spiffe::monitor_form;

/// The application protocol that clients may offer.
const PROTOCOL: &[u8] = b"http/1.1";
/// The fewest characters of a token: 96 bits, if it is base64. A guess: a shorter token could be
/// found by trial.
const TOKEN_LEAST: usize = 16;
/// The most characters of a token.
const TOKEN_MOST: usize = 4096;

/// Why no client can be admitted by these settings. A metrics port is not opened then, and one
/// that is open already keeps its former rules.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The node's own certificate cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The token cannot be used.
    #[error("`metrics_token_file` ({file}): {problem}", file = .file.display())]
    Token {
        /// The token's file.
        file: PathBuf,
        /// The problem with the file, and its remedy.
        problem: TokenProblem,
    },
    /// These credentials do not allow TLS.
    #[error(
        "cannot serve metrics over TLS: {0}; issue the certificate again with `binomesh ca issue`"
    )]
    Tls(#[from] rustls::Error),
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenProblem {
    /// The file cannot be read.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Unreadable(#[from] io::Error),
    /// The mode of the file gives every user of the host some access.
    #[error(
        "has mode {0:04o}, so every user may read the token; write a new token, and chmod 640 the file"
    )]
    Shared(u32),
    /// The file holds no valid token.
    #[error(
        "holds {0}; write one line of {TOKEN_LEAST} to {TOKEN_MOST} letters, digits and signs, such as the output of `openssl rand -base64 24`"
    )]
    NoToken(&'static str),
}

/// The token that a client has to present, as its hash. Hashes are compared in constant time, so
/// timing reveals neither the token nor its length.
#[derive(Clone, PartialEq, Eq)]
struct Token(blake3::Hash);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    fn of(text: &[u8]) -> Self {
        Self(blake3::hash(text))
    }

    fn read(path: &Path) -> Result<Self, TokenProblem> {
        let file = files::open(path)?;
        let mode = file.metadata()?.mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(TokenProblem::Shared(mode));
        }
        let mut bytes = Vec::new();
        // The longest token and the end of its line.
        file.take(TOKEN_MOST as u64 + 3).read_to_end(&mut bytes)?;
        let token = bytes.trim_ascii();
        if token.is_empty() {
            return Err(TokenProblem::NoToken("nothing"));
        }
        if token.len() < TOKEN_LEAST {
            return Err(TokenProblem::NoToken("a token that is too short"));
        }
        if token.len() > TOKEN_MOST {
            return Err(TokenProblem::NoToken("too many characters"));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenProblem::NoToken("more than one word"));
        }
        Ok(Self::of(token))
    }
}

/// How clients of the metrics port are admitted.
#[derive(Clone)]
pub struct Admission {
    tls: TlsAcceptor,
    token: Option<Token>,
    /// Cancelled when newer rules are in force.
    outdated: CancellationToken,
}

impl Admission {
    /// The rules that the settings ask for; `None` if there is no metrics port, or one without TLS.
    /// Otherwise the credentials are read.
    pub fn load(config: &NodeConfig) -> Result<Option<Self>, AdmissionError> {
        match config.metrics.is_some() && config.has_guarded_metrics() {
            true => Self::of(config, &Credentials::load(config)?),
            false => Ok(None),
        }
    }

    /// As [`Admission::load`], with credentials that are already read. The token file is read here.
    pub fn of(
        config: &NodeConfig,
        credentials: &Credentials,
    ) -> Result<Option<Self>, AdmissionError> {
        if config.metrics.is_none() || !config.has_guarded_metrics() {
            return Ok(None);
        }
        let token = config.metrics_token_file.as_deref();
        let failed = |file: &Path, problem| AdmissionError::Token {
            file: file.to_owned(),
            problem,
        };
        let read = token.map(|file| Token::read(file).map_err(|problem| failed(file, problem)));
        Self::new(&credentials.identity, read.transpose()?).map(Some)
    }

    /// Admits clients by the token, or else by the certificates of monitors.
    fn new(identity: &Identity, token: Option<Token>) -> Result<Self, AdmissionError> {
        let monitors = monitor_form(&identity.subject().trust_domain);
        let clients = token.is_none().then_some(&*monitors);
        let tls = identity.server_config(clients, PROTOCOL)?;
        Ok(Self {
            tls: Arc::new(tls).into(),
            token,
            outdated: CancellationToken::new(),
        })
    }

    /// The acceptor that begins TLS.
    pub(super) const fn tls(&self) -> &TlsAcceptor {
        &self.tls
    }

    /// Cancelled when newer rules are in force.
    pub(super) const fn outdated(&self) -> &CancellationToken {
        &self.outdated
    }

    /// Whether a request with this header may be answered.
    pub(super) fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = authorization.and_then(|text| text.split_at_checked(7));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && Token::of(given.trim_ascii()) == *token
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Token, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Token::read(&path).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_token_is_one_long_word_in_a_file_that_not_everybody_reads() {
        let word = "0123456789abcdef";
        assert_eq!(
            read(&format!("{word}\n"), 0o640),
            Ok(Token::of(word.as_bytes()))
        );
        assert!(read(&"x".repeat(TOKEN_MOST), 0o600).is_ok());
        for (text, mode, wanted) in [
            (word, 0o644, "mode 0644"),
            ("", 0o600, "nothing"),
            ("\n", 0o600, "nothing"),
            ("0123456789abcde", 0o600, "too short"),
            ("01234567 9abcdef0", 0o600, "more than one word"),
            ("0123456789abcdef\nü", 0o600, "more than one word"),
            (&*"x".repeat(TOKEN_MOST + 1), 0o600, "too many characters"),
        ] {
            let error = read(text, mode).unwrap_err();
            assert!(
                error.contains(wanted) && error.contains("; "),
                "{text}: {error}"
            );
            assert!(text.trim().is_empty() || !error.contains(text), "{error}");
        }
        assert!(Token::read(Path::new("/nowhere")).is_err());
    }
}
