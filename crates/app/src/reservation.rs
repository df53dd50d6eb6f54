//! Nonces that are lent out. Their holders speak to any node, so the leader reads them again when it is
//! told to and now and then; what they name is followed like our own. A nonce whose time is over is given
//! back only when every endpoint says that it is unused.

pub(crate) mod vouch;
mod by_clock;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Nonce, TxId, Version};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::State;
use fencepost_domain::transition::Input;

use crate::causes::Causes;
use crate::lane::entry::{Busy, Entry};
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::worker::Worker;
use crate::ports::{
    Chain, ChainUnavailable, CountMode, Held, READ_LIMIT_MAX, Record, StoreError, StoredAttempt,
};
use crate::settings::OnExpiry;
use crate::writes::lane_error;

/// How often lent nonces are read without anyone having said that they moved.
const READ_EVERY: Duration = Duration::from_secs(2);
/// How often at most they are read because holders have spoken. Shorter reads all open ones for each call of a busy lane.
const READ_SETTLED_EVERY: Duration = Duration::from_millis(150);
/// Why a nonce is given back where the chain was asked.
const UNUSED: &str = "its time was over and no endpoint knew of its use";
/// How long a nonce that is held for its holder is left alone.
const HELD_FOR: Duration = Duration::from_hours(1);

/// A lent nonce whose time was over, by the store's clock, at this version of its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    nonce: Nonce,
    tx: TxId,
    version: Version,
}

/// How far the signer's account is, by every endpoint that can be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    latest: Nonce,
    pending: Nonce,
}

impl Worker {
    /// Reads the lane's open reservations, if that was not done lately.
    pub(crate) async fn read_loans_again(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let is_open = self.tracks.get(&lane).is_some_and(|track| {
            now.saturating_sub(track.lent_read_at) >= READ_EVERY
                && track.lent().any(|(_, entry)| is_reserved(entry))
        });
        if is_open {
            self.read_loans(lane).await;
        }
    }

    /// A holder has spoken. Of many that speak at once the lane's reservations are read together.
    pub(crate) async fn read_settled_loans(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let track = self.tracks.get(&lane);
        let lately = track.is_some_and(|track| {
            track.lent_read_at > Duration::ZERO
                && now.saturating_sub(track.lent_read_at) < READ_SETTLED_EVERY
        });
        // It stays among the settled ones, and is read in a later turn.
        if !lately && self.settled.remove(&lane) {
            self.read_loans(lane).await;
        }
    }

    /// What the holders of the lane's open reservations have said meanwhile. A submitted one is moved by us alone.
    async fn read_loans(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        track.lent_read_at = now;
        let open = track.lent().filter(|(_, entry)| is_reserved(entry));
        let rows: BTreeMap<TxId, Nonce> = open.map(|(nonce, entry)| (entry.tx, nonce)).collect();
        self.read_rows(lane, &rows).await;
    }

    /// Reads these of a lane again, where nothing is under way with them.
    pub(crate) async fn read_rows(&mut self, lane: LaneId, rows: &BTreeMap<TxId, Nonce>) {
        // What is decided and not written would be decided on what was read before.
        self.write().await;
        let Some(track) = self.tracks.get(&lane) else {
            return;
        };
        let held = track.held;
        let is_idle = |tx: TxId, nonce: Nonce| {
            let entry = track.get(nonce).filter(|entry| entry.tx == tx);
            entry.is_some_and(|entry| entry.busy == Busy::No)
        };
        let idle = rows.iter().filter(|(tx, nonce)| is_idle(**tx, **nonce));
        let ids: Vec<TxId> = idle.map(|(tx, _)| *tx).collect();
        for ids in ids.chunks(READ_LIMIT_MAX) {
            if let Err(error) = self.read_some(held, ids, rows).await {
                tracing::warn!(error = %Causes(&error), lane = lane.0, "reading a lane's reservations failed");
                self.forget(lane);
                return;
            }
        }
    }

    /// Takes reservations into mind that the store calls due and that are beyond what was read of their lanes.
    pub(crate) async fn recall_loans(&mut self, due: &[Record]) {
        let is_unknown = |record: &&Record| {
            let lent = matches!(record.state, State::Reserved(_) | State::Submitted(_));
            let track = self.tracks.get(&record.lane_id);
            let known = track
                .zip(record.state.nonce())
                .and_then(|(track, nonce)| track.get(nonce));
            lent && track.is_some() && known.is_none_or(|known| known.tx != record.tx)
        };
        let unknown: Vec<Record> = due.iter().filter(is_unknown).cloned().collect();
        let named = unknown.iter().filter(|record| record.attempts > 0);
        let named: Vec<TxId> = named.map(|record| record.tx).collect();
        let mut attempts: HashMap<TxId, Vec<StoredAttempt>> = HashMap::new();
        if !named.is_empty() {
            match self.node.store.attempts(&named).await {
                Ok(found) => {
                    for attempt in found {
                        attempts.entry(attempt.tx).or_default().push(attempt);
                    }
                }
                Err(error) => {
                    // The store shows them again.
                    tracing::warn!(error = %Causes(&error), "reading the hashes of due reservations failed");
                    return;
                }
            }
        }
        for record in unknown {
            let stored = attempts.remove(&record.tx).unwrap_or_default();
            if let Some(held) = self.tracks.get(&record.lane_id).map(|track| track.held) {
                self.remember(held, record, stored);
            }
        }
    }

