//! What two nodes say to each other, in JSON: requests of one lane in order, and an answer for each. Nodes of two versions may talk: what one does not
//! understand it refuses, and the request waits in the lane's queue instead.

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body, NewTx, PauseReason, Record};
use fencepost_domain::Bytes;
use fencepost_domain::amount;
use fencepost_domain::ids::{ChainId, Lane, RequestId, TxId, Version};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::state::{Allocated, Signing, State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::line::REQUESTS_MAX;

/// Requests of one lane, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Share<T> {
    chain_id: u64,
    signer: String,
    requests: Vec<T>,
}

impl<'a> Share<&'a RawValue> {
    pub(crate) fn of(lane: Lane, requests: &[&'a RawValue]) -> Self {
        Self {
            chain_id: lane.chain.get(),
            signer: lane.signer.to_string(),
            requests: requests.to_vec(),
        }
    }
}

impl Share<Handed> {
    /// The requests, unless some part is none that a node of ours would hand on.
    pub(crate) fn read(self) -> Option<(Lane, Vec<NewTx>)> {
        let lane = Lane {
            chain: ChainId::new(self.chain_id).ok()?,
            signer: amount::address(&self.signer).ok()?,
        };
        let few = self.requests.len() <= REQUESTS_MAX;
        let requests = few.then_some(self.requests)?;
        let txs: Option<Vec<NewTx>> = requests.into_iter().map(Handed::read).collect();
        Some((lane, txs?))
    }
}

/// A request that is handed on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Handed {
    tx_id: Uuid,
    request_id: Option<String>,
    /// The canonical bytes: the leader stores exactly what the accepting node has understood.
    payload: String,
    not_after: Option<String>,
    meta: Option<String>,
}

impl Handed {
    /// A request in these words; reservations and placeholders have none.
    pub(crate) fn of(tx: &NewTx) -> Option<Self> {
        let payload = match &tx.body {
            Body::Managed(payload) => payload.canonical(),
            Body::Reserved(_) | Body::Placeholder(_) => return None,
        };
        Some(Self {
            tx_id: tx.tx.0,
            request_id: tx.request_id.as_ref().map(|id| id.as_str().to_owned()),
            payload: Bytes::from(payload).to_string(),
            not_after: tx.not_after.map(|at| at.to_string()),
            meta: tx.meta.as_ref().map(|meta| meta.as_str().to_owned()),
        })
    }

    fn read(self) -> Option<NewTx> {
        let payload = amount::bytes(&self.payload).ok()?;
        let request_id = self.request_id.map(RequestId::new).transpose().ok()?;
        let not_after = self.not_after.map(|at| at.parse()).transpose().ok()?;
        Some(NewTx {
            tx: TxId(self.tx_id),
            request_id,
            body: Body::Managed(Payload::from_canonical(&payload).ok()?),
            not_after,
            meta: self.meta.map(Meta::new).transpose().ok()?,
        })
    }
}

/// What the leader answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "verdict",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Told {
    /// Stored now: this is all that the other node cannot know.
    New(Row),
    /// Stored under the id that it was handed on with, and moved since.
    Stored,
    Known {
        tx_id: Uuid,
    },
    Conflict {
        tx_id: Uuid,
    },
    NotLeader,
    Paused {
        reason: String,
    },
    Overloaded,
    Exhausted,
    NotOpen,
    Unavailable,
    Unknown,
}

/// A row that was just stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) lane_id: i64,
    pub(crate) nonce: Option<u64>,
    pub(crate) wait: Option<String>,
    pub(crate) at: String,
    pub(crate) token: u64,
}

impl From<Verdict> for Told {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::New(record) => row(&record).map_or(Self::Stored, Self::New),
            Verdict::Known(record) => Self::Known { tx_id: record.tx.0 },
            Verdict::Conflict(record) => Self::Conflict { tx_id: record.tx.0 },
            // The other node has asked the store itself who leads, and asks it again.
            Verdict::NotLeader(_) => Self::NotLeader,
            Verdict::Paused(reason) => Self::Paused {
                reason: PauseReason::word(reason).to_owned(),
            },
            Verdict::Overloaded => Self::Overloaded,
            Verdict::Exhausted => Self::Exhausted,
            Verdict::NotOpen => Self::NotOpen,
            Verdict::Unavailable => Self::Unavailable,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

/// The words for a row that is as it was first written; any other must be read.
fn row(record: &Record) -> Option<Row> {
    let (nonce, wait) = match &record.state {
        State::Allocated(Allocated {
            nonce,
            bytes: Signing::Unsigned,
        }) => (Some(nonce.get()), None),
        State::Queued(queued) => (None, Some(queued.wait.word().to_owned())),
        State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Stuck(_)
        | State::Reserved(_)
        | State::Submitted(_)
        | State::Used(_)
        | State::Recyclable(_) => return None,
    };
    (record.version == Version::FIRST).then(|| Row {
        lane_id: record.lane_id.0,
        nonce,
        wait,
        at: record.created_at.to_string(),
        token: record.token.get(),
    })
}
