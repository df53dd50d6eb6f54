//! The PostgreSQL store: the only code that knows Postgres SQL.
//!
//! Every critical write is one autocommit statement that takes the lane's row first
//! (`sql/create.sql`, `sql/promote.sql`, `sql/moves.sql`, `sql/decide.sql`). `statement` says what
//! happens when its reply is lost, `connect` which servers are trusted at all.

mod broken;
mod target;
mod password;
mod tls;
mod session;
mod reach;
mod pool;
mod connect;
mod pooler;
mod rights;
mod schema;
mod witness;
mod failover;
mod identity;
mod judge;
mod migrate;
mod fault;
mod statement;
mod row;
mod column;
mod node;
mod lease;
mod bid;
mod blockers;
mod operate;
mod import;
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

use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import, Imported,
    Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx,
    Orphan, PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Store, StoreError, StoredAttempt, StoredEvent, Terms,
    Vouched, check,
};
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;
use tokio::sync::Mutex;

pub use connect::Settings;
pub use failover::Failover;
pub use password::Password;
pub use schema::check_schema;
pub use target::Target;
pub use tls::{SslMode, Tls};

/// The store on PostgreSQL. Cheap to share; any number of nodes use one database.
pub struct PostgresStore {
    settings: Settings,
    connections: connect::Connections,
    /// The newest failover, while lanes wait for what we say about them.
    judging: Mutex<Option<judge::Judgement>>,
    /// Where this node is reached, once it has joined.
    joined: StdMutex<Option<String>>,
    /// How many batches from now on look for known requests before they insert.
    wary: AtomicU32,
    blocked: blockers::BlockedLanes,
}

impl PostgresStore {
    /// Connects, brings the schema up to date, and checks that the server can keep promises.
    pub async fn open(settings: Settings) -> Result<Self, StoreError> {
        let connections = connect::Connections::new(&settings)?;
        pooler::refuse_transaction_mode(&settings, &connections).await?;
        migrate::migrate(&settings, &connections).await?;
        Self::on(settings, connections).await
    }

    /// Connects to a database that was migrated before.
    pub async fn attach(settings: Settings) -> Result<Self, StoreError> {
        let connections = connect::Connections::new(&settings)?;
        pooler::refuse_transaction_mode(&settings, &connections).await?;
        Self::on(settings, connections).await
    }

    async fn on(settings: Settings, connections: connect::Connections) -> Result<Self, StoreError> {
        let store = Self {
            settings,
            connections,
            judging: Mutex::default(),
            joined: StdMutex::default(),
            wary: AtomicU32::new(0),
            blocked: blockers::BlockedLanes::default(),
        };
        store.refuse_missing_rights().await?;
        store.ping().await?;
        store.report_missing_rights().await?;
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

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let rows = self
            .connections
            .read("SELECT clock_timestamp() AS now", &[]);
        let rows = rows.await?;
        let row = rows.first().ok_or_else(|| row::corrupt("now"))?;
        row::column(row, "now")
    }

    async fn join(&self, node: &NodeId, url: &str) -> Result<Incarnation, StoreError> {
        check::url(url)?;
        self.join_node(node, url).await
    }

    async fn beat(&self, holder: &Holder, chains: &[Reach]) -> Result<Beat, StoreError> {
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

    async fn paused_lanes(&self) -> Result<Vec<PausedLanes>, StoreError> {
        self.paused_by_chain().await
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

    async fn vouch(&self, holder: &Holder) -> Result<Vouched, StoreError> {
        self.vouch_lanes(holder).await
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
            CursorMove::Set { to } => self.set_cursor(lane, *to, audit).await,
        }
    }

    async fn import(
        &self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Imported, StoreError> {
        check::import(import, audit)?;
        self.import_open(lane, import, audit).await
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

    async fn record_refusal(&self, audit: &Audit, answer: &str) -> Result<(), StoreError> {
        check::refusal(audit, answer)?;
        self.add_refusal(audit, answer).await
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

    async fn listing(&self, txs: &[TxId]) -> Result<Vec<StoredEvent>, StoreError> {
        check::ids(txs)?;
        self.listing_events(txs).await
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
