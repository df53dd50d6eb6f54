//! Workers share statements: what they have to write while one is under way goes together into the next. So a
//! busy node commits as often as its store answers, however many workers it has.
//!
//! A lane has one worker, and a worker waits for its answer: no two statements here ever meet in a lane.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::LaneId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lease::Sent;
use crate::node::Node;
use crate::ports::{LaneBatch, LaneCreated, LaneMoved, LaneMoves, LaneRefusal, StoreError};

/// A statement that has so many rows takes no further worker's. More, and each waits for the rows of all others;
/// fewer, and a busy node pays for more commits.
const ROWS_ENOUGH: usize = 1_024;
/// How long a statement keeps the next one waiting. Shorter, and a slow disk gets many small commits at once;
/// longer, and whoever holds one lane's row is felt in the lanes of all workers.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a lane whose row was held is written for in statements of its own worker's.
const APART: Duration = Duration::from_secs(10);

/// What one statement writes for a lane.
pub(crate) trait Share: Sized + Send + Sync + 'static {
    /// What the store says of it.
    type Answer: Send;

    fn lane(&self) -> LaneId;

    fn rows(&self) -> usize;

    /// Whether the lane's row was held for longer than is waited for it.
    fn is_held(answer: &Self::Answer) -> bool;

    /// One statement for all of them.
    fn write(
        node: &Node,
        shares: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

impl Share for LaneBatch {
    type Answer = LaneCreated;

    fn lane(&self) -> LaneId {
        self.held.lane
    }

    fn rows(&self) -> usize {
        self.txs.len()
    }

    fn is_held(answer: &LaneCreated) -> bool {
        matches!(answer, LaneCreated::Refused(LaneRefusal::Busy))
    }

    async fn write(node: &Node, shares: &[Self]) -> Result<Vec<LaneCreated>, StoreError> {
        node.meters.batch(shares.iter().map(Self::rows).sum());
        node.store.create(&node.holder, shares).await
    }
}

impl Share for LaneMoves {
    type Answer = LaneMoved;

    fn lane(&self) -> LaneId {
        self.held.lane
    }

    fn rows(&self) -> usize {
        self.moves.len()
    }

    fn is_held(answer: &LaneMoved) -> bool {
        matches!(answer, LaneMoved::Busy)
    }

    async fn write(node: &Node, shares: &[Self]) -> Result<Vec<LaneMoved>, StoreError> {
        node.store.apply(&node.holder, shares).await
    }
}

/// What a worker's shares came to.
pub(crate) struct Written<S: Share> {
    /// As they were handed in.
    pub(crate) shares: Vec<S>,
    /// When they went out: leases that they renewed are trusted from here.
    pub(crate) sent: Sent,
    /// One answer for each.
    pub(crate) answers: Result<Vec<S::Answer>, StoreError>,
}

/// One worker's part of a statement.
pub(crate) struct Part<S: Share> {
    shares: Vec<S>,
    reply: oneshot::Sender<Written<S>>,
}

/// The way to a scribe.
pub(crate) struct Inbox<S: Share>(mpsc::Sender<Part<S>>);

impl<S: Share> Inbox<S> {
    /// Writes all of it, together with what other workers have to write. Nothing comes back when the node is gone.
    pub(crate) async fn write(&self, shares: Vec<S>) -> Option<Written<S>> {
        let (reply, written) = oneshot::channel();
        self.0.send(Part { shares, reply }).await.ok()?;
        written.await.ok()
    }
}

/// Who puts one kind of statements together.
pub(crate) struct Scribe<S: Share> {
    node: Arc<Node>,
    inbox: mpsc::Receiver<Part<S>>,
    /// Statements under way, as many as there are workers at the most; each says which lanes were held.
    running: JoinSet<Vec<LaneId>>,
    /// Until when a lane is kept apart.
    apart: HashMap<LaneId, Duration>,
}

/// A scribe's inbox, with a place for each worker.
pub(crate) fn channel<S: Share>(workers: usize) -> (Inbox<S>, mpsc::Receiver<Part<S>>) {
    let (sender, receiver) = mpsc::channel(workers);
    (Inbox(sender), receiver)
}

impl<S: Share> Scribe<S> {
    pub(crate) fn new(node: Arc<Node>, inbox: mpsc::Receiver<Part<S>>) -> Self {
        Self {
            node,
            inbox,
            running: JoinSet::new(),
            apart: HashMap::new(),
        }
    }

    /// Writes until the node is gone.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.inbox.recv().await {
            let mut parts = vec![first];
            let mut rows = parts[0].rows();
            while rows < ROWS_ENOUGH
                && let Ok(next) = self.inbox.try_recv()
            {
                rows += next.rows();
                parts.push(next);
            }
            self.look_back();
            let (alone, together): (Vec<Part<S>>, Vec<Part<S>>) = parts
                .into_iter()
                .partition(|part| part.lanes().any(|lane| self.apart.contains_key(&lane)));
            for part in alone {
                self.begin(vec![part]);
            }
            if !together.is_empty() {
                let over = self.begin(together);
                // Whether it is over or takes too long, the next one begins.
                let _ = timeout(PATIENCE, over).await;
            }
        }
    }

    /// Starts a statement. What comes back is closed when it is over.
    fn begin(&mut self, parts: Vec<Part<S>>) -> oneshot::Receiver<()> {
        let (running, over) = oneshot::channel();
        let node = Arc::clone(&self.node);
        self.running.spawn(async move {
            let held = write(&node, parts).await;
            drop(running);
            held
        });
        over
    }

    /// Lanes that were held go apart, and come back in time.
    fn look_back(&mut self) {
        let now = self.node.ticks.ticks();
        while let Some(ended) = self.running.try_join_next() {
            let held = ended.unwrap_or_default();
            self.apart
                .extend(held.into_iter().map(|lane| (lane, now + APART)));
        }
        self.apart.retain(|_, until| now < *until);
    }
}

