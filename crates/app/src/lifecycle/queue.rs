//! Into the queue of a lane that nobody here leads: any node may, for it gives no nonce. One clerk
//! collects while its last statement is under way, so that a failover costs statements by batches.

use std::sync::Arc;

use fencepost_domain::ids::{LaneId, Token};
use fencepost_domain::state::Wait;
use tokio::sync::{mpsc, oneshot};

use super::accept::{Verdict, stored, waiting};
use crate::causes::Causes;
use crate::directory::Seat;
use crate::node::Node;
use crate::ports::{Enqueued, NewTx, StoreError};

/// How often a lost reply is asked for again: the same ids are stored once however often they are sent.
const TRIES: u32 = 3;

/// A request for the queue.
pub(crate) struct Wanted {
    seat: Seat,
    tx: NewTx,
    wait: Wait,
    reply: oneshot::Sender<Verdict>,
}

/// Who puts requests into the queues of lanes.
pub struct Clerk {
    node: Arc<Node>,
    inbox: mpsc::Receiver<Wanted>,
}

impl Node {
    /// Stores a request without a nonce, behind all that wait in its lane.
    pub(crate) async fn enqueue(&self, seat: Seat, tx: NewTx, wait: Wait) -> Verdict {
        let (reply, answer) = oneshot::channel();
        let wanted = Wanted {
            seat,
            tx,
            wait,
            reply,
        };
        if self.want(wanted).is_err() {
            return Verdict::Overloaded;
        }
        answer.await.unwrap_or(Verdict::Unknown)
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
            for (wanted, answer) in batch.into_iter().zip(answers) {
                let verdict = verdict(&wanted, answer);
                if matches!(verdict, Verdict::New(_)) {
                    node.nudge(wanted.seat.id);
                }
                let _ = wanted.reply.send(verdict);
            }
        }
        // One of them cannot be stored: each goes alone, so that the others can.
        Err(StoreError::Invalid(_) | StoreError::Constraint(_)) if batch.len() > 1 => {
            for wanted in batch {
                Box::pin(store(node, wait, vec![wanted])).await;
            }
        }
        Err(error) => {
            tracing::error!(error = %Causes(&error), requests = batch.len(), "queueing failed");
            let verdict = super::failed(&error);
            for wanted in batch {
                let _ = wanted.reply.send(verdict.clone());
            }
        }
    }
}

async fn write(
    node: &Node,
    wait: Wait,
    txs: &[(LaneId, NewTx)],
) -> Result<Vec<Enqueued>, StoreError> {
    let mut tries = 0;
    loop {
        let answer = node
            .store
            .enqueue(txs, wait, node.settings.lane_queue_max)
            .await;
        tries += 1;
        match answer {
            Err(StoreError::OutcomeUnknown(_)) if tries < TRIES => {}
            answer => return answer,
        }
    }
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
