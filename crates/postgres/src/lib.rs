//! The PostgreSQL store: the only code that knows Postgres SQL.
//!
//! Every critical write is one autocommit statement that takes the lane's row first
//! (`sql/create.sql`, `sql/promote.sql`, `sql/moves.sql`, `sql/decide.sql`). `statement` says what
//! happens when its reply is lost, `connect` which servers are trusted at all.

mod broken;
mod connect;
mod migrate;
mod fault;
mod statement;
mod row;
mod column;
mod node;
mod lease;
mod bid;
mod operate;
mod parts;
mod lane_state;
mod known;
mod create;
mod queue;
mod promote;
mod moves;
mod due;
mod remedy;
mod decision;
mod acts;
mod reservation;
mod retire;
mod read;
mod view;

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Key, LaneBatch,
    LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx, Orphan,
    PageQuery, PauseChange, Paused, Pulse, Record, RemedyId, Renewed, Retire, Retired, Settle,
    Settled, Store, StoreError, StoredAttempt, StoredEvent, Terms, check,
};
use fencepost_domain::ids::{
    ChainId, FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId,
};
use fencepost_domain::state::Wait;

pub use connect::Settings;

/// The store on PostgreSQL. Cheap to share; any number of nodes use one database.
pub struct PostgresStore {
    settings: Settings,
    connections: connect::Connections,
    /// How many batches from now on look for known requests before they insert.
    wary: AtomicU32,
}

impl PostgresStore {
    /// Connects, brings the schema up to date, and checks that the server can keep promises.
    pub async fn open(settings: Settings) -> Result<Self, StoreError> {
        migrate::migrate(&settings).await?;
        Self::attach(settings).await
    }

    /// Connects to a database that was migrated before.
    pub async fn attach(settings: Settings) -> Result<Self, StoreError> {
        let connections = connect::Connections::new(&settings)?;
        let store = Self {
            settings,
            connections,
            wary: AtomicU32::new(0),
        };
        store.ping().await?;
        Ok(store)
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        // Our own sessions count too: a statement of ours that hangs is as bad as another's.
        let sql = "SELECT extract(epoch FROM clock_timestamp() - min(a.xact_start))::float8 AS age
                     FROM feed_head, store_identity
                     LEFT JOIN pg_stat_activity a ON a.backend_xmin IS NOT NULL
                          AND a.datname = current_database() AND a.pid <> pg_backend_pid()";
        let rows = self.connections.read(sql, &[]).await?;
        let age: Option<f64> = rows
            .first()
            .map(|row| row::column(row, "age"))
            .transpose()?
            .flatten();
        Ok(Pulse {
            oldest_snapshot: age.map(|age| Duration::from_secs_f64(age.max(0.0))),
        })
    }

    const fn terms(&self) -> Terms {
        self.settings.terms
    }

    fn lease_micros(&self) -> i64 {
        micros(self.terms().duration)
    }
}

/// A duration as statements take it. Longer than 292,000 years is cut.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A row count as statements take it.
fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A place in a batch as statements take it; a batch has no more rows than this holds.
fn number(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}

#[async_trait]
impl Store for PostgresStore {
    async fn ping(&self) -> Result<Pulse, StoreError> {
        self.pulse().await
    }

    async fn join(&self, node: &NodeId, url: &str) -> Result<Incarnation, StoreError> {
        check::url(url)?;
        self.join_node(node, url).await
    }

    async fn beat(&self, holder: &Holder, chains: &[ChainId]) -> Result<Beat, StoreError> {
        check::chains(chains)?;
        self.beat_node(holder, chains).await
    }

    async fn open_lanes(&self, lanes: &[Lane]) -> Result<Vec<LaneId>, StoreError> {
        check::lanes(lanes)?;
        self.open_many(lanes).await
    }

