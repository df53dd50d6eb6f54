//! The ports: what the application needs of the outside. [`Store`] is a set of whole operations:
//! one method is one database transaction, a batch goes in and an answer for each item comes out.
//!
//! `Fenced`, `Stale`, `Known` and `Conflict` are answers. A [`StoreError`] means that the question
//! could not be put, and says whether something may have been written.

mod error;
mod clock;
mod lane;
mod failover;
mod create;
mod moves;
mod remedy;
mod policy;
mod reservation;
mod retire;
mod import;
mod read;
mod client_read;
mod chain;
mod signer;
mod peers;
mod watched;
pub mod check;

use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;

pub use chain::{
    BlockBody, Chain, ChainHealth, ChainUnavailable, Consumer, CountMode, EndpointHealth, Estimate,
    Receipt, Source, Tip,
};
pub use client_read::{for_client, is_for_client};
pub use clock::{Clock, Ticks};
pub use create::{
    Body, Enqueued, LaneBatch, LaneCreated, LanePromotion, LaneRefusal, Loan, NewTx, Stored,
};
pub use error::StoreError;
pub use failover::Vouched;
pub use import::{IMPORT_MAX, Import, Imported, OpenBody, OpenTx, Unimportable};
pub use lane::{
    Acquired, Audit, Backlog, Beat, Bid, CursorMove, CursorMoved, Held, Holder, LaneView, Lead,
    Leader, Orphan, PauseChange, PauseReason, Paused, PausedLanes, Peer, Reach, Renewed, Taken,
    Terms,
};
pub use moves::{Claimed, Closing, LaneMoved, LaneMoves, Move, SendOutcome};
pub use peers::{Peers, Unforwarded};
pub use policy::{Advice, Instead, Noop, Plight, Policy};
pub use read::{Completion, Feed, Key, PageQuery, Record, Reservation, StoredAttempt, StoredEvent};
pub use remedy::{
    Act, Action, Acts, AskedRemedy, ClaimedRemedies, ClaimedRemedy, Decided, Decision, NewRemedy,
    Progress, REFUSED_CALL, RemedyId, settled,
};
pub use reservation::{LATE_HASHES_MAX, Settle, SettleAct, Settled};
pub use retire::{Retire, Retired, Stage};
pub use signer::{Signed, Signer, Unsignable};
pub use watched::{Watched, Watcher};

/// The greatest page, batch of ids or list that any read returns: more would hold a connection and
/// memory for one caller.
pub const READ_LIMIT_MAX: usize = 1_000;

/// The greatest number of items in one write: the statement must finish well within its timeout.
pub const WRITE_LIMIT_MAX: usize = 8_192;

/// How a store that answers is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulse {
    /// How long the oldest reader has kept the database from forgetting old rows, where there is one
    /// and the store can tell. An old one makes the feed's counter slow.
    pub oldest_snapshot: Option<Duration>,
}

/// The one place where anything is kept.
///
/// **The fence.** Each method that takes a [`Holder`] and [`Held`] lanes writes only for lanes that
/// this holder leads with this token, at the moment of the write, by the store's clock, and renews
/// their leases. For any other lane it changes nothing and answers `Fenced`.
///
/// **All or nothing per lane.** What was sent for one lane is written whole, or not at all.
///
/// **Unknown outcomes.** [`StoreError::OutcomeUnknown`] means that the write may have happened or
/// may still happen. The caller must bid for the lane with [`Bid::fresh`] and then read by id: only
/// behind a new token is "not there" a fact.
#[async_trait]
pub trait Store: Send + Sync {
    /// Whether the store answers and its schema is the one this program needs.
    async fn ping(&self) -> Result<Pulse, StoreError>;

    /// The time by the store's clock, which alone decides leases and deadlines.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    // ---- nodes -------------------------------------------------------------------------------

    /// Takes the next incarnation of a node id. Older ones become ghosts.
    async fn join(&self, node: &NodeId, url: &str) -> Result<Incarnation, StoreError>;

    /// Says that the node lives, which chains it is configured with and which of them it reaches; returns all nodes
    /// that beat lately, itself among them, or that it is a ghost.
    async fn beat(&self, holder: &Holder, chains: &[Reach]) -> Result<Beat, StoreError>;

