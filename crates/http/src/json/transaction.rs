//! A transaction.

use fencepost_app::ports::Record;
use fencepost_domain::B256;
use fencepost_domain::state::{State, Used};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::payload::Payload;
use super::scalar::{Eip55, Foreign, Hash, Moment, foreign};
use super::words;
use crate::access::Caller;
use crate::chains::Chains;

/// A transaction, as it stands
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transaction {
    /// Its id, the same on every node for ever
    tx_id: Uuid,
    /// Whether we send it (managed), lend its nonce (reserved) or only use its nonce up (placeholder)
    #[schema(schema_with = words::kind, required = true)]
    kind: &'static str,
    /// The chain's configured name
    chain: String,
    /// Who sends
    signer: Eip55,
    /// The client's own name for it
    #[schema(required = true)]
    request_id: Option<String>,
    /// Its nonce, once it has one; none for keys that see no nonces
    #[schema(required = true)]
    nonce: Option<u64>,
    /// Where it stands
    #[schema(schema_with = words::state, required = true)]
    state: &'static str,
    /// Why it stands there
    #[schema(schema_with = words::sub_state, required = true)]
    sub_state: Option<&'static str>,
    /// The mined attempt's hash, else the newest one's; of a lent nonce that is USED, what has used it
    #[schema(required = true)]
    tx_hash: Option<Hash>,
    /// What is to be executed; none where we execute nothing, and none once it was retired
    #[schema(required = true)]
    payload: Option<Payload>,
    /// How often a send was tried
    submit_attempts: u32,
    /// The newest error's text
    #[schema(required = true)]
    last_error: Option<String>,
    /// The block it is in
    #[schema(required = true)]
    block_number: Option<u64>,
    /// That block's hash
    #[schema(required = true)]
    block_hash: Option<Hash>,
    /// The receipt as the node gave it; none once it was retired
    #[schema(schema_with = foreign, required = true)]
    receipt: Option<Foreign>,
    /// When it became final
    #[schema(required = true)]
    confirmed_at: Option<Moment>,
    /// When it was stored
    created_at: Moment,
    /// When it last changed
    updated_at: Moment,
    /// It is given no nonce after this time
    #[schema(required = true)]
    not_after: Option<Moment>,
    /// The client's own words
    #[schema(schema_with = foreign, required = true)]
    meta: Option<Foreign>,
    /// The name of the API key that asked for it; none where no key did, and for keys without the scope operate
    #[schema(required = true)]
    created_by: Option<String>,
}

impl Transaction {
    /// As a caller may see it.
    pub(crate) fn of(record: &Record, chains: &Chains, caller: &Caller) -> Self {
        let state = &record.state;
        let nonce = state.nonce().filter(|_| caller.sees_nonces);
        let at = state.inclusion();
        Self {
            tx_id: record.tx.0,
            kind: record.kind.word(),
            chain: chains.name(record.lane.chain).into_owned(),
            signer: Eip55(record.lane.signer),
            request_id: record.request_id.as_ref().map(|id| id.as_str().to_owned()),
            nonce: nonce.map(|nonce| nonce.get()),
            state: state.name().word(),
            sub_state: state.sub(),
            tx_hash: shown_hash(state).map(Hash),
            payload: record.payload.as_ref().map(Payload::from),
            submit_attempts: record.submit_attempts,
            last_error: record.last_error.clone().map(|text| caller.words(text)),
            block_number: at.map(|at| at.block.number.get()),
            block_hash: at.map(|at| Hash(at.block.hash)),
            receipt: record.receipt.as_deref().map(Foreign::new),
            confirmed_at: record.confirmed_at.map(Moment),
            created_at: Moment(record.created_at),
            updated_at: Moment(record.updated_at),
            not_after: record.not_after.map(Moment),
            meta: record.meta.as_ref().map(|meta| Foreign::new(meta.as_str())),
            created_by: caller.creator_of(record),
        }
    }
}

/// What is in a block, else what has used a lent nonce, else the newest attempt.
pub(super) fn shown_hash(state: &State) -> Option<B256> {
    let used_by = match state {
        // Its holder named another hash, or none.
        State::Used(Used { foreign, .. }) => *foreign,
        State::Queued(_)
        | State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Stuck(_)
        | State::Reserved(_)
        | State::Submitted(_)
        | State::Recyclable(_) => None,
    };
    let mined = state.inclusion().map(|at| at.hash);
    mined.or(used_by).or(state.hash())
}

/// A page of transactions, newest first
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionPage {
    /// The transactions
    pub(crate) transactions: Vec<Transaction>,
    /// Gives the next page; none where there is none
    #[schema(required = true)]
    pub(crate) next_cursor: Option<String>,
}
