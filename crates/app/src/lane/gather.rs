//! Workers share statements: what they have to write while one is under way goes together into the next. So a
//! busy node commits as often as its store answers, however many workers it has.
//!
//! A large one does not wait for the one before it: what is saved by sharing is saved already, and the store has
//! more than one processor.
//!
//! Those that have just been answered are waited for before the next statement begins. It takes them a fraction of
//! a millisecond to see whether they have more; without them the lanes would go in two halves by turns, and every
//! request would wait for a statement that it is not in.
//!
//! A lane has one worker, and a worker waits for its answer: no two statements here ever meet in a lane.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::LaneId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use super::lease::Sent;
use crate::node::Node;
use crate::ports::{LaneBatch, LaneCreated, LaneMoved, LaneMoves, LaneRefusal, StoreError};

/// A statement that has so many rows takes no further worker's. More, and each waits for the rows of all others;
/// fewer, and a busy node pays for more commits.
const ROWS_ENOUGH: usize = 1_024;
/// A statement that has so many rows begins although another one runs. Fewer, and the cost of a statement as such
/// is felt; more, and the store's second processor idles.
const ROWS_WORTH: usize = 128;
/// So many large statements run at once. More share the store's processors, and each takes the longer.
const AT_ONCE: usize = 2;
/// How long a statement keeps the next one waiting. Shorter, and a slow disk gets many small commits at once;
/// longer, and whoever holds one lane's row is felt in the lanes of all workers.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long those that were answered may take until they hand in what is next, or have nothing. Shorter is not to be
/// had of the timer; longer, and one that is kept by something else keeps all.
const RETURN: Duration = Duration::from_millis(1);
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

/// While a worker has this, the scribe waits for what the worker hands in next. To be let go of as soon as it is clear
/// that this is nothing.
#[derive(Clone)]
pub(crate) struct Returning {
    _watched: mpsc::Sender<Infallible>,
}

/// One worker's part of a statement.
pub(crate) struct Part<S: Share> {
    shares: Vec<S>,
    reply: oneshot::Sender<(Written<S>, Returning)>,
}

/// The way to a scribe.
pub(crate) struct Inbox<S: Share>(mpsc::Sender<Part<S>>);

impl<S: Share> Inbox<S> {
    /// Writes all of it, together with what other workers have to write. Nothing comes back when the node is gone.
    /// Whoever waits for what the worker hands in next is let go, and the scribe of this one waits from its answer on.
    pub(crate) async fn write(
        &self,
        shares: Vec<S>,
        returning: &mut Option<Returning>,
    ) -> Option<Written<S>> {
        let (reply, answered) = oneshot::channel();
        self.0.send(Part { shares, reply }).await.ok()?;
        *returning = None;
        let (written, next) = answered.await.ok()?;
        *returning = Some(next);
        Some(written)
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
        let mut before: Option<BoxFuture<'static, ()>> = None;
        while let Some(first) = self.inbox.recv().await {
            let mut parts = vec![first];
            self.gather(&mut parts);
            if let Some(before) = before.take() {
                self.wait(&mut parts, before).await;
            }
            self.look_back();
            let (alone, together): (Vec<Part<S>>, Vec<Part<S>>) = parts
                .into_iter()
                .partition(|part| part.lanes().any(|lane| self.apart.contains_key(&lane)));
            for part in alone {
                drop(self.begin(vec![part]));
            }
            if !together.is_empty() {
                before = Some(self.begin(together).boxed());
            }
        }
    }

    /// Takes what others have handed in.
    fn gather(&mut self, parts: &mut Vec<Part<S>>) {
        let mut rows = rows(parts);
        while rows < ROWS_ENOUGH
            && let Ok(next) = self.inbox.try_recv()
        {
            rows += next.rows();
            parts.push(next);
        }
    }

    /// Waits for the statement before, unless there is enough for another one; what is handed in meanwhile is taken.
    async fn wait(&mut self, parts: &mut Vec<Part<S>>, mut before: BoxFuture<'static, ()>) {
        loop {
            self.look_back();
            let rows = rows(parts);
            if rows >= ROWS_WORTH && self.running.len() < AT_ONCE {
                return;
            }
            tokio::select! {
                biased;
                () = &mut before => break,
                Some(ended) = self.running.join_next(), if rows >= ROWS_WORTH => self.ended(ended),
                next = self.inbox.recv(), if rows < ROWS_ENOUGH => match next {
                    Some(next) => parts.push(next),
                    None => return,
                },
            }
        }
        self.gather(parts);
    }

    /// Starts a statement. What comes back is over when the next one may begin.
    fn begin(&mut self, parts: Vec<Part<S>>) -> impl Future<Output = ()> + Send + use<S> {
        let (running, over) = oneshot::channel::<()>();
        let (watched, mut returned) = mpsc::channel(1);
        let returning = Returning { _watched: watched };
        let node = Arc::clone(&self.node);
        self.running.spawn(async move {
            let held = write(&node, parts, returning).await;
            drop(running);
            held
        });
        let late = Instant::now() + PATIENCE;
        async move {
            // Whether it is over or takes too long, the next one begins.
            if timeout_at(late, over).await.is_ok() {
                let _ = timeout(RETURN, returned.recv()).await;
            }
        }
    }

    /// Lanes that were held go apart, and come back in time.
    fn look_back(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            self.ended(ended);
        }
        let now = self.node.ticks.ticks();
        self.apart.retain(|_, until| now < *until);
    }

    fn ended(&mut self, ended: Result<Vec<LaneId>, JoinError>) {
        let until = self.node.ticks.ticks() + APART;
        let held = ended.unwrap_or_default();
        self.apart
            .extend(held.into_iter().map(|lane| (lane, until)));
    }
}

impl<S: Share> Part<S> {
    fn rows(&self) -> usize {
        self.shares.iter().map(S::rows).sum()
    }

    fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.shares.iter().map(S::lane)
    }

    fn tell(self, sent: Sent, answers: Result<Vec<S::Answer>, StoreError>, returning: Returning) {
        let shares = self.shares;
        // A worker that is gone has nothing to remember.
        let written = Written {
            shares,
            sent,
            answers,
        };
        let _ = self.reply.send((written, returning));
    }
}

fn rows<S: Share>(parts: &[Part<S>]) -> usize {
    parts.iter().map(Part::rows).sum()
}

/// Writes the parts in one statement, and tells each worker what came of its own; returns the lanes that were held.
async fn write<S: Share>(
    node: &Node,
    mut parts: Vec<Part<S>>,
    returning: Returning,
) -> Vec<LaneId> {
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
                part.tell(sent, Ok(own), returning.clone());
            }
            held
        }
        // One of them cannot be written: each worker's part goes alone, so that the others' can.
        Err(StoreError::Invalid(_) | StoreError::Constraint(_)) if parts.len() > 1 => {
            let mut held = Vec::new();
            for part in parts {
                held.extend(Box::pin(write(node, vec![part], returning.clone())).await);
            }
            held
        }
        Err(error) => {
            let errors = error.repeated(parts.len());
            for (part, error) in parts.into_iter().zip(errors) {
                part.tell(sent, Err(error), returning.clone());
            }
            vec![]
        }
    }
}
