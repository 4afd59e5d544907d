//! Collective operations through the admin API.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};

use super::{Client, ClientError, ms, query};
use crate::collective::{CollectiveView, Missing};

/// A collective operation to be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectiveRequest {
    /// Such as `barrier`.
    pub verb: String,
    /// The name.
    pub name: String,
    /// Which operation of that name.
    pub generation: u64,
    /// A host list such as `c[001-128]`; the node's own choice if there is none.
    pub members: Option<String>,
    /// The root, for a verb that has one.
    pub root: Option<String>,
    /// How values are combined, such as `sum:u64`.
    pub op: Option<String>,
    /// `survivors`, `survivors:K`, `abort` or `wait`.
    pub on_loss: Option<String>,
    /// When the outcome is wanted at the latest.
    pub time: Option<Duration>,
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectiveAnswer {
    /// The name.
    pub name: String,
    /// Which operation of that name.
    pub generation: u64,
    /// The node's epoch.
    pub epoch: Option<String>,
    /// How many members have come.
    pub arrived_count: usize,
    /// Who is missing and why.
    pub missing: Vec<Missing>,
    /// Whether the outcome is decided.
    pub agreed: bool,
    /// How it ended, if it is decided.
    pub end: Option<String>,
    /// The values that are meant for this member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<MemberValue>,
    /// All values combined, if they are meant for this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// How long it took.
    pub elapsed_seconds: f64,
}

/// What a member has come with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberValue {
    /// The member.
    pub name: String,
    /// How long the value is.
    pub size_bytes: usize,
    /// The value.
    pub value_base64: String,
}

impl CollectiveAnswer {
    /// All values combined; none if they are not meant for this member, or garbled.
    pub fn result(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.result_base64.as_ref()?).ok()
    }
}

impl MemberValue {
    /// The value; nothing if it is garbled.
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
