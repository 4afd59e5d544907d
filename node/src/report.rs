//! What a node says of itself and of its broadcasts: plain data, the same in the
//! library, in the admin API and on standard output.
//!
//! Peers go by name; one whose name is not known yet goes by its hexadecimal id.

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
    /// Its configured name.
    pub name: String,
    /// Its lasting identity.
    #[serde(with = "hex")]
    pub id: PeerId,
    /// Its process.
    pub pid: u32,
    /// The life of that process.
    pub boot: u64,
    /// The address that it tells others.
    pub address: SocketAddr,
    /// Its position in the ring, if placed.
    pub rank: Option<u32>,
    /// The numbering that `rank` belongs to; see [`epoch_name`].
    pub epoch: Option<String>,
    /// How many members that numbering has.
    pub population: Option<u32>,
    /// The parent in the deployment tree; none for the root.
    pub parent: Option<String>,
    /// The children in their order.
    pub children: Vec<String>,
    /// The next in the ring.
    pub successor: Option<String>,
    /// The one before in the ring.
    pub predecessor: Option<String>,
    /// Level i is the node 2^i places ahead; `null` if not known yet. Duplicates
    /// are kept, and a lone node has no level.
    pub clockwise: Vec<Option<String>>,
    /// Level i is the node 2^i places behind.
    pub counterclockwise: Vec<Option<String>>,
    /// The peers with a live, mutually authenticated link, each once.
    pub links: Vec<String>,
    /// The peers that it takes for down: neighbours that are silent, and those
    /// of whom others say so.
    #[serde(default)]
    pub down: Vec<String>,
    /// The peers that it cannot reach though it should, while others can: what
    /// it has to say to them is carried by another.
    #[serde(default)]
    pub relayed: Vec<String>,
    /// Peers that have said goodbye and are not back; they are among those that are down.
    #[serde(default)]
    pub left: Vec<String>,
    /// The peers that keep messages waiting at this node, who keeps most first; at most
    /// [`SlowPeer::MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowPeer>,
    /// Peers of its list, `peers` in the settings, that are no members and that it has never
    /// had a link to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// The addresses that it tells others, and that its host had and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses_gone: Vec<SocketAddr>,
    /// Whether this node is placed, all its entries are set and linked.
    pub healthy: bool,
    /// Whether its overlay is the cluster's: no island that has not met the cluster, and
    /// no member that is alone after others were lost.
    pub anchored: bool,
    /// Whether it is healthy and anchored, and does not leave.
    pub ready: bool,
    /// Why the node is not ready, with the last refusal of each contact.
    pub reason: Option<String>,
    /// How many former members went without a goodbye and are not back: those on the
    /// other side of a partition, or dead.
    pub lost_count: u32,
    /// How long its credentials hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialTerm>,
}

/// A peer that keeps messages waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowPeer {
    /// Who.
    pub name: String,
    /// Parts of messages that it has not answered in time.
    pub late: usize,
    /// Copies that wait until it has answered others.
    pub held_back: usize,
    /// Bytes of the copies that are on their way to it.
    pub bytes: u64,
}

impl SlowPeer {
    /// How many a report names.
    pub const MAX: usize = 8;
}

/// The text by which reports name an epoch: root, its boot, count and noise.
pub fn epoch_name(epoch: &Epoch<PeerId>) -> String {
    let Epoch {
        root,
        boot,
        counter,
        nonce,
    } = epoch;
    format!("{root}-{boot}-{counter}-{nonce:016x}")
}

/// Where a node stands, as [`Node::placement`](crate::Node::placement) tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementView {
    /// The numbering; see [`epoch_name`].
    pub epoch: String,
    /// How many members it has.
    pub population: u32,
    /// The position of this node, counted from the root.
    pub rank: u32,
    /// Whether every finger of this epoch is set and linked, and the node does not leave.
    pub settled: bool,
    /// Whether the overlay is the cluster's rather than an island.
    pub anchored: bool,
}

/// What became of one message, for every member of its epoch but the origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The message's id, the same at every receiver.
    pub id: String,
    /// The numbering whose members were addressed.
    pub epoch: Arc<str>,
    /// Who sent it.
    pub origin: Arc<str>,
    /// How many were to get it; the origin is not counted.
    pub expected_count: u32,
    /// How many confirmed that they delivered it.
    pub reached_count: u32,
    /// Who did.
    pub reached: Arc<[String]>,
    /// Who did not, and why.
    pub unreached: Vec<Unreached>,
    /// Hosts of the inventory that were no members.
    pub absent: Vec<Absent>,
    /// How many parts were given to somebody else because a delegate was late.
    pub redelegated: u32,
    /// From whom these were taken: hops that were dead, late or refused. At most 64
    /// are named.
    #[serde(default)]
    pub replaced: Vec<String>,
    /// What was asked of each receiver: `relayed`, `delivered` or `acknowledged`.
    #[serde(default = "relayed")]
    pub confirmation: Cow<'static, str>,
    /// What applications answered, equal answers as one, the most frequent first.
    #[serde(default)]
    pub replies: Vec<Reply>,
    /// Whose nodes have the message but have not confirmed as was asked.
    #[serde(default)]
    pub unacknowledged: Vec<Unacknowledged>,
    /// From acceptance to this receipt.
    pub elapsed_seconds: f64,
}

