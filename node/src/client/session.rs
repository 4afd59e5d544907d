//! Connections to an admin API: one per request, or one for many.

use std::fmt;
use std::io;

use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

use super::{Client, ClientError, Endpoint};

/// A connection that takes requests.
pub(super) type Connection = SendRequest<RequestBody>;
/// A body that is complete, or one that comes piece by piece.
pub(super) type RequestBody = Either<Full<Bytes>, Channel<Bytes, io::Error>>;

/// A client that asks often: it keeps its connection open from request to request.
#[derive(Debug)]
pub struct Session {
    client: Client,
    connection: Option<Connection>,
}

impl Session {
    /// The body at a path, such as `/v1/topology`. Connects if there is no connection; a request
    /// that fails, or is given up, ends the connection.
    pub async fn get(&mut self, path: &str) -> Result<Bytes, ClientError> {
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => self.client.connect().await?,
        };
        let nothing = Either::Left(Full::new(Bytes::new()));
        let response = self
            .client
            .exchange(&mut connection, Method::GET, path, nothing)
            .await?;
        let body = self.client.collect(response).await?;
        self.connection = Some(connection);
        Ok(body)
    }
}

impl Client {
    /// A session with the same node; nothing is sent yet.
    pub fn session(&self) -> Session {
        Session {
            client: self.clone(),
            connection: None,
        }
    }

    pub(super) async fn connect(&self) -> Result<Connection, ClientError> {
        let unreachable = |error: &dyn fmt::Display| self.unreachable(error.to_string());
        let opened = match &self.endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                open(TokioIo::new(stream.map_err(|e| unreachable(&e))?)).await
            }
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await;
                open(TokioIo::new(stream.map_err(|e| unreachable(&e))?)).await
            }
        };
        opened.map_err(|error| unreachable(&error))
    }

    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        method: Method,
        path: &str,
        payload: RequestBody,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "binomesh")
            .body(payload)
            .map_err(|error| self.garbled(error.to_string()))?;
        let unreachable = |error: hyper::Error| self.unreachable(error.to_string());
        connection.ready().await.map_err(unreachable)?;
        let response = connection.send_request(request).await;
        self.granted(response.map_err(unreachable)?).await
    }
}

async fn open<S>(stream: TokioIo<S>) -> Result<Connection, hyper::Error>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(stream).await?;
    // This task ends after the last response's body, once the sender is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an admin connection ended");
        }
    });
    Ok(sender)
}
