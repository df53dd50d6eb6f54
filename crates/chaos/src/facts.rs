//! What the database and the chains hold when all is over. Together with the clients' log this is all that
//! the checker knows.

pub(crate) mod database;
pub(crate) mod chain;
pub(crate) mod dump;

use crate::note::{FeedRow, Micros};

#[derive(Debug, Clone, Default)]
pub(crate) struct LaneRow {
    pub(crate) lane: usize,
    pub(crate) token: u64,
    pub(crate) cursor: u64,
    /// The number of the lane's last event.
    pub(crate) events_last: u64,
    /// How many events there are.
    pub(crate) events: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TxRow {
    pub(crate) tx: String,
    pub(crate) lane: usize,
    pub(crate) kind: String,
    pub(crate) request: Option<String>,
    pub(crate) payload_hash: Option<String>,
    pub(crate) nonce: Option<u64>,
    pub(crate) given_back: Option<u64>,
    pub(crate) state: String,
    pub(crate) sub: Option<String>,
    /// The hash that is in a block.
    pub(crate) mined: Option<String>,
    pub(crate) sends: u64,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

/// Signed bytes, read. What a holder signed has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptRow {
    pub(crate) tx: String,
    pub(crate) kind: String,
    pub(crate) hash: String,
    pub(crate) nonce: Option<u64>,
    pub(crate) value: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct CompletionRow {
    pub(crate) row: FeedRow,
    pub(crate) at: Micros,
}

/// What an event says of the blocks that a transaction is in and below.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToldRow {
    pub(crate) tx: String,
    pub(crate) kind: String,
    pub(crate) block: Option<String>,
    pub(crate) new_fork: bool,
    /// The hash below the lowest that is published, and then theirs.
    pub(crate) confirmations: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    pub(crate) lanes: Vec<LaneRow>,
    pub(crate) txs: Vec<TxRow>,
    pub(crate) attempts: Vec<AttemptRow>,
    pub(crate) completions: Vec<CompletionRow>,
    pub(crate) feed_head: u64,
    /// Lane and nonce.
    pub(crate) free: Vec<(usize, u64)>,
    /// When nonces were given, by lane.
    pub(crate) given: Vec<(usize, Micros)>,
    /// In the order of each lane.
    pub(crate) told: Vec<ToldRow>,
}

/// A transaction of one of our signers in a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mined {
    pub(crate) lane: usize,
    pub(crate) nonce: u64,
    pub(crate) hash: String,
    pub(crate) value: u64,
    pub(crate) ok: bool,
    /// The hash of its block.
    pub(crate) block: String,
    /// The hash of the block on top.
    pub(crate) next: Option<String>,
}

/// What happened, from three sides.
pub(crate) struct Evidence<'a> {
    pub(crate) notes: &'a [crate::note::Note],
    pub(crate) rows: &'a Rows,
    pub(crate) mined: &'a [Mined],
}
