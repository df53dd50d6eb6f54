//! `max(chain, cache, db)`: the cursor in the store is the truth, and the chain is asked whether it
//! has gone ahead of it. Outside the worker and any statement, once for a lane and time, never for a
//! transaction: requests of a lane that needs the answer wait for it, those of other lanes do not.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{Lane, LaneId, Nonce};
use fencepost_domain::nonce::{Alignment, ChainCount, align};

use super::report::Report;
use super::work::{Work, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::failed;
use crate::ports::{
    Audit, ChainUnavailable, CountMode, CursorMove, CursorMoved, Held, PauseChange, PauseReason,
    StoreError,
};
use crate::writes::lane_error;

/// How soon a chain that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// When a lane was compared with the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aligned {
    at: Duration,
    answer: Answer,
    latest: Latest,
}

/// What the chain has in blocks, as far as that matters: what was given back below it is nobody's to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Latest {
    /// Nothing was free, and nobody was asked.
    Unasked,
    /// There is no answer that all endpoints share and that can be believed.
    Unknown,
    /// All below this is used.
    At(Nonce),
}

impl Latest {
    /// Whether a nonce that was given back may be given again, by what is known.
    fn lets_give(self, free: Nonce) -> bool {
        match self {
            Self::Unasked => false,
            Self::Unknown => true,
            Self::At(latest) => free >= latest,
        }
    }
}

/// What became of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Given,
    /// None, and the lane goes on by its own history.
    Lacking,
    /// None, and nobody knows where the account stands.
    Needed,
}

/// What a lane needs before it gives nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing.
    Fresh,
    /// The chain is asked again, while it goes on.
    Aging,
    /// The chain's answer.
    Stale,
    /// The chain's answer, and it was asked just now.
    Lost,
}

impl Worker {
    /// Asks of lanes that are new to us, or were not compared lately. Their work is parked.
    pub(super) fn align(&mut self, works: &mut Works) {
        if self.node.settings.chain_query.is_none() || self.node.chain.is_none() {
            return;
        }
        let now = self.node.ticks.ticks();
        let lanes: Vec<(LaneId, Held, Seat)> = works
            .iter()
            .filter_map(|(lane, work)| Some((*lane, work.held?, work.seat)))
            .collect();
        for (id, held, seat) in lanes {
            let standing = self.standing(held, now);
            if standing == Standing::Fresh {
                continue;
            }
            if standing == Standing::Lost {
                self.wait_for_chain(works.remove(&id));
                continue;
            }
            if !self.parked.contains_key(&id) {
                self.count(held, seat);
                self.parked.insert(id, None);
            }
            if standing == Standing::Stale
                && let Some(work) = works.remove(&id)
            {
                self.park(work);
            }
        }
    }

    fn standing(&self, held: Held, now: Duration) -> Standing {
        let good_for = self.node.settings.state_timeout;
        match self.aligned.get(&held.lane) {
            Some((token, known)) if *token == held.token => {
                let age = now.saturating_sub(known.at);
                let memory = self.memory.get(&held.lane);
                let free = memory.and_then(|memory| memory.free.first());
                match known.answer {
                    Answer::Given | Answer::Lacking
                        if free.is_some_and(|free| !known.latest.lets_give(*free)) =>
                    {
                        Standing::Stale
                    }
                    Answer::Lacking if age >= ASK_AGAIN => Standing::Aging,
                    Answer::Needed if age >= ASK_AGAIN => Standing::Stale,
                    Answer::Needed => Standing::Lost,
                    Answer::Given if age >= good_for => Standing::Stale,
                    // Early, so that a busy lane never has to wait for the answer.
                    Answer::Given if age >= good_for / 2 => Standing::Aging,
                    Answer::Given | Answer::Lacking => Standing::Fresh,
                }
            }
            Some(_) | None => Standing::Stale,
        }
    }

