//! Pushes files and streams through the admin API.

use std::io;

use http_body_util::Either;
use http_body_util::channel::{Channel, Sender};
use hyper::Method;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Client, ClientError, query};
use crate::push::{PushOptions, PushReport, check_file_name};
use crate::settings::Strategy;

/// The most bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// The most pieces that wait for the connection.
const WAITING: usize = 4;

impl Client {
    /// Have the node push the bytes of `source` to all members; their number need not be known.
    /// `progress` is told how many bytes have been handed to the connection. The node reads no
    /// faster than it can send.
    pub async fn push(
        &self,
        source: impl AsyncRead + Unpin,
        options: &PushOptions,
        progress: impl FnMut(u64),
    ) -> Result<PushReport, ClientError> {
        // The node would give the same error, but a client that still sends may not receive it.
        check_file_name(&options.name).map_err(|error| ClientError::Refused {
            status: 400,
            error: error.to_string(),
            remedy: "choose another name".to_owned(),
        })?;
        let size = options.size_bytes.map(|size| size.to_string());
        let patience = options.patience.as_millis().to_string();
        let strategy = options.strategy;
        let strategy = (strategy != Strategy::Auto).then(|| strategy.to_string());
        let query = query(&[
            ("name", Some(&options.name)),
            ("size_bytes", size.as_deref()),
            ("replace", options.replace.then_some("true")),
            ("strategy", strategy.as_deref()),
            ("patience_ms", Some(&patience)),
        ]);
        let (sender, body) = Channel::new(WAITING);
        let mut connection = self.connect().await?;
        let path = format!("/v1/push{query}");
        let asking = self.exchange(&mut connection, Method::POST, &path, Either::Right(body));
        let feeding = feed(source, Handing(Some(sender)), progress);
        tokio::pin!(asking, feeding);
        // If the node refuses early, the rest of the source is not needed.
        let response = tokio::select! {
            response = &mut asking => response,
            () = &mut feeding => asking.await,
        };
        let answer = self.collect(response?).await?;
        serde_json::from_slice(&answer).map_err(|error| self.garbled(error.to_string()))
    }
}

/// The body of a push request. If it is dropped before its end was marked, the connection is cut
/// off, so that the node does not take the last byte for the end.
struct Handing(Option<Sender<Bytes, io::Error>>);

impl Handing {
    /// Hand over a piece. Returns whether the node still takes pieces.
    async fn hand_over(&mut self, piece: Bytes) -> bool {
        match &mut self.0 {
            Some(body) => body.send_data(piece).await.is_ok(),
            None => false,
        }
    }

    fn cut_off(&mut self, error: io::Error) {
        if let Some(body) = self.0.take() {
            body.abort(error);
        }
    }

    fn finish(&mut self) {
        self.0 = None;
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        self.cut_off(io::Error::other("given up"));
    }
}

/// Hand over the source's bytes until its end, an error, or until the node takes no more.
async fn feed(
    mut source: impl AsyncRead + Unpin,
    mut body: Handing,
    mut progress: impl FnMut(u64),
) {
    let mut fed = 0;
    loop {
        let mut piece = Vec::with_capacity(READ_BYTES);
        match source.read_buf(&mut piece).await {
            Ok(0) => return body.finish(),
            Err(error) => return body.cut_off(error),
            Ok(length) => fed += length as u64,
        }
        if !body.hand_over(piece.into()).await {
            return;
        }
        progress(fed);
    }
}
