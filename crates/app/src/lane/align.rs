//! `max(chain, cache, db)`: the cursor in the store is the truth, and the chain is asked whether it
//! has gone ahead of it. Outside any statement, once for a lane and batch, never for a transaction.

use std::time::Duration;

use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::nonce::{Alignment, ChainCount, align};
use fencepost_domain::state::Wait;
use futures::future::join_all;

use super::work::Works;
use super::worker::Worker;
use crate::causes::Causes;
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::failed;
use crate::ports::{
    Audit, CursorMove, CursorMoved, Held, PageQuery, PauseChange, PauseReason, StoreError,
};

impl Worker {
    /// Aligns lanes that are new to us, or were not aligned lately.
    pub(super) async fn align(&mut self, works: &mut Works) {
        let node = std::sync::Arc::clone(&self.node);
        let (Some(mode), Some(chain)) = (node.settings.chain_query, &node.chain) else {
            return;
        };
        let now = node.ticks.ticks();
        let stale: Vec<(Lane, Held)> = works
            .values()
            .filter_map(|work| Some((work.seat.lane, work.held?)))
            .filter(|(_, held)| self.is_stale(*held, now))
            .collect();
        let counts = join_all(stale.iter().map(|(lane, _)| chain.count(*lane, mode))).await;
        for ((lane, held), count) in stale.into_iter().zip(counts) {
            let aligned = match count {
                Ok(count) => self.align_one(works, lane, held, count, now).await,
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), lane = held.lane.0, "the chain cannot be asked");
                    self.go_on_without(works, lane, held).await
                }
            };
            if let Err(error) = aligned {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "aligning with the chain failed");
                self.drop_lane(works, held.lane, &failed(&error));
            }
        }
    }

    fn is_stale(&self, held: Held, now: Duration) -> bool {
        let aligned_at = self
            .memory
            .get(&held.lane)
            .and_then(|known| known.aligned_at);
        aligned_at.is_none_or(|at| now.saturating_sub(at) >= self.node.settings.state_timeout)
    }

    async fn align_one(
        &mut self,
        works: &mut Works,
        lane: Lane,
        held: Held,
        count: ChainCount,
        now: Duration,
    ) -> Result<(), StoreError> {
        let Some(cursor) = self.memory.get(&held.lane).map(|memory| memory.cursor) else {
            return Ok(());
        };
        let has_history = count.highest > cursor && self.has_history(lane, held).await?;
        match align(cursor, count, has_history, self.node.settings.max_jump) {
            Alignment::Keep => self.aligned(held, cursor, now),
            Alignment::Raise { to, finding } => {
                if finding {
                    tracing::error!(lane = held.lane.0, %cursor, chain = %to, "the chain is ahead of our cursor: someone else uses this key");
                }
                self.raise(works, held, to, now).await?;
            }
            Alignment::Doubt => {
                tracing::warn!(lane = held.lane.0, %cursor, chain = %count.highest, "endpoints disagree about the account's count");
                self.aligned(held, cursor, now);
            }
            Alignment::Jump { to } => {
                tracing::error!(lane = held.lane.0, %cursor, chain = %to, "the chain is too far ahead of our cursor: the lane is paused");
                let audit = self.audit("the chain's count is too far ahead of the cursor");
                let change = PauseChange::Pause(PauseReason::CursorJump);
                self.node.store.pause(held.lane, change, &audit).await?;
                self.drop_lane(works, held.lane, &Verdict::Paused(PauseReason::CursorJump));
            }
        }
        Ok(())
    }

    async fn raise(
        &mut self,
        works: &mut Works,
        held: Held,
        to: Nonce,
        now: Duration,
    ) -> Result<(), StoreError> {
        let raise = CursorMove::Raise {
            holder: self.node.holder.clone(),
            held,
            to,
        };
        let audit = self.audit("raised to the chain's count");
        match self
            .node
            .store
            .move_cursor(held.lane, &raise, &audit)
            .await?
        {
            CursorMoved::Now { to, .. } => self.aligned(held, to, now),
            CursorMoved::Fenced => {
                self.fenced(held, "raise");
                if let Some(work) = works.remove(&held.lane) {
                    self.again(work.all());
                }
            }
            CursorMoved::NotPaused | CursorMoved::Holds(_) | CursorMoved::UnknownLane => {
                self.drop_lane(works, held.lane, &Verdict::Unavailable);
            }
        }
        Ok(())
    }

    /// The chain is out of reach. A lane with a history goes on by its cursor; of a new one nobody
    /// else knows where it stands, so its requests wait.
    async fn go_on_without(
        &mut self,
        works: &mut Works,
        lane: Lane,
        held: Held,
    ) -> Result<(), StoreError> {
        if !self.has_history(lane, held).await?
            && let Some(work) = works.remove(&held.lane)
        {
            for ask in work.all() {
                ask.queue(&self.node, Wait::Leader);
            }
        }
        Ok(())
    }

    /// Whether the lane has given a nonce. What only waits in it says nothing about the chain.
    async fn has_history(&self, lane: Lane, held: Held) -> Result<bool, StoreError> {
        let memory = self.memory.get(&held.lane);
        if memory.is_none_or(|memory| memory.cursor == Nonce::ZERO) {
            return Ok(false);
        }
        let newest = PageQuery {
            lane: Some(lane),
            limit: 1,
            ..PageQuery::default()
        };
        Ok(!self.node.store.page(&newest).await?.is_empty())
    }

    fn aligned(&mut self, held: Held, cursor: Nonce, now: Duration) {
        if let Some(memory) = self.memory.get_mut(&held.lane) {
            memory.cursor = cursor;
            memory.aligned_at = Some(now);
        }
    }

    pub(super) fn audit(&self, reason: &str) -> Audit {
        Audit {
            by: format!("node {}", self.node.holder.node.as_str()),
            reason: reason.to_owned(),
            details: None,
        }
    }
}
