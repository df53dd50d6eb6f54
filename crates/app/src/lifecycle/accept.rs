//! Accepting: a request goes to the lane's worker here, to its leader elsewhere, or into the lane's
//! queue, under the one id that this node minted for it. So it is stored once, whoever wakes up late.

use std::time::Duration;

use fencepost_domain::ids::{Token, TxId, Version};
use fencepost_domain::state::{Allocated, Queued, Reserved, Signing, State, Wait};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::causes::Causes;
use crate::directory::Seat;
use crate::lane::work::Ask;
use crate::node::{InHand, Node};
use crate::ports::{Body, Key, Leader, NewTx, PauseReason, Record, Reservation, Unforwarded};
use crate::settings::NotLeader;

/// How long a caller waits for the worker. The store's own deadlines are shorter; beyond this the
/// caller is told that the outcome is unknown.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, with a nonce or in the queue.
    New(Box<Record>),
    /// It was stored before, the same.
    Known(Box<Record>),
    /// Its name is another request's. Nothing was stored.
    Conflict(Box<Record>),
    /// Another node leads the lane, if it is known which. Nothing was stored.
    NotLeader(Option<Leader>),
    /// The lane gives no nonces. Nothing was stored.
    Paused(PauseReason),
    /// Too much waits already. Nothing was stored.
    Overloaded,
    /// The lane has no nonces left. Nothing was stored.
    Exhausted,
    /// The store cannot be used now. Nothing was stored.
    Unavailable,
    /// It cannot be said whether it is stored. Asking again under the same name is safe.
    Unknown,
}

impl Verdict {
    /// Every word that the meters show.
    pub const WORDS: [&'static str; 10] = [
        "new",
        "queued",
        "known",
        "conflict",
        "not_leader",
        "paused",
        "overloaded",
        "exhausted",
        "unavailable",
        "unknown",
    ];

    /// The word that the meters show.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::New(record) if record.state.nonce().is_none() => "queued",
            Self::New(_) => "new",
            Self::Known(_) => "known",
            Self::Conflict(_) => "conflict",
            Self::NotLeader(_) => "not_leader",
            Self::Paused(_) => "paused",
            Self::Overloaded => "overloaded",
            Self::Exhausted => "exhausted",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }

    /// A row that answers a request, as the answer.
    #[must_use]
    pub fn found(seat: Seat, tx: &NewTx, record: Record) -> Self {
        if tx.matches(seat.id, &record) {
            Self::Known(Box::new(record))
        } else {
            Self::Conflict(Box::new(record))
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client: what we cannot do ourselves, we have done.
    Client,
    /// Another node: it goes on with our answer, whatever it is.
    Node,
}

/// A request that was put on a desk, before its answer.
#[must_use = "the answer is still to be waited for"]
pub struct Pending {
    seat: Seat,
    tx: NewTx,
    origin: Origin,
    answer: Option<oneshot::Receiver<Verdict>>,
    _in_hand: InHand,
}

impl Node {
    /// Takes a request in. Requests of one lane get their nonces in the order of these calls.
    pub fn submit(&self, seat: Seat, tx: NewTx, origin: Origin) -> Pending {
        let in_hand = self.take_in_hand();
        let (reply, answer) = oneshot::channel();
        let ask = Ask::new(seat, tx.clone(), reply);
        let put = !self.is_draining() && self.ask(ask).is_ok();
        Pending {
            seat,
            tx,
            origin,
            answer: put.then_some(answer),
            _in_hand: in_hand,
        }
    }

    /// Waits for what becomes of it. To be run in a task of its own: a caller that goes away must not
    /// stop it half way.
    pub async fn settle(&self, pending: Pending) -> Verdict {
        let origin = pending.origin;
        let verdict = self.follow(pending).await;
        // A forwarded request is counted where its client is.
        if origin == Origin::Client {
            self.meters.created(verdict.word());
        }
        verdict
    }

    async fn follow(&self, pending: Pending) -> Verdict {
        let Pending {
            seat,
            tx,
            origin,
            answer,
            _in_hand,
        } = pending;
        let Some(answer) = answer else {
            return Verdict::Overloaded;
        };
        match timeout(PATIENCE, answer).await {
            Ok(Ok(Verdict::NotLeader(leader))) if origin == Origin::Client => {
                self.elsewhere(seat, tx, leader).await
            }
            Ok(Ok(verdict)) => verdict,
            // The worker is gone or stands still: it may have written before.
            Ok(Err(_)) | Err(_) => Verdict::Unknown,
        }
    }

    /// The lane is not ours.
    async fn elsewhere(&self, seat: Seat, tx: NewTx, leader: Option<Leader>) -> Verdict {
        match self.settings.not_leader {
            NotLeader::Forward => {}
            NotLeader::Reject => return self.known_or_rejected(seat, &tx, leader).await,
        }
        // Whether the leader may have stored it, or may still.
        let mut doubtful = false;
        if let Some(leader) = leader.filter(|leader| leader.node != self.holder.node) {
            let within = self.settings.forward_deadline;
            let forwarded = self
                .peers
                .forward(&leader.url, seat.lane, &tx, within)
                .await;
            match forwarded {
                // It has lost the lane meanwhile, or could do nothing.
                Ok(Verdict::NotLeader(_) | Verdict::Unavailable | Verdict::Overloaded) => {}
                Ok(Verdict::Unknown) => doubtful = true,
                Ok(verdict) => return verdict,
                Err(error) => {
                    doubtful = matches!(error, Unforwarded::Unanswered(_));
                    unforwarded(&leader, tx.tx, &error);
                }
            }
        }
        // In the queue the id is stored once, whether the leader stored it or not.
        let verdict = self.enqueue(seat, tx, Wait::Leader).await;
        let nothing = matches!(verdict, Verdict::Overloaded | Verdict::Unavailable);
        if doubtful && nothing {
            Verdict::Unknown
        } else {
            verdict
        }
    }

    /// A known request is answered by any node, even by one that takes no new ones.
    async fn known_or_rejected(&self, seat: Seat, tx: &NewTx, leader: Option<Leader>) -> Verdict {
        let Some(request_id) = tx.request_id.clone() else {
            return Verdict::NotLeader(leader);
        };
        match self.store.find(&Key::Request(seat.lane, request_id)).await {
            Ok(Some(record)) => Verdict::found(seat, tx, record),
            Ok(None) => Verdict::NotLeader(leader),
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "looking for a known request failed");
                Verdict::Unavailable
            }
        }
    }
}

