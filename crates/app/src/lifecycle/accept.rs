//! Accepting: a request goes to the lane's worker here, to its leader elsewhere, or into the lane's
//! queue, under the one id that this node minted for it. So it is stored once, whoever wakes up late.

use std::time::Duration;

use fencepost_domain::ids::{Token, TxId, Version};
use fencepost_domain::state::{Allocated, Queued, Reserved, Signing, State, Wait};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::elsewhere::Moved;
use crate::directory::Seat;
use crate::lane::work::Ask;
use crate::node::{InHand, Node};
use crate::ports::{Body, Leader, NewTx, PauseReason, Record, Reservation};

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
    /// For a reservation, which never waits: the lane has as many in flight as it may. Nothing was stored.
    InFlightLimit,
    /// For a reservation, which never waits: only the chain knows where the account stands, and it did not answer or
    /// endpoints disagree. Nothing was stored.
    ChainUnavailable,
    /// The lane has no nonces left. Nothing was stored.
    Exhausted,
    /// For a placeholder: that nonce is held, or was never given. Nothing was stored.
    NotOpen,
    /// The store cannot be used now. Nothing was stored.
    Unavailable,
    /// It cannot be said whether it is stored. Asking again under the same name is safe.
    Unknown,
}

impl Verdict {
    /// Every word that the meters show.
    pub const WORDS: [&'static str; 13] = [
        "new",
        "queued",
        "known",
        "conflict",
        "not_leader",
        "paused",
        "overloaded",
        "in_flight_limit",
        "chain_unavailable",
        "exhausted",
        "not_open",
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
            Self::InFlightLimit => "in_flight_limit",
            Self::ChainUnavailable => "chain_unavailable",
            Self::Exhausted => "exhausted",
            Self::NotOpen => "not_open",
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
    /// Or why it was not put.
    answer: Result<oneshot::Receiver<Verdict>, Verdict>,
    in_hand: InHand,
}

/// What the worker here made of a request.
enum Followed {
    Settled(Origin, Verdict),
    /// Another node leads the lane, or nobody.
    Elsewhere(Box<Moved>),
}

/// Where the verdict is told.
pub(super) type Reply = oneshot::Sender<Verdict>;

impl Node {
    /// Takes a request in. Requests of one lane get their nonces in the order of these calls, but for
    /// reservations and placeholders that have to ask for a leader again.
    pub fn submit(&self, seat: Seat, tx: NewTx, origin: Origin) -> Pending {
        self.put(seat, tx, origin, self.refusal(origin))
    }

    /// Takes in what another node hands over for one lane. Once one finds no room, none behind it is
    /// taken: the other node puts those that were not into the lane's queue, in their order, and one
    /// that was would have passed them.
    pub fn submit_in_order(&self, seat: Seat, txs: Vec<NewTx>) -> Vec<Pending> {
        let mut refusal = self.refusal(Origin::Node);
        let mut all = Vec::with_capacity(txs.len());
        for tx in txs {
            let pending = self.put(seat, tx, Origin::Node, refusal);
            refusal = pending.answer.as_ref().err().cloned();
            all.push(pending);
        }
        all
    }

    /// A node that stops takes nothing in. A client tries another one; another node need not come back to us,
    /// for our lanes are being given up.
    fn refusal(&self, origin: Origin) -> Option<Verdict> {
        self.is_draining().then_some(match origin {
            Origin::Client => Verdict::Overloaded,
            Origin::Node => Verdict::NotLeader(None),
        })
    }

    pub(super) fn put(
        &self,
        seat: Seat,
        tx: NewTx,
        origin: Origin,
        refusal: Option<Verdict>,
    ) -> Pending {
        let in_hand = self.take_in_hand();
        let tx = tx.sealed(&self.settings.seals, seat.lane);
        let answer = refusal.map_or_else(|| self.put_on_desk(seat, &tx), Err);
        Pending {
            seat,
            tx,
            origin,
            answer,
            in_hand,
        }
    }

    fn put_on_desk(&self, seat: Seat, tx: &NewTx) -> Result<oneshot::Receiver<Verdict>, Verdict> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask::new(seat, tx.clone(), reply);
        self.ask(ask).map_err(|_| Verdict::Overloaded)?;
        Ok(answer)
    }

    /// Waits for what becomes of it. To be run in a task of its own: a caller that goes away must not
    /// stop it half way.
    pub async fn settle(&self, pending: Pending) -> Verdict {
        let (reply, told) = oneshot::channel();
        self.settle_share(vec![(pending, reply)]).await;
        told.await.unwrap_or(Verdict::Unknown)
    }

    /// The same for requests of one lane that came together, in order. Each is told as soon as it is
    /// known; those that are not ours to settle go elsewhere together, still in order.
    pub async fn settle_share(&self, share: Vec<(Pending, Reply)>) {
        let moved = self.follow_all(share).await;
        if !moved.is_empty() {
            self.elsewhere(moved).await;
        }
    }

    /// Tells those that the worker here settles, and returns the others.
    pub(super) async fn follow_all(
        &self,
        share: Vec<(Pending, Reply)>,
    ) -> Vec<(Box<Moved>, Reply)> {
        // In their order, which is the order of their answers: one statement stores them all.
        let deadline = Instant::now() + PATIENCE;
        let mut moved = Vec::new();
        for (pending, reply) in share {
            let tx = pending.tx.tx;
            match follow(pending, deadline).await {
                Followed::Settled(origin, verdict) => self.tell(tx, origin, reply, verdict),
                Followed::Elsewhere(one) => moved.push((one, reply)),
            }
        }
        moved
    }

    pub(super) fn tell(&self, tx: TxId, origin: Origin, reply: Reply, verdict: Verdict) {
        // A forwarded request is counted where its client is.
        if origin == Origin::Client {
            self.meters.created(verdict.word());
        }
        if reply.send(verdict).is_err() {
            tracing::debug!(tx_id = %tx.0, "nobody waits for the answer any more");
        }
    }
}

async fn follow(pending: Pending, deadline: Instant) -> Followed {
    let Pending {
        seat,
        tx,
        origin,
        answer,
        in_hand,
    } = pending;
    let answer = match answer {
        Ok(answer) => answer,
        Err(refused) => return Followed::Settled(origin, refused),
    };
    match timeout_at(deadline, answer).await {
        Ok(Ok(Verdict::NotLeader(leader))) if origin == Origin::Client => {
            Followed::Elsewhere(Box::new(Moved {
                seat,
                tx,
                leader,
                _in_hand: in_hand,
            }))
        }
        Ok(Ok(verdict)) => Followed::Settled(origin, verdict),
        // The worker is gone or stands still: it may have written before.
        Ok(Err(_)) | Err(_) => Followed::Settled(origin, Verdict::Unknown),
    }
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
        proof: tx.proof(),
        retired: None,
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
        created_by: tx.created_by.clone(),
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
