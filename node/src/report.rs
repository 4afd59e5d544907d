//! The reports of a node on itself and on its broadcasts: plain data, the same in the library, in
//! the admin API and on standard output.
//!
//! Peers go by name; a peer whose name is not known yet goes by its hexadecimal id.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use binomesh_overlay::{Epoch, PeerId};
use binomesh_routing::Order;
use serde::{Deserialize, Serialize};

use crate::expiry::CredentialTerm;

/// One node's view of itself: an element of `topology --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node's configured name.
    pub name: String,
    /// The node's lasting identity.
    #[serde(with = "hex")]
    pub id: PeerId,
    /// The id of the node's process.
    pub pid: u32,
    /// The number of the life of the node's process.
    pub boot: u64,
    /// The address that the node tells other nodes.
    pub address: SocketAddr,
    /// The node's rank, its position in the ring, if it has a place.
    pub rank: Option<u32>,
    /// The epoch that `rank` belongs to; see [`epoch_name`].
    pub epoch: Option<String>,
    /// The number of members of the epoch that `rank` belongs to.
    pub population: Option<u32>,
    /// The parent in the deployment tree; none for the root.
    pub parent: Option<String>,
    /// The children in the order of their places.
    pub children: Vec<String>,
    /// The next node in the ring.
    pub successor: Option<String>,
    /// The node before this one in the ring.
    pub predecessor: Option<String>,
    /// The clockwise fingers: level i is the node 2^i places ahead, or `null` while unknown.
    /// Duplicates are kept, and a lone node has no level.
    pub clockwise: Vec<Option<String>>,
    /// The counterclockwise fingers: level i is the node 2^i places behind.
    pub counterclockwise: Vec<Option<String>>,
    /// The peers with a live, mutually authenticated link, each once.
    pub links: Vec<String>,
    /// The peers that this node takes for down: silent neighbours, and peers that others call down.
    #[serde(default)]
    pub down: Vec<String>,
    /// The peers that this node should reach and cannot, while other members can: a third member
    /// carries the messages to them.
    #[serde(default)]
    pub relayed: Vec<String>,
    /// The peers among those in `down` that have said goodbye and are not back.
    #[serde(default)]
    pub left: Vec<String>,
    /// The peers that keep messages waiting at this node, the slowest first; at most
    /// [`SlowPeer::MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowPeer>,
    /// The peers of the settings `peers` and `neighbours` that are no members and have never had a
    /// link to this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// The advertised addresses that the node's host had and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses_gone: Vec<SocketAddr>,
    /// Whether this node has a place, and all entries of its tables are set, and linked unless they
    /// are called down.
    pub healthy: bool,
    /// Whether the node's overlay is the cluster's: it is no island that has not met the cluster,
    /// and the node is not alone after the loss of others.
    pub anchored: bool,
    /// Whether the node is healthy and anchored, and is not leaving.
    pub ready: bool,
    /// Why the node is not ready; if it does not find the cluster, also why contacts refuse it.
    pub reason: Option<String>,
    /// The number of former members that went without a goodbye and are not back: they are dead, or
    /// on the other side of a partition.
    pub lost_count: u32,
    /// How long the node's credentials are still valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialTerm>,
}

/// A peer that keeps messages waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowPeer {
    /// The peer's name.
    pub name: String,
    /// The number of parts of messages that the peer has not answered in time.
    pub late: usize,
    /// The number of copies that wait until the peer has answered others, or until their turn.
    pub held_back: usize,
    /// The bytes of the copies that are on their way to the peer.
    pub bytes: u64,
}

impl SlowPeer {
    /// The most slow peers that a report names.
    pub const MAX: usize = 8;
}

/// The text by which reports name an epoch: the root, its boot, a count and a random number.
pub fn epoch_name(epoch: &Epoch<PeerId>) -> String {
    let Epoch {
        root,
        boot,
        counter,
        nonce,
    } = epoch;
    format!("{root}-{boot}-{counter}-{nonce:016x}")
}

