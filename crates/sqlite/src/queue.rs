//! The queue: transactions without a nonce, in order of arrival, and their promotion.

use std::collections::HashMap;

use fencepost_app::ports::{
    Enqueued, Holder, LaneCreated, LanePromotion, LaneRefusal, NewTx, Record, Stored,
};
use fencepost_domain::ids::{LaneId, Nonce, Token, TxId};
use fencepost_domain::state::{Queued, State, Wait};
use rusqlite::params;

use crate::accept::{closed, has_free, insert, plan, spend};
use crate::db::{Db, Verdict};
use crate::due;
use crate::error::Answer;
use crate::history::{Author, Teller, words};
use crate::lease::LaneRow;
use crate::reads;
use crate::row::{Cells, key, record, select_record, time};
use crate::step::Change;

pub(crate) fn enqueue(
    db: &Db<'_>,
    txs: &[(LaneId, NewTx)],
    wait: Wait,
    queue_max: usize,
) -> Answer<Vec<Enqueued>> {
    let mut waiting: HashMap<LaneId, Option<usize>> = HashMap::new();
    let mut answers = Vec::with_capacity(txs.len());
    for (lane, tx) in txs {
        if !waiting.contains_key(lane) {
            waiting.insert(*lane, length(db, *lane)?);
        }
        let Some(Some(length)) = waiting.get_mut(lane) else {
            answers.push(Enqueued::UnknownLane);
            continue;
        };
        let answer = if let Some(stored) = reads::twin(db, *lane, tx)? {
            let stored = Box::new(stored);
            match tx.matches(*lane, &stored) {
                true => Enqueued::Known(stored),
                false => Enqueued::Conflict(stored),
            }
        } else if *length >= queue_max {
            Enqueued::Full
        } else {
            *length += 1;
            append(db, *lane, tx, wait)?;
            Enqueued::Queued { at: time(db.now)? }
        };
        answers.push(answer);
    }
    Ok(answers)
}

/// How many wait in the lane; none when there is no such lane.
fn length(db: &Db<'_>, lane: LaneId) -> Answer<Option<usize>> {
    if LaneRow::find(db, lane)?.is_none() {
        return Ok(None);
    }
    let n: i64 = db.value(
        "SELECT count(*) FROM lane_queue WHERE lane_id = ?1",
        [lane.0],
    )?;
    Ok(Some(usize::try_from(n).unwrap_or_default()))
}

fn append(db: &Db<'_>, lane: LaneId, tx: &NewTx, wait: Wait) -> Answer<()> {
    let state = State::Queued(Queued { wait });
    insert(db, lane, tx, &state, None, Token::default())?;
    db.run_one(
        "INSERT INTO lane_queue (lane_id, tx_id) VALUES (?1, ?2)",
        params![lane.0, key(tx.tx)],
    )
}

pub(crate) fn queued(db: &Db<'_>, lane: LaneId, limit: usize) -> Answer<Vec<Record>> {
    db.all(
        select_record!(
            "FROM lane_queue q JOIN managed_tx t ON t.tx_id = q.tx_id
             JOIN signer_lease l ON l.lane_id = t.lane_id
             WHERE q.lane_id = ?1 ORDER BY q.queue_seq LIMIT ?2"
        ),
        params![lane.0, limit],
        record,
    )
}

/// One look-up for each lane, however many wait in it.
pub(crate) fn lanes(db: &Db<'_>, after: Option<LaneId>, limit: usize) -> Answer<Vec<LaneId>> {
    let mut after = after.map_or(i64::MIN, |lane| lane.0);
    let mut found = Vec::new();
    while found.len() < limit {
        let next = db.all(
            "SELECT lane_id FROM lane_queue WHERE lane_id > ?1 ORDER BY lane_id LIMIT 1",
            params![after],
            |row| Ok(row.get::<_, i64>(0)?),
        )?;
        let Some(&lane) = next.first() else { break };
        found.push(LaneId(lane));
        after = lane;
    }
    Ok(found)
}

impl Verdict for LaneCreated {
    fn is_written(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

pub(crate) fn promote(
    db: &Db<'_>,
    holder: &Holder,
    promotions: &[LanePromotion],
) -> Answer<Vec<LaneCreated>> {
    promotions
        .iter()
        .map(|promotion| db.lane(|| promote_lane(db, holder, promotion)))
        .collect()
}

fn promote_lane(db: &Db<'_>, holder: &Holder, promotion: &LanePromotion) -> Answer<LaneCreated> {
    let refused = |refusal| Ok(LaneCreated::Refused(refusal));
    let Some(row) = LaneRow::find(db, promotion.held.lane)? else {
        return refused(LaneRefusal::UnknownLane);
    };
    if promotion.txs.is_empty() {
        return done(db, &row, Vec::new(), row.next_nonce);
    }
    if let Some(refusal) = closed(db, &row, holder, promotion.held, false)? {
        return refused(refusal);
    }
    let wanted = promotion.txs.len();
    let plan = match plan(db, &row, &promotion.free, promotion.cursor, wanted)? {
        Ok(plan) => plan,
        Err(refusal) => return refused(refusal),
    };
    if front(db, row.id, wanted)? != promotion.txs {
        return refused(LaneRefusal::Stale);
    }
    let mut teller = Teller {
        lane: row.id,
        seq: row.lane_seq,
        author: Author {
            node: Some(&holder.node),
            token: promotion.held.token,
        },
    };
    let at = time(db.now)?;
    let mut txs = Vec::with_capacity(wanted);
    for (tx, nonce) in promotion.txs.iter().zip(&plan.nonces) {
        let found = reads::by_id(db, *tx)?;
        let in_time = |found: &Record| found.not_after.is_none_or(|until| until >= at);
        let found = found.filter(in_time).map(|found| found.state);
        let Some(State::Queued(queued)) = found else {
            return refused(LaneRefusal::Stale);
        };
        let before = words(&State::Queued(queued.clone()));
        let moved = queued.allocate(*nonce);
        Change::of(*tx, &moved.to)
            .under(promotion.held.token)
            .write(db)?;
        leave(db, *tx)?;
        due::add(db, row.id, *tx, *nonce, db.now)?;
        teller.tell(db, *tx, &moved.event, before, &moved.to)?;
        txs.push(Stored::New { nonce: *nonce, at });
    }
    spend(db, row.id, &plan)?;
    row.gave(db, plan.next, teller.seq)?;
    done(db, &row, txs, plan.next)
}

fn front(db: &Db<'_>, lane: LaneId, n: usize) -> Answer<Vec<TxId>> {
    db.all(
        "SELECT tx_id FROM lane_queue WHERE lane_id = ?1 ORDER BY queue_seq LIMIT ?2",
        params![lane.0, n],
        |row| Cells::of(row).tx(),
    )
}

/// Takes a transaction out of the queue.
pub(crate) fn leave(db: &Db<'_>, tx: TxId) -> Answer<()> {
    db.run_one("DELETE FROM lane_queue WHERE tx_id = ?1", [key(tx)])
}

fn done(db: &Db<'_>, row: &LaneRow, txs: Vec<Stored>, next_nonce: Nonce) -> Answer<LaneCreated> {
    Ok(LaneCreated::Done {
        txs,
        next_nonce,
        more_free: has_free(db, row.id)?,
    })
}