fn unforwarded(leader: &Leader, tx: TxId, error: &Unforwarded) {
    let leader = leader.node.as_str();
    tracing::warn!(leader, tx_id = %tx.0, error = %Causes(error), "forwarding failed; the request waits in the lane's queue");
}

/// The row that a new transaction makes, without reading it back.
#[must_use]
pub fn stored(seat: Seat, tx: &NewTx, state: State, token: Token, at: Timestamp) -> Record {
    let loan = match &tx.body {
        Body::Reserved(loan) => Some(*loan),
        Body::Managed(_) | Body::Placeholder(_) => None,
    };
    Record {
        tx: tx.tx,
        lane_id: seat.id,
        lane: seat.lane,
        kind: tx.kind(),
        request_id: tx.request_id.clone(),
        payload: match &tx.body {
            Body::Managed(payload) => Some(payload.clone()),
            Body::Reserved(_) | Body::Placeholder(_) => None,
        },
        state,
        attempts: 0,
        submit_attempts: 0,
        last_error: None,
        first_submit_at: None,
        last_submit_at: None,
        receipt: None,
        confirmed_at: None,
        not_after: tx.not_after,
        meta: tx.meta.clone(),
        reservation: loan.map(|loan| Reservation {
            lock: loan.lock,
            expires_at: at.saturating_add(loan.ttl).unwrap_or(Timestamp::MAX),
        }),
        token,
        version: Version::FIRST,
        created_at: at,
        updated_at: at,
    }
}

/// The state of a new row that has this nonce.
#[must_use]
pub const fn with_nonce(tx: &NewTx, nonce: fencepost_domain::ids::Nonce) -> State {
    match tx.body {
        Body::Reserved(_) => State::Reserved(Reserved { nonce }),
        Body::Managed(_) | Body::Placeholder(_) => State::Allocated(Allocated {
            nonce,
            bytes: Signing::Unsigned,
        }),
    }
}

/// The state of a new row that waits for one.
#[must_use]
pub const fn waiting(wait: Wait) -> State {
    State::Queued(Queued { wait })
}
