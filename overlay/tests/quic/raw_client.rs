//! A raw QUIC client that trusts every server and need not follow the protocol, so that the tests
//! see the server's own judgement. The tests of the node use this client too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// Long enough for a loaded machine; a server that neither answers nor closes
/// for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate and its key.
pub(crate) type Papers = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A client that is connected and has not greeted yet.
pub(crate) struct Raw {
    // Kept because it drives the connection, and to move the client to another port.
    endpoint: Endpoint,
    pub(crate) connection: Connection,
}

impl Raw {
    /// Connect, with a certificate or none. TLS 1.3 lets this succeed before the
    /// server has judged the certificate.
    pub(crate) async fn connect(
        papers: Option<Papers>,
        to: SocketAddr,
    ) -> Result<Self, ConnectionError> {
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self::connect_from(endpoint.expect("a socket"), papers, to).await
    }

    /// Connects from this endpoint. All connections of an endpoint have one address.
    pub(crate) async fn connect_from(
        endpoint: Endpoint,
        papers: Option<Papers>,
        to: SocketAddr,
    ) -> Result<Self, ConnectionError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(BelieveAll(provider)));
        let mut tls = match papers {
            Some((certificate, key)) => builder
                .with_client_auth_cert(vec![certificate], key)
                .expect("a key"),
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"binomesh/1".to_vec()];
        let config = QuicClientConfig::try_from(tls).expect("a QUIC configuration");
        let config = quinn::ClientConfig::new(Arc::new(config));
        let connecting = endpoint.connect_with(config, to, "binomesh");
        let connection = connecting.expect("an address").await?;
        Ok(Self {
            endpoint,
            connection,
        })
    }

    /// Go on from another port.
    pub(crate) fn move_elsewhere(&self) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        self.endpoint.rebind(socket).expect("moved");
    }

    /// Greets with these bytes. Returns the bytes of the answer, or the reason why there is none.
    pub(crate) async fn greet(&self, hello: &[u8]) -> Result<Vec<u8>, ConnectionError> {
        let (mut say, mut hear) = self.connection.open_bi().await?;
        let mut answer = vec![0; 4096];
        let greeted = async {
            say.write_all(hello).await.ok()?;
            hear.read(&mut answer).await.ok().flatten()
        };
        let greeted = tokio::time::timeout(PATIENCE, greeted).await;
        match greeted.expect("an answer or an end in time") {
            Some(length) => {
                answer.truncate(length);
                // The stream must outlive the greeting.
                std::mem::forget((say, hear));
                Ok(answer)
            }
            None => Err(self.connection.closed().await),
        }
    }
}

/// Connects with these papers and greets. Returns the bytes of the answer, or the error by which
/// the connection ended.
pub(crate) async fn knock(
    papers: Option<Papers>,
    to: SocketAddr,
) -> Result<Vec<u8>, ConnectionError> {
    Raw::connect(papers, to).await?.greet(&hello(1)).await
}

/// The version of greetings.
pub(crate) const GREETING: u8 = 5;

/// A well-formed Hello: version, length, and in postcard the variant, boot,
/// attempt, no ended dial, none given up, no addresses, no other connections, no member, no
/// statement, no metrics.
pub(crate) fn hello(boot: u8) -> [u8; 13] {
    [GREETING, 0, 10, 0, boot, 1, 0, 0, 0, 0, 0, 0, 0]
}

#[derive(Debug)]
struct BelieveAll(Arc<CryptoProvider>);

impl ServerCertVerifier for BelieveAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
