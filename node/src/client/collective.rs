//! Collective operations through the admin API.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};

use super::{Client, ClientError, ms, query};
use crate::collective::{CollectiveView, MissingMember};

/// The call of a collective operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectiveRequest {
    /// The kind of operation, such as `barrier`.
    pub verb: String,
    /// The operation's name.
    pub name: String,
    /// The operation's number among the operations of that name.
    pub generation: u64,
    /// The members as a host list such as `c[001-128]`; without one the node chooses.
    pub members: Option<String>,
    /// The root, for a verb that has one.
    pub root: Option<String>,
    /// How values are combined, such as `sum:u64`.
    pub op: Option<String>,
    /// What happens if members are lost: `survivors`, `survivors:K`, `abort` or `wait`.
    pub on_loss: Option<String>,
    /// The longest time until the outcome.
    pub time: Option<Duration>,
}

/// The outcome of a collective operation, as a node answers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectiveAnswer {
    /// The operation's name.
    pub name: String,
    /// The operation's number among the operations of that name.
    pub generation: u64,
    /// The node's epoch.
    pub epoch: Option<String>,
    /// The number of members that have arrived.
    pub arrived_count: usize,
    /// The members that are missing, and why.
    pub missing: Vec<MissingMember>,
    /// Whether the members have agreed on the outcome.
    pub agreed: bool,
    /// How the operation ended, if that is agreed.
    pub end: Option<String>,
    /// The values that are meant for this member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<MemberValue>,
    /// All values combined, if they are meant for this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// How long the caller waited.
    pub elapsed_seconds: f64,
}

/// The value of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberValue {
    /// The member's name.
    pub name: String,
    /// The length of the value in bytes.
    pub size_bytes: usize,
    /// The value in base64.
    pub value_base64: String,
}

impl CollectiveAnswer {
    /// All values combined; `None` if they are not meant for this member, or malformed.
    pub fn result(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.result_base64.as_ref()?).ok()
    }
}

impl MemberValue {
    /// The value's bytes; empty if the base64 is malformed.
    pub fn bytes(&self) -> Vec<u8> {
        STANDARD.decode(&self.value_base64).unwrap_or_default()
    }
}

impl Client {
    /// Call a collective operation and wait for its outcome.
    pub async fn collective(
        &self,
        request: &CollectiveRequest,
        value: impl Into<Bytes>,
    ) -> Result<CollectiveAnswer, ClientError> {
        let (generation, time) = (request.generation.to_string(), ms(request.time));
        let query = query(&[
            ("verb", Some(&request.verb)),
            ("name", Some(&request.name)),
            ("generation", Some(&generation)),
            ("members", request.members.as_deref()),
            ("root", request.root.as_deref()),
            ("op", request.op.as_deref()),
            ("on_loss", request.on_loss.as_deref()),
            ("timeout_ms", time.as_deref()),
        ]);
        let path = format!("/v1/collective{query}");
        self.json(Method::POST, &path, value.into()).await
    }

    /// The collective operations that the node knows.
    pub async fn collectives(&self) -> Result<Vec<CollectiveView>, ClientError> {
        self.json(Method::GET, "/v1/collectives", Bytes::new())
            .await
    }
}
