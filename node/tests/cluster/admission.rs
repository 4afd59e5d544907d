//! Who gets into a running cluster, and who does not.

use std::sync::Arc;

use binomesh::Seed;
use binomesh::certificate::{Authority, Issued, Validity};
use binomesh::client::Client;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::bed::{self, Lone, counter, eventually, formed, member, stop, verified};

const FAILURES: &str = "binomesh_transport_handshake_failures_total";

async fn refused(client: &Client, reason: &str) -> u64 {
    counter(client, FAILURES, &[&format!("reason=\"{reason}\"")]).await
}

/// Believes any server: what is tested is the server's own judgement.
#[derive(Debug)]
struct Gullible(Arc<CryptoProvider>);

impl ServerCertVerifier for Gullible {
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
        Ok(HandshakeSignatureValid::assertion())
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

/// Connect as a bare client with these papers, say Hello, and return what comes
/// back: a HelloAck, or the error by which the node turns the client away.
async fn knock(to: std::net::SocketAddr, papers: Option<&Issued>) -> Result<Vec<u8>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible(provider)));
    let mut tls = match papers {
        None => builder.with_no_client_auth(),
        Some(papers) => {
            let chain = CertificateDer::from_pem_slice(papers.certificate_pem.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(papers.key_pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    tls.alpn_protocols = vec![b"binomesh/1".to_vec()];
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let mut endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls)));
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let connecting = endpoint.connect(to, "binomesh").unwrap();
    let connection = connecting.await.map_err(|e| text(&e))?;
    let (mut say, mut hear) = connection.open_bi().await.map_err(|e| text(&e))?;
    say.write_all(&HELLO).await.map_err(|e| text(&e))?;
    let mut answer = [0; 1];
    hear.read_exact(&mut answer).await.map_err(|e| text(&e))?;
    Ok(answer.to_vec())
}

/// A well-formed Hello: version, length, and in postcard the variant, boot,
/// attempt, no ended dial, no addresses.
const HELLO: [u8; 8] = [1, 0, 5, 0, 1, 1, 0, 0];

#[tokio::test]
async fn only_certificates_of_the_cluster_that_hold_now_get_a_hello_ack() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(3)).await;
    let node = member(&cluster, "node-0");
    let client = node.client();
    let ours = cluster.authority();
    let authority = |domain| Authority::generate(domain, Validity::days(1)).unwrap();
    // The second has the name of the cluster's own.
    let [foreign, forger] = ["elsewhere.local", ours.trust_domain()].map(authority);
    let past = Validity {
        from: 1_000_000_000,
        until: 1_100_000_000,
    };
    let expired = ours.issue("raw", past).unwrap();
    let foreign = foreign.issue("raw", Validity::days(1)).unwrap();
    let forged = forger.issue("raw", Validity::days(1)).unwrap();
    let links = client.topology().await.unwrap().links;
    for (papers, reason) in [
        (Some(&foreign), "unknown_authority"),
        (Some(&forged), "bad_signature"),
        (Some(&expired), "expired"),
        (None, "no_certificate"),
    ] {
        assert_eq!(refused(&client, reason).await, 0);
        let knocked = tokio::time::timeout(bed::PATIENCE, knock(node.address, papers)).await;
        let answer = knocked.expect("an answer or an end in time");
        assert!(answer.is_err(), "{reason}: got {answer:?}");
        eventually(reason, async || {
            (refused(&client, reason).await == 1).then_some(())
        })
        .await;
    }
    assert_eq!(client.topology().await.unwrap().links, links);
    let (reports, _) = verified(&cluster).await;
    assert!(reports.iter().all(|report| report.population == Some(3)));
    // The same client with the right papers is answered, so the above means
    // something.
    let good = ours.issue("raw", Validity::days(1)).unwrap();
    assert_eq!(knock(node.address, Some(&good)).await, Ok(vec![1]));
    stop(cluster).await;
}

#[tokio::test]
async fn a_node_of_another_authority_stays_outside() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(3)).await;
    let epoch = verified(&cluster).await.0[0].epoch.clone();
    let parent = member(&cluster, "node-0");
    let dir = tempfile::tempdir().unwrap();
    let foreign =
        Authority::generate(cluster.authority().trust_domain(), Validity::days(1)).unwrap();
    let mut stranger = Lone::prepare(dir.path(), "node-3", &foreign);
    // It believes the cluster; the cluster does not believe it.
    let both = [
        foreign.certificate_pem(),
        cluster.authority().certificate_pem(),
    ];
    std::fs::write(&stranger.config.ca, both.concat()).unwrap();
    stranger.config.parent = Some(Seed {
        name: parent.name.clone(),
        address: parent.address,
    });
    stranger.start().await;
    eventually("it was refused again and again", async || {
        (refused(&parent.client(), "bad_signature").await >= 3).then_some(())
    })
    .await;
    let status = stranger.client().status().await.unwrap();
    assert!(!status.healthy && status.links == 0, "{status:?}");
    let warned = stranger.log();
    assert!(
        warned.contains("certificate refused: bad_signature"),
        "{warned}"
    );
    let (reports, found) = verified(&cluster).await;
    assert_eq!(found.nodes, 3);
    assert!(
        reports.iter().all(|report| report.epoch == epoch),
        "no new epoch"
    );
    assert_eq!(stranger.terminate().await, Some(0));
    stop(cluster).await;
}

#[tokio::test]
async fn who_expects_one_node_and_finds_another_says_so_and_tries_again() {
    let _alone = bed::alone().await;
    let cluster = formed(bed::config(3)).await;
    let epoch = verified(&cluster).await.0[0].epoch.clone();
    let found = member(&cluster, "node-1");
    let dir = tempfile::tempdir().unwrap();
    let mut lost = Lone::prepare(dir.path(), "node-3", cluster.authority());
    lost.config.parent = Some(Seed {
        name: "node-0".into(),
        address: found.address,
    });
    lost.start().await;
    let client = lost.client();
    eventually("it tried more than once", async || {
        (refused(&client, "wrong_peer").await >= 3).then_some(())
    })
    .await;
    let status = client.status().await.unwrap();
    assert!(!status.healthy && status.links == 0, "{status:?}");
    let log = lost.log();
    let word = format!("node-0@{}", found.address);
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    let clear = |line: &str| line.contains(&word) && line.contains("node-1");
    assert!(lines.any(clear), "{log}");
    let (reports, found) = verified(&cluster).await;
    assert_eq!(found.nodes, 3);
    assert!(
        reports.iter().all(|report| report.epoch == epoch),
        "no new epoch"
    );
    assert_eq!(lost.terminate().await, Some(0));
    stop(cluster).await;
}
