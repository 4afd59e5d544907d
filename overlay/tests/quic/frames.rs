//! Frames that are refused, while other peers are served all the same.

use binomesh_overlay::quic::{DownReason, RefusedFrame, TransportEvent};
use quinn::SendStream;

use crate::bed::{Authority, id, packet};
use crate::raw_client::{Raw, hello};

/// A frame with a body of one byte.
const FRAME: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 1, b'x'];

/// Writes `stream` on the link of a raw client. This link must go down for `reason`, the refusal
/// must be counted, and another peer must still be served.
async fn refuses(stream: &[u8], finish: bool, reason: RefusedFrame, label: &str) {
    let authority = Authority::new("one");
    let (mut a, mut b) = (authority.start("a"), authority.start("b"));
    b.knows(&a);
    b.transport.connect(a.id());
    b.until_up(a.id()).await;
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    let mut out = raw.connection.open_uni().await.expect("a stream");
    out.write_all(stream).await.expect("written");
    if finish {
        out.finish().expect("open");
    }
    let down = a.until(|event| match event {
        TransportEvent::LinkDown { peer, reason } => Some((peer, reason)),
        TransportEvent::Received { .. } => panic!("nothing is to be received"),
        _ => None,
    });
    assert_eq!(down.await, (id("raw"), DownReason::RefusedFrame(reason)));
    assert_eq!(a.meter.read("refused_frames_total", label), 1);
    let closed = raw.connection.closed().await;
    let quinn::ConnectionError::ApplicationClosed(close) = closed else {
        panic!("got {closed:?}");
    };
    assert_eq!(close.error_code, 5_u32.into());
    b.transport.send(a.id(), packet(b"still")).expect("queued");
    assert_eq!(a.received().await.0, b.id());
}

#[tokio::test]
async fn an_oversized_frame_is_refused_by_its_header() {
    // A maintenance body has at most 64 KiB, and a packet body 16 MiB. In both cases the header
    // alone shows that the body is longer.
    let stream = [1, 1, 0, 0, 0, 0, 1, 0, 1];
    refuses(&stream, false, RefusedFrame::Oversized, "oversized").await;
    let stream = [4, 1, 0, 0, 0, 1, 0, 0, 1];
    refuses(&stream, false, RefusedFrame::Oversized, "oversized").await;
}

#[tokio::test]
async fn a_truncated_frame_is_refused() {
    let stream = [3, 1, 0, 0, 0, 0, 0, 0, 9, b'x'];
    refuses(&stream, true, RefusedFrame::Truncated, "truncated").await;
}

const LARGE: u8 = 4;
const PACKETS: u8 = 3;

/// A good frame on a stream with this tag is received. Then the rest of the stream is refused.
async fn refuses_after_a_frame(
    tag: u8,
    reason: RefusedFrame,
    rest: impl AsyncFnOnce(&mut SendStream),
) {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let raw = Raw::connect(Some(authority.issue_to("raw").der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    let mut out = raw.connection.open_uni().await.expect("a stream");
    let start = [&[tag], FRAME].concat();
    out.write_all(&start).await.expect("written");
    assert_eq!(a.received().await.0, id("raw"));
    rest(&mut out).await;
    let down = a.until(|event| match event {
        TransportEvent::LinkDown { reason, .. } => Some(reason),
        TransportEvent::Received { .. } => panic!("nothing more is to be received"),
        _ => None,
    });
    assert_eq!(down.await, DownReason::RefusedFrame(reason));
}

#[tokio::test]
async fn a_stream_that_is_reset_between_frames_is_truncated() {
    refuses_after_a_frame(PACKETS, RefusedFrame::Truncated, async |out| {
        out.reset(0_u32.into()).expect("open");
    })
    .await;
}

#[tokio::test]
async fn a_second_frame_on_a_large_stream_is_refused() {
    refuses_after_a_frame(LARGE, RefusedFrame::Malformed, async |out| {
        out.write_all(FRAME).await.expect("written");
    })
    .await;
}

#[tokio::test]
async fn an_unknown_frame_version_is_refused() {
    refuses(&[3, 7], false, RefusedFrame::Version, "version").await;
}

#[tokio::test]
async fn unknown_streams_flags_and_contacts_are_refused() {
    for stream in [
        &[9][..],
        &[3, 1, 0x80, 0, 0, 0, 0, 0, 0],
        &[3, 1, 1, 0, 2, 0, 0, 0, 0, 0xff, 0xff],
    ] {
        refuses(stream, false, RefusedFrame::Malformed, "malformed").await;
    }
}