    /// Asks, in a task of its own.
    fn count(&self, held: Held, seat: Seat) {
        let (Some(mode), Some(chain)) = (self.node.settings.chain_query, self.node.chain.clone())
        else {
            return;
        };
        let node = Arc::clone(&self.node);
        let memory = self.memory.get(&held.lane);
        let has_free = memory.is_some_and(|memory| !memory.free.is_empty());
        let is_new = memory.is_some_and(|memory| memory.cursor == Nonce::ZERO);
        let mode = if is_new { seat.start.mode() } else { mode };
        let lane = seat.lane;
        self.node.hand(async move {
            let count = chain.count(lane, mode).await;
            // What is only in a pool may never be mined: a free nonce is dropped for a block alone.
            let latest = if has_free {
                match chain.count(lane, CountMode::Latest).await {
                    Ok(latest) if latest.is_unanimous() => Latest::At(latest.highest),
                    Ok(_) | Err(_) => Latest::Unknown,
                }
            } else {
                Latest::Unasked
            };
            node.report(Report::Counted {
                held,
                count,
                latest,
            })
            .await;
        });
    }

    /// Sets a lane's work aside until the chain has answered. What would be too much is told to come
    /// again.
    fn park(&mut self, mut work: Work) {
        let others = self.parked.values().flatten().map(Work::len).sum::<usize>();
        let place = self.parked.entry(work.seat.id).or_default();
        match place {
            None => *place = Some(work),
            Some(_) if others + work.len() > self.node.settings.worker_queue_max => {
                work.tell_all(&Verdict::Overloaded);
            }
            Some(first) => {
                first.asks.append(&mut work.asks);
                first.fills.append(&mut work.fills);
                first.later.append(&mut work.later);
                first.drain |= work.drain;
            }
        }
    }

