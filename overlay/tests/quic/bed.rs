//! Fixtures of the transport tests: authorities, nodes and counters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::{
    Class, Contact, Events, Frame, Identity, PlainClass, SlotKey, Transport, TransportConfig,
    TransportEvent, TransportLimits,
};
use bytes::Bytes;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};

use crate::raw_client::Papers;

/// Long enough for a loaded machine; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
}

/// A certificate and its key, in DER and in PEM.
pub(crate) struct Paper {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
}

impl Paper {
    pub(crate) fn der(self) -> Papers {
        (self.certificate, self.key)
    }
}

pub(crate) fn uri(name: &str) -> String {
    format!("spiffe://test/node/{name}")
}

pub(crate) fn id(name: &str) -> PeerId {
    PeerId::of_uri(&uri(name))
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Paper {
        self.issue_with(KeyPair::generate().expect("a key"), change)
    }

    pub(crate) fn issue_with(
        &self,
        key: KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Paper {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Paper {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    pub(crate) fn issue_to(&self, name: &str) -> Paper {
        self.issue(|params| name_it(params, name))
    }

    pub(crate) fn revoke(&self, serial: SerialNumber) -> CertificateRevocationListDer<'static> {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: serial,
                revocation_time: date_time_ymd(2024, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("signed");
        list.der().clone()
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.identity_with(name, Vec::new())
    }

    pub(crate) fn identity_with(
        &self,
        name: &str,
        revocations: Vec<CertificateRevocationListDer<'static>>,
    ) -> Identity {
        let paper = self.issue_to(name);
        let roots = vec![self.certificate.clone()];
        Identity::from_der(vec![paper.certificate], paper.key, roots, revocations)
            .expect("a valid identity")
    }

    /// A configuration with brief pauses.
    pub(crate) fn config(&self, name: &str) -> TransportConfig {
        TransportConfig {
            identity: self.identity(name),
            bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            advertised: Vec::new(),
            metrics: None,
            boot: 1,
            node_secret: *id(name).as_bytes().repeat(2).first_chunk().expect("32"),
            limits: TransportLimits {
                redial_first: Duration::from_millis(20),
                redial_max: Duration::from_millis(200),
                ..TransportLimits::default()
            },
        }
    }

    pub(crate) fn start(&self, name: &str) -> Node {
        Node::start(self.config(name))
    }
}

pub(crate) fn name_it(params: &mut CertificateParams, name: &str) {
    let uri = uri(name).try_into().expect("ASCII");
    params.subject_alt_names.push(SanType::URI(uri));
}

/// A transport with its events and its own counters.
pub(crate) struct Node {
    pub(crate) transport: Transport,
    pub(crate) events: Events,
    pub(crate) meter: Meter,
}

impl Node {
    pub(crate) fn start(config: TransportConfig) -> Self {
        let meter = Meter::default();
        let bound = with_local_recorder(&meter, || Transport::bind(config));
        let (transport, events) = bound.expect("bound");
        Self {
            transport,
            events,
            meter,
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        self.transport.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.transport.local_addresses()[0]
    }

    pub(crate) fn knows(&self, other: &Node) {
        self.knows_at(other.id(), other.address());
    }

    pub(crate) fn knows_at(&self, id: PeerId, address: SocketAddr) {
        let contact = Contact {
            id,
            name: "configured".to_owned(),
            addresses: vec![address],
            metrics: None,
        };
        self.transport.add_contact(contact).expect("room");
    }

    pub(crate) async fn next(&mut self) -> TransportEvent {
        let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        next.expect("an event in time").expect("open")
    }

    /// The first event that `wanted` takes. Earlier events are dropped.
    pub(crate) async fn until<T>(
        &mut self,
        mut wanted: impl FnMut(TransportEvent) -> Option<T>,
    ) -> T {
        loop {
            if let Some(found) = wanted(self.next().await) {
                return found;
            }
        }
    }

    pub(crate) async fn until_up(&mut self, id: PeerId) -> u64 {
        self.until(|event| match event {
            TransportEvent::LinkUp { peer, boot } if peer == id => Some(boot),
            _ => None,
        })
        .await
    }

    pub(crate) async fn received(&mut self) -> (PeerId, PlainClass, Bytes) {
        self.until(|event| match event {
            TransportEvent::Received {
                peer, class, body, ..
            } => Some((peer, class, body)),
            _ => None,
        })
        .await
    }
}

/// Waits until `is_true`, for conditions that no event tells.
pub(crate) async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

pub(crate) fn packet(body: &[u8]) -> Frame {
    frame(Class::Packet, body)
}

pub(crate) fn slot(kind: u8, body: &[u8]) -> Frame {
    let key = SlotKey {
        kind,
        level: 0,
        subject: None,
    };
    frame(Class::Maintenance(key), body)
}

pub(crate) fn frame(class: Class, body: &[u8]) -> Frame {
    Frame {
        class,
        head: Bytes::new(),
        payload: Bytes::copy_from_slice(body),
        introduces: Vec::new(),
        merge: None,
    }
}

/// Counters by name and `reason` or `class`. Each node has a meter of its own.
#[derive(Clone, Default)]
pub(crate) struct Meter {
    counters: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
}

impl Meter {
    pub(crate) fn read(&self, name: &str, label: &str) -> u64 {
        let counters = self.counters.lock().expect("not poisoned");
        let counter = counters.get(&format!("binomesh_transport_{name}|{label}"));
        counter.expect("a counter").load(Ordering::Relaxed)
    }

    fn handle(&self, key: &Key) -> Arc<AtomicU64> {
        let label = key.labels().next().map_or("", |label| label.value());
        let name = format!("{}|{label}", key.name());
        let mut counters = self.counters.lock().expect("not poisoned");
        counters.entry(name).or_default().clone()
    }
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
