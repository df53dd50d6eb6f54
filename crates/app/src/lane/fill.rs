//! Placeholders: each uses up one nonce that was given before and that nobody holds. They go before the
//! turn's other requests, one at a time: what is wrong with one says nothing about the others.

use fencepost_domain::ids::Nonce;

use super::create::told;
use super::work::{Ask, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::failed;
use crate::ports::{Body, Held, Key, LaneBatch, LaneCreated, LaneRefusal, NewTx, StoreError};

impl Worker {
    /// Stores the placeholders of a turn.
    pub(super) async fn fill(&mut self, works: &mut Works) {
        let mut fills: Vec<(Held, Ask)> = Vec::new();
        for work in works.values_mut() {
            if let Some(held) = work.held {
                fills.extend(work.fills.drain(..).map(|ask| (held, ask)));
            }
        }
        for (held, ask) in fills {
            let verdict = self.fill_one(held, ask.seat, &ask.tx).await;
            ask.tell(verdict);
        }
    }

    /// Stores one placeholder. Whatever comes of it is the answer: nobody may wait here for a later turn.
    pub(crate) async fn fill_one(&mut self, held: Held, seat: Seat, tx: &NewTx) -> Verdict {
        let cursor = match self.cursor_of(held, seat).await {
            Ok(Some(cursor)) => cursor,
            Ok(None) => return Verdict::Unavailable,
            Err(error) => return failed(&error),
        };
        // What was never given is no gap: the cursor gets there by itself.
        if let Body::Placeholder(nonce) = tx.body
            && nonce >= cursor
        {
            return Verdict::NotOpen;
        }
        match self.is_used(seat, tx).await {
            Ok(true) => return Verdict::NotOpen,
            Ok(false) => {}
            Err(error) => return failed(&error),
        }
        let batch = LaneBatch {
            held,
            cursor,
            free: vec![],
            txs: vec![tx.clone()],
        };
        let sent = self.node.leases.sending();
        // The nonce may have been among the free ones that we remember.
        self.memory.remove(&held.lane);
        let stored = self.node.store.create(&self.node.holder, &[batch]).await;
        match stored.map(|mut answers| answers.pop()) {
            Ok(Some(LaneCreated::Done { mut txs, .. })) => {
                self.node.leases.keep(held, sent);
                self.track(&[(seat, tx)], &txs, held);
                txs.pop().map_or(Verdict::Unknown, |stored| {
                    told(&self.node, seat, tx, stored, held)
                })
            }
            Ok(Some(LaneCreated::Refused(why))) => self.unfilled(held, why),
            Ok(None) => Verdict::Unknown,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "storing a placeholder failed");
                if matches!(error, StoreError::OutcomeUnknown(_)) {
                    self.doubted.insert(held.lane);
                    self.forget(held.lane);
                }
                failed(&error)
            }
        }
    }

    /// A nonce that is neither held nor open was used by what is deleted now. One that is held by what has ended
    /// is used too, and may be deleted the next moment.
    async fn is_used(&self, seat: Seat, tx: &NewTx) -> Result<bool, StoreError> {
        let Body::Placeholder(nonce) = tx.body else {
            return Ok(false);
        };
        let (store, key) = (&self.node.store, Key::Nonce(seat.lane, nonce));
        // Looking for gaps may mean very many nonces: it is the last resort.
        match store.find(&key).await? {
            Some(holder) if !holder.state.is_final() => return Ok(false),
            // A request that comes twice is answered by what it became.
            Some(holder) if holder.tx != tx.tx && tx.request_id.is_none() => return Ok(true),
            Some(_) | None => {}
        }
        if store.gaps(seat.id, nonce, 1).await?.first() == Some(&nonce) {
            return Ok(false);
        }
        Ok(store.find(&key).await?.is_none())
    }

    fn unfilled(&mut self, held: Held, why: LaneRefusal) -> Verdict {
        match why {
            LaneRefusal::NonceHeld(_) => Verdict::NotOpen,
            LaneRefusal::Paused(reason) => Verdict::Paused(reason),
            LaneRefusal::Fenced => {
                self.fenced(held, "create");
                Verdict::NotLeader(None)
            }
            LaneRefusal::Exhausted => Verdict::Exhausted,
            LaneRefusal::UnknownLane => Verdict::Unavailable,
            LaneRefusal::QueueFirst
            | LaneRefusal::CursorMoved(_)
            | LaneRefusal::FreeMoved
            | LaneRefusal::Stale
            | LaneRefusal::Late(_)
            | LaneRefusal::Busy => Verdict::Overloaded,
        }
    }

    async fn cursor_of(&self, held: Held, seat: Seat) -> Result<Option<Nonce>, StoreError> {
        let known = self.memory.get(&held.lane);
        if let Some(memory) = known.filter(|memory| memory.token == held.token) {
            return Ok(Some(memory.cursor));
        }
        let view = self.node.store.lane(seat.lane).await?;
        Ok(view.map(|view| view.next_nonce))
    }
}
