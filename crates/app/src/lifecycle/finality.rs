//! Ending: what the feed tells is written by one completer for the whole node, one statement at a
//! time, with everything that is ready. Many at once would hold their lanes for the feed's counter.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::state::{Block, State, Why};
use fencepost_domain::transition::Input;
use tokio::sync::mpsc;

use super::follow::board::Whose;
use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::moves::Then;
use crate::lane::report::{Report, Ungiven};
use crate::lane::worker::{REST, Worker};
use crate::node::Node;
use crate::ports::{Held, LaneMoved, LaneMoves, Move, StoreError};

/// The most endings of one statement.
const BATCH: usize = 1_024;

/// Moves of one lane that the feed tells.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) held: Held,
    pub(crate) moves: Vec<(Nonce, Move)>,
}

impl Worker {
    /// The block that a transaction is in is final.
    pub(crate) async fn finish(&mut self, lane: LaneId, whose: Whose, block: Block) {
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        let entry = track.get_mut(whose.nonce);
        let Some(entry) = entry.filter(|entry| entry.tx == whose.tx) else {
            return;
        };
        let input = if entry.inclusion().is_some_and(|at| at.block == block) {
            Input::Final
        } else if let Some(by) = entry.taken_in(block) {
            if !entry.is_told_taken() {
                // The store did not take it when it was told. First that, then its end.
                entry.final_in = Some(block);
                return self.tell_taken(whose, by).await;
            }
            Input::TakenFinal(by.hash)
        } else {
            return;
        };
        entry.final_in = Some(block);
        let (tx, nonce) = (entry.tx, whose.nonce);
        if input == Input::Final && entry.chain.is_some() && entry.busy != Busy::Ending {
            // Its list is whole before it ends: nothing is published of what has ended.
            self.publish(whose, true).await;
        }
        let planned = self
            .plan(lane, nonce, input, Then::Nothing, |step| step)
            .await;
        if let Err(refusal) = planned {
            tracing::warn!(tx_id = %tx, %refusal, "a final block does not end it");
        }
    }

    /// Endings that could not be written when they were decided.
    pub(crate) async fn finish_again(&mut self, lane: LaneId) {
        let now = self.node.ticks.ticks();
        let Some(track) = self.tracks.get(&lane) else {
            return;
        };
        let again: Vec<(Whose, Block, bool)> = track
            .iter()
            .filter(|(_, entry)| entry.busy == Busy::No && entry.end_at <= now)
            .filter_map(|(nonce, entry)| {
                let tx = entry.tx;
                let whose = Whose { lane, nonce, tx };
                Some((whose, entry.final_in?, entry.state.is_final()))
            })
            .collect();
        for (whose, block, ended) in again {
            if ended {
                self.unend(whose, block).await;
            } else {
                self.finish(lane, whose, block).await;
            }
        }
    }

    /// Hands moves to the completer, together with those of the same turn.
    pub(crate) fn end(&mut self, ending: Ending) {
        let lane = ending.held.lane;
        let waiting = self.endings.entry(lane).or_insert_with(|| Ending {
            held: ending.held,
            moves: vec![],
        });
        waiting.add(ending);
    }

    /// Sends what was decided in this turn to the completer.
    pub(crate) fn complete(&mut self) {
        for (lane, mut ending) in std::mem::take(&mut self.endings) {
            let held = ending.held;
            while !ending.moves.is_empty() {
                let rest = ending.moves.split_off(ending.moves.len().min(BATCH));
                let moves = std::mem::replace(&mut ending.moves, rest);
                let nonces: Vec<Nonce> = moves.iter().map(|(nonce, _)| *nonce).collect();
                if !self.node.end(Ending { held, moves }) {
                    // It is decided again when its time comes.
                    for nonce in nonces {
                        self.idle(lane, nonce);
                    }
                }
            }
        }
    }

