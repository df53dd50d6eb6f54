//! Accepting: a request goes to the lane's worker here, to its leader elsewhere, or into the lane's
//! queue, under the one id that this node minted for it. So it is stored once, whoever wakes up late.

use std::time::Duration;
use uuid::Uuid;

use fencepost_domain::ids::{Token, TxId, Version};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::{Allocated, Queued, Reserved, Signing, State, Wait};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::causes::Causes;
use crate::directory::Seat;
use crate::lane::work::Ask;
use crate::node::{InHand, Node};
use crate::ports::{Body, Key, Leader, NewTx, PauseReason, Record, Reservation, Unforwarded};
use crate::settings::NotLeader;

/// How long a caller waits for the worker. The store's own deadlines are shorter; beyond this the
/// caller is told that the outcome is unknown.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pauses between two questions of a request that cannot wait for a leader.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(200);

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
    /// For a placeholder: that nonce is held, or was never given. Nothing was stored.
    NotOpen,
    /// The store cannot be used now. Nothing was stored.
    Unavailable,
    /// It cannot be said whether it is stored. Asking again under the same name is safe.
    Unknown,
}

impl Verdict {
    /// Every word that the meters show.
    pub const WORDS: [&'static str; 11] = [
        "new",
        "queued",
        "known",
        "conflict",
        "not_leader",
        "paused",
        "overloaded",
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
    answer: Option<oneshot::Receiver<Verdict>>,
    in_hand: InHand,
}

/// What the worker here made of a request.
enum Followed {
    Settled(Origin, Verdict),
    /// Another node leads the lane, or nobody.
    Elsewhere(Box<Moved>),
}

/// A client's request for a lane that is not ours.
struct Moved {
    seat: Seat,
    tx: NewTx,
    leader: Option<Leader>,
    _in_hand: InHand,
}

/// Where the verdict is told.
type Reply = oneshot::Sender<Verdict>;

impl Node {
    /// Takes a request in. Requests of one lane get their nonces in the order of these calls.
    pub fn submit(&self, seat: Seat, tx: NewTx, origin: Origin) -> Pending {
        self.put(seat, tx, origin, !self.is_draining())
    }

    /// Takes in what another node hands over for one lane. Once one finds no room, none behind it is
    /// taken: the other node puts those that were not into the lane's queue, in their order, and one
    /// that was would have passed them.
    pub fn submit_in_order(&self, seat: Seat, txs: Vec<NewTx>) -> Vec<Pending> {
        let mut open = !self.is_draining();
        let mut all = Vec::with_capacity(txs.len());
        for tx in txs {
            let pending = self.put(seat, tx, Origin::Node, open);
            open = pending.answer.is_some();
            all.push(pending);
        }
        all
    }

