//! A member with a valid certificate hands on what its origin has never said.

use std::path::Path;

use binomesh::client::{Client, Events, SubscriptionEvent};
use binomesh::cluster::Cluster;
use binomesh::{Delivery, NodeReport, SendOptions, Signatures};
use binomesh_overlay::quic::{Identity, Notary};
use binomesh_overlay::{PeerId, Rank};
use binomesh_routing::Topic;
use binomesh_routing::packet::{
    Confirmation, Errand, Header, Packet, PacketId, Part, Payloads, Signature, Span,
};
use binomesh_routing::strategy::Strategy;

use crate::bed::{self, PATIENCE, counter, eventually, member, stop, verified};
use crate::forger::{Forger, epoch_of, identity, stranger};

const ORIGIN: &str = "node-1";
const VICTIM: &str = "node-3";

async fn cluster(signatures: Signatures) -> (Cluster, Vec<NodeReport>) {
    let mut config = bed::config(4);
    config.signatures = signatures;
    let cluster = bed::formed(config).await;
    let (reports, _) = verified(&cluster).await;
    (cluster, reports)
}

fn report<'a>(reports: &'a [NodeReport], name: &str) -> &'a NodeReport {
    let found = reports.iter().find(|report| report.name == name);
    found.expect("a report")
}

fn home(cluster: &Cluster, name: &str) -> Identity {
    identity(&Path::new(cluster.dir()).join(name))
}

/// A copy for the victim alone of a message in the name of the origin.
fn copy(
    reports: &[NodeReport],
    sequence: u64,
    topic: &str,
    payload: &'static str,
) -> Packet<PeerId> {
    let (origin, victim) = (report(reports, ORIGIN), report(reports, VICTIM));
    let rank = |report: &NodeReport| report.rank.expect("ranked");
    let count = reports.len() as u32;
    let distance = (rank(victim) + count - rank(origin)) % count;
    let id = PacketId {
        origin: origin.id,
        boot: origin.boot,
        sequence,
    };
    let errand = Errand {
        id,
        epoch: epoch_of(origin),
        strategy: Strategy::Binomial,
        round: 0,
        part: Part::Range(Span::new(distance, distance + 1)),
    };
    let header = Header {
        errand,
        origin_rank: Rank(rank(origin)),
        to: Rank(rank(victim)),
        closed_below: 0,
        is_kept: false,
        confirmation: Confirmation::Relayed,
        topic: Topic::new(topic).expect("a topic"),
        names: Vec::new(),
        signature: None,
    };
    let payloads = Payloads::from(bytes::Bytes::from_static(payload.as_bytes()));
    Packet { header, payloads }
}

fn sign(packet: &mut Packet<PeerId>, by: &Identity) {
    let notary = Notary::new(by, true).expect("a notary");
    let digest = packet.content().digest().expect("a digest");
    packet.header.signature = notary.sign(&digest).and_then(Signature::new);
    assert!(packet.header.signature.is_some());
}

async fn next(inbox: &mut Events) -> Delivery {
    let event = tokio::time::timeout(PATIENCE, inbox.next()).await;
    match event.expect("in time") {
        Some(Ok(SubscriptionEvent::Delivery(delivery))) => delivery,
        other => panic!("{other:?}"),
    }
}

async fn refused(client: &Client, reason: &str, count: u64) {
    let name = "binomesh_messages_refused_total";
    eventually(reason, async || {
        (counter(client, name, &[reason]).await >= count).then_some(())
    })
    .await;
}

/// Everything that can be forged of a message is refused and leaves no trace: the true one
/// with the same name is delivered, once, and its receipt is complete.
#[tokio::test]
async fn what_its_origin_has_not_signed_is_refused_and_the_true_message_comes() {
    let _alone = bed::alone().await;
    let (cluster, reports) = cluster(Signatures::Require).await;
    let victim = member(&cluster, VICTIM).client();
    let mut inbox = victim.subscribe("#").await.expect("subscribed");
    let forger = Forger::linked(&cluster, report(&reports, VICTIM)).await;
    let to = report(&reports, VICTIM).id;

    // The names of what the origin will publish next.
    let forged = |sequence| copy(&reports, sequence, "news", "forged");
    (0..2).for_each(|sequence| forger.hand(to, forged(sequence)));
    refused(&victim, "reason=\"unsigned\"", 2).await;

    let own = stranger(&cluster);
    let true_one = home(&cluster, ORIGIN);
    let mut by_another = forged(0);
    sign(&mut by_another, &own);
    // What the origin has signed once, changed on its way.
    let mut signed = copy(&reports, 0, "news", "true");
    sign(&mut signed, &true_one);
    let mut payload = signed.clone();
    payload.payloads = bytes::Bytes::from_static(b"changed").into();
    let mut topic = signed.clone();
    topic.header.topic = Topic::new("other").expect("a topic");
    let mut sequence = signed.clone();
    sequence.header.errand.id.sequence = 1;
    let mut asking = signed.clone();
    asking.header.confirmation = Confirmation::Acknowledged;
    let mut noise = signed.clone();
    noise.header.signature = Signature::new(vec![7; 600].into());
    let all = [by_another, payload, topic, sequence, asking, noise];
    let count = all.len() as u64;
    all.into_iter().for_each(|packet| forger.hand(to, packet));
    refused(&victim, "reason=\"signature\"", count).await;

    let origin = member(&cluster, ORIGIN).client();
    for text in ["first", "second"] {
        let receipt = origin.broadcast_with(text, &SendOptions::default()).await;
        let receipt = receipt.expect("accepted");
        assert_eq!(receipt.reached_count, 3, "{receipt:?}");
    }
    for text in ["first", "second"] {
        let delivery = next(&mut inbox).await;
        let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
        assert_eq!((delivery.blake3, delivery.signed), (blake3, true));
    }
    stop(cluster).await;
}

/// Without signatures whoever hands a message on is believed about what is in it.
#[tokio::test]
async fn without_signatures_the_same_forgery_is_believed() {
    let _alone = bed::alone().await;
    let (cluster, reports) = cluster(Signatures::Off).await;
    let victim = member(&cluster, VICTIM).client();
    let mut inbox = victim.subscribe("#").await.expect("subscribed");
    let forger = Forger::linked(&cluster, report(&reports, VICTIM)).await;
    forger.hand(
        report(&reports, VICTIM).id,
        copy(&reports, 0, "news", "forged"),
    );
    let delivery = next(&mut inbox).await;
    let blake3 = blake3::hash(b"forged").to_hex().to_string();
    assert_eq!((delivery.blake3, delivery.signed), (blake3, false));
    assert_eq!(delivery.origin, ORIGIN);

    // A signature that is there is judged all the same.
    let mut signed = copy(&reports, 1, "news", "true");
    sign(&mut signed, &stranger(&cluster));
    forger.hand(report(&reports, VICTIM).id, signed);
    refused(&victim, "reason=\"signature\"", 1).await;
    stop(cluster).await;
}