    /// What became of them.
    pub(crate) fn ended(
        &mut self,
        held: Held,
        moves: Vec<(Nonce, Move)>,
        answer: Result<LaneMoved, Ungiven>,
    ) {
        let lane = held.lane;
        if matches!(answer, Ok(LaneMoved::Done(_))) {
            // Also where the lane was read anew meanwhile: what is closed is not carried out again.
            for (_, step) in &moves {
                self.errand_over(step);
            }
        }
        if self
            .tracks
            .get(&lane)
            .is_none_or(|track| track.held != held)
        {
            return;
        }
        match answer {
            Ok(LaneMoved::Done(_)) => {
                for (nonce, step) in moves {
                    self.told(lane, nonce, step);
                }
            }
            Ok(LaneMoved::Fenced) => self.fenced(held, "complete"),
            Ok(LaneMoved::Busy) | Err(Ungiven::Nothing) => {
                let later = self.node.ticks.ticks() + REST;
                for (nonce, _) in moves {
                    self.idle(lane, nonce);
                    let track = self.tracks.get_mut(&lane);
                    if let Some(entry) = track.and_then(|track| track.get_mut(nonce)) {
                        entry.end_at = later;
                    }
                }
            }
            Ok(
                LaneMoved::Stale(_)
                | LaneMoved::Paused(_)
                | LaneMoved::KnownHash(_)
                | LaneMoved::UnknownLane,
            ) => self.forget(lane),
            Err(Ungiven::Unknown) => {
                self.doubted.insert(lane);
                self.memory.remove(&lane);
                self.forget(lane);
            }
        }
    }

    /// It has ended, and is not kept in mind any more.
    pub(crate) fn over(&mut self, lane: LaneId, nonce: Nonce, step: &Move) {
        self.errands.remove(&step.tx);
        let seat = self.tracks.get(&lane).map(|track| track.seat);
        if let Some(track) = self.tracks.get_mut(&lane) {
            let gone = track.remove(nonce);
            let hashes = gone.into_iter().flat_map(|entry| entry.attempts);
            if let Some(board) = self.node.board(track.seat.lane.chain) {
                board.unwatch(hashes.map(|known| known.hash));
            }
        }
        if self.node.lends_by_clock() {
            let recycled = step.to.gave_back().is_some();
            let result = if recycled { "recycled" } else { "used" };
            self.node.meters.ended_by_clock(result);
        }
        if step.to.gave_back().is_some() {
            // The nonce is free now.
            self.memory.remove(&lane);
            self.node.nudge(lane);
        } else if seat.is_some_and(|seat| seat.max_in_flight.is_some()) {
            self.has_room(lane);
        }
    }

    fn told(&mut self, lane: LaneId, nonce: Nonce, step: Move) {
        self.count_fork(&step);
        self.alert(lane, nonce, &step);
        let track = self.tracks.get(&lane);
        let entry = track.and_then(|track| track.get(nonce));
        if entry.is_some_and(|entry| entry.tx != step.tx || entry.version > step.version) {
            // The lane was read anew after this was written: more is known by now.
            return;
        }
        if step.to.is_final() {
            self.over(lane, nonce, &step);
            return;
        }
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        if track.get(nonce).is_none() {
            // The lane was read anew before this was written: it does not have in mind what is open again.
            self.forget(lane);
            return;
        }
        if let (Some(entry), Ok(version)) = (track.get_mut(nonce), step.version.plus(1)) {
            let undone =
                |to: &State| matches!(to, State::Stuck(stuck) if stuck.why == Why::ReorgAfterFinal);
            let reorged = entry.final_in.is_some() && undone(&step.to);
            entry.version = version;
            entry.publishes(&step.event);
            entry.state = step.to;
            entry.busy = Busy::No;
            if reorged {
                entry.final_in = None;
                entry.to_send = true;
                entry.asked_at = None;
            }
        }
    }
}

/// Who writes the endings of all lanes.
pub struct Completer {
    node: Arc<Node>,
    inbox: mpsc::Receiver<Ending>,
}

impl Completer {
    pub(crate) const fn new(node: Arc<Node>, inbox: mpsc::Receiver<Ending>) -> Self {
        Self { node, inbox }
    }

    /// Writes until the node is gone. What arrives while one statement is under way goes into the next.
    pub async fn run(mut self) {
        let mut waiting = None;
        loop {
            let mut endings = Vec::new();
            match waiting.take() {
                Some(ending) => endings.push(ending),
                None => match self.inbox.recv().await {
                    Some(ending) => endings.push(ending),
                    None => return,
                },
            }
            let mut lanes: BTreeMap<LaneId, Ending> = BTreeMap::new();
            let mut size = 0;
            loop {
                for ending in endings.drain(..) {
                    size += ending.moves.len();
                    match lanes.get_mut(&ending.held.lane) {
                        Some(known) if known.takes(&ending) && size <= BATCH => {
                            known.moves.extend(ending.moves);
                        }
                        // Under another token than the one before it, of the same transaction, or too
                        // much: not in one statement.
                        Some(_) => waiting = Some(ending),
                        None => {
                            lanes.insert(ending.held.lane, ending);
                        }
                    }
                }
                if size >= BATCH || waiting.is_some() {
                    break;
                }
                match self.inbox.try_recv() {
                    Ok(ending) => endings.push(ending),
                    Err(_) => break,
                }
            }
            self.write(lanes.into_values().collect()).await;
        }
    }

