//! What one turn has to do in one lane.

use std::collections::BTreeMap;

use fencepost_domain::ids::LaneId;
use fencepost_domain::state::Wait;
use tokio::sync::oneshot;

use crate::directory::Seat;
use crate::lifecycle::accept::Verdict;
use crate::node::Node;
use crate::ports::{Held, NewTx};

/// How often a request is routed anew within the node. More means that others fight for the lane:
/// then the client had better come again.
const TRIES: u8 = 6;

/// What a worker says to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// That is what became of it.
    Told(Verdict),
    /// It has to wait in the lane's queue.
    Queue(Wait),
}

/// A request on a worker's desk.
pub(crate) struct Ask {
    pub(crate) seat: Seat,
    pub(crate) tx: NewTx,
    tries: u8,
    reply: oneshot::Sender<Reply>,
}

impl Ask {
    pub(crate) const fn new(seat: Seat, tx: NewTx, reply: oneshot::Sender<Reply>) -> Self {
        Self {
            seat,
            tx,
            tries: 0,
            reply,
        }
    }

    pub(crate) fn tell(self, verdict: Verdict) {
        // A caller that is gone has been told that the outcome is unknown, or needs none.
        let _ = self.reply.send(Reply::Told(verdict));
    }

    fn queue(self, wait: Wait) {
        let _ = self.reply.send(Reply::Queue(wait));
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
    /// Something may wait in the lane's queue.
    pub(crate) drain: bool,
}

impl Work {
    pub(crate) fn tell_all(self, verdict: &Verdict) {
        for ask in self.asks {
            ask.tell(verdict.clone());
        }
    }

    /// Sends the requests from `first` on into the lane's queue.
    pub(crate) fn queue_from(&mut self, first: usize, wait: Wait) {
        for ask in self.asks.split_off(first.min(self.asks.len())) {
            ask.queue(wait);
        }
    }
}

/// All lanes of a turn, in the order of their ids.
pub(crate) type Works = BTreeMap<LaneId, Work>;

/// Sorts jobs by lane. Requests that nobody waits for any more are dropped, those that were routed
/// too often are told to come again.
pub(crate) fn sort(node: &Node, jobs: Vec<Job>) -> Works {
    let mut works = Works::new();
    for job in jobs {
        match job {
            Job::Create(ask) if ask.is_given_up() => {}
            Job::Create(ask) if ask.tries >= TRIES => ask.tell(Verdict::Overloaded),
            Job::Create(mut ask) => {
                ask.tries += 1;
                let entry = works.entry(ask.seat.id);
                entry.or_insert_with(|| empty(ask.seat)).asks.push(*ask);
            }
            Job::Drain(lane) => {
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
        drain: false,
    }
}
