//! A store that answers every create at once and keeps nothing of it, so that what is counted is our own way from the
//! bytes of a request to the bytes of its answer. Everything else is asked of a real one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies, Clock,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import, Imported,
    Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx,
    Orphan, PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Store, StoreError, Stored, StoredAttempt, StoredEvent,
    Vouched, check,
};
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::nonce;
use fencepost_domain::state::Wait;
use fencepost_sqlite::SqliteStore;
use jiff::Timestamp;

use crate::alone::Hands;

/// The store that answers.
pub(crate) struct Answering {
    pub(crate) rest: SqliteStore,
    pub(crate) hands: Arc<Hands>,
}

impl Answering {
    /// As every store answers for new transactions on the cursor that it has.
    fn created(&self, batch: &LaneBatch) -> Result<LaneCreated, StoreError> {
        let exhausted = |_| StoreError::Invalid("the lane has no more nonces".to_owned());
        let plan = nonce::plan(&[], batch.cursor, batch.txs.len()).map_err(exhausted)?;
        let at = self.hands.now();
        let txs = plan.nonces.into_iter();
        Ok(LaneCreated::Done {
            txs: txs.map(|nonce| Stored::New { nonce, at }).collect(),
            next_nonce: plan.next,
            more_free: false,
        })
    }
}

macro_rules! asked {
    ($(fn $op:ident($($name:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Answering {
            async fn create(&self, _: &Holder, batches: &[LaneBatch]) -> Result<Vec<LaneCreated>, StoreError> {
                check::create(batches)?;
                batches.iter().map(|batch| self.created(batch)).collect()
            }

            $(async fn $op(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                self.rest.$op($($name),*).await
            })*
        }
    };
}

asked! {
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