    async fn write(&self, endings: Vec<Ending>) {
        let batches: Vec<LaneMoves> = endings
            .iter()
            .map(|ending| LaneMoves {
                held: ending.held,
                moves: ending.moves.iter().map(|(_, step)| step.clone()).collect(),
            })
            .collect();
        let node = &self.node;
        let sent = node.leases.sending();
        let answers = node.store.complete(&node.holder, &batches).await;
        match answers {
            Ok(answers) => {
                for (ending, answer) in endings.into_iter().zip(answers) {
                    if matches!(answer, LaneMoved::Done(_)) {
                        node.leases.keep(ending.held, sent);
                        for (nonce, step) in &ending.moves {
                            node.log_move(ending.held, Some(*nonce), step);
                            node.meters.ended(&step.to);
                            node.waiters.moved(step.tx, &step.to);
                        }
                    }
                    node.report(ending.report(Ok(answer))).await;
                }
            }
            Err(StoreError::Invalid(_) | StoreError::Constraint(_)) if endings.len() > 1 => {
                // One of them cannot be written: each lane goes alone, so that the others can.
                for ending in endings {
                    Box::pin(self.write(vec![ending])).await;
                }
            }
            Err(error) => {
                tracing::warn!(error = %Causes(&error), lanes = endings.len(), "writing endings failed");
                for ending in endings {
                    node.report(ending.report(Err(Ungiven::from(&error)))).await;
                }
            }
        }
    }
}

impl Ending {
    /// Whether another one goes into the same statement. A lane that was read anew while an end of it
    /// waited here decides that end again, and no statement moves a transaction twice.
    fn takes(&self, other: &Self) -> bool {
        let has = |tx: TxId| self.moves.iter().any(|(_, step)| step.tx == tx);
        self.held == other.held && !other.moves.iter().any(|(_, step)| has(step.tx))
    }

    /// What was decided later. If it cannot go into one statement with this, the lane was read anew since: what was
    /// decided on before is void, and decided again where it holds.
    fn add(&mut self, later: Self) {
        if self.takes(&later) {
            self.moves.extend(later.moves);
        } else {
            *self = later;
        }
    }

    fn report(self, answer: Result<LaneMoved, Ungiven>) -> Report {
        Report::Ended {
            held: self.held,
            moves: self.moves,
            answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_domain::event::{Event, Kind};
    use fencepost_domain::flat::Name;
    use fencepost_domain::ids::{Token, Version};
    use fencepost_domain::state::Failed;
    use uuid::Uuid;

    use super::*;

    fn ending(token: u64, tx: u128) -> Ending {
        let step = Move {
            tx: TxId(Uuid::from_u128(tx)),
            version: Version::FIRST,
            from: (Name::Queued, None),
            held_nonce: false,
            to: State::Failed(Failed::Expired),
            event: Event::new(Kind::Failed),
            attempt: None,
            sent: None,
            receipt: None,
            error: None,
            due_in: None,
            closes: None,
        };
        Ending {
            held: Held {
                lane: LaneId(1),
                token: Token::new(token).unwrap(),
            },
            moves: vec![(Nonce::default(), step)],
        }
    }

    #[test]
    fn one_statement_takes_a_transaction_once_and_a_lane_under_one_token() {
        let first = ending(1, 1);
        assert!(first.takes(&ending(1, 2)));
        assert!(!first.takes(&ending(1, 1)));
        assert!(!first.takes(&ending(2, 2)));
    }

    #[test]
    fn what_was_decided_before_a_lane_was_read_anew_gives_way() {
        let txs = |ending: &Ending| -> Vec<u128> {
            let moves = ending.moves.iter();
            moves.map(|(_, step)| step.tx.0.as_u128()).collect()
        };
        let mut waiting = ending(1, 1);
        waiting.add(ending(1, 2));
        assert_eq!(txs(&waiting), [1, 2]);
        waiting.add(ending(1, 1));
        assert_eq!(txs(&waiting), [1], "read anew under the same token");
        waiting.add(ending(2, 3));
        assert_eq!(txs(&waiting), [3], "read anew under another");
    }
}