    async fn acquire(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError> {
        check::bids(url, bids)?;
        self.bid(holder, url, bids).await
    }

    async fn renew(&self, holder: &Holder, held: &[Held]) -> Result<Vec<Renewed>, StoreError> {
        check::held(held)?;
        self.renew_many(holder, held).await
    }

    async fn release(&self, holder: &Holder, held: &[Held]) -> Result<Vec<LaneId>, StoreError> {
        check::held(held)?;
        self.release_many(holder, held).await
    }

    async fn orphans(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        check::limit(limit)?;
        self.orphans_after(after, limit).await
    }

    async fn unwatched(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        check::limit(limit)?;
        self.unwatched_after(within, after, limit).await
    }

    async fn lane(&self, lane: Lane) -> Result<Option<LaneView>, StoreError> {
        self.view_one(lane).await
    }

    async fn lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneView>, StoreError> {
        check::limit(limit)?;
        self.view_many(after, limit).await
    }

    async fn backlog(&self, after: Option<TxId>, limit: usize) -> Result<Vec<Backlog>, StoreError> {
        check::limit(limit)?;
        self.backlog_by_chain(after, limit).await
    }

    async fn pause(
        &self,
        lane: LaneId,
        change: PauseChange,
        audit: &Audit,
    ) -> Result<Paused, StoreError> {
        check::pause(change, audit)?;
        self.change_pause(lane, change, audit).await
    }

    async fn move_cursor(
        &self,
        lane: LaneId,
        to: &CursorMove,
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError> {
        check::cursor(lane, to, audit)?;
        match to {
            CursorMove::Raise { holder, held, to } => {
                let to = (*to, Nonce::ZERO);
                self.raise_cursor(holder, *held, to, audit).await
            }
            CursorMove::Forget {
                holder,
                held,
                below,
            } => {
                let to = (Nonce::ZERO, *below);
                self.raise_cursor(holder, *held, to, audit).await
            }
            CursorMove::Lower { to } => self.lower_cursor(lane, *to, audit).await,
        }
    }

    async fn gaps(
        &self,
        lane: LaneId,
        from: Nonce,
        limit: usize,
    ) -> Result<Vec<Nonce>, StoreError> {
        check::limit(limit)?;
        self.gaps_from(lane, from, limit).await
    }

    async fn create(
        &self,
        holder: &Holder,
        batches: &[LaneBatch],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        check::create(batches)?;
        self.create_many(holder, batches).await
    }

    async fn enqueue(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Result<Vec<Enqueued>, StoreError> {
        check::enqueue(txs)?;
        self.enqueue_many(txs, wait, queue_max).await
    }

    async fn queued(&self, lane: LaneId, limit: usize) -> Result<Vec<Record>, StoreError> {
        check::limit(limit)?;
        self.waiting(lane, limit).await
    }

    async fn queued_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        check::limit(limit)?;
        self.waiting_lanes(after, limit).await
    }

    async fn promote(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        check::promote(promotions)?;
        self.promote_many(holder, promotions).await
    }

    async fn apply(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError> {
        check::apply(batches)?;
        self.move_many(holder, batches, moves::Way::Apply).await
    }

    async fn complete(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError> {
        check::complete(batches)?;
        self.move_many(holder, batches, moves::Way::Complete).await
    }

    async fn claim_due(
        &self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Result<Claimed, StoreError> {
        check::claim_due(held, next_in_ms, limit)?;
        self.claim_due_work(holder, held, next_in_ms, limit).await
    }

    async fn ask_remedy(&self, remedy: &NewRemedy) -> Result<AskedRemedy, StoreError> {
        check::remedy(remedy)?;
        self.ask(remedy).await
    }

    async fn claim_remedies(
        &self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Result<ClaimedRemedies, StoreError> {
        check::claim_remedies(held, limit)?;
        self.claim_open_remedies(holder, held, limit).await
    }

    async fn decide_remedy(
        &self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Result<Decision, StoreError> {
        check::decided(decided)?;
        self.decide(holder, held, decided).await
    }

    async fn remedy_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        check::limit(limit)?;
        self.lanes_to_remedy(after, limit).await
    }

    async fn acts(
        &self,
        of: Acts,
        before: Option<RemedyId>,
        limit: usize,
    ) -> Result<Vec<Act>, StoreError> {
        check::limit(limit)?;
        self.acts_before(of, before, limit).await
    }

    async fn settle(&self, call: &Settle) -> Result<Settled, StoreError> {
        check::settle(call)?;
        self.settle_call(call).await
    }

    async fn retire(&self, retire: &Retire) -> Result<Retired, StoreError> {
        check::retire(retire)?;
        self.retire_batch(retire).await
    }

    async fn find(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        self.find_by(key).await
    }

    async fn find_many(&self, ids: &[TxId]) -> Result<Vec<Record>, StoreError> {
        check::ids(ids)?;
        self.find_by_ids(ids).await
    }

    async fn page(&self, query: &PageQuery) -> Result<Vec<Record>, StoreError> {
        check::limit(query.limit)?;
        self.page_before(query).await
    }

    async fn unfinished(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        check::limit(limit)?;
        self.unfinished_after(lane, after, limit).await
    }

    async fn history(
        &self,
        tx: TxId,
        after: LaneSeq,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        check::limit(limit)?;
        self.events_after(tx, after, limit).await
    }

    async fn attempts(&self, txs: &[TxId]) -> Result<Vec<StoredAttempt>, StoreError> {
        check::ids(txs)?;
        self.attempts_of(txs).await
    }

    async fn completions(&self, after: FeedSeq, limit: usize) -> Result<Feed, StoreError> {
        check::limit(limit)?;
        self.feed_after(after, limit).await
    }
}
