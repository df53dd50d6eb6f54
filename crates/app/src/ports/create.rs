//! Accepting: new transactions and reservations with a nonce, or without one in the queue.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::B256;
use fencepost_domain::ids::{Lane, LaneId, LockToken, Nonce, RequestId, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::seal::{Content, Proof, Secrets};
use fencepost_domain::state::Kind;
use jiff::Timestamp;

use super::{Held, PauseReason, Record};

/// One row to be stored. Its id was minted by the node that accepted it and stays on every path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTx {
    /// The id.
    pub tx: TxId,
    /// The row's seal; the node that stores the row makes it, and there is none without a secret.
    pub seal: Option<B256>,
    /// The client's own name for it, unique in its lane.
    pub request_id: Option<RequestId>,
    /// What it is.
    pub body: Body,
    /// Not to be given a nonce after this time, by the store's clock.
    pub not_after: Option<Timestamp>,
    /// The client's own words.
    pub meta: Option<Meta>,
    /// The name of the API key that asked for it; none where no key did. It is kept and shown, and decides nothing.
    pub created_by: Option<Arc<str>>,
}

/// What a new row is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// We sign and send it.
    Managed(Payload),
    /// A nonce to lend out.
    Reserved(Loan),
    /// It uses up exactly this nonce, which must be below the cursor and held by nobody.
    Placeholder(Nonce),
}

/// The terms of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loan {
    /// What its holder will show.
    pub lock: LockToken,
    /// For how long.
    pub ttl: Duration,
    /// How long after that the leader first looks whether it can be given back.
    pub grace: Duration,
}

impl NewTx {
    /// The kind of row it makes.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.body {
            Body::Managed(_) => Kind::Managed,
            Body::Reserved(_) => Kind::Reserved,
            Body::Placeholder(_) => Kind::Placeholder,
        }
    }

    /// The stored payload and its hash; a reservation and a placeholder have none.
    #[must_use]
    pub fn payload(&self) -> Option<(&[u8], &B256)> {
        match &self.body {
            Body::Managed(payload) => Some(payload.canonical_and_hash()),
            Body::Reserved(_) | Body::Placeholder(_) => None,
        }
    }

    /// The same, sealed as a row of this lane.
    #[must_use]
    pub fn sealed(mut self, secrets: &Secrets, lane: Lane) -> Self {
        self.seal = secrets.seal(&Content {
            tx: self.tx,
            lane,
            kind: self.kind(),
            payload: match &self.body {
                Body::Managed(payload) => Some(payload),
                Body::Reserved(_) | Body::Placeholder(_) => None,
            },
        });
        self
    }

    /// What the stored row says about its content.
    #[must_use]
    pub fn proof(&self) -> Proof {
        Proof {
            hash: self.payload().map(|(_, hash)| *hash),
            seal: self.seal,
        }
    }

    /// Whether a stored row is this very request: the same id, or the same words.
    #[must_use]
    pub fn is_same(&self, stored: &Record) -> bool {
        // One that was placed for another nonce is another request.
        let elsewhere = match self.body {
            // One that has ended without using its nonce gave it back, and is still known for it.
            Body::Placeholder(nonce) => {
                stored.state.nonce().or(stored.state.gave_back()) != Some(nonce)
            }
            Body::Managed(_) | Body::Reserved(_) => false,
        };
        !elsewhere
            && self.kind() == stored.kind
            // The hash stays where the payload was retired, or changed by somebody.
            && self.proof().hash == stored.proof.hash
    }

    /// Whether a row found by our id, or by our lane and request id, answers this request: then it
    /// is known, and otherwise a conflict. An id that was used in another lane, or under another
    /// name, is another request.
    #[must_use]
    pub fn matches(&self, lane: LaneId, stored: &Record) -> bool {
        let named = self.tx == stored.tx || self.request_id.is_some();
        named
            && lane == stored.lane_id
            && self.request_id == stored.request_id
            && (self.is_same(stored) || Mutant::PayloadNotCompared.is_on())
    }
}

/// New transactions of one lane. The nonces follow from `free` and `cursor`
/// ([`fencepost_domain::nonce::plan`]), in order, past those that turn out to be known already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneBatch {
    /// The lane and our token.
    pub held: Held,
    /// Where we believe the cursor stands; compared and set.
    pub cursor: Nonce,
    /// Free nonces to use first; each must still be free.
    pub free: Vec<Nonce>,
    /// What to store, in order of arrival.
    pub txs: Vec<NewTx>,
}

/// Queued transactions of one lane that are to get their nonces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanePromotion {
    /// The lane and our token.
    pub held: Held,
    /// Where we believe the cursor stands; compared and set.
    pub cursor: Nonce,
    /// Free nonces to use first; each must still be free.
    pub free: Vec<Nonce>,
    /// The front of the queue, in order.
    pub txs: Vec<TxId>,
}

/// The answer for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneCreated {
    /// Written.
    Done {
        /// One for each transaction, in order.
        txs: Vec<Stored>,
        /// The cursor now.
        next_nonce: Nonce,
        /// Free nonces are left in the lane.
        more_free: bool,
    },
    /// Nothing was written for this lane.
    Refused(LaneRefusal),
}

/// What became of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Stored with this nonce.
    New {
        /// The nonce.
        nonce: Nonce,
        /// When, by the store's clock.
        at: Timestamp,
    },
    /// It was there already, the same: nothing was spent.
    Known(Box<Record>),
    /// Its id or request id is another request's: nothing was spent.
    Conflict(Box<Record>),
}

/// Why nothing was written for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneRefusal {
    /// Not our lane any more.
    Fenced,
    /// No nonces are given.
    Paused(PauseReason),
    /// Others wait in the queue and go first.
    QueueFirst,
    /// The cursor stands elsewhere.
    CursorMoved(Nonce),
    /// One of the free nonces is free no longer.
    FreeMoved,
    /// What was to be promoted is not the front of the queue, or its time has passed.
    Stale,
    /// One of the new transactions is not to be given a nonce any more: this is the time by the store's clock.
    Late(Timestamp),
    /// A transaction holds this nonce already. On the cursor's path that should be impossible.
    NonceHeld(Nonce),
    /// The lane has no nonces left that a store can hold.
    Exhausted,
    /// Another statement holds the lane for longer than is waited. Nothing was written.
    Busy,
    /// There is no such lane.
    UnknownLane,
}

/// What became of one transaction that was to wait in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits.
    Queued {
        /// Since when, by the store's clock.
        at: Timestamp,
    },
    /// It was there already, the same.
    Known(Box<Record>),
    /// Its id or request id is another request's.
    Conflict(Box<Record>),
    /// Too many wait in that lane.
    Full,
    /// There is no such lane.
    UnknownLane,
}
