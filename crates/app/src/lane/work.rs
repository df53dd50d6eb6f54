//! What one turn has to do in one lane.

use fencepost_domain::ids::TxId;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

use fencepost_domain::ids::LaneId;
use fencepost_domain::state::Wait;
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::directory::Seat;
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::queue::Wanted;
use crate::node::Node;
use crate::ports::{Body, Held, NewTx};

/// How often a request is routed anew within the node. More means that others fight for the lane:
/// then the client had better come again.
const TRIES: u8 = 6;

/// A request on a worker's desk.
pub(crate) struct Ask {
    pub(crate) seat: Seat,
    pub(crate) tx: NewTx,
    tries: u8,
    reply: oneshot::Sender<Verdict>,
}

impl Ask {
    pub(crate) const fn new(seat: Seat, tx: NewTx, reply: oneshot::Sender<Verdict>) -> Self {
        Self {
            seat,
            tx,
            tries: 0,
            reply,
        }
    }

    pub(crate) fn tell(self, verdict: Verdict) {
        // A caller that is gone has been told that the outcome is unknown, or needs none.
        let _ = self.reply.send(verdict);
    }

    /// Tells now, and nothing later.
    pub(crate) fn tell_early(&mut self, verdict: Verdict) {
        let (nobody, _) = oneshot::channel();
        let _ = std::mem::replace(&mut self.reply, nobody).send(verdict);
    }

    /// The same under another id.
    pub(crate) fn renamed(mut self) -> Self {
        self.tx.tx = TxId(Uuid::from_u128(self.tx.tx.0.as_u128() ^ 1));
        self
    }

    /// It has to wait in the lane's queue. Handed on here and not by its caller, so that requests of
    /// one lane keep their order.
    ///
    /// A reservation is wanted now or not at all, and a placeholder wants a nonce that was given before.
    pub(crate) fn queue(self, node: &Arc<Node>, wait: Wait) {
        if !self.can_wait() {
            let refusal = match wait {
                Wait::Leader => Verdict::Overloaded,
                Wait::Window => Verdict::InFlightLimit,
            };
            self.turn_away(node, refusal);
            return;
        }
        node.want(Wanted {
            seat: self.seat,
            tx: self.tx,
            wait,
            reply: self.reply,
        });
    }

    /// Only the chain knows where its lane stands: it waits, or is turned away where it cannot.
    pub(crate) fn await_chain(self, node: &Arc<Node>) {
        if self.can_wait() {
            self.queue(node, Wait::Leader);
        } else {
            self.turn_away(node, Verdict::ChainUnavailable);
        }
    }

    /// It gets nothing now. One that was stored before is answered with what it has, also in a lane that gives
    /// nothing more: its holder may have lost the first answer. Whether it was is read outside the worker.
    fn turn_away(self, node: &Arc<Node>, refusal: Verdict) {
        let store = Arc::clone(node);
        node.hand(async move {
            let verdict = store.known_or(self.seat, &self.tx, refusal).await;
            self.tell(verdict);
        });
    }

    /// Whether it has met a queue more often than a busy lane explains.
    pub(crate) const fn is_tired(&self) -> bool {
        self.tries > TRIES / 2
    }

    /// It is not to be given a nonce any more, if this is the time.
    pub(crate) fn is_late(&self, now: Timestamp) -> bool {
        self.tx.not_after.is_some_and(|until| until < now)
    }

    const fn can_wait(&self) -> bool {
        matches!(self.tx.body, Body::Managed(_))
    }

    /// It uses up a nonce that was given before: no queue and no window is in its way.
    pub(crate) const fn fills(&self) -> bool {
        matches!(self.tx.body, Body::Placeholder(_))
    }

    fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }
}

/// Something for a worker to do.
pub(crate) enum Job {
    Create(Box<Ask>),
    /// Something waits in the queue of this lane.
    Drain(LaneId),
}

/// One lane's share of a turn.
pub(crate) struct Work {
    pub(crate) seat: Seat,
    /// Set once we know that we lead.
    pub(crate) held: Option<Held>,
    /// In order of arrival.
    pub(crate) asks: Vec<Ask>,
    /// Placeholders for nonces that were given before.
    pub(crate) fills: Vec<Ask>,
    /// Requests that go into the lane's queue once those before them have their nonces.
    pub(crate) later: Vec<(Ask, Wait)>,
    /// Something may wait in the lane's queue.
    pub(crate) drain: bool,
    /// The lane gives no nonces now: the store is asked what that means for each request.
    pub(crate) paused: bool,
}

impl Work {
    /// How many requests.
    pub(crate) fn len(&self) -> usize {
        self.asks.len() + self.fills.len() + self.later.len()
    }

    pub(crate) fn tell_all(self, verdict: &Verdict) {
        for ask in self.all() {
            ask.tell(verdict.clone());
        }
    }

    /// All requests, in order of arrival.
    pub(crate) fn all(self) -> Vec<Ask> {
        let later = self.later.into_iter().map(|(ask, _)| ask);
        self.fills
            .into_iter()
            .chain(self.asks)
            .chain(later)
            .collect()
    }

    /// Sends the requests from `first` on into the lane's queue.
    pub(crate) fn queue_from(&mut self, first: usize, wait: Wait) {
        let late = self.asks.split_off(first.min(self.asks.len()));
        self.later = late
            .into_iter()
            .map(|ask| (ask, wait))
            .chain(std::mem::take(&mut self.later))
            .collect();
    }
}

/// All lanes of a turn, in the order of their ids.
pub(crate) type Works = BTreeMap<LaneId, Work>;

/// Sorts jobs by lane. Requests that nobody waits for any more are dropped, those that were routed
/// too often are told to come again.
pub(crate) fn sort(node: &Node, first: Vec<Work>, jobs: Vec<Job>) -> Works {
    let mut works = Works::new();
    // Those that have waited for an answer come before what has come in meanwhile.
    for work in first {
        works.insert(work.seat.id, work);
    }
    for job in jobs {
        match job {
            Job::Create(ask) if ask.is_given_up() => {}
            Job::Create(ask) if ask.tries >= TRIES => ask.tell(Verdict::Overloaded),
            Job::Create(mut ask) => {
                ask.tries += 1;
                let entry = works.entry(ask.seat.id);
                let work = entry.or_insert_with(|| empty(ask.seat));
                if ask.fills() {
                    work.fills.push(*ask);
                } else {
                    work.asks.push(*ask);
                }
            }
            Job::Drain(lane) => {
                node.is_nudged(lane);
                if let Some(seat) = node.directory.seat_by_id(lane) {
                    works.entry(lane).or_insert_with(|| empty(seat)).drain = true;
                }
            }
        }
    }
    works
}

const fn empty(seat: Seat) -> Work {
    Work {
        seat,
        held: None,
        asks: vec![],
        fills: vec![],
        later: vec![],
        drain: false,
        paused: false,
    }
}