    fn put(&self, seat: Seat, tx: NewTx, origin: Origin, open: bool) -> Pending {
        let in_hand = self.take_in_hand();
        let (reply, answer) = oneshot::channel();
        let ask = Ask::new(seat, tx.clone(), reply);
        let put = open && self.ask(ask).is_ok();
        Pending {
            seat,
            tx,
            origin,
            answer: put.then_some(answer),
            in_hand,
        }
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
    async fn follow_all(&self, share: Vec<(Pending, Reply)>) -> Vec<(Box<Moved>, Reply)> {
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

    fn tell(&self, tx: TxId, origin: Origin, reply: Reply, verdict: Verdict) {
        // A forwarded request is counted where its client is.
        if origin == Origin::Client {
            self.meters.created(verdict.word());
        }
        if reply.send(verdict).is_err() {
            tracing::debug!(tx_id = %tx.0, "nobody waits for the answer any more");
        }
    }

    /// The lane is not ours. All of them are handed over at once and in order, which [`Peers`] keeps
    /// for calls of one lane; what the leader does not settle goes into the lane's queue, in order too.
    ///
    /// [`Peers`]: crate::ports::Peers
    async fn elsewhere(&self, share: Vec<(Box<Moved>, Reply)>) {
        if self.settings.not_leader == NotLeader::Reject {
            let rejecting = share.into_iter().map(|(moved, reply)| async move {
                let rejected = Verdict::NotLeader(moved.leader);
                let verdict = self.known_or(moved.seat, &moved.tx, rejected).await;
                self.tell(moved.tx.tx, Origin::Client, reply, verdict);
            });
            join_all(rejecting).await;
            return;
        }
        let (mut waiting, mut urgent) = (Vec::new(), Vec::new());
        for (moved, reply, verdict) in self.hand_over(share).await {
            if matches!(moved.tx.body, Body::Managed(_)) {
                // In the queue the id is stored once, whether the leader stored it or not.
                let answer = self.enqueue(moved.seat, moved.tx.clone(), Wait::Leader);
                waiting.push((moved, reply, verdict == Verdict::Unknown, answer));
            } else {
                urgent.push((moved, reply, verdict));
            }
        }
        let waiting = async {
            for (moved, reply, doubtful, answer) in waiting {
                let verdict = answer.await.unwrap_or(Verdict::Unknown);
                let nothing = matches!(verdict, Verdict::Overloaded | Verdict::Unavailable);
                let verdict = if doubtful && nothing {
                    Verdict::Unknown
                } else {
                    verdict
                };
                self.tell(moved.tx.tx, Origin::Client, reply, verdict);
            }
        };
        tokio::join!(waiting, self.insist(urgent));
    }

    /// These have to have their nonces now, and only the leader gives any. Where nobody leads the lane, or
    /// another node is just taking it, that is soon over: they ask again for as long as a leader has to
    /// answer, all at once and in order.
    async fn insist(&self, mut urgent: Vec<(Box<Moved>, Reply, Verdict)>) {
        let until = Instant::now() + self.settings.forward_deadline;
        for pause in pauses() {
            let again = Instant::now() + pause;
            let hopeful = again < until && !self.is_draining();
            let (asking, over) = urgent
                .into_iter()
                .partition(|(.., verdict)| hopeful && matches!(verdict, Verdict::NotLeader(_)));
            urgent = asking;
            self.give_up(over).await;
            if urgent.is_empty() {
                return;
            }
            sleep_until(again).await;
            let share = urgent.into_iter().map(|(moved, reply, _)| {
                let pending = self.put(moved.seat, moved.tx, Origin::Client, true);
                (pending, reply)
            });
            let moved = self.follow_all(share.collect()).await;
            urgent = self.hand_over(moved).await;
        }
    }

    /// What was told last is the answer, unless the request is known.
    async fn give_up(&self, urgent: Vec<(Box<Moved>, Reply, Verdict)>) {
        let looking = urgent
            .into_iter()
            .map(|(moved, reply, verdict)| async move {
                let verdict = self.known_or(moved.seat, &moved.tx, verdict).await;
                self.tell(moved.tx.tx, Origin::Client, reply, verdict);
            });
        join_all(looking).await;
    }

    /// Tells those that the leader has settled, and returns the others with what it said of them, or what
    /// is to be said without it. These are still to be stored, unless it has stored one without our
    /// knowing, or still may: then the verdict is [`Verdict::Unknown`].
    async fn hand_over(
        &self,
        share: Vec<(Box<Moved>, Reply)>,
    ) -> Vec<(Box<Moved>, Reply, Verdict)> {
        // The last one was told last.
        let leader = share.last().and_then(|(moved, _)| moved.leader.clone());
        let Some(leader) = leader.filter(|leader| leader.node != self.holder.node) else {
            let left = |(moved, reply): (Box<Moved>, Reply)| {
                let verdict = Verdict::NotLeader(moved.leader.clone());
                (moved, reply, verdict)
            };
            return share.into_iter().map(left).collect();
        };
        let (within, requests) = (self.settings.forward_deadline, share.len());
        // The first look at each of these futures, in which the call is made, goes in their order.
        let named: Vec<NewTx> = share
            .iter()
            .map(|(moved, _)| forwarded(&moved.tx))
            .collect();
        let forwards = share
            .iter()
            .zip(&named)
            .map(|((moved, _), tx)| self.peers.forward(&leader.url, moved.seat.lane, tx, within));
        let forwarded = join_all(forwards).await;
        let mut left = Vec::new();
        let mut failed = false;
        for ((moved, reply), answer) in share.into_iter().zip(forwarded) {
            match answer {
                // It has lost the lane meanwhile, could do nothing, or cannot say.
                Ok(
                    verdict @ (Verdict::NotLeader(_)
                    | Verdict::Unavailable
                    | Verdict::Overloaded
                    | Verdict::Unknown),
                ) => left.push((moved, reply, verdict)),
                Ok(verdict) => self.tell(moved.tx.tx, Origin::Client, reply, verdict),
                Err(error) => {
                    if !failed {
                        failed = true;
                        unforwarded(&leader, moved.tx.tx, requests, &error);
                    }
                    let verdict = match error {
                        Unforwarded::NotSent(_) => Verdict::NotLeader(moved.leader.clone()),
                        Unforwarded::Unanswered(_) => Verdict::Unknown,
                    };
                    left.push((moved, reply, verdict));
                }
            }
        }
        left
    }

    /// A known request is answered by any node, even by one that takes no new ones; of another this is told.
    async fn known_or(&self, seat: Seat, tx: &NewTx, otherwise: Verdict) -> Verdict {
        let Some(request_id) = tx.request_id.clone() else {
            return otherwise;
        };
        match self.store.find(&Key::Request(seat.lane, request_id)).await {
            Ok(Some(record)) => Verdict::found(seat, tx, record),
            Ok(None) => otherwise,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "looking for a known request failed");
                // A look that failed makes nothing certain that was not.
                match otherwise {
                    Verdict::Unknown => Verdict::Unknown,
                    Verdict::New(_)
                    | Verdict::Known(_)
                    | Verdict::Conflict(_)
                    | Verdict::NotLeader(_)
                    | Verdict::Paused(_)
                    | Verdict::Overloaded
                    | Verdict::Exhausted
                    | Verdict::NotOpen
                    | Verdict::Unavailable => Verdict::Unavailable,
                }
            }
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
    let Some(answer) = answer else {
        return Followed::Settled(origin, Verdict::Overloaded);
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

fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| {
        Some((*pause * 2).min(LAST_PAUSE))
    })
}

/// A request as the leader gets it: with the id that we gave it, so that it is stored once wherever it goes.
fn forwarded(tx: &NewTx) -> NewTx {
    let mut tx = tx.clone();
    if Mutant::ForwardWithoutId.is_on() {
        tx.tx = TxId(Uuid::from_u128(tx.tx.0.as_u128() ^ 2));
    }
    tx
}

/// Told once for all that came together, by the first of them.
fn unforwarded(leader: &Leader, tx: TxId, requests: usize, error: &Unforwarded) {
    let leader = leader.node.as_str();
    tracing::warn!(leader, tx_id = %tx.0, requests, error = %Causes(error), "forwarding failed; what the leader did not answer waits in the lane's queue");
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
