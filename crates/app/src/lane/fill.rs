//! Placeholders: each uses up one nonce that was given before and that nobody holds. They go before the
//! turn's other requests, one at a time: what is wrong with one says nothing about the others.

use fencepost_domain::ids::Nonce;

use super::create::tell_stored;
use super::work::{Ask, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::failed;
use crate::ports::{Body, Held, LaneBatch, LaneCreated, LaneRefusal, StoreError};

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
            self.fill_one(held, ask).await;
        }
    }

    pub(crate) async fn fill_one(&mut self, held: Held, ask: Ask) {
        let cursor = match self.cursor_of(held, ask.seat).await {
            Ok(Some(cursor)) => cursor,
            Ok(None) => return ask.tell(Verdict::Unavailable),
            Err(error) => return ask.tell(failed(&error)),
        };
        // What was never given is no gap: the cursor gets there by itself.
        if matches!(ask.tx.body, Body::Placeholder(nonce) if nonce >= cursor) {
            return ask.tell(Verdict::NotOpen);
        }
        let batch = LaneBatch {
            held,
            cursor,
            free: vec![],
            txs: vec![ask.tx.clone()],
        };
        let sent = self.node.leases.sending();
        // The nonce may have been among the free ones that we remember.
        self.memory.remove(&held.lane);
        let stored = self.node.store.create(&self.node.holder, &[batch]).await;
        match stored.map(|mut answers| answers.pop()) {
            Ok(Some(LaneCreated::Done { txs, .. })) => {
                self.node.leases.keep(held, sent);
                let asks = vec![ask];
                self.track(&asks, &txs, held);
                tell_stored(asks, txs, held);
            }
            Ok(Some(LaneCreated::Refused(LaneRefusal::NonceHeld(_)))) => ask.tell(Verdict::NotOpen),
            Ok(Some(LaneCreated::Refused(why))) => {
                self.refused(held, vec![ask], why, "create").await;
            }
            Ok(None) => ask.tell(Verdict::Unknown),
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "storing a placeholder failed");
                if matches!(error, StoreError::OutcomeUnknown(_)) {
                    self.doubted.insert(held.lane);
                    self.forget(held.lane);
                }
                ask.tell(failed(&error));
            }
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
