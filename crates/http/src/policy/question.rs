//! What the business is told of a stuck transaction.

use fencepost_app::ports::Plight;
use serde::Serialize;
use uuid::Uuid;

use crate::json::payload::Payload;
use crate::json::remedy::Fees;
use crate::json::scalar::{Eip55, Foreign, Hash};

/// A plight in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question<'a> {
    chain: &'a str,
    chain_id: u64,
    signer: Eip55,
    tx_id: Uuid,
    kind: &'static str,
    nonce: u64,
    request_id: Option<&'a str>,
    meta: Option<Foreign>,
    payload: Option<Payload>,
    hashes: Vec<Hash>,
    fees: Option<Fees>,
    state: &'static str,
    sub_state: Option<&'static str>,
    submit_attempts: u32,
    last_error: Option<&'a str>,
    age_seconds: u64,
    backlog: u64,
    gaps: Vec<u64>,
    round: u32,
}

impl<'a> Question<'a> {
    pub(super) fn of(plight: &'a Plight) -> Self {
        let meta = plight.meta.as_ref();
        Self {
            chain: &plight.chain,
            chain_id: plight.lane.chain.get(),
            signer: Eip55(plight.lane.signer),
            tx_id: plight.tx.0,
            kind: plight.kind.word(),
            nonce: plight.nonce.get(),
            request_id: plight.request_id.as_ref().map(|id| id.as_str()),
            meta: meta.map(|meta| Foreign::new(meta.as_str())),
            payload: plight.payload.as_ref().map(Payload::from),
            hashes: plight.hashes.iter().copied().map(Hash).collect(),
            fees: plight.fees.map(Fees::from),
            state: plight.state.word(),
            sub_state: plight.sub_state,
            submit_attempts: plight.submit_attempts,
            last_error: plight.last_error.as_deref(),
            age_seconds: plight.age.as_secs(),
            backlog: plight.backlog,
            gaps: plight.gaps.iter().map(|nonce| nonce.get()).collect(),
            round: plight.round,
        }
    }
}
