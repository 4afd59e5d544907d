//! Origin signatures: a member with a certificate of its own speaks in the name of another, to
//! nodes that require signatures and to nodes that do not.

use binomesh::certificate::{Authority, Issued, Validity};
use binomesh::client::{Client, Events, SubscriptionEvent};
use binomesh::cluster::Cluster;
use binomesh::report::{Delivery, UnreachedState};
use binomesh::spiffe::node_uri;
use binomesh::{NodeReport, Seed, Signatures};
use binomesh_overlay::quic::{Identity, Notary};
use binomesh_overlay::{PeerId, Rank};
use binomesh_routing::packet::{
    Errand, Header, Packet, PacketId, Part, Payloads, Signature, Span, Topic,
};
use binomesh_routing::strategy::Strategy;
use bytes::Bytes;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType, date_time_ymd};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::bed::{self, Lone, counter, eventually, member, signal, stop};
use crate::forger::{Forger, epoch_of};

pub(crate) const TRUE: &str = "true";

fn identity(issued: &Issued, authority: &Authority) -> Identity {
    let (chain, key) = (&issued.certificate_pem, &issued.key_pem);
    let ca = authority.certificate_pem();
    Identity::from_pem(chain.as_bytes(), key.as_bytes(), ca.as_bytes(), b"").expect("valid")
}

/// The signature of a packet by the key of `issued`, a certificate of that authority.
pub(crate) fn signed(packet: &Packet<PeerId>, issued: &Issued, authority: &Authority) -> Signature {
    let notary = Notary::new(&identity(issued, authority), true).expect("a notary");
    let digest = packet.content().digest().expect("encodable");
    Signature::new(notary.sign(&digest).expect("signed")).expect("within bounds")
}

/// The first message of the origin in its present life, for the victim alone and without a
/// signature.
pub(crate) fn packet(origin: &NodeReport, victim: &NodeReport) -> Packet<PeerId> {
    let rank = |of: &NodeReport| of.rank.expect("ranked");
    let n = origin.population.expect("placed");
    let distance = (rank(victim) + n - rank(origin)) % n;
    let id = PacketId {
        origin: origin.id,
        boot: origin.boot,
        sequence: 0,
    };
    let header = Header {
        errand: Errand {
            id,
            epoch: epoch_of(origin),
            strategy: Strategy::Binomial,
            round: 0,
            part: Part::Range(Span::single(distance)),
        },
        origin_rank: Rank(rank(origin)),
        to: Rank(rank(victim)),
        closed_below: 0,
        is_kept: false,
        confirmation: Default::default(),
        topic: Topic::new("t").expect("a topic"),
        order: None,
        names: Vec::new(),
        stood: None,
        signature: None,
    };
    let payloads = Payloads::from(Bytes::from_static(TRUE.as_bytes()));
    Packet { header, payloads }
}

/// A cluster, its first two nodes, and a forger with a link to the second.
async fn bed(signatures: Signatures) -> (Cluster, NodeReport, NodeReport, Forger) {
    let mut config = bed::config(3);
    config.signatures = signatures;
    let cluster = bed::formed(config).await;
    let (reports, _) = bed::verified(&cluster).await;
    let named = |name: &str| {
        let found = reports.iter().find(|report| report.name == name);
        found.expect("a member").clone()
    };
    let (origin, victim) = (named("node-0"), named("node-1"));
    let forger = Forger::linked(&cluster, &victim).await;
    (cluster, origin, victim, forger)
}

pub(crate) async fn refused(client: &Client, reason: &str) -> u64 {
    let label = format!("reason=\"{reason}\"");
    counter(client, "binomesh_messages_refused_total", &[&label]).await
}