const fn relayed() -> Cow<'static, str> {
    Cow::Borrowed("relayed")
}

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// How many gave it.
    pub count: u32,
    /// Who.
    pub names: Vec<String>,
    /// How long it is.
    pub size_bytes: u64,
    /// What it is; at most [`Reply::MAX_BYTES`].
    #[serde(rename = "reply_base64", with = "in_base64")]
    pub reply: Vec<u8>,
}

impl Reply {
    /// The longest answer. A guess: a few lines of a command's output.
    pub const MAX_BYTES: usize = 4096;
}

/// A receiver whose node has the message, and that is all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unacknowledged {
    /// Its name.
    pub name: String,
    /// `no-subscriber` there, `missed` by subscribers that do not read, `no-answer` in
    /// time, or `no-room` for the answer here.
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
    /// Whether everybody expected was reached, and confirmed as was asked.
    pub fn is_complete(&self) -> bool {
        self.unreached.is_empty() && self.absent.is_empty() && self.unacknowledged.is_empty()
    }
}

/// A member that did not confirm a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreached {
    /// Its name.
    pub name: String,
    /// Its identity, if known.
    #[serde(with = "optional_hex")]
    pub id: Option<PeerId>,
    /// Its position in the receipt's epoch, if it had one.
    pub rank: Option<u32>,
    /// What is certain about it.
    pub state: UnreachedState,
    /// Why, in words.
    pub reason: String,
}

/// What is certain about a member that did not confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnreachedState {
    /// It said no and did not deliver.
    Refused,
    /// It may have delivered.
    Unconfirmed,
}

/// A host of the inventory that is no member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// Its name.
    pub name: String,
    /// How long ago it was last a member; `null` if never while this node has been.
    pub last_seen_seconds: Option<f64>,
    /// Whether it has said goodbye; otherwise nobody knows why it is away.
    #[serde(default)]
    pub left: bool,
}

/// One delivered message, as `subscribe` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The message's id, the same as in its receipt.
    pub id: String,
    /// Who sent it.
    pub origin: String,
    /// The origin's count of its messages.
    pub sequence: u64,
    /// The topic it was published on.
    pub topic: String,
    /// Whether its origin has signed it, and the node has verified that.
    #[serde(default)]
    pub signed: bool,
    /// Its place among its origin's others, if it was published in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// It had been told to be missing, and comes behind later ones.
    #[serde(default)]
    pub late: bool,
    /// Whether its origin waits for an answer of the application.
    #[serde(default)]
    pub wants_reply: bool,
    /// The payload's length.
    pub size_bytes: u64,
    /// The payload's BLAKE3 hash in hexadecimal.
    pub blake3: String,
    /// The payload.
    pub payload_base64: String,
}

/// Messages published in order that are not there in their place, as `subscribe
/// --ordered` prints it: lost for this subscriber, or late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapView {
    /// Who published them.
    pub origin: String,
    /// In which life of its process.
    pub boot: u64,
    /// In which of its streams: one per topic and destinations.
    pub stream: u64,
    /// The topic they were published on.
    pub topic: String,
    /// The number of the first in its stream.
    pub from: u64,
    /// The number of the last.
    pub to: u64,
    /// How many.
    pub count: u64,
}

/// What a lively node answers to `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its lasting identity.
    #[serde(with = "hex")]
    pub id: PeerId,
    /// Its process.
    pub pid: u32,
    /// The life of that process.
    pub boot: u64,
    /// The address that it tells others.
    pub address: SocketAddr,
    /// Its position in the ring, if placed.
    pub rank: Option<u32>,
    /// The numbering that `rank` belongs to.
    pub epoch: Option<String>,
    /// How many members that numbering has.
    pub population: Option<u32>,
    /// How many peers have a live link.
    pub links: usize,
    /// Peers of its list, `peers` in the settings, that are no members and that it has never
    /// had a link to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// The addresses that it tells others, and that its host had and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses_gone: Vec<SocketAddr>,
    /// Whether this node is placed, all its entries are set and linked.
    pub healthy: bool,
    /// Whether its overlay is the cluster's: no island that has not met the cluster, and
    /// no member that is alone after others were lost.
    pub anchored: bool,
    /// Whether it is healthy and anchored, and does not leave.
    pub ready: bool,
    /// Why the node is not ready, with the last refusal of each contact.
    pub reason: Option<String>,
    /// How many former members went without a goodbye and are not back: those on the
    /// other side of a partition, or dead.
    pub lost_count: u32,
    /// How long its credentials hold.
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
