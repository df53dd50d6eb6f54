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
    /// A block that was published, or the one that the transaction was in, was replaced: whoever keeps the list of
    /// confirmations drops it, and goes on with those of this event.
    pub new_fork: bool,
    /// Blocks that follow in the list of confirmations; after `new_fork` they are the list. A `Receipt` empties it.
    /// [`replay`] does all that.
    #[serde(default)]
    pub confirmations: Vec<BlockOnTop>,
    /// Words for a person.
    pub note: Option<String>,
    /// Of an accepted one, the name of the API key that asked for the transaction, for keys with the scope operate.
    #[serde(default)]
    pub created_by: Option<String>,
    /// The node that wrote it.
    pub node: Option<String>,
    /// The fencing token under which it was written.
    pub token: u64,
    /// When.
    pub at: Timestamp,
}

/// A block on top of a transaction's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BlockOnTop {
    /// Its height.
    pub block_number: u64,
    /// Its hash.
    pub block_hash: B256,
    /// The hash of the block below it; none where an older node has told it.
    #[serde(default)]
    pub parent_hash: Option<B256>,
}

/// The list of confirmations that a transaction's events give, read in order from its first one: the same that
/// [`Client::confirmations`] gives.
#[must_use]
pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<BlockOnTop> {
    let mut list: Vec<BlockOnTop> = Vec::new();
    for event in events {
        if event.new_fork || event.kind == EventKind::Receipt {
            list.clear();
        }
        // Nodes before the lists went on with the blocks of a fork where it began.
        if let Some(first) = event.confirmations.first() {
            list.retain(|listed| listed.block_number < first.block_number);
        }
        list.extend_from_slice(&event.confirmations);
    }
    list
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
        /// Something else than the payload, which a stuck policy wants executed with this nonce.
        Substitute = "SUBSTITUTE",
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
    /// The hash of the block below it; none where an older node has told it.
    #[serde(default)]
    pub parent_hash: Option<B256>,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: &str, new_fork: bool, blocks: &[(u64, u8)]) -> Value {
        let block = |(number, hash): &(u64, u8)| json!({ "blockNumber": number, "blockHash": B256::repeat_byte(*hash), "parentHash": null });
        json!({
            "seq": 1, "kind": kind, "from": null, "to": { "state": "TRACKING", "subState": "MINED" },
            "txHash": null, "blockNumber": null, "blockHash": null, "newFork": new_fork,
            "confirmations": blocks.iter().map(block).collect::<Vec<_>>(),
            "note": null, "node": null, "token": 1, "at": "2026-01-01T00:00:00Z",
        })
    }

    fn check(events: &[Value], expected: &[(u64, u8)]) {
        let read = |event: &Value| serde_json::from_value::<Event>(event.clone()).unwrap();
        let events: Vec<Event> = events.iter().map(read).collect();
        let list = replay(&events);
        let list = list
            .iter()
            .map(|each| (each.block_number, each.block_hash.0[0]));
        assert_eq!(list.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn events_give_the_list_and_a_fork_replaces_it() {
        let receipt = event("receipt", false, &[]);
        let two = event("confirmations", false, &[(6, 1), (7, 1)]);
        let more = event("confirmations", false, &[(8, 1)]);
        let fork = event("confirmations", true, &[(6, 1), (7, 2)]);
        let gone = event("confirmations", true, &[]);
        let whole = [receipt.clone(), two, more];
        check(&whole, &[(6, 1), (7, 1), (8, 1)]);
        let forked = [whole.as_slice(), &[fork]].concat();
        check(&forked, &[(6, 1), (7, 2)]);
        check(&[forked.as_slice(), &[receipt]].concat(), &[]);
        check(&[forked.as_slice(), &[gone]].concat(), &[]);
        // As older nodes told it: one block each, and a fork from where it began.
        let old = |number, hash| event("confirmations", false, &[(number, hash)]);
        check(
            &[old(6, 1), old(7, 1), old(7, 2), old(8, 2)],
            &[(6, 1), (7, 2), (8, 2)],
        );
    }

    #[test]
    fn events_of_nodes_without_lists_are_read() {
        let mut old = event("confirmations", false, &[]);
        old.as_object_mut().unwrap().remove("confirmations");
        check(&[old], &[]);
    }
}
