//! Having a transaction sent. It has its request id before the first try.

use alloy_primitives::Address;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::payload::Payload;
use crate::transaction::Transaction;

/// A transaction to be sent. **One value is one transaction**: it has its request id from the beginning, so
/// sending the same value again, by the client or by you, gives the same transaction and costs nothing. For
/// another one like it, see [`NewTransaction::another`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTransaction {
    signer: Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    request_id: String,
    payload: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

impl NewTransaction {
    /// A transaction under a new request id.
    #[must_use]
    pub fn new(signer: Address, payload: Payload) -> Self {
        Self {
            signer,
            chain: None,
            request_id: minted(),
            payload,
            not_after: None,
            meta: None,
        }
    }

    /// Under a name of your own, such as the number of an invoice: the same name gives the same transaction even
    /// after a restart of your service. One name per signer and chain, for ever.
    #[must_use]
    pub fn named(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// On this chain; may be left out while the cluster has only one.
    #[must_use]
    pub fn chain(mut self, name: impl Into<String>) -> Self {
        self.chain = Some(name.into());
        self
    }

    /// Not to be given a nonce after this time: it then ends as FAILED_FINAL/EXPIRED.
    #[must_use]
    pub const fn not_after(mut self, at: Timestamp) -> Self {
        self.not_after = Some(at);
        self
    }

    /// Any JSON of your own, up to 16 KiB: kept and given back, never compared.
    #[must_use]
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Another transaction like this one, under a request id of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        self.clone().named(minted())
    }

    /// Its request id. Store it before sending, and a crash of your service cannot make one request two.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }
}

/// A request id that nobody has used.
pub(crate) fn minted() -> String {
    Uuid::now_v7().to_string()
}

/// A transaction that is stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Accepted {
    /// The transaction.
    pub transaction: Transaction,
    /// It was stored before: by an earlier try of this call whose answer was lost, or by an earlier call.
    pub was_known: bool,
}

impl Accepted {
    pub(crate) fn new(status: u16, transaction: Transaction) -> Self {
        Self {
            transaction,
            was_known: status == 200,
        }
    }
}

impl Client {
    /// Has a transaction sent. When this returns it is stored, and goes on whatever becomes of this process or
    /// of any node.
    ///
    /// Tried again after everything that passes by itself, always under the same request id. Where it fails and
    /// [`Error::outcome_unknown`] is true, send the *same value* again: that is always safe.
    pub async fn send(&self, request: &NewTransaction) -> Result<Accepted, Error> {
        let call = Call::post(["tx"], request, Effect::Idempotent);
        let answer = self.ask(&call).await?;
        let transaction = answer.read(call.effect)?;
        Ok(Accepted::new(answer.status, transaction))
    }
}
