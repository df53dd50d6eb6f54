//! The model as a [`Store`]: one lock around plain collections, and a clock that only tests move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    Completion, CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import,
    Imported, Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView,
    NewRemedy, NewTx, Orphan, PageQuery, PauseChange, PauseReason, Paused, PausedLanes, Pulse,
    Reach, Record, RemedyId, Renewed, Retire, Retired, Settle, Settled, Store, StoreError,
    StoredAttempt, StoredEvent, Terms, Vouched,
};
use fencepost_domain::Bytes;
use fencepost_domain::ids::{
    FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, Token, TxId,
};
use fencepost_domain::state::Wait;
use jiff::Timestamp;

use super::retire::Floors;
use crate::Harness;

/// A store in memory.
pub struct Memory {
    whole: Mutex<Whole>,
}

/// All that is stored. Its methods first look for every reason to refuse, and then write.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) terms: Terms,
    pub(super) now: Timestamp,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) lanes: BTreeMap<LaneId, LaneRow>,
    pub(super) records: BTreeMap<TxId, Record>,
    pub(super) attempts: Vec<StoredAttempt>,
    pub(super) events: Vec<StoredEvent>,
    pub(super) feed: Vec<Completion>,
    pub(super) remedies: Vec<Remedy>,
    pub(super) floors: Floors,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) incarnation: Incarnation,
    pub(super) url: String,
    pub(super) beat_at: Timestamp,
    pub(super) chains: Vec<Reach>,
}

#[derive(Debug)]
pub(super) struct LaneRow {
    pub(super) lane: Lane,
    pub(super) owner: Option<(Holder, String)>,
    pub(super) token: Token,
    pub(super) expires_at: Timestamp,
    pub(super) next_nonce: Nonce,
    pub(super) lane_seq: LaneSeq,
    pub(super) paused: Option<PauseReason>,
    pub(super) free: BTreeSet<Nonce>,
    pub(super) queue: Vec<TxId>,
    pub(super) due: BTreeMap<TxId, Timestamp>,
}

/// A remedy or an act, and whose lane it is about.
#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) lane: LaneId,
    pub(super) act: Act,
    /// The bytes of a decision.
    pub(super) raw: Option<Bytes>,
}

impl Memory {
    fn whole(&self) -> MutexGuard<'_, Whole> {
        self.whole.lock().unwrap()
    }
}

impl Whole {
    /// The instant `by` from now.
    pub(super) fn later(&self, by: Duration) -> Timestamp {
        self.now + by
    }

    /// Whether this holder leads this lane under this token, now.
    pub(super) fn leads(&self, holder: &Holder, held: Held) -> bool {
        self.lanes.get(&held.lane).is_some_and(|row| {
            row.owner.as_ref().is_some_and(|(owner, _)| owner == holder)
                && row.token == held.token
                && row.expires_at > self.now
        })
    }

    /// Every write behind the fence renews the lease.
    pub(super) fn renew_lease(&mut self, lane: LaneId) {
        let until = self.later(self.terms.duration);
        self.lane_mut(lane).expires_at = until;
    }

    /// A lane that is known to exist.
    pub(super) fn lane_mut(&mut self, lane: LaneId) -> &mut LaneRow {
        self.lanes.get_mut(&lane).unwrap()
    }
}

/// A harness whose store is the model itself.
pub struct MemoryHarness(Arc<Memory>);

impl MemoryHarness {
    /// An empty store.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let whole = Mutex::new(Whole {
            terms,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            nodes: BTreeMap::new(),
            lanes: BTreeMap::new(),
            records: BTreeMap::new(),
            attempts: Vec::new(),
            events: Vec::new(),
            feed: Vec::new(),
            remedies: Vec::new(),
            floors: Floors::default(),
        });
        Self(Arc::new(Memory { whole }))
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    async fn second_handle(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.0) as Arc<dyn Store>)
    }

    async fn advance(&self, by: Duration) {
        let mut whole = self.0.whole();
        whole.now = whole.later(by);
    }

    fn terms(&self) -> Terms {
        self.0.whole().terms
    }
}

