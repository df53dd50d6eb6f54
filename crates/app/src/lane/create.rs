//! Storing the requests of a turn with their nonces, all lanes in one statement.

use std::sync::Arc;

use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::nonce;
use fencepost_domain::state::Wait;
use jiff::Timestamp;

use super::entry::Entry;
use super::work::{Ask, Work, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::accept::{Verdict, stored, with_nonce};
use crate::lifecycle::failed;
use crate::node::Node;
use crate::ports::{
    Body, Held, LaneBatch, LaneCreated, LaneRefusal, NewTx, PauseChange, PauseReason, StoreError,
    Stored,
};
use crate::writes::{Line, OrDash, Write, lane_error};

/// So many answers are told apart from the worker. Fewer are told sooner than a task is begun; of more the next
/// statement of a busy lane would have to wait for all.
const TOLD_APART: usize = 16;

impl Worker {
    /// The last part of a turn.
    pub(super) async fn create(&mut self, mut works: Works) {
        let mut later = Vec::new();
        for (lane, work) in &mut works {
            if let Some(memory) = self.memory.get_mut(lane) {
                memory.waiting |= !work.later.is_empty();
            }
            later.append(&mut work.later);
        }
        self.fill(&mut works).await;
        self.create_ready(works).await;
        // Behind those of their lanes that came before them.
        for (ask, wait) in later {
            ask.queue(&self.node, wait);
        }
    }

    async fn create_ready(&mut self, works: Works) {
        let mut ready: Vec<Work> = works
            .into_values()
            .filter(|work| work.held.is_some() && !work.asks.is_empty())
            .collect();
        ready.retain_mut(|work| {
            let known = self.memory.contains_key(&work.seat.id);
            if !known {
                self.again(std::mem::take(&mut work.asks));
            }
            known
        });
        if !ready.is_empty() {
            self.create_together(ready).await;
        }
    }

    async fn create_together(&mut self, mut works: Vec<Work>) {
        let batches: Vec<LaneBatch> = works.iter().filter_map(|work| self.batch(work)).collect();
        if Mutant::AckBeforeCommit.is_on() {
            tell_early(&mut works, &batches, self.node.clock.now());
        }
        let rows = batches.iter().map(|batch| batch.txs.len()).sum();
        let written = self.node.creates.write(batches, &mut self.returning);
        let Some(written) = written.await else {
            return;
        };
        let sent = written.sent;
        match written.answers {
            Ok(answers) => {
                let (mut known, mut refused) = (Vec::with_capacity(answers.len()), Vec::new());
                for ((work, batch), answer) in works.into_iter().zip(written.shares).zip(answers) {
                    match answer {
                        LaneCreated::Done {
                            txs,
                            next_nonce,
                            more_free,
                        } => {
                            // What was all known was answered without touching the lease.
                            if txs.iter().any(|each| matches!(each, Stored::New { .. })) {
                                self.node.leases.keep(batch.held, sent);
                            }
                            self.advance(batch.held, next_nonce, more_free);
                            let asks = work.asks.iter().map(|ask| (ask.seat, &ask.tx));
                            let asks: Vec<(Seat, &NewTx)> = asks.collect();
                            self.track(&asks, &txs, batch.held);
                            known.push((work.asks, txs, batch.held));
                        }
                        LaneCreated::Refused(why) => refused.push((batch.held, work.asks, why)),
                    }
                }
                tell_stored(&self.node, known, rows);
                // Some of these ask the store again: what is stored does not wait for that.
                for (held, asks, why) in refused {
                    self.refused(held, asks, why, "create").await;
                }
            }
            Err(error) => self.uncreated(works, rows, error).await,
        }
    }

    /// What has got its nonce is to be signed and sent.
    pub(super) fn track(&mut self, asks: &[(Seat, &NewTx)], answers: &[Stored], held: Held) {
        let now = self.node.ticks.ticks();
        let track = self.tracks.get_mut(&held.lane);
        let Some(track) = track.filter(|track| track.held == held) else {
            return;
        };
        for ((seat, tx), answer) in asks.iter().zip(answers) {
            if let Stored::New { nonce, at } = answer {
                let state = with_nonce(tx, *nonce);
                let record = stored(*seat, tx, state, held.token, *at);
                let mut entry = Entry::new(record, now);
                if let Body::Reserved(loan) = tx.body {
                    entry.due_at = now + loan.ttl + loan.grace;
                }
                track.add(*nonce, entry);
            }
        }
    }

    async fn uncreated(&mut self, works: Vec<Work>, rows: usize, error: StoreError) {
        tracing::warn!(error = %Causes(&error), requests = rows, "storing requests failed");
        // After a failed batch nothing that we remember is trusted.
        for work in &works {
            self.memory.remove(&work.seat.id);
        }
        match error {
            StoreError::OutcomeUnknown(_) if Mutant::NewNonceAfterTimeout.is_on() => {
                for ask in works.into_iter().flat_map(Work::all) {
                    self.again(vec![ask.renamed()]);
                }
            }
            StoreError::OutcomeUnknown(_) => self.resolve(works).await,
            // One of them cannot be stored: each goes alone, so that the others can.
            StoreError::Invalid(_) | StoreError::Constraint(_) if rows > 1 => {
                for work in works {
                    self.create_alone(work).await;
                }
            }
            StoreError::Unavailable(_)
            | StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Invalid(_)
            | StoreError::Constraint(_)
            | StoreError::Corrupt(_)
            | StoreError::Unfit(_)
            | StoreError::InUse(_) => {
                let verdict = failed(&error);
                for work in works {
                    work.tell_all(&verdict);
                }
            }
        }
    }

    async fn create_alone(&mut self, work: Work) {
        for ask in work.asks {
            let mut works = Works::new();
            let one = Work {
                seat: work.seat,
                held: work.held,
                asks: vec![ask],
                fills: vec![],
                later: vec![],
                drain: false,
                paused: false,
            };
            works.insert(work.seat.id, one);
            self.recall(&mut works).await;
            Box::pin(self.create_ready(works)).await;
        }
    }

    fn batch(&self, work: &Work) -> Option<LaneBatch> {
        let memory = self.memory.get(&work.seat.id)?;
        Some(LaneBatch {
            held: work.held?,
            cursor: memory.cursor,
            free: memory.free.iter().copied().take(work.asks.len()).collect(),
            txs: work.asks.iter().map(|ask| ask.tx.clone()).collect(),
        })
    }

    /// A write for the lane went well.
    pub(super) fn advance(&mut self, held: Held, next_nonce: Nonce, more_free: bool) {
        // Which free nonces are left is read again; without any, the cursor is all there is to know.
        if more_free {
            self.memory.remove(&held.lane);
        } else if let Some(memory) = self.memory.get_mut(&held.lane) {
            memory.cursor = next_nonce;
            memory.free.clear();
        }
    }

    /// Nothing was written for the lane.
    pub(super) async fn refused(
        &mut self,
        held: Held,
        asks: Vec<Ask>,
        why: LaneRefusal,
        op: &'static str,
    ) {
        let tell = |asks: Vec<Ask>, verdict: Verdict| {
            for ask in asks {
                ask.tell(verdict.clone());
            }
        };
        match why {
            LaneRefusal::Fenced => {
                self.fenced(held, op);
                self.again(asks);
            }
            LaneRefusal::Paused(reason) => tell(asks, Verdict::Paused(reason)),
            LaneRefusal::QueueFirst => {
                if let Some(memory) = self.memory.get_mut(&held.lane) {
                    memory.waiting = true;
                }
                // Others keep coming in through the queue: then it is the way for these too.
                let (tired, fresh): (Vec<Ask>, Vec<Ask>) =
                    asks.into_iter().partition(Ask::is_tired);
                for ask in tired {
                    ask.queue(&self.node, Wait::Leader);
                }
                self.again(fresh);
            }
            LaneRefusal::CursorMoved(_) | LaneRefusal::FreeMoved | LaneRefusal::Stale => {
                self.memory.remove(&held.lane);
                self.again(asks);
            }
            // In the queue they end as expired.
            LaneRefusal::Late(now) => {
                let (late, good) = asks.into_iter().partition(|ask| ask.is_late(now));
                let late: Vec<Ask> = late;
                for ask in late {
                    ask.queue(&self.node, Wait::Leader);
                }
                self.again(good);
            }
            LaneRefusal::NonceHeld(nonce) => {
                self.memory.remove(&held.lane);
                let first = asks.first().map(|ask| ask.tx.tx);
                self.clash(held, nonce, first).await;
                tell(asks, Verdict::Paused(PauseReason::NonceClash));
            }
            LaneRefusal::Exhausted => tell(asks, Verdict::Exhausted),
            LaneRefusal::Busy => tell(asks, Verdict::Overloaded),
            LaneRefusal::UnknownLane => tell(asks, Verdict::Unavailable),
        }
    }

    /// Someone holds a nonce that the cursor was about to give. That should be impossible: no more is
    /// given until a person has looked.
    async fn clash(&self, held: Held, nonce: Nonce, first: Option<TxId>) {
        let tx_id = OrDash(first);
        lane_error!(self.node, held, %tx_id, %nonce, "the next nonce is held already: the lane is paused");
        let audit = self.audit(&format!("nonce {nonce} is held already"));
        let change = PauseChange::Pause(PauseReason::NonceClash);
        match self.node.store.pause(held.lane, change, &audit).await {
            Ok(_) => self.log_pause(held, nonce, PauseReason::NonceClash),
            Err(error) => {
                lane_error!(self.node, held, %tx_id, %nonce, error = %Causes(&error), "pausing the lane failed");
            }
        }
    }

    /// Logs that this node has paused a lane, which gave nonces until now.
    pub(super) fn log_pause(&self, held: Held, nonce: Nonce, reason: PauseReason) {
        self.node.log_write(&Line {
            write: Write::Pause,
            held,
            tx: None,
            nonce: Some(nonce),
            from: ("RUNNING", None),
            to: (reason.word(), None),
        });
    }
}

/// Tells what will be stored, if all goes well.
fn tell_early(works: &mut [Work], batches: &[LaneBatch], now: Timestamp) {
    for (work, batch) in works.iter_mut().zip(batches) {
        let Ok(plan) = nonce::plan(&batch.free, batch.cursor, batch.txs.len()) else {
            continue;
        };
        for (ask, nonce) in work.asks.iter_mut().zip(plan.nonces) {
            let state = with_nonce(&ask.tx, nonce);
            let record = stored(ask.seat, &ask.tx, state, batch.held.token, now);
            ask.tell_early(Verdict::New(Box::new(record)));
        }
    }
}

/// Tells what is stored. Many are told by a task of their own, while the worker sees to its next batch.
fn tell_stored(node: &Arc<Node>, known: Vec<(Vec<Ask>, Vec<Stored>, Held)>, rows: usize) {
    let node = Arc::clone(node);
    let tell = move || {
        for (asks, answers, held) in known {
            for (ask, answer) in asks.into_iter().zip(answers) {
                let verdict = told(&node, ask.seat, &ask.tx, answer, held);
                ask.tell(verdict);
            }
        }
    };
    if rows < TOLD_APART {
        tell();
    } else {
        tokio::spawn(async move { tell() });
    }
}

/// What became of one request.
pub(super) fn told(node: &Node, seat: Seat, tx: &NewTx, answer: Stored, held: Held) -> Verdict {
    let verdict = match answer {
        Stored::New { nonce, at } => {
            let state = with_nonce(tx, nonce);
            Verdict::New(Box::new(stored(seat, tx, state, held.token, at)))
        }
        // Its own row, stored on another path: to its client it is new.
        Stored::Known(record) if record.tx == tx.tx => Verdict::New(record),
        Stored::Known(record) => Verdict::Known(record),
        Stored::Conflict(record) => Verdict::Conflict(record),
    };
    if let Verdict::New(record) = &verdict {
        node.log_stored(Write::Create, held.token, record);
    }
    verdict
}
