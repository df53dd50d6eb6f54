//! What waits in a lane goes first, in order of arrival; what has waited for too long ends. Then the
//! requests of the turn go behind it, as far as the lane's window lets them.

use std::time::Duration;

use fencepost_domain::flat::Name;
use fencepost_domain::ids::{LaneId, TxId};
use fencepost_domain::state::{Allocated, Signing, State, Wait};
use fencepost_domain::transition::Input;

use super::track::Track;
use super::work::{Ask, Work, Works};
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::{InFlightLimit, Seat};
use crate::lifecycle::accept::Verdict;
use crate::lifecycle::failed;
use crate::ports::{
    Held, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneRefusal, Move, READ_LIMIT_MAX,
    Record, StoreError, Stored, WRITE_LIMIT_MAX,
};
use crate::writes::{Line, Write};

/// How many of a queue are looked at, at least.
const LOOK_MIN: usize = 64;
/// How long a queue that cannot move is left alone while nobody asks for its lane.
const REST: Duration = Duration::from_millis(500);
/// The most that one statement promotes: well within the store's limit for a write.
const PROMOTED_MAX: usize = WRITE_LIMIT_MAX / 4;

/// Cuts fronts into groups of a statement's size.
fn grouped(fronts: Vec<Front>) -> Vec<Vec<Front>> {
    let mut groups: Vec<Vec<Front>> = Vec::new();
    let mut size = usize::MAX;
    for front in fronts {
        size = size.saturating_add(front.txs.len());
        match groups.last_mut() {
            Some(group) if size <= PROMOTED_MAX => group.push(front),
            Some(_) | None => {
                size = front.txs.len();
                groups.push(vec![front]);
            }
        }
    }
    groups
}

/// The front of a lane's queue, as far as it may go now.
struct Front {
    held: Held,
    txs: Vec<TxId>,
    /// More may wait behind it.
    more: bool,
}

