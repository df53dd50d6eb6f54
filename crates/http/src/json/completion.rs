//! The feed: how transactions ended.

use fencepost_app::ports;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::scalar::{Eip55, Hash, Moment};
use super::words;
use crate::access::Caller;
use crate::chains::Chains;

/// How a transaction ended, or that it is stuck, as it was then
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Completion {
    /// Its number in the feed; numbers have no gaps
    #[schema(minimum = 1)]
    seq: u64,
    /// The transaction
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
    /// Its nonce; none for keys that see no nonces
    #[schema(required = true)]
    nonce: Option<u64>,
    /// Its state
    #[schema(schema_with = words::state, required = true)]
    state: &'static str,
    /// Why
    #[schema(schema_with = words::sub_state, required = true)]
    sub_state: Option<String>,
    /// Its hash
    #[schema(required = true)]
    tx_hash: Option<Hash>,
    /// Its block
    #[schema(required = true)]
    block_number: Option<u64>,
    /// When it was told
    at: Moment,
    /// The number of the final completion that this one corrects
    #[schema(required = true)]
    corrects: Option<u64>,
}

impl Completion {
    /// As a caller may see it.
    pub(crate) fn of(completion: &ports::Completion, chains: &Chains, caller: &Caller) -> Self {
        let request_id = completion.request_id.as_ref();
        Self {
            seq: completion.seq.get(),
            tx_id: completion.tx.0,
            kind: completion.kind.word(),
            chain: chains.name(completion.lane.chain).into_owned(),
            signer: Eip55(completion.lane.signer),
            request_id: request_id.map(|id| id.as_str().to_owned()),
            nonce: completion
                .nonce
                .filter(|_| caller.sees_nonces)
                .map(|nonce| nonce.get()),
            state: completion.state.word(),
            sub_state: completion.sub_state.clone(),
            tx_hash: completion.tx_hash.map(Hash),
            block_number: completion.block_number.map(|number| number.get()),
            at: Moment(completion.at),
            corrects: completion.corrects.map(|seq| seq.get()),
        }
    }
}

/// A stretch of the feed
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Completions {
    /// In order. A key that covers some signers only sees theirs
    pub(crate) completions: Vec<Completion>,
    /// What to ask for next: `after`
    pub(crate) next: u64,
    /// One more each time the database lost its newest writes
    pub(crate) epoch: u64,
}
