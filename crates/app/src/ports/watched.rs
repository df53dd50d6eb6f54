//! A store behind someone who sees every call: to time it, or to make it fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;

use super::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import, Imported,
    Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx,
    Orphan, PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Store, StoreError, StoredAttempt, StoredEvent, Vouched,
};

/// Sees calls. Whatever it answers with an error stands for the store's answer.
#[async_trait]
pub trait Watcher: Send + Sync {
    /// Before the call is put.
    async fn before(&self, op: &'static str) -> Result<(), StoreError>;

    /// After it was answered well, and how long that took.
    async fn after(&self, op: &'static str, took: Duration) -> Result<(), StoreError>;

    /// After the store could not answer it.
    fn failed(&self, _op: &'static str, _error: &StoreError) {}
}

/// A store whose calls are seen.
pub struct Watched {
    store: Arc<dyn Store>,
    watcher: Arc<dyn Watcher>,
}

impl Watched {
    /// Puts the watcher before the store.
    pub fn new(store: Arc<dyn Store>, watcher: Arc<dyn Watcher>) -> Self {
        Self { store, watcher }
    }
}

macro_rules! watched {
    ($(fn $op:ident($($name:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Watched {
            $(async fn $op(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                let op = stringify!($op);
                self.watcher.before(op).await?;
                let began = Instant::now();
                let answer = self.store.$op($($name),*).await;
                let answer = answer.inspect_err(|error| self.watcher.failed(op, error))?;
                self.watcher.after(op, began.elapsed()).await?;
                Ok(answer)
            })*
        }
    };
}

watched! {
    fn ping() -> Pulse;
    fn now() -> Timestamp;
    fn join(node: &NodeId, url: &str) -> Incarnation;
    fn beat(holder: &Holder, chains: &[Reach]) -> Beat;
    fn open_lanes(lanes: &[Lane]) -> Vec<LaneId>;
    fn acquire(holder: &Holder, url: &str, bids: &[Bid]) -> Vec<Acquired>;
    fn renew(holder: &Holder, held: &[Held]) -> Vec<Renewed>;
    fn release(holder: &Holder, held: &[Held]) -> Vec<LaneId>;
    fn orphans(after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
    fn unwatched(within: Duration, after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
    fn lane(lane: Lane) -> Option<LaneView>;
    fn lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneView>;
    fn backlog(after: Option<TxId>, limit: usize) -> Vec<Backlog>;
    fn paused_lanes() -> Vec<PausedLanes>;
    fn pause(lane: LaneId, change: PauseChange, audit: &Audit) -> Paused;
    fn vouch(holder: &Holder) -> Vouched;
    fn move_cursor(lane: LaneId, to: &CursorMove, audit: &Audit) -> CursorMoved;
    fn import(lane: LaneId, import: &Import, audit: &Audit) -> Imported;
    fn gaps(lane: LaneId, from: Nonce, limit: usize) -> Vec<Nonce>;
    fn create(holder: &Holder, batches: &[LaneBatch]) -> Vec<LaneCreated>;
    fn enqueue(txs: &[(LaneId, NewTx)], wait: Wait, queue_max: usize) -> Vec<Enqueued>;
    fn queued(lane: LaneId, limit: usize) -> Vec<Record>;
    fn queued_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
    fn promote(holder: &Holder, promotions: &[LanePromotion]) -> Vec<LaneCreated>;
    fn apply(holder: &Holder, batches: &[LaneMoves]) -> Vec<LaneMoved>;
    fn complete(holder: &Holder, batches: &[LaneMoves]) -> Vec<LaneMoved>;
    fn claim_due(holder: &Holder, held: &[Held], next_in_ms: u64, limit: usize) -> Claimed;
    fn ask_remedy(remedy: &NewRemedy) -> AskedRemedy;
    fn claim_remedies(holder: &Holder, held: &[Held], limit: usize) -> ClaimedRemedies;
    fn decide_remedy(holder: &Holder, held: Held, decided: &Decided) -> Decision;
    fn remedy_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
    fn acts(of: Acts, before: Option<RemedyId>, limit: usize) -> Vec<Act>;
    fn record_refusal(audit: &Audit, answer: &str) -> ();
    fn settle(call: &Settle) -> Settled;
    fn retire(retire: &Retire) -> Retired;
    fn find(key: &Key) -> Option<Record>;
    fn find_many(ids: &[TxId]) -> Vec<Record>;
    fn page(query: &PageQuery) -> Vec<Record>;
    fn unfinished(lane: LaneId, after: Option<Nonce>, limit: usize) -> Vec<Record>;
    fn history(tx: TxId, after: LaneSeq, limit: usize) -> Vec<StoredEvent>;
    fn listing(txs: &[TxId]) -> Vec<StoredEvent>;
    fn attempts(txs: &[TxId]) -> Vec<StoredAttempt>;
    fn completions(after: FeedSeq, limit: usize) -> Feed;
}
