//! Pushing through the admin API.

use std::io;

use http_body_util::Either;
use http_body_util::channel::{Channel, Sender};
use hyper::Method;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Client, ClientError, query};
use crate::push::{PushOptions, PushReport, check_file_name};
use crate::settings::Strategy;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// How many such pieces wait for the connection.
const WAITING: usize = 4;

impl Client {
    /// Have the node push what `source` yields to all members, be its length known or not.
    /// `progress` is told how many bytes have been handed over; the node takes no more than
    /// it can send.
    pub async fn push(
        &self,
        source: impl AsyncRead + Unpin,
        options: &PushOptions,
        progress: impl FnMut(u64),
    ) -> Result<PushReport, ClientError> {
        // The node would say the same; but whoever still sends may not hear it.
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
        // Refused early, the rest of the source is of no use.
        let response = tokio::select! {
            response = &mut asking => response,
            () = &mut feeding => asking.await,
        };
        let answer = self.collect(response?).await?;
        serde_json::from_slice(&answer).map_err(|error| self.garbled(error.to_string()))
    }
}

/// The body on its way. Dropped before it was said to be whole it is cut off, so that nobody
/// takes that for its end.
struct Handing(Option<Sender<Bytes, io::Error>>);

impl Handing {
    /// Returns whether it is still taken.
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

/// Hand over what there is, until the end, an error, or nobody takes it any more.
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
