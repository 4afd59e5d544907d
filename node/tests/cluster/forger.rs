//! A process with a valid certificate and no place in the overlay sends messages which no state
//! machine would send. Nodes must refuse them or mend the forged state, and a planted bug that
//! prevents this must show.

use std::time::Duration;

use binomesh::NodeReport;
use binomesh::certificate::{Authority, Validity};
use binomesh::cluster::{Cluster, ClusterConfig};
#[cfg(feature = "planted")]
use binomesh::verify;
use binomesh_overlay::fingers::Message as Finger;
use binomesh_overlay::quic::{
    Class, Contact, Events, Frame, Identity, Notary, SendError, SlotKey, Transport,
    TransportConfig, TransportEvent, TransportLimits,
};
use binomesh_overlay::stamp::Mark;
use binomesh_overlay::{Epoch, Message, PeerId, Rank, ring};
use binomesh_routing::packet::Packet;
use binomesh_routing::wire;

use crate::bed::{self, eventually, member, now, stop};

/// The version of the maintenance messages.
const VERSION: u8 = 3;

pub(crate) struct Forger {
    id: PeerId,
    notary: Notary,
    transport: Transport,
    _events: Events,
}

impl Forger {
    /// Opens a link to `victim`, and joins no overlay.
    pub(crate) async fn linked(cluster: &Cluster, victim: &NodeReport) -> Self {
        Self::linked_by(cluster.authority(), victim).await
    }

    /// As [`Forger::linked`], with a certificate of this authority.
    pub(crate) async fn linked_by(authority: &Authority, victim: &NodeReport) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let issued = authority.issue("forger", Validity::days(1));
        issued
            .expect("issued")
            .save(home.path(), true)
            .expect("saved");
        let read = |name: &str| std::fs::read(home.path().join(name)).expect("readable");
        let (chain, key, ca) = (read("node.pem"), read("node.key"), read("ca.pem"));
        let identity = Identity::from_pem(&chain, &key, &ca, b"").expect("an identity");
        let id = identity.id();
        let notary = Notary::new(&identity, false).expect("a notary");
        let config = TransportConfig {
            identity,
            bind: vec![([127, 0, 0, 1], 0).into()],
            advertised: Vec::new(),
            metrics: None,
            boot: 1,
            node_secret: [7; 32],
            limits: TransportLimits::default(),
        };
        let (transport, mut events) = Transport::bind(config).expect("bound");
        let contact = Contact {
            id: victim.id,
            name: victim.name.clone(),
            addresses: vec![victim.address],
            metrics: None,
        };
        transport.add_contact(contact).expect("a contact");
        transport.connect(victim.id);
        loop {
            match events.recv().await {
                Some(TransportEvent::LinkUp { .. }) => break,
                Some(_) => {}
                None => panic!("the transport ended"),
            }
        }
        Self {
            id,
            notary,
            transport,
            _events: events,
        }
    }

    /// Hand on a copy of a message.
    pub(crate) fn hand(&self, to: PeerId, packet: Packet<PeerId>) {
        self.try_hand(to, packet).expect("queued");
    }

    /// Hand on a copy of a message, if there is room.
    pub(crate) fn try_hand(&self, to: PeerId, packet: Packet<PeerId>) -> Result<(), SendError> {
        let (head, payload) =
            wire::encode(&binomesh_routing::Message::Packet(Box::new(packet))).expect("encodable");
        let frame = Frame {
            class: Class::Packet,
            head,
            payload,
            introduces: Vec::new(),
            merge: None,
        };
        self.transport.send(to, frame)
    }

    /// The forger's signature of its own goodbye.
    pub(crate) fn goodbye(&self, boot: u64) -> Vec<u8> {
        self.notary.sign_goodbye(boot).expect("signed").to_vec()
    }

    pub(crate) fn say(&self, to: PeerId, message: impl Into<Message<PeerId>>) {
        let message = message.into();
        let slot = message.slot();
        let head = postcard::to_extend(&message, vec![VERSION]).expect("encodable");
        let frame = Frame {
            class: Class::Maintenance(SlotKey {
                kind: slot.kind,
                level: slot.level,
                subject: slot.subject,
            }),
            head: head.into(),
            payload: Default::default(),
            introduces: Vec::new(),
            merge: None,
        };
        self.transport.send(to, frame).expect("queued");
    }
}

/// Parses the epoch in a report.
pub(crate) fn epoch_of(report: &NodeReport) -> Epoch<PeerId> {
    let text = report.epoch.as_ref().expect("an epoch");
    let mut parts = text.split('-');
    let mut next = || parts.next().expect("four parts");
    Epoch {
        root: next().parse().expect("an id"),
        boot: next().parse().expect("a number"),
        counter: next().parse().expect("a number"),
        nonce: u64::from_str_radix(next(), 16).expect("hexadecimal"),
    }
}

#[cfg(feature = "planted")]
fn plant(config: &mut ClusterConfig, bug: &str) {
    config.planted = Some(bug.to_owned());
}

#[cfg(not(feature = "planted"))]
fn plant(_: &mut ClusterConfig, bug: &str) {
    panic!("{bug} needs the feature `planted`");
}

