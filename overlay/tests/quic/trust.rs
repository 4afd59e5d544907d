//! Certificates that are refused: they expire or are revoked while a link or a handshake is under
//! way, or their name has another form.

use binomesh_overlay::quic::{DownReason, TransportEvent};
use rcgen::SerialNumber;

use crate::bed::{Authority, PATIENCE, eventually, id, name_it, packet, uri};
use crate::raw_client::{Raw, hello, knock};

#[tokio::test]
async fn a_link_does_not_outlive_the_certificate() {
    let authority = Authority::new("one");
    let mut a = authority.start("a");
    let brief = authority.issue(|params| {
        name_it(params, "raw");
        params.not_after = time::OffsetDateTime::now_utc() + time::Duration::seconds(2);
    });
    let raw = Raw::connect(Some(brief.der()), a.address()).await;
    let raw = raw.expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    a.until_up(id("raw")).await;
    let down = TransportEvent::LinkDown {
        peer: id("raw"),
        reason: DownReason::Certificate,
    };
    assert_eq!(a.next().await, down);
}

#[tokio::test]
async fn a_revocation_cuts_the_live_link_and_spares_the_others() {
    let authority = Authority::new("one");
    let (mut a, mut b) = (authority.start("a"), authority.start("b"));
    b.knows(&a);
    b.transport.connect(a.id());
    a.until_up(b.id()).await;
    b.until_up(a.id()).await;
    let serial = SerialNumber::from(77);
    let issue = || {
        authority.issue(|params| {
            name_it(params, "raw");
            params.serial_number = Some(serial.clone());
        })
    };
    let raw = Raw::connect(Some(issue().der()), a.address())
        .await
        .expect("connected");
    raw.greet(&hello(1)).await.expect("an ack");
    a.until_up(id("raw")).await;
    let renewed = authority.identity_with("a", vec![authority.revoke(serial.clone())]);
    a.transport.renew(&renewed).expect("renewed");
    let down = TransportEvent::LinkDown {
        peer: id("raw"),
        reason: DownReason::Certificate,
    };
    assert_eq!(a.next().await, down);
    let acked = knock(Some(issue().der()), a.address()).await;
    assert!(acked.is_err(), "got {acked:?}");
    b.transport.send(a.id(), packet(b"still")).expect("queued");
    assert_eq!(a.received().await.2, b"still".as_slice());
    let other = authority.identity("other");
    assert!(a.transport.renew(&other).is_err());
}

/// The authority that the node trusts has issued each of these certificates.
#[tokio::test]
async fn a_name_of_another_trust_domain_or_form_is_no_peer() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let (domain, path) = uri("raw")
        .trim_start_matches("spiffe://")
        .split_once('/')
        .map(|(domain, path)| (domain.to_owned(), path.to_owned()))
        .expect("a path");
    for uri in [
        format!("spiffe://other.{domain}/{path}"),
        format!("spiffe://{domain}/monitor/raw"),
        format!("spiffe://{domain}/{path}/raw"),
    ] {
        let paper = authority.issue(|params| {
            let uri = uri.as_str().try_into().expect("ASCII");
            params.subject_alt_names.push(rcgen::SanType::URI(uri));
        });
        let acked = knock(Some(paper.der()), a.address()).await;
        assert!(acked.is_err(), "{uri}: {acked:?}");
    }
    assert_eq!(a.meter.read("handshake_failures_total", "not_a_peer"), 3);
    let known = knock(
        Some(authority.issue(|params| name_it(params, "raw")).der()),
        a.address(),
    );
    assert!(known.await.is_ok());
}

/// TLS has accepted the certificate, but the greeting comes after the revocation.
#[tokio::test]
async fn a_revocation_is_not_slipped_past_by_a_handshake_under_way() {
    let authority = Authority::new("one");
    let a = authority.start("a");
    let serial = SerialNumber::from(77);
    let paper = authority.issue(|params| {
        name_it(params, "raw");
        params.serial_number = Some(serial.clone());
    });
    let raw = Raw::connect(Some(paper.der()), a.address()).await;
    let raw = raw.expect("connected");
    // The server confirms the handshake only after it has accepted the client's certificate.
    let received = || raw.connection.stats().frame_rx.handshake_done > 0;
    eventually("the server has judged", received).await;
    let renewed = authority.identity_with("a", vec![authority.revoke(serial)]);
    a.transport.renew(&renewed).expect("renewed");
    let _ = raw.greet(&hello(1)).await;
    let closed = tokio::time::timeout(PATIENCE, raw.connection.closed()).await;
    assert!(closed.is_ok(), "the link stands");
    let none = || a.transport.links().is_empty();
    eventually("no link is left", none).await;
    assert_eq!(a.meter.read("accepted_total", ""), 1);
}
