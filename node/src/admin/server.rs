//! Serves HTTP over a limited number of connections.
//!
//! An idle connection, one without a request, makes room for a new one: of the clients with an idle
//! connection, the one with the most connections loses its oldest idle one. After a while an idle
//! connection is closed in any case. A connection whose request still runs, such as an open
//! subscription, makes no room: if there are only such connections, new ones wait.
//!
//! Behind a [`Gate`] a connection begins with TLS, within the same bounds: until the handshake has
//! ended it counts as idle.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::serve::Listener;
use binomesh_overlay::quic::{FairPermit, FairPermits};
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::gate::Gate;

/// How long a connection may go without a whole request head, and how long a TLS handshake may
/// take. A guess: scrapers that come every 15 s connect again each time. With more, idle clients
/// hold connections longer.
const IDLE: Duration = Duration::from_secs(10);
/// How long a connection over TLS may last. This bounds the use of a certificate that expires or is
/// revoked meanwhile, except for an answer that is under way.
const LIFE: Duration = Duration::from_secs(600);
/// How long an answer that is under way may still last after [`LIFE`], or once newer rules of
/// admission are in force. A guess: longer than scrapers usually wait for an answer. Without this
/// bound, a client that does not read would stay for ever.
const LAST: Duration = Duration::from_secs(10);
/// The most bytes of a request head, and the most that are read ahead of a body.
const HEAD_BYTES: usize = 64 << 10;

/// The address of a client, if it is known: local users of a socket are not told apart.
pub(super) trait Origin {
    fn origin(&self) -> Option<IpAddr>;
}

impl Origin for SocketAddr {
    fn origin(&self) -> Option<IpAddr> {
        Some(self.ip().to_canonical())
    }
}

impl Origin for tokio::net::unix::SocketAddr {
    fn origin(&self) -> Option<IpAddr> {
        None
    }
}

/// A listener, the routes that it serves, and its bounds.
pub(super) struct Server<L> {
    pub(super) listener: L,
    pub(super) router: Router,
    pub(super) permits: FairPermits<Option<IpAddr>>,
    /// Counts how often a new connection had to wait, since all others had requests.
    pub(super) waits: Counter,
    /// Counts idle connections that made room.
    pub(super) crowded_out: Counter,
    /// Admits clients over TLS; without it, every client is served over plain HTTP.
    pub(super) gate: Option<Arc<Gate>>,
}

impl<L> Server<L>
where
    L: Listener,
    L::Addr: Origin,
{
    /// Serve until `stop`; then wait for the open requests.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            let (io, address) = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
            };
            let permit = tokio::select! {
                permit = permit(&self.permits, address.origin(), &self.waits) => permit,
                () = stop.cancelled() => break,
            };
            let connection = Connection {
                router: self.router.clone(),
                permit: Arc::new(permit),
                crowded_out: self.crowded_out.clone(),
                stop: stop.clone(),
            };
            match &self.gate {
                Some(gate) => {
                    let (gate, from) = (gate.clone(), address.origin());
                    connections.spawn(connection.run_behind(gate, io, from))
                }
                None => connections.spawn(connection.run(io, CancellationToken::new())),
            };
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// Take a permit of `permits`, as soon as there is one.
async fn permit(
    permits: &FairPermits<Option<IpAddr>>,
    origin: Option<IpAddr>,
    waits: &Counter,
) -> FairPermit<Option<IpAddr>> {
    match permits.take_oldest(origin) {
        Some(permit) => permit,
        None => {
            waits.increment(1);
            permits.wait(origin).await
        }
    }
}

struct Connection {
    router: Router,
    permit: Arc<FairPermit<Option<IpAddr>>>,
    crowded_out: Counter,
    stop: CancellationToken,
}

impl Connection {
    /// Do the TLS handshake and serve the connection. It ends when newer rules of admission are in
    /// force, or after [`LIFE`]; a request that runs then gets [`LAST`] more.
    async fn run_behind<T>(self, gate: Arc<Gate>, io: T, from: Option<IpAddr>)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let admission = gate.now();
        let lost = self.permit.lost();
        let entered = tokio::select! {
            entered = gate.enter(io, from, &admission, IDLE) => entered,
            () = lost.cancelled() => return self.crowded_out.increment(1),
            () = self.stop.cancelled() => return,
        };
        let Some(stream) = entered else { return };
        let over = CancellationToken::new();
        let serving = self.run(stream, over.clone());
        let worn = async {
            tokio::select! {
                () = admission.outdated().cancelled() => {}
                () = tokio::time::sleep(LIFE) => {}
            }
            over.cancel();
            tokio::time::sleep(LAST).await;
        };
        tokio::select! {
            () = serving => {}
            () = worn => {}
        }
    }

    /// Serve until the client ends the connection, sends no request head for [`IDLE`], or the
    /// permit goes to another connection. Once `over` is cancelled or the server stops, only the
    /// request that runs is finished.
    async fn run<T>(self, io: T, over: CancellationToken)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let lost = self.permit.lost();
        let (router, permit) = (TowerToHyperService::new(self.router), self.permit);
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let busy = Busy::begin(&permit);
            let answered = router.call(request);
            async move { answered.await.map(|response| busy.until_sent(response)) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(io), service);
        let mut serving = std::pin::pin!(serving);
        // Errors of the client's making are ignored.
        tokio::select! {
            _ = serving.as_mut() => return,
            () = lost.cancelled() => return self.crowded_out.increment(1),
            () = self.stop.cancelled() => serving.as_mut().graceful_shutdown(),
            () = over.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = serving => {}
            () = lost.cancelled() => self.crowded_out.increment(1),
        }
    }
}