async fn cluster(planted: Option<&str>) -> (Cluster, Vec<NodeReport>) {
    let mut config = bed::config(6);
    if let Some(bug) = planted {
        plant(&mut config, bug);
    }
    let cluster = bed::formed(config).await;
    let (reports, _) = bed::verified(&cluster).await;
    (cluster, reports)
}

#[cfg(feature = "planted")]
async fn reports(cluster: &Cluster) -> Vec<NodeReport> {
    let mut reports = Vec::new();
    for member in cluster.live() {
        reports.extend(member.client().topology().await);
    }
    reports
}

/// Whether the cluster verifies at one of the looks of the next five seconds.
#[cfg(feature = "planted")]
async fn ever_verifies(cluster: &Cluster) -> bool {
    let until = now() + Duration::from_secs(5);
    while now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if verify::verify(&reports(cluster).await, 6).is_ok() {
            return true;
        }
    }
    false
}

/// Tell the root that a wrong member stands two places before it.
fn forge_finger(forger: &Forger, reports: &[NodeReport]) {
    let at = |rank| {
        reports
            .iter()
            .find(|r| r.rank == Some(rank))
            .expect("ranked")
    };
    let (root, wrong) = (at(0), at(3));
    let epoch = epoch_of(root);
    let (level, rank, subject) = (1, Rank(4), wrong.id);
    let mark = Mark { epoch, rank };
    forger.say(
        root.id,
        Finger::Up {
            level,
            subject,
            mark,
        },
    );
}

async fn finger_is_wrong(cluster: &Cluster, root: &NodeReport, wrong: &str) -> bool {
    let report = member(cluster, &root.name).client().topology().await;
    report.is_ok_and(|report| report.counterclockwise[1].as_deref() == Some(wrong))
}

#[tokio::test]
async fn a_forged_finger_is_mended_by_the_visits() {
    let _turn = bed::turn().await;
    let (cluster, reports) = cluster(None).await;
    let at = |rank| reports.iter().find(|r| r.rank == Some(rank));
    let (root, wrong) = (at(0).expect("a root"), at(3).expect("ranked"));
    let forger = Forger::linked(&cluster, root).await;
    eventually("the forged finger is seen", async || {
        // The finger may be mended before the test looks at it.
        forge_finger(&forger, &reports);
        finger_is_wrong(&cluster, root, &wrong.name)
            .await
            .then_some(())
    })
    .await;
    bed::verified(&cluster).await;
    stop(cluster).await;
}

#[tokio::test]
async fn a_stranger_cannot_become_the_roots_predecessor() {
    let _turn = bed::turn().await;
    let (cluster, reports) = cluster(None).await;
    let root = reports.iter().find(|r| r.rank == Some(0)).expect("a root");
    let forger = Forger::linked(&cluster, root).await;
    let client = member(&cluster, &root.name).client();
    let until = now() + Duration::from_secs(5);
    while now() < until {
        forger.say(root.id, ring::Message::Info(forger.id));
        let report = client.topology().await.expect("an answer");
        assert_ne!(report.predecessor.as_deref(), Some("forger"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The root got all messages of the forger, over one link, and refused none as malformed.
    let links = forger.transport.links();
    let heard = links.iter().map(|link| link.frames_out).sum::<u64>();
    assert!(heard > 50 && links.len() == 1, "{links:?}");
    let refused = bed::counter(&client, "binomesh_messages_refused_total", &[]).await;
    assert_eq!(refused, 0);
    bed::verified(&cluster).await;
    stop(cluster).await;
}

#[cfg(feature = "planted")]
#[tokio::test]
async fn planted_missing_refresh_goes_red_in_a_real_cluster() {
    let _turn = bed::turn().await;
    let (cluster, reports) = cluster(Some("missing-refresh")).await;
    let at = |rank| {
        reports
            .iter()
            .find(|r| r.rank == Some(rank))
            .expect("ranked")
    };
    let forger = Forger::linked(&cluster, at(0)).await;
    // With the bug each node still refreshes its fingers once. A finger that is forged after that
    // stays.
    let mut stays = false;
    for _ in 0..3 {
        eventually("the forged finger is seen", async || {
            // The finger may be mended before the test looks at it.
            forge_finger(&forger, &reports);
            let root = at(0);
            let is_wrong = finger_is_wrong(&cluster, root, &at(3).name).await;
            is_wrong.then_some(())
        })
        .await;
        stays |= !ever_verifies(&cluster).await;
        if stays {
            break;
        }
    }
    assert!(stays, "it was mended each time");
    stop(cluster).await;
}

#[cfg(feature = "planted")]
#[tokio::test]
async fn planted_rule_4_guard_goes_red_in_a_real_cluster() {
    let _turn = bed::turn().await;
    let (cluster, reports) = cluster(Some("rule-4-guard")).await;
    let root = reports.iter().find(|r| r.rank == Some(0)).expect("a root");
    let forger = Forger::linked(&cluster, root).await;
    let taken = eventually("the stranger is taken as predecessor", async || {
        forger.say(root.id, ring::Message::Info(forger.id));
        let report = member(&cluster, &root.name)
            .client()
            .topology()
            .await
            .ok()?;
        (report.predecessor.as_deref() == Some("forger")).then_some(report)
    })
    .await;
    assert_eq!(taken.rank, Some(0));
    stop(cluster).await;
}
