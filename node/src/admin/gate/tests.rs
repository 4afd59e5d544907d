//! Tests of the gate in front of a real server, over TCP or pipes, with clients of several kinds.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::serve::Listener;
use binomesh_overlay::quic::FairPermits;
use metrics::Counter;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;
use tokio_util::sync::CancellationToken;

use super::super::admission::Admission;
use super::super::server::Server;
use super::*;
use crate::certificate::{Authority, Issued, Role, Validity};
use crate::credentials::Credentials;
use crate::exporter::Exporter;
use crate::settings::NodeConfig;

struct Bed {
    authority: Authority,
    config: NodeConfig,
    exporter: Exporter,
    gate: Arc<Gate>,
    address: SocketAddr,
    permits: FairPermits<Option<IpAddr>>,
    dir: tempfile::TempDir,
}

impl Bed {
    /// A server with `connections` permits, behind a gate whose settings `set` makes.
    async fn new(connections: usize, set: impl FnOnce(&mut NodeConfig, &Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(1)).unwrap();
        let issued = authority.issue("n", Validity::days(1)).unwrap();
        issued.save(dir.path(), false).unwrap();
        let mut config = NodeConfig::new("n", dir.path(), dir.path());
        config.metrics = Some(([127, 0, 0, 1], 0).into());
        set(&mut config, dir.path());
        config.check().unwrap();
        let exporter = Exporter::new("n").unwrap();
        let admission = Admission::load(&config).unwrap().expect("guarded");
        let gate = Arc::new(Gate::new(admission, exporter.recorder()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bed = Self {
            authority,
            config,
            exporter,
            gate,
            address: listener.local_addr().unwrap(),
            permits: FairPermits::new(connections),
            dir,
        };
        bed.serve(listener);
        bed
    }

    fn serve<L: Listener<Addr = SocketAddr>>(&self, listener: L) {
        let router = Router::new()
            .route("/", get(async || "short\n"))
            .route("/long", get(async || vec![0_u8; 1 << 20]))
            .layer(from_fn_with_state(self.gate.clone(), admitted));
        let server = Server {
            listener,
            router,
            permits: self.permits.clone(),
            waits: Counter::noop(),
            crowded_out: Counter::noop(),
            gate: Some(self.gate.clone()),
        };
        tokio::spawn(server.run(CancellationToken::new()));
    }

    fn issued(&self, role: Role) -> Issued {
        let issued = self.authority.issue_to(role, "x", Validity::days(1));
        issued.unwrap()
    }

    /// A client with this certificate, or none, that verifies the node as scrapers do.
    async fn connect(&self, papers: Option<&Issued>) -> io::Result<ClientStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.connected(papers, stream).await
    }

    async fn connected<T>(&self, papers: Option<&Issued>, io: T) -> io::Result<ClientStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let mut roots = RootCertStore::empty();
        let authority = self.authority.certificate_pem().as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let tls = match papers {
            Some(issued) => {
                let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes());
                builder
                    .with_client_auth_cert(vec![chain.unwrap()], key.unwrap())
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let name = "binomesh".try_into().unwrap();
        TlsConnector::from(Arc::new(tls)).connect(name, io).await
    }

    /// The protocol and status of the answer to a client with this certificate and header.
    async fn answer(&self, papers: Option<&Issued>, header: &str) -> io::Result<String> {
        let mut stream = self.connect(papers).await?;
        asked(&mut stream, header).await
    }

    fn refused(&self, reason: &str) -> u64 {
        let text = self.exporter.text();
        let mut lines = text.lines();
        let line = lines.find(|line| {
            line.starts_with("binomesh_metrics_refused_total") && line.contains(reason)
        });
        let value = line.and_then(|line| line.rsplit(' ').next());
        value.map_or(0, |value| value.parse().unwrap())
    }

    async fn until_refused(&self, reason: &str, count: u64) {
        while self.refused(&format!("\"{reason}\"")) < count {
            tokio::task::yield_now().await;
        }
    }

    fn renew(&self) {
        let credentials = Credentials::load(&self.config).unwrap();
        let admission = Admission::of(&self.config, &credentials).unwrap();
        self.gate.renew(admission.expect("guarded"));
    }
}

async fn asked<T>(stream: &mut ClientStream<T>, header: &str) -> io::Result<String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await?;
    let mut rest = [0; 4096];
    let _ = stream.read(&mut rest).await?;
    Ok(String::from_utf8_lossy(&begun).into_owned())
}

