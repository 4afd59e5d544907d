//! The floor of the comparison: bare QUIC connections in a star or a static binary tree. A node
//! passes on what it receives, chunk by chunk, and does nothing else.

use std::sync::Arc;

use binomesh_overlay::quic::bare::Bare;
use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::credentials::CredentialsFolder;
use super::runtimes::Runtimes;
use crate::command::Failure;

/// The most messages that wait for the writer of node 0, and the most that it writes at once.
pub(super) const BATCH: usize = 64;
/// The most chunks that are read at once, each of one datagram.
const CHUNKS: usize = 64;

/// A network of bare connections. Node 0 sends.
pub(super) struct Network {
    endpoints: Vec<Bare>,
    queue: mpsc::Sender<Bytes>,
    arrivals: Arc<Arrivals>,
    tasks: JoinSet<()>,
    /// The runtimes are dropped last.
    runtimes: Runtimes,
}

impl Network {
    /// Connect all nodes, each to its parent.
    pub(super) async fn form(
        home: &CredentialsFolder,
        parent: fn(u32) -> u32,
    ) -> Result<Self, Failure> {
        let runtimes = Runtimes::start()?;
        let mut endpoints = Vec::new();
        for node in 0..home.nodes() {
            let any = ([127, 0, 0, 1], 0).into();
            let _inside = runtimes.of(node).enter();
            let bare = Bare::bind(any, &home.identity(node)?, &home.limits());
            endpoints.push(bare.map_err(Failure::run)?);
        }
        let mut dials = JoinSet::new();
        for (node, endpoint) in (0u32..).zip(&endpoints).skip(1) {
            let parent = &endpoints[parent(node) as usize];
            let address = parent.address().map_err(Failure::run)?;
            let endpoint = endpoint.clone();
            dials.spawn(async move { (node, endpoint.dial(address).await) });
        }
        let mut below: Vec<Vec<SendStream>> = Vec::new();
        for (node, endpoint) in (0u32..).zip(&endpoints) {
            let children = (1..home.nodes()).filter(|child| parent(*child) == node);
            below.push(accept(endpoint, children.count() as u32).await?);
        }
        let mut above: Vec<Option<Connection>> = endpoints.iter().map(|_| None).collect();
        while let Some(dial) = dials.join_next().await {
            let (node, connection) = dial.map_err(Failure::run)?;
            above[node as usize] = Some(connection.map_err(Failure::run)?);
        }
        let arrivals = Arc::new(Arrivals::new());
        let (queue, source) = mpsc::channel(BATCH);
        let mut tasks = JoinSet::new();
        let mut source = Some(source);
        for ((node, above), below) in (0u32..).zip(above).zip(below) {
            let runtime = runtimes.of(node);
            match (above, source.take()) {
                (Some(above), _) => {
                    let arrivals = arrivals.clone();
                    let arrived = move |messages| arrivals.add(messages);
                    tasks.spawn_on(relay(above, below, arrived), runtime);
                }
                (None, Some(source)) => _ = tasks.spawn_on(send(source, below), runtime),
                (None, None) => {}
            }
        }
        Ok(Self {
            endpoints,
            queue,
            arrivals,
            tasks,
            runtimes,
        })
    }

    pub(super) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Queue a message as soon as there is room.
    pub(super) async fn send(&self, payload: Bytes) -> Result<(), Failure> {
        let sent = self.queue.send(payload).await;
        sent.map_err(|_| Failure::run("the connection to a bare QUIC node has broken"))
    }

    /// Close all connections.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
        for endpoint in &self.endpoints {
            endpoint.close().await;
        }
        drop(self.runtimes);
    }
}

/// Accept connections from this many children, and open a stream to each.
pub(super) async fn accept(endpoint: &Bare, children: u32) -> Result<Vec<SendStream>, Failure> {
    let mut streams = Vec::new();
    for _ in 0..children {
        let accepted = endpoint.accept().await;
        let accepted = accepted.ok_or_else(|| {
            Failure::run("a bare QUIC endpoint closed before its children connected")
        })?;
        let connection = accepted.map_err(Failure::run)?;
        streams.push(connection.open_uni().await.map_err(Failure::run)?);
    }
    Ok(streams)
}

/// Send all queued messages, each with its length before it.
pub(super) async fn send(mut source: mpsc::Receiver<Bytes>, mut below: Vec<SendStream>) {
    let mut batch = Vec::with_capacity(BATCH);
    while source.recv_many(&mut batch, BATCH).await > 0 {
        let mut chunks = Vec::with_capacity(2 * batch.len());
        for payload in batch.drain(..) {
            let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            chunks.push(Bytes::copy_from_slice(&length.to_be_bytes()));
            chunks.push(payload);
        }
        if pass_on(&mut below, &chunks).await.is_err() {
            return;
        }
    }
}

/// Pass on the bytes from above, and call `arrived` with the number of messages that they complete.
pub(super) async fn relay(above: Connection, mut below: Vec<SendStream>, arrived: impl Fn(u64)) {
    let Ok(mut stream) = above.accept_uni().await else {
        return;
    };
    let mut frames = Frames::default();
    while let Ok(chunks) = read(&mut stream).await {
        if chunks.is_empty() {
            return;
        }
        let whole: u64 = chunks.iter().map(|chunk| frames.take(chunk)).sum();
        if whole > 0 {
            arrived(whole);
        }
        if pass_on(&mut below, &chunks).await.is_err() {
            return;
        }
    }
}

/// The chunks that have come; none at the end of the stream.
async fn read(stream: &mut RecvStream) -> Result<Vec<Bytes>, quinn::ReadError> {
    let mut chunks = vec![Bytes::new(); CHUNKS];
    let count = stream.read_chunks(&mut chunks).await?;
    chunks.truncate(count.unwrap_or(0));
    Ok(chunks)
}

async fn pass_on(below: &mut [SendStream], chunks: &[Bytes]) -> Result<(), quinn::WriteError> {
    for stream in below {
        stream.write_all_chunks(&mut chunks.to_vec()).await?;
    }
    Ok(())
}

/// Finds the ends of messages in a stream of bytes.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 4],
    /// How many bytes of the head have come.
    known: usize,
    /// How many bytes of the body are missing.
    left: usize,
}

impl Frames {
    /// How many messages these bytes complete.
    fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let mut whole = 0;
        while !bytes.is_empty() {
            if self.known < self.head.len() {
                let part = bytes.len().min(self.head.len() - self.known);
                self.head[self.known..self.known + part].copy_from_slice(&bytes[..part]);
                self.known += part;
                bytes = &bytes[part..];
                self.left = u32::from_be_bytes(self.head) as usize;
            } else {
                let part = bytes.len().min(self.left);
                self.left -= part;
                bytes = &bytes[part..];
            }
            if self.known == self.head.len() && self.left == 0 {
                self.known = 0;
                whole += 1;
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_they_end_however_they_are_cut() {
        let mut stream = Vec::new();
        for length in [3u32, 0, 300, 1] {
            stream.extend(length.to_be_bytes());
            stream.extend(vec![7; length as usize]);
        }
        for size in [1, 2, 5, 64, stream.len()] {
            let mut frames = Frames::default();
            let whole: u64 = stream.chunks(size).map(|chunk| frames.take(chunk)).sum();
            assert_eq!(whole, 4, "chunks of {size}");
        }
    }
}
