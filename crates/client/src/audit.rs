//! The whole audit: what people, policies and nodes did, and what was refused.

use alloy_primitives::Address;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::remedy::RemedyState;

/// Something that was done, or refused.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its number; later ones have greater ones, and some are missing for ever.
    pub id: i64,
    /// A remedy's action, what was done to a signer, or CALL: a call that was refused.
    pub action: String,
    /// The name of the API key, the policy or the node.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The operator's own fields; of a refused call its method and path.
    pub audit: Option<Value>,
    /// How far it is.
    pub state: RemedyState,
    /// The chain's configured name.
    pub chain: Option<String>,
    /// The signer that it is about.
    pub signer: Option<Address>,
    /// The transaction that it is about.
    pub tx_id: Option<Uuid>,
    /// The node that carried it out, else the node that was called.
    pub node: Option<String>,
    /// The fencing token.
    pub token: Option<u64>,
    /// What was true of the signer before.
    pub before: Option<String>,
    /// What was true of it after.
    pub after: Option<String>,
    /// What came of it; of a refused call the status and the code of the answer.
    pub result: Option<String>,
    /// When it was asked for or done.
    pub at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
}

/// A stretch of the audit, oldest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct AuditEntries {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// `after` of the next call; the same as in this one where nothing more is there.
    pub next: u64,
}

impl Client {
    /// What was done and refused, behind the number `after`. No entry with a lower number than one that was returned
    /// appears later. Needs the scope operate.
    pub async fn audit(&self, after: u64) -> Result<AuditEntries, Error> {
        let call = Call::get(["audit"])
            .with("after", Some(after))
            .with("limit", Some(1_000));
        self.told(call).await
    }
}