#[async_trait]
impl Store for Memory {
    async fn ping(&self) -> Result<Pulse, StoreError> {
        Ok(Pulse::default())
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.whole().now)
    }

    async fn join(&self, node: &NodeId, url: &str) -> Result<Incarnation, StoreError> {
        self.whole().join(node, url)
    }

    async fn beat(&self, holder: &Holder, chains: &[Reach]) -> Result<Beat, StoreError> {
        self.whole().beat(holder, chains)
    }

    async fn open_lanes(&self, lanes: &[Lane]) -> Result<Vec<LaneId>, StoreError> {
        self.whole().open_lanes(lanes)
    }

    async fn acquire(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError> {
        self.whole().acquire(holder, url, bids)
    }

    async fn renew(&self, holder: &Holder, held: &[Held]) -> Result<Vec<Renewed>, StoreError> {
        self.whole().renew(holder, held)
    }

    async fn release(&self, holder: &Holder, held: &[Held]) -> Result<Vec<LaneId>, StoreError> {
        self.whole().release(holder, held)
    }

    async fn orphans(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        self.whole().orphans(after, limit)
    }

    async fn unwatched(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        self.whole().unwatched(within, after, limit)
    }

    async fn lane(&self, lane: Lane) -> Result<Option<LaneView>, StoreError> {
        Ok(self.whole().lane(lane))
    }

    async fn lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneView>, StoreError> {
        self.whole().lane_views(after, limit)
    }

    async fn backlog(&self, after: Option<TxId>, limit: usize) -> Result<Vec<Backlog>, StoreError> {
        self.whole().backlog(after, limit)
    }

    async fn paused_lanes(&self) -> Result<Vec<PausedLanes>, StoreError> {
        Ok(self.whole().paused_lanes())
    }

    async fn pause(
        &self,
        lane: LaneId,
        change: PauseChange,
        audit: &Audit,
    ) -> Result<Paused, StoreError> {
        self.whole().pause(lane, change, audit)
    }

    async fn vouch(&self, _: &Holder) -> Result<Vouched, StoreError> {
        Ok(Vouched::default())
    }

    async fn move_cursor(
        &self,
        lane: LaneId,
        to: &CursorMove,
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError> {
        self.whole().move_cursor(lane, to, audit)
    }

    async fn import(
        &self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Imported, StoreError> {
        self.whole().import(lane, import, audit)
    }

    async fn gaps(
        &self,
        lane: LaneId,
        from: Nonce,
        limit: usize,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.whole().gaps(lane, from, limit)
    }

    async fn create(
        &self,
        holder: &Holder,
        batches: &[LaneBatch],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        self.whole().create(holder, batches)
    }

    async fn enqueue(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Result<Vec<Enqueued>, StoreError> {
        self.whole().enqueue(txs, wait, queue_max)
    }

    async fn queued(&self, lane: LaneId, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.whole().queued(lane, limit)
    }

    async fn queued_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        self.whole().queued_lanes(after, limit)
    }

    async fn promote(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        self.whole().promote(holder, promotions)
    }

    async fn apply(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError> {
        self.whole().moves(holder, batches, false)
    }

    async fn complete(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError> {
        self.whole().moves(holder, batches, true)
    }

    async fn claim_due(
        &self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Result<Claimed, StoreError> {
        self.whole().claim_due(holder, held, next_in_ms, limit)
    }

    async fn ask_remedy(&self, remedy: &NewRemedy) -> Result<AskedRemedy, StoreError> {
        self.whole().ask_remedy(remedy)
    }

    async fn claim_remedies(
        &self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Result<ClaimedRemedies, StoreError> {
        self.whole().claim_remedies(holder, held, limit)
    }

    async fn decide_remedy(
        &self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Result<Decision, StoreError> {
        self.whole().decide_remedy(holder, held, decided)
    }

    async fn remedy_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        self.whole().remedy_lanes(after, limit)
    }

    async fn acts(
        &self,
        of: Acts,
        before: Option<RemedyId>,
        limit: usize,
    ) -> Result<Vec<Act>, StoreError> {
        self.whole().acts(of, before, limit)
    }

    async fn record_refusal(&self, audit: &Audit, answer: &str) -> Result<(), StoreError> {
        self.whole().record_refusal(audit, answer)
    }

    async fn settle(&self, call: &Settle) -> Result<Settled, StoreError> {
        self.whole().settle(call)
    }

    async fn retire(&self, retire: &Retire) -> Result<Retired, StoreError> {
        self.whole().retire(retire)
    }

    async fn find(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        Ok(self.whole().find(key))
    }

    async fn find_many(&self, ids: &[TxId]) -> Result<Vec<Record>, StoreError> {
        self.whole().find_many(ids)
    }

    async fn page(&self, query: &PageQuery) -> Result<Vec<Record>, StoreError> {
        self.whole().page(query)
    }

    async fn unfinished(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.whole().unfinished(lane, after, limit)
    }

    async fn history(
        &self,
        tx: TxId,
        after: LaneSeq,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.whole().history(tx, after, limit)
    }

    async fn listing(&self, txs: &[TxId]) -> Result<Vec<StoredEvent>, StoreError> {
        self.whole().listing(txs)
    }

    async fn attempts(&self, txs: &[TxId]) -> Result<Vec<StoredAttempt>, StoreError> {
        self.whole().attempts_of(txs)
    }

    async fn completions(&self, after: FeedSeq, limit: usize) -> Result<Feed, StoreError> {
        self.whole().completions(after, limit)
    }
}