    async fn read_some(
        &mut self,
        held: Held,
        ids: &[TxId],
        known: &BTreeMap<TxId, Nonce>,
    ) -> Result<(), StoreError> {
        let store = Arc::clone(&self.node.store);
        let mut moved: Vec<Record> = store.find_many(ids).await?;
        moved.retain(|record| {
            let entry = self.tracks.get(&held.lane);
            let entry = entry.and_then(|track| track.get(*known.get(&record.tx)?));
            entry.is_some_and(|entry| entry.version != record.version)
        });
        let named: Vec<TxId> = moved
            .iter()
            .filter(|record| record.attempts > 0)
            .map(|record| record.tx)
            .collect();
        let mut attempts: HashMap<TxId, Vec<StoredAttempt>> = HashMap::new();
        if !named.is_empty() {
            for attempt in store.attempts(&named).await? {
                attempts.entry(attempt.tx).or_default().push(attempt);
            }
        }
        for record in moved {
            let (tx, nonce) = (record.tx, known[&record.tx]);
            let gone = self.tracks.get_mut(&held.lane);
            let gone = gone.and_then(|track| track.remove(nonce));
            if record.state.is_final() {
                // Its holder has given it back: the nonce is free.
                self.memory.remove(&held.lane);
                self.node.nudge(held.lane);
                continue;
            }
            self.remember(held, record, attempts.remove(&tx).unwrap_or_default());
            let track = self.tracks.get_mut(&held.lane);
            let entry = track.and_then(|track| track.get_mut(nonce));
            if let (Some(entry), Some(gone)) = (entry, gone) {
                entry.learned(&gone);
            }
        }
        Ok(())
    }

    /// The time of these is over, by the store's clock. The chain is asked whether they were used.
    pub(crate) fn expire_loans(&mut self, late: Vec<(LaneId, Nonce, TxId, Version)>) {
        let now = self.node.ticks.ticks();
        let mut lanes: BTreeMap<LaneId, Vec<Due>> = BTreeMap::new();
        for (lane, nonce, tx, version) in late {
            let due = Due { nonce, tx, version };
            lanes.entry(lane).or_default().push(due);
        }
        let hold = self.node.settings.lending.on_expiry == OnExpiry::Hold;
        for (lane, due) in lanes {
            let Some(track) = self.tracks.get_mut(&lane) else {
                continue;
            };
            for Due { nonce, tx, .. } in due.iter().filter(|_| hold) {
                if let Some(entry) = track.get_mut(*nonce) {
                    entry.due_at = now + HELD_FOR;
                }
                lane_error!(self.node, track.held, tx_id = %tx, %nonce, "a lent nonce was not used in its time and is held for its holder: later ones wait for it");
            }
            let Some(chain) = self.node.chain.clone().filter(|_| !hold) else {
                continue;
            };
            if track.tasks.care.expiring {
                continue;
            }
            track.tasks.care.expiring = true;
            let (held, seat) = (track.held, track.seat);
            let node = Arc::clone(&self.node);
            self.node.hand(async move {
                let counts = count(&*chain, seat.lane).await;
                node.report(Report::Expired { held, due, counts }).await;
            });
        }
    }

    /// The chain has said how far the account is.
    pub(crate) async fn expired(
        &mut self,
        held: Held,
        due: Vec<Due>,
        counts: Result<Counted, ChainUnavailable>,
    ) {
        let lane = held.lane;
        let Some(track) = self
            .tracks
            .get_mut(&lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        track.tasks.care.expiring = false;
        let counts = match counts {
            Ok(counts) => counts,
            Err(error) => {
                tracing::debug!(error = %Causes(&error), lane = lane.0, "nobody can say whether lent nonces were used");
                return;
            }
        };
        for Due { nonce, tx, version } in due {
            let track = self.tracks.get_mut(&lane);
            let Some(track) = track else {
                return;
            };
            let entry = track.get(nonce);
            let is_lent = entry.is_some_and(|entry| {
                // Its holder may have been given more time while the chain was asked.
                entry.tx == tx
                    && entry.version == version
                    && entry.busy == Busy::No
                    && matches!(entry.state, State::Reserved(_))
            });
            if !is_lent {
                continue;
            }
            if Mutant::ExpiryUnasked.is_on() {
                self.give_back(lane, nonce, tx, UNUSED).await;
            } else if counts.latest > nonce {
                // It is used: by what, and whether for good, is looked at.
                track.suspect = true;
            } else if counts.pending <= nonce {
                self.give_back(lane, nonce, tx, UNUSED).await;
            }
        }
    }

    async fn give_back(&mut self, lane: LaneId, nonce: Nonce, tx: TxId, why: &str) {
        let planned = self
            .plan(lane, nonce, Input::Recycle, Then::Nothing, |step| {
                step.error(why)
            })
            .await;
        match planned {
            Ok(()) => {
                tracing::warn!(tx_id = %tx, %nonce, why, "reservation expired: its nonce is given back");
            }
            Err(refusal) => {
                tracing::debug!(tx_id = %tx, %refusal, "a lent nonce is not given back");
            }
        }
    }
}

fn is_reserved(entry: &Entry) -> bool {
    matches!(entry.state, State::Reserved(_))
}

async fn count(
    chain: &dyn Chain,
    lane: fencepost_domain::ids::Lane,
) -> Result<Counted, ChainUnavailable> {
    Ok(Counted {
        latest: chain.count(lane, CountMode::Latest).await?.highest,
        pending: chain.count(lane, CountMode::Pending).await?.highest,
    })
}
