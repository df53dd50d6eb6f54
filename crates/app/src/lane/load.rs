//! Reading a lane's unfinished transactions into mind: when we begin to lead it, when a write did not
//! go as it should, and when a long backlog moves on. What happened before is asked of the chain.

use std::collections::HashMap;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::state::{Allocated, Seen, Signing, State, Stuck, Tracking, Why};

use jiff::Timestamp;

use super::entry::{Entry, Need};
use super::track::Track;
use super::worker::Worker;
use crate::causes::Causes;
use crate::directory::Seat;
use crate::lifecycle::follow::board::{Hit, Whose};
use crate::ports::{Held, LaneView, PageQuery, READ_LIMIT_MAX, Record, StoreError, StoredAttempt};

/// How many of a lane are read for those that have ended, of its newest and of those before all that are open;
/// older ones are beyond the reach of any reorg that a busy chain sees.
const ENDED_MAX: usize = 256;
/// How many pages are read for one lane in one turn: others wait meanwhile.
const PAGES_MAX: usize = 4;

impl Worker {
    /// A lane that we have just read, and in which nothing is unfinished, needs no further reading.
    pub(super) fn begin_track(&mut self, held: Held, view: &LaneView) {
        let known = self.tracks.get(&held.lane);
        let known = known.is_some_and(|track| track.held == held);
        if known || view.head.is_some() || !(self.node.has_life() || self.node.lends_by_clock()) {
            return;
        }
        if let Some(seat) = self.node.directory.seat_by_id(held.lane) {
            self.forget(held.lane);
            self.unread.remove(&held.lane);
            let mut track = Track::new(seat, held, self.node.settings.window, true);
            // A lane that never gave a nonce has nothing behind it.
            track.knows_ended = view.next_nonce == Nonce::ZERO;
            self.tracks.insert(held.lane, track);
        }
    }

    /// What we have in mind of the lane is void.
    pub(crate) fn forget(&mut self, lane: LaneId) {
        if let Some(track) = self.tracks.remove(&lane)
            && let Some(board) = self.node.board(track.seat.lane.chain)
        {
            board.forget(lane);
        }
        self.unread.insert(lane);
    }

    /// Has in mind what is next to do in the lane; false if it cannot be read now, or is not ours.
    pub(crate) async fn load(&mut self, lane: LaneId) -> bool {
        let held = self
            .node
            .leases
            .held(lane)
            .filter(|_| !self.doubted.contains(&lane));
        let (Some(held), Some(seat)) = (held, self.node.directory.seat_by_id(lane)) else {
            return false;
        };
        if self
            .tracks
            .get(&lane)
            .is_none_or(|track| track.held != held)
        {
            self.forget(lane);
            self.drop_errands(lane, Some(held));
            let window = self.node.settings.window;
            self.tracks
                .insert(lane, Track::new(seat, held, window, false));
        }
        self.unread.remove(&lane);
        for _ in 0..PAGES_MAX {
            let Some(from) = self.tracks.get(&lane).and_then(Track::to_read) else {
                // After what is unfinished: one that ends between the two is seen twice, and not missed.
                return self.knows_ended(seat).await;
            };
            if let Err(error) = self.read_page(lane, held, from).await {
                tracing::warn!(error = %Causes(&error), lane = lane.0, "reading a lane's transactions failed");
                self.forget(lane);
                return false;
            }
        }
        true
    }

    async fn knows_ended(&mut self, seat: Seat) -> bool {
        if let Err(error) = self.read_ended(seat).await {
            tracing::warn!(error = %Causes(&error), lane = seat.id.0, "reading a lane's newest endings failed");
            self.forget(seat.id);
            return false;
        }
        true
    }

    /// The newest that have ended go onto the board: a reorg below a final block is never silent, not
    /// even right after a change of leaders.
    async fn read_ended(&mut self, seat: Seat) -> Result<(), StoreError> {
        let track = self.tracks.get_mut(&seat.id);
        let Some(track) = track.filter(|track| !track.knows_ended) else {
            return Ok(());
        };
        track.knows_ended = true;
        // Without a state, for which a store may have to look through the whole lane.
        let first = track.iter().map(|(_, entry)| entry.tx).min();
        let mut page = Vec::new();
        for before in [None].into_iter().chain(first.map(Some)) {
            let newest = PageQuery {
                lane: Some(seat.lane),
                before,
                limit: ENDED_MAX,
                ..PageQuery::default()
            };
            page.extend(self.node.store.page(&newest).await?);
        }
        let Some(board) = self.node.board(seat.lane.chain) else {
            return Ok(());
        };
        for record in page.into_iter().filter(|record| record.state.is_final()) {
            let at = record.state.inclusion();
            if let (Some(nonce), Some(at)) = (record.state.nonce(), at) {
                let (lane, tx) = (seat.id, record.tx);
                board.put(Hit {
                    block: at.block,
                    whose: Whose { lane, nonce, tx },
                    told: true,
                });
            }
        }
        Ok(())
    }