fn by_certificate(config: &mut NodeConfig, _: &Path) {
    config.metrics_tls = true;
}

fn by_token(config: &mut NodeConfig, dir: &Path) {
    config.metrics_token_file = Some(written(dir, "a-token-of-the-test"));
}

fn written(dir: &Path, token: &str) -> std::path::PathBuf {
    let path = dir.join("token");
    crate::state::replace(&path, token.as_bytes()).unwrap();
    path
}

const OK: &str = "HTTP/1.1 200";

#[tokio::test]
async fn only_a_monitors_certificate_that_holds_now_is_admitted() {
    let bed = Bed::new(8, by_certificate).await;
    let monitor = bed.issued(Role::Monitor);
    assert_eq!(bed.answer(Some(&monitor), "").await.unwrap(), OK);
    let stranger = Authority::generate("test.local", Validity::days(1)).unwrap();
    let stranger = stranger.issue_to(Role::Monitor, "x", Validity::days(1));
    let past = Validity {
        from: 1_000_000_000,
        until: 1_100_000_000,
    };
    let expired = bed.authority.issue_to(Role::Monitor, "x", past).unwrap();
    for (papers, reason) in [
        (None, "no_certificate"),
        (Some(bed.issued(Role::Node)), "not_a_monitor"),
        (Some(stranger.unwrap()), "unknown_authority"),
        (Some(expired), "expired"),
    ] {
        // With TLS 1.3 a client may hear of its refusal only with the first answer.
        assert!(bed.answer(papers.as_ref(), "").await.is_err(), "{reason}");
        bed.until_refused(reason, 1).await;
    }
    let mut plain = TcpStream::connect(bed.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    bed.until_refused("tls", 1).await;
}

#[tokio::test]
async fn a_token_is_compared_whole_and_needs_no_certificate() {
    let bed = Bed::new(8, by_token).await;
    let mut refused = 0;
    for (header, expected) in [
        ("authorization: Bearer a-token-of-the-test\r\n", OK),
        ("authorization: bearer a-token-of-the-test\r\n", OK),
        ("", "HTTP/1.1 401"),
        ("authorization: Bearer \r\n", "HTTP/1.1 401"),
        ("authorization: Bearer\r\n", "HTTP/1.1 401"),
        (
            "authorization: Basic a-token-of-the-test\r\n",
            "HTTP/1.1 401",
        ),
        (
            "authorization: Bearer a-token-of-the-tes\r\n",
            "HTTP/1.1 401",
        ),
        (
            "authorization: Bearer a-token-of-the-test2\r\n",
            "HTTP/1.1 401",
        ),
    ] {
        assert_eq!(
            bed.answer(None, header).await.unwrap(),
            expected,
            "{header}"
        );
        refused += u64::from(expected != OK);
    }
    assert_eq!(bed.refused("\"token\""), refused);
}

#[tokio::test]
async fn a_renewal_ends_the_connections_that_were_admitted_before() {
    let mut bed = Bed::new(8, by_token).await;
    let old = "authorization: Bearer a-token-of-the-test\r\n";
    let mut stream = bed.connect(None).await.unwrap();
    assert_eq!(asked(&mut stream, old).await.unwrap(), OK);
    written(bed.dir.path(), "another-token-of-it");
    bed.renew();
    assert!(asked(&mut stream, old).await.is_err(), "it is at its end");
    assert_eq!(bed.answer(None, old).await.unwrap(), "HTTP/1.1 401");
    let new = "authorization: Bearer another-token-of-it\r\n";
    assert_eq!(bed.answer(None, new).await.unwrap(), OK);

    // A revocation list, and certificates instead of the token.
    bed.config.metrics_token_file = None;
    bed.config.metrics_tls = true;
    bed.renew();
    let [stolen, good] = [(); 2].map(|()| bed.issued(Role::Monitor));
    let mut stream = bed.connect(Some(&stolen)).await.unwrap();
    assert_eq!(asked(&mut stream, "").await.unwrap(), OK);
    let revoked = [&*stolen.certificate_pem];
    let list = bed.authority.revoke(&revoked, Validity::days(1)).unwrap();
    std::fs::write(bed.dir.path().join("crl.pem"), list).unwrap();
    bed.renew();
    assert!(asked(&mut stream, "").await.is_err(), "it is at its end");
    assert!(bed.answer(Some(&stolen), "").await.is_err());
    bed.until_refused("revoked", 1).await;
    assert_eq!(bed.answer(Some(&good), "").await.unwrap(), OK);
}

#[tokio::test]
async fn half_open_handshakes_keep_nobody_out() {
    let bed = Bed::new(2, by_certificate).await;
    let mut held = Vec::new();
    for number in 0..6 {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        if number % 2 == 0 {
            // A handshake record that declares more bytes than come.
            stream.write_all(&[22, 3, 1, 1, 0, 1, 0]).await.unwrap();
        }
        held.push(stream);
    }
    let monitor = bed.issued(Role::Monitor);
    assert_eq!(bed.answer(Some(&monitor), "").await.unwrap(), OK);
    assert!(bed.permits.taken() <= 2, "{}", bed.permits.taken());
}

/// The clock is paused. It jumps to the next timer when no task can run.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_not_ended_is_ended_and_counted() {
    let bed = Bed::new(8, by_certificate).await;
    let mut silent = TcpStream::connect(bed.address).await.unwrap();
    let mut half = TcpStream::connect(bed.address).await.unwrap();
    half.write_all(&[22, 3, 1, 1, 0, 1, 0]).await.unwrap();
    for stream in [&mut silent, &mut half] {
        let mut rest = Vec::new();
        // The connection may be reset.
        let _ = stream.read_to_end(&mut rest).await;
    }
    bed.until_refused("timed_out", 2).await;
}