    /// The chain has answered, or not.
    pub(super) async fn counted(
        &mut self,
        held: Held,
        count: Result<ChainCount, ChainUnavailable>,
        latest: Latest,
    ) {
        let mut work = self.parked.remove(&held.lane).flatten();
        let now = self.node.ticks.ticks();
        let Some(seat) = self.node.directory.seat_by_id(held.lane) else {
            return;
        };
        // Under another token someone else may have moved the cursor: ask again.
        let ours = self.node.leases.held(held.lane) == Some(held);
        if ours {
            let latest = match latest {
                Latest::At(at) if !self.drop_free(held, at).await => Latest::Unknown,
                Latest::At(_) | Latest::Unasked | Latest::Unknown => latest,
            };
            let aligned = match count {
                Ok(count) => self.align_one(&mut work, seat, held, count, now).await,
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), lane = held.lane.0, "the chain cannot be asked where the account stands");
                    self.go_on_without(&mut work, seat.lane, held, now).await
                }
            };
            if let Err(error) = aligned {
                tracing::warn!(error = %Causes(&error), lane = held.lane.0, "aligning with the chain failed");
                self.memory.remove(&held.lane);
                if let Some(work) = work.take() {
                    work.tell_all(&failed(&error));
                }
            }
            if let Some((_, known)) = self.aligned.get_mut(&held.lane) {
                known.latest = latest;
            }
        }
        self.released.extend(work);
    }

    async fn align_one(
        &mut self,
        work: &mut Option<Work>,
        seat: Seat,
        held: Held,
        count: ChainCount,
        now: Duration,
    ) -> Result<(), StoreError> {
        let Some(cursor) = self.cursor(seat.lane, held).await? else {
            return Ok(());
        };
        let is_first =
            !self.node.store_memory.is_acquainted() && self.node.first_mode(seat, cursor).is_some();
        if cursor == Nonce::ZERO && !(is_first && count.highest > cursor) {
            return self.begin_lane(work, seat, held, count, now).await;
        }
        // A store that this node does not know may lack what the chain has: no jump is too small to stop for.
        let max_jump = if is_first {
            0
        } else {
            self.node.settings.max_jump
        };
        match align(cursor, count, max_jump) {
            Alignment::Keep => self.aligned(held, cursor, now, Answer::Given),
            Alignment::Raise { to } => {
                lane_error!(self.node, held, nonce = %cursor, chain = %to, "the chain is ahead of our cursor: someone else uses this key");
                self.raise(work, held, to, now).await?;
            }
            Alignment::Doubt if is_first => {
                self.aligned(held, cursor, now, Answer::Needed);
                self.wait_for_chain(work.take());
            }
            Alignment::Doubt => {
                tracing::warn!(lane = held.lane.0, %cursor, chain = %count.highest, "endpoints disagree about the account's count");
                self.aligned(held, cursor, now, Answer::Given);
            }
            Alignment::Jump { to } => {
                // It gives no nonces while it is paused; asking and pausing again would change nothing.
                self.aligned(held, cursor, now, Answer::Given);
                let view = self.node.store.lane(seat.lane).await?;
                if view.is_some_and(|view| view.paused.is_some()) {
                    return Ok(());
                }
                lane_error!(self.node, held, nonce = %cursor, chain = %to, "the chain is too far ahead of our cursor: the lane is paused");
                let audit = self.audit("the chain's count is too far ahead of the cursor");
                let change = PauseChange::Pause(PauseReason::CursorJump);
                self.node.store.pause(held.lane, change, &audit).await?;
                self.log_pause(held, cursor, PauseReason::CursorJump);
                self.memory.remove(&held.lane);
                if let Some(work) = work.take() {
                    work.tell_all(&Verdict::Paused(PauseReason::CursorJump));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn raise(
        &mut self,
        work: &mut Option<Work>,
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
            CursorMoved::Now { from, to } => {
                self.node.log_cursor(held, from, to);
                self.aligned(held, to, now, Answer::Given);
            }
            CursorMoved::Fenced => self.fenced(held, "raise"),
            CursorMoved::NotPaused | CursorMoved::Holds(_) | CursorMoved::UnknownLane => {
                self.aligned(held, to, now, Answer::Lacking);
                self.memory.remove(&held.lane);
                if let Some(work) = work.take() {
                    work.tell_all(&Verdict::Unavailable);
                }
            }
        }
        Ok(())
    }

    /// The chain is out of reach. A lane that has begun goes on by its cursor. Requests of a new lane wait, because only
    /// the chain knows where its account stands, and so do those of any lane in a store that this node does not know.
    async fn go_on_without(
        &mut self,
        work: &mut Option<Work>,
        lane: Lane,
        held: Held,
        now: Duration,
    ) -> Result<(), StoreError> {
        let Some(cursor) = self.cursor(lane, held).await? else {
            return Ok(());
        };
        if cursor > Nonce::ZERO && self.node.store_memory.is_acquainted() {
            self.aligned(held, cursor, now, Answer::Lacking);
        } else {
            self.aligned(held, cursor, now, Answer::Needed);
            self.wait_for_chain(work.take());
        }
        Ok(())
    }

    pub(super) fn wait_for_chain(&self, work: Option<Work>) {
        for ask in work.into_iter().flat_map(Work::all) {
            ask.await_chain(&self.node);
        }
    }

    /// The cursor, as we remember it or as the store says.
    async fn cursor(&self, lane: Lane, held: Held) -> Result<Option<Nonce>, StoreError> {
        let known = self.memory.get(&held.lane);
        if let Some(memory) = known.filter(|memory| memory.token == held.token) {
            return Ok(Some(memory.cursor));
        }
        let view = self.node.store.lane(lane).await?;
        Ok(view.map(|view| view.next_nonce))
    }

    pub(super) fn aligned(&mut self, held: Held, cursor: Nonce, now: Duration, answer: Answer) {
        let known = Aligned {
            at: now,
            answer,
            latest: Latest::Unasked,
        };
        self.aligned.insert(held.lane, (held.token, known));
        let memory = self.memory.get_mut(&held.lane);
        if let Some(memory) = memory.filter(|memory| memory.token == held.token) {
            memory.cursor = memory.cursor.max(cursor);
        }
    }

    pub(crate) fn audit(&self, reason: &str) -> Audit {
        Audit {
            by: format!("node {}", self.node.holder.node.as_str()),
            reason: reason.to_owned(),
            details: None,
            node: Some(self.node.holder.node.clone()),
        }
    }
}
