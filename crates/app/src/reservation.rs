//! Nonces that are lent out. Their holders speak to any node, so the leader reads them again when it is
//! told to and now and then; what they name is followed like our own. A nonce whose time is over is given
//! back only when every endpoint says that it is unused.

pub(crate) mod vouch;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::ids::{LaneId, Nonce, TxId, Version};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::State;
use fencepost_domain::transition::Input;

use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::worker::Worker;
use crate::ports::{
    Chain, ChainUnavailable, CountMode, Held, READ_LIMIT_MAX, Record, StoreError, StoredAttempt,
};
use crate::settings::OnExpiry;

/// How often lent nonces are read without anyone having said that they moved.
const READ_EVERY: Duration = Duration::from_secs(2);
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
    /// Reads the lane's lent nonces, if that was not done lately.
    pub(crate) async fn read_loans_again(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let is_open = self.tracks.get(&lane).is_some_and(|track| {
            let waits = |entry: &State| matches!(entry, State::Reserved(_));
            now.saturating_sub(track.lent_read_at) >= READ_EVERY
                && track.lent().any(|(_, entry)| waits(&entry.state))
        });
        if is_open {
            self.read_loans(lane).await;
        }
    }

    /// What the holders of the lane's nonces have said meanwhile.
    pub(crate) async fn read_loans(&mut self, lane: LaneId) {
        // What is decided and not written would be decided on what was read before.
        self.write().await;
        let now = self.node.ticks.ticks();
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        track.lent_read_at = now;
        let held = track.held;
        let idle = track.lent().filter(|(_, entry)| entry.busy == Busy::No);
        let known: BTreeMap<TxId, Nonce> = idle.map(|(nonce, entry)| (entry.tx, nonce)).collect();
        let ids: Vec<TxId> = known.keys().copied().collect();
        for ids in ids.chunks(READ_LIMIT_MAX) {
            if let Err(error) = self.read_some(held, ids, &known).await {
                tracing::warn!(error = %Causes(&error), lane = lane.0, "reading a lane's lent nonces failed");
                self.forget(lane);
                return;
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
            let again = self.node.settings.resubmit_interval.unwrap_or(HELD_FOR);
            let again = again.min(HELD_FOR);
            let next = now + if hold { HELD_FOR } else { again };
            for Due { nonce, tx, .. } in &due {
                if let Some(entry) = track.get_mut(*nonce) {
                    entry.due_at = next;
                }
                if hold {
                    let signer = track.seat.lane.signer;
                    tracing::error!(%signer, tx_id = %tx, %nonce, "a lent nonce was not used in its time and is held for its holder: later ones wait for it");
                }
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
                self.give_back(lane, nonce, tx).await;
            } else if counts.latest > nonce {
                // It is used: by what, and whether for good, is looked at.
                track.suspect = true;
            } else if counts.pending <= nonce {
                self.give_back(lane, nonce, tx).await;
            }
        }
    }

    async fn give_back(&mut self, lane: LaneId, nonce: Nonce, tx: TxId) {
        let planned = self
            .plan(lane, nonce, Input::Recycle, Then::Nothing, |step| {
                step.error("its time was over and no endpoint knew of its use")
            })
            .await;
        match planned {
            Ok(()) => {
                tracing::info!(tx_id = %tx, %nonce, "a lent nonce was not used in its time and is given back");
            }
            Err(refusal) => {
                tracing::debug!(tx_id = %tx, %refusal, "a lent nonce is not given back");
            }
        }
    }
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
