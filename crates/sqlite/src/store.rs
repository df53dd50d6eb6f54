//! The port, method by method: check the input, then run one operation.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import, Imported,
    Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx,
    Orphan, PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Store, StoreError, StoredAttempt, StoredEvent, Vouched,
    check,
};
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;

use crate::moves::Told;
use crate::open::SqliteStore;
use crate::row::time;
use crate::{
    accept, acts, due, feed, history, import, lanes, lease, migrate, moves, nodes, operate, queue,
    reads, remedies, reservations, retire,
};

type Answered<T> = Result<T, StoreError>;

#[async_trait]
impl Store for SqliteStore {
    async fn ping(&self) -> Answered<Pulse> {
        // Through the writer: a store that can only be read is not ready.
        self.write(migrate::check).await?;
        Ok(Pulse::default())
    }

    async fn now(&self) -> Answered<Timestamp> {
        self.read(|db| Ok(time(db.now)?)).await
    }

    async fn join(&self, node: &NodeId, url: &str) -> Answered<Incarnation> {
        check::url(url)?;
        let (node, url) = (node.clone(), url.to_owned());
        self.write(move |db| nodes::join(db, &node, &url)).await
    }

    async fn beat(&self, holder: &Holder, chains: &[Reach]) -> Answered<Beat> {
        check::chains(chains)?;
        let (holder, chains) = (holder.clone(), chains.to_vec());
        self.write(move |db| nodes::beat(db, &holder, &chains))
            .await
    }

    async fn open_lanes(&self, lanes: &[Lane]) -> Answered<Vec<LaneId>> {
        check::lanes(lanes)?;
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let lanes = lanes.to_vec();
        self.write(move |db| lanes::open(db, &lanes)).await
    }