/// The place of a node, as [`Node::placement`](crate::Node::placement) reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementView {
    /// The epoch; see [`epoch_name`].
    pub epoch: String,
    /// The number of members of the epoch.
    pub population: u32,
    /// The rank of this node, counted from the root.
    pub rank: u32,
    /// Whether every finger of this epoch is set, and linked unless it is called down, and the node
    /// is not leaving.
    pub settled: bool,
    /// Whether the overlay is the cluster's rather than an island.
    pub anchored: bool,
}

/// The outcome of one message at the members that were to get it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The message's id, the same at every receiver.
    pub id: String,
    /// The epoch whose members were addressed.
    pub epoch: Arc<str>,
    /// The member that sent the message.
    pub origin: Arc<str>,
    /// The number of members that were to get the message. The origin is not counted.
    pub expected_count: u32,
    /// The number of members that confirmed the message's delivery.
    pub reached_count: u32,
    /// The names of the members that confirmed the message's delivery.
    pub reached: Arc<[String]>,
    /// The members that did not confirm, and why.
    pub unreached: Vec<Unreached>,
    /// Hosts of the inventory that were no members.
    pub absent: Vec<Absent>,
    /// The number of parts of the message's tree that were given to another member because their
    /// delegate, the member that was to serve them, was late.
    pub redelegated: u32,
    /// The delegates whose parts of the message's tree were given to another member: they were dead
    /// or late, or refused. At most 64 are named.
    #[serde(default)]
    pub replaced: Vec<String>,
    /// What each receiver had to confirm: `relayed`, `delivered` or `acknowledged`.
    #[serde(default = "relayed")]
    pub confirmation: Cow<'static, str>,
    /// The answers of applications. Equal answers are one entry, and the most frequent comes first.
    #[serde(default)]
    pub replies: Vec<Reply>,
    /// The members whose nodes have the message but did not confirm what was asked.
    #[serde(default)]
    pub unacknowledged: Vec<Unacknowledged>,
    /// The time from the acceptance of the message to this receipt.
    pub elapsed_seconds: f64,
}

const fn relayed() -> Cow<'static, str> {
    Cow::Borrowed("relayed")
}

/// An answer, and the members that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The number of members that gave this answer.
    pub count: u32,
    /// The names of the members that gave this answer.
    pub names: Vec<String>,
    /// The length of the answer in bytes.
    pub size_bytes: u64,
    /// The answer itself; at most [`Reply::MAX_BYTES`].
    #[serde(rename = "reply_base64", with = "in_base64")]
    pub reply: Vec<u8>,
}

impl Reply {
    /// The most bytes of an answer. A guess: a few lines of a command's output. Each origin holds
    /// the answers of all members in memory.
    pub const MAX_BYTES: usize = 4096;
}

/// A receiver whose node has the message, but which did not confirm what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unacknowledged {
    /// The receiver's name.
    pub name: String,
    /// The reason: `no-subscriber` there, `missed` by subscribers that do not read, `no-answer` in
    /// time, `down` while its answer was awaited, or `no-room` for the answer at this node.
    pub reason: String,
}

mod in_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

impl Receipt {
    /// Whether every expected member was reached and confirmed what was asked, and no host of the
    /// inventory was absent.
    pub fn is_complete(&self) -> bool {
        self.unreached.is_empty() && self.absent.is_empty() && self.unacknowledged.is_empty()
    }
}

/// A member that did not confirm a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreached {
    /// The member's name.
    pub name: String,
    /// The member's identity, if known.
    #[serde(with = "optional_hex")]
    pub id: Option<PeerId>,
    /// The member's rank in the receipt's epoch, if it had one.
    pub rank: Option<u32>,
    /// Whether it may have delivered the message.
    pub state: UnreachedState,
    /// The reason, such as `down`.
    pub reason: String,
}

/// Whether a member that did not confirm may have delivered the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnreachedState {
    /// The member refused the message and did not deliver it.
    Refused,
    /// The member may have delivered the message.
    Unconfirmed,
}

/// A host of the inventory that is no member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// The host's name.
    pub name: String,
    /// How long ago the host was last a member; `null` if it has not been one in the lifetime of
    /// this node's process.
    pub last_seen_seconds: Option<f64>,
    /// Whether the host has said goodbye; otherwise nobody knows why it is away.
    #[serde(default)]
    pub left: bool,
}

