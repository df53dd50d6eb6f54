//! What reads return.

use std::sync::Arc;

use fencepost_domain::B256;
use fencepost_domain::attempt::{Attempt, Outcome};
use fencepost_domain::event::Event;
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{
    ChainId, FeedSeq, Height, Lane, LaneId, LaneSeq, LockToken, NodeId, Nonce, RequestId, Token,
    TxId, Version,
};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::seal::Proof;
use fencepost_domain::state::{Kind, State};
use jiff::Timestamp;

/// One row of `managed_tx`: the authoritative carrier of intent, nonce and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its id.
    pub tx: TxId,
    /// The lane's id.
    pub lane_id: LaneId,
    /// The lane.
    pub lane: Lane,
    /// What it is for.
    pub kind: Kind,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// What is to be executed; none for a reservation or a placeholder, none once it was retired, and none where what is stored
    /// is no payload.
    pub payload: Option<Payload>,
    /// What the row says about its content. It is compared before anything of the row is signed.
    pub proof: Proof,
    /// The hash of the payload that was retired: whoever sends the same again is told apart by it.
    pub retired: Option<B256>,
    /// Where it stands, with all that is true there.
    pub state: State,
    /// How many sets of bytes were ever stored for it.
    pub attempts: u32,
    /// How often a send was tried.
    pub submit_attempts: u32,
    /// The newest error's text.
    pub last_error: Option<String>,
    /// When a send was first tried.
    pub first_submit_at: Option<Timestamp>,
    /// When a send was last tried.
    pub last_submit_at: Option<Timestamp>,
    /// The receipt as the node gave it.
    pub receipt: Option<String>,
    /// When it became final in a block.
    pub confirmed_at: Option<Timestamp>,
    /// Not to be given a nonce after this time.
    pub not_after: Option<Timestamp>,
    /// The client's own words.
    pub meta: Option<Meta>,
    /// The name of the API key that asked for it; none where no key did.
    pub created_by: Option<Arc<str>>,
    /// The terms of a reservation.
    pub reservation: Option<Reservation>,
    /// The token of the last fenced write.
    pub token: Token,
    /// Counts its writes.
    pub version: Version,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// The terms of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// What its holder must show.
    pub lock: LockToken,
    /// Until when.
    pub expires_at: Timestamp,
}

/// How one transaction is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// By its id.
    Id(TxId),
    /// By the client's own name.
    Request(Lane, RequestId),
    /// By the hash of any of its attempts.
    Hash(ChainId, B256),
    /// By the nonce it holds now.
    Nonce(Lane, Nonce),
}

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageQuery {
    /// Only this lane.
    pub lane: Option<Lane>,
    /// Only this state.
    pub state: Option<Name>,
    /// Only ids below this one: the last of the page before.
    pub before: Option<TxId>,
    /// How many.
    pub limit: usize,
}

/// One event as it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in the lane.
    pub seq: LaneSeq,
    /// Whose it is.
    pub tx: TxId,
    /// What it tells.
    pub event: Event,
    /// State and sub-state before; none for the first.
    pub from: Option<(String, Option<String>)>,
    /// State and sub-state after.
    pub to: (String, Option<String>),
    /// Who wrote it.
    pub node: Option<NodeId>,
    /// Under which token.
    pub token: Token,
    /// When.
    pub at: Timestamp,
}

/// One attempt as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttempt {
    /// Whose it is.
    pub tx: TxId,
    /// Its number, from 1.
    pub n: u32,
    /// The bytes and what they are.
    pub attempt: Attempt,
    /// What came of sending it; none counts as maybe sent.
    pub outcome: Option<Outcome>,
    /// Under which token it was stored.
    pub token: Token,
    /// When.
    pub at: Timestamp,
}

/// One row of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Its number.
    pub seq: FeedSeq,
    /// The transaction.
    pub tx: TxId,
    /// What it is for.
    pub kind: Kind,
    /// The lane.
    pub lane: Lane,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// Its nonce then.
    pub nonce: Option<Nonce>,
    /// Its state then.
    pub state: Name,
    /// Its sub-state then.
    pub sub_state: Option<String>,
    /// Its hash then.
    pub tx_hash: Option<B256>,
    /// The block then.
    pub block_number: Option<Height>,
    /// When it was told.
    pub at: Timestamp,
    /// The final completion of this transaction that this one corrects.
    pub corrects: Option<FeedSeq>,
}

/// A stretch of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// Contiguous, from `after + 1` on.
    pub completions: Vec<Completion>,
    /// The newest number there is.
    pub head: FeedSeq,
    /// Rows up to this one were retired; the feed begins after it.
    pub floor: FeedSeq,
    /// One more each time the database lost its newest writes.
    pub epoch: u64,
}
