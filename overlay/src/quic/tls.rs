//! Mutual TLS: one verifier for both directions.
//!
//! The stock client verifier judges each chain (authority, validity, revocation), whichever side
//! presents it. The chain must then name exactly one SPIFFE URI. Host names are ignored: the
//! dialler compares identities. TLS 1.3 only, without resumption and 0-RTT, so that every
//! connection is judged from scratch.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::explanations;
use super::identity::{Identity, IdentityError, Subject};
use super::terms::may_be_of;

/// The application protocol; a handshake with another one fails.
pub(super) const ALPN: &[u8] = b"binomesh/1";
/// The name that diallers send as SNI: identities are compared, not names.
pub(super) const SERVER_NAME: &str = "binomesh";

/// The TLS side of both roles.
pub(super) struct TlsConfigs {
    pub(super) client: Arc<QuicClientConfig>,
    pub(super) server: Arc<QuicServerConfig>,
}

/// Build the configurations of both roles from a checked identity.
pub(super) fn configs(identity: &Identity) -> Result<TlsConfigs, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let form = &identity.subject.form;
    let verifier = Arc::new(PeerVerifier::new(identity, form, provider.clone())?);
    let versions = [&rustls::version::TLS13];

    let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    client.alpn_protocols = vec![ALPN.to_vec()];
    client.resumption = rustls::client::Resumption::disabled();
    client.enable_early_data = false;

    let server = server(identity, provider, verifier, ALPN)?;
    let no_suite = |_| Error::General("no initial cipher suite".to_owned());
    Ok(TlsConfigs {
        client: Arc::new(QuicClientConfig::try_from(client).map_err(no_suite)?),
        server: Arc::new(QuicServerConfig::try_from(server).map_err(no_suite)?),
    })
}

/// The configuration of a server with the node's certificate. Each connection is judged from
/// scratch.
fn server(
    identity: &Identity,
    provider: Arc<CryptoProvider>,
    clients: Arc<dyn ClientCertVerifier>,
    protocol: &[u8],
) -> Result<rustls::ServerConfig, Error> {
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    server.alpn_protocols = vec![protocol.to_vec()];
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    server.max_early_data_size = 0;
    Ok(server)
}

impl Identity {
    /// The TLS configuration of a server beside the links, such as one of metrics. `clients` is the
    /// prefix of the URIs that may connect. Clients are judged as peers are, by authority, validity
    /// and revocation list. Without `clients` any client may connect, without a certificate.
    pub fn server_config(
        &self,
        clients: Option<&str>,
        protocol: &[u8],
    ) -> Result<rustls::ServerConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ClientCertVerifier> = match clients {
            Some(form) => Arc::new(PeerVerifier::new(self, form, provider.clone())?),
            None => Arc::new(NoClientAuth),
        };
        server(self, provider, verifier, protocol)
    }
}

/// Judges chains outside a handshake, as the verifier does within.
#[derive(Debug)]
pub(super) struct Judge(PeerVerifier);

impl Judge {
    pub(super) fn new(identity: &Identity) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        PeerVerifier::new(identity, &identity.subject.form, provider).map(Self)
    }

    pub(super) fn judge(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let (leaf, rest) = chain
            .split_first()
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        self.0.judge(leaf, rest, UnixTime::now()).map(drop)
    }
}

/// Judge a node's own certificate as its peers will.
pub(super) fn check_own(identity: &Identity) -> Result<(), IdentityError> {
    let judged = Judge::new(identity).and_then(|judge| judge.judge(&identity.chain));
    judged.map_err(|error| IdentityError::NotAccepted {
        name: identity.subject.name.clone(),
        reason: in_words(&error),
    })
}

/// The one verifier of both directions.
#[derive(Debug)]
struct PeerVerifier {
    /// One verifier for each authority, with its own lists. Two authorities may have the same name
    /// while a cluster changes from one to the other, and a list of one must not count for the
    /// other.
    authorities: Vec<Arc<dyn ClientCertVerifier>>,
    /// The prefix of the URIs that are accepted: for links, that of the members.
    form: String,
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    fn new(identity: &Identity, form: &str, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        let algorithms = provider.signature_verification_algorithms;
        let mut authorities: Vec<Arc<dyn ClientCertVerifier>> = Vec::new();
        for root in &identity.roots {
            let mut roots = RootCertStore::empty();
            roots.add(root.clone())?;
            let lists = identity.revocations.iter();
            let lists = lists.filter(|list| may_be_of(list, root)).cloned();
            // An authority without a list is not a reason to refuse: clusters may believe several
            // authorities and revoke under one of them. A list whose next update is overdue is no
            // reason either. It goes on revoking its entries; to enforce its date would part the
            // whole cluster over a missed update.
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .with_crls(lists)
                    .allow_unknown_revocation_status()
                    .build()
                    .map_err(|error| Error::General(error.to_string()))?;
            authorities.push(verifier);
        }
        let hints = authorities.iter().flat_map(|one| one.root_hint_subjects());
        Ok(Self {
            form: form.to_owned(),
            hints: hints.cloned().collect(),
            authorities,
            algorithms,
        })
    }

    /// Accept a chain that one of the authorities accepts. Otherwise the error is that of the last
    /// authority that issued the chain or seems to have; without one, the issuer is unknown.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut refusal = Error::from(CertificateError::UnknownIssuer);
        for authority in &self.authorities {
            match authority
                .verify_client_cert(leaf, rest, now)
                .map_err(unknown_if_forged)
            {
                Ok(verified) => return Ok(verified),
                Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verify(leaf, rest, now)?;
        match Subject::of_certificate(leaf) {
            Ok(subject) if subject.form == self.form => Ok(verified),
            // An authority may serve several clusters, or issue for more than nodes.
            Ok(_) | Err(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }
}

/// Turn a bad signature of a certificate into an unknown authority. Authorities of different
/// clusters may have the same name, and a certificate of the wrong one fails the check of its
/// signature.
fn unknown_if_forged(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            CertificateError::UnknownIssuer.into()
        }
        other => other,
    }
}

/// The verifier's verdict in words for an operator.
pub(super) fn in_words(error: &Error) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer,
    };
    let label = match error {
        Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "expired",
        Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => "not_yet_valid",
        Error::InvalidCertificate(Revoked) => "revoked",
        Error::InvalidCertificate(UnknownIssuer) => "unknown_authority",
        other => return other.to_string(),
    };
    explanations::of(label).to_owned()
}

/// Two traits of rustls ask for the same three methods; this macro gives both the same ones.
macro_rules! signatures_judged_by_the_chain {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, cert, dss, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, dss, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, intermediates, now)
    }

    signatures_judged_by_the_chain!();
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates, now)
            .map(|_| ServerCertVerified::assertion())
    }

    signatures_judged_by_the_chain!();
}