impl<S: Share> Part<S> {
    fn rows(&self) -> usize {
        self.shares.iter().map(S::rows).sum()
    }

    fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.shares.iter().map(S::lane)
    }

    fn tell(self, sent: Sent, answers: Result<Vec<S::Answer>, StoreError>) {
        let shares = self.shares;
        // A worker that is gone has nothing to remember.
        let _ = self.reply.send(Written {
            shares,
            sent,
            answers,
        });
    }
}

/// Writes the parts in one statement, and tells each worker what came of its own; returns the lanes that were held.
async fn write<S: Share>(node: &Node, mut parts: Vec<Part<S>>) -> Vec<LaneId> {
    let sizes: Vec<usize> = parts.iter().map(|part| part.shares.len()).collect();
    let mut all: Vec<S> = Vec::with_capacity(sizes.iter().sum());
    for part in &mut parts {
        all.append(&mut part.shares);
    }
    let sent = node.leases.sending();
    let written = S::write(node, &all).await;
    let mut all = all.into_iter();
    for (part, size) in parts.iter_mut().zip(sizes) {
        part.shares.extend(all.by_ref().take(size));
    }
    match written {
        Ok(answers) => {
            let shares = parts.iter().flat_map(Part::lanes);
            let held = shares
                .zip(&answers)
                .filter(|(_, answer)| S::is_held(answer))
                .map(|(lane, _)| lane)
                .collect();
            let mut answers = answers.into_iter();
            for part in parts {
                let own = answers.by_ref().take(part.shares.len()).collect();
                part.tell(sent, Ok(own));
            }
            held
        }
        // One of them cannot be written: each worker's part goes alone, so that the others' can.
        Err(StoreError::Invalid(_) | StoreError::Constraint(_)) if parts.len() > 1 => {
            let mut held = Vec::new();
            for part in parts {
                held.extend(Box::pin(write(node, vec![part])).await);
            }
            held
        }
        Err(error) => {
            let errors = error.repeated(parts.len());
            for (part, error) in parts.into_iter().zip(errors) {
                part.tell(sent, Err(error));
            }
            vec![]
        }
    }
}