/// A request that runs; its connection makes no room.
struct Busy(Arc<FairPermit<Option<IpAddr>>>);

impl Busy {
    fn begin(permit: &Arc<FairPermit<Option<IpAddr>>>) -> Self {
        permit.set_busy(true);
        Self(permit.clone())
    }

    /// Keep the request running until its response has been handed to the connection. The rest that
    /// the connection still has to send does not count, so a client that does not read keeps no
    /// other client out.
    fn until_sent(self, response: Response) -> Response {
        response.map(|body| {
            let held = body.map_frame(move |frame| {
                let _busy = &self;
                frame
            });
            Body::new(held)
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use axum::routing::get;
    use futures_util::stream;
    use metrics::CounterFn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl CounterFn for Count {
        fn increment(&self, by: u64) {
            self.0.fetch_add(by, Ordering::Relaxed);
        }
        fn absolute(&self, to: u64) {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    struct Bed {
        address: SocketAddr,
        waits: Arc<Count>,
        crowded_out: Arc<Count>,
        _server: JoinHandle<()>,
    }

    impl Bed {
        /// A server with the routes `/short`, `/endless`, and `/long`, whose body no buffer can
        /// hold.
        async fn new(connections: usize) -> Self {
            let endless = async || {
                let first = stream::once(async { Ok::<_, std::io::Error>("begun\n") });
                let rest = stream::pending();
                Body::from_stream(stream::StreamExt::chain(first, rest))
            };
            let router = Router::new()
                .route("/short", get(async || "short\n"))
                .route("/endless", get(endless))
                .route("/long", get(async || vec![0_u8; 64 << 20]));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (waits, crowded_out) = (Arc::<Count>::default(), Arc::<Count>::default());
            let server = Server {
                listener,
                router,
                permits: FairPermits::new(connections),
                waits: Counter::from_arc(waits.clone()),
                crowded_out: Counter::from_arc(crowded_out.clone()),
                gate: None,
            };
            Self {
                address,
                waits,
                crowded_out,
                _server: tokio::spawn(server.run(CancellationToken::new())),
            }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// A connection with a request whose answer has begun.
        async fn ask(&self, path: &str) -> TcpStream {
            let mut stream = self.connect().await;
            request(&mut stream, path).await;
            stream
        }
    }

    async fn request(stream: &mut TcpStream, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut begun = [0; 15];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200 OK");
    }

    /// Read all bytes until the other side ends the connection.
    async fn to_its_end(mut stream: TcpStream) {
        let mut all = Vec::new();
        // The connection may be reset.
        let _ = stream.read_to_end(&mut all).await;
    }

    #[tokio::test]
    async fn connections_without_a_request_keep_nobody_out() {
        let bed = Bed::new(2).await;
        let mut held = Vec::new();
        for _ in 0..6 {
            held.push(bed.connect().await);
        }
        // A connection that has sent half a head counts as idle, too.
        let mut half = bed.connect().await;
        half.write_all(b"GET /sh").await.unwrap();
        for _ in 0..3 {
            held.push(bed.ask("/short").await);
        }
        to_its_end(half).await;
        assert!(bed.crowded_out.0.load(Ordering::Relaxed) >= 6);
        assert_eq!(bed.waits.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_request_that_runs_makes_no_room() {
        let bed = Bed::new(1).await;
        let subscription = bed.ask("/endless").await;
        let mut waiting = bed.connect().await;
        waiting
            .write_all(b"GET /short HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        while bed.waits.0.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bed.crowded_out.0.load(Ordering::Relaxed), 0);
        drop(subscription);
        let mut begun = [0; 15];
        waiting.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200 OK");
    }

    /// The paused clock advances when nothing else happens.
    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the time of the test is paused")]
    async fn connections_that_send_nothing_end() {
        let bed = Bed::new(8).await;
        let began = tokio::time::Instant::now();
        to_its_end(bed.connect().await).await;
        assert!(began.elapsed() >= IDLE);
        // A connection that sends nothing after a request ends, too.
        to_its_end(bed.ask("/short").await).await;
        assert!(began.elapsed() >= 2 * IDLE);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_keeps_nobody_out() {
        let bed = Bed::new(1).await;
        let deaf = bed.ask("/long").await;
        let _next = bed.ask("/short").await;
        assert_eq!(bed.crowded_out.0.load(Ordering::Relaxed), 1);
        drop(deaf);
    }
}
