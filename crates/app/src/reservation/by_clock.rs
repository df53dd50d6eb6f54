//! Reservations of a node without a chain. Nobody can be asked whether a nonce was used, so the store's clock alone
//! ends them: one that expired is given back or held, and one whose holder has named a hash is used after
//! `reservation.used_after`. The node only gives nonces; it signs, sends and follows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::state::State;
use fencepost_domain::transition::Input;
use jiff::Timestamp;

use super::HELD_FOR;
use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::moves::Then;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::ports::{Held, Record, StoreError};
use crate::settings::OnExpiry;
use crate::writes::lane_error;

/// How soon the store shows something that was due and did not end. Shorter writes for nothing the rows of those that are
/// held, and of transactions that wait for a chain; longer delays what a failed write left undone.
const CLAIM_AGAIN: Duration = Duration::from_secs(30);

impl Worker {
    /// A turn's second half on a node without a chain.
    pub(crate) async fn lend_by_clock(&mut self, ticked: bool, mut touched: BTreeSet<LaneId>) {
        if ticked {
            self.sweep();
            let lends =
                |(lane, track): (&LaneId, &Track)| track.may_have_loans(true).then_some(*lane);
            let open: Vec<LaneId> = self.tracks.iter().filter_map(lends).collect();
            self.end_by_clock(&open).await;
            touched.extend(open);
            touched.extend(&self.unread);
            for lane in &self.doubted {
                self.node.nudge(*lane);
            }
        }
        for lane in touched {
            self.asked_for.remove(&lane);
            if !self.has_in_mind(lane).await {
                continue;
            }
            self.read_settled_loans(lane).await;
            self.read_loans_again(lane).await;
        }
        self.write().await;
        self.complete();
    }

    /// Ends what is over in these lanes. Where a living node is configured with the chain, the chain decides, also while
    /// no endpoint answers: then nothing is ended by the clock.
    async fn end_by_clock(&mut self, lanes: &[LaneId]) {
        let now = self.node.ticks.ticks();
        let living = self.node.living();
        // Before the first heartbeat we do not know who else lives.
        if living.is_empty() {
            return;
        }
        let held: Vec<Held> = lanes
            .iter()
            .filter_map(|lane| self.tracks.get(lane))
            .filter(|track| track.may_have_late_loan(now, true))
            .filter(|track| {
                let chain = track.seat.lane.chain;
                !living.iter().any(|peer| peer.has(chain))
            })
            .map(|track| track.held)
            .filter(|held| self.node.leases.held(held.lane) == Some(*held))
            .collect();
        let Some(due) = self.claim_due(held, CLAIM_AGAIN).await else {
            return;
        };
        self.recall_loans(&due).await;
        let mut moved: BTreeMap<LaneId, BTreeMap<TxId, Nonce>> = BTreeMap::new();
        let mut submitted = Vec::new();
        for record in due {
            let track = self.tracks.get_mut(&record.lane_id);
            let Some(nonce) = record.state.nonce() else {
                continue;
            };
            let entry = track.and_then(|track| track.get_mut(nonce));
            let Some(entry) = entry.filter(|entry| entry.tx == record.tx) else {
                continue;
            };
            if entry.state != record.state {
                // Its holder has spoken to another node.
                let rows = moved.entry(record.lane_id).or_default();
                rows.insert(record.tx, nonce);
                continue;
            }
            // A claim moves the row, and nothing else of it.
            entry.version = record.version;
            if entry.busy != Busy::No || entry.end_at > now || entry.due_at > now {
                continue;
            }
            match &record.state {
                State::Reserved(_) => {
                    self.expire_by_clock(record.lane_id, nonce, record.tx).await;
                }
                State::Submitted(_) => submitted.push(record),
                State::Queued(_)
                | State::Allocated(_)
                | State::Tracking(_)
                | State::Confirmed(_)
                | State::Failed(_)
                | State::Stuck(_)
                | State::Used(_)
                | State::Recyclable(_) => {}
            }
        }
        if let Err(error) = self.use_by_clock(submitted).await {
            tracing::warn!(error = %Causes(&error), "reading when hashes were named failed");
        }
        for (lane, rows) in moved {
            self.read_rows(lane, &rows).await;
        }
    }

    /// Its time and the grace after it are over by the store's clock.
    async fn expire_by_clock(&mut self, lane: LaneId, nonce: Nonce, tx: TxId) {
        let now = self.node.ticks.ticks();
        match self.node.settings.lending.on_expiry {
            OnExpiry::Recycle => {
                let why = "its time was over, and there is no chain to ask whether it was used";
                self.give_back(lane, nonce, tx, why).await;
            }
            OnExpiry::Hold => {
                let Some(track) = self.tracks.get_mut(&lane) else {
                    return;
                };
                let held = track.held;
                if let Some(entry) = track.get_mut(nonce) {
                    entry.due_at = now + HELD_FOR;
                }
                self.node.meters.ended_by_clock("held");
                lane_error!(self.node, held, tx_id = %tx, %nonce, "reservation expired and is held for its holder (reservation.on_expiry = \"hold\"): later nonces wait for it");
            }
        }
    }

    /// Those whose hash was named long enough ago are used. Both times are the store's.
    async fn use_by_clock(&mut self, submitted: Vec<Record>) -> Result<(), StoreError> {
        if submitted.is_empty() {
            return Ok(());
        }
        let ids: Vec<TxId> = submitted.iter().map(|record| record.tx).collect();
        let attempts = self.node.store.attempts(&ids).await?;
        let named: BTreeMap<TxId, Timestamp> =
            attempts.iter().map(|each| (each.tx, each.at)).collect();
        let used_after = self.node.settings.lending.used_after;
        for record in submitted {
            let (Some(nonce), Some(at)) = (record.state.nonce(), named.get(&record.tx)) else {
                continue;
            };
            let left = used_after.saturating_sub(since(*at, record.updated_at));
            if left > Duration::ZERO {
                continue;
            }
            // It was seen in a block by a node that had a chain: that block is all that is known.
            let input = match record.state.inclusion() {
                Some(_) => Input::Final,
                None => Input::TakenFinal(None),
            };
            let planned = self
                .plan(record.lane_id, nonce, input, Then::Nothing, |step| step)
                .await;
            if let Err(refusal) = planned {
                tracing::warn!(tx_id = %record.tx, %nonce, %refusal, "reservation is not ended by reservation.used_after");
            }
        }
        Ok(())
    }
}

/// How long after one time of the store's clock another one was; a clock that went back has not moved.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}
