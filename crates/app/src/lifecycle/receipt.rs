//! Receipts: what the follower saw in a block, and what is asked for directly when it was not seen
//! for long. A missing receipt proves nothing.

use std::sync::Arc;

use fencepost_domain::ids::{LaneId, Nonce};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::Inclusion;
use fencepost_domain::transition::{Input, Refusal};
use fencepost_domain::{B256, attempt};

use super::follow::board::{Hit, Whose};
use crate::causes::Causes;
use crate::lane::entry::Vouch;
use crate::lane::moves::Then;
use crate::lane::report::Report;
use crate::lane::worker::Worker;
use crate::ports::{ChainUnavailable, Held, Receipt};
use crate::reservation::vouch::Named;

/// How many transactions of a lane are asked for in one go.
const BATCH: usize = 64;

impl Worker {
    /// An attempt is in a block. `seen` is false when it was asked for and the follower does not know.
    pub(crate) async fn mined(&mut self, lane: LaneId, whose: Whose, receipt: Receipt, seen: bool) {
        let Some(track) = self.tracks.get(&lane) else {
            return;
        };
        let chain = track.seat.lane.chain;
        let entry = track.get(whose.nonce);
        let Some(entry) = entry.filter(|entry| entry.tx == whose.tx) else {
            self.mined_elsewhere(whose, receipt.block, seen).await;
            return;
        };
        let Some(known) = entry.attempt(receipt.hash) else {
            return;
        };
        if known.kind == attempt::Kind::External && entry.vouch != Vouch::Given {
            return self.vouch(Named { whose, receipt });
        }
        let at = Inclusion {
            block: receipt.block,
            hash: receipt.hash,
            by: if Mutant::AnyAttemptIsOriginal.is_on() && known.kind != attempt::Kind::External {
                attempt::Kind::Original
            } else {
                known.kind
            },
            execution: receipt.execution,
        };
        if let Some(board) = self.node.board(chain) {
            let hit = Hit {
                block: at.block,
                whose,
                told: false,
            };
            if seen {
                // The lane may have been read anew since it was seen; then the board has the block that the
                // row still named, which is gone.
                board.see(hit);
            } else {
                board.put(hit);
            }
        }
        let due_in = self.node.settings.resubmit_interval.unwrap_or_default();
        let planned = self
            .plan(lane, whose.nonce, Input::Mined(at), Then::Mined, |step| {
                let step = step.receipt(receipt.json).due_in(due_in);
                match receipt.reason {
                    Some(reason) => step.error(reason),
                    None => step,
                }
            })
            .await;
        match planned {
            Ok(()) | Err(Refusal::Unchanged) => {}
            Err(refusal) => {
                tracing::warn!(tx_id = %whose.tx, %refusal, "a receipt does not fit what is stored");
            }
        }
    }

    /// Asks for the receipts of those that were not seen for long.
    pub(crate) fn ask(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let before = now.checked_sub(self.node.settings.stale_receipt_timeout);
        let Some(chain) = self.node.chain.clone() else {
            return;
        };
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.tasks.asking {
            return;
        }
        let mut nonces = track.stale(before);
        nonces.truncate(BATCH);
        let mut hashes: Vec<B256> = Vec::new();
        for nonce in &nonces {
            if let Some(entry) = track.get_mut(*nonce) {
                entry.asked_at = Some(now);
                hashes.extend(entry.attempts.iter().map(|known| known.hash));
            }
        }
        if hashes.is_empty() {
            return;
        }
        track.tasks.asking = true;
        let (held, id) = (track.held, track.seat.lane.chain);
        let node = Arc::clone(&self.node);
        self.node.hand(async move {
            let slot = match node.receipt_slots.get(&id) {
                Some(slots) => slots.acquire().await.ok(),
                None => None,
            };
            let receipts = chain.receipts(id, &hashes).await;
            drop(slot);
            let receipts = receipts.map(|found| found.into_iter().flatten().collect());
            let report = Report::Asked {
                held,
                nonces,
                receipts,
            };
            node.report(report).await;
        });
    }

    /// What was asked for.
    pub(crate) async fn asked(
        &mut self,
        held: Held,
        nonces: Vec<Nonce>,
        receipts: Result<Vec<Receipt>, ChainUnavailable>,
    ) {
        let lane = held.lane;
        let Some(track) = self
            .tracks
            .get_mut(&lane)
            .filter(|track| track.held == held)
        else {
            return;
        };
        track.tasks.asking = false;
        let receipts = match receipts {
            Ok(receipts) => receipts,
            Err(error) => {
                self.node.meters.receipts_failed(nonces.len());
                tracing::debug!(error = %Causes(&error), lane = lane.0, "asking for receipts failed");
                return;
            }
        };
        self.node
            .meters
            .receipts(receipts.len(), nonces.len().saturating_sub(receipts.len()));
        for receipt in receipts {
            let found = self.tracks.get(&lane).and_then(|track| {
                nonces.iter().find_map(|nonce| {
                    let entry = track.get(*nonce)?;
                    entry.attempt(receipt.hash)?;
                    Some((*nonce, entry.tx))
                })
            });
            if let Some((nonce, tx)) = found {
                let whose = Whose { lane, nonce, tx };
                self.mined(lane, whose, receipt, false).await;
            }
        }
    }
}
