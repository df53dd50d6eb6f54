//! A block under a transaction was replaced: the receipt is void and the bytes go out again. If it had
//! been final, that is told, loudly, and it ends anew with a correction.

use std::time::Duration;

use fencepost_domain::ids::LaneId;
use fencepost_domain::mutant::Mutant;
use fencepost_domain::state::{Block, Failed, State, Used};
use fencepost_domain::transition::Input;

use crate::causes::Causes;
use crate::lane::moves::Then;
use crate::lane::worker::Worker;
use crate::lifecycle::follow::Sight;
use crate::lifecycle::follow::board::{Hit, Whose};
use crate::ports::{Move, Record, StoreError};
use crate::writes::lane_error;

impl Worker {
    /// The block that a transaction was in is gone.
    pub(crate) async fn reorged(&mut self, lane: LaneId, whose: Whose, block: Block) {
        let Some(track) = self.tracks.get(&lane) else {
            return;
        };
        if Mutant::ReorgIgnored.is_on() {
            return;
        }
        let entry = track.get(whose.nonce).filter(|entry| entry.tx == whose.tx);
        match entry {
            Some(entry) => {
                if entry.taken_in(block).is_some() {
                    self.given_back(whose).await;
                    return;
                }
                if entry.inclusion().is_none_or(|at| at.block != block) {
                    return;
                }
                tracing::warn!(tx_id = %whose.tx, block = %block.number, "its block was replaced; it is sent again");
                let due = |step: Move| step.due_in(Duration::ZERO);
                // Refused only when it is in no block already.
                let _ = self
                    .plan(lane, whose.nonce, Input::Reorged, Then::Reorged, due)
                    .await;
            }
            None => {
                if let Err(error) = self.unfinal(lane, whose, block).await {
                    let held = self.node.last_held(lane);
                    lane_error!(self.node, held, tx_id = %whose.tx, nonce = %whose.nonce, error = %Causes(&error), "a final transaction whose block was replaced could not be read");
                    self.postpone(whose, Sight::Reorged(block));
                }
            }
        }
    }

    /// It was seen in a block after it had ended. If it had ended in another one, that block is gone, or whoever said
    /// so is behind: only one that was followed proves it.
    pub(crate) async fn mined_elsewhere(&mut self, whose: Whose, block: Block, seen: bool) {
        let found = match self.node.store.find_many(&[whose.tx]).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), tx_id = %whose.tx, "a transaction that was seen again could not be read");
                return;
            }
        };
        let ended = found.first().filter(|record| record.state.is_final());
        let at = ended.and_then(|record| record.state.inclusion());
        let Some(at) = at.filter(|at| at.block != block) else {
            return;
        };
        if seen {
            self.postpone(whose, Sight::Reorged(at.block));
            return;
        }
        let seat = self.node.directory.seat_by_id(whose.lane);
        if let Some(board) = seat.and_then(|seat| self.node.board(seat.lane.chain)) {
            // The follower looks which of them stands.
            board.see(Hit {
                block: at.block,
                whose,
                told: true,
            });
        }
    }

    /// It had ended. It comes back as stuck, with all its bytes, and is followed again.
    async fn unfinal(
        &mut self,
        lane: LaneId,
        whose: Whose,
        block: Block,
    ) -> Result<(), StoreError> {
        let Some(held) = self.tracks.get(&lane).map(|track| track.held) else {
            return Ok(());
        };
        let store = std::sync::Arc::clone(&self.node.store);
        let found = store.find_many(&[whose.tx]).await?;
        let ended_there = |record: &Record| {
            let at = record.state.inclusion();
            // What another transaction had ended was on the board with that one's block.
            let by_another = matches!(
                &record.state,
                State::Failed(Failed::NonceTaken { .. }) | State::Used(Used { at: None, .. })
            );
            record.state.is_final() && (by_another || at.is_some_and(|at| at.block == block))
        };
        let Some(record) = found.into_iter().next().filter(ended_there) else {
            return Ok(());
        };
        if record.retired.is_some() {
            let (tx, nonce, block) = (whose.tx, whose.nonce, block.number);
            lane_error!(self.node, held, tx_id = %tx, %nonce, %block, "a final block was replaced, and its transaction was retired: it cannot be sent again");
            return Ok(());
        }
        let attempts = store.attempts(&[whose.tx]).await?;
        self.remember(held, record, attempts);
        let track = self.tracks.get_mut(&lane);
        if let Some(entry) = track.and_then(|track| track.get_mut(whose.nonce)) {
            entry.final_in = Some(block);
        }
        self.unend(whose, block).await;
        Ok(())
    }

    /// Tells that an ending has been undone.
    pub(crate) async fn unend(&mut self, whose: Whose, block: Block) {
        let held = self.node.last_held(whose.lane);
        lane_error!(self.node, held, tx_id = %whose.tx, nonce = %whose.nonce, block = %block.number, "a block that was final has been replaced: its transaction is sent again and will be told anew");
        let due = |step: Move| step.due_in(Duration::ZERO);
        let told = self
            .plan(whose.lane, whose.nonce, Input::Reorged, Then::Reorged, due)
            .await;
        if let Err(refusal) = told {
            lane_error!(self.node, held, tx_id = %whose.tx, nonce = %whose.nonce, %refusal, "it cannot be brought back");
            self.forget(whose.lane);
        }
    }
}
