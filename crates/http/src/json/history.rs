//! What happened to a transaction: its events and its attempts.

use fencepost_app::ports::{Record, StoredAttempt, StoredEvent};
use fencepost_domain::confirmation::{List, Listed};
use fencepost_domain::{U256, event};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::scalar::{Hash, Moment, Wei};
use super::words;
use crate::access::Caller;

/// One thing that happened
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// Its place in the signer's order on this chain
    seq: u64,
    /// What happened
    #[schema(schema_with = words::event, required = true)]
    kind: &'static str,
    /// Where the transaction stood before; none for the first
    #[schema(required = true)]
    from: Option<Standing>,
    /// Where it stood after
    to: Standing,
    /// The attempt that it is about
    #[schema(required = true)]
    tx_hash: Option<Hash>,
    /// The block that it is about; of `confirmations` the newest of them
    #[schema(required = true)]
    block_number: Option<u64>,
    /// That block's hash
    #[schema(required = true)]
    block_hash: Option<Hash>,
    /// The list of confirmations that was told before is void: a block of it, or the transaction's own, was replaced
    new_fork: bool,
    /// Blocks that follow in the list of confirmations; after `newFork` they are the list. A `receipt` empties it
    confirmations: Vec<BlockOnTop>,
    /// Words for a person
    #[schema(required = true)]
    note: Option<String>,
    /// Of `accepted`, the name of the API key that asked for the transaction; none where no key did, and for keys without
    /// the scope operate
    #[schema(required = true)]
    created_by: Option<String>,
    /// The node that wrote it
    #[schema(required = true)]
    node: Option<String>,
    /// The fencing token under which it was written
    token: u64,
    /// When
    at: Moment,
}

/// A block on top of a transaction's
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockOnTop {
    /// Its height
    block_number: u64,
    /// Its hash
    block_hash: Hash,
    /// The hash of the block below it; null where a version that did not say so has told it
    #[schema(required = true)]
    parent_hash: Option<Hash>,
}

/// The blocks that an event adds to the list.
fn on_top(event: &event::Event) -> Vec<BlockOnTop> {
    let mut added = List::empty();
    added.read(event, ());
    let shown = |listed: Listed<()>| BlockOnTop {
        block_number: listed.block.number.get(),
        block_hash: Hash(listed.block.hash),
        parent_hash: listed.parent.map(Hash),
    };
    added.into_blocks().into_iter().map(shown).collect()
}

/// A state and why
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Standing {
    /// The state
    #[schema(schema_with = words::state, required = true)]
    state: String,
    /// Why
    #[schema(schema_with = words::sub_state, required = true)]
    sub_state: Option<String>,
}

/// A block on top of a transaction's
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Confirmation)]
pub(crate) struct Covering {
    /// Its height
    block_number: u64,
    /// Its hash
    block_hash: Hash,
    /// The hash of the block below it; null where a version that did not say so has told it
    #[schema(required = true)]
    parent_hash: Option<Hash>,
    /// When it was told
    at: Moment,
}

impl From<Listed<Timestamp>> for Covering {
    fn from(listed: Listed<Timestamp>) -> Self {
        Self {
            block_number: listed.block.number.get(),
            block_hash: Hash(listed.block.hash),
            parent_hash: listed.parent.map(Hash),
            at: Moment(listed.from),
        }
    }
}

/// The blocks on top of a transaction's, lowest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Confirmations {
    /// From the block on top of the transaction's on, each the parent of the next. Until the transaction is final they are
    /// canonical, and a fork replaces the list; afterwards the list stays as it was when the transaction became final, unless the transaction's
    /// own block is replaced. Empty unless `confirmations.publish` is set
    pub(crate) confirmations: Vec<Covering>,
}

impl Event {
    /// An event of a transaction, as a caller may see it.
    pub(crate) fn of(stored: StoredEvent, record: &Record, caller: &Caller) -> Self {
        let standing = |(state, sub_state)| Standing { state, sub_state };
        let event = stored.event;
        Self {
            confirmations: on_top(&event),
            seq: stored.seq.get(),
            kind: event.kind.word(),
            from: stored.from.map(standing),
            to: standing(stored.to),
            tx_hash: event.hash.map(Hash),
            block_number: event.block.map(|block| block.number.get()),
            block_hash: event.block.map(|block| Hash(block.hash)),
            new_fork: event.new_fork,
            created_by: (event.kind == event::Kind::Accepted)
                .then(|| caller.creator_of(record))
                .flatten(),
            note: event.note.map(|text| caller.words(text)),
            node: stored.node.map(|node| node.as_str().to_owned()),
            token: stored.token.get(),
            at: Moment(stored.at),
        }
    }
}

/// What happened to a transaction, in order
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    /// The events
    pub(crate) events: Vec<Event>,
}

/// Signed bytes for a transaction's nonce. The bytes themselves are not shown: who has them can send them
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    /// Its number, from 1
    #[schema(minimum = 1)]
    n: u32,
    /// Why it was signed
    #[schema(schema_with = words::attempt, required = true)]
    kind: &'static str,
    /// Its hash
    tx_hash: Hash,
    /// The price that was signed, as before EIP-1559
    #[schema(required = true)]
    gas_price: Option<Wei>,
    /// The EIP-1559 cap that was signed
    #[schema(required = true)]
    max_fee_per_gas: Option<Wei>,
    /// The EIP-1559 tip that was signed
    #[schema(required = true)]
    max_priority_fee_per_gas: Option<Wei>,
    /// What came of sending it; null counts as maybe sent
    #[schema(schema_with = words::outcome, required = true)]
    outcome: Option<&'static str>,
    /// The fencing token under which it was stored
    token: u64,
    /// When
    at: Moment,
}

impl From<StoredAttempt> for Attempt {
    fn from(stored: StoredAttempt) -> Self {
        let wei = |fee: u128| Wei(U256::from(fee));
        let fees = stored.attempt.fees;
        let tip = fees.and_then(|fees| fees.max_priority_fee);
        let max_fee = fees.map(|fees| wei(fees.max_fee));
        let (gas_price, max_fee_per_gas) = if tip.is_some() {
            (None, max_fee)
        } else {
            (max_fee, None)
        };
        Self {
            n: stored.n,
            kind: stored.attempt.kind.word(),
            tx_hash: Hash(stored.attempt.hash),
            gas_price,
            max_fee_per_gas,
            max_priority_fee_per_gas: tip.map(wei),
            outcome: stored.outcome.map(|outcome| outcome.word()),
            token: stored.token.get(),
            at: Moment(stored.at),
        }
    }
}

/// All attempts of a transaction, oldest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempts {
    /// The attempts
    pub(crate) attempts: Vec<Attempt>,
}