    async fn read_page(&mut self, lane: LaneId, held: Held, from: Nonce) -> Result<(), StoreError> {
        let after = from.get().checked_sub(1).and_then(|n| Nonce::new(n).ok());
        let store = std::sync::Arc::clone(&self.node.store);
        let page = store.unfinished(lane, after, READ_LIMIT_MAX).await?;
        let full = page.len() == READ_LIMIT_MAX;
        let last = page.last().and_then(|record| record.state.nonce());
        let signed: Vec<TxId> = page
            .iter()
            .filter(|record| record.attempts > 0)
            .map(|record| record.tx)
            .collect();
        let mut attempts: HashMap<TxId, Vec<StoredAttempt>> = HashMap::new();
        if !signed.is_empty() {
            for attempt in store.attempts(&signed).await? {
                attempts.entry(attempt.tx).or_default().push(attempt);
            }
        }
        for record in page {
            let stored = attempts.remove(&record.tx).unwrap_or_default();
            self.remember(held, record, stored);
        }
        if let Some(track) = self.tracks.get_mut(&lane) {
            track.read(last.filter(|_| full));
        }
        Ok(())
    }

    /// Takes one transaction into mind. What it is waiting for goes onto the chain's board.
    pub(crate) fn remember(&mut self, held: Held, record: Record, stored: Vec<StoredAttempt>) {
        let Some(nonce) = record.state.nonce() else {
            return;
        };
        let since = self.waits_since(&record, &stored);
        let again = self.is_to_resubmit(record.tx);
        let Some(track) = self.tracks.get_mut(&held.lane) else {
            return;
        };
        // The store has given its nonce to another since: what is in mind there has ended, and we were not told.
        let known = track.get(nonce);
        if known.is_some_and(|known| known.tx == record.tx || record.state.is_final()) {
            return;
        }
        let whose = Whose {
            lane: held.lane,
            nonce,
            tx: record.tx,
        };
        let mut entry = Entry::new(record, since);
        for attempt in stored {
            entry.stored(attempt);
        }
        // How often the newest of several was sent nobody has counted.
        if entry.attempts.len() > 1 {
            entry.tries = 0;
        }
        if let Some(board) = self.node.board(track.seat.lane.chain) {
            for known in &entry.attempts {
                board.watch(known.hash, whose);
            }
            if let Some(at) = entry.inclusion() {
                board.put(Hit {
                    block: at.block,
                    whose,
                    told: false,
                });
            }
        }
        if entry.need() == Need::Nothing {
            entry.raw = None;
        }
        entry.refused = is_refused(&entry.state);
        // Stored and perhaps never sent, or out of its block: the same bytes go out, in their order.
        entry.to_send = is_unsent(&entry.state) || again;
        track.insert(nonce, entry);
    }

    /// Since when at the most a transaction has waited for a block with its newest bytes.
    fn waits_since(&self, record: &Record, stored: &[StoredAttempt]) -> Duration {
        let sent = record.first_submit_at.unwrap_or(record.created_at);
        let signed = stored.last().map_or(sent, |newest| newest.at);
        self.ticks_at(sent.max(signed))
    }

    /// A time of day as it was, or will be, on the clock that only passes.
    pub(crate) fn ticks_at(&self, at: Timestamp) -> Duration {
        let (now, ticks) = (self.node.clock.now(), self.node.ticks.ticks());
        let apart = now.duration_since(at).unsigned_abs();
        if at <= now {
            ticks.saturating_sub(apart)
        } else {
            ticks.saturating_add(apart)
        }
    }

    /// Bytes that were put out of mind and are to be sent after all.
    pub(crate) async fn fetch_bytes(&mut self, lane: LaneId) {
        let Some(track) = self.tracks.get(&lane) else {
            return;
        };
        let held = track.held;
        let lacking: Vec<TxId> = track
            .window()
            .filter(|(_, entry)| entry.need() == Need::Block && entry.raw.is_none())
            .map(|(_, entry)| entry.tx)
            .take(READ_LIMIT_MAX)
            .collect();
        if lacking.is_empty() {
            return;
        }
        match self.node.store.attempts(&lacking).await {
            Ok(attempts) => {
                let mut newest: HashMap<TxId, StoredAttempt> = HashMap::new();
                for attempt in attempts {
                    newest.insert(attempt.tx, attempt);
                }
                let Some(track) = self.tracks.get_mut(&held.lane) else {
                    return;
                };
                for (_, entry) in track.iter_mut() {
                    if let Some(attempt) = newest.remove(&entry.tx) {
                        entry.raw = Some(attempt.attempt.raw);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lane = lane.0, "reading a lane's bytes failed");
                self.forget(lane);
            }
        }
    }
}

const fn is_refused(state: &State) -> bool {
    matches!(
        state,
        State::Allocated(Allocated {
            bytes: Signing::Refused(_),
            ..
        }) | State::Stuck(Stuck {
            hash: Some(_),
            why: Why::Refused | Why::NoFunds,
            ..
        })
    )
}

const fn is_unsent(state: &State) -> bool {
    matches!(
        state,
        State::Allocated(Allocated {
            bytes: Signing::Signed(_),
            ..
        }) | State::Tracking(Tracking {
            seen: Seen::Reorged,
            ..
        })
    )
}
