//! Retiring: what ended long ago is made small, and later deleted, a few rows at a time.

use std::time::Duration;

use fencepost_domain::ids::{ChainId, Height};

/// One small batch of what ended long ago. It needs no lane and no lease: a final row is nobody's work,
/// and the store looks at each row again while it holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retire {
    /// What becomes of it.
    pub stage: Stage,
    /// Only what ended longer ago than this.
    pub older_than: Duration,
    /// How many rows are looked at, at most.
    pub limit: usize,
    /// Of what was in a block, only what is below these, and nothing on chains that are not named: a block that
    /// somebody still watches may be replaced, and then its transaction is needed whole.
    pub beneath: Vec<(ChainId, Height)>,
}

/// What becomes of transactions that ended long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Payload, receipt, meta, attempts and events go. What names the transaction stays, and how it ended:
    /// its request id is still known, and another payload under it still conflicts.
    Thin,
    /// The rest goes, and the feed's oldest rows with it. Nonces that were used stay used.
    Delete,
    /// Reservations that were given back, which the feed never tells, go.
    Sweep,
}

/// What one batch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retired {
    /// How many rows were passed; as many as the limit means that there may be more at once.
    pub passed: usize,
    /// How many transactions were retired.
    pub retired: usize,
}
