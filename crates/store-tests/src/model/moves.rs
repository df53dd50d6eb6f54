//! Moves and due work of the model.

use std::time::Duration;

use fencepost_app::ports::{
    Claimed, Completion, Held, Holder, LaneMoved, LaneMoves, Move, Record, StoreError,
    StoredAttempt, check,
};
use fencepost_domain::B256;
use fencepost_domain::attempt::{Attempt, Outcome};
use fencepost_domain::flat::Name;
use fencepost_domain::ids::{ChainId, FeedSeq, Token, TxId};

use super::accept::words;
use super::memory::Whole;

impl Whole {
    /// `apply` and `complete`: the latter for moves that the feed tells.
    pub(super) fn moves(
        &mut self,
        holder: &Holder,
        batches: &[LaneMoves],
        told: bool,
    ) -> Result<Vec<LaneMoved>, StoreError> {
        if told {
            check::complete(batches)?;
        } else {
            check::apply(batches)?;
        }
        let each = batches
            .iter()
            .map(|batch| self.move_lane(holder, batch, told));
        Ok(each
            .map(|done| done.map_or_else(|refused| refused, LaneMoved::Done))
            .collect())
    }

    fn move_lane(
        &mut self,
        holder: &Holder,
        batch: &LaneMoves,
        told: bool,
    ) -> Result<Vec<FeedSeq>, LaneMoved> {
        if batch.moves.is_empty() {
            return Ok(Vec::new());
        }
        let lane = batch.held.lane;
        let Some(row) = self.lanes.get(&lane) else {
            return Err(LaneMoved::UnknownLane);
        };
        if !self.leads(holder, batch.held) {
            return Err(LaneMoved::Fenced);
        }
        let signs = batch.moves.iter().any(|each| each.attempt.is_some());
        if let Some(reason) = row.paused.filter(|_| signs) {
            return Err(LaneMoved::Paused(reason));
        }
        let stale = batch
            .moves
            .iter()
            .filter(|each| self.is_stale(batch.held, each));
        let stale: Vec<_> = stale.map(|each| each.tx).collect();
        if !stale.is_empty() {
            return Err(LaneMoved::Stale(stale));
        }
        self.check_hashes(row.lane.chain, &batch.moves)?;
        let mut seqs = Vec::new();
        for each in &batch.moves {
            let row = self.write(holder, batch.held, each);
            if told {
                seqs.push(self.publish(&row));
            }
        }
        self.renew_lease(lane);
        Ok(seqs)
    }

    fn is_stale(&self, held: Held, each: &Move) -> bool {
        let Some(row) = self.records.get(&each.tx) else {
            return true;
        };
        let stored = row.attempts + u32::from(each.attempt.is_some());
        let sent = each.sent.is_none_or(|sent| (1..=stored).contains(&sent.n));
        let closes = each.closes.as_ref();
        let closes = closes.is_none_or(|closing| self.can_close(closing, each.tx));
        !(row.lane_id == held.lane && row.version == each.version && sent && closes)
    }

    fn check_hashes(&self, chain: ChainId, moves: &[Move]) -> Result<(), LaneMoved> {
        let mut seen: Vec<B256> = Vec::new();
        for each in moves {
            let Some(attempt) = &each.attempt else {
                continue;
            };
            if seen.contains(&attempt.hash) || self.owner_of(chain, attempt.hash).is_some() {
                return Err(LaneMoved::KnownHash(each.tx));
            }
            seen.push(attempt.hash);
        }
        Ok(())
    }

    /// Whose attempt this hash is on this chain.
    pub(super) fn owner_of(&self, chain: ChainId, hash: B256) -> Option<TxId> {
        let mut attempts = self.attempts.iter();
        let found = attempts.find(|stored| {
            stored.attempt.hash == hash && self.records[&stored.tx].lane.chain == chain
        });
        found.map(|stored| stored.tx)
    }

