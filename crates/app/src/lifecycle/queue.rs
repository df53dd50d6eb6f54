//! Into the queue of a lane that nobody here leads: any node may, for it gives no nonce. One clerk
//! collects while its last statement is under way, so that a failover costs statements by batches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Token};
use fencepost_domain::state::Wait;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::accept::{Verdict, stored, waiting};
use crate::causes::Causes;
use crate::directory::Seat;
use crate::node::Node;
use crate::ports::{Enqueued, NewTx, StoreError};
use crate::writes::{Write, lane_error};

/// How often a lost reply is asked for again: the same ids are stored once however often they are sent.
const TRIES: u32 = 3;

/// So many slow ones in a batch that goes one by one are waited for.
const BUSY_MAX: usize = 3;
/// Slower than this, a single row has waited for somebody.
const SLOW: Duration = Duration::from_millis(300);

/// A request for the queue.
pub(crate) struct Wanted {
    pub(crate) seat: Seat,
    pub(crate) tx: NewTx,
    pub(crate) wait: Wait,
    pub(crate) reply: oneshot::Sender<Verdict>,
}

/// Who puts requests into the queues of lanes.
pub struct Clerk {
    node: Arc<Node>,
    inbox: mpsc::Receiver<Wanted>,
}

impl Node {
    /// Has a request stored without a nonce, behind all that wait in its lane and behind those of
    /// earlier calls.
    pub(super) fn enqueue(&self, seat: Seat, tx: NewTx, wait: Wait) -> oneshot::Receiver<Verdict> {
        let (reply, answer) = oneshot::channel();
        let wanted = Wanted {
            seat,
            tx,
            wait,
            reply,
        };
        self.want(wanted);
        answer
    }
}

impl Clerk {
    pub(crate) const fn new(node: Arc<Node>, inbox: mpsc::Receiver<Wanted>) -> Self {
        Self { node, inbox }
    }

    /// Works until the node is gone.
    pub async fn run(mut self) {
        let mut wanted = Vec::new();
        let most = self.node.settings.batch_max.max(1);
        while self.inbox.recv_many(&mut wanted, most).await > 0 {
            enqueue(&self.node, wanted.drain(..)).await;
        }
    }
}

/// Stores a batch, by what they wait for.
async fn enqueue(node: &Node, wanted: impl Iterator<Item = Wanted>) {
    let (leader, window): (Vec<Wanted>, Vec<Wanted>) =
        wanted.partition(|each| each.wait == Wait::Leader);
    for (wait, batch) in [(Wait::Leader, leader), (Wait::Window, window)] {
        if !batch.is_empty() {
            store(node, wait, batch).await;
        }
    }
}

async fn store(node: &Node, wait: Wait, batch: Vec<Wanted>) {
    let txs: Vec<(LaneId, NewTx)> = batch
        .iter()
        .map(|each| (each.seat.id, each.tx.clone()))
        .collect();
    match write(node, wait, &txs).await {
        Ok(answers) => {
            let lanes: BTreeSet<LaneId> = txs.iter().map(|(lane, _)| *lane).collect();
            for (wanted, answer) in batch.into_iter().zip(answers) {
                let verdict = verdict(&wanted, answer);
                if let Verdict::New(record) = &verdict {
                    node.log_stored(Write::Queue, record.token, record);
                }
                let _ = wanted.reply.send(verdict);
            }
            for lane in lanes {
                node.nudge(lane);
            }
        }
        // One of them cannot be stored: each goes alone, so that the others can.
        Err(StoreError::Invalid(_) | StoreError::Constraint(_) | StoreError::Busy(_))
            if batch.len() > 1 =>
        {
            apart(node, wait, batch).await;
        }
        Err(error) => {
            failed(node, &batch, &error);
            let verdict = super::failed(&error);
            for wanted in batch {
                let _ = wanted.reply.send(verdict.clone());
            }
        }
    }
}

/// An outage passes by itself and is a warning; only what does not is for a person.
fn failed(node: &Node, batch: &[Wanted], error: &StoreError) {
    let (requests, cause) = (batch.len(), Causes(error));
    let Some(first) = batch.first() else {
        return;
    };
    let (held, tx_id) = (node.last_held(first.seat.id), first.tx.tx);
    match error {
        StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::OutcomeUnknown(_) => {
            tracing::warn!(node_id = node.holder.node.as_str(), error = %cause, requests, "queueing failed");
        }
        StoreError::Full(_)
        | StoreError::Invalid(_)
        | StoreError::Constraint(_)
        | StoreError::Corrupt(_)
        | StoreError::Unfit(_)
        | StoreError::InUse(_) => {
            lane_error!(node, held, %tx_id, error = %cause, requests, "queueing failed");
        }
    }
}

/// Each alone. One that waits for another's statement costs its time; a few of them are enough to
/// say that the store is busy.
async fn apart(node: &Node, wait: Wait, batch: Vec<Wanted>) {
    let mut slow = 0;
    for wanted in batch {
        if slow > BUSY_MAX {
            let _ = wanted.reply.send(Verdict::Overloaded);
            continue;
        }
        let began = Instant::now();
        Box::pin(store(node, wait, vec![wanted])).await;
        slow += usize::from(began.elapsed() > SLOW);
    }
}

async fn write(
    node: &Node,
    wait: Wait,
    txs: &[(LaneId, NewTx)],
) -> Result<Vec<Enqueued>, StoreError> {
    let mut lost = None;
    for _ in 0..TRIES {
        let most = node.settings.lane_queue_max;
        match node.store.enqueue(txs, wait, most).await {
            Err(error @ StoreError::OutcomeUnknown(_)) => lost = Some(error),
            // Once a reply was lost, "nothing was stored" is no longer known.
            Err(error) => return Err(lost.unwrap_or(error)),
            Ok(answers) => match lost {
                Some(lost) if answers.contains(&Enqueued::Full) => return Err(lost),
                Some(_) | None => return Ok(answers),
            },
        }
    }
    Err(lost.unwrap_or_else(|| StoreError::Busy("no try was made".into())))
}

fn verdict(wanted: &Wanted, answer: Enqueued) -> Verdict {
    match answer {
        Enqueued::Queued { at } => {
            let state = waiting(wanted.wait);
            let record = stored(wanted.seat, &wanted.tx, state, Token::NONE, at);
            Verdict::New(Box::new(record))
        }
        // A lost reply that is asked for again finds its own row: the client's request is new to it.
        Enqueued::Known(record) if record.tx == wanted.tx.tx => Verdict::New(record),
        Enqueued::Known(record) => Verdict::Known(record),
        Enqueued::Conflict(record) => Verdict::Conflict(record),
        Enqueued::Full => Verdict::Overloaded,
        Enqueued::UnknownLane => Verdict::Unavailable,
    }
}
