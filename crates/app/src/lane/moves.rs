//! Writing what was decided: the moves of a turn go in one statement for all lanes. Whenever one does
//! not go as it should, what we have in mind of the lane is dropped and read again.

use std::collections::{BTreeMap, HashSet};

use fencepost_domain::Bytes;
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::mutant::Mutant;
use fencepost_domain::transition::{Input, Refusal};

use super::entry::{Busy, Known};
use super::lease::Sent;
use super::worker::Worker;
use crate::causes::Causes;
use crate::lifecycle::finality::Ending;
use crate::lifecycle::follow::board::Whose;
use crate::ports::{Closing, Held, LaneMoved, LaneMoves, Move, StoreError};
use crate::writes::lane_error;

/// What is true of an entry once its move is written.
#[derive(Debug)]
pub(crate) enum Then {
    /// These bytes are stored and may be sent.
    Signed(Known, Bytes),
    /// Nothing more than the move says.
    Nothing,
    /// It is in a block.
    Mined,
    /// It is in no block any more, and is sent again.
    Reorged,
}

/// A move and what follows from it.
#[derive(Debug)]
pub(crate) struct Planned {
    nonce: Nonce,
    step: Move,
    then: Then,
}

/// Moves of a turn that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    lanes: BTreeMap<LaneId, (Held, Vec<Planned>)>,
    txs: HashSet<TxId>,
}

impl Plans {
    /// Whether a move of this transaction is among them.
    pub(crate) fn holds(&self, tx: TxId) -> bool {
        self.txs.contains(&tx)
    }
}

impl Worker {
    /// Decides a move of a lane's transaction and puts it among those that are to be written; what the
    /// feed tells goes to the completer. `with` adds what belongs to it.
    pub(crate) async fn plan(
        &mut self,
        lane: LaneId,
        nonce: Nonce,
        input: Input,
        then: Then,
        with: impl FnOnce(Move) -> Move,
    ) -> Result<(), Refusal> {
        let tx = self
            .tracks
            .get(&lane)
            .and_then(|track| track.get(nonce))
            .map(|entry| entry.tx);
        // One statement moves a transaction once.
        if tx.is_some_and(|tx| self.plans.holds(tx)) {
            self.write().await;
        }
        let Some(track) = self.tracks.get_mut(&lane) else {
            return Ok(());
        };
        let held = track.held;
        let Some(entry) = track.get_mut(nonce) else {
            return Ok(());
        };
        let transition = entry.state.clone().apply(input)?;
        let told = transition.event.kind.is_told();
        let mut step = with(Move::on(entry.tx, entry.version, &entry.state, transition));
        // What has ended needs no remedy.
        if step.to.is_final() && step.closes.is_none() {
            let errand = self.errands.get(&entry.tx);
            step.closes = errand.map(|errand| Closing {
                remedy: errand.remedy,
                refused: Some("it has ended".to_owned()),
            });
        }
        if told {
            if entry.busy == Busy::Ending {
                // One statement moves a transaction once. Whoever wants this decides it again.
                return Ok(());
            }
            entry.busy = Busy::Ending;
            self.end(Ending {
                held,
                moves: vec![(nonce, step)],
            });
            return Ok(());
        }
        self.plans.txs.insert(step.tx);
        let plans = &mut self.plans.lanes;
        let (_, moves) = plans.entry(lane).or_insert_with(|| (held, vec![]));
        moves.push(Planned { nonce, step, then });
        Ok(())
    }

    /// Writes all that was decided.
    pub(crate) async fn write(&mut self) {
        let plans = std::mem::take(&mut self.plans).lanes;
        if plans.is_empty() {
            return;
        }
        let (batches, planned): (Vec<LaneMoves>, Vec<Vec<(Nonce, Then)>>) =
            plans.into_values().map(split).unzip();
        let written = self.node.moves.write(batches, &mut self.returning);
        let Some(written) = written.await else {
            return;
        };
        let (batches, sent) = (written.shares, written.sent);
        match written.answers {
            Ok(answers) => {
                for ((batch, planned), answer) in batches.into_iter().zip(planned).zip(answers) {
                    self.written(batch, planned, answer, sent);
                }
            }
            Err(error) => self.unwritten(batches, planned, error).await,
        }
        // Moves of a paused lane that were held up by bytes which it does not take.
        if !self.plans.lanes.is_empty() {
            Box::pin(self.write()).await;
        }
    }

    async fn unwritten(
        &mut self,
        batches: Vec<LaneMoves>,
        planned: Vec<Vec<(Nonce, Then)>>,
        error: StoreError,
    ) {
        let (lanes, moves) = (batches.len(), planned.iter().map(Vec::len).sum::<usize>());
        tracing::warn!(error = %Causes(&error), lanes, moves, "writing moves failed");
        let poisoned = matches!(error, StoreError::Invalid(_) | StoreError::Constraint(_));
        if poisoned && lanes > 1 {
            // One of them cannot be written: each lane goes alone, so that the others can.
            for (batch, planned) in batches.into_iter().zip(planned) {
                let alone = std::slice::from_ref(&batch);
                let sent = self.node.leases.sending();
                match self.node.store.apply(&self.node.holder, alone).await {
                    Ok(mut answers) => {
                        if let Some(answer) = answers.pop() {
                            self.written(batch, planned, answer, sent);
                        }
                    }
                    Err(error) => self.doubt(batch.held, &error),
                }
            }
            return;
        }
        for batch in batches {
            self.doubt(batch.held, &error);
        }
    }