pub(crate) async fn next(inbox: &mut Events) -> Delivery {
    let event = tokio::time::timeout(bed::PATIENCE, inbox.next()).await;
    match event.expect("in time") {
        Some(Ok(SubscriptionEvent::Delivery(delivery))) => delivery,
        other => panic!("{other:?}"),
    }
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// A certificate of `node-0` that ends with the beginning of the year `until`, for a given key.
fn dated(ours: &Authority, key: &KeyPair, until: i32) -> Issued {
    let home = tempfile::tempdir().expect("a folder");
    ours.save(home.path(), false).expect("saved");
    let ca_key = std::fs::read_to_string(home.path().join("ca.key")).expect("readable");
    let ca_key = KeyPair::from_pem(&ca_key).expect("a key");
    let issuer = Issuer::from_ca_cert_pem(ours.certificate_pem(), ca_key).expect("an issuer");
    let mut params = CertificateParams::default();
    params.not_after = date_time_ymd(until, 1, 1);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let uri = node_uri(ours.trust_domain(), "node-0");
    params.subject_alt_names = vec![SanType::URI(uri.try_into().expect("ASCII"))];
    let certificate = params.signed_by(key, &issuer).expect("signed");
    Issued {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        authority_pem: ours.certificate_pem().to_owned(),
    }
}

/// Forgeries of a true packet that `key` has signed. Each has a description, the reason of its
/// refusal, and the forged packet.
fn forgeries(
    truth: &Packet<PeerId>,
    key: &KeyPair,
    ours: &Authority,
) -> Vec<(&'static str, &'static str, Packet<PeerId>)> {
    let mut all = Vec::new();
    let mut forge = |what, reason, change: &dyn Fn(&mut Packet<PeerId>)| {
        let mut forged = truth.clone();
        change(&mut forged);
        all.push((what, reason, forged));
    };
    let lie = || Payloads::from(Bytes::from_static(b"a lie"));
    forge("another payload", "signature", &|it| it.payloads = lie());
    forge("another topic", "signature", &|it| {
        it.header.topic = Topic::new("u").expect("a topic");
    });
    forge("another sequence", "signature", &|it| {
        it.header.errand.id.sequence = 1;
    });
    forge("another boot", "signature", &|it| {
        it.header.errand.id.boot += 1;
    });
    let days = || Validity::days(1);
    let forger = ours.issue("forger", days()).expect("issued");
    forge("its own certificate", "signature", &|it| {
        it.payloads = lie();
        it.header.signature = Some(signed(it, &forger, ours));
    });
    let theirs = Authority::generate(ours.trust_domain(), days()).expect("generated");
    let foreign = theirs.issue("node-0", days()).expect("issued");
    forge("a foreign authority", "signature", &|it| {
        it.payloads = lie();
        it.header.signature = Some(signed(it, &foreign, &theirs));
    });
    // Everything but the dates of the certificate is right.
    let expired = dated(ours, key, 2020).certificate_pem;
    let expired = CertificateDer::from_pem_slice(expired.as_bytes()).expect("PEM");
    forge("an expired certificate", "signature", &|it| {
        let good = it.header.signature.as_ref().expect("signed").bytes();
        let length = usize::from(good[2]) << 8 | usize::from(good[3]);
        let chain = [&(expired.len() as u16).to_be_bytes()[..], &expired].concat();
        let bytes = [&good[..4 + length], &chain].concat();
        it.header.signature = Signature::new(bytes.into());
    });
    forge("no signature", "unsigned", &|it| it.header.signature = None);
    all
}

#[tokio::test]
async fn a_node_that_requires_signatures_takes_nothing_that_the_origin_has_not_signed() {
    let _turn = bed::turn().await;
    let (cluster, origin, victim, forger) = bed(Signatures::Require).await;
    let ours = cluster.authority();
    // This certificate is as good as the origin's own.
    let key = KeyPair::generate().expect("a key");
    let same = dated(ours, &key, 4000);
    let mut truth = packet(&origin, &victim);
    truth.header.signature = Some(signed(&truth, &same, ours));
    let client = member(&cluster, "node-1").client();
    let mut inbox = client.subscribe("#").await.expect("subscribed");
    for (what, reason, forged) in forgeries(&truth, &key, ours) {
        let before = refused(&client, reason).await;
        forger.hand(victim.id, forged);
        eventually(what, async || {
            (refused(&client, reason).await == before + 1).then_some(())
        })
        .await;
    }
    let log = std::fs::read_to_string(cluster.log_file("node-1")).expect("a log");
    let told = log.matches("a message of a peer was refused").count();
    assert_eq!(told, 2, "once for each reason: {log}");

    // The origin's own message has the id of the packet that was forged. It is still delivered,
    // once and signed.
    let sender = member(&cluster, "node-0").client();
    let receipt = sender.broadcast("t", TRUE, None).await.expect("a receipt");
    assert!(receipt.is_complete(), "{receipt:?}");
    let first = next(&mut inbox).await;
    assert_eq!((&first.id, &first.blake3), (&receipt.id, &hash(TRUE)));
    assert!(first.signed && first.sequence == 0, "{first:?}");
    // A copy of the true packet counts as a duplicate, even if the forger hands it on.
    let copies = async || {
        let labels = ["event=\"duplicates\""];
        counter(&client, "binomesh_relay_events_total", &labels).await
    };
    let before = copies().await;
    forger.hand(victim.id, truth);
    eventually("the true copy is taken for one", async || {
        (copies().await == before + 1).then_some(())
    })
    .await;
    let receipt = sender.broadcast("t", "next", None).await;
    let receipt = receipt.expect("a receipt");
    assert_eq!(next(&mut inbox).await.id, receipt.id);
    stop(cluster).await;
}

/// `docs/relay.md` names this lie: a packet in the name of another member. With the setting `off` a
/// node believes an unsigned packet, and takes the true message for a copy of it. A bad signature
/// is refused all the same.
#[tokio::test]
async fn without_signatures_any_sender_of_a_copy_is_believed() {
    let _turn = bed::turn().await;
    let (cluster, origin, victim, forger) = bed(Signatures::Off).await;
    let client = member(&cluster, "node-1").client();
    let mut inbox = client.subscribe("#").await.expect("subscribed");
    let mut forged = packet(&origin, &victim);
    forged.payloads = Payloads::from(Bytes::from_static(b"a lie"));
    let mut badly_signed = forged.clone();
    badly_signed.header.signature = Signature::new(Bytes::from_static(b"nonsense"));
    forger.hand(victim.id, badly_signed);
    eventually("it is refused", async || {
        (refused(&client, "signature").await == 1).then_some(())
    })
    .await;
    forger.hand(victim.id, forged);
    let first = next(&mut inbox).await;
    assert_eq!((&*first.origin, &first.blake3), ("node-0", &hash("a lie")));
    assert!(!first.signed, "{first:?}");
    let sender = member(&cluster, "node-0").client();
    let receipt = sender.broadcast("t", TRUE, None).await.expect("a receipt");
    assert!(receipt.is_complete(), "{receipt:?}");
    assert_eq!(receipt.id, first.id);
    let last = sender.broadcast("t", "next", None).await;
    let last = last.expect("a receipt");
    assert_eq!(
        next(&mut inbox).await.id,
        last.id,
        "the true one never came"
    );
    stop(cluster).await;
}

/// The nodes of a cluster have different settings, as while the setting is changed at one node
/// after the other. All nodes understand signed messages. Only the node that requires signatures
/// refuses unsigned messages, for good. A renewed key signs from its renewal on.
#[tokio::test]
async fn nodes_that_sign_require_or_do_neither_work_together_as_stated() {
    let _turn = bed::turn().await;
    let dir = tempfile::tempdir().expect("a folder");
    let authority = Authority::generate("test.local", Validity::days(1)).expect("generated");
    let mut parent: Option<Seed> = None;
    let mut nodes = Vec::new();
    for (name, signatures) in [
        ("off", Signatures::Off),
        ("sign", Signatures::Sign),
        ("require", Signatures::Require),
    ] {
        let mut node = Lone::prepare(dir.path(), name, &authority);
        node.config.signatures = signatures;
        node.config.parent.clone_from(&parent);
        let member = node.start().await;
        parent.get_or_insert(Seed {
            name: member.name.clone(),
            address: member.address.into(),
        });
        nodes.push((node, member));
    }
    for (node, _) in &nodes {
        let client = node.client();
        eventually("all are members", async || {
            let status = client.status().await.ok()?;
            (status.healthy && status.population == Some(3)).then_some(())
        })
        .await;
    }
    let mut inboxes = Vec::new();
    for (node, _) in &nodes {
        inboxes.push(node.client().subscribe("#").await.expect("subscribed"));
    }
    let send = async |from: usize| {
        let client = nodes[from].0.client();
        let sending = client.broadcast("t", "x", None);
        let receipt = tokio::time::timeout(bed::PATIENCE, sending).await;
        receipt.expect("in time").expect("a receipt")
    };

    let receipt = send(0).await;
    let [line] = &receipt.unreached[..] else {
        panic!("{receipt:?}");
    };
    assert_eq!((&*line.name, &*line.reason), ("require", "unsigned"));
    assert_eq!(line.state, UnreachedState::Refused);
    let delivery = next(&mut inboxes[1]).await;
    assert!(
        delivery.id == receipt.id && !delivery.signed,
        "{delivery:?}"
    );

    for from in [1, 2, 1] {
        let receipt = send(from).await;
        assert!(receipt.is_complete(), "{receipt:?}");
        for (at, inbox) in inboxes.iter_mut().enumerate() {
            if at != from {
                let delivery = next(inbox).await;
                assert!(delivery.id == receipt.id && delivery.signed, "{delivery:?}");
            }
        }
        // The node `sign` gets a new key after each message. So it signs the third message with
        // another key than the first.
        let renewed = authority.issue("sign", Validity::days(1)).expect("issued");
        renewed.save(&dir.path().join("sign"), true).expect("saved");
        let before = nodes[1].0.log().matches("credentials renewed").count();
        signal(nodes[1].1.pid, "HUP");
        eventually("renewed", async || {
            let now = nodes[1].0.log().matches("credentials renewed").count();
            (now > before).then_some(())
        })
        .await;
    }
    for (node, _) in nodes {
        assert_eq!(node.terminate().await, Some(0));
    }
}
