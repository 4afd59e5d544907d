//! Signs of life travel as datagrams: the next one makes up for a lost one, and a datagram costs a
//! third less than a frame on a stream.
//!
//! ```text
//!   datagram := version:u8 body
//! ```

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::{PlainClass, RefusedFrame, VERSION};
use super::peer::{Link, Peer};
use super::{Shared, stream};

/// The longest body; a sign of life has a few bytes.
pub(super) const BEAT_MAX: usize = 256;
/// How many bytes of datagrams may wait to be sent, and to be read; the oldest are dropped first.
pub(super) const BUFFER: usize = 4096;

/// Send a body over a link. Returns whether it could be sent; it may still be lost.
pub(super) fn send(shared: &Shared, link: &Link, body: &[u8]) -> bool {
    if body.len() > BEAT_MAX {
        return false;
    }
    let mut datagram = BytesMut::with_capacity(1 + body.len());
    datagram.put_u8(VERSION);
    datagram.put_slice(body);
    if link.connection.datagram_send_buffer_space() < datagram.len() {
        shared.metrics.beats_displaced.increment(1);
    }
    if link.connection.send_datagram(datagram.freeze()).is_err() {
        return false;
    }
    stream::count_out(shared, link, PlainClass::Maintenance, body.len());
    true
}

/// Read the datagrams of a link until it ends. A datagram that is not understood is counted and
/// dropped: nobody would miss its content.
pub(super) async fn read(shared: Arc<Shared>, peer: Arc<Peer>, link: Arc<Link>) {
    while let Ok(datagram) = link.connection.read_datagram().await {
        match body_of(&datagram) {
            Ok(body) => {
                let (class, frame_bytes) = (PlainClass::Maintenance, body.len());
                stream::deliver(&shared, &peer, &link, class, body, frame_bytes).await;
            }
            Err(refused) => shared.metrics.frame_refused(refused),
        }
    }
}

fn body_of(datagram: &Bytes) -> Result<Bytes, RefusedFrame> {
    match datagram.first() {
        None => Err(RefusedFrame::Malformed),
        Some(version) if *version != VERSION => Err(RefusedFrame::Version),
        Some(_) if datagram.len() > 1 + BEAT_MAX => Err(RefusedFrame::Oversized),
        Some(_) => Ok(datagram.slice(1..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_datagrams_of_this_version_are_read() {
        let read = |bytes: &[u8]| body_of(&Bytes::copy_from_slice(bytes));
        assert_eq!(read(&[VERSION, 7]), Ok(Bytes::from_static(&[7])));
        assert_eq!(read(&[]), Err(RefusedFrame::Malformed));
        assert_eq!(read(&[VERSION + 1, 7]), Err(RefusedFrame::Version));
        let long = [&[VERSION][..], &[0; BEAT_MAX + 1]].concat();
        assert_eq!(read(&long), Err(RefusedFrame::Oversized));
        assert!(read(&long[..=BEAT_MAX]).is_ok());
    }
}