    fn write(&mut self, holder: &Holder, held: Held, each: &Move) -> Record {
        let mut row = self.records[&each.tx].clone();
        let in_block = each.to.inclusion().is_some();
        row.state = each.to.clone();
        row.token = held.token;
        row.receipt = each.receipt.clone().or(row.receipt).filter(|_| in_block);
        let ended = (in_block && each.to.is_final()).then_some(self.now);
        row.confirmed_at = ended.map(|now| row.confirmed_at.unwrap_or(now));
        if let Some(error) = &each.error {
            row.last_error = Some(check::cut(error).into_owned());
        }
        if let Some(attempt) = &each.attempt {
            self.store_attempt(&mut row, attempt.clone(), held.token);
            self.count_try(&mut row);
        }
        if let Some(sent) = each.sent {
            let attempt = self.attempts.iter_mut();
            let mut of_tx = attempt.filter(|stored| stored.tx == each.tx && stored.n == sent.n);
            let stored = of_tx.next().unwrap();
            if stored.outcome != Some(Outcome::Accepted) {
                stored.outcome = Some(sent.outcome);
            }
        }
        if let Some(closing) = &each.closes {
            self.close(closing);
        }
        self.reschedule(each, &row);
        let from = (
            each.from.0.word().to_owned(),
            each.from.1.map(str::to_owned),
        );
        let node = Some(&holder.node);
        self.tell(&row, each.event.clone(), Some(from), node, held.token);
        self.save(row.clone());
        row
    }

    /// Stores a row as its next version.
    pub(super) fn save(&mut self, mut row: Record) {
        row.version = row.version.plus(1).unwrap();
        row.updated_at = self.now;
        self.records.insert(row.tx, row);
    }

    pub(super) fn store_attempt(&mut self, row: &mut Record, attempt: Attempt, token: Token) {
        row.attempts += 1;
        self.attempts.push(StoredAttempt {
            tx: row.tx,
            n: row.attempts,
            attempt,
            outcome: None,
            token,
            at: self.now,
        });
    }

    pub(super) fn count_try(&self, row: &mut Record) {
        row.submit_attempts += 1;
        row.first_submit_at = row.first_submit_at.or(Some(self.now));
        row.last_submit_at = Some(self.now);
    }

    fn reschedule(&mut self, each: &Move, row: &Record) {
        let now = self.now;
        let lane = self.lane_mut(row.lane_id);
        if each.to.name() == Name::Queued {
            return;
        }
        lane.queue.retain(|waiting| *waiting != each.tx);
        if each.to.is_final() {
            lane.due.remove(&each.tx);
        } else if let Some(due_in) = each.due_in {
            lane.due.insert(each.tx, now + due_in);
        } else {
            lane.due.entry(each.tx).or_insert(now);
        }
        if let Some(back) = each.to.gave_back().filter(|_| each.held_nonce) {
            lane.free.insert(back);
        }
    }

    fn publish(&mut self, row: &Record) -> FeedSeq {
        let last = self.feed.last().map_or(self.floors.feed, |last| last.seq);
        let seq = last.plus(1).unwrap();
        let ended = [Name::Confirmed, Name::Failed, Name::Used];
        let mut of_tx = self.feed.iter().rev().filter(|each| each.tx == row.tx);
        let corrects = of_tx.find(|each| ended.contains(&each.state));
        let corrects = corrects.map(|each| each.seq);
        let at = row.state.inclusion();
        self.feed.push(Completion {
            seq,
            tx: row.tx,
            kind: row.kind,
            lane: row.lane,
            request_id: row.request_id.clone(),
            nonce: row.state.nonce(),
            state: row.state.name(),
            sub_state: words(&row.state).1,
            tx_hash: at.map(|at| at.hash).or(row.state.hash()),
            block_number: at.map(|at| at.block.number),
            at: self.now,
            corrects,
        });
        seq
    }

    pub(super) fn claim_due(
        &mut self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Result<Claimed, StoreError> {
        check::claim_due(held, next_in_ms, limit)?;
        let (ours, fenced): (Vec<Held>, Vec<Held>) =
            held.iter().partition(|held| self.leads(holder, **held));
        let mut due = Vec::new();
        for held in &ours {
            self.renew_lease(held.lane);
            let rows = self.lanes[&held.lane].due.iter();
            let rows = rows.filter(|(_, at)| **at <= self.now);
            due.extend(rows.map(|(tx, at)| (*at, *tx, *held)));
        }
        due.sort_by_key(|(at, tx, _)| (*at, *tx));
        due.truncate(limit);
        let next = self.later(Duration::from_millis(next_in_ms));
        let mut records = Vec::new();
        for (_, tx, held) in due {
            self.lane_mut(held.lane).due.insert(tx, next);
            let mut row = self.records[&tx].clone();
            row.token = held.token;
            let ours = [Name::Allocated, Name::Tracking, Name::Stuck].contains(&row.state.name());
            if ours && row.state.hash().is_some() && row.state.inclusion().is_none() {
                self.count_try(&mut row);
            }
            self.save(row);
            records.push(self.records[&tx].clone());
        }
        records.sort_by_key(|row| (row.lane_id, row.state.nonce()));
        let fenced = fenced.into_iter().map(|held| held.lane).collect();
        Ok(Claimed { records, fenced })
    }
}