impl Worker {
    /// After this the requests that are left in the turn may get nonces at once.
    pub(super) async fn promote(&mut self, works: &mut Works) {
        let lanes: Vec<LaneId> = works.keys().copied().collect();
        let mut fronts = Vec::new();
        for lane in lanes {
            let Some(work) = works.get_mut(&lane) else {
                continue;
            };
            self.set_late_aside(work);
            match self.front(work).await {
                Ok(Some(front)) => fronts.push(front),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), lane = lane.0, "looking at a lane's queue failed");
                    self.drop_lane(works, lane, &failed(&error));
                }
            }
        }
        fronts.retain(|front| !front.txs.is_empty());
        if !fronts.is_empty() {
            for group in grouped(fronts) {
                self.promote_all(works, group).await;
            }
        }
        // Whoever comes to a lane in which others wait joins them.
        for (lane, work) in &mut *works {
            let waiting = self.memory.get(lane).is_some_and(|memory| memory.waiting);
            if waiting && !work.paused {
                let wait = match work.seat.max_in_flight {
                    None => Wait::Leader,
                    Some(_) => Wait::Window,
                };
                work.queue_from(0, wait);
            }
        }
    }

    /// Requests whose time seems to have passed go the way of the queue, where the store decides: there they end as expired, or
    /// get a nonce after all. The others of the lane then need not be sent twice.
    fn set_late_aside(&self, work: &mut Work) {
        let now = self.node.skew.store_time(self.node.clock.now());
        let (late, good): (Vec<Ask>, Vec<Ask>) = std::mem::take(&mut work.asks)
            .into_iter()
            .partition(|ask| ask.is_late(now));
        work.asks = good;
        work.later
            .extend(late.into_iter().map(|ask| (ask, Wait::Leader)));
    }

    /// The front of the lane's queue, and what of the turn's requests has room behind it.
    async fn front(&mut self, work: &mut Work) -> Result<Option<Front>, StoreError> {
        let Some(held) = work.held else {
            return Ok(None);
        };
        let waits = work.drain
            || self
                .memory
                .get(&held.lane)
                .is_some_and(|known| known.waiting);
        let room = match work.seat.max_in_flight {
            None => usize::MAX,
            Some(limit) => {
                // Placeholders of this turn are stored before its requests, whatever the limit.
                let in_flight = self.in_flight(work.seat, limit).await? + work.fills.len();
                limit.max.saturating_sub(in_flight)
            }
        };
        if !waits {
            work.queue_from(room, Wait::Window);
            return Ok(None);
        }
        let now = self.node.ticks.ticks();
        let memory = self.memory.get(&held.lane);
        if work.asks.is_empty() && memory.is_some_and(|memory| now < memory.rests_until) {
            return Ok(None);
        }
        let limit = room.min(self.node.settings.batch_max).min(READ_LIMIT_MAX);
        // More than we take tells whether any are left, and lets what is too late end behind a full
        // window too.
        let look = (limit + 1).clamp(LOOK_MIN, READ_LIMIT_MAX);
        let queued = self.node.store.queued(held.lane, look).await?;
        let queued = self.end_expired(held, queued).await?;
        let txs: Vec<TxId> = queued.iter().take(limit).map(|record| record.tx).collect();
        let more = queued.len() > txs.len();
        if let Some(memory) = self.memory.get_mut(&held.lane) {
            memory.waiting = more;
            // An empty one can move as soon as something comes into it.
            if txs.is_empty() && !queued.is_empty() {
                memory.rests_until = now + REST;
            }
        }
        if !more {
            work.queue_from(room.saturating_sub(txs.len()), Wait::Window);
        }
        Ok(Some(Front { held, txs, more }))
    }

    /// How many of the lane count against its limit; stops counting there. The store is asked, so that a new
    /// leader counts what others have given. An end that a reorg has undone counts before that is written.
    async fn in_flight(&self, seat: Seat, limit: InFlightLimit) -> Result<usize, StoreError> {
        let undone = |track: &Track| {
            let entries = track.iter();
            entries.filter(|(_, entry)| entry.state.is_final()).count()
        };
        let (mut count, mut after) = (self.tracks.get(&seat.id).map_or(0, undone), None);
        loop {
            let page = self
                .node
                .store
                .unfinished(seat.id, after, READ_LIMIT_MAX)
                .await?;
            let counted = page
                .iter()
                .filter(|record| limit.until.counts(&record.state));
            count += counted.count();
            after = page.last().and_then(|record| record.state.nonce());
            if page.len() < READ_LIMIT_MAX || count >= limit.max {
                return Ok(count);
            }
        }
    }

    /// Something of the lane is in flight no more: what waits for that goes on at once.
    pub(crate) fn has_room(&mut self, lane: LaneId) {
        if let Some(memory) = self.memory.get_mut(&lane) {
            memory.rests_until = Duration::ZERO;
        }
        self.node.nudge(lane);
    }

    /// Ends what was not to be given a nonce any more, by the store's clock; returns the others.
    async fn end_expired(
        &mut self,
        held: Held,
        queued: Vec<Record>,
    ) -> Result<Vec<Record>, StoreError> {
        if queued.iter().all(|record| record.not_after.is_none()) {
            return Ok(queued);
        }
        let now = self.node.store.now().await?;
        let (late, good): (Vec<Record>, Vec<Record>) = queued
            .into_iter()
            .partition(|record| record.not_after.is_some_and(|until| until < now));
        if late.is_empty() {
            return Ok(good);
        }
        let end = |record: &Record| {
            let state: State = record.state.clone();
            Some(Move::of(record, state.apply(Input::Expire).ok()?))
        };
        let moves = LaneMoves {
            held,
            moves: late.iter().filter_map(end).collect(),
        };
        let sent = self.node.leases.sending();
        let answers = self
            .node
            .store
            .complete(&self.node.holder, std::slice::from_ref(&moves))
            .await?;
        match answers.first() {
            Some(LaneMoved::Done(_)) => {
                self.node.leases.keep(held, sent);
                for step in &moves.moves {
                    self.node.log_move(held, None, step);
                    self.node.meters.ended(&step.to);
                    self.node.waiters.moved(step.tx, &step.to);
                }
                Ok(good)
            }
            Some(LaneMoved::Fenced) => {
                self.fenced(held, "expire");
                Ok(vec![])
            }
            // Someone was faster; the next turn sees it.
            _ => Ok(vec![]),
        }
    }

    async fn promote_all(&mut self, works: &mut Works, fronts: Vec<Front>) {
        let mut promotions = Vec::new();
        for front in &fronts {
            if let Some(memory) = self.memory.get(&front.held.lane) {
                promotions.push(LanePromotion {
                    held: front.held,
                    cursor: memory.cursor,
                    free: memory.free.iter().copied().take(front.txs.len()).collect(),
                    txs: front.txs.clone(),
                });
            }
        }
        let sent = self.node.leases.sending();
        let answers = match self
            .node
            .store
            .promote(&self.node.holder, &promotions)
            .await
        {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lanes = promotions.len(), "giving nonces to queued requests failed");
                let unknown = matches!(error, StoreError::OutcomeUnknown(_));
                for promotion in promotions {
                    if unknown {
                        self.doubted.insert(promotion.held.lane);
                    }
                    // The requests of this turn were not part of it.
                    self.drop_lane(works, promotion.held.lane, &Verdict::Unavailable);
                }
                return;
            }
        };
        for (promotion, answer) in promotions.into_iter().zip(answers) {
            let more = fronts
                .iter()
                .any(|front| front.held == promotion.held && front.more);
            match answer {
                LaneCreated::Done {
                    txs,
                    next_nonce,
                    more_free,
                } => {
                    self.node.leases.keep(promotion.held, sent);
                    self.node.meters.batch(txs.len());
                    self.log_promoted(&promotion, &txs);
                    self.advance(promotion.held, next_nonce, more_free);
                    self.unlearn(promotion.held, &txs);
                    self.wake(&promotion.txs, &txs);
                    if more {
                        self.drain_again(promotion.held.lane);
                    }
                }
                LaneCreated::Refused(why) => self.unpromoted(works, promotion.held, why).await,
            }
        }
    }

    fn log_promoted(&self, promotion: &LanePromotion, txs: &[Stored]) {
        for (tx, stored) in promotion.txs.iter().zip(txs) {
            if let Stored::New { nonce, .. } = stored {
                self.node.log_write(&Line {
                    write: Write::Promote,
                    held: promotion.held,
                    tx: Some(*tx),
                    nonce: Some(*nonce),
                    from: (Name::Queued.word(), None),
                    to: (Name::Allocated.word(), None),
                });
            }
        }
    }

    /// What has got its nonce is read when its turn to be signed comes.
    fn unlearn(&mut self, held: Held, txs: &[Stored]) {
        let lowest = txs.iter().filter_map(|tx| match tx {
            Stored::New { nonce, .. } => Some(*nonce),
            Stored::Known(_) | Stored::Conflict(_) => None,
        });
        if let (Some(lowest), Some(track)) = (lowest.min(), self.tracks.get_mut(&held.lane)) {
            track.unlearn_from(lowest);
        }
    }

    /// Clients that wait for a nonce have it now.
    fn wake(&self, promoted: &[TxId], answers: &[Stored]) {
        for (tx, answer) in promoted.iter().zip(answers) {
            if let Stored::New { nonce, .. } = answer {
                let bytes = Signing::Unsigned;
                let state = State::Allocated(Allocated {
                    nonce: *nonce,
                    bytes,
                });
                self.node.waiters.moved(*tx, &state);
            }
        }
    }

    /// The queue stays as it is; the turn's requests join it or come again.
    async fn unpromoted(&mut self, works: &mut Works, held: Held, why: LaneRefusal) {
        if let LaneRefusal::Paused(_) = why {
            // What is known is answered all the same: the store says which requests are.
            let rests_until = self.node.ticks.ticks() + REST;
            if let Some(memory) = self.memory.get_mut(&held.lane) {
                memory.rests_until = rests_until;
            }
            if let Some(work) = works.get_mut(&held.lane) {
                work.paused = true;
            }
            return;
        }
        let Some(work) = works.remove(&held.lane) else {
            return;
        };
        if matches!(why, LaneRefusal::Stale) {
            // The front was taken by someone, or has ended; look again.
            self.memory.remove(&held.lane);
            self.drain_again(held.lane);
            self.again(work.all());
            return;
        }
        // Whoever polls the queue comes again by itself; asking at once would only wait once more.
        self.refused(held, work.all(), why, "promote").await;
    }
}

#[cfg(test)]
mod tests {
    use fencepost_domain::ids::Token;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn many_fronts_go_in_several_statements_and_none_is_left_out() {
        let front = |lane| Front {
            held: Held {
                lane: LaneId(lane),
                token: Token::NONE,
            },
            txs: vec![TxId(Uuid::nil()); 1_000],
            more: true,
        };
        let groups = grouped((0..25).map(front).collect());
        let lanes = groups.iter().flatten().map(|front| front.held.lane.0);
        assert!(lanes.eq(0..25));
        for group in &groups {
            let size: usize = group.iter().map(|front| front.txs.len()).sum();
            assert!(size <= WRITE_LIMIT_MAX, "{size}");
        }
    }
}