    async fn acquire(&self, holder: &Holder, url: &str, bids: &[Bid]) -> Answered<Vec<Acquired>> {
        check::bids(url, bids)?;
        if bids.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, url, bids) = (holder.clone(), url.to_owned(), bids.to_vec());
        self.write(move |db| lease::acquire(db, &holder, &url, &bids))
            .await
    }

    async fn renew(&self, holder: &Holder, held: &[Held]) -> Answered<Vec<Renewed>> {
        check::held(held)?;
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, held) = (holder.clone(), held.to_vec());
        self.write(move |db| lease::renew(db, &holder, &held)).await
    }

    async fn release(&self, holder: &Holder, held: &[Held]) -> Answered<Vec<LaneId>> {
        check::held(held)?;
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, held) = (holder.clone(), held.to_vec());
        self.write(move |db| lease::release(db, &holder, &held))
            .await
    }

    async fn unwatched(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Answered<Vec<Orphan>> {
        check::limit(limit)?;
        self.read(move |db| lease::unwatched(db, within, after, limit))
            .await
    }

    async fn orphans(&self, after: Option<LaneId>, limit: usize) -> Answered<Vec<Orphan>> {
        check::limit(limit)?;
        self.read(move |db| lease::orphans(db, after, limit)).await
    }

    async fn lane(&self, lane: Lane) -> Answered<Option<LaneView>> {
        self.read(move |db| lanes::lane(db, lane)).await
    }

    async fn lanes(&self, after: Option<LaneId>, limit: usize) -> Answered<Vec<LaneView>> {
        check::limit(limit)?;
        self.read(move |db| lanes::lanes(db, after, limit)).await
    }

    async fn backlog(&self, after: Option<TxId>, limit: usize) -> Answered<Vec<Backlog>> {
        check::limit(limit)?;
        self.read(move |db| lanes::backlog(db, after, limit)).await
    }

    async fn paused_lanes(&self) -> Answered<Vec<PausedLanes>> {
        self.read(lanes::paused).await
    }

    async fn pause(&self, lane: LaneId, change: PauseChange, audit: &Audit) -> Answered<Paused> {
        check::pause(change, audit)?;
        let audit = audit.clone();
        self.write(move |db| operate::pause(db, lane, change, &audit))
            .await
    }

    async fn vouch(&self, _: &Holder) -> Answered<Vouched> {
        // A file is never failed over to another server.
        Ok(Vouched::default())
    }

    async fn move_cursor(
        &self,
        lane: LaneId,
        to: &CursorMove,
        audit: &Audit,
    ) -> Answered<CursorMoved> {
        check::cursor(lane, to, audit)?;
        let (to, audit) = (to.clone(), audit.clone());
        self.write(move |db| operate::move_cursor(db, lane, &to, &audit))
            .await
    }

    async fn import(&self, lane: LaneId, import: &Import, audit: &Audit) -> Answered<Imported> {
        check::import(import, audit)?;
        let (import, audit) = (import.clone(), audit.clone());
        self.write(move |db| import::import(db, lane, &import, &audit))
            .await
    }

    async fn gaps(&self, lane: LaneId, from: Nonce, limit: usize) -> Answered<Vec<Nonce>> {
        check::limit(limit)?;
        self.read(move |db| operate::gaps(db, lane, from, limit))
            .await
    }

    async fn create(&self, holder: &Holder, batches: &[LaneBatch]) -> Answered<Vec<LaneCreated>> {
        check::create(batches)?;
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, batches) = (holder.clone(), batches.to_vec());
        self.write(move |db| accept::create(db, &holder, &batches))
            .await
    }

    async fn enqueue(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Answered<Vec<Enqueued>> {
        check::enqueue(txs)?;
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        let txs = txs.to_vec();
        self.write(move |db| queue::enqueue(db, &txs, wait, queue_max))
            .await
    }

    async fn queued(&self, lane: LaneId, limit: usize) -> Answered<Vec<Record>> {
        check::limit(limit)?;
        self.read(move |db| queue::queued(db, lane, limit)).await
    }

    async fn queued_lanes(&self, after: Option<LaneId>, limit: usize) -> Answered<Vec<LaneId>> {
        check::limit(limit)?;
        self.read(move |db| queue::lanes(db, after, limit)).await
    }

    async fn promote(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Answered<Vec<LaneCreated>> {
        check::promote(promotions)?;
        if promotions.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, promotions) = (holder.clone(), promotions.to_vec());
        self.write(move |db| queue::promote(db, &holder, &promotions))
            .await
    }

    async fn apply(&self, holder: &Holder, batches: &[LaneMoves]) -> Answered<Vec<LaneMoved>> {
        check::apply(batches)?;
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, batches) = (holder.clone(), batches.to_vec());
        self.write(move |db| moves::write(db, &holder, &batches, Told::Silent))
            .await
    }

    async fn complete(&self, holder: &Holder, batches: &[LaneMoves]) -> Answered<Vec<LaneMoved>> {
        check::complete(batches)?;
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let (holder, batches) = (holder.clone(), batches.to_vec());
        self.write(move |db| moves::write(db, &holder, &batches, Told::Feed))
            .await
    }

    async fn claim_due(
        &self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Answered<Claimed> {
        check::claim_due(held, next_in_ms, limit)?;
        if held.is_empty() {
            return Ok(Claimed::default());
        }
        let (holder, held) = (holder.clone(), held.to_vec());
        self.write(move |db| due::claim(db, &holder, &held, next_in_ms, limit))
            .await
    }

    async fn ask_remedy(&self, remedy: &NewRemedy) -> Answered<AskedRemedy> {
        check::remedy(remedy)?;
        let remedy = remedy.clone();
        self.write(move |db| remedies::ask(db, &remedy)).await
    }

    async fn claim_remedies(
        &self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Answered<ClaimedRemedies> {
        check::claim_remedies(held, limit)?;
        if held.is_empty() {
            return Ok(ClaimedRemedies::default());
        }
        let (holder, held) = (holder.clone(), held.to_vec());
        self.write(move |db| remedies::claim(db, &holder, &held, limit))
            .await
    }

    async fn decide_remedy(
        &self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Answered<Decision> {
        check::decided(decided)?;
        let (holder, decided) = (holder.clone(), decided.clone());
        self.write(move |db| remedies::decide(db, &holder, held, &decided))
            .await
    }

    async fn remedy_lanes(&self, after: Option<LaneId>, limit: usize) -> Answered<Vec<LaneId>> {
        check::limit(limit)?;
        self.read(move |db| acts::lanes(db, after, limit)).await
    }

    async fn acts(&self, of: Acts, before: Option<RemedyId>, limit: usize) -> Answered<Vec<Act>> {
        check::limit(limit)?;
        self.read(move |db| acts::before(db, of, before, limit))
            .await
    }

    async fn record_refusal(&self, audit: &Audit, answer: &str) -> Answered<()> {
        check::refusal(audit, answer)?;
        let (audit, answer) = (audit.clone(), answer.to_owned());
        self.write(move |db| acts::record_refusal(db, &audit, &answer))
            .await
    }

    async fn settle(&self, call: &Settle) -> Answered<Settled> {
        check::settle(call)?;
        let call = *call;
        self.write(move |db| reservations::settle(db, &call)).await
    }

    async fn retire(&self, batch: &Retire) -> Answered<Retired> {
        check::retire(batch)?;
        let batch = batch.clone();
        self.write(move |db| retire::retire(db, &batch)).await
    }

    async fn find(&self, key: &Key) -> Answered<Option<Record>> {
        let key = key.clone();
        self.read(move |db| reads::find(db, &key)).await
    }

    async fn find_many(&self, ids: &[TxId]) -> Answered<Vec<Record>> {
        check::ids(ids)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        self.read(move |db| reads::find_many(db, &ids)).await
    }

    async fn page(&self, query: &PageQuery) -> Answered<Vec<Record>> {
        check::limit(query.limit)?;
        let query = *query;
        self.read(move |db| reads::page(db, &query)).await
    }

    async fn unfinished(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Answered<Vec<Record>> {
        check::limit(limit)?;
        self.read(move |db| reads::unfinished(db, lane, after, limit))
            .await
    }

    async fn history(&self, tx: TxId, after: LaneSeq, limit: usize) -> Answered<Vec<StoredEvent>> {
        check::limit(limit)?;
        self.read(move |db| history::history(db, tx, after, limit))
            .await
    }

    async fn listing(&self, txs: &[TxId]) -> Answered<Vec<StoredEvent>> {
        check::ids(txs)?;
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        let txs = txs.to_vec();
        self.read(move |db| history::listing(db, &txs)).await
    }

    async fn attempts(&self, txs: &[TxId]) -> Answered<Vec<StoredAttempt>> {
        check::ids(txs)?;
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        let txs = txs.to_vec();
        self.read(move |db| history::attempts(db, &txs)).await
    }

    async fn completions(&self, after: FeedSeq, limit: usize) -> Answered<Feed> {
        check::limit(limit)?;
        self.read(move |db| feed::completions(db, after, limit))
            .await
    }
}