    /// A write for the lane failed: what we have in mind of it is void, and if the write may still
    /// happen, only a new token puts an end to that.
    pub(crate) fn doubt(&mut self, held: Held, error: &StoreError) {
        if matches!(error, StoreError::OutcomeUnknown(_)) {
            self.doubted.insert(held.lane);
            self.memory.remove(&held.lane);
        }
        self.forget(held.lane);
    }

    fn written(
        &mut self,
        batch: LaneMoves,
        planned: Vec<(Nonce, Then)>,
        answer: LaneMoved,
        sent: Sent,
    ) {
        let held = batch.held;
        match answer {
            LaneMoved::Done(_) => {
                self.node.leases.keep(held, sent);
                for (step, (nonce, then)) in batch.moves.into_iter().zip(planned) {
                    self.moved(held, nonce, step, then);
                }
            }
            LaneMoved::Fenced => self.fenced(held, "apply"),
            LaneMoved::Paused(_) => self.unpaused(held, batch.moves, planned),
            LaneMoved::KnownHash(tx) => {
                for (step, (nonce, _)) in batch.moves.iter().zip(&planned) {
                    let Some(attempt) = &step.attempt else {
                        continue;
                    };
                    lane_error!(self.node, held, tx_id = %step.tx, %nonce, tx_hash = %attempt.hash, other_tx_id = %tx, "bytes that were to be stored are another transaction's already: these, or others of the same write");
                }
                self.forget(held.lane);
            }
            LaneMoved::Stale(_) | LaneMoved::Busy | LaneMoved::UnknownLane => {
                self.forget(held.lane);
            }
        }
    }

    /// A paused lane stores no bytes, but following goes on.
    fn unpaused(&mut self, held: Held, moves: Vec<Move>, planned: Vec<(Nonce, Then)>) {
        let rests_until = self.node.ticks.ticks() + super::worker::REST;
        let Some(track) = self.tracks.get_mut(&held.lane) else {
            return;
        };
        track.rests_until = rests_until;
        for (step, (nonce, then)) in moves.into_iter().zip(planned) {
            if step.attempt.is_some() {
                if let Some(entry) = track.get_mut(nonce) {
                    entry.busy = Busy::No;
                }
                continue;
            }
            self.plans.txs.insert(step.tx);
            let plans = &mut self.plans.lanes;
            let (_, moves) = plans.entry(held.lane).or_insert_with(|| (held, vec![]));
            moves.push(Planned { nonce, step, then });
        }
    }

    fn moved(&mut self, held: Held, nonce: Nonce, step: Move, then: Then) {
        let lane = held.lane;
        self.node.log_move(held, Some(nonce), &step);
        self.node.meters.ended(&step.to);
        self.node.waiters.moved(step.tx, &step.to);
        self.count_fork(&step);
        self.errand_over(&step);
        if step.to.is_final() {
            self.over(lane, nonce, &step);
            return;
        }
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        let seat = track.seat;
        let now = self.node.ticks.ticks();
        let Ok(version) = step.version.plus(1) else {
            return;
        };
        let mut freed = false;
        if let Some(entry) = track.get_mut(nonce) {
            entry.version = version;
            entry.publishes(&step.event);
            let was_stuck = entry.stuck().is_some();
            entry.state = step.to;
            freed = was_stuck && entry.stuck().is_none();
        }
        track.settle(nonce);
        // What held it up until now is no reason to call it stuck again.
        if freed || matches!(then, Then::Reorged) {
            track.waits_since(nonce, now);
        }
        let Some(entry) = track.get_mut(nonce) else {
            return;
        };
        match then {
            Then::Signed(known, raw) => {
                // Before it is sent: whatever block it gets into, it will be recognised.
                if let Some(board) = self.node.board(seat.lane.chain) {
                    let tx = entry.tx;
                    board.watch(known.hash, Whose { lane, nonce, tx });
                }
                entry.payload = None;
                entry.attempts.push(known);
                if entry.raw.is_none() || !Mutant::OlderAfterCancel.is_on() {
                    entry.raw = Some(raw);
                }
                entry.busy = Busy::No;
                entry.to_send = true;
                entry.refused = false;
                entry.failures = 0;
                // They get the time and the tries that the older ones had.
                entry.tries = 0;
                // Bytes that nobody has seen yet are in no block.
                entry.asked_at = Some(now);
                track.waits_since(nonce, now);
            }
            Then::Nothing => {}
            Then::Mined => {
                entry.raw = None;
                entry.to_send = false;
                entry.refused = false;
                entry.failures = 0;
                if seat.max_in_flight.is_some() {
                    self.has_room(lane);
                }
            }
            Then::Reorged => {
                entry.to_send = true;
                entry.asked_at = None;
                entry.final_in = None;
                track.send_from(nonce);
            }
        }
    }

    /// What readers of its events had is void.
    pub(crate) fn count_fork(&self, step: &Move) {
        if step.event.new_fork {
            self.node.meters.new_fork();
        }
    }
}

fn split((held, planned): (Held, Vec<Planned>)) -> (LaneMoves, Vec<(Nonce, Then)>) {
    let (moves, after) = planned
        .into_iter()
        .map(|each| (each.step, (each.nonce, each.then)))
        .unzip();
    (LaneMoves { held, moves }, after)
}
