//! Nonces that another service has given, taken over on a paused lane.

use std::time::Duration;

use fencepost_domain::attempt::{self, Attempt};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{Nonce, RequestId, TxId};
use fencepost_domain::request::Payload;
use fencepost_domain::state::{Lent, Reserved, Seen, State, Submitted, Tracking};
use fencepost_domain::{B256, Bytes};

use super::{Body, Loan, NewTx};

/// The most open nonces that one import takes. More would hold the lane's row for long; a service with more
/// in flight waits until some are in blocks.
pub const IMPORT_MAX: usize = 1_000;

/// What one lane takes over, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The cursor afterwards. Every open nonce is below it.
    pub next_nonce: Nonce,
    /// Nonces that were given and are not final.
    pub open: Vec<OpenTx>,
    /// Check everything and write nothing.
    pub dry_run: bool,
}

/// One nonce that another service has given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTx {
    /// The id it gets.
    pub tx: TxId,
    /// The seal of its row.
    pub seal: Option<B256>,
    /// The nonce.
    pub nonce: Nonce,
    /// The client's own name for it, unique in its lane.
    pub request_id: Option<RequestId>,
    /// How far it is.
    pub body: OpenBody,
}

/// How far a nonce is that another service has given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenBody {
    /// Nothing is sent: it becomes a reservation.
    Reserved(Loan),
    /// This hash is sent, by someone who keeps the bytes: it becomes a reservation that is followed by hash.
    Submitted(Loan, B256),
    /// These bytes may be sent: it becomes a transaction of ours with one attempt.
    Tracking(Payload, Attempt),
}

impl OpenTx {
    /// What the first event of its history says. By it an import that is repeated knows its own rows.
    pub const NOTE: &str = "imported";

    /// The row to store, as if it had been accepted here.
    #[must_use]
    pub fn row(&self) -> NewTx {
        NewTx {
            tx: self.tx,
            seal: self.seal,
            request_id: self.request_id.clone(),
            body: match &self.body {
                OpenBody::Reserved(loan) | OpenBody::Submitted(loan, _) => Body::Reserved(*loan),
                OpenBody::Tracking(payload, _) => Body::Managed(payload.clone()),
            },
            not_after: None,
            meta: None,
            created_by: None,
        }
    }

    /// Where it stands from now on. Nobody here has sent its bytes, so that they arrived is unknown: they are
    /// sent again, which is safe, because they are the same.
    #[must_use]
    pub fn state(&self) -> State {
        let nonce = self.nonce;
        match &self.body {
            OpenBody::Reserved(_) => State::Reserved(Reserved { nonce }),
            OpenBody::Submitted(_, hash) => State::Submitted(Submitted {
                nonce,
                hash: *hash,
                seen: Lent::Awaited,
            }),
            OpenBody::Tracking(_, attempt) => State::Tracking(Tracking {
                nonce,
                hash: attempt.hash,
                seen: Seen::Ambiguous,
            }),
        }
    }

    /// What is stored of what was sent.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        match &self.body {
            OpenBody::Reserved(_) => None,
            OpenBody::Submitted(_, hash) => Some(Attempt {
                kind: attempt::Kind::External,
                hash: *hash,
                raw: Bytes::new(),
                fees: None,
            }),
            OpenBody::Tracking(_, attempt) => Some(attempt.clone()),
        }
    }

    /// The hash that was sent, if one was.
    #[must_use]
    pub fn hash(&self) -> Option<B256> {
        match &self.body {
            OpenBody::Reserved(_) => None,
            OpenBody::Submitted(_, hash) => Some(*hash),
            OpenBody::Tracking(_, attempt) => Some(attempt.hash),
        }
    }

    /// The first event of its history.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::new(event::Kind::Accepted)
            .hash(self.hash())
            .note(Self::NOTE)
    }

    /// How long after now the leader first looks at it.
    #[must_use]
    pub fn due_in(&self) -> Duration {
        match &self.body {
            OpenBody::Reserved(loan) => loan.ttl.saturating_add(loan.grace),
            OpenBody::Submitted(..) | OpenBody::Tracking(..) => Duration::ZERO,
        }
    }
}

/// The answer to an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// All of it was written, or would be.
    Done {
        /// Where the cursor stood before.
        from: Nonce,
    },
    /// These items cannot be taken, by their place in the list. Nothing was written.
    Refused(Vec<(usize, Unimportable)>),
    /// A transaction holds this nonce, at or above the new cursor. Nothing was written.
    Holds(Nonce),
    /// Only a paused lane takes over anything.
    NotPaused,
    /// There is no such lane.
    UnknownLane,
}

/// Why an open nonce cannot be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unimportable {
    /// A transaction of the lane holds the nonce.
    NonceHeld(TxId),
    /// A transaction that was deleted since has used the nonce.
    NonceUsed,
    /// A transaction of the lane has the request id.
    RequestKnown(TxId),
    /// A transaction on the chain has the hash.
    HashKnown(TxId),
}