/// Connections without a network, so that the paused clock stands still while data moves.
struct Pipes(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Pipes {
    type Io = DuplexStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.0.recv().await {
            Some(pipe) => (pipe, ([127, 0, 0, 1], 1).into()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(([127, 0, 0, 1], 1).into())
    }
}

/// The connection ends even if the client asks again and again.
#[tokio::test(start_paused = true)]
async fn a_connection_does_not_last_as_long_as_its_client_likes() {
    let bed = Bed::new(8, by_certificate).await;
    let (sender, pipes) = mpsc::unbounded_channel();
    bed.serve(Pipes(pipes));
    let (here, there) = tokio::io::duplex(1 << 16);
    sender.send(there).unwrap();
    let monitor = bed.issued(Role::Monitor);
    let mut stream = bed.connected(Some(&monitor), here).await.unwrap();
    let mut answers = 0;
    while asked(&mut stream, "").await.is_ok() {
        answers += 1;
        assert!(answers < 1_000, "it goes on");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!((100..200).contains(&answers), "{answers}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_does_not_stay() {
    let bed = Bed::new(8, by_certificate).await;
    let (sender, pipes) = mpsc::unbounded_channel();
    bed.serve(Pipes(pipes));
    let monitor = bed.issued(Role::Monitor);
    // Either newer rules are in force, or the connection is too old.
    for (is_renewed, most) in [(true, 15), (false, 620)] {
        let (here, there) = tokio::io::duplex(1 << 12);
        sender.send(there).unwrap();
        let mut stream = bed.connected(Some(&monitor), here).await.unwrap();
        let head = b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        if is_renewed {
            bed.renew();
        }
        let mut seconds = 0;
        while bed.permits.taken() > 0 {
            assert!(seconds < most, "it stays for {seconds} s");
            tokio::time::sleep(Duration::from_secs(1)).await;
            seconds += 1;
        }
        assert!(seconds >= 9, "it has time to read: {seconds} s");
    }
}
