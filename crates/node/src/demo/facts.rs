//! What is known of a story when it is over: what clients asked and were answered, what the API tells, what
//! the chain holds. Nothing here is concluded; that is done in `promises`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use super::request::{Payload, Request};

/// All of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) requests: Vec<Request>,
    /// Every answer that a client got to a request, repeated ones too.
    pub(super) answers: Vec<Answer>,
    /// The statuses of answers to ids that were used for another payload.
    pub(super) misuses: Vec<u16>,
    pub(super) stored: Vec<Stored>,
    pub(super) signers: Vec<Signer>,
    /// The feed as it was read while it grew, through the crash.
    pub(super) feed: Vec<Completion>,
    /// The feed as it was read from its start at the end.
    pub(super) feed_again: Vec<Completion>,
    /// What the canonical chain holds of the signers, in its order.
    pub(super) mined: Vec<Mined>,
    /// The hashes of all that the chain's pool ever took in.
    pub(super) sent: BTreeSet<String>,
    /// Whose hash the API says it is, for those hashes that it knows.
    pub(super) known: BTreeMap<String, String>,
    pub(super) reorg: Option<Reorg>,
    pub(super) crash: Option<Crash>,
}

/// An answer to a request, by the request's number.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) request: usize,
    pub(super) status: u16,
    /// The transaction, where there is one.
    pub(super) created: Option<Created>,
}

/// What an answer says of the transaction.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Created {
    pub(super) tx_id: String,
    pub(super) nonce: Option<u64>,
}

/// A transaction as the API tells it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    pub(super) tx_id: String,
    pub(super) signer: String,
    pub(super) request_id: Option<String>,
    pub(super) nonce: Option<u64>,
    pub(super) state: String,
    pub(super) sub_state: Option<String>,
    pub(super) tx_hash: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) block_number: Option<u64>,
    pub(super) block_hash: Option<String>,
}

/// A signer as the API tells it.
#[derive(Debug, Clone)]
pub(super) struct Signer {
    pub(super) signer: String,
    pub(super) next_nonce: u64,
    pub(super) token: u64,
}

/// A row of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Completion {
    pub(super) seq: u64,
    pub(super) tx_id: String,
    pub(super) state: String,
    pub(super) sub_state: Option<String>,
    pub(super) nonce: Option<u64>,
    pub(super) tx_hash: Option<String>,
    pub(super) block_number: Option<u64>,
    pub(super) at: String,
    pub(super) corrects: Option<u64>,
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub(super) struct Mined {
    pub(super) payload: Payload,
    pub(super) nonce: u64,
    pub(super) hash: String,
    pub(super) block_number: u64,
    pub(super) block_hash: String,
    pub(super) is_success: bool,
}

/// What a reorg did.
#[derive(Debug, Clone)]
pub(super) struct Reorg {
    /// How many blocks it replaced.
    pub(super) depth: u64,
    /// The hashes that were in them and neither in the new ones nor in the pool.
    pub(super) gone: BTreeSet<String>,
    /// Those of them that readers of the feed had been told of by then.
    pub(super) told: BTreeSet<String>,
    /// Those of them whose history says that their block was replaced.
    pub(super) noticed: BTreeSet<String>,
    /// Those of them that were sent again.
    pub(super) sent_again: BTreeSet<String>,
    /// How long it took until all were in blocks again.
    pub(super) back_after: Option<Duration>,
}

/// What a crash did.
#[derive(Debug, Clone)]
pub(super) struct Crash {
    /// The processes before and after it.
    pub(super) pids: (u32, u32),
    /// The signal that ended the first one.
    pub(super) signal: Option<i32>,
    /// The transactions that were accepted and not told as final by then.
    pub(super) open: BTreeSet<String>,
    /// Each signer's token before it.
    pub(super) tokens: BTreeMap<String, u64>,
    /// How many tries of clients had no answer, in all of the story.
    pub(super) retries: u64,
    /// How long the next one took until it was ready.
    pub(super) ready_after: Duration,
    /// How long after the kill a transaction was told as final again.
    pub(super) told_after: Option<Duration>,
}

/// Whether nothing more is to come in this state.
pub(super) fn is_final(state: &str) -> bool {
    matches!(state, "CONFIRMED" | "FAILED_FINAL")
}