    // ---- lanes -------------------------------------------------------------------------------

    /// The ids of these lanes, in order, made where they were missing.
    async fn open_lanes(&self, lanes: &[Lane]) -> Result<Vec<LaneId>, StoreError>;

    /// Bids for leadership; one answer for each bid, in order.
    async fn acquire(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError>;

    /// Renews many leases in one statement; one answer for each, in order. A lane that another
    /// statement is writing is `Busy`: that statement has renewed it.
    async fn renew(&self, holder: &Holder, held: &[Held]) -> Result<Vec<Renewed>, StoreError>;

    /// Gives leases up at once; tokens stay. Returns the lanes that were still ours.
    async fn release(&self, holder: &Holder, held: &[Held]) -> Result<Vec<LaneId>, StoreError>;

    /// Lanes with unfinished work and no living leader, by id, after the given one.
    async fn orphans(&self, after: Option<LaneId>, limit: usize)
    -> Result<Vec<Orphan>, StoreError>;

    /// Lanes that have given nonces and lost their leader, or were given up, not longer ago than this, by id,
    /// after the given one, with or without unfinished work.
    async fn unwatched(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError>;

    /// One lane as an operator sees it.
    async fn lane(&self, lane: Lane) -> Result<Option<LaneView>, StoreError>;

    /// Many lanes as an operator sees them, by id, after the given one.
    async fn lanes(&self, after: Option<LaneId>, limit: usize)
    -> Result<Vec<LaneView>, StoreError>;

    /// What has not ended, by chain: of at most so many transactions, in the order of their ids, after the given one.
    /// Fewer of them means that there are no more. What has ended is not read, or only until the store has cleaned up.
    async fn backlog(&self, after: Option<TxId>, limit: usize) -> Result<Vec<Backlog>, StoreError>;

    /// How many lanes give no nonces, by chain and reason; those of which there are none are left out.
    async fn paused_lanes(&self) -> Result<Vec<PausedLanes>, StoreError>;

    /// Stops or resumes the giving of nonces and the storing of attempts. When it answers, no
    /// statement that began before can still do either. Needs no leadership, but is audited.
    async fn pause(
        &self,
        lane: LaneId,
        change: PauseChange,
        audit: &Audit,
    ) -> Result<Paused, StoreError>;

    /// After the store was failed over to a server that may lack its newest writes: says what we know to be missing, and
    /// lets lanes go on that we led last and of which nothing is. Asks the store nothing while there was no failover.
    async fn vouch(&self, holder: &Holder) -> Result<Vouched, StoreError>;

    /// Moves a cursor: up by its leader, anywhere by an operator on a paused lane above which nothing
    /// is held.
    async fn move_cursor(
        &self,
        lane: LaneId,
        to: &CursorMove,
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError>;

    /// Takes over nonces that another service has given, and its cursor: on a paused lane, all or nothing,
    /// audited. Its leader loses the lease, so that whoever leads next reads the lane anew.
    async fn import(
        &self,
        lane: LaneId,
        import: &Import,
        audit: &Audit,
    ) -> Result<Imported, StoreError>;

    /// Nonces from `from` up to the cursor that no transaction holds, lowest first. What a deleted
    /// transaction used, and all below it, is used.
    async fn gaps(&self, lane: LaneId, from: Nonce, limit: usize)
    -> Result<Vec<Nonce>, StoreError>;

    // ---- accepting ---------------------------------------------------------------------------

    /// Stores new transactions with their nonces: one answer for each lane, in order. A lane with one that is not to be given a
    /// nonce any more, by the store's clock, gets none.
    async fn create(
        &self,
        holder: &Holder,
        batches: &[LaneBatch],
    ) -> Result<Vec<LaneCreated>, StoreError>;

    /// Stores transactions without a nonce, behind all that wait in their lanes; any node may.
    /// One answer for each, in order. A lane takes no more once `queue_max` wait in it.
    async fn enqueue(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Result<Vec<Enqueued>, StoreError>;

    /// What waits in a lane, in order of arrival.
    async fn queued(&self, lane: LaneId, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Lanes in which transactions wait, by id, after the given one.
    async fn queued_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError>;

    /// Gives nonces to queued transactions; one answer for each lane, in order. Anything but the
    /// front of the queue, in order, is stale, and so is one that is not to be given a nonce any more.
    async fn promote(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Result<Vec<LaneCreated>, StoreError>;

    // ---- moving ------------------------------------------------------------------------------

    /// Moves transactions that do not end by it: attempts before they are sent, outcomes, receipts,
    /// reorgs. One answer for each lane, in order.
    async fn apply(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError>;

    /// Makes the moves that the feed tells, and numbers them in it. One answer for
    /// each lane, in order.
    async fn complete(
        &self,
        holder: &Holder,
        batches: &[LaneMoves],
    ) -> Result<Vec<LaneMoved>, StoreError>;

    /// Takes due work of led lanes, oldest first: puts it off by `next_in_ms` and counts a try for
    /// what has bytes to send, before anything is sent.
    async fn claim_due(
        &self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Result<Claimed, StoreError>;

    // ---- remedies ----------------------------------------------------------------------------

    /// Stores what a policy or an operator wants done; whoever leads the lane will do it.
    async fn ask_remedy(&self, remedy: &NewRemedy) -> Result<AskedRemedy, StoreError>;

    /// Takes the remedies of led lanes that were asked for, or claimed under an older token and
    /// never carried out. [`Closing`] in a move closes one.
    async fn claim_remedies(
        &self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Result<ClaimedRemedies, StoreError>;

    /// Writes what a policy has said in a round that was claimed as [`Action::Decide`]: the remedy
    /// becomes what is to be done, still claimed under our token, or is closed.
    async fn decide_remedy(
        &self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Result<Decision, StoreError>;

    /// Lanes with remedies that are not over, by id, after the given one.
    async fn remedy_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError>;

    /// What was asked for and done, newest first, before the given one.
    async fn acts(
        &self,
        of: Acts,
        before: Option<RemedyId>,
        limit: usize,
    ) -> Result<Vec<Act>, StoreError>;

    /// Writes down a call that was refused: who made it and what it was, and what was answered.
    async fn record_refusal(&self, audit: &Audit, answer: &str) -> Result<(), StoreError>;

    // ---- reservations ------------------------------------------------------------------------

    /// What the holder of a reservation says; its lock token is the fence, so any node may.
    async fn settle(&self, call: &Settle) -> Result<Settled, StoreError>;

    // ---- retiring ----------------------------------------------------------------------------

    /// Makes what ended long ago small, or deletes it: one bounded statement, which waits for nobody and
    /// of which one runs at a time. What is held, was reopened or is not deep enough is left alone.
    async fn retire(&self, retire: &Retire) -> Result<Retired, StoreError>;

    // ---- reading -----------------------------------------------------------------------------

    /// One transaction.
    async fn find(&self, key: &Key) -> Result<Option<Record>, StoreError>;

    /// Many transactions; those that exist, in no order.
    async fn find_many(&self, ids: &[TxId]) -> Result<Vec<Record>, StoreError>;

    /// A page, newest id first.
    async fn page(&self, query: &PageQuery) -> Result<Vec<Record>, StoreError>;

    /// Transactions of a lane that hold a nonce above `after` and have not ended, by nonce.
    async fn unfinished(
        &self,
        lane: LaneId,
        after: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// A transaction's events after `after`, in order.
    async fn history(
        &self,
        tx: TxId,
        after: LaneSeq,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// The events of these transactions that give their published lists of confirmations, by transaction and in
    /// order: from the last one on that [begins a list](fencepost_domain::event::Event::begins_list).
    async fn listing(&self, txs: &[TxId]) -> Result<Vec<StoredEvent>, StoreError>;

    /// All attempts of these transactions, by transaction and number.
    async fn attempts(&self, txs: &[TxId]) -> Result<Vec<StoredAttempt>, StoreError>;

    /// The feed after `after`: contiguous, and never another row at or below what was returned. Below its
    /// floor there is nothing to return, not even what comes after.
    async fn completions(&self, after: FeedSeq, limit: usize) -> Result<Feed, StoreError>;
}