/// One delivered message, as `subscribe` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The message's id, the same as in its receipt.
    pub id: String,
    /// The member that sent the message.
    pub origin: String,
    /// The number of the message among the origin's messages.
    pub sequence: u64,
    /// The topic on which the message was published.
    pub topic: String,
    /// Whether the origin signed the message, and the node verified the signature.
    #[serde(default)]
    pub signed: bool,
    /// The place of the message among its origin's ordered messages, if it was published in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Whether the message was reported as missing before, and comes behind later messages.
    #[serde(default)]
    pub late: bool,
    /// Whether the message's origin waits for an answer of the application.
    #[serde(default)]
    pub wants_reply: bool,
    /// The payload's length.
    pub size_bytes: u64,
    /// The payload's BLAKE3 hash in hexadecimal.
    pub blake3: String,
    /// The payload.
    pub payload_base64: String,
}

/// Ordered messages that are missing in their place, as `subscribe --ordered` prints them: they are
/// lost for this subscriber, or come late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapView {
    /// The member that published the missing messages.
    pub origin: String,
    /// The life of the publisher's process.
    pub boot: u64,
    /// The number of the publisher's stream: it has one per topic and destinations.
    pub stream: u64,
    /// The topic on which the missing messages were published.
    pub topic: String,
    /// The number of the first missing message in its stream.
    pub from: u64,
    /// The number of the last missing message in its stream.
    pub to: u64,
    /// How many messages are missing.
    pub count: u64,
}

/// The answer to `status` of a node whose loop answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The node's name.
    pub name: String,
    /// The node's lasting identity.
    #[serde(with = "hex")]
    pub id: PeerId,
    /// The id of the node's process.
    pub pid: u32,
    /// The number of the life of the node's process.
    pub boot: u64,
    /// The address that the node tells other nodes.
    pub address: SocketAddr,
    /// The node's rank, its position in the ring, if it has a place.
    pub rank: Option<u32>,
    /// The epoch that `rank` belongs to.
    pub epoch: Option<String>,
    /// The number of members of the epoch that `rank` belongs to.
    pub population: Option<u32>,
    /// The number of peers with a live link.
    pub links: usize,
    /// The peers of the settings `peers` and `neighbours` that are no members and have never had a
    /// link to this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// The advertised addresses that the node's host had and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses_gone: Vec<SocketAddr>,
    /// Whether this node has a place, and all entries of its tables are set, and linked unless they
    /// are called down.
    pub healthy: bool,
    /// Whether the node's overlay is the cluster's: it is no island that has not met the cluster,
    /// and the node is not alone after the loss of others.
    pub anchored: bool,
    /// Whether the node is healthy and anchored, and is not leaving.
    pub ready: bool,
    /// Why the node is not ready; if it does not find the cluster, also why contacts refuse it.
    pub reason: Option<String>,
    /// The number of former members that went without a goodbye and are not back: they are dead, or
    /// on the other side of a partition.
    pub lost_count: u32,
    /// How long the node's credentials are still valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialTerm>,
}

impl From<&NodeReport> for Status {
    fn from(report: &NodeReport) -> Self {
        Self {
            name: report.name.clone(),
            id: report.id,
            pid: report.pid,
            boot: report.boot,
            address: report.address,
            rank: report.rank,
            epoch: report.epoch.clone(),
            population: report.population,
            links: report.links.len(),
            unmet: report.unmet.clone(),
            addresses_gone: report.addresses_gone.clone(),
            healthy: report.healthy,
            anchored: report.anchored,
            ready: report.ready,
            reason: report.reason.clone(),
            lost_count: report.lost_count,
            credentials: report.credentials.clone(),
        }
    }
}

/// A [`PeerId`] as 32 hexadecimal digits.
pub(crate) mod hex {
    use binomesh_overlay::PeerId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(id: &PeerId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PeerId, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

mod optional_hex {
    use binomesh_overlay::PeerId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &Option<PeerId>, to: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => to.collect_str(id),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D>(from: D) -> Result<Option<PeerId>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        let id = text.map(|text| text.parse().map_err(D::Error::custom));
        id.transpose()
    }
}
