//! What happened to one transaction.

use alloy_primitives::B256;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::transaction::{State, SubState};

words! {
    /// What happened.
    EventKind {
        /// A nonce was given.
        Accepted = "accepted",
        /// Signed bytes were stored; from here on they may have been sent.
        Signed = "signed",
        /// A send was tried and its outcome recorded.
        Submitted = "submitted",
        /// It was seen in a block.
        Receipt = "receipt",
        /// The blocks on top of it changed.
        Confirmations = "confirmations",
        /// Final, and executed.
        Confirmed = "confirmed",
        /// Final, and not executed.
        Failed = "failed",
        /// It cannot move by itself.
        Stuck = "stuck",
        /// A remedy was asked for, claimed or closed.
        Remedied = "remedied",
        /// What held it has passed.
        Resumed = "resumed",
        /// A lent nonce was given back.
        Recycled = "recycled",
        /// A lent nonce is used, finally.
        Used = "used",
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// Its place in the signer's order on this chain.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// Where the transaction stood before; none for the first.
    pub from: Option<Standing>,
    /// Where it stood after.
    pub to: Standing,
    /// The attempt that it is about.
    pub tx_hash: Option<B256>,
    /// The block that it is about.
    pub block_number: Option<u64>,
    /// That block's hash.
    pub block_hash: Option<B256>,
    /// A block under the transaction was replaced.
    pub new_fork: bool,
    /// Words for a person.
    pub note: Option<String>,
    /// The node that wrote it.
    pub node: Option<String>,
    /// The fencing token under which it was written.
    pub token: u64,
    /// When.
    pub at: Timestamp,
}

/// A state and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Standing {
    /// The state.
    pub state: State,
    /// Why.
    pub sub_state: Option<SubState>,
}

words! {
    /// Why bytes were signed.
    AttemptKind {
        /// The payload with the fees chosen first.
        Original = "ORIGINAL",
        /// The payload again, with higher fees.
        Replacement = "REPLACEMENT",
        /// To use the nonce up, because the payload is no longer wanted.
        Cancel = "CANCEL",
        /// To use the nonce up, because later ones wait for it.
        Placeholder = "PLACEHOLDER",
        /// Signed and sent by the holder of a reservation.
        External = "EXTERNAL",
    }
}

words! {
    /// What came of sending.
    SendOutcome {
        /// A node of the chain has taken the bytes.
        Accepted = "ACCEPTED",
        /// They may or may not have arrived.
        Ambiguous = "AMBIGUOUS",
        /// Every endpoint said no, for a known reason.
        Refused = "REFUSED",
    }
}

/// Signed bytes for a transaction's nonce, without the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub n: u32,
    /// Why it was signed.
    pub kind: AttemptKind,
    /// Its hash.
    pub tx_hash: B256,
    /// The price that was signed, as before EIP-1559.
    #[serde(with = "crate::amount", default)]
    pub gas_price: Option<u128>,
    /// The EIP-1559 cap that was signed.
    #[serde(with = "crate::amount", default)]
    pub max_fee_per_gas: Option<u128>,
    /// The EIP-1559 tip that was signed.
    #[serde(with = "crate::amount", default)]
    pub max_priority_fee_per_gas: Option<u128>,
    /// What came of sending it; none counts as maybe sent.
    pub outcome: Option<SendOutcome>,
    /// The fencing token under which it was stored.
    pub token: u64,
    /// When.
    pub at: Timestamp,
}

/// A block on top of a transaction's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Confirmation {
    /// Its height.
    pub block_number: u64,
    /// Its hash.
    pub block_hash: B256,
    /// When it was told.
    pub at: Timestamp,
}

#[derive(Deserialize)]
struct Events {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Attempts {
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Confirmations {
    confirmations: Vec<Confirmation>,
}

impl Client {
    /// What happened to a transaction, in order: up to 1,000 events above `after` (0 gives the first ones).
    pub async fn history(&self, tx_id: Uuid, after: u64) -> Result<Vec<Event>, Error> {
        let tx_id = tx_id.to_string();
        let call = Call::get(["tx", &tx_id, "history"]).with("after", Some(after));
        Ok(self.told::<Events>(call).await?.events)
    }

    /// Everything that was signed for a transaction, oldest first.
    pub async fn attempts(&self, tx_id: Uuid) -> Result<Vec<Attempt>, Error> {
        let tx_id = tx_id.to_string();
        let call = Call::get(["tx", &tx_id, "attempts"]);
        Ok(self.told::<Attempts>(call).await?.attempts)
    }

    /// The blocks on top of a transaction's, lowest first. Empty unless the nodes publish them.
    pub async fn confirmations(&self, tx_id: Uuid) -> Result<Vec<Confirmation>, Error> {
        let tx_id = tx_id.to_string();
        let call = Call::get(["tx", &tx_id, "confirmations"]);
        Ok(self.told::<Confirmations>(call).await?.confirmations)
    }
}
